//! The world: every rule of the file system, without FUSE.
//!
//! [`World`] decides what exists for the occupant, what a removal means, and what is recorded. Its methods take
//! `(&Dir, Name)` or a [`LocatedNode`] node, and each goes through the same steps: admit, prepare, record, act, settle.
//! There are two ways in: the FUSE daemon, and an unmounted store opened in process.
//!
//! Lock order: the view's pinned set, the trash's memory, the state's counts, the journal. They are never nested,
//! except that the set of versions that are not final is taken under the journal's lock. None is held over a system
//! call except the journal's own `write(2)`. `names` comes before them all: it keeps another inode from taking the
//! place of a file that moves. Anything else that must not change between two calls is verified after the act by
//! inode, and rolled back.

pub mod adopt;
mod attr;
mod beneath;
mod copy_up;
mod create;
mod durable;
mod entries;
mod file;
pub mod git_index;
mod granted_modes;
pub mod holes;
pub mod keep;
mod left_copies;
mod left_indexes;
mod list;
mod located;
mod marker_records;
pub mod node_access;
mod open_state;
mod operator_rights;
mod options;
mod outside_names;
mod remove;
mod rename;
mod reuse;
pub mod root;
mod scratch;
mod space;
pub mod store;
pub mod trash;
pub mod view;
mod volatile;
mod walk;
mod xattr;

use std::os::fd::AsFd;
use std::sync::Arc;

pub use attr::check_set_gid;
pub use copy_up::{CopiedName, StoreCopy};
pub use create::CreatedFile;
pub use keep::blocks::{BlockVersion, copy_range};
pub use keep::digests::SessionDigests;
pub use keep::finalize::Finalizer;
pub use keep::finalize::{FinalListener, FinalVersion};
pub use keep::likeness::CAPABILITY;
pub use keep::open_writers::{OpenWriters, WriteStatus};
pub use keep::replace::{NewContent, version_path};
pub use list::DirEntry;
pub use located::LocatedNode;
pub use open_state::{NoOpenState, OpenState, StartedVersion};
pub use options::{FileOwnership, KeepOptions, SessionPatterns, WorldOptions};
pub use remove::RemovedNode;
pub use rename::{RenameMode, RenameResult};
pub use root::{Dir, Node, Root};
pub use store::expire::ExpireResult;
pub use store::notices::SessionNotices;
pub use store::notices::StoreFinding;
pub use store::offline::last_mounted_with;
pub use store::read_only::{LockedStore, ReadOnlyStore, StoreClaim};
pub use store::sessions::new_session_id;
pub use store::store_view::StoreView;
pub use trash::purge::PurgeResult;
pub use trumanfs_types::attrs::{SetAttrs, SetTime};
pub use trumanfs_types::meta::{Id, Meta, Time};
pub use trumanfs_types::xattr::{Xattrs, xattrs};
pub use view::{SymlinkPolicy, View, ViewOptions, VisibleEntry};
pub use volatile::EraseListener;

use crate::error::{Error, Result};
use crate::journal::{ActorCache, Author, Journal};
pub use crate::journal::{
    Caller, Origin, OriginKind, Run, RunId, SealListener, TurnMark, VersionRef,
};
use crate::name::{Name, WorldPath};
use keep::versions::VersionStore;
use root::stat_fd;
use store::state::StateDir;
use trash::gatherer::GatherQueue;
use trash::trash_entries::Trash;
use volatile::VolatileFiles;

/// A store and its rules.
#[derive(Debug)]
pub struct World {
    root: Root,
    view: View,
    trash: Trash,
    gatherer: GatherQueue,
    state: StateDir,
    journal: Arc<Journal>,
    versions: VersionStore,
    finalizer: Arc<Finalizer>,
    digests: Arc<SessionDigests>,
    actors: ActorCache,
    identity: FileOwnership,
    session: String,
    /// True if a home is mounted on this world.
    mounted: bool,
    /// The reserved space that removals are given on a full disk.
    removal_reserve: Option<std::fs::File>,
    /// True if the scratch directory has been created.
    scratch: parking_lot::Mutex<bool>,
    /// Read-held from reading a directory's time until a name in it has moved, write-held while another inode takes a
    /// file's place (`replace.rs`).
    names_lock: parking_lot::RwLock<()>,
    /// The names of files with several hard links.
    links: store::link_index::LinkIndex,
    outside: outside_names::OutsideNames,
    /// The git indexes that came since the last seal.
    left_indexes: left_indexes::LeftIndexes,
    left_copies: left_copies::LeftCopies,
    volatile: VolatileFiles,
    /// True if files with names outside the store are copied for every program, not only for those of an executor.
    copies_up: bool,
    notices: SessionNotices,
    /// True if another process has the store's lock by now.
    lost: std::sync::atomic::AtomicBool,
}

