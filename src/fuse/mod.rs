//! The FUSE protocol: decodes requests, calls the world, replies. No rule lives here.
//!
//! Only this module and `daemon/session.rs` use `fuser`. Locks: those of the inode table and of the open files, neither
//! held over a system call that can block, and never one inside the other; and one over marks on directories, held
//! while a mark is set or taken away and while that of the inode table is taken for the note of it. Code here runs on
//! FUSE worker threads and must never touch the mountpoint, nor send the kernel a notification that waits for requests
//! in progress.

mod aside;
mod attr;
mod attributes;
mod copy_up;
mod counters;
mod data;
mod failures;
mod handle;
mod handles;
mod held_files;
mod inodes;
mod listing;
mod listing_ends;
mod move_counts;
mod names;
mod negotiate;
mod node_table;
mod open_state;
mod operator_changes;
mod page_cache;
mod ranges;
mod recent_dirs;
mod recent_writers;
mod reply;
mod requests;
mod run_members;
mod shared_maps;
mod sync_slots;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::name::Name;
use crate::world::view::in_trash;
use crate::world::{Dir, LocatedNode, Meta, World};
pub use aside::AsideActs;
pub use counters::RequestCounters;
pub use failures::FailureLog;
pub use handles::HandleTable;
pub use held_files::HeldFiles;
pub use inodes::{InodeTable, ROOT};
pub use listing_ends::ListingEnds;
pub use open_state::HomeWriters;
pub use recent_dirs::RecentDirs;
pub use run_members::RunMembers;
pub use shared_maps::ClosedMaps;
pub use sync_slots::SyncSlots;

/// The time that the kernel may cache entries and attributes if changes behind the mount are noticed.
const LONG_TTL: Duration = Duration::from_secs(86400);
/// The same if they are not noticed.
const SHORT_TTL: Duration = Duration::from_secs(1);

/// The time limit of the search for a missing node while other things move. On many processors one or another moves all
/// the time, and what is gone for good must not be looked for until they rest.
const MAX_MOVE_WAIT: Duration = Duration::from_millis(100);

/// A watcher of changes made to the store behind the mount.
pub trait StoreWatcher: Send + Sync + std::fmt::Debug {
    /// Watches a directory's entries. Returns whether changes will be noticed.
    fn watch(&self, number: u64, dir: &Dir) -> bool;
    /// Stops watching. `dir` is absent if the directory can no longer be found.
    fn forget(&self, number: u64, dir: Option<&Dir>);
}

/// Invalidation of the kernel's caches. Implemented by `daemon/session.rs` over fuser's notifier.
///
/// A worker thread may call only [`CacheInvalidator::invalidate_inode`] without content: it takes no lock in the kernel
/// (fuse_reverse_inval_inode), while the others wait for requests in progress.
pub trait CacheInvalidator: Send + Sync + std::fmt::Debug {
    /// Reports that an entry of a directory changed, and thereby the directory.
    fn invalidate_entry(&self, dir: u64, name: &[u8]);
    /// Reports that an entry of a directory, which is a directory itself, may have changed: it is looked up anew by the next
    /// who comes by it, and whoever works in it keeps it (`FUSE_EXPIRE_ONLY`; before Linux 6.2 as above).
    fn expire_entry(&self, dir: u64, name: &[u8]);
    /// Reports that a node's attributes changed, and with `content` its content too.
    fn invalidate_inode(&self, number: u64, content: bool);
}

/// A listener for requests, called on the thread that answers each.
pub trait RequestObserver: Send + Sync + std::fmt::Debug {
    /// Reports a request. `caller` is the thread that waits for the answer, 0 if there is none or it is in another PID
    /// namespace; `None` for a request that moves data or waits for a disk.
    fn note_request(&self, caller: Option<u32>);
}

