//! Writing HTML in which every name and every content may be hostile.
//!
//! Owns escaping. Text reaches the page only through [`HtmlFragment::text`] and its relatives; only the program's own
//! markup is raw.

use crate::name::{escape, is_deceptive, unescape};

/// A piece of a page.
#[derive(Debug, Default)]
pub(super) struct HtmlFragment(String);

impl HtmlFragment {
    /// Appends this program's own markup.
    pub(super) fn raw(&mut self, markup: &str) -> &mut HtmlFragment {
        self.0.push_str(markup);
        self
    }

    /// Appends text of any content. Safe between tags and in quoted attributes.
    pub(super) fn text(&mut self, text: &str) -> &mut HtmlFragment {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\t' => self.0.push('\t'),
                c if is_deceptive(c) => {
                    self.0.push_str(&format!("\\u{{{:x}}}", u32::from(c)));
                }
                c => self.0.push(c),
            }
        }
        self
    }

    /// Appends text that [`escape`](crate::name::escape) has written, with its line ends and tabs as such.
    pub(super) fn escaped_lines(&mut self, escaped: &str) -> &mut HtmlFragment {
        let Some(bytes) = unescape(escaped) else {
            return self.text(escaped);
        };
        for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if number > 0 {
                self.0.push('\n');
            }
            match std::str::from_utf8(line) {
                Ok(line) => self.text(line),
                Err(_) => self.text(&escape(line)),
            };
        }
        self
    }

    /// Appends a number.
    pub(super) fn number(&mut self, number: u64) -> &mut HtmlFragment {
        self.text(&grouped(number))
    }

    /// Appends a command to copy.
    pub(super) fn command(&mut self, command: &str) -> &mut HtmlFragment {
        self.raw("<span class=\"cmd\"><code>").text(command);
        self.raw("</code><button type=\"button\" class=\"copy\" aria-label=\"Copy the command\">Copy</button></span>")
    }

    /// Returns the markup.
    pub(super) fn into_string(self) -> String {
        self.0
    }

    /// Returns the length in bytes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Formats a number with its thousands separated.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun.
pub(super) fn many(count: u64, one: &str, more: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { more })
}

/// Formats a number of bytes.
pub(super) fn size(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["bytes", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return match unit {
                "bytes" if count == 1 => "1 byte".to_owned(),
                "bytes" => format!("{count} bytes"),
                unit if value >= 100.0 => format!("{value:.0} {unit}"),
                unit => format!("{value:.1} {unit}"),
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_escaped() {
        let mut html = HtmlFragment::default();
        html.text("</code><script>alert('1')</script>\" onload=\"x&\u{202e}\u{0}\n");
        let text = html.into_string();
        assert!(
            !text.contains('<') && !text.contains('"') && !text.contains('\''),
            "{text}"
        );
        assert!(text.ends_with(r"x&amp;\u{202e}\u{0}\u{a}"), "{text}");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(1_234_567).replace('\u{2009}', " "), "1 234 567");
    }
}
