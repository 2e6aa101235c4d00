//! The trash: the names of entries, the memory of removals by process and directory, and the space used.
//!
//! Owns `.trash` and its layout, one entry `{timestamp}_{name}` for each removal. The moves are made by `remove.rs`
//! and `rename.rs`.
//!
//! The trash is kept open from one removal to the next, and opened anew once a second. So each move into it is verified
//! by the entry's path from the store's root: a trash that was moved away, replaced or mounted over behind the mount is
//! noticed at that removal, which is then repeated with the one that is there.
//!
//! Locks: one mutex over the memory of removals and one over the open trash, never held over a system call. Another
//! keeps counting and purging apart; it is held long, and no request of the home takes it.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, StatxFlags};

use crate::error::{Error, Result};
use crate::name::{NAME_MAX, Name, quoted};
use crate::world::root::{Root, open_beneath, stat_fd};
use crate::world::store::layout::TRASH;
use crate::world::store::sessions::sessions;
use crate::world::store::state::StateDir;
use crate::world::store::state_files;
use trumanfs_types::meta::{Id, Meta};

/// The format of the time in an entry's name: UTC with microseconds, sortable, without colons.
const ENTRY_TIME_FORMAT: &str = "%Y%m%dT%H%M%S%.6fZ";

/// The number of removals remembered for gathering, over all processes. Past it the oldest directories are forgotten:
/// what was removed from them stays in entries of its own.
const MAX_REMEMBERED_REMOVALS: usize = 1_000_000;

/// The time that the trash is kept open before it is opened anew.
const MAX_OPEN_TIME: Duration = Duration::from_secs(1);

/// The name of a trash entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EntryName(Vec<u8>);

impl EntryName {
    /// Returns the bytes of the name.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the name.
    ///
    /// # Errors
    /// None for a name reserved here; it is checked all the same.
    pub fn name(&self) -> Result<Name<'_>> {
        Name::new(&self.0)
    }
}

/// A removal, as far as gathering needs it.
#[derive(Debug, Clone)]
pub struct GatherCandidate {
    /// The trash entry.
    pub entry: EntryName,
    /// The node's former name.
    pub name: Vec<u8>,
    /// The node's inode.
    pub id: Id,
}

/// The trash of one store.
#[derive(Debug, Default)]
pub struct Trash {
    last: AtomicI64,
    memory: Mutex<RemovalMemory>,
    open: Mutex<Option<(Arc<OwnedFd>, Instant)>>,
    /// The bytes allocated in the trash, as far as they have been counted.
    bytes: AtomicU64,
    /// Held while the trash is counted or purged.
    still: Mutex<()>,
}

#[derive(Debug, Default)]
struct RemovalMemory {
    by_place: HashMap<(u32, Id), Vec<GatherCandidate>>,
    order: std::collections::VecDeque<(u32, Id)>,
    total: usize,
}

/// Opens the trash, creating it if needed.
///
/// # Errors
/// [`Error::Refused`] if `.trash` is a symlink, not a directory, or on another file system.
pub fn open(root: &Root) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let refuse = |what: &str| {
        Error::refused(
            format!(".trash in the store {what}"),
            "Removals would not be safe there. Move it away (it may hold something of value) and mount again.",
        )
    };
    let place = root.state_place();
    match rustix::fs::mkdirat(place, TRASH, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        // A read-only store can still be read; nothing will be removed from it.
        Err(rustix::io::Errno::ROFS) => {}
        Err(errno) => return Err(Error::os("mkdirat")(errno)),
    }
    match rustix::fs::openat2(
        place,
        TRASH,
        flags,
        Mode::empty(),
        crate::world::root::BENEATH,
    ) {
        Ok(fd) => Ok(fd),
        // Also for a symlink: `O_DIRECTORY` is checked first.
        Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => {
            Err(refuse("is a symlink or something else than a directory"))
        }
        Err(rustix::io::Errno::XDEV) => Err(refuse("is on another file system")),
        Err(errno) => Err(Error::os("openat2")(errno)),
    }
}

