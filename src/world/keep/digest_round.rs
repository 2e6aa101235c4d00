//! A round of computing digests: of new trash entries, as the journal names them, and of final versions.
//!
//! Used only by `digests.rs`. It holds no lock except the round's own.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fs::File;
use std::io::BufReader;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::FileType;

use crate::error::{Error, Result};
use crate::journal::{
    ContentDigest, DigestSubject, Journal, JournalReader, Op, Record, RecordHeader,
};
use crate::name::{Name, WorldPath};
use crate::world::keep::digest::SizedDigest;
use crate::world::keep::hashing::{HashInput, HashWorker};
use crate::world::keep::open_writers::{OpenWriters, WriteStatus};
use crate::world::root::{Dir, Root, stat_fd};
use crate::world::store::layout::TRASH;
use crate::world::store::sessions::open_journal;
use trumanfs_types::meta::{Id, Meta};

/// The age at which a removal's entry is processed: by then its directory has been removed, too, or will not be.
const MIN_ENTRY_AGE: chrono::TimeDelta = chrono::TimeDelta::seconds(3);

/// The delay, at a session's end, before a file is looked at again that somebody else was looking at.
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// The number of files open for writing that may wait; any more are left out.
const MAX_OPEN_FILES: usize = 1024;

/// The number of files remembered after their digest, because they may still be gathered in a directory.
const MAX_REMEMBERED_FILES: usize = 1 << 15;

/// The number of digests that may wait to be sealed.
const MAX_UNSEALED_DIGESTS: usize = 4096;

/// The progress of computing digests, kept from round to round.
#[derive(Debug, Default)]
pub(in crate::world) struct DigestProgress {
    reader: Option<JournalReader<BufReader<File>>>,
    /// The entry that is too young, or was interrupted.
    next: Option<NewTrashEntry>,
    written: VecDeque<WorldPath>,
    done: HashSet<Id>,
    /// The thread that computes the digests; without one, the caller does.
    pub(in crate::world) hashing: Option<HashWorker>,
}

impl DigestProgress {
    fn hashing(&self) -> &HashWorker {
        self.hashing.as_ref().unwrap_or(&HashWorker::Here)
    }
}

/// A new trash entry, as named by a record.
#[derive(Debug, Clone)]
struct NewTrashEntry {
    path: WorldPath,
    /// The entry's inode, which may have been in the trash before and have been changed since.
    inode: u64,
    /// The time of removal; absent once it no longer matters.
    since: Option<chrono::DateTime<chrono::Utc>>,
    /// True if the entry is known not to be a directory.
    is_file: bool,
}

/// A callback that returns whether there is still time.
pub(in crate::world) type ContinueCheck<'a> = &'a mut dyn FnMut() -> bool;

/// The journal, store and session in which contents are found, and the session's final versions.
#[derive(Debug)]
pub(in crate::world) struct DigestSource {
    pub(in crate::world) journal: Arc<Journal>,
    pub(in crate::world) root: Root,
    pub(in crate::world) state: OwnedFd,
    pub(in crate::world) session: String,
    /// The final versions that have no digest yet.
    pub(in crate::world) versions: Mutex<BTreeSet<u64>>,
}

/// A round of work.
pub(in crate::world) struct DigestRound<'a> {
    pub(in crate::world) contents: &'a DigestSource,
    pub(in crate::world) work: &'a mut DigestProgress,
    pub(in crate::world) writers: &'a dyn OpenWriters,
    /// True at the end of the session: nothing is put off.
    pub(in crate::world) at_end: bool,
}

