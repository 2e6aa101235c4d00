//! The ledger: what tasks were begun and what came of them, one line each in `state_dir/log.jsonl`.
//!
//! Owns the order that makes a task happen once: the intent is on disk before the act, the result before the answer. A
//! line that was cut off by a power cut was not acted upon, and is taken away. Whoever works on a ledger holds its lock,
//! one task at a time, and first reads what others have added.
//!
//! Lock: `flock(2)` on `state_dir/lock`.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::failpoint;
use super::head_witness::HeadWitness;
use super::ledger_index::LedgerIndex;
use super::ledger_line::{LedgerLine, StoredResult, TaskIntent};
use super::worker::worker_order::WorkerOutput;
use crate::error::{Error, Result};
use crate::world::Root;
use crate::world::root::{open_beneath, stat_fd};

/// The file.
const LOG: &str = "log.jsonl";
const LOCK: &str = "lock";

/// The time to wait for another process that works on the ledger, where nobody hears of the wait.
const LOCK_WAIT_LIMIT: Duration = Duration::from_secs(60);

/// The time after which the host hears of a wait, and the time to its next notice.
const FIRST_NOTICE: Duration = Duration::from_secs(1);
const NEXT_NOTICE: Duration = Duration::from_secs(10);

/// The space that is reserved for the lines of a task, in bytes: a full disk stops a task before it begins.
const RESERVED: u64 = 256 << 10;

/// A wait for another process that works on the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerWait {
    /// The process, where the kernel says which.
    pub pid: Option<u32>,
    /// The length of the wait so far.
    pub elapsed: Duration,
}

/// The receiver of notices of a wait. Its error ends the wait.
pub type WaitNotice = Box<dyn FnMut(LedgerWait) -> Result<()>>;

/// A ledger, open.
pub(super) struct Ledger {
    lock: OwnedFd,
    file: File,
    /// The number of bytes of the file that have been read or written.
    end: u64,
    index: LedgerIndex,
    witness: HeadWitness,
    /// The state directory.
    dir: Root,
    shown: String,
    notice: Option<WaitNotice>,
}

/// The right to work on a ledger, until it is dropped.
pub(super) struct LedgerGuard<'l> {
    pub(super) ledger: &'l mut Ledger,
}

impl Ledger {
    /// Opens the ledger of a state directory, and makes it where it is absent. `vault_dir`: where its head is noted as well.
    ///
    /// # Errors
    /// Errors of the system calls.
    pub(super) fn open(state_dir: &Path, vault_dir: &Path) -> Result<Ledger> {
        let dir = Root::open(state_dir)?;
        let make = |name: &str, flags: OFlags| {
            let flags = flags | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::RUSR | Mode::WUSR;
            open_beneath(dir.as_fd(), name.as_bytes(), flags, mode)
        };
        let lock = make(LOCK, OFlags::RDWR)?;
        let file = make(LOG, OFlags::RDWR | OFlags::APPEND)?;
        let root = dir.dir(&crate::name::WorldPath::root())?;
        crate::world::sync_dir(&dir, &root)?;
        Ok(Ledger {
            lock,
            file: File::from(file),
            end: 0,
            index: LedgerIndex::default(),
            witness: HeadWitness::open(vault_dir, state_dir)?,
            dir,
            shown: state_dir.join(LOG).display().to_string(),
            notice: None,
        })
    }

    /// Makes every wait as long as it takes, and has the receiver hear of it.
    pub(super) fn wait_with(&mut self, notice: WaitNotice) {
        self.notice = Some(notice);
    }

    /// Returns the lock for a worker to hold as well: where its supervisor is killed, nobody settles what is under way before the
    /// worker is gone, and with it the system call that it is in.
    ///
    /// # Errors
    /// Errors of `fcntl(2)`.
    pub(super) fn lock(&self) -> Result<OwnedFd> {
        rustix::io::fcntl_dupfd_cloexec(&self.lock, 0).map_err(Error::os("fcntl"))
    }

