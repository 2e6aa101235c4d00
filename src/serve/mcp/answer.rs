//! [`ToolAnswer`]: what a tool says, as text and with a shape, and how both become the protocol's result.

use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::exec::{Outcome, Status};
use crate::operator::text::{LineSign, TextComparison};

/// The parts of an outcome that tell a model nothing of what it did: they are in the audit log.
const FOR_OPERATORS: [&str; 3] = ["bound", "limits", "suppress_success_output"];

/// The answer of a tool.
#[derive(Debug, Clone, Default)]
pub(super) struct ToolAnswer {
    /// For a model to read.
    pub(super) text: String,
    /// For a program to read.
    pub(super) data: Map<String, Value>,
    /// True if the tool did not do what was asked for.
    pub(super) is_error: bool,
    /// The resources with what the text leaves out.
    pub(super) links: Vec<Resource>,
}

impl ToolAnswer {
    /// Makes one of a text.
    pub(super) fn new(text: impl Into<String>) -> ToolAnswer {
        ToolAnswer {
            text: text.into(),
            ..ToolAnswer::default()
        }
    }

    /// Makes one that says why nothing came of it.
    pub(super) fn failed(text: impl Into<String>) -> ToolAnswer {
        ToolAnswer {
            is_error: true,
            ..ToolAnswer::new(text)
        }
    }

    /// The same with a value.
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> ToolAnswer {
        self.data.insert(name.to_owned(), value.into());
        self
    }

    /// Makes one of what came of a request. The text is what was written; what else there is to say stands behind it.
    pub(super) fn of_outcome(outcome: &Outcome) -> ToolAnswer {
        let mut text = String::from_utf8_lossy(&outcome.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&outcome.stderr);
        if !stderr.is_empty() {
            end_line(&mut text);
            text.push_str(&stderr);
        }
        if outcome.status != Status::Success {
            end_line(&mut text);
            let status = word(outcome.status);
            text.push_str(&format!("[{status}, exit code {}]\n", outcome.return_code));
        }
        for warning in &outcome.warnings {
            end_line(&mut text);
            text.push_str(&format!("[warning: {warning}]\n"));
        }
        let mut data = match serde_json::to_value(outcome) {
            Ok(Value::Object(data)) => data,
            _ => Map::new(),
        };
        for name in FOR_OPERATORS {
            data.remove(name);
        }
        if let Some(error) = &outcome.unavailable {
            data.insert("error_message".to_owned(), error.full_message().into());
            end_line(&mut text);
            text.push_str(&format!("[{}]\n", error.full_message()));
        }
        ToolAnswer {
            text,
            data,
            is_error: !matches!(outcome.status, Status::Success | Status::Failed),
            links: Vec::new(),
        }
    }

    /// Adds a line to the text, and to the notes, which a client has that shows no text.
    pub(super) fn add_note(&mut self, note: &str) {
        self.add_line(note);
        let notes = self.data.entry("notes").or_insert_with(|| json!([]));
        if let Value::Array(notes) = notes {
            notes.push(note.into());
        }
    }

    /// Adds a line to the text.
    pub(super) fn add_line(&mut self, line: &str) {
        end_line(&mut self.text);
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Returns the protocol's result. `has_links`: whether the client's revision has links to resources.
    pub(super) fn into_result(self, has_links: bool) -> CallToolResult {
        let mut data = self.data;
        // Clients that show a model one of the two alone show it the text all the same, once.
        if !data.contains_key("stdout") && !data.contains_key("diff") {
            data.insert("text".to_owned(), json!(self.text));
        }
        let mut content = vec![ContentBlock::text(self.text)];
        if has_links {
            content.extend(self.links.into_iter().map(ContentBlock::resource_link));
        }
        let mut result = match self.is_error {
            true => CallToolResult::error(content),
            false => CallToolResult::success(content),
        };
        result.structured_content = Some(Value::Object(data));
        result
    }
}

impl From<Error> for ToolAnswer {
    fn from(error: Error) -> ToolAnswer {
        ToolAnswer::failed(error.full_message())
    }
}

/// The word for a status, as in JSON.
pub(super) fn word(status: Status) -> String {
    let word = serde_json::to_value(status).ok();
    word.and_then(|word| word.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// Keeps the start and the end of a text that is longer than so many bytes, and says between them how much is left out.
pub(super) fn cut(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let half = most / 2;
    let start = text.floor_char_boundary(half);
    let end = text.ceil_char_boundary(text.len() - half);
    let (head, tail) = (
        text.get(..start).unwrap_or_default(),
        text.get(end..).unwrap_or_default(),
    );
    let left_out = end - start;
    format!("{head}\n[{left_out} bytes left out]\n{tail}")
}

/// Returns the difference of two texts as a unified patch without names.
pub(super) fn patch(before: Vec<u8>, after: Vec<u8>) -> String {
    let compared = TextComparison::new(before, after);
    let mut text = String::new();
    for hunk in compared.hunks() {
        text.push_str(&format!("{hunk}\n"));
        for (sign, line) in compared.lines(&hunk) {
            text.push(match sign {
                LineSign::Same => ' ',
                LineSign::Removed => '-',
                LineSign::Added => '+',
            });
            text.push_str(&String::from_utf8_lossy(line));
            if !line.ends_with(b"\n") {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_both_ends() {
        assert_eq!(cut("abc".to_owned(), 3), "abc");
        let text = format!("start{}end", "ä".repeat(100));
        let cut = cut(text, 20);
        assert!(cut.starts_with("start") && cut.ends_with("end"), "{cut}");
        assert!(cut.contains("bytes left out]"), "{cut}");
    }

    #[test]
    fn a_patch_has_hunks_and_ends_of_files() {
        let text = patch(b"a\nb\n".to_vec(), b"a\nc".to_vec());
        assert_eq!(
            text,
            "@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n"
        );
    }
}
