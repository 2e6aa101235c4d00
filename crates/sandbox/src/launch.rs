//! Launching: from a plan to a program that runs.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::backend::{BackendChoice, is_refused_here};
use super::bound_contents::BoundContents;
use super::bwrap;
use super::descriptor_list::{DescriptorList, SentDescriptor};
use super::error::{LaunchError, Step};
use super::first_process::{ParentThread, StandbyProcess, first, program_user};
use super::image::InitImage;
use super::in_place;
use super::install_tree::{InstallTree, tree_of};
use super::layout::{SandboxLayout, layout};
use super::limits::{self, CgroupHierarchies, EnforcedLimits};
use super::network_sockets::NetworkSockets;
use super::plan::{NetworkAccess, SandboxPlan};
use super::reaper::ChildReaper;
use super::running::RunningProgram;
use super::start_order::{NO_PROGRAM, make_start_order};
use parking_lot::Mutex;
use trumanfs_init::UserIds;
use trumanfs_init::backend::Backend;
use trumanfs_init::channel::{self, MAX_DESCRIPTORS};
use trumanfs_init::orders::{InitOrders, ListenerPorts};

/// The most bytes that `/dev/shm` and the sandbox's root may hold where no limit of memory is set.
const MEMORY_FILE_BYTES: u64 = 1 << 30;

/// The launcher that starts sandboxes: a program whose [`run_init`](super::run_init) is their first process.
#[derive(Debug)]
pub struct Launcher {
    image: Arc<InitImage>,
    /// The hierarchies in which cgroups can be made; `None` if no cgroup shall be made.
    cgroups: Option<CgroupHierarchies>,
    choice: BackendChoice,
    /// Set once this machine has refused the namespaces that bubblewrap was allowed to make.
    is_refused: OnceLock<()>,
    /// The first process of the next sandbox, if one was started ahead.
    ahead: Mutex<Option<StandbyProcess>>,
    /// Outlives this while there are sandboxes.
    reaper: Arc<ChildReaper>,
}

impl Launcher {
    /// A launcher with the first process that this program carries, else with the program that is running.
    #[must_use]
    pub fn of_this_program() -> Self {
        Self::with_image(InitImage::default())
    }

    /// A launcher with a file of this program; for tests, which are programs of their own.
    ///
    /// # Errors
    /// [`Step::Init`] if the file cannot be opened.
    pub fn of(program: &Path) -> Result<Self, LaunchError> {
        InitImage::of(program).map(Self::with_image)
    }

    fn with_image(image: InitImage) -> Self {
        Self {
            image: Arc::new(image),
            cgroups: Some(CgroupHierarchies::find()),
            choice: BackendChoice::Auto,
            is_refused: OnceLock::new(),
            ahead: Mutex::default(),
            reaper: Arc::default(),
        }
    }

    /// The same with a choice of its own of what makes the sandboxes.
    #[must_use]
    pub fn with_choice(self, choice: BackendChoice) -> Self {
        Self { choice, ..self }
    }

    /// The same without cgroups: limits are enforced by other means.
    #[must_use]
    pub fn without_cgroups(self) -> Self {
        Self {
            cgroups: None,
            ..self
        }
    }

    /// Returns whether sandboxes find the home by its path alone: bubblewrap makes them, or there are none.
    #[must_use]
    pub fn needs_paths(&self) -> bool {
        let is_for_paths =
            matches!(self.choice, BackendChoice::Only(backend) if backend != Backend::Namespaces);
        is_for_paths || self.is_refused.get().is_some()
    }

    /// Returns whether programs see everything at its path outside: they get no namespaces.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        matches!(self.choice, BackendChoice::Only(backend) if !backend.has_namespaces())
    }

    /// Starts the first process of the next sandbox ahead, for this user and group; returns at once. The next launch
    /// for them takes it, and one for somebody else ends it. One waits at a time, and none where bubblewrap makes the
    /// sandboxes. What fails here fails at the launch.
    pub fn prepare(&self, uid: u32, gid: u32) {
        let user = (uid, gid);
        if self.needs_paths() {
            return;
        }
        let mut ahead = self.ahead.lock();
        if ahead.as_ref().is_some_and(|ahead| ahead.is_for(user)) {
            return;
        }
        *ahead = StandbyProcess::start(self.image.clone(), user, self.reaper.clone());
    }

    /// Returns a first process without orders, and its parent if that is not the calling thread.
    fn first(&self, user: UserIds) -> Result<(RunningProgram, Option<ParentThread>), LaunchError> {
        let ahead = self.ahead.lock().take().filter(|ahead| ahead.is_for(user));
        match ahead.and_then(StandbyProcess::wait_until_started) {
            Some((running, parent)) => Ok((running, Some(parent))),
            None => {
                let started = first(Backend::Namespaces, &self.image, user, &self.reaper);
                started.map(|running| (running, None))
            }
        }
    }
}

