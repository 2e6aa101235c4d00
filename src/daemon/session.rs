//! The session of a home: from checked options to a clean end.
//!
//! Threads: one per core that answers requests (with the owner's rights), and one each for changes behind the mount,
//! the control socket, signals, following the caller, writing records out, and counting the trash. The main thread
//! waits for the requests to end.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fuser::{INodeNo, Notifier, Session, SessionACL};

use super::control;
use super::daemon_log::{LogTarget, start_log, trim_log};
use super::dir_watcher::DirWatcher;
use super::follow::{Follower, NoObserver};
use super::home_holders::HomeHolders;
use super::home_mount::HomeMount;
use super::lock_watch::watch_lock;
use super::preflight::{self, PreflightResult};
use super::privileges::{harden, may_pass_through};
use super::user_homes::expect_not_nested;
use super::{MountOptions, handover};
use crate::control::{HeldHomeInfo, MountStatus};
use crate::error::{Error, Result};
use crate::fuse::{
    AsideActs, CacheInvalidator, ClosedMaps, FailureLog, FileSystem, FuseOptions, HandleTable,
    HeldFiles, HomeWriters, InodeTable, ListingEnds, MountMechanisms, RecentDirs, RequestCounters,
    RequestObserver, RunMembers, SharedState, StoreWatcher, SyncSlots,
};
use crate::mounts::registry;
use crate::name::{EscapedBytes, WorldPath, escape};
use crate::world::store::place::make_enclosed_state_home;
use crate::world::store::state::refuse_strangers;
use crate::world::{
    EraseListener, FileOwnership, Id, Root, SessionPatterns, SymlinkPolicy, ViewOptions, World,
    WorldOptions, new_session_id,
};

/// Mounts and serves a home until it is unmounted.
pub(super) fn run(
    wanted: &MountOptions,
    log_to: LogTarget,
    ready: impl FnOnce(Vec<String>),
) -> Result<()> {
    let checked = preflight::check(wanted)?;
    let _claimed = handover::claim(&checked.home)?;
    handover::wait_for_store(&checked.store)?;
    harden();
    let root = open_root(wanted, &checked.store)?.made_usable()?;
    refuse_strangers(&root, &checked.store)?;
    // No process knows the path of a home that only sandboxes enter, so none waits for it in vain meanwhile.
    let early = wanted
        .only_in_sandboxes
        .then(|| HomeMount::mount(wanted, &checked));
    let early = early.transpose()?;
    let detached = early.as_ref().is_some_and(|(mount, _)| mount.is_detached());
    let options = world_options(wanted, &checked, detached);
    let (world, settled) = World::begin_session((root, None), options)?;
    let log = start_log(log_to, &world);
    let settled: Vec<String> = settled.iter().map(ToString::to_string).collect();
    if let Some(notice) = early.as_ref().and_then(|(mount, _)| mount.notice()) {
        world.notices().set("sandboxes", notice.to_owned());
    }
    let notices = world.notices().all();
    settled
        .iter()
        .chain(&notices)
        .for_each(|line| log::warn!("{line}"));

    let (mount, device) = match early {
        Some(early) => early,
        None => HomeMount::mount(wanted, &checked).inspect_err(|_| world.abandon())?,
    };
    let mount = Arc::new(mount);
    let messages = settled.into_iter().chain(notices).collect();
    serve(wanted, &checked, world, (&mount, device), || {
        ready(messages)
    })?;
    mount.clear();
    if let Some(log) = log {
        trim_log(&log);
    }
    Ok(())
}

/// Opens the store that was looked up before, with its own directories where they are or are to be.
fn open_root(wanted: &MountOptions, store: &Path) -> Result<Root> {
    make_enclosed_state_home(store);
    let root = match wanted.store_id {
        Some((device, inode)) => Root::open_expecting(store, Id(device, inode))?,
        None => Root::open_store(store)?,
    };
    match &wanted.state {
        Some(place) if !root.has_state_elsewhere() => {
            root.with_place_at(Path::new(OsStr::from_bytes(&place.0)))
        }
        _ => Ok(root),
    }
}

fn world_options(wanted: &MountOptions, checked: &PreflightResult, detached: bool) -> WorldOptions {
    WorldOptions {
        view: ViewOptions {
            hide: wanted.hide.clone(),
            read_only: wanted.read_only.clone(),
            all_read_only: wanted.mount.read_only,
            symlinks: if wanted.symlinks_inside {
                SymlinkPolicy::Inside
            } else {
                SymlinkPolicy::Hidden
            },
            all_symlinks: detached,
            list_trash: wanted.list_trash,
        },
        identity: if wanted.mount.allow_other {
            FileOwnership::Caller
        } else {
            FileOwnership::Thread
        },
        durable: wanted.durable,
        keep: wanted.keep.clone(),
        owner: checked.owner.as_ref().map(|owner| (owner.uid, owner.gid)),
        session: new_session_id(),
        home: Some(checked.home.as_os_str().as_bytes().to_vec()),
        copies_up: wanted.while_held,
        volatile: wanted.volatile.clone(),
        last_mount: None,
    }
    .with_session_patterns(&wanted.session_patterns)
}

