//! The beginning and the end of a session.
//!
//! Owns the order of both: the lock and the session that it names, the trash, the settling of an earlier session, then
//! the session's own directory, journal and threads. A session that cannot begin leaves no directory.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::error::{Error, Result};
use crate::journal::{ActorCache, Journal, Op};
use crate::name::EscapedBytes;
use crate::world::keep::digests::SessionDigests;
use crate::world::keep::draft_versions::DraftVersions;
use crate::world::keep::evict::Evictor;
use crate::world::keep::finalize::Finalizer;
use crate::world::keep::open_writers::NoWriters;
use crate::world::keep::quota::VersionQuota;
use crate::world::keep::versions::VersionStore;
use crate::world::left_copies::LeftCopies;
use crate::world::left_indexes::LeftIndexes;
use crate::world::outside_names::OutsideNames;
use crate::world::root::Root;
use crate::world::store::holder::StoreHolder;
use crate::world::store::lent_bits;
use crate::world::store::link_index::LinkIndex;
use crate::world::store::notices::SessionNotices;
use crate::world::store::notices::StoreFinding;
use crate::world::store::origin;
use crate::world::store::place::make_enclosed_state_home;
use crate::world::store::probe;
use crate::world::store::read_only::LockedStore;
use crate::world::store::reserve;
use crate::world::store::settle;
use crate::world::store::state::{StateDir, open_unlocked, refuse_strangers};
use crate::world::store::state_files;
use crate::world::trash::gatherer::GatherQueue;
use crate::world::trash::trash_entries;
use crate::world::trash::trash_entries::Trash;
use crate::world::view::View;
use crate::world::volatile::VolatileFiles;
use crate::world::{World, WorldOptions};

/// The time that the end of a session waits for versions to become final. A version that is not final by then stays
/// whole.
const END_LIMIT: std::time::Duration = std::time::Duration::from_secs(2);

impl World {
    /// Opens and locks a store, settles the acts that an earlier session left open, and begins a session.
    ///
    /// # Errors
    /// [`Error::Refused`] if the store is being served, or its trash or state directory is not safe to use;
    /// [`Error::Damaged`] if the last journal cannot be read.
    pub fn open(
        store: &std::path::Path,
        options: WorldOptions,
    ) -> Result<(World, Vec<StoreFinding>)> {
        make_enclosed_state_home(store);
        let root = Root::open_store(store)?.made_usable()?;
        refuse_strangers(&root, store)?;
        World::begin_session((root, None), options)
    }

    /// Begins a session in a store that is already open, with its lock if that is held exclusively.
    ///
    /// # Errors
    /// As [`World::open`].
    pub fn begin_session(
        (root, lock): LockedStore,
        options: WorldOptions,
    ) -> Result<(World, Vec<StoreFinding>)> {
        let attempt = || {
            let lock = lock.as_ref().and_then(|file| file.try_clone().ok());
            begin((root.duplicate()?, lock), options.clone())
        };
        match attempt() {
            Err(error) if reserve::is_full(&error) => {
                let state = open_unlocked(&root)?.ok_or(Error::NotFound)?;
                reserve::retry_without_reserve(state.as_fd(), error, attempt)
            }
            begun => begun.map(|(mut world, settled)| {
                reserve::set_up(world.state.as_fd());
                world.removal_reserve = reserve::open_spare(world.state.as_fd());
                (world, settled)
            }),
        }
    }

    /// Retries an action that found no space, with the reserve freed. `error` is the first failure.
    ///
    /// # Errors
    /// The error of the retry; `error` if there was no reserve.
    pub fn with_reserve<T>(&self, error: Error, act: impl FnMut() -> Result<T>) -> Result<T> {
        if reserve::is_full(&error) {
            reserve::retry_without_reserve(self.state.as_fd(), error, act)
        } else {
            Err(error)
        }
    }

    /// Ends a session whose home could not be mounted. The session leaves no trace, and neither does a store created
    /// for it.
    pub fn abandon(&self) {
        if self.journal.last() > 1 {
            return self.close();
        }
        self.state.forget_session(&self.session);
        self.root.lender().close();
        if self.state.is_new
            && let Err(error) = crate::world::store::unused_store::remove(&self.root)
        {
            log::warn!("what was made for the store could not be removed: {error}");
        }
        self.root.end_use();
        self.state.close();
    }

    /// Ends the session and releases the store. A session without a home and without a change leaves no trace.
    pub fn close(&self) {
        // The store is another process's by now.
        if self.has_lost_lock() {
            return;
        }
        // Only the `begin` record was written.
        let is_empty = self.journal.last() == 1 && !self.journal.has_unknown_writes();
        if !self.mounted && is_empty {
            self.end_volatile();
            self.state.forget_session(&self.session);
            self.root.end_use();
            return self.state.close();
        }
        self.gatherer.end();
        self.gather_now();
        self.end_volatile();
        self.keep_session_texts();
        self.stamp_indexes();
        self.finalizer.finish(&NoWriters(&self.root), END_LIMIT);
        self.digests.finish(&NoWriters(&self.root), self.mounted);
        self.drop_scratch();
        // What the session leaves is as its stamps say, after a power cut, too.
        if self.versions.is_durable()
            && let Err(error) = self.state.sync_file_system()
        {
            log::warn!("what the session leaves could not be written out: {error}");
        }
        if let Err(error) = self.journal.note(Op::End { settled: false }, None) {
            log::warn!("the end of the session could not be recorded: {error}");
        }
        self.seal();
        self.journal.trim();
        reserve::set_up(self.state.as_fd());
        self.root.end_use();
        self.state.close();
    }
}