/// Starts a program. When this returns, its sandbox is complete and the program is being executed; whether it could be
/// is told by [`RunningProgram::wait`], because the home, which may hang, is involved in that.
///
/// # Errors
/// The step that could not be set up. Nothing runs then, and nothing is left behind.
pub fn launch(plan: SandboxPlan, launcher: &Launcher) -> Result<RunningProgram, LaunchError> {
    launch_with(plan, launcher, |_| {})
}

/// Starts a program, as [`launch()`]. `begun` is called with the number of the sandbox's first process, in whose PID
/// namespace everything will run, before anything does; once more where the first backend's sandbox could not be set
/// up.
///
/// # Errors
/// As [`launch()`].
pub fn launch_with(
    plan: SandboxPlan,
    launcher: &Launcher,
    begun: impl FnMut(i32),
) -> Result<RunningProgram, LaunchError> {
    if plan.argv.is_empty() {
        return Err(LaunchError::refused(Step::Plan, NO_PROGRAM));
    }
    launch_service(&plan, launcher, begun)
}

/// Makes a sandbox, which takes orders if the plan has no program, by the backend that the launcher takes.
pub(super) fn launch_service(
    plan: &SandboxPlan,
    launcher: &Launcher,
    mut begun: impl FnMut(i32),
) -> Result<RunningProgram, LaunchError> {
    let mut by = |backend| launch_by(backend, plan, launcher, &mut begun);
    match launcher.choice {
        BackendChoice::Only(backend) => by(backend),
        BackendChoice::Auto if launcher.is_refused.get().is_some() => by(Backend::Bwrap),
        BackendChoice::Auto => by(Backend::Namespaces).or_else(|refused| {
            if !is_refused_here(&refused) || bwrap::find().is_err() {
                return Err(refused);
            }
            let running = by(Backend::Bwrap).map_err(|second| LaunchError {
                fallback: Some(Box::new(second)),
                ..refused
            })?;
            // The machine will say the same of the next one.
            let _ = launcher.is_refused.set(());
            Ok(running)
        }),
    }
}

/// Makes a sandbox by a backend, whatever the launcher takes.
pub(super) fn launch_by(
    backend: Backend,
    plan: &SandboxPlan,
    launcher: &Launcher,
    begun: &mut dyn FnMut(i32),
) -> Result<RunningProgram, LaunchError> {
    if !backend.has_namespaces() {
        return launch_in_place(backend, plan, launcher, begun);
    }
    if plan.network == NetworkAccess::Host {
        let why = "a sandbox with namespaces has a network of its own";
        return Err(LaunchError::refused(Step::Network, why));
    }
    let user = (plan.uid, plan.gid);
    let becomes = program_user(user)?;
    // Bubblewrap waits outside for the first process.
    let helpers = u64::from(backend == Backend::Bwrap);
    let cgroups = launcher.cgroups.as_ref();
    let enforced = limits::enforce(&plan.limits, cgroups, plan.uid, helpers)?;
    let mut complaint = None;
    // The parent has to live until the first process has carried out its orders.
    let (mut running, prepared, _parent) = match backend {
        Backend::Namespaces => {
            // First of all, so that the first process is ready by the time that its orders are.
            let (mut running, parent) = launcher.first(user)?;
            let prepared = prepare(backend, plan, &enforced)?;
            running.limit_to(enforced)?;
            (running, prepared, parent)
        }
        Backend::Bwrap => {
            let (ours, theirs) = channel::pair()?;
            let file = launcher.image.file()?;
            let bwrap = bwrap::find()?;
            let prepared = prepare(backend, plan, &enforced)?;
            let orders = &prepared.orders;
            bwrap::check(plan, orders)?;
            let (started, waiting) =
                bwrap::begin(bwrap.as_fd(), file, theirs.as_fd(), becomes, orders)?;
            drop(theirs);
            let mut running = RunningProgram::new(backend, started, ours, launcher.reaper.clone());
            running.limit_to(enforced)?;
            let (first, messages) = waiting.go_on(running.started())?;
            running.set_first(first);
            complaint = Some(messages);
            (running, prepared, None)
        }
        Backend::Landlock | Backend::Unconfined => {
            return Err(LaunchError::refused(Step::Backend, backend.name()));
        }
    };
    running.set_shown(prepared.shown, prepared.warnings);
    begun(running.pid());
    let fds: Vec<BorrowedFd<'_>> = prepared
        .given
        .fds
        .iter()
        .map(SentDescriptor::as_fd)
        .collect();
    let sent = channel::send_orders(running.channel(), &prepared.orders.to_bytes(), &fds);
    let mut sockets = running.set_up(sent).map_err(|error| match &complaint {
        // The first process did not come so far as to say something itself.
        Some(complaint) if error.step == Step::Init => complaint.explain(error),
        _ => error,
    })?;
    if plan.terminal.is_some() {
        let missing = || LaunchError::refused(Step::Terminal, "it did not arrive");
        running.set_terminal(sockets.pop().ok_or_else(missing)?);
    }
    if plan.network != NetworkAccess::None {
        let broken = || LaunchError::refused(Step::Network, "the sockets did not arrive");
        running.set_sockets(NetworkSockets::new(sockets, prepared.within).ok_or_else(broken)?);
    }
    Ok(running)
}