/// Makes what the requests share with the rest of the daemon, and what notices changes behind the mount.
fn make_shared_state(
    wanted: &MountOptions,
    checked: &PreflightResult,
    mount: &HomeMount,
    world: World,
) -> Result<(Arc<SharedState>, Option<Arc<DirWatcher>>)> {
    let root = world.root().dir(&WorldPath::root())?;
    let watcher = match wanted.cache_ttl {
        Some(_) => None,
        None => DirWatcher::open(&root).map(Arc::new),
    };
    let follower = if wanted.follow {
        Follower::start()
    } else {
        None
    };
    let mechanisms = MountMechanisms {
        follow: follower.is_some(),
        ..MountMechanisms::default()
    };
    let observer: Arc<dyn RequestObserver> = match follower {
        Some(follower) => follower,
        None => Arc::new(NoObserver),
    };
    let shared = Arc::new(SharedState {
        inodes: InodeTable::new(root.id()),
        handles: HandleTable::default(),
        dirs: RecentDirs::default(),
        runs: RunMembers::default(),
        ends: ListingEnds::default(),
        counters: RequestCounters::default(),
        syncs: SyncSlots::of_workers(worker_count()),
        aside: AsideActs::default(),
        closed_maps: ClosedMaps::default(),
        held: HeldFiles::default(),
        failures: FailureLog::default(),
        mechanisms: parking_lot::Mutex::new(mechanisms),
        marking: parking_lot::Mutex::default(),
        watch: watcher
            .clone()
            .map(|watcher| -> Arc<dyn StoreWatcher> { watcher }),
        observer,
        options: FuseOptions {
            ttl: wanted.cache_ttl,
            xattr: wanted.xattr,
            passthrough: wanted.passthrough && may_pass_through(),
            shown_owner: mount.shown_owner(),
        },
        world,
        owner: checked.owner.clone(),
        kernel: std::sync::OnceLock::new(),
    });
    Ok((shared, watcher))
}

/// Returns how many threads answer requests.
fn worker_count() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Begins to answer the kernel.
fn start_fuse_session(shared: &Arc<SharedState>, device: OwnedFd) -> Result<Session<FileSystem>> {
    let mut config = fuser::Config::default();
    config.acl = SessionACL::All; // The kernel keeps other users out, by `user_id=` or as requested.
    config.n_threads = Some(worker_count());
    config.clone_fd = true;
    Session::from_fd(
        FileSystem::new(shared.clone()),
        device,
        SessionACL::All,
        config,
    )
    .map_err(|error| {
        Error::refused(
            format!("the kernel does not answer: {error}"),
            "Look into the kernel's log.",
        )
    })
}

fn serve(
    wanted: &MountOptions,
    checked: &PreflightResult,
    world: World,
    (mount, device): (&Arc<HomeMount>, OwnedFd),
    ready: impl FnOnce(),
) -> Result<()> {
    let (shared, watcher) = make_shared_state(wanted, checked, mount, world)?;
    let writers = HomeWriters(Arc::downgrade(&shared));
    shared.world.finalizer().start(Box::new(writers));
    let writers = HomeWriters(Arc::downgrade(&shared));
    shared.world.digests().start(Box::new(writers));
    let writers = HomeWriters(Arc::downgrade(&shared));
    shared.world.listen_to_seals(Box::new(writers));
    let listener = control::listen(&shared.world)?;
    shared.world.attend_records();
    let session = start_fuse_session(&shared, device)?;
    let kernel = KernelNotifier::of(&session)?;
    let _ = shared.kernel.set(Box::new(kernel.clone()));
    gather_behind(&shared);
    erase_behind(&shared, kernel.clone());

    let requests = spawn_thread("requests", move || -> Result<()> {
        let ended = session.run();
        ended.map_err(|error| Error::refused(format!("requests ended: {error}"), ""))
    })?;
    if let Some(watcher) = watcher.clone() {
        let (shared, kernel) = (shared.clone(), kernel.clone());
        spawn_thread("watch", move || watcher.run(&shared, &kernel))?;
    }
    let status = status_of(checked, mount, &shared, watcher);
    let (for_control, for_count) = (shared.clone(), shared.clone());
    let turn = Arc::new(control::OperatorLock::default());
    let holders = holders_of(wanted, checked, mount);
    let of_holders = holders.clone();
    let of_control = turn.clone();
    spawn_thread("control", move || {
        control::serve(
            &listener,
            &for_control,
            &kernel,
            &status,
            &of_control,
            &of_holders,
        )
    })?;
    spawn_thread("trash", move || {
        for_count
            .world
            .finish_purges()
            .and_then(|_| for_count.world.count_versions())
            .and_then(|()| for_count.world.count_trash())
            .unwrap_or_else(|error| log::warn!("trash: {error}"))
    })?;
    spawn_thread("holders", move || holders.await_first())?;
    watch_lock(&shared)?;
    let registered = mount.register(checked);
    let signals = end_on_signals(mount.clone(), turn.clone())?;

    // Of two stores that lie in each other, each may have looked before the other was known.
    let nested = expect_not_nested(&checked.store);
    if nested.is_ok() {
        ready();
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    } else {
        mount.unmount(true)?;
    }
    let outcome = requests
        .join()
        .unwrap_or_else(|_| Err(Error::refused("the requests' thread broke down", "")));
    signals.close();
    // An operator's change is finished first: the end is the last record.
    let _last = turn.end();
    FileSystem::new(shared.clone()).close_all();
    shared.world.close();
    if let Some(file) = registered {
        registry::remove(&file);
    }
    nested.and(outcome)
}

