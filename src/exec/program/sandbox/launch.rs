//! Launching: from a plan to a program that runs.

use std::ffi::{CString, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};

use super::channel::{self, MOST_DESCRIPTORS};
use super::error::{LaunchError, Step};
use super::given::{Borrowed, Given};
use super::init::INIT;
use super::layout::{Layout, layout};
use super::limits::{self, Enforced, Hierarchies};
use super::orders::{Listeners, Orders};
use super::plan::{Network, Plan};
use super::running::Running;
use super::sockets::Sockets;
use super::tree::{InstallTree, path_in, tree_of};
use crate::sys::sandbox::clone::{Stage, Start, start};

/// How much `/dev/shm` and the sandbox's root may hold where no limit of memory is set.
const MEMORY_FILES: u64 = 1 << 30;

/// What starts sandboxes: the file of this program, whose [`run_init`](super::run_init) is their first process.
#[derive(Debug)]
pub struct Launcher {
    program: OwnedFd,
    /// Where cgroups can be made; nothing if none shall be.
    cgroups: Option<Hierarchies>,
}

impl Launcher {
    /// A launcher with the program that is running.
    ///
    /// # Errors
    /// [`Step::Init`] if its file cannot be opened.
    pub fn of_this_program() -> Result<Self, LaunchError> {
        Self::of(Path::new("/proc/self/exe"))
    }

    /// A launcher with another file of this program; for tests, which are programs of their own.
    ///
    /// # Errors
    /// [`Step::Init`] if the file cannot be opened.
    pub fn of(program: &Path) -> Result<Self, LaunchError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let program = rustix::fs::openat(CWD, program, flags, Mode::empty())
            .map_err(|errno| LaunchError::new(Step::Init, program.display().to_string(), errno))?;
        Ok(Self {
            program,
            cgroups: Some(Hierarchies::find()),
        })
    }

    /// The same without cgroups: limits are enforced by other means.
    #[must_use]
    pub fn without_cgroups(self) -> Self {
        Self {
            cgroups: None,
            ..self
        }
    }
}

/// Starts a program. When this returns, its sandbox is complete and the program is being executed; whether it could be
/// is told by [`Running::wait`], because the home, which may hang, is involved in that.
///
/// # Errors
/// What could not be set up. Nothing runs then, and nothing is left behind.
pub fn launch(plan: Plan, launcher: &Launcher) -> Result<Running, LaunchError> {
    launch_with(plan, launcher, |_| {})
}

/// Starts a program, as [`launch()`]. `begun` is called with the number of the sandbox's first process, in whose PID
/// namespace everything will run, before anything does.
///
/// # Errors
/// As [`launch()`].
pub fn launch_with(
    plan: Plan,
    launcher: &Launcher,
    begun: impl FnOnce(i32),
) -> Result<Running, LaunchError> {
    if plan.argv.is_empty() {
        return Err(LaunchError::refused(Step::Plan, NO_PROGRAM));
    }
    launch_service(plan, launcher, begun)
}

/// Makes a sandbox, which takes orders if the plan has no program.
pub(super) fn launch_service(
    plan: Plan,
    launcher: &Launcher,
    begun: impl FnOnce(i32),
) -> Result<Running, LaunchError> {
    let user = identity(&plan)?;
    let enforced = limits::enforce(&plan.limits, launcher.cgroups.as_ref(), plan.uid)?;
    let failed = |errno| LaunchError::new(Step::Control, "", errno);
    let (ours, theirs) = channel::pair().map_err(failed)?;
    let name = CString::new(INIT).unwrap_or_default();
    // First of all, so that the first process is loaded by the time that its orders are ready.
    let started = start(&Start {
        program: launcher.program.as_fd(),
        arguments: &[c"trumanfs", &name],
        input: theirs.as_fd(),
        user,
    })
    .map_err(|(stage, errno)| LaunchError::new(step_of(stage), "", errno))?;
    drop(theirs);
    let mut running = Running::new(started, ours, enforced);
    let mut given = Given::new();
    given
        .fds
        .extend([plan.stdin.as_fd(), plan.stdout.as_fd(), plan.stderr.as_fd()].map(Borrowed::Ours));
    let home = given.source(plan.home.as_fd(), false)?;
    let scratch = given.source(plan.scratch.as_fd(), false)?;
    let tree = tree_of(&plan.argv, &plan.env, &plan.home_path, &plan.bind_ro);
    let mut shown = Vec::new();
    let of_tree = tree.as_ref().map(|tree| &tree.shown);
    for path in plan.bind_ro.iter().chain(of_tree) {
        given.show(path, &plan.home_path, &mut shown)?;
    }
    running.set_shown(shown.iter().map(|one| one.path.clone()).collect());
    let (listeners, within) = listeners(&plan.network, &mut given)?;
    if given.fds.len() > MOST_DESCRIPTORS {
        return Err(LaunchError::refused(Step::Plan, "bind_ro: too many paths"));
    }
    let layout = layout(&plan, home, scratch, shown)?;
    let orders = Orders {
        listeners,
        ..orders(&plan, layout, running.enforced(), tree)?
    };
    let orders = orders.to_bytes();
    running.enter_group()?;
    begun(running.pid());
    let fds: Vec<BorrowedFd<'_>> = given.fds.iter().map(Borrowed::as_fd).collect();
    let sent = channel::send_orders(running.channel(), &orders, &fds);
    let sockets = running.set_up(sent)?;
    if plan.network != Network::None {
        let broken = || LaunchError::refused(Step::Network, "the sockets did not arrive");
        running.set_sockets(Sockets::new(sockets, within).ok_or_else(broken)?);
    }
    Ok(running)
}