/// Begins a session like [`World::begin_session`], on a disk that has space for one.
fn begin((root, lock): LockedStore, options: WorldOptions) -> Result<(World, Vec<StoreFinding>)> {
    let home = options.home.as_deref().map(crate::name::escape);
    let mounted_with = match home {
        Some(_) if options.last_mount.is_none() => Some(options.mounted_with()),
        _ => options.last_mount.clone(),
    };
    let mut holder = StoreHolder::this_process(&options.session, home);
    holder.durable = options.durable;
    let state = StateDir::open(&root, holder.clone(), lock)?;
    open_trash(&root, &state, options.owner)?;
    let named = (state.as_fd(), state.previous_session());
    let mut settled = lent_bits::take_back(&root, named, || state.is_fresh_copy());
    if options.owner.is_some() {
        root.lender().prepare()?;
    }
    let last = settle::last_session(&root, &state)?;
    let session = state.session().to_owned();
    let view = View::new(options.view.clone(), Some(state.id()), state.pinned()?)?.of_root(&root);
    if !(options.view.hide.is_empty() && options.view.read_only.is_empty()) {
        probe::expect_no_case_folding(&root, state.as_fd())?;
    }
    let notices = SessionNotices::default();
    if let Some(weak) = probe::weak_identity(state.as_fd())? {
        notices.set("identity", weak);
    }
    let volatile = VolatileFiles::take_over(&state, &options, root.id().0)?;
    let unbegun = NewSessionGuard::new(&state, &session);
    let file = state.new_session(&session)?;
    let journal = Arc::new(Journal::new(file, None, options.durable, root.id().0));
    let (versions, finalizer) = open_versions(&root, &state, &journal, &options)?;
    let digests = Arc::new(SessionDigests::new(&journal, &root, &state, &session)?);
    finalizer.set_listener(Box::new(digests.clone()));
    let mounted = options.home.is_some();
    let begin = Op::Begin {
        session: session.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: holder.host,
        boot: holder.boot,
        home: options.home.map(EscapedBytes),
        after: last.after,
        store: Some(origin::store_id(state.as_fd())?),
        copied: state.copied_session().map(str::to_owned),
        mounted: mounted_with.map(Box::new),
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
        gatherer: GatherQueue::default(),
        state,
        journal,
        versions,
        finalizer,
        digests,
        actors: ActorCache::default(),
        identity: options.identity,
        session,
        mounted,
        removal_reserve: None,
        scratch: parking_lot::Mutex::default(),
        names_lock: parking_lot::RwLock::default(),
        links: LinkIndex::default(),
        outside: OutsideNames::default(),
        left_indexes: LeftIndexes::default(),
        left_copies: LeftCopies::default(),
        volatile,
        copies_up: options.copies_up,
        notices,
        lost: AtomicBool::new(false),
    };
    settled.extend(world.state.copy_findings());
    settled.extend(last.settled);
    Ok((world, settled))
}

/// Creates the trash if it is missing, and gives it to the user that acts on the store.
fn open_trash(root: &Root, state: &StateDir, owner: Option<(u32, u32)>) -> Result<()> {
    let dir = trash_entries::open(root)?;
    trash_entries::expect_own(&dir, owner, state)?;
    state_files::hide_from_git(dir.as_fd());
    state_files::give_to(dir.as_fd(), owner)
}

/// Creates the session's directory of versions, and starts the finalizer and the evictor.
fn open_versions(
    root: &Root,
    state: &StateDir,
    journal: &Arc<Journal>,
    options: &WorldOptions,
) -> Result<(VersionStore, Arc<Finalizer>)> {
    let dup_fd = |fd| rustix::io::fcntl_dupfd_cloexec(fd, 0).map_err(Error::os("fcntl"));
    let session = state.session().to_owned();
    let pending = Arc::new(DraftVersions::default());
    journal.listen(pending.clone());
    let dir = state.make_versions_dir(&session, options.owner)?;
    let quota = VersionQuota::new(options.keep.max);
    let finalizer = Finalizer::new(
        (session.clone(), dup_fd(dir.as_fd())?),
        root.id().0,
        quota.clone(),
        options.durable,
        pending.clone(),
    );
    if options.keep.evict {
        pending.start_history();
        let evictor = Evictor {
            state: dup_fd(state.as_fd())?,
            journal: journal.clone(),
            session: session.as_str().into(),
            durable: options.durable,
            finalizer: Arc::downgrade(&finalizer),
        };
        evictor.start(&quota);
    }
    let keep = options.keep.clone();
    let versions = VersionStore::new(dir, keep, quota, options.durable, pending);
    Ok((versions, finalizer))
}

/// A guard of a session that has not begun yet. Dropping the guard removes the session's directory.
struct NewSessionGuard<'a>(Option<(&'a StateDir, &'a str)>);

impl<'a> NewSessionGuard<'a> {
    fn new(state: &'a StateDir, session: &'a str) -> NewSessionGuard<'a> {
        NewSessionGuard(Some((state, session)))
    }

    /// Keeps the directory: the session has begun.
    fn has_begun(mut self) {
        self.0 = None;
    }
}

impl Drop for NewSessionGuard<'_> {
    fn drop(&mut self) {
        if let Some((state, session)) = self.0 {
            state.forget_session(session);
        }
    }
}
