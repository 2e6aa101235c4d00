//! The protocol layer: decodes requests, asks the world, replies. No rule lives here.
//!
//! With `daemon/session.rs` the only place that sees `fuser`. Locks: those of the inode table and of the open files,
//! neither held over a system call that can block, and never one inside the other. Code here runs on FUSE worker threads
//! and must never touch the mountpoint, nor send the kernel a notification that waits for requests under way.

mod attr;
mod attributes;
mod counters;
mod data;
mod ends;
mod failures;
mod handles;
mod inodes;
mod listing;
mod names;
mod negotiate;
mod open_state;
mod operate;
mod reply;
mod requests;
mod table;
mod writers;

use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::name::Name;
use crate::world::view::in_trash;
use crate::world::{Dir, Located, Meta, World};
pub use counters::Counters;
pub use ends::Ends;
pub use failures::Failures;
pub use handles::Handles;
pub use inodes::{Inodes, ROOT};
pub use open_state::HomeWriters;

/// How long the kernel may believe what it was told, where changes behind the mount are noticed.
const A_DAY: Duration = Duration::from_secs(86400);
/// How long where they are not.
const A_SECOND: Duration = Duration::from_secs(1);

/// Notices changes that are made to the store behind the mount.
pub trait Watch: Send + Sync + std::fmt::Debug {
    /// Asks to notice changes to a directory's entries. Returns whether they will be.
    fn watch(&self, number: u64, dir: &Dir) -> bool;
    /// Asks no more. The directory itself is not given where it cannot be found any more.
    fn forget(&self, number: u64, dir: Option<&Dir>);
}

/// Tells the kernel that something it believes is no longer so. Made by `daemon/session.rs` over fuser's notifier.
///
/// Only [`Invalidate::inode`] without content may be called by a worker thread: it takes no lock in the kernel
/// (fuse_reverse_inval_inode), while the others wait for requests under way.
pub trait Invalidate: Send + Sync + std::fmt::Debug {
    /// An entry of a directory changed; so did the directory.
    fn entry(&self, dir: u64, name: &[u8]);
    /// A thing's attributes changed, and its content where `content` says so.
    fn inode(&self, number: u64, content: bool);
}

/// Is told of each request, on the thread that answers it.
pub trait Activity: Send + Sync + std::fmt::Debug {
    /// A request has come. `caller` is the thread that waits for the answer, 0 where nobody does or it is of another
    /// PID namespace; `None` for a request that moves data or waits for a disk.
    fn request(&self, caller: Option<u32>);
}

/// The choices of one mount that concern the protocol.
#[derive(Debug, Clone)]
pub struct FuseOptions {
    /// How long the kernel may believe what it was told; by default a day where changes are noticed, a second elsewhere.
    pub ttl: Option<Duration>,
    /// Whether extended attributes are offered; if not, the kernel stops asking.
    pub xattr: bool,
    /// Whether the kernel may go to the store's files by itself (needs CAP_SYS_ADMIN).
    pub passthrough: bool,
}

/// The mechanisms in force.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct Mechanisms {
    /// Data goes to the store's files without the daemon.
    pub passthrough: bool,
    /// Written data is gathered in the page cache (where passthrough is not possible).
    pub writeback: bool,
    /// Directory listings bring attributes along.
    pub readdirplus: bool,
    /// Set-user-id bits are cleared without a request before each write.
    pub killpriv_v2: bool,
    /// Emptying a file comes with its opening.
    pub atomic_o_trunc: bool,
    /// The workers may follow a caller to its processor (decided by the daemon, not by the kernel).
    pub follow: bool,
}

/// What the requests of one mount share with the rest of the daemon.
#[derive(Debug)]
pub struct Shared {
    /// The rules.
    pub world: World,
    /// What the kernel knows.
    pub inodes: Inodes,
    /// What is open.
    pub handles: Handles,
    /// Where listings ended.
    pub ends: Ends,
    /// How many requests there were.
    pub counters: Counters,
    /// What the store's file system could not do lately.
    pub failures: Failures,
    /// What the kernel has agreed to, and the daemon may do.
    pub mechanisms: parking_lot::Mutex<Mechanisms>,
    /// Notices changes made behind the mount.
    pub watch: Option<Arc<dyn Watch>>,
    /// Told of each request; lets the workers follow the caller while requests come closely.
    pub activity: Arc<dyn Activity>,
    /// The choices.
    pub options: FuseOptions,
    /// The kernel, once it has been greeted.
    pub kernel: std::sync::OnceLock<Box<dyn Invalidate>>,
    /// The user the worker threads act as, where it is not the daemon's own.
    pub owner: Option<crate::sys::users::User>,
}

thread_local! {
    /// Whether this worker thread acts as the owner already.
    static ACTS_AS_OWNER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl std::fmt::Debug for FileSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileSystem").finish_non_exhaustive()
    }
}

/// Answers the kernel's requests.
#[derive(Clone)]
pub struct FileSystem {
    shared: Arc<Shared>,
}

impl FileSystem {
    /// Makes the file system.
    pub fn new(shared: Arc<Shared>) -> FileSystem {
        FileSystem { shared }
    }