/// Says which sockets the first process makes for the network, with our end of what it hands later ones out by.
fn listeners(
    network: &Network,
    given: &mut Given<'_>,
) -> Result<(Option<Listeners>, Option<OwnedFd>), LaunchError> {
    let Network::Captured(captured) = network else {
        return Ok((None, None));
    };
    // One message takes them all, with that of UDP.
    if captured.anywhere.len() + captured.loopback.len() >= MOST_DESCRIPTORS {
        return Err(LaunchError::refused(Step::Plan, "network: too many ports"));
    }
    let (mut within, mut ours) = (None, None);
    if captured.within {
        let (mine, theirs) = channel::pair()?;
        (within, ours) = (Some(given.push(Borrowed::Made(theirs))), Some(mine));
    }
    let listeners = Listeners {
        anywhere: captured.anywhere.clone(),
        loopback: captured.loopback.clone(),
        within,
    };
    Ok((Some(listeners), ours))
}

fn step_of(stage: Stage) -> Step {
    match stage {
        Stage::Identity => Step::Identity,
        Stage::Namespaces => Step::Namespaces,
        Stage::Capabilities | Stage::Exec => Step::Init,
    }
}

/// Whom the program is started as: root makes it the home's owner; others are the owner.
fn identity(plan: &Plan) -> Result<Option<(u32, u32)>, LaunchError> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if uid.is_root() {
        return Ok(Some((plan.uid, plan.gid)));
    }
    if (uid.as_raw(), gid.as_raw()) == (plan.uid, plan.gid) {
        return Ok(None);
    }
    Err(LaunchError::refused(
        Step::Identity,
        format!(
            "the home belongs to user {} and group {}, and this process is user {} and group {}: only root can run programs as others",
            plan.uid,
            plan.gid,
            uid.as_raw(),
            gid.as_raw()
        ),
    ))
}

/// Makes text of bytes for the kernel.
pub(super) fn text(what: &str, bytes: Vec<u8>) -> Result<CString, LaunchError> {
    CString::new(bytes)
        .map_err(|_| LaunchError::refused(Step::Plan, format!("{what} has a NUL byte")))
}

fn orders(
    plan: &Plan,
    layout: Layout,
    enforced: &Enforced,
    tree: Option<InstallTree>,
) -> Result<Orders, LaunchError> {
    let mut arguments = Vec::with_capacity(plan.argv.len());
    for argument in &plan.argv {
        arguments.push(text("an argument", argument.clone().into_vec())?);
    }
    let mut environment = Vec::with_capacity(plan.env.len());
    for (name, value) in &plan.env {
        let whole = [name.as_bytes(), b"=", value.as_bytes()].concat();
        environment.push(text("the environment", whole)?);
    }
    let mut files = match plan.argv.is_empty() {
        true => Vec::new(),
        false => candidates(&plan.argv, &plan.env)?,
    };
    // Where PATH has a link to it that is not in the sandbox, the program is still there by its own path.
    if let Some(tree) = tree {
        files.push(text("the program", tree.file.into_os_string().into_vec())?);
    }
    if !plan.cwd.is_absolute() {
        let why = format!(
            "{}: the working directory must be absolute",
            plan.cwd.display()
        );
        return Err(LaunchError::refused(Step::Plan, why));
    }
    Ok(Orders {
        uid: plan.uid,
        gid: plan.gid,
        ptrace: plan.ptrace,
        memory_files: plan
            .limits
            .memory
            .map_or(MEMORY_FILES, |limit| limit.min(MEMORY_FILES)),
        entries: layout.entries,
        binds: layout.binds,
        rlimits: enforced.rlimits.clone(),
        watch: enforced.watch,
        listeners: None,
        candidates: files,
        arguments,
        environment,
        directory: text(
            "the working directory",
            plan.cwd.clone().into_os_string().into_vec(),
        )?,
    })
}

const NO_PROGRAM: &str = "there is no program to run";

/// Returns the files that a program may be, as execvp(3) tries them.
pub(super) fn candidates(
    argv: &[OsString],
    env: &[(OsString, OsString)],
) -> Result<Vec<CString>, LaunchError> {
    let Some(name) = argv.first().filter(|name| !name.is_empty()) else {
        return Err(LaunchError::refused(Step::Plan, NO_PROGRAM));
    };
    let file = |path: PathBuf| text("the program", path.into_os_string().into_vec());
    if name.as_bytes().contains(&b'/') {
        return Ok(vec![file(name.into())?]);
    }
    let files = path_in(env)
        .split(|byte| *byte == b':')
        .map(|dir| match dir {
            // An empty entry is the working directory.
            [] => Path::new(".").join(name),
            dir => Path::new(std::ffi::OsStr::from_bytes(dir)).join(name),
        });
    files.map(file).collect()
}