impl World {
    /// Lets the journal's thread seal records now and then, and write them out soon after they are made, for the rest
    /// of the session ([`Journal::attend`]).
    pub fn attend_records(&self) {
        self.journal.attend();
    }

    /// Seals the records so far, for a reader that is about to rely on them. If that fails, they are read without a
    /// seal.
    pub fn seal(&self) {
        if let Err(error) = self.journal.seal() {
            log::warn!("the journal could not be sealed: {error}");
        }
    }

    /// Takes a stamp of a file, open as `file`, that the home made or changed and leaves now.
    pub fn note_left(&self, file: impl AsFd) {
        match stat_fd(file.as_fd()) {
            Ok(meta) => self.note_left_as(&meta),
            Err(error) => log::debug!("a file that was left has no stamp: {error}"),
        }
    }

    /// Takes a stamp of a file after a change of its content, unless the home has it open for writing.
    fn note_content_changed(&self, meta: &Meta, open_state: &dyn OpenState) {
        match open_state.is_written() {
            true => drop(self.journal.note_state(|| Ok::<_, Error>(*meta))),
            false => self.journal.note_left(meta),
        }
    }

    /// Notes the state of a file, open as `file`, that the home still writes to: its stamp is taken at the last close.
    ///
    /// # Errors
    /// Those of `fstat(2)`.
    pub fn note_state(&self, file: impl AsFd) -> Result<Meta> {
        self.journal.note_state(|| stat_fd(file.as_fd()))
    }

    /// The same, given the state.
    pub fn note_state_as(&self, meta: &Meta) {
        let _: Result<Meta> = self.journal.note_state(|| Ok(*meta));
    }

    /// Forgets the state of a file that was noted last.
    pub fn forget_state(&self, id: Id) {
        self.journal.forget_state(id);
    }

    /// Returns the number of the last record, for [`World::note_left_since`].
    pub fn newest_for_stamps(&self) -> u64 {
        self.journal.newest_for_stamps()
    }

    /// Takes a stamp of a file as it was left after a record, unless a later one has changed it.
    pub fn note_left_since(&self, meta: &Meta, since: u64) {
        self.journal.note_left_since(meta, since);
    }

    /// Takes a stamp of a file that is about to be closed by its only writer.
    pub fn note_closing(&self, meta: &Meta) {
        self.journal.note_closing(meta);
    }

    /// Notes that the last open for writing of a file has ended, and whether all writes through it were seen. `meta` is
    /// what was seen of it last.
    pub fn note_closed(&self, meta: &Meta, was_seen: bool) {
        if self.journal.note_closed(meta, was_seen) {
            self.note_run_left();
        }
    }

    /// Has the journal sealed soon, as if there were a record.
    pub fn wake_sealing(&self) {
        self.journal.wake();
    }

    /// Sets the listener to seals, which takes the stamps that are due.
    pub fn listen_to_seals(&self, listener: Box<dyn SealListener>) {
        self.journal.listen_to_seals(listener);
    }

    /// As [`World::note_left`], of a file that was just looked at.
    pub fn note_left_as(&self, meta: &Meta) {
        self.journal.note_left(meta);
    }

    /// Returns the session's digests.
    pub fn digests(&self) -> &Arc<SessionDigests> {
        &self.digests
    }

    /// Returns the notices for the user who mounted the store.
    pub fn notices(&self) -> &SessionNotices {
        &self.notices
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
    pub fn lookup<'a>(&self, dir: &'a Dir, name: Name<'a>) -> Result<VisibleEntry<'a>> {
        self.view.admit(dir, name)
    }

    /// Looks up an entry and opens it.
    ///
    /// # Errors
    /// As [`View::admit`].
    pub fn locate(&self, dir: &Dir, name: Name<'_>) -> Result<LocatedNode> {
        self.store_view().locate(dir, name)
    }

    /// Looks up a path, which may be the root, and opens what is there.
    ///
    /// # Errors
    /// As [`StoreView::dir`] and [`View::admit`].
    pub fn find(&self, path: &WorldPath) -> Result<LocatedNode> {
        self.store_view().find(path)
    }

    /// Returns the number of hard links that the occupant sees. Links in the trash do not count.
    pub fn links_shown(&self, meta: &Meta, removed: bool) -> u32 {
        let trashed = if meta.is_dir() {
            0
        } else {
            self.state.trashed_links(meta.id)
        };
        self.store_view().links_shown(meta, removed, trashed)
    }

    /// Returns the store of former contents.
    pub fn versions(&self) -> &VersionStore {
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

    fn act_as(&self, caller: Caller) -> Option<crate::sys::creds::IdentityGuard> {
        (self.identity == FileOwnership::Caller)
            .then(|| crate::sys::creds::create_as(caller.uid, caller.gid))
    }

    fn ids(id: Id) -> crate::journal::InodeNumbers {
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