/// Starts a program without namespaces. No limits hold for it.
fn launch_in_place(
    backend: Backend,
    plan: &SandboxPlan,
    launcher: &Launcher,
    begun: &mut dyn FnMut(i32),
) -> Result<RunningProgram, LaunchError> {
    let orders = in_place::orders(backend, plan, &EnforcedLimits::default())?;
    let user = (plan.uid, plan.gid);
    let mut running = first(backend, &launcher.image, user, &launcher.reaper)?;
    let warnings = in_place::warning(backend).map(str::to_owned);
    running.set_shown(plan.bind_ro.clone(), warnings.into_iter().collect());
    begun(running.pid());
    let streams = [plan.stdin.as_fd(), plan.stdout.as_fd(), plan.stderr.as_fd()];
    let sent = channel::send_orders(running.channel(), &orders.to_bytes(), &streams);
    let mut sockets = running.set_up(sent)?;
    if plan.terminal.is_some() {
        let missing = || LaunchError::refused(Step::Terminal, "it did not arrive");
        running.set_terminal(sockets.pop().ok_or_else(missing)?);
    }
    Ok(running)
}

/// The orders, descriptors and paths that the first process gets.
struct PreparedLaunch<'p> {
    orders: InitOrders,
    given: DescriptorList<'p>,
    /// The host paths that are shown beside system software.
    shown: Vec<PathBuf>,
    /// The warnings about the paths that are shown.
    warnings: Vec<String>,
    /// Our end of what the first process hands later sockets out by.
    within: Option<OwnedFd>,
}