/// Checks that the trash belongs to this store, and that the acting user may close it to others.
///
/// # Errors
/// [`Error::Refused`] with the remedy.
pub(in crate::world) fn expect_own(
    trash: &OwnedFd,
    owner: Option<(u32, u32)>,
    state: &StateDir,
) -> Result<()> {
    let meta = stat_fd(trash.as_fd())?;
    let me = rustix::process::geteuid();
    let mut uids = vec![me.as_raw()];
    uids.extend(owner.map(|(uid, _)| uid));
    // Root also manages an owner's trash in a store that has been served before.
    if me.is_root() && !uids.contains(&meta.uid) && !sessions(state)?.is_empty() {
        uids.push(meta.uid);
    }
    state_files::expect_made_by(TRASH, &meta, &uids)
}

impl Trash {
    /// Returns the trash as it was opened within the last second, or opens it.
    ///
    /// # Errors
    /// As [`Trash::open_anew`].
    pub fn dir(&self, root: &Root) -> Result<Arc<OwnedFd>> {
        let open = self.open.lock().clone();
        match open {
            Some((dir, since)) if since.elapsed() < MAX_OPEN_TIME => Ok(dir),
            _ => self.open_anew(root),
        }
    }

    /// Opens the trash. It is created again if an operator has removed it meanwhile.
    ///
    /// # Errors
    /// Any error from `openat2(2)` or `mkdirat(2)`.
    pub fn open_anew(&self, root: &Root) -> Result<Arc<OwnedFd>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = match open_beneath(root.state_place(), TRASH, flags, Mode::empty()) {
            Err(Error::NotFound) => open(root),
            result => result,
        };
        let dir = dir.map(Arc::new);
        *self.open.lock() = dir.as_ref().ok().map(|dir| (dir.clone(), Instant::now()));
        dir
    }

    /// Opens the present trash if it is another directory than `dir`.
    ///
    /// # Errors
    /// As [`Trash::open_anew`].
    pub(in crate::world) fn reopen_if_replaced(
        &self,
        root: &Root,
        dir: &OwnedFd,
    ) -> Result<Option<Arc<OwnedFd>>> {
        let now = self.open_anew(root)?;
        let is_other = stat_fd(now.as_fd())?.id != stat_fd(dir.as_fd())?.id;
        Ok(is_other.then_some(now))
    }

    /// Returns a new entry name for a removal. No two calls return the same.
    pub fn new_entry_name(&self, name: Name<'_>) -> EntryName {
        let now = chrono::Utc::now().timestamp_micros();
        let next = |last: i64| now.max(last + 1);
        let last = self
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                Some(next(last))
            });
        entry_name(next(last.unwrap_or(now)), name.bytes())
    }

    /// Remembers a process's removal from a directory.
    pub fn remember(&self, pid: u32, dir: Id, removal: GatherCandidate) {
        let mut memory = self.memory.lock();
        let memory = &mut *memory;
        memory.total += 1;
        let list = memory.by_place.entry((pid, dir)).or_default();
        if list.is_empty() {
            memory.order.push_back((pid, dir));
        }
        list.push(removal);
        while memory.total > MAX_REMEMBERED_REMOVALS {
            let Some(oldest) = memory.order.pop_front() else {
                break;
            };
            memory.total -= memory.by_place.remove(&oldest).map_or(0, |list| list.len());
        }
    }

    /// Takes a process's removals from a directory, the latest for each name; earlier ones of the same name are left
    /// out and keep their own entries.
    pub fn take_removals(&self, pid: u32, dir: Id) -> Vec<GatherCandidate> {
        let mut memory = self.memory.lock();
        let Some(list) = memory.by_place.remove(&(pid, dir)) else {
            return Vec::new();
        };
        memory.total -= list.len();
        if memory.by_place.is_empty() {
            memory.order.clear();
        } else if memory.order.len() > 64 && memory.order.len() > 2 * memory.by_place.len() {
            let live: std::collections::HashSet<_> = memory.by_place.keys().copied().collect();
            memory.order.retain(|key| live.contains(key));
        }
        drop(memory);
        let mut seen = std::collections::HashSet::new();
        let mut latest: Vec<GatherCandidate> = list.into_iter().rev().collect();
        latest.retain(|removal| seen.insert(removal.name.clone()));
        latest
    }

    /// Keeps other threads from counting or purging the trash until dropped.
    pub fn lock_counting(&self) -> parking_lot::MutexGuard<'_, ()> {
        self.still.lock()
    }

    /// Counts bytes that are in the trash.
    pub fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts bytes that left the trash.
    pub fn subtract_bytes(&self, bytes: u64) {
        let _ = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                Some(n.saturating_sub(bytes))
            });
    }

    /// Returns the bytes that the trash takes on disk, as far as they have been counted.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Returns whether a node is the one in the store's trash, by its path.