    /// Waits for the turn, and reads what has been added.
    ///
    /// # Errors
    /// [`Error::Conflict`] where another process has it for long and nobody hears of it; [`Error::Damaged`] where a line cannot be read;
    /// [`Error::Refused`] where the log is an older one.
    pub(super) fn turn(&mut self) -> Result<LedgerGuard<'_>> {
        self.take_lock()?;
        let turn = LedgerGuard { ledger: self };
        turn.ledger.is_in_place()?;
        if let Some(head) = turn.ledger.witness.read()? {
            turn.ledger.index.expect(head);
        }
        turn.ledger.catch_up()?;
        match turn.ledger.index.unreached() {
            None => Ok(turn),
            Some(head) => Err(turn.ledger.witness.refused(&format!(
                "{} was rolled back: it has {} results and not the one after which it had {}",
                turn.ledger.shown,
                turn.ledger.index.log_head().results,
                head.results
            ))),
        }
    }

    fn take_lock(&mut self) -> Result<()> {
        let (begun, mut next_notice) = (Instant::now(), FIRST_NOTICE);
        loop {
            match rustix::fs::flock(&self.lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(()),
                Err(Errno::WOULDBLOCK) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(Error::os("flock")(errno)),
            }
            let elapsed = begun.elapsed();
            let pid = || {
                crate::sys::locks::holders(self.lock.as_fd())
                    .first()
                    .copied()
            };
            match &mut self.notice {
                None if elapsed >= LOCK_WAIT_LIMIT => return Err(self.taken(pid())),
                Some(notice) if elapsed >= next_notice => {
                    next_notice = elapsed + NEXT_NOTICE;
                    notice(LedgerWait {
                        pid: pid(),
                        elapsed,
                    })?;
                }
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn taken(&self, pid: Option<u32>) -> Error {
        let who = match pid {
            Some(pid) => format!("process {pid} works"),
            None => "another process works".to_owned(),
        };
        Error::Conflict {
            what: format!("{who} on {}, and has done so for a minute", self.shown),
            remedy: "Wait for its task to end, or end that process: the next one settles what it leaves.".to_owned(),
        }
    }

    /// Fails where another file has the log's name by now: what is written to this one, the next start would not see.
    fn is_in_place(&self) -> Result<()> {
        let here = self
            .dir
            .node(&crate::name::WorldPath::parse(LOG.as_bytes())?);
        let own = stat_fd(self.file.as_fd())?.id;
        match here.is_ok_and(|node| node.meta().id == own) {
            true => Ok(()),
            false => Err(self.damaged("it was removed or replaced while the executor ran")),
        }
    }

    /// Reads the lines that this process has not seen yet.
    fn catch_up(&mut self) -> Result<()> {
        let size = self.file.metadata().map_err(io("stat"))?.len();
        if size < self.end {
            return Err(self.damaged("it has become shorter"));
        }
        if size == self.end {
            return Ok(());
        }
        self.file
            .seek(SeekFrom::Start(self.end))
            .map_err(io("lseek"))?;
        let mut reader = std::io::BufReader::with_capacity(1 << 20, &self.file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = std::io::BufRead::read_until(&mut reader, b'\n', &mut line);
            let read = read.map_err(io("read"))? as u64;
            if read == 0 {
                return Ok(());
            }
            if line.pop() != Some(b'\n') {
                // Cut off before it was on disk, so nothing was done for it.
                drop(reader);
                return self.cut();
            }
            let noted = self.index.note(&line, self.end);
            noted.map_err(|why| self.damaged(&format!("at byte {}: {why}", self.end)))?;
            self.end += read;
        }
    }

    /// Takes away what lies behind the last whole line.
    fn cut(&self) -> Result<()> {
        rustix::fs::ftruncate(&self.file, self.end).map_err(Error::os("ftruncate"))?;
        rustix::fs::fsync(&self.file).map_err(Error::os("fsync"))
    }

    fn damaged(&self, why: &str) -> Error {
        Error::Damaged(format!(
            "{}: {why}; `trumanfs task log verify` shows what still holds",
            self.shown
        ))
    }
}

impl Drop for LedgerGuard<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.ledger.lock, FlockOperation::Unlock);
    }
}

