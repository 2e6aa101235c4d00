//! [`TurnMark`]: the beginning of a turn, as the program of a run has told it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::name::{WorldPath, is_deceptive};

/// The longest text, in bytes.
const MAX_TEXT: usize = 200;

/// The longest id of a conversation, in bytes.
const MAX_CONVERSATION: usize = 80;

/// The beginning of a turn: of what an agent does about one prompt of its user. It is the occupant's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnMark {
    /// The number of the turn in its conversation, from 1; without a conversation, in its run.
    pub turn: u32,
    /// The first line of the prompt, or whatever text the mark was given; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The agent's own id of the conversation, if it has told one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// Files that the run had open for writing then: what is written to them in this turn is a change of an earlier one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub written: Vec<WorldPath>,
    /// True if there were more of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub others: bool,
}

impl TurnMark {
    /// The most files that are named in a mark.
    pub const MAX_WRITTEN: usize = 100;

    /// Makes one of what an occupant has said: of the text the first line that is not blank, cut, without what a person
    /// must not be shown; of the id the letters, digits and signs that such ids have.
    pub fn new(turn: u32, text: &str, conversation: Option<&str>) -> TurnMark {
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        let shown = |c: char| match is_deceptive(c) {
            true => '\u{fffd}',
            false => c,
        };
        let id = conversation.map(|id| {
            let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
            id.chars().filter(plain).take(MAX_CONVERSATION).collect()
        });
        TurnMark {
            turn,
            text: cut(line.unwrap_or_default().chars().map(shown)),
            conversation: id.filter(|id: &String| !id.is_empty()),
            written: Vec::new(),
            others: false,
        }
    }
}

/// Gathers characters as far as they fit, and says so where they do not.
fn cut(characters: impl Iterator<Item = char>) -> String {
    let mut text = String::new();
    for c in characters {
        if text.len() + c.len_utf8() > MAX_TEXT - '…'.len_utf8() {
            text.push('…');
            break;
        }
        text.push(c);
    }
    text
}

impl fmt::Display for TurnMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "turn {}", self.turn)?;
        match &*self.text {
            "" => Ok(()),
            text => write!(f, ": {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_has_one_short_line_that_can_be_shown() {
        let mark = TurnMark::new(
            3,
            "\n  fix \u{1b}[31m\u{202e}it \nand more",
            Some("a/b\n-1"),
        );
        assert_eq!(mark.to_string(), "turn 3: fix \u{fffd}[31m\u{fffd}it");
        assert_eq!(mark.conversation.as_deref(), Some("ab-1"));
        let long = TurnMark::new(1, &"ä".repeat(500), Some("/"));
        assert!(long.text.len() <= MAX_TEXT && long.text.ends_with("ä…"));
        assert_eq!(long.conversation, None);
        assert_eq!(TurnMark::new(1, "", None).to_string(), "turn 1");
    }
}
