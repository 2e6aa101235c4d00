//! The space that everything in a store takes, and what the kept part of it belongs to: directories, programs, runs,
//! days.
//!
//! Owns the shape of the answer. One walk over the store's directories (`disk_scan.rs`) and one pass over its journals
//! (`journal_pass.rs`); both only read. Memory grows with what is kept, some 40 bytes for each thing, and with the
//! number of rows, not with the records.

mod disk_scan;
mod journal_pass;

use super::Store;
use crate::error::{Error, Result};
use crate::journal::{OriginKind, RunId};
use crate::name::WorldPath;
use disk_scan::StoreScan;
use journal_pass::KeptShares;

/// The number of problems that are named.
const MAX_NAMED_PROBLEMS: usize = 100;

/// Files and the space that they take. A file with several names counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct FileUsage {
    /// Their number, without directories.
    pub files: u64,
    /// The sum of their sizes, in bytes.
    pub size: u64,
    /// The space that they and their directories take on disk, in bytes.
    pub disk: u64,
}

impl FileUsage {
    fn add(&mut self, other: FileUsage) {
        self.files += other.files;
        self.size += other.size;
        self.disk += other.disk;
    }
}

/// The space that kept things take on disk, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct KeptSpace {
    /// Entries of the trash.
    pub trash: u64,
    /// Former contents.
    pub versions: u64,
}

impl KeptSpace {
    /// Returns the sum of both.
    pub fn total(self) -> u64 {
        self.trash + self.versions
    }

    fn add(&mut self, other: KeptSpace) {
        self.trash += other.trash;
        self.versions += other.versions;
    }
}

/// The file system of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct FileSystemSpace {
    /// Its size, in bytes.
    pub size: u64,
    /// The free space, in bytes.
    pub free: u64,
    /// The part of the free space that an ordinary user may have, in bytes.
    pub available: u64,
}

/// The share of one directory.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DirectoryUsage {
    /// The directory, as it was when the things in it were kept.
    pub path: WorldPath,
    /// The space of what was in it.
    #[serde(flatten)]
    pub kept: KeptSpace,
}

/// The share of directories of one name that those have of what can be made again.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct MadeAgainUsage {
    /// The name.
    pub name: &'static str,
    /// The space of what was in them.
    #[serde(flatten)]
    pub kept: KeptSpace,
}

/// The share of one program.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ProgramUsage {
    /// The process's name; empty where it is unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comm: String,
    /// The program's file, escaped; empty where it is unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub exe: String,
    /// The space of what is kept because of it.
    #[serde(flatten)]
    pub kept: KeptSpace,
}

/// The share of one run, or of all changes that belong to none.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RunUsage {
    /// The run; absent for the changes of no run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The kind of executor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<OriginKind>,
    /// The command, escaped; absent where its record is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The space of what is kept because of it.
    #[serde(flatten)]
    pub kept: KeptSpace,
}

/// A class of ages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AgeClass {
    /// Since midnight, in this machine's zone.
    Today,
    /// In the last seven days, but not today.
    Week,
    /// In the last thirty days, but not in the last seven.
    Month,
    /// Before.
    Older,
}

/// The share of what was kept in one span of time.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct AgeUsage {
    /// The span.
    pub age: AgeClass,
    /// Its beginning, RFC 3339; absent for the oldest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The space of what was kept in it.
    #[serde(flatten)]
    pub kept: KeptSpace,
}

/// The space that a store takes. What each list has, and `unrecorded`, make up all of the trash and the versions.
#[derive(Debug, Clone, serde::Serialize)]
pub struct StoreUsage {
    /// The occupant's files.
    pub live: FileUsage,
    /// The trash.
    pub trash: FileUsage,
    /// The former contents.
    pub versions: FileUsage,
    /// The journals.
    pub journals: FileUsage,
    /// Everything else in the state directory.
    pub other: FileUsage,
    /// All of these, on disk.
    pub total: u64,
    /// The store's file system.
    pub file_system: FileSystemSpace,
    /// The number of components by which directories are told apart.
    pub depth: usize,
    /// The shares of directories, largest first.
    pub directories: Vec<DirectoryUsage>,
    /// The shares of programs, largest first.
    pub programs: Vec<ProgramUsage>,
    /// The shares of runs, largest first.
    pub runs: Vec<RunUsage>,
    /// The shares of spans of time, newest first.
    pub ages: Vec<AgeUsage>,
    /// The parts of these in directories that have names of such as can be made again, largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub made_again: Vec<MadeAgainUsage>,
    /// The kept things that no record names, and the directories of the trash and of the versions themselves.
    pub unrecorded: KeptSpace,
    /// Journals and directories that could not be read, and why; the numbers lack them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// Problems, of which only so many are named.
#[derive(Debug, Default)]
struct ProblemList {
    named: Vec<String>,
    unnamed: usize,
}

impl ProblemList {
    fn add(&mut self, problem: impl FnOnce() -> String) {
        match self.named.len() < MAX_NAMED_PROBLEMS {
            true => self.named.push(problem()),
            false => self.unnamed += 1,
        }
    }

    fn into_texts(mut self) -> Vec<String> {
        if self.unnamed > 0 {
            self.named.push(format!("and {} more", self.unnamed));
        }
        self.named
    }
}

/// Measures a store. Directories are told apart by their first `depth` components.
///
/// # Errors
/// Those of reading the store's own directories and journals. A damaged journal, and a directory of the occupant's that
/// cannot be read, are problems in the answer.
pub fn store_usage(store: &Store, depth: usize) -> Result<StoreUsage> {
    let file_system = file_system_space(store)?;
    let mut problems = ProblemList::default();
    let StoreScan {
        live,
        trash,
        versions,
        journals,
        other,
        kept,
    } = StoreScan::read(store, &mut problems)?;
    let shares = KeptShares::read(store, kept, depth, &mut problems)?;
    let named = shares.total();
    let parts = [live, trash, versions, journals, other];
    Ok(StoreUsage {
        live,
        trash,
        versions,
        journals,
        other,
        total: parts.iter().map(|part| part.disk).sum(),
        file_system,
        depth,
        unrecorded: KeptSpace {
            trash: trash.disk.saturating_sub(named.trash),
            versions: versions.disk.saturating_sub(named.versions),
        },
        directories: shares.directories(),
        programs: shares.programs(),
        runs: shares.runs(),
        ages: shares.ages(),
        made_again: shares.made_again(),
        problems: problems.into_texts(),
    })
}

fn file_system_space(store: &Store) -> Result<FileSystemSpace> {
    let fs = rustix::fs::fstatvfs(store.root()).map_err(Error::os("fstatvfs"))?;
    let bytes = |blocks: u64| blocks.saturating_mul(fs.f_frsize);
    Ok(FileSystemSpace {
        size: bytes(fs.f_blocks),
        free: bytes(fs.f_bfree),
        available: bytes(fs.f_bavail),
    })
}