    /// Makes this worker thread act with the owner's rights, from its first request on. Not before: fuser opens
    /// /dev/fuse once more for each worker, which the owner may not.
    fn act_as_owner(&self) {
        let Some(owner) = &self.shared.owner else {
            return;
        };
        if ACTS_AS_OWNER.get() {
            return;
        }
        if let Err(errno) = crate::sys::creds::become_user(owner.uid, owner.gid, &owner.groups) {
            // It was tried before the home was mounted. Answering as root instead is out of the question.
            log::error!("cannot act as the owner: {errno}; the daemon ends");
            std::process::exit(1);
        }
        ACTS_AS_OWNER.set(true);
    }

    fn world(&self) -> &World {
        &self.shared.world
    }

    fn inodes(&self) -> &Inodes {
        &self.shared.inodes
    }

    /// Resolves a directory by its number. Tries again where a directory was moving meanwhile.
    fn dir(&self, number: u64) -> Result<Dir> {
        self.settled(|| {
            let place = self.inodes().place(number)?;
            self.world().root().dir_expecting(&place.path, place.id)
        })
    }

    /// As [`FileSystem::dir`], for a directory whose entries the kernel is about to be told of: from now on changes to
    /// them are noticed. Also returns how long the kernel may believe it.
    fn listed_dir(&self, number: u64) -> Result<(Dir, Duration)> {
        let (dir, watched) = self.settled(|| {
            let place = self.inodes().place(number)?;
            Ok((
                self.world().root().dir_expecting(&place.path, place.id)?,
                place.watched,
            ))
        })?;
        // What lies in the trash changes with every removal elsewhere, unknown to the kernel.
        if in_trash(dir.path()) {
            return Ok((dir, Duration::ZERO));
        }
        if let Some(ttl) = self.shared.options.ttl {
            return Ok((dir, ttl));
        }
        let watched = watched
            || self.shared.watch.as_ref().is_some_and(|watch| {
                let watched = watch.watch(number, &dir);
                self.inodes().set_watched(number, watched);
                watched
            });
        Ok((dir, if watched { A_DAY } else { A_SECOND }))
    }

    /// Resolves anything by its number.
    fn located(&self, number: u64) -> Result<Located> {
        loop {
            let located = self.settled(|| {
                let place = self.inodes().place(number)?;
                let node = self.world().root().node_expecting(&place.path, place.id)?;
                Ok(Located {
                    node,
                    path: place.path,
                    removed: place.removed,
                })
            });
            match located {
                // A file with several hard links may still be found by another of them.
                Err(Error::NotFound) if self.inodes().next_place(number) => {}
                located => return located,
            }
        }
    }

    /// As [`FileSystem::located`], for a change that comes without being opened anew. Who had a file open for writing when it
    /// was removed goes on, whether or not somebody has looked into the trash meanwhile.
    fn held_by_user(&self, number: u64) -> Result<Located> {
        let mut located = self.located(number)?;
        located.removed |= in_trash(&located.path) && self.shared.handles.is_open(number).1;
        Ok(located)
    }

    /// A path is computed, then used; a directory that moves in between makes it wrong. Then it is computed again.
    fn settled<T>(&self, resolve: impl Fn() -> Result<T>) -> Result<T> {
        loop {
            let before = self.inodes().moves();
            match resolve() {
                Err(Error::NotFound | Error::NotDirectory) if self.inodes().moved_since(before) => {
                    std::thread::yield_now();
                }
                result => return result,
            }
        }
    }

    /// How long the kernel may believe the attributes of a thing.
    fn ttl_of(&self, number: u64, located: &Located) -> Duration {
        if in_trash(&located.path) && !located.removed || self.shared.handles.is_emptying(number) {
            return Duration::ZERO;
        }
        let life = if self.inodes().is_noticed(number) {
            A_DAY
        } else {
            A_SECOND
        };
        self.shared.options.ttl.unwrap_or(life)
    }

    /// Makes the kernel ask for a file's attributes again. A shared map changes content, and the page cache's writing back
    /// allocates blocks, without the kernel's attributes hearing of it.
    fn attributes_changed(&self, number: u64) {
        if let Some(kernel) = self.shared.kernel.get() {
            kernel.inode(number, false);
        }
    }

    /// Notes that the kernel is told of an entry.
    fn entry(&self, parent: u64, name: Name<'_>, meta: &Meta) -> fuser::FileAttr {
        let number = self.inodes().found(parent, name, meta.id, meta.born);
        attr::attributes(number, self.world().links_shown(meta, false), meta)
    }

    fn link_count(&self, located: &Located, meta: &Meta) -> u32 {
        self.world().links_shown(meta, located.removed)
    }
}

/// The flags with which the daemon opens a file for a handle.
///
/// Gone are those that the kernel has dealt with (creation, following), and `O_APPEND` where the daemon itself writes:
/// the kernel says the offset. With the writeback cache the kernel also reads where it was asked only to write.
fn handle_flags(flags: i32, mechanisms: Mechanisms) -> OFlags {
    let asked = OFlags::from_bits_retain(flags.cast_unsigned());
    let mut kept = asked & (OFlags::RWMODE | OFlags::TRUNC | OFlags::NOATIME);
    if mechanisms.passthrough {
        kept |= asked & (OFlags::APPEND | OFlags::DIRECT);
    } else if mechanisms.writeback && kept & OFlags::RWMODE == OFlags::WRONLY {
        kept = (kept - OFlags::RWMODE) | OFlags::RDWR;
    }
    kept
}
