//! Seals: lines that authenticate the lines since the seal before.
//!
//! Owns the form of seals and what they authenticate: the lines that they cover, themselves, and the contents whose
//! digests they have; stamps of files that were left come with them. A seal is not a record. It has the number of the record before it, so record numbers are the same
//! as without seals, and readers of records skip it. Each seal covers the line of the seal before it, so the seals form
//! a chain of their own.
//!
//! Anyone who can write to a journal can also seal the result: a seal is evidence, not proof.

use std::fs::File;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::hash::hex;
use super::ids::InodeNumbers;
use super::left_state::LeftState;
use super::line_ends;
use crate::error::{Error, Result};

/// The word in the field `op`.
pub(super) const WORD: &str = "seal";

/// A seal.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Seal {
    /// The schema.
    pub v: u32,
    /// The number of the last record before the seal.
    pub seq: u64,
    /// The time, as in a record.
    pub time: String,
    /// Always `seal`.
    pub op: String,
    /// The number of the first record that the seal covers; one more than `seq` if only digests are new.
    pub from: u64,
    /// The SHA-256 (hex) of the lines that the seal covers, with their newlines: all since the seal before, and that
    /// seal.
    pub lines: String,
    /// The digests computed since the seal before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub digests: Vec<ContentDigest>,
    /// The states in which files were left since the seal before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stamps: Vec<LeftState>,
    /// The states in which an unknown writer left files, as found since the seal before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<LeftState>,
    /// The link to the line before, as in a record.
    pub prev: String,
    /// The SHA-256 (hex) of this line up to the comma before this field.
    #[serde(default)]
    pub check: String,
}

/// The digest of a content that will not change any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentDigest {
    /// The content's session; absent if that is the journal's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The content.
    #[serde(flatten)]
    pub of: DigestSubject,
    /// The size of the content in bytes.
    pub size: u64,
    /// The SHA-256 (hex) of the content, as computed by `world/keep/digest.rs`.
    pub sha256: String,
}

/// The content that a digest belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DigestSubject {
    /// A file in the trash, as long as no later record names its inode.
    Inode {
        /// The last record when the digest was made.
        seq: u64,
        /// The inode.
        ids: InodeNumbers,
        /// The inode's time of birth, in nanoseconds since 1970; 0 where the file system has none.
        born: u64,
    },
    /// A version. A later digest of the same version replaces this one.
    Version {
        /// The number.
        n: u64,
    },
}

/// Returns whether a line is an intact seal, by its own check.
pub(super) fn is_whole(line: &[u8]) -> bool {
    has_right_check(line) && Seal::parse(line).is_ok()
}

/// Returns whether the check of a seal is that of its line.
pub(super) fn has_right_check(line: &[u8]) -> bool {
    line_ends::check(line).is_some_and(|(before, check)| *check == hex(&Sha256::digest(before)))
}

/// The lines since the last seal, hashed as far as they have been read.
#[derive(Debug)]
pub(super) struct UnsealedLines {
    /// The journal opened for reading; the writer's descriptor, unless that is write-only.
    file: File,
    covered: Sha256,
    /// The offset up to which the journal has been hashed.
    pub(super) at: u64,
    /// The number of the first record since the last seal.
    pub(super) from: u64,
}

impl UnsealedLines {
    /// Starts at a journal's first line.
    pub(super) fn new(file: File) -> UnsealedLines {
        UnsealedLines {
            file,
            covered: Sha256::new(),
            at: 0,
            from: 1,
        }
    }

    /// Scans the lines left by an earlier writer, up to a given length.
    pub(super) fn find_last_seal(&mut self, end: u64) -> Result<()> {
        let mut line = Vec::new();
        self.each_chunk(end, |this, chunk| {
            for part in chunk.split_inclusive(|b| *b == b'\n') {
                line.extend_from_slice(part);
                if !part.ends_with(b"\n") {
                    continue;
                }
                let bare = line.get(..line.len() - 1).unwrap_or_default();
                if line_ends::check(bare).is_some()
                    && let Ok(seal) = Seal::parse(bare)
                {
                    this.covered = Sha256::new();
                    this.from = seal.seq + 1;
                }
                this.covered.update(&line);
                line.clear();
            }
        })
    }

    /// Hashes the journal up to an offset.
    pub(super) fn hash_up_to(&mut self, end: u64) -> Result<()> {
        self.each_chunk(end, |this, chunk| this.covered.update(chunk))
    }

    /// Returns the digest of all lines since the last seal, including that seal.
    pub(super) fn lines(&self) -> [u8; 64] {
        hex(&self.covered.clone().finalize())
    }

    /// Starts again after a seal, which the next one covers.
    pub(super) fn restart_after(&mut self, seq: u64, line: &[u8]) {
        self.covered = Sha256::new();
        self.covered.update(line);
        self.at += line.len() as u64;
        self.from = seq + 1;
    }

    fn each_chunk(&mut self, end: u64, mut see: impl FnMut(&mut Self, &[u8])) -> Result<()> {
        let mut buffer = vec![0; 64 << 10];
        while self.at < end {
            let left = usize::try_from(end - self.at).unwrap_or(usize::MAX);
            let room = left.min(buffer.len());
            let chunk = buffer.get_mut(..room).unwrap_or_default();
            let read = self.file.read_at(chunk, self.at);
            let read = match read {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                read => read.map_err(|error| Error::io("pread", &error))?,
            };
            if read == 0 {
                return Err(Error::Damaged(
                    "the journal is shorter than what was written to it".to_owned(),
                ));
            }
            see(self, chunk.get(..read).unwrap_or_default());
            self.at += read as u64;
        }
        Ok(())
    }
}

/// The lines, digests and stamps that the next seals cover.
#[derive(Debug, Default)]
pub(super) struct SealQueue {
    pub(super) unsealed: Option<UnsealedLines>,
    pub(super) digests: Vec<ContentDigest>,
    pub(super) stamps: Vec<LeftState>,
    pub(super) unknown: Vec<LeftState>,
    /// True if such states were recorded in this session.
    pub(super) has_unknown: bool,
}

/// A verifier of seals, which hashes the lines since the last seal.
#[derive(Debug)]
pub(super) struct SealVerifier {
    hash: Sha256,
    /// The number of the first line since the last seal.
    first: u64,
}

impl Default for SealVerifier {
    fn default() -> SealVerifier {
        SealVerifier {
            hash: Sha256::new(),
            first: 1,
        }
    }
}

impl SealVerifier {
    /// Adds a line.
    pub(super) fn line(&mut self, line: &[u8]) {
        self.hash.update(line);
        self.hash.update(b"\n");
    }

    /// Verifies a seal. Returns whether it matches the lines before it, and the number of the first of them.
    pub(super) fn seal(&mut self, seal: &Seal, number: u64, line: &[u8]) -> (bool, u64) {
        let found = hex(&std::mem::take(&mut self.hash).finalize());
        self.line(line);
        let first = std::mem::replace(&mut self.first, number + 1);
        (seal.lines.as_bytes() == found, first)
    }

    /// Returns the number of the first line that no seal covers.
    pub(super) fn first(&self) -> u64 {
        self.first
    }
}