/// Has what was removed from a directory gathered after the directory's removal was answered, with the rights that the
/// removal had.
fn gather_behind(shared: &Arc<SharedState>) {
    let (as_owner, weak) = (FileSystem::new(shared.clone()), Arc::downgrade(shared));
    shared.world.gather_behind(
        move || as_owner.act_as_owner(),
        move |act| weak.upgrade().map(|shared| act(&shared.world)).is_some(),
    );
}

/// The home for the thread that deletes what is volatile.
struct ErasedHome {
    shared: Weak<SharedState>,
    kernel: KernelNotifier,
}

impl EraseListener for ErasedHome {
    fn is_open(&self, id: Id) -> bool {
        self.shared.upgrade().is_some_and(|shared| {
            let number = shared.inodes.number_of(id);
            number.is_some_and(|number| shared.handles.is_open(number).0)
        })
    }

    fn note_erased(&self, entries: &[EscapedBytes]) {
        if let Some(shared) = self.shared.upgrade() {
            control::forget_entries(entries, &shared, &self.kernel);
        }
    }
}

/// Has what is volatile deleted for good after its removal was answered.
fn erase_behind(shared: &Arc<SharedState>, kernel: KernelNotifier) {
    let weak = Arc::downgrade(shared);
    let home = ErasedHome {
        shared: weak.clone(),
        kernel,
    };
    let with_world = move |act: &mut dyn FnMut(&World)| {
        let shared = weak.upgrade();
        shared.map(|shared| act(&shared.world)).is_some()
    };
    shared.world.erase_behind(with_world, home);
}

fn spawn_thread<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<std::thread::JoinHandle<T>> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(run).map_err(|error| {
        Error::refused(
            format!("cannot start a thread: {error}"),
            "Raise the limit of processes.",
        )
    })
}

fn holders_of(
    wanted: &MountOptions,
    checked: &PreflightResult,
    mount: &Arc<HomeMount>,
) -> Arc<HomeHolders> {
    let (uid, gid) = checked.ids();
    let held = HeldHomeInfo {
        home: EscapedBytes(checked.home.as_os_str().as_bytes().to_vec()),
        uid,
        gid,
        read_only: wanted.mount.read_only,
        only_in_sandboxes: mount.is_detached(),
        patterns: SessionPatterns {
            hide: [&wanted.hide[..], &wanted.session_patterns.hide].concat(),
            read_only: [&wanted.read_only[..], &wanted.session_patterns.read_only].concat(),
            volatile: [&wanted.volatile[..], &wanted.session_patterns.volatile].concat(),
        },
    };
    let owner = checked.owner.as_ref().map(|_| (uid, gid));
    HomeHolders::new(held, mount.clone(), owner, wanted.while_held)
}