/// The protocol options of one mount.
#[derive(Debug, Clone)]
pub struct FuseOptions {
    /// The time that the kernel may cache entries and attributes; by default a day if changes are noticed, else a
    /// second.
    pub ttl: Option<Duration>,
    /// True if extended attributes are supported; if not, the kernel stops asking.
    pub xattr: bool,
    /// True if the kernel may access the store's files itself (needs CAP_SYS_ADMIN).
    pub passthrough: bool,
    /// The user and the group to whom everything is shown to belong, where no others have numbers: the kernel lets
    /// nobody change a file whose owner has none (`HAS_UNMAPPED_ID`). What may be done is the store's decision as ever.
    pub shown_owner: Option<(u32, u32)>,
}

/// The mechanisms in force.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct MountMechanisms {
    /// Data goes to the store's files without the daemon.
    pub passthrough: bool,
    /// The page cache gathers written data (if passthrough is not possible).
    pub writeback: bool,
    /// Directory listings include attributes.
    pub readdirplus: bool,
    /// Set-user-id bits are cleared without a request before each write.
    pub killpriv_v2: bool,
    /// A file is opened and emptied in one request.
    pub atomic_o_trunc: bool,
    /// The workers may follow a caller to its processor (decided by the daemon, not by the kernel).
    pub follow: bool,
}

/// The state that the requests of one mount share with the rest of the daemon.
#[derive(Debug)]
pub struct SharedState {
    /// The world and its rules.
    pub world: World,
    /// The nodes that the kernel knows.
    pub inodes: InodeTable,
    /// The open files.
    pub handles: HandleTable,
    /// The directories lately used.
    pub dirs: RecentDirs,
    /// The members of runs.
    pub runs: RunMembers,
    /// The ends of the latest listings.
    pub ends: ListingEnds,
    /// The numbers of requests.
    pub counters: RequestCounters,
    /// The workers that wait for a disk.
    pub syncs: SyncSlots,
    /// The acts that go on aside.
    pub aside: AsideActs,
    /// The files that were closed and may still be mapped.
    pub closed_maps: ClosedMaps,
    /// The files that stay open for writing, marked for whoever else writes to them.
    pub held: HeldFiles,
    /// The recent failures of the store's file system.
    pub failures: FailureLog,
    /// The mechanisms that the kernel has agreed to and the daemon may use.
    pub mechanisms: parking_lot::Mutex<MountMechanisms>,
    /// The watcher of changes behind the mount.
    pub watch: Option<Arc<dyn StoreWatcher>>,
    /// Held while a directory gets a mark or loses it, with the note of that in the inode table.
    pub marking: parking_lot::Mutex<()>,
    /// The listener for requests, which lets the workers follow a caller that sends many.
    pub observer: Arc<dyn RequestObserver>,
    /// The options.
    pub options: FuseOptions,
    /// The kernel's caches, once the connection is set up.
    pub kernel: std::sync::OnceLock<Box<dyn CacheInvalidator>>,
    /// The user that the worker threads act as, if it is not the daemon's own.
    pub owner: Option<crate::sys::users::UserEntry>,
}

thread_local! {
    /// True if this thread already acts as the owner.
    static ACTS_AS_OWNER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl std::fmt::Debug for FileSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileSystem").finish_non_exhaustive()
    }
}

/// The handler of the kernel's requests.
#[derive(Clone)]
pub struct FileSystem {
    shared: Arc<SharedState>,
}

impl FileSystem {
    /// Creates the handler.
    pub fn new(shared: Arc<SharedState>) -> FileSystem {
        FileSystem { shared }
    }

    /// Gives this thread the owner's rights; a worker has them from its first request on. Not earlier: fuser opens
    /// /dev/fuse once more for each worker, which the owner may not.
    pub(crate) fn act_as_owner(&self) {
        let Some(owner) = &self.shared.owner else {
            return;
        };
        if ACTS_AS_OWNER.get() {
            return;
        }
        if let Err(errno) = crate::sys::creds::become_user(owner.uid, owner.gid, &owner.groups) {
            // This worked in a trial before the mount. Answering as root instead would be unsafe.
            log::error!("cannot act as the owner: {errno}; the daemon ends");
            std::process::exit(1);
        }
        ACTS_AS_OWNER.set(true);
    }