/// Decides what the first process does, and what it gets for that.
fn prepare<'p>(
    backend: Backend,
    plan: &'p SandboxPlan,
    enforced: &EnforcedLimits,
) -> Result<PreparedLaunch<'p>, LaunchError> {
    let mut given = DescriptorList::new(backend == Backend::Namespaces);
    given.fds.extend(
        [plan.stdin.as_fd(), plan.stdout.as_fd(), plan.stderr.as_fd()].map(SentDescriptor::Ours),
    );
    let mut homes = vec![given.home_source(plan.home.as_fd(), plan.home_is_detached)?];
    for further in &plan.further_homes {
        homes.push(given.home_source(further.home.as_fd(), further.is_detached)?);
    }
    let scratch = given.bind_source(plan.scratch.as_fd(), false)?;
    let tree = tree_of(
        &plan.argv,
        plan.search_path(),
        &plan.home_path,
        &plan.bind_ro,
    );
    let mut shown = Vec::new();
    let of_tree = tree.iter().flat_map(|tree| &tree.shown);
    for path in plan.bind_ro.iter().chain(of_tree) {
        given.add_shown(path, plan, &mut shown)?;
    }
    let paths = shown.iter().map(|one| one.path.clone()).collect();
    let mut writable = Vec::with_capacity(plan.writable.len());
    for one in &plan.writable {
        writable.push(given.bind_source(one.dir.as_fd(), false)?);
    }
    let mut placed = Vec::with_capacity(plan.placed.len());
    for one in &plan.placed {
        placed.push(given.bind_source(one.source.as_fd(), false)?);
    }
    let (listeners, within) = make_listeners(&plan.network, &mut given)?;
    let groups = match (&enforced.group, backend) {
        (Some(group), Backend::Namespaces) => {
            let failed = |errno| LaunchError::new(Step::Limits, "tasks", errno);
            let doors = group.join_fds().map_err(failed)?.into_iter();
            doors
                .map(|door| given.push(SentDescriptor::Made(door)))
                .collect()
        }
        _ => Vec::new(),
    };
    if given.fds.len() > MAX_DESCRIPTORS {
        return Err(LaunchError::refused(Step::Plan, "bind_ro: too many paths"));
    }
    let bound = BoundContents::look_into(&shown, &plan.bind_ro, plan.state_name)?;
    let layout = layout(plan, homes, scratch, shown, &bound.hidden, writable, placed)?;
    let orders = InitOrders {
        backend,
        groups,
        listeners,
        ..make_orders(plan, layout, enforced, tree)?
    };
    Ok(PreparedLaunch {
        orders,
        given,
        shown: paths,
        warnings: bound.warnings,
        within,
    })
}

/// Says which sockets the first process makes for the network, with our end of what it hands later ones out by.
fn make_listeners(
    network: &NetworkAccess,
    given: &mut DescriptorList<'_>,
) -> Result<(Option<ListenerPorts>, Option<OwnedFd>), LaunchError> {
    let NetworkAccess::Captured(captured) = network else {
        return Ok((None, None));
    };
    // One message takes them all, with that of UDP and the one that receives refusals.
    if captured.anywhere.len() + captured.loopback.len() + 1 >= MAX_DESCRIPTORS {
        return Err(LaunchError::refused(Step::Plan, "network: too many ports"));
    }
    let (mut within, mut ours) = (None, None);
    if captured.within {
        let (mine, theirs) = channel::pair()?;
        (within, ours) = (Some(given.push(SentDescriptor::Made(theirs))), Some(mine));
    }
    let listeners = ListenerPorts {
        anywhere: captured.anywhere.clone(),
        loopback: captured.loopback.clone(),
        within,
    };
    Ok((Some(listeners), ours))
}

pub(super) fn make_orders(
    plan: &SandboxPlan,
    layout: SandboxLayout,
    enforced: &EnforcedLimits,
    tree: Option<InstallTree>,
) -> Result<InitOrders, LaunchError> {
    if !plan.cwd.is_absolute() {
        let why = format!(
            "{}: the working directory must be absolute",
            plan.cwd.display()
        );
        return Err(LaunchError::refused(Step::Plan, why));
    }
    let program = if plan.argv.is_empty() {
        None
    } else {
        // Where PATH has a link to it that is not in the sandbox, the program is still there by its own path.
        let installed = tree.map(|tree| tree.file);
        let installed = installed.as_deref();
        Some(make_start_order(
            &plan.argv,
            plan.search_path(),
            &plan.env,
            plan.cwd.as_os_str(),
            installed,
        )?)
    };
    Ok(InitOrders {
        backend: Backend::Namespaces,
        uid: plan.uid,
        gid: plan.gid,
        ptrace: plan.ptrace,
        refuses_internet: false,
        shares_proc: is_in_container(),
        terminal: plan.terminal,
        memory_files: plan
            .limits
            .memory
            .map_or(MEMORY_FILE_BYTES, |limit| limit.min(MEMORY_FILE_BYTES)),
        entries: layout.entries,
        binds: layout.binds,
        rlimits: enforced.rlimits.clone(),
        watch: enforced.watch,
        groups: Vec::new(),
        listeners: None,
        program,
    })
}

/// The PID namespace of the machine (PROC_PID_INIT_INO of the kernel).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Returns whether the processes that this one sees are those of a container, and not of the machine.
fn is_in_container() -> bool {
    let own = rustix::fs::readlink("/proc/self/ns/pid", Vec::new());
    own.is_ok_and(|own| own.to_bytes() != FIRST_PID_NAMESPACE.as_bytes())
}