impl DigestRound<'_> {
    /// Works while `on` allows. Returns whether something is left to do later.
    pub(in crate::world) fn work_on_some(&mut self, on: ContinueCheck<'_>) -> Result<bool> {
        for path in std::mem::take(&mut self.work.written) {
            if on() {
                self.file_at(&path, on)
            } else {
                self.work.written.push_back(path)
            }
        }
        loop {
            self.digest_versions(on)?;
            if !on() {
                return Ok(true);
            }
            let entry = match self.work.next.take() {
                Some(entry) => entry,
                None => match self.read()? {
                    Some(entry) => entry,
                    None => return Ok(!self.work.written.is_empty()),
                },
            };
            let is_old = |since| chrono::Utc::now() - since >= MIN_ENTRY_AGE;
            if !self.at_end && !entry.since.is_none_or(is_old) {
                self.work.next = Some(entry);
                return Ok(true);
            }
            if entry.is_file {
                self.file_at(&entry.path, on)
            } else {
                self.entry(&entry.path, on)
            }
            if !on() {
                self.work.next = Some(entry);
                return Ok(true);
            }
        }
    }

    /// Reads the journal up to the next removal; `None` if there is none yet.
    fn read(&mut self) -> Result<Option<NewTrashEntry>> {
        let reader = match &mut self.work.reader {
            Some(reader) => reader,
            none => {
                let file = open_journal(&self.contents.state, &self.contents.session)?;
                none.insert(JournalReader::new(BufReader::with_capacity(1 << 16, file)))
            }
        };
        while let Some(record) = reader.next_where(removes)? {
            if let Some(entry) = entry(&record) {
                self.work
                    .done
                    .remove(&Id(self.contents.root.id().0, entry.inode));
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Processes a trash entry. A missing entry has been gathered in another, put back or purged.
    fn entry(&mut self, path: &WorldPath, on: ContinueCheck<'_>) {
        let mut pending = vec![path.clone()];
        while let Some(path) = pending.pop() {
            let dir = match self.contents.root.dir(&path) {
                Ok(dir) => dir,
                Err(Error::NotDirectory) => {
                    self.file_at(&path, on);
                    continue;
                }
                Err(_) => continue,
            };
            let listed = self.list(&dir).unwrap_or_default();
            for (name, kind) in listed {
                let Ok(name) = Name::new(&name) else {
                    continue; // `.` and `..`
                };
                let below = path.join(name);
                match kind {
                    FileType::Directory => pending.push(below),
                    FileType::RegularFile | FileType::Unknown => self.file_at(&below, on),
                    _ => {}
                }
                if !on() {
                    return;
                }
            }
        }
    }

    fn list(&self, dir: &Dir) -> Result<Vec<(Vec<u8>, FileType)>> {
        let fd = self.contents.root.read_dir(dir)?;
        let listed = rustix::fs::Dir::read_from(&fd).map_err(Error::os("getdents64"))?;
        let entry = |entry: rustix::fs::DirEntry| {
            let kind = entry.file_type();
            (entry.file_name().to_bytes().to_vec(), kind)
        };
        Ok(listed.filter_map(|e| e.ok().map(entry)).collect())
    }

    /// Computes the digest of a file, unless it already has one or cannot have one.
    fn file_at(&mut self, path: &WorldPath, on: ContinueCheck<'_>) {
        match self.file(path, on) {
            Ok(Some(digest)) => self.add_digest(digest, on),
            Ok(None) => {}
            Err(error) => log::debug!("no digest of {path}: {error}"),
        }
    }

    fn file(&mut self, path: &WorldPath, on: ContinueCheck<'_>) -> Result<Option<ContentDigest>> {
        // Any later change of the file has a record with a greater number.
        let seq = self.contents.journal.last();
        let node = self.contents.root.node(path)?;
        let id = node.meta().id;
        // A second name could be used to change the file.
        let fit =
            |meta: &Meta| meta.kind == FileType::RegularFile && meta.nlink == 1 && meta.id == id;
        let mine = id.0 == self.contents.root.id().0 && !self.work.done.contains(&id);
        if !mine || !fit(node.meta()) {
            return Ok(None);
        }
        let mut status = self.writers.write_status(id, path);
        while self.at_end && matches!(status, WriteStatus::Busy) && on() {
            std::thread::sleep(BUSY_PAUSE);
            status = self.writers.write_status(id, path);
        }
        let file = match status {
            WriteStatus::AtRest(Some(file)) => file,
            WriteStatus::AtRest(None) => return Ok(None),
            WriteStatus::Written | WriteStatus::Mapped | WriteStatus::Busy => {
                self.postpone(path);
                return Ok(None);
            }
        };
        let before = stat_fd(file.as_fd())?;
        let job = HashInput::File(file.try_clone().map_err(|error| io(&error))?.into());
        let Some(sum) = self.work.hashing().compute_digest(job, on)? else {
            self.postpone(path);
            return Ok(None);
        };
        let after = stat_fd(file.as_fd())?;
        let times = |meta: &Meta| (meta.mtime, meta.ctime);
        if !fit(&after) || times(&after) != times(&before) {
            return Ok(None);
        }
        if self.work.done.len() >= MAX_REMEMBERED_FILES {
            self.work.done.clear();
        }
        self.work.done.insert(id);
        Ok(Some(digest(
            DigestSubject::Inode {
                seq,
                ids: [0, id.1],
                born: before.born,
            },
            sum,
        )))
    }

    fn postpone(&mut self, path: &WorldPath) {
        if self.work.written.len() < MAX_OPEN_FILES {
            self.work.written.push_back(path.clone());
        }
    }

    /// Computes the digests of final versions.
    fn digest_versions(&mut self, on: ContinueCheck<'_>) -> Result<()> {
        if self.contents.versions.lock().is_empty() {
            return Ok(());
        }
        let Some(dir) = crate::world::keep::version_files::versions_of(
            &self.contents.state,
            &self.contents.session,
        )?
        else {
            return Ok(());
        };
        loop {
            let next = self.contents.versions.lock().pop_first();
            let Some(n) = next else {
                return Ok(());
            };
            let dir = dir.try_clone().map_err(|error| io(&error))?;
            match self
                .work
                .hashing()
                .compute_digest(HashInput::Version(dir, n), on)
            {
                Ok(Some(sum)) => self.add_digest(digest(DigestSubject::Version { n }, sum), on),
                Ok(None) => {}
                Err(error) => log::debug!("no digest of version {n}: {error}"),
            }
            if !on() {
                self.contents.versions.lock().insert(n);
                return Ok(());
            }
        }
    }

    fn add_digest(&self, digest: ContentDigest, on: ContinueCheck<'_>) {
        let mut waiting = self.contents.journal.add_digests(Some(digest));
        while waiting > MAX_UNSEALED_DIGESTS && on() {
            std::thread::sleep(Duration::from_millis(100));
            waiting = self.contents.journal.add_digests(None);
        }
    }
}

/// Returns whether a record may name a new trash entry.
fn removes(header: &RecordHeader<'_>) -> bool {
    match &*header.op {
        "unlink" | "rmdir" => true,
        "rename" | "restore" => header.has_replaced(),
        _ => false,
    }
}

fn entry(record: &Record) -> Option<NewTrashEntry> {
    let trashed = record.op.trashed()?;
    let mut path = WorldPath::parse(TRASH).ok()?;
    path.push(Name::new(&trashed.entry.0).ok()?);
    let since = chrono::DateTime::parse_from_rfc3339(&record.time).ok();
    Some(NewTrashEntry {
        path,
        inode: trashed.ids[1],
        since: since.map(|since| since.to_utc()),
        is_file: matches!(record.op, Op::Unlink { .. }),
    })
}

fn io(error: &std::io::Error) -> Error {
    Error::os("dup")(rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO))
}

fn digest(of: DigestSubject, (size, sha256): SizedDigest) -> ContentDigest {
    ContentDigest {
        session: None,
        of,
        size,
        sha256,
    }
}