    fn world(&self) -> &World {
        &self.shared.world
    }

    fn inodes(&self) -> &InodeTable {
        &self.shared.inodes
    }

    /// Resolves a directory by its number, again if a directory was moving meanwhile.
    fn dir(&self, number: u64) -> Result<Dir> {
        self.world().expect_lock()?;
        let changes = self.inodes().dir_changes();
        if let Some(known) = self.shared.dirs.get(number, changes) {
            return Ok(known);
        }
        let dir = self.retry_while_moving(|| {
            let place = self.location(number)?;
            self.world().root().dir_expecting(&place.path, place.id)
        });
        let dir = dir.map_err(|error| self.replaced(number, error))?;
        self.shared.dirs.put(number, &dir, changes);
        Ok(dir)
    }

    /// Returns where a node is. What is looked at in the trash has been gathered before.
    fn location(&self, number: u64) -> Result<inodes::NodeLocation> {
        let place = self.inodes().location(number)?;
        if !place.removed && in_trash(&place.path) {
            self.world().gather_now();
        }
        Ok(place)
    }

    /// Like [`FileSystem::dir`], for a directory whose entries the kernel is about to receive: changes to them are
    /// noticed from now on. Also returns how long the kernel may cache them.
    fn listed_dir(&self, number: u64) -> Result<(Dir, Duration)> {
        let dir = self.dir(number)?;
        // The trash changes with every removal elsewhere, which the kernel does not see.
        if in_trash(dir.path()) {
            return Ok((dir, Duration::ZERO));
        }
        if let Some(ttl) = self.shared.options.ttl {
            return Ok((dir, ttl));
        }
        let watched = self.inodes().is_watched(number) || self.watch(number, &dir);
        Ok((dir, if watched { LONG_TTL } else { SHORT_TTL }))
    }

    /// Has changes to a directory and to its entries noticed. Returns whether they are.
    fn watch(&self, number: u64, dir: &Dir) -> bool {
        let Some(watch) = &self.shared.watch else {
            return false;
        };
        let _alone = self.shared.marking.lock();
        let watched = watch.watch(number, dir);
        self.inodes().set_watched(number, watched);
        watched
    }

    /// Lets go of a directory that the kernel has forgotten, unless it has asked for it again meanwhile.
    fn unwatch(&self, number: u64, place: &inodes::NodeLocation) {
        let Some(watch) = &self.shared.watch else {
            return;
        };
        let dir = self.world().root().dir_expecting(&place.path, place.id);
        let _alone = self.shared.marking.lock();
        if !self.inodes().is_watched(number) {
            watch.forget(number, dir.ok().as_ref());
        }
    }

    /// Resolves a node of any kind by its number.
    fn locate(&self, number: u64) -> Result<LocatedNode> {
        self.world().expect_lock()?;
        loop {
            let located = self.retry_while_moving(|| {
                let place = self.location(number)?;
                let node = self.world().root().node_expecting(&place.path, place.id)?;
                Ok(LocatedNode {
                    node,
                    path: place.path,
                    removed: place.removed,
                })
            });
            match located {
                // A file with several hard links may still be found by another one.
                Err(Error::NotFound) if self.inodes().next_place(number) => {}
                // The kernel may know the node by a name that somebody has removed, and a program may be creating it.
                Err(Error::NotFound) => return Err(Error::Replaced),
                located => return located,
            }
        }
    }

    /// Returns [`Error::Replaced`] for the absence of a directory at whose name somebody has put another one.
    fn replaced(&self, number: u64, error: Error) -> Error {
        let stands = || {
            let place = self.inodes().location(number).ok()?;
            let there = !place.removed && self.world().root().node(&place.path).is_ok();
            there.then_some(())
        };
        match error {
            Error::NotFound | Error::NotDirectory if stands().is_some() => Error::Replaced,
            error => error,
        }
    }

