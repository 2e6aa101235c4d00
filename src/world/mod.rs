//! The world: every rule of the file system, without FUSE.
//!
//! [`World`] decides what exists for the occupant, what a removal means, and what is recorded. Its methods take
//! `(&Dir, Name)` or a [`Located`] node, and each goes through the same steps: admit, prepare, record, act, settle.
//! There are two ways in: the FUSE daemon, and an unmounted store opened in process.
//!
//! Lock order: the view's pinned set, the trash's memory, the state's counts, the journal. They are never nested,
//! except that the set of versions that are not final is taken under the journal's lock. None is held over a system
//! call except the journal's own `write(2)`. `names` comes before them all: it keeps another inode from taking the
//! place of a file that moves. Anything else that must not change between two calls is verified after the act by
//! inode, and rolled back.

mod attr;
mod beyond;
mod blocks;
mod chains;
mod compare;
mod create;
pub mod digest;
mod digest_round;
mod digests;
mod durable;
mod erase;
mod evict;
mod file;
mod finalize;
mod finals;
mod hashing;
pub mod holes;
pub mod inode_lists;
mod likeness;
mod list;
pub mod lock;
mod mark;
pub mod meta;
mod offline;
mod open_state;
mod options;
pub mod origin;
pub mod outage;
pub mod own;
mod pending;
mod probe;
pub mod purge;
pub mod quota;
pub mod ranges;
pub mod read_only;
mod remove;
mod rename;
pub mod replace;
mod reserve;
pub mod root;
mod sessions;
pub mod settle;
mod settled;
mod space;
pub mod state;
pub mod store_view;
pub mod trash;
pub mod versions;
pub mod view;
mod writers;
mod xattr;

use std::os::fd::AsFd;
use std::sync::Arc;

pub use attr::{SetAttrs, SetTime};
pub use blocks::Blocks;
pub use create::Created;
pub use digests::Digests;
pub use finalize::Finalizer;
pub use finals::{Final, Finals};
pub use likeness::{CAPABILITY, Xattrs, xattrs};
pub use list::Entry;
pub use meta::{Id, Meta, Time};
pub use open_state::{NoOpenState, OpenState, StartedVersion};
pub use options::{Identity, KeepOptions, WorldOptions};
pub use purge::Purged;
pub use read_only::{Claim, Locked, ReadOnlyStore};
pub use remove::Removed;
pub use rename::{Moved, Renaming};
pub use replace::{NewContent, version_path};
pub use root::{Dir, Node, Root};
pub use sessions::new_session_id;
pub use settled::Settled;
pub use store_view::StoreView;
pub use view::{Symlinks, View, ViewOptions, Visible};
pub use writers::{Rest, Writers};

use crate::error::{Error, Result};
use crate::journal::{Actors, Author, Journal, Op};
pub use crate::journal::{Caller, Kept, Origin, OriginKind, Run, RunId};
use crate::name::{Escaped, Name, WorldPath};
use state::{Holder, StateDir};
use trash::Trash;
use versions::Versions;

/// How long the end of a session waits for versions to become final. A version that is not final by then stays whole.
const AT_THE_END: std::time::Duration = std::time::Duration::from_secs(2);

/// A store and its rules.
#[derive(Debug)]
pub struct World {
    root: Root,
    view: View,
    trash: Trash,
    state: StateDir,
    journal: Arc<Journal>,
    versions: Versions,
    finalizer: Arc<Finalizer>,
    digests: Arc<Digests>,
    actors: Actors,
    identity: Identity,
    session: String,
    /// Whether a home is mounted on this world.
    mounted: bool,
    /// The reserved space that removals are given on a full disk.
    spare: Option<std::fs::File>,
    /// Read-held while a name moves, write-held while another inode takes a file's place (`replace.rs`).
    names: parking_lot::RwLock<()>,
}