pub(in crate::world) fn has_arrived(root: &Root, entry: &EntryName, id: Id) -> bool {
    let path = [TRASH, b"/", entry.bytes()].concat();
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = rustix::fs::statx(root.state_place(), path.as_slice(), flags, StatxFlags::INO);
    found.is_ok_and(|found| Meta::from_statx(&found).id == id)
}

/// Moves an entry without replacing anything.
///
/// # Errors
/// `EEXIST` if the new name is taken; any error from `renameat2(2)`.
pub fn rename_noreplace(
    from: impl AsFd,
    name: Name<'_>,
    to: impl AsFd,
    new: Name<'_>,
) -> Result<()> {
    rustix::fs::renameat_with(from, name.bytes(), to, new.bytes(), RenameFlags::NOREPLACE).map_err(
        Error::os_on("renameat2", || {
            format!("{} → {}", quoted(name.bytes()), quoted(new.bytes()))
        }),
    )
}

fn entry_name(micros: i64, name: &[u8]) -> EntryName {
    let time = chrono::DateTime::from_timestamp_micros(micros).unwrap_or_default();
    let mut entry = format!("{}_", time.format(ENTRY_TIME_FORMAT)).into_bytes();
    // "%.6f" includes the dot in 20260116T101530.123456Z.
    let room = NAME_MAX.saturating_sub(entry.len());
    entry.extend_from_slice(shorten_name(name, room));
    EntryName(entry)
}

/// Splits an entry's name into its time and the rest; `None` if it is not an entry's name.
pub fn parse_entry(entry: &[u8]) -> Option<(chrono::DateTime<chrono::Utc>, &[u8])> {
    let at = entry.iter().position(|b| *b == b'_')?;
    let stamp = std::str::from_utf8(entry.get(..at)?).ok()?;
    let time = chrono::NaiveDateTime::parse_from_str(stamp, ENTRY_TIME_FORMAT).ok()?;
    Some((time.and_utc(), entry.get(at + 1..)?))
}

/// Shortens a name to at most `room` bytes, at a character boundary if it is UTF-8.
fn shorten_name(name: &[u8], room: usize) -> &[u8] {
    if name.len() <= room {
        return name;
    }
    let is_continuation = |b: &u8| b & 0xc0 == 0x80;
    let mut end = room;
    // A character has at most three continuation bytes; more of them are not UTF-8, and any cut will do.
    while end > room.saturating_sub(4) && name.get(end).is_some_and(is_continuation) {
        end -= 1;
    }
    name.get(..end).unwrap_or(name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sortable_and_never_the_same() {
        let trash = Trash::default();
        let name = Name::new(b"a.txt").unwrap();
        let names: Vec<_> = (0..1000)
            .map(|_| trash.new_entry_name(name).bytes().to_vec())
            .collect();
        assert!(names.is_sorted_by(|a, b| a < b));
        let first = String::from_utf8(names.first().unwrap().clone()).unwrap();
        assert_eq!(
            first.len(),
            "20260116T101530.123456Z_a.txt".len(),
            "{first}"
        );
        assert!(parse_entry(first.as_bytes()).is_some_and(|(_, rest)| rest == b"a.txt"));
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let long = "é".repeat(127);
        let entry = entry_name(0, long.as_bytes());
        assert!(entry.bytes().len() <= NAME_MAX);
        assert!(std::str::from_utf8(entry.bytes()).is_ok());
        let raw = [0xff; 255];
        assert_eq!(entry_name(0, &raw).bytes().len(), NAME_MAX);
        let odd = [0x80; 255];
        assert!(entry_name(0, &odd).bytes().len() > 240);
    }

    #[test]
    fn the_latest_of_a_name_is_gathered() {
        let trash = Trash::default();
        let dir = Id(1, 2);
        for n in 0..2 {
            let entry = trash.new_entry_name(Name::new(b"f").unwrap());
            trash.remember(
                7,
                dir,
                GatherCandidate {
                    entry,
                    name: b"f".to_vec(),
                    id: Id(1, n),
                },
            );
        }
        assert!(
            trash.take_removals(8, dir).is_empty(),
            "another process's removals are not gathered"
        );
        let gathered = trash.take_removals(7, dir);
        assert_eq!(gathered.iter().map(|r| r.id.1).collect::<Vec<_>>(), [1]);
        assert!(trash.take_removals(7, dir).is_empty());
    }
}
