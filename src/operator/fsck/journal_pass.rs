//! The state of a pass over the journals: for all of them, and for the session being read.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::finding::FsckReport;
use super::seal_digests::SealDigests;
use crate::journal::{CutSession, SessionEnd};
use crate::name::WorldPath;
use crate::operator::Store;
use crate::operator::kept_versions::VersionFiles;
use crate::world::Id;
use crate::world::root::Dir;

/// The number of records back that an abort may reach.
pub(super) const MAX_ABORT_DISTANCE: usize = 8192;

/// An entry of the trash as listed, before records are read.
pub(super) struct CheckedEntry {
    pub(super) id: Id,
    pub(super) known: bool,
}

/// A record's version that is missing or unfit.
pub(super) struct MissingVersion {
    pub(super) session: String,
    pub(super) seq: u64,
    pub(super) n: u64,
    pub(super) path: WorldPath,
    /// The size of the content in bytes.
    pub(super) size: u64,
    /// The problem with its list of ranges, if any.
    pub(super) unfit: Option<String>,
}

/// The state of one pass over the journals of all sessions.
pub(super) struct JournalPass<'a> {
    pub(super) store: &'a Store,
    pub(super) report: &'a mut FsckReport,
    /// The session that a daemon is writing now.
    pub(super) live: Option<String>,
    pub(super) oldest: Option<String>,
    pub(super) newest: Option<String>,
    pub(super) trash: Option<Dir>,
    pub(super) entries: HashMap<Vec<u8>, CheckedEntry>,
    pub(super) awaited: HashMap<u64, u64>,
    /// The former places of awaited entries that a record gathered: a killed daemon may have left them there.
    pub(super) gathered: HashMap<u64, u64>,
    pub(super) recent: VecDeque<(u64, u64)>,
    pub(super) gone: Vec<MissingVersion>,
    /// Entries of the trash with another inode than their record says.
    pub(super) other: Vec<(String, u64, Vec<u8>)>,
    /// The end of the session read last.
    pub(super) before: Option<SessionTail>,
    pub(super) sums: SealDigests,
    /// The end before the oldest session, with that session, if the one of that end is not there.
    pub(super) cut_end: Option<(SessionEnd, String)>,
    /// The sessions whose journals went, as records say.
    pub(super) cut_sessions: Vec<CutSession>,
}

/// The state of the session being read.
pub(super) struct SessionScan {
    pub(super) id: String,
    pub(super) versions: HashMap<u64, (VersionFiles, bool)>,
    pub(super) seq: u64,
    pub(super) ended: bool,
    pub(super) broken: bool,
    pub(super) last_n: u64,
    /// True if a line since the last seal was reported as changed or missing.
    pub(super) named: bool,
    /// The kind of the last line.
    pub(super) last: LastLine,
    /// True if its schema has seals.
    pub(super) has_seals: bool,
    /// True if it was recorded in the original of a copied store.
    pub(super) foreign: bool,
}

pub(super) const BROKEN_REMEDY: &str = "Somebody has written to the journal, or the disk is failing. What it says up to there holds; compare what follows with a backup of the store.";

/// Hashes the path of an entry of the trash or of a node below one.
pub(super) fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// The end of a session.
pub(super) struct SessionTail {
    pub(super) session: String,
    /// The SHA-256 (hex) of the last lines, newest last.
    pub(super) hashes: Vec<[u8; 64]>,
    pub(super) lines: u64,
}

impl SessionTail {
    /// Makes the end of a session without a journal.
    pub(super) fn empty(session: &str) -> SessionTail {
        SessionTail {
            session: session.to_owned(),
            hashes: Vec::new(),
            lines: 0,
        }
    }
}

/// The kind of a journal's last line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LastLine {
    /// Intact, as far as it can tell by itself.
    Good,
    /// A tampered seal.
    BadSeal,
    /// Neither record nor seal.
    Neither,
}

impl LastLine {
    pub(super) fn damaged(seal: bool) -> LastLine {
        if seal {
            LastLine::BadSeal
        } else {
            LastLine::Neither
        }
    }
}