/// A node and its path, for operations that come without a name.
#[derive(Debug)]
pub struct Located {
    /// The node.
    pub node: Node,
    /// Its path; in the trash after it was removed.
    pub path: WorldPath,
    /// Whether it was removed while open: it stays as writable as it was before, wherever it lies.
    pub removed: bool,
}

impl World {
    /// Opens and locks a store, settles what an earlier session left open, and begins a session.
    ///
    /// # Errors
    /// [`Error::Refused`] if the store is being served, or its trash or state directory is not safe to use;
    /// [`Error::Damaged`] if the last journal cannot be read.
    pub fn open(store: &std::path::Path, options: WorldOptions) -> Result<(World, Vec<Settled>)> {
        World::over((Root::open(store)?, None), options)
    }

    /// Begins a session like [`World::over`], on a disk that has space for one.
    fn begin((root, located): Locked, options: WorldOptions) -> Result<(World, Vec<Settled>)> {
        let home = options.home.as_deref().map(crate::name::escape);
        let mounted_with = match home {
            Some(_) => Some(options.mounted_with()),
            None => options.last_mount.clone(),
        };
        let mut holder = Holder::this_process(&options.session, home);
        holder.durable = options.durable;
        let state = StateDir::open(&root, holder.clone(), located)?;
        let trash_fd = trash::open(&root)?;
        trash::ours(&trash_fd, options.owner, &state)?;
        own::not_for_git(trash_fd.as_fd());
        if let Some((uid, gid)) = options.owner {
            let (uid, gid) = (
                rustix::fs::Uid::from_raw(uid),
                rustix::fs::Gid::from_raw(gid),
            );
            let flags = rustix::fs::AtFlags::EMPTY_PATH;
            rustix::fs::chownat(&trash_fd, "", Some(uid), Some(gid), flags)
                .map_err(Error::os("chownat"))?;
        }
        let last = settle::last_session(&root, &state)?;
        let session = state.session().to_owned();
        let view = View::new(options.view, Some(state.id()), state.pinned()?)?;
        let unbegun = sessions::Unbegun::new(&state, &session);
        let file = state.new_session(&session)?;
        let journal = Arc::new(Journal::new(file, None, options.durable, root.id().0));
        let pending = Arc::new(pending::Pending::default());
        journal.listen(pending.clone());
        let dir = state.versions(&session, options.owner)?;
        let again = rustix::io::fcntl_dupfd_cloexec(&dir, 0).map_err(Error::os("fcntl"))?;
        let room = quota::Quota::new(options.keep.max);
        let mounted = options.home.is_some();
        let finalizer = Finalizer::new(
            (session.clone(), again),
            root.id().0,
            room.clone(),
            options.durable,
            pending.clone(),
        );
        if options.keep.evict {
            pending.remember();
            room.evict_with(evict::Evictor {
                state: rustix::io::fcntl_dupfd_cloexec(&state, 0).map_err(Error::os("fcntl"))?,
                journal: journal.clone(),
                session: session.as_str().into(),
                durable: options.durable,
                finalizer: Arc::downgrade(&finalizer),
            });
        }
        let versions = Versions::new(dir, options.keep, room, options.durable, pending);
        let digests = Arc::new(Digests::new(&journal, &root, &state, &session)?);
        finalizer.tell(Box::new(digests.clone()));
        let begin = Op::Begin {
            session: session.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: holder.host,
            boot: holder.boot,
            home: options.home.map(Escaped),
            after: last.after,
            store: Some(origin::here(state.as_fd())?),
            copied: state.copied().map(str::to_owned),
            mounted: mounted_with,
        };
        journal.note(begin, None)?;
        unbegun.has_begun();
        if options.durable {
            // The session's directories, and what the store held before the session.
            state.sync_file_system()?;
        }
        let world = World {
            root,
            view,
            trash: Trash::default(),
            state,
            journal,
            versions,
            finalizer,
            digests,
            actors: Actors::default(),
            identity: options.identity,
            session,
            mounted,
            spare: None,
            names: parking_lot::RwLock::default(),
        };
        let mut settled = world.state.tell_of_copy();
        settled.extend(last.settled);
        Ok((world, settled))
    }

