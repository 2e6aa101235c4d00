//! Reading JSON in place, in the form of journals: no white space outside texts, and whole numbers.
//!
//! Knows no field. A method returns `None` where the text is not in this form; the position is then undefined.

use std::borrow::Cow;

/// The depth up to which a skipped value may be nested.
const DEEPEST: usize = 64;

/// The bytes of a line that have not been read yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonCursor<'a>(pub(super) &'a [u8]);

/// A text value, with its quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonText<'a> {
    quoted: &'a [u8],
    has_escape: bool,
}

impl<'a> JsonText<'a> {
    /// Returns the text that the value stands for; `None` if an escape is invalid, or it is not UTF-8.
    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        match self.has_escape {
            true => serde_json::from_slice(self.quoted).ok().map(Cow::Owned),
            false => std::str::from_utf8(self.without_quotes())
                .ok()
                .map(Cow::Borrowed),
        }
    }

    /// Returns a text that has no escape.
    pub(super) fn plain(self) -> Option<&'a str> {
        match self.has_escape {
            true => None,
            false => std::str::from_utf8(self.without_quotes()).ok(),
        }
    }

    /// Returns the bytes of a text that has no escape. They may not be UTF-8.
    pub(super) fn plain_bytes(self) -> Option<&'a [u8]> {
        (!self.has_escape).then(|| self.without_quotes())
    }

    fn without_quotes(self) -> &'a [u8] {
        let end = self.quoted.len().saturating_sub(1);
        self.quoted.get(1..end).unwrap_or_default()
    }
}

impl<'a> JsonCursor<'a> {
    /// Returns whether everything has been read.
    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a byte comes next.
    pub(super) fn is_next(&self, byte: u8) -> bool {
        self.0.first() == Some(&byte)
    }

    /// Skips an expected text.
    #[inline]
    pub(super) fn skip(&mut self, word: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(word.as_bytes())?;
        Some(())
    }