impl LedgerGuard<'_> {
    /// Returns what is known of tasks and leases.
    pub(super) fn index(&self) -> &LedgerIndex {
        &self.ledger.index
    }

    /// Returns a stored result as it was answered, and whether it says SUCCESS.
    ///
    /// # Errors
    /// [`Error::Damaged`] where it cannot be read.
    pub(super) fn stored(&self, at: (u64, u64)) -> Result<(String, bool)> {
        let mut bytes = vec![0; usize::try_from(at.1).unwrap_or_default()];
        let read = self.ledger.file.read_exact_at(&mut bytes, at.0);
        read.map_err(io("read"))?;
        match LedgerLine::parse(&bytes) {
            Ok(LedgerLine::Result(stored)) => Ok((stored.result.into_owned(), stored.success)),
            _ => Err(self.ledger.damaged("a result has changed")),
        }
    }

    /// Writes that a task begins, and waits until that is on disk.
    ///
    /// # Errors
    /// `ENOSPC` and the like; then nothing may be done.
    pub(super) fn intend(&mut self, intent: &TaskIntent) -> Result<()> {
        failpoint::reach("before_intent");
        self.reserve()?;
        self.append(&LedgerLine::Intent(Box::new(intent.clone())))?;
        failpoint::reach("after_intent");
        self.sync()?;
        failpoint::reach("after_intent_sync");
        Ok(())
    }

    /// Writes what a copy that is whole looks like, for whoever has to settle it, and waits until that is on disk: without this
    /// line, no copy got a name.
    ///
    /// # Errors
    /// As [`LedgerGuard::intend`].
    pub(super) fn note_made(&mut self, intent: &TaskIntent, made: &WorkerOutput) -> Result<()> {
        let intent = TaskIntent {
            made: Some(made.clone()),
            ..intent.clone()
        };
        self.append(&LedgerLine::Intent(Box::new(intent)))?;
        self.sync()
    }

    /// Writes what came of a task, and waits until that is on disk.
    ///
    /// # Errors
    /// As [`LedgerGuard::intend`]; then the task is settled anew.
    pub(super) fn conclude(&mut self, stored: &StoredResult<'_>) -> Result<()> {
        self.append(&LedgerLine::Result(stored.clone()))?;
        failpoint::reach("before_result_sync");
        self.sync()?;
        failpoint::reach("after_result");
        self.ledger.witness.note(&self.index().log_head());
        Ok(())
    }

    fn reserve(&self) -> Result<()> {
        let (file, keep) = (&self.ledger.file, FallocateFlags::KEEP_SIZE);
        match rustix::fs::fallocate(file, keep, self.ledger.end, RESERVED) {
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => Err(Error::os("fallocate")(errno)),
            // Not every file system reserves space.
            _ => Ok(()),
        }
    }

    fn append(&mut self, line: &LedgerLine<'_>) -> Result<()> {
        let mut bytes = line.text();
        bytes.push(b'\n');
        let ledger = &mut *self.ledger;
        if let Err(error) = (&ledger.file).write_all(&bytes) {
            // Half a line must not stand before the next one.
            ledger.cut()?;
            return Err(Error::io("write", &error));
        }
        bytes.pop();
        let at = ledger.end;
        let noted = ledger.index.note(&bytes, at);
        noted.map_err(|why| ledger.damaged(&why))?;
        ledger.end += bytes.len() as u64 + 1;
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        rustix::fs::fdatasync(&self.ledger.file).map_err(Error::os("fdatasync"))
    }
}

/// Reads a whole ledger, line by line, for somebody who looks at it.
///
/// # Errors
/// Errors of reading.
pub(super) fn each_line(
    state_dir: &Path,
    mut take: impl FnMut(u64, &[u8], bool) -> Result<()>,
) -> Result<()> {
    let dir = Root::open(state_dir)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = open_beneath(dir.as_fd(), LOG.as_bytes(), flags, Mode::empty());
    let file = file.map_err(|error| match error {
        Error::NotFound => Error::Missing {
            what: format!(
                "{}: no task was run here yet",
                state_dir.join(LOG).display()
            ),
            remedy: String::new(),
        },
        error => error,
    })?;
    let mut reader = std::io::BufReader::with_capacity(1 << 20, File::from(file));
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        line.clear();
        let read = std::io::BufRead::read_until(&mut reader, b'\n', &mut line);
        if read.map_err(io("read"))? == 0 {
            return Ok(());
        }
        number += 1;
        let is_whole = line.last() == Some(&b'\n');
        if is_whole {
            line.pop();
        }
        take(number, &line, is_whole)?;
    }
}

fn io(call: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::io(call, &error)
}