fn status_of(
    checked: &PreflightResult,
    mount: &HomeMount,
    shared: &Arc<SharedState>,
    watcher: Option<Arc<DirWatcher>>,
) -> impl Fn() -> MountStatus + use<> {
    let text = |path: &Path| escape(path.as_os_str().as_bytes());
    let (home, store) = (text(&checked.home), text(&checked.store));
    let since = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    let shared = shared.clone();
    let only_in_sandboxes = mount.is_detached();
    move || {
        let mechanisms = *shared.mechanisms.lock();
        MountStatus {
            home: home.clone(),
            only_in_sandboxes,
            store: store.clone(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            session: shared.world.session().to_owned(),
            since: since.clone(),
            mechanisms: serde_json::to_value(mechanisms).unwrap_or_default(),
            counters: serde_json::to_value(shared.counters.all()).unwrap_or_default(),
            known: shared.inodes.len(),
            open: shared.handles.len(),
            members: shared.runs.member_count(),
            watched: watcher
                .as_ref()
                .map_or(0, |watcher| watcher.watched_count()),
            records: shared.world.records(),
            trash_bytes: shared.world.trash().bytes(),
            kept_bytes: shared.world.versions().quota().used(),
            refused: shared.world.versions().quota().refused(),
            not_final: shared.world.finalizer().waiting_count(),
            runs: shared.runs.runs(),
            volatile_waiting: shared.world.volatile_waiting(),
            notices: shared.world.notices().all(),
        }
    }
}

/// Unmounts on SIGTERM and SIGINT. A home in use disappears from view at once and ends with its last user, or shortly
/// after.
fn end_on_signals(
    mount: Arc<HomeMount>,
    turn: Arc<control::OperatorLock>,
) -> Result<signal_hook::iterator::Handle> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP])
        .map_err(|error| Error::refused(format!("no signals: {error}"), ""))?;
    let handle = signals.handle();
    spawn_thread("signals", move || {
        for _ in signals.forever() {
            // A home with a keeper is in use as long as a sandbox has it.
            if mount.unmount(false).is_ok() && !mount.is_detached() {
                continue;
            }
            log::warn!(
                "the home is in use; it is taken out of sight, and ends in ten seconds at the latest"
            );
            let _ = mount.unmount(true);
            std::thread::sleep(Duration::from_secs(10));
            let _last = turn.end();
            // Files that are still open return ENOTCONN from now on. All written data is in the store.
            std::process::exit(0);
        }
    })?;
    Ok(handle)
}

/// fuser's notifier, for the modules that do not see fuser.
#[derive(Debug, Clone)]
struct KernelNotifier {
    notifier: Notifier,
    /// The device, for what fuser has no words for.
    device: Arc<OwnedFd>,
}

/// The notification about an entry of a directory, `FUSE_NOTIFY_INVAL_ENTRY` of linux/fuse.h.
const ENTRY_NOTIFICATION: i32 = 3;
/// The flag of that notification by which the entry only expires, `FUSE_EXPIRE_ONLY`; padding before Linux 6.2.
const EXPIRE_ONLY: u32 = 1;

impl KernelNotifier {
    /// Makes one for a session.
    ///
    /// # Errors
    /// Errors of `fcntl(2)`.
    fn of(session: &Session<FileSystem>) -> Result<KernelNotifier> {
        let device = rustix::io::fcntl_dupfd_cloexec(session, 0).map_err(Error::os("fcntl"))?;
        Ok(KernelNotifier {
            notifier: session.notifier(),
            device: Arc::new(device),
        })
    }
}

/// Writes the notification that an entry expires: `fuse_out_header`, `fuse_notify_inval_entry_out`, and the name.
fn expiry(dir: u64, name: &[u8]) -> Vec<u8> {
    const HEADERS: u32 = 16 + 16;
    let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
    let total = HEADERS.saturating_add(length).saturating_add(1);
    let mut message = Vec::with_capacity(name.len() + 33);
    message.extend(total.to_ne_bytes());
    message.extend(ENTRY_NOTIFICATION.to_ne_bytes());
    message.extend(0_u64.to_ne_bytes());
    message.extend(dir.to_ne_bytes());
    message.extend(length.to_ne_bytes());
    message.extend(EXPIRE_ONLY.to_ne_bytes());
    message.extend(name);
    message.push(0);
    message
}

impl CacheInvalidator for KernelNotifier {
    fn invalidate_entry(&self, dir: u64, name: &[u8]) {
        let invalidated = self
            .notifier
            .inval_entry(INodeNo(dir), OsStr::from_bytes(name));
        invalidated
            .and_then(|()| self.notifier.inval_inode(INodeNo(dir), 0, 0))
            .unwrap_or_else(|error| {
                log::debug!("the kernel could not be told of an entry: {error}")
            });
    }

    fn expire_entry(&self, dir: u64, name: &[u8]) {
        match rustix::io::write(&*self.device, &expiry(dir, name)) {
            // What the kernel does not know need not expire.
            Ok(_) | Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {}
            Err(error) => log::debug!("the kernel could not be told of an entry: {error}"),
        }
        self.invalidate_inode(dir, true);
    }

    fn invalidate_inode(&self, number: u64, content: bool) {
        let from = if content { 0 } else { -1 };
        self.notifier
            .inval_inode(INodeNo(number), from, 0)
            .unwrap_or_else(|error| {
                log::debug!("the kernel could not be told of a change: {error}")
            });
    }
}