    /// Skips an array of arrays of numbers, and returns its text.
    pub(super) fn number_arrays(&mut self) -> Option<&'a [u8]> {
        let mut end = 0;
        while self.0.get(end) != Some(&b']') {
            end += memchr::memchr(b']', self.0.get(end..)?)? + 1;
        }
        let (arrays, rest) = self.0.split_at_checked(end + 1)?;
        self.0 = rest;
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'[' | b']' | b',' | b'-');
        arrays.iter().all(is_part).then_some(arrays)
    }

    /// Reads the rest of a field's name, and the colon after it.
    #[inline]
    pub(super) fn name(&mut self) -> Option<&'a [u8]> {
        let end = memchr::memchr(b'"', self.0)?;
        let (name, rest) = self.0.split_at_checked(end)?;
        self.0 = rest.strip_prefix(b"\":")?;
        Some(name)
    }

    /// Reads an object: `field` reads the value of each field by its name. Returns after the closing brace.
    #[inline]
    pub(super) fn object(
        &mut self,
        mut field: impl FnMut(&'a [u8], &mut JsonCursor<'a>) -> Option<()>,
    ) -> Option<()> {
        self.skip("{\"")?;
        loop {
            field(self.name()?, self)?;
            if self.skip(",\"").is_none() {
                return self.skip("}");
            }
        }
    }

    /// Reads an array that is not empty; `item` reads each of its values.
    pub(super) fn array(
        &mut self,
        mut item: impl FnMut(&mut JsonCursor<'a>) -> Option<()>,
    ) -> Option<()> {
        self.skip("[")?;
        loop {
            item(self)?;
            if self.skip(",").is_none() {
                return self.skip("]");
            }
        }
    }

    /// Reads a text.
    pub(super) fn text(&mut self) -> Option<JsonText<'a>> {
        if !self.is_next(b'"') {
            return None;
        }
        let mut end = memchr::memchr(b'"', self.0.get(1..)?)? + 1;
        // Without an early exit, so that the compiler can vectorize it.
        let escape = |has: bool, byte: &u8| has | (*byte == b'\\');
        let has_escape = self.0.get(..end)?.iter().fold(false, escape);
        if has_escape {
            end = self.end_of_escaped()?;
        }
        let (quoted, rest) = self.0.split_at_checked(end + 1)?;
        self.0 = rest;
        // Control characters are not allowed in a text.
        let control = |has: bool, byte: &u8| has | (*byte < b' ');
        let has_control = quoted.iter().fold(false, control);
        (!has_control).then_some(JsonText { quoted, has_escape })
    }

    /// Returns the position of the last quote of a text with escapes.
    fn end_of_escaped(&self) -> Option<usize> {
        let mut end = 1;
        loop {
            end += memchr::memchr2(b'"', b'\\', self.0.get(end..)?)?;
            if self.0.get(end) == Some(&b'"') {
                return Some(end);
            }
            end += 2;
        }
    }

    /// Reads a whole number without a sign.
    #[inline]
    pub(super) fn number<T: TryFrom<u64>>(&mut self) -> Option<T> {
        let mut number: u64 = 0;
        let mut length = 0;
        for digit in self.0.iter().take_while(|byte| byte.is_ascii_digit()) {
            number = number
                .checked_mul(10)?
                .checked_add(u64::from(digit - b'0'))?;
            length += 1;
        }
        let (digits, rest) = self.0.split_at_checked(length)?;
        // No digits, or a leading zero: not a number.
        if length == 0 || (length > 1 && digits.starts_with(b"0")) {
            return None;
        }
        self.0 = rest;
        T::try_from(number).ok()
    }

    /// Reads a whole number.
    pub(super) fn signed(&mut self) -> Option<i64> {
        match self.skip("-") {
            Some(()) => {
                let number = self.number().filter(|number| *number > 0)?;
                0_i64.checked_sub_unsigned(number)
            }
            None => self.number(),
        }
    }

    /// Skips a value whose text will be parsed if it is needed, and returns the text.
    pub(super) fn value(&mut self) -> Option<&'a [u8]> {
        let all = self.0;
        let mut depth = 0_usize;
        loop {
            match *self.0.first()? {
                b'"' => drop(self.text()?),
                byte => {
                    match byte {
                        b'[' | b'{' => depth += 1,
                        b']' | b'}' => depth = depth.checked_sub(1)?,
                        0..=b' ' => return None,
                        _ => {}
                    }
                    self.0 = self.0.get(1..)?;
                }
            }
            if depth == 0 && matches!(self.0.first()?, b',' | b'}' | b']') {
                return all.get(..all.len() - self.0.len());
            }
        }
    }

    /// Skips the value of a field that is unknown.
    pub(super) fn unknown(&mut self, name: &[u8]) -> Option<()> {
        check_name(name)?;
        self.skip_value(DEEPEST)
    }

    fn skip_value(&mut self, depth: usize) -> Option<()> {
        let deeper = depth.checked_sub(1)?;
        match self.0.first()? {
            // Decoding finds an invalid escape.
            b'"' => self.text()?.text().map(drop),
            b'{' if self.skip("{}").is_some() => Some(()),
            b'{' => self.object(|name, rest| {
                check_name(name)?;
                rest.skip_value(deeper)
            }),
            b'[' if self.skip("[]").is_some() => Some(()),
            b'[' => self.array(|rest| rest.skip_value(deeper)),
            b't' => self.skip("true"),
            b'f' => self.skip("false"),
            b'n' => self.skip("null"),
            _ => self.skip_number(),
        }
    }

    /// Skips a number of any kind, which a later release may write.
    fn skip_number(&mut self) -> Option<()> {
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = self.0.iter().take_while(|byte| is_part(byte)).count();
        let (number, rest) = self.0.split_at_checked(length)?;
        serde_json::from_slice::<serde::de::IgnoredAny>(number).ok()?;
        self.0 = rest;
        Some(())
    }
}

/// Checks that bytes can be the name of a field, without an escape.
fn check_name(name: &[u8]) -> Option<()> {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'\\';
    std::str::from_utf8(name)
        .is_ok_and(|name| name.bytes().all(is_plain))
        .then_some(())
}