    /// Ends the session and releases the store. A session without a home and without a change leaves no trace.
    pub fn close(&self) {
        // Only the `begin` record was written.
        if !self.mounted && self.journal.last() == 1 {
            self.state.forget_session(&self.session);
            return self.state.close();
        }
        self.finalizer
            .finish(&writers::NobodyWrites(&self.root), AT_THE_END);
        self.digests
            .finish(&writers::NobodyWrites(&self.root), self.mounted);
        if let Err(error) = self.journal.note(Op::End, None) {
            log::warn!("the end of the session could not be recorded: {error}");
        }
        self.seal();
        self.journal.trim();
        reserve::keep(self.state.as_fd());
        self.state.close();
    }

    /// Returns the resolver of paths.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Returns the rules of visibility.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the id of the session.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns the state directory.
    pub fn state(&self) -> &StateDir {
        &self.state
    }

    /// Returns the number of records in this session.
    pub fn records(&self) -> u64 {
        self.journal.last()
    }

    /// Returns the read-only view of the store.
    pub fn store_view(&self) -> StoreView<'_> {
        StoreView {
            root: &self.root,
            view: &self.view,
            state: Some(self.state.id()),
        }
    }

    /// Resolves a directory like [`StoreView::dir`].
    ///
    /// # Errors
    /// As [`StoreView::dir`].
    pub fn dir(&self, path: &WorldPath) -> Result<Dir> {
        self.store_view().dir(path)
    }

    /// Resolves the directory that holds a path, and the path's last name.
    ///
    /// # Errors
    /// As [`StoreView::parent`].
    pub fn parent<'a>(&self, path: &'a WorldPath) -> Result<(Dir, Name<'a>)> {
        self.store_view().parent(path)
    }

    /// Looks up an entry.
    ///
    /// # Errors
    /// As [`View::admit`].
    pub fn lookup<'a>(&self, dir: &'a Dir, name: Name<'a>) -> Result<Visible<'a>> {
        self.view.admit(dir, name)
    }

    /// Looks up an entry and opens it.
    ///
    /// # Errors
    /// As [`View::admit`].
    pub fn hold(&self, dir: &Dir, name: Name<'_>) -> Result<Located> {
        self.store_view().hold(dir, name)
    }

    /// Looks up a path, which may be the root, and opens what is there.
    ///
    /// # Errors
    /// As [`StoreView::dir`] and [`View::admit`].
    pub fn find(&self, path: &WorldPath) -> Result<Located> {
        self.store_view().find(path)
    }

    /// Returns the number of hard links that the occupant sees. Links in the trash do not count.
    pub fn links_shown(&self, meta: &Meta, removed: bool) -> u32 {
        let trashed = match meta.is_dir() {
            true => 0,
            false => self.state.trashed_links(meta.id),
        };
        self.store_view().links_shown(meta, removed, trashed)
    }

    /// Returns the store of former contents.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Returns the thread that makes versions final.
    pub fn finalizer(&self) -> &Arc<Finalizer> {
        &self.finalizer
    }

    /// Returns the trash.
    pub fn trash(&self) -> &Trash {
        &self.trash
    }

    fn author(&self, caller: Caller) -> Author {
        self.actors.author(caller)
    }

    fn act_as(&self, caller: Caller) -> Option<crate::sys::creds::Acting> {
        (self.identity == Identity::Caller)
            .then(|| crate::sys::creds::create_as(caller.uid, caller.gid))
    }

    fn ids(id: Id) -> crate::journal::Ids {
        [id.0, id.1]
    }
}

/// Waits until a directory's entries are on disk.
///
/// # Errors
/// Any error from `fsync(2)`.
pub fn sync_dir(root: &Root, dir: &Dir) -> Result<()> {
    let fd = root.read_dir(dir)?;
    rustix::fs::fsync(fd.as_fd()).map_err(Error::os("fsync"))
}
