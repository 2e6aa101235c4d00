//! What a change is the doing of: a process that works inside by itself, or a request that an executor carries out.
//!
//! Owns the identity of a run and the words for the kinds of origins. A **run** is one request of any executor: one line of
//! the shell, one program, one task, one call of a tool, one undo. Each record that it causes carries its [`Origin`], and
//! the first of them in a session has a `run` record before it, which says what was asked for ([`Run`]).

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// The digits of a run's id (Crockford's base 32): no `i`, `l`, `o` or `u`, so no id is a word, `last` above all.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// How many digits an id has, of five bits each.
const LENGTH: usize = 12;

/// The longest command that a run's record holds, in bytes. Of a longer one the beginning says enough to know it by.
const LONGEST_COMMAND: usize = 16 << 10;

/// The id of a run: 60 random bits, written as twelve digits and lower-case letters. Random from the first digit on, so a
/// few digits are enough for an operator to name one of many.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(u64);

impl RunId {
    /// Returns a fresh id.
    pub fn random() -> RunId {
        static ANOTHER: AtomicU64 = AtomicU64::new(0);
        let mut bytes = [0; 8];
        let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        let mut number = u64::from_ne_bytes(bytes);
        if filled != Ok(bytes.len()) {
            // Without random numbers ids are still different from each other, only not hard to guess.
            let now = chrono::Utc::now().timestamp_micros().cast_unsigned();
            let salt = ANOTHER.fetch_add(1, Ordering::Relaxed) << 20;
            number ^= now.rotate_left(24) ^ salt ^ u64::from(std::process::id());
        }
        RunId(number >> (u64::BITS as usize - 5 * LENGTH))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(LENGTH);
        for place in (0..LENGTH).rev() {
            let digit = DIGITS.get((self.0 >> (5 * place)) as usize % DIGITS.len());
            text.push(char::from(digit.copied().unwrap_or(b'0')));
        }
        f.pad(&text)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no run's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotARunId;

impl fmt::Display for NotARunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a run's id has twelve digits and lower-case letters, without i, l, o and u")
    }
}

impl std::error::Error for NotARunId {}

impl FromStr for RunId {
    type Err = NotARunId;

    fn from_str(text: &str) -> Result<RunId, NotARunId> {
        if text.len() != LENGTH {
            return Err(NotARunId);
        }
        let mut number = 0;
        for byte in text.bytes() {
            let digit = DIGITS.iter().position(|digit| *digit == byte);
            number = number << 5 | digit.ok_or(NotARunId)? as u64;
        }
        Ok(RunId(number))
    }
}

impl Serialize for RunId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<RunId, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What kind of executor a change comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OriginKind {
    /// A process that works inside, for no executor that the daemon knows of.
    #[default]
    Process,
    /// A line of the bundled shell.
    Shell,
    /// A program under a policy, with all that it starts.
    Program,
    /// A file task.
    Task,
    /// A call of a tool, by an agent's server.
    Tool,
    /// An operator who takes something back, puts something back, or takes an undo back.
    Undo,
}

impl OriginKind {
    /// All kinds.
    pub const ALL: [OriginKind; 6] = [
        OriginKind::Process,
        OriginKind::Shell,
        OriginKind::Program,
        OriginKind::Task,
        OriginKind::Tool,
        OriginKind::Undo,
    ];

    /// Returns the kind of a word, where it is one.
    pub fn of_word(word: &str) -> Option<OriginKind> {
        OriginKind::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Returns the word for it, as records have it.
    pub fn word(self) -> &'static str {
        match self {
            OriginKind::Process => "process",
            OriginKind::Shell => "shell",
            OriginKind::Program => "program",
            OriginKind::Task => "task",
            OriginKind::Tool => "tool",
            OriginKind::Undo => "undo",
        }
    }
}

/// What a change is the doing of. The default, a process without a run, is also what is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Origin {
    /// The kind of executor.
    pub kind: OriginKind,
    /// The request; absent where no executor is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
}

impl From<OriginKind> for Origin {
    fn from(kind: OriginKind) -> Origin {
        Origin { kind, run: None }
    }
}

impl Origin {
    /// Returns the origin of what a run does.
    pub fn of_run(kind: OriginKind, run: RunId) -> Origin {
        Origin {
            kind,
            run: Some(run),
        }
    }

