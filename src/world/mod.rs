//! The world: every rule, no FUSE.
//!
//! [`World`] owns what exists for the occupant, what a removal means, and what is recorded. Its verbs take `(&Dir, Name)`
//! or a [`Located`] thing, and each goes admit → prepare → record → act → settle. The FUSE daemon is one door to it; an
//! unmounted store, opened in process, is the other.
//!
//! Locks, in this order and never nested, but for the last: the view's pinned set, the trash's memory, the state's counts, the journal, and under
//! it which versions are not final. None is
//! held over a system call but the journal's own `write(2)`, and, before them all, `names`: no other inode takes the place of a
//! file that moves. What else must not change between two calls is verified after the act by inode, and rolled back.

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
mod open_state;
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
pub use purge::Purged;
pub use read_only::{Claim, Locked, ReadOnlyStore};
pub use remove::Removed;
pub use rename::{Moved, Renaming};
pub use replace::{NewContent, version_path};
pub use root::{Dir, Node, Root};
pub use sessions::new_session_id;
pub use settled::Settled;
pub use store_view::StoreView;
pub use versions::KeepOptions;
pub use view::{Symlinks, View, ViewOptions, Visible};
pub use writers::{Rest, Writers};

use crate::error::{Error, Result};
use crate::journal::{Actor, Actors, Journal, Op};
pub use crate::journal::{Caller, Kept};
use crate::name::{Escaped, Name, WorldPath};
use state::{Holder, StateDir};
use trash::Trash;
use versions::Versions;

/// How long the end of a session waits for versions to become final; the others stay whole.
const AT_THE_END: std::time::Duration = std::time::Duration::from_secs(2);

/// To whom created things belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Identity {
    /// To whoever the acting thread is: one owner.
    #[default]
    Thread,
    /// To the caller of each request; the kernel has checked the caller's permissions.
    Caller,
}

/// The choices a world is made from.
#[derive(Debug, Clone, Default)]
pub struct WorldOptions {
    /// What exists.
    pub view: ViewOptions,
    /// To whom created things belong.
    pub identity: Identity,
    /// Whether each record is on the disk before its act (against power cuts).
    pub durable: bool,
    /// The user that acts on the store, where it is not this process's own: the trash must be theirs.
    pub owner: Option<(u32, u32)>,
    /// What is kept of contents.
    pub keep: KeepOptions,
    /// The id of the session, unless that would not be the newest ([`StateDir::session`]); it names its directory.
    pub session: String,
    /// Where the home is, for the record; absent for work on an unmounted store.
    pub home: Option<Vec<u8>>,
}

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
    /// Whether it is the world of a home.
    mounted: bool,
    /// What a removal is given on a full disk.
    spare: Option<std::fs::File>,
    /// Held for reading while a name moves, for writing while another inode takes a file's place (`replace.rs`).
    names: parking_lot::RwLock<()>,
}

/// A thing and where it is known to be, for operations that come without a name.
#[derive(Debug)]
pub struct Located {
    /// The thing.
    pub node: Node,
    /// Where it is; in the trash once it was removed.
    pub path: WorldPath,
    /// Whether it was removed while open: then it is as writable as it was before, wherever it lies.
    pub removed: bool,
}

impl World {
    /// Opens a store, locks it, settles what an earlier session left open, and begins a session.
    ///
    /// # Errors
    /// [`Error::Refused`] where the store is being served, or its trash or state is not what it should be;
    /// [`Error::Damaged`] where the last journal cannot be read.
    pub fn open(store: &std::path::Path, options: WorldOptions) -> Result<(World, Vec<Settled>)> {
        World::over((Root::open(store)?, None), options)
    }

    /// Begins a session, as [`World::over`], where there is space for one.
    fn begin((root, located): Locked, options: WorldOptions) -> Result<(World, Vec<Settled>)> {
        let home = options.home.as_deref().map(crate::name::escape);
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
        };
        journal.note(begin, None)?;
        unbegun.has_begun();
        if options.durable {
            // The directories of the session, and what the store held before it.
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

    /// Ends the session and lets the store go. One in which an operator, with nothing mounted, did nothing leaves nothing.
    pub fn close(&self) {
        // Its begin is its only record.
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

    /// Returns what exists.
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

    /// Returns how many records the session has.
    pub fn records(&self) -> u64 {
        self.journal.last()
    }

    /// Returns what can be looked at.
    pub fn store_view(&self) -> StoreView<'_> {
        StoreView {
            root: &self.root,
            view: &self.view,
            state: Some(self.state.id()),
        }
    }

    /// Resolves a directory, as [`StoreView::dir`].
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

    /// Looks an entry up.
    ///
    /// # Errors
    /// As [`View::admit`].
    pub fn lookup<'a>(&self, dir: &'a Dir, name: Name<'a>) -> Result<Visible<'a>> {
        self.view.admit(dir, name)
    }

    /// Looks an entry up and holds on to it.
    ///
    /// # Errors
    /// As [`View::admit`].
    pub fn hold(&self, dir: &Dir, name: Name<'_>) -> Result<Located> {
        self.store_view().hold(dir, name)
    }

    /// Looks a path up and holds on to what is there, the root too.
    ///
    /// # Errors
    /// As [`StoreView::dir`] and [`View::admit`].
    pub fn find(&self, path: &WorldPath) -> Result<Located> {
        self.store_view().find(path)
    }

    /// Returns the number of hard links that the occupant is shown: those in the trash do not count.
    pub fn links_shown(&self, meta: &Meta, removed: bool) -> u32 {
        let trashed = match meta.is_dir() {
            true => 0,
            false => self.state.trashed_links(meta.id),
        };
        self.store_view().links_shown(meta, removed, trashed)
    }

    /// Returns the former contents.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Returns what makes former contents final.
    pub fn finalizer(&self) -> &Arc<Finalizer> {
        &self.finalizer
    }

    /// Returns the trash.
    pub fn trash(&self) -> &Trash {
        &self.trash
    }

    fn actor(&self, caller: Caller) -> Arc<Actor> {
        self.actors.of(caller)
    }

    fn act_as(&self, caller: Caller) -> Option<crate::sys::creds::Acting> {
        (self.identity == Identity::Caller)
            .then(|| crate::sys::creds::create_as(caller.uid, caller.gid))
    }

    fn ids(id: Id) -> crate::journal::Ids {
        [id.0, id.1]
    }
}

/// Waits until a directory's entries are on the disk.
///
/// # Errors
/// What `fsync(2)` says.
pub fn sync_dir(root: &Root, dir: &Dir) -> Result<()> {
    let fd = root.read_dir(dir)?;
    rustix::fs::fsync(fd.as_fd()).map_err(Error::os("fsync"))
}
