//! The origin of a change: a process working inside by itself, or a request carried out by an executor.
//!
//! Owns the identity of runs and the words for the kinds of origins. A **run** is one request to an executor: a line
//! of the shell, a program, a task, a call of a tool, an undo. Each record that it causes has its [`Origin`], and the
//! first of them in a session has a `run` record before it, with the command ([`Run`]).

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The digits of a run's id (Crockford's base 32): no `i`, `l`, `o` or `u`, so no id is a word, `last` above all.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The number of digits of an id, of five bits each.
const LENGTH: usize = 12;

/// The maximum length of a command in a run's record, in bytes. The beginning of a longer one is enough to recognize
/// it.
const LONGEST_COMMAND: usize = 16 << 10;

/// The id of a run: 60 random bits, written as twelve digits and lower-case letters. It is random from the first
/// digit on, so a few digits are enough for an operator to name a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(u64);

impl RunId {
    /// Generates an id.
    pub fn random() -> RunId {
        static ANOTHER: AtomicU64 = AtomicU64::new(0);
        let mut bytes = [0; 8];
        let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        let mut number = u64::from_ne_bytes(bytes);
        if filled != Ok(bytes.len()) {
            // Without random numbers, ids are still distinct, only easier to guess.
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = now.map_or(0, |now| u64::try_from(now.as_micros()).unwrap_or_default());
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

/// The error for a text that is not a run's id.
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

/// The kind of executor that made a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OriginKind {
    /// A process working inside, for no executor known to the daemon.
    #[default]
    Process,
    /// A line of the bundled shell.
    Shell,
    /// A program under a policy, with all processes that it starts.
    Program,
    /// A file task.
    Task,
    /// A call of a tool through an agent's server.
    Tool,
    /// An operator's undo, restore or redo.
    Undo,
    /// A change made outside the home. Readers know it; no record has it yet.
    Outside,
}

impl OriginKind {
    /// All kinds.
    pub const ALL: [OriginKind; 7] = [
        OriginKind::Process,
        OriginKind::Shell,
        OriginKind::Program,
        OriginKind::Task,
        OriginKind::Tool,
        OriginKind::Undo,
        OriginKind::Outside,
    ];

    /// Returns the kind that a word stands for.
    pub fn of_word(word: &str) -> Option<OriginKind> {
        OriginKind::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Returns its word in records.
    pub fn word(self) -> &'static str {
        match self {
            OriginKind::Process => "process",
            OriginKind::Shell => "shell",
            OriginKind::Program => "program",
            OriginKind::Task => "task",
            OriginKind::Tool => "tool",
            OriginKind::Undo => "undo",
            OriginKind::Outside => "outside",
        }
    }
}

/// The origin of a change. The default, a process without a run, also stands for an unknown one.
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
    /// Returns the origin of a run's changes.
    pub fn of_run(kind: OriginKind, run: RunId) -> Origin {
        Origin {
            kind,
            run: Some(run),
        }
    }

    /// Returns whether it is an undo, restore or redo.
    pub fn is_undo(&self) -> bool {
        self.kind == OriginKind::Undo
    }

    /// Returns whether an executor acts for an agent: a line, a program in a sandbox, a tool, a task.
    pub fn is_for_agent(&self) -> bool {
        !matches!(
            self.kind,
            OriginKind::Process | OriginKind::Undo | OriginKind::Outside
        )
    }

    /// Returns whether it is a process without a run, which records leave out.
    pub fn is_plain(&self) -> bool {
        *self == Origin::default()
    }
}

/// The undo that a change belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UndoId {
    /// By its run.
    Run(RunId),
    /// By the number of its record in the session, in journals up to schema 2.
    Record(u64),
}

/// A run as registered by an executor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The kind of executor.
    pub kind: OriginKind,
    /// The command: a line of the shell, or the words of a program, escaped as names are.
    pub command: crate::name::EscapedBytes,
    /// The working directory at its start, in the home.
    pub cwd: crate::name::WorldPath,
    /// The paths of the other stores that it works in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<crate::name::EscapedBytes>,
}

impl Run {
    /// Returns the origin of its changes.
    pub fn origin(&self) -> Origin {
        Origin::of_run(self.kind, self.id)
    }

    /// Truncates a command to the length of a record, and returns its full length where it was longer.
    pub fn cut(command: &[u8]) -> (&[u8], Option<u64>) {
        let mut kept = match command.get(..LONGEST_COMMAND) {
            Some(kept) if kept.len() < command.len() => kept,
            _ => return (command, None),
        };
        // Cut between characters if it is UTF-8; a character has at most three bytes after its first.
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
        // There are 1024 pairs of digits; about 640 of them are to be expected.
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
        let (kept, whole) = Run::cut(long.as_bytes().get(1..).unwrap());
        assert_eq!(whole, Some(long.len() as u64 - 1));
        assert_eq!(kept.len(), LONGEST_COMMAND - 1);
        // Bytes that are not UTF-8 have no character boundaries.
        let bytes = vec![0x80; LONGEST_COMMAND + 9];
        assert_eq!(Run::cut(&bytes).0.len(), LONGEST_COMMAND - 3);
    }
}