    /// Returns whether it is what an operator took back or put back.
    pub fn is_undo(&self) -> bool {
        self.kind == OriginKind::Undo
    }

    /// Returns whether it is a process without a run: records do not mention that.
    pub fn is_plain(&self) -> bool {
        *self == Origin::default()
    }
}

/// Which undo a change belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UndoId {
    /// By the run that it was.
    Run(RunId),
    /// By the number of its record in the session: so journals of schema 2 and before have it.
    Record(u64),
}

/// A run, as an executor begins it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The kind of executor.
    pub kind: OriginKind,
    /// What was asked for: the line of the shell, or the words of a program, escaped as names are.
    pub command: crate::name::Escaped,
    /// The directory in the home in which it begins.
    pub cwd: crate::name::WorldPath,
}

impl Run {
    /// Returns its origin.
    pub fn origin(&self) -> Origin {
        Origin::of_run(self.kind, self.id)
    }

    /// Returns the beginning of a command that a record has room for, and how long the whole is where that is cut off.
    pub(super) fn cut(command: &[u8]) -> (&[u8], Option<u64>) {
        let mut kept = match command.get(..LONGEST_COMMAND) {
            Some(kept) if kept.len() < command.len() => kept,
            _ => return (command, None),
        };
        // Between characters, where it is text; none has more than three bytes after its first.
        for _ in 0..3 {
            match (command.get(kept.len()), kept.split_last()) {
                (Some(next), Some((_, before))) if next & 0xc0 == 0x80 => kept = before,
                _ => break,
            }
        }
        (kept, Some(command.len() as u64))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_twelve_digits_that_read_back() {
        for number in [0, 1, 31, 32, (1 << 60) - 1, 0x0123_4567_89ab_cdef] {
            let id = RunId(number);
            let text = id.to_string();
            assert_eq!(text.len(), LENGTH);
            assert_eq!(text.parse(), Ok(id));
            let json = serde_json::to_string(&id).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<RunId>(&json).unwrap(), id);
        }
        assert_eq!(RunId(32).to_string(), "000000000010");
        for wrong in [
            "",
            "last",
            "00000000000",
            "0000000000000",
            "00000000000l",
            "00000000000A",
        ] {
            assert_eq!(wrong.parse::<RunId>(), Err(NotARunId), "{wrong}");
        }
    }

    #[test]
    fn ids_differ_from_their_first_digits_on() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| RunId::random()).collect();
        assert_eq!(ids.len(), 1000);
        let beginnings: std::collections::HashSet<_> = ids
            .iter()
            .map(|id| id.to_string().split_at(2).0.to_owned())
            .collect();
        // 1024 beginnings of two digits there are: about 640 of them are met.
        assert!(beginnings.len() > 300, "{}", beginnings.len());
    }

    #[test]
    fn a_plain_origin_is_not_written_and_others_are_read_back() {
        assert!(Origin::default().is_plain());
        let id = RunId(77);
        let origin = Origin::of_run(OriginKind::Shell, id);
        let json = serde_json::to_string(&origin).unwrap();
        assert_eq!(json, format!(r#"{{"kind":"shell","run":"{id}"}}"#));
        assert_eq!(serde_json::from_str::<Origin>(&json).unwrap(), origin);
        for kind in OriginKind::ALL {
            assert_eq!(
                serde_json::to_string(&kind).unwrap(),
                format!("{:?}", kind.word())
            );
            assert_eq!(OriginKind::of_word(kind.word()), Some(kind));
        }
        assert_eq!(OriginKind::of_word("Shell"), None);
    }

    #[test]
    fn a_long_command_is_cut_between_characters() {
        assert_eq!(Run::cut(b"rm a"), (&b"rm a"[..], None));
        let exact = vec![b'x'; LONGEST_COMMAND];
        assert_eq!(Run::cut(&exact).1, None);
        let long = "ä".repeat(LONGEST_COMMAND);
        let (kept, whole) = Run::cut(&long.as_bytes()[1..]);
        assert_eq!(whole, Some(long.len() as u64 - 1));
        assert_eq!(kept.len(), LONGEST_COMMAND - 1);
        // What is no text has no characters to keep whole.
        let bytes = vec![0x80; LONGEST_COMMAND + 9];
        assert_eq!(Run::cut(&bytes).0.len(), LONGEST_COMMAND - 3);
    }
}
