//! [`IdScanner`]: the id of a request that is not parsed, because it is no JSON, or too much of it.
//!
//! Owns nothing but the bytes of one member at a time, up to a bound, so a message of any length can be scanned. A caller
//! waits for the answer that has its id; one without an id answers nobody.

use rmcp::model::RequestId;

/// The largest length of a name or an id that is read, in bytes.
const MAX_ID_BYTES: usize = 1 << 10;

/// The part of the message that the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanState {
    /// The brace that opens the message.
    Object,
    /// A name of the outermost object.
    Name,
    /// Its value, or a part of that.
    Value,
    /// Nothing that counts: the object is closed, or there was none.
    Nothing,
}

/// Finds `id` among the members of the outermost object, in bytes that come in pieces.
#[derive(Debug)]
pub(super) struct IdScanner {
    expected: ScanState,
    /// The number of brackets that are open within the value.
    depth: usize,
    is_text: bool,
    is_escaped: bool,
    /// The name or the value so far.
    taken: Vec<u8>,
    /// The name of the value.
    name: String,
    has_method: bool,
    ids: usize,
    id: Option<RequestId>,
}

impl IdScanner {
    pub(super) fn new() -> IdScanner {
        IdScanner {
            expected: ScanState::Object,
            depth: 0,
            is_text: false,
            is_escaped: false,
            taken: Vec::new(),
            name: String::new(),
            has_method: false,
            ids: 0,
            id: None,
        }
    }

    /// Reads on.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.expected == ScanState::Nothing {
                return;
            }
            self.step(*byte);
        }
    }

    /// Returns the id, if the bytes began a request that has just one, a text or a whole number.
    pub(super) fn finish(self) -> Option<RequestId> {
        self.id.filter(|_| self.has_method && self.ids == 1)
    }

    fn step(&mut self, byte: u8) {
        if self.is_text {
            self.take(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_text = false,
                _ => {}
            }
            return;
        }
        match (self.expected, byte) {
            // Blanks within a value keep `1 2` from being 12.
            (ScanState::Value, b' ' | b'\t' | b'\r' | b'\n') if !self.taken.is_empty() => {
                self.take(byte);
            }
            (_, b' ' | b'\t' | b'\r' | b'\n') => {}
            (ScanState::Object, b'{') => self.expected = ScanState::Name,
            (ScanState::Name | ScanState::Value, b'"') => {
                self.is_text = true;
                self.take(byte);
            }
            (ScanState::Name, b':') => {
                self.name = serde_json::from_slice(&self.taken).unwrap_or_default();
                self.taken.clear();
                self.expected = ScanState::Value;
            }
            (ScanState::Value, b'{' | b'[') => {
                self.depth += 1;
                self.take(byte);
            }
            (ScanState::Value, b'}' | b']') if self.depth > 0 => self.depth -= 1,
            (ScanState::Value, b',') if self.depth == 0 => {
                self.end_member();
                self.expected = ScanState::Name;
            }
            (ScanState::Value, b'}') => {
                self.end_member();
                self.expected = ScanState::Nothing;
            }
            (ScanState::Value, byte) => self.take(byte),
            _ => self.expected = ScanState::Nothing,
        }
    }

    /// Keeps a byte of a name or a value; one that is longer than the bound is no JSON any more, and no id.
    fn take(&mut self, byte: u8) {
        if self.taken.len() <= MAX_ID_BYTES {
            self.taken.push(byte);
        }
    }

    fn end_member(&mut self) {
        match self.name.as_str() {
            "method" => self.has_method = true,
            "id" => {
                self.ids += 1;
                self.id = serde_json::from_slice(&self.taken).ok();
            }
            _ => {}
        }
        self.name.clear();
        self.taken.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_in(text: &str) -> Option<RequestId> {
        let mut whole = IdScanner::new();
        whole.read(text.as_bytes());
        let mut bytewise = IdScanner::new();
        for byte in text.as_bytes() {
            bytewise.read(&[*byte]);
        }
        let found = whole.finish();
        assert_eq!(bytewise.finish(), found, "{text}");
        found
    }

    #[test]
    fn ids_of_broken_requests_are_found() {
        for (text, id) in [
            (r#"{"id":1,"method":"x""#, None),
            (r#"{"id":1,"method":"x"}"#, Some(1)),
            (r#" { "method" : "x" , "id" : 2 } more"#, Some(2)),
            (
                r#"{"method":"x","params":{"id":9,"a":["}",{"id":8}]},"id":3}"#,
                Some(3),
            ),
            (r#"{"method":"\ud83d","id":4,"#, Some(4)),
            (r#"{"\u0069d":5,"method":5}"#, Some(5)),
            (r#"{"a":"\\","id":6,"method":"x"}"#, Some(6)),
            (r#"{"a":"\"id\":1,","id":7,"method":"x"}"#, Some(7)),
            (r#"{"id":8,"result":{"method":"x"}}"#, None),
            (r#"{"id":1,"id":2,"method":"x"}"#, None),
            (r#"{"id":1.5,"method":"x"}"#, None),
            (r#"{"id":null,"method":"x"}"#, None),
            (r#"{"id":[1],"method":"x"}"#, None),
            (r#"{"id":{},"method":"x"}"#, None),
            (r#"{"id":"\ud800","method":"x"}"#, None),
            (r#"{"id":1 2,"method":"x"}"#, None),
            (r#"{"id": 9 , "method":"x"}"#, Some(9)),
            (r#"[{"id":1,"method":"x"}]"#, None),
            (r#""id":1,"method":"x""#, None),
            ("", None),
            ("{}", None),
        ] {
            assert_eq!(id_in(text), id.map(RequestId::Number), "{text}");
        }
        let long = format!(
            r#"{{"method":"x","id":"{}"}}"#,
            "a".repeat(2 * MAX_ID_BYTES)
        );
        assert_eq!(id_in(&long), None);
        assert_eq!(
            id_in(r#"{"method":"x","id":"a\"b"}"#),
            Some(RequestId::String("a\"b".into()))
        );
    }
}