    /// Like [`FileSystem::locate`], for a change through an existing open. A file that was open for writing when it
    /// was removed stays writable, even if it has since been looked up in the trash.
    fn locate_held(&self, number: u64) -> Result<LocatedNode> {
        let mut located = self.locate(number)?;
        located.removed |= in_trash(&located.path) && self.shared.handles.is_open(number).1;
        Ok(located)
    }

    /// Resolves a path again if something moved between computing and using it.
    fn retry_while_moving<T>(&self, resolve: impl Fn() -> Result<T>) -> Result<T> {
        let mut since = None;
        loop {
            let before = self.inodes().move_count();
            match resolve() {
                Err(Error::NotFound | Error::NotDirectory)
                    if self.inodes().moved_since(before)
                        && since.get_or_insert_with(Instant::now).elapsed() < MAX_MOVE_WAIT =>
                {
                    std::thread::yield_now();
                }
                result => return result,
            }
        }
    }

    /// Returns how long the kernel may cache a node's attributes.
    fn ttl_of(&self, number: u64, located: &LocatedNode) -> Duration {
        if in_trash(&located.path) && !located.removed {
            return Duration::ZERO;
        }
        let life = if self.inodes().is_noticed(number) {
            LONG_TTL
        } else {
            SHORT_TTL
        };
        self.shared.options.ttl.unwrap_or(life)
    }

    /// Returns how long the kernel may cache what it is told of an entry, where it may cache `ttl` long what is told of
    /// its directory's entries in general.
    fn entry_ttl(&self, ttl: Duration, attr: &fuser::FileAttr) -> Duration {
        if self.shared.handles.is_emptying(attr.ino.0) {
            return Duration::ZERO;
        }
        // A change to a directory itself is told of by its own mark, which it has once something in it was asked for.
        // The mark of the one above gives a handle that nobody knows (fanotify(7), FAN_REPORT_DFID_NAME).
        let is_noticed = attr.kind != fuser::FileType::Directory
            || self.shared.options.ttl.is_some()
            || self.inodes().is_watched(attr.ino.0);
        if is_noticed { ttl } else { ttl.min(SHORT_TTL) }
    }

    /// Makes the kernel ask for a file's attributes again. A shared map changes content, and the page cache's
    /// write-back allocates blocks, without an update of the kernel's attributes.
    fn invalidate_attributes(&self, number: u64) {
        if let Some(kernel) = self.shared.kernel.get() {
            kernel.invalidate_inode(number, false);
        }
    }

    /// Records an entry reported to the kernel.
    fn record_entry(&self, parent: u64, name: Name<'_>, meta: &Meta) -> fuser::FileAttr {
        let number = self
            .inodes()
            .record_lookup(parent, name, meta.id, meta.born);
        let nlink = self.world().links_shown(meta, false);
        self.shown_attributes(number, nlink, meta)
    }

    fn link_count(&self, located: &LocatedNode, meta: &Meta) -> u32 {
        self.world().links_shown(meta, located.removed)
    }
}

/// Returns the flags with which the daemon opens a file for a handle.
///
/// Flags that the kernel has handled (creation, following) are dropped, and so is `O_APPEND`, because the kernel names
/// the offset: a file system in user space is not told when the flag is cleared later, and appended pages that were
/// written back. With the writeback cache the kernel also reads files opened only for writing.
fn handle_flags(flags: i32, mechanisms: MountMechanisms) -> OFlags {
    let asked = OFlags::from_bits_retain(flags.cast_unsigned());
    let mut kept = asked & (OFlags::RWMODE | OFlags::TRUNC | OFlags::NOATIME);
    if mechanisms.passthrough {
        kept |= asked & OFlags::DIRECT;
    } else if mechanisms.writeback && kept & OFlags::RWMODE == OFlags::WRONLY {
        kept = (kept - OFlags::RWMODE) | OFlags::RDWR;
    }
    kept
}
