//! The first process of a sandbox: this program anew, in new namespaces, with its launcher's orders on descriptor 0.
//!
//! It does what every sandbox of its user needs, and waits for orders. By them it enters its cgroup, makes the root,
//! gives up all privileges, starts the program, and then only waits: for the program's end, which it reports; for
//! orphans, which it buries; and for the launcher's end, after which it ends itself and with it everything in the
//! sandbox. It never touches the home by a path: that may hang, and this process must not.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal, WaitOptions};

use crate::backend::Backend;
use crate::background::{self, BackgroundProcesses};
use crate::channel::{self, InitMessage};
use crate::error::{Step, StepFailure};
use crate::limit::resource;
use crate::limit_watcher::LimitWatcher;
use crate::orders::InitOrders;
use crate::proc::{self, ProcOwner};
use crate::start::{self, StartReport};
use crate::sys::clone;
use crate::sys::program::{self, RemainingProcesses};
use crate::{file_rules, network, privileges, root, serve, terminal};

/// The word that makes this program the first process of a sandbox. Not for people.
pub const INIT: &str = "__sandbox-init";

/// The user and the group that a sandbox is for.
pub type UserIds = (u32, u32);

/// The time that this process waits for what the program left behind, to count what it has used.
const MAX_COUNT_WAIT: Duration = Duration::from_millis(100);

/// The time that this process goes on killing what the program left behind where no namespace ends with it.
const MAX_DESCENDANTS_WAIT: Duration = Duration::from_secs(5);

/// Is the first process of a sandbox. Returns when the program has ended, or with 1 where this is no sandbox.
#[must_use]
pub fn run() -> ExitCode {
    // Whatever else was inherited is the launcher's; nothing here has opened anything yet.
    program::close_from(3);
    let channel = rustix::stdio::stdin();
    // A launcher that dies while we set up takes us along even if something hangs. Afterwards its end of the channel
    // tells us, for this signal comes already when the launcher's *thread* ends.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let message = match start(channel) {
        Ok(Some(SandboxTask::Program(started))) => {
            let has_namespaces = started.has_namespaces;
            let mut message = wait_for_end(channel, started);
            if let InitMessage::Ended(.., background) = &mut message {
                *background = background::wait_and_name();
            }
            if !has_namespaces {
                end_descendants();
            }
            let is_empty = end_all();
            match message {
                InitMessage::Ended(status, _, background) if is_empty => {
                    InitMessage::Ended(status, Some(program::used_by_all()), background)
                }
                message => message,
            }
        }
        Ok(Some(SandboxTask::Service(ends, within, watcher, rlimits))) => {
            let message = serve::serve(channel, &ends, within, watcher, &rlimits);
            let _ = end_all();
            message
        }
        Ok(None) => return ExitCode::FAILURE,
        Err(error) => InitMessage::Failed(error),
    };
    match channel::send(channel, &message) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The task of a sandbox that is set up.
enum SandboxTask {
    /// The sandbox runs a program.
    Program(ProgramHandle),
    /// The sandbox starts programs as the launcher orders. The first descriptor is readable when a child has ended; by
    /// the other one the launcher asks for sockets of this network. The limits are those of each program.
    Service(
        OwnedFd,
        Option<OwnedFd>,
        Option<LimitWatcher>,
        Vec<(Resource, Rlimit)>,
    ),
}

/// A program that was started.
struct ProgramHandle {
    pid: i32,
    /// Readable when a child has ended.
    ends: OwnedFd,
    /// Ends when the program is executed, or says why not.
    report: StartReport,
    /// The descriptor by which the launcher asks for sockets of this network.
    within: Option<OwnedFd>,
    watcher: Option<LimitWatcher>,
    /// True if everything in the sandbox ends with this process.
    has_namespaces: bool,
}

/// Sets up the sandbox and starts the program; returns nothing if nobody gives orders.
fn start(channel: BorrowedFd<'_>) -> Result<Option<SandboxTask>, StepFailure> {
    let control = |errno| StepFailure::new(Step::Control, "", errno);
    let user = user_from_arguments();
    if let Some(user) = user {
        enter_user(user)?;
    }
    close_to_others()?;
    if user.is_some() {
        name_host()?;
        crate::sys::mount::bring_up_loopback()
            .map_err(|errno| StepFailure::new(Step::Loopback, "", errno))?;
    }
    let Some((bytes, fds)) = channel::receive_orders(channel).map_err(control)? else {
        return Ok(None);
    };
    let orders = InitOrders::from_bytes(&bytes).ok_or_else(|| control(Errno::BADMSG))?;
    if (orders.backend == Backend::Namespaces) != user.is_some() {
        return Err(control(Errno::BADMSG));
    }
    let proc = if user.is_some() {
        enter_group(&orders, &fds)?;
        // Only now: the cgroup is the namespace's root, and what is mounted on the host now is what the orders mean. A
        // process that waits for orders would keep it all from being unmounted.
        clone::enter_late_namespaces()
            .map_err(|errno| StepFailure::new(Step::Namespaces, "unshare", errno))?;
        root::make(&orders, &fds)?
    } else {
        root::verify(&orders, &fds)?;
        ProcOwner::Sandbox
    };
    let mut sockets = network::prepare(&orders)?;
    let terminal = match orders.terminal {
        Some(size) => {
            let (launchers, programs) = terminal::make(size, orders.backend)?;
            sockets.push(launchers);
            Some(programs)
        }
        None => None,
    };
    let ends = program::child_ends().map_err(control)?;
    let has_namespaces = orders.backend.has_namespaces();
    if !has_namespaces {
        // Its orphans come to this process, which ends them.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(control)?;
    }
    let rules = file_rules::make(&orders)?;
    privileges::give_up(&orders)?;
    if proc == ProcOwner::Container {
        proc::expect_closed()?;
    }
    // Before the launcher hears of it, whose thread may end at once then.
    let _ = rustix::process::set_parent_process_death_signal(None);
    channel::send_set_up(channel, &sockets, proc).map_err(control)?;
    drop(sockets);
    let within = network::socket_request_fd(&orders, &fds).map_err(control)?;
    let (watcher, rlimits) = (LimitWatcher::new(orders.watch)?, rlimits(&orders));
    let Some(program) = &orders.program else {
        return Ok(Some(SandboxTask::Service(ends, within, watcher, rlimits)));
    };
    let streams = fds.get(..3).unwrap_or_default();
    let terminal = terminal.as_ref();
    let (pid, report) = start::start(program, streams, (terminal, rules.as_ref()), &rlimits)?;
    // `fds` ends here: whoever reads the program's output must not wait for us.
    Ok(Some(SandboxTask::Program(ProgramHandle {
        pid,
        ends,
        report,
        within,
        watcher,
        has_namespaces,
    })))
}

/// Returns the user and the group whose sandbox this process makes, from the arguments; nothing if bubblewrap made it.
fn user_from_arguments() -> Option<UserIds> {
    let mut words = std::env::args().skip(2);
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// Has nobody in the sandbox look into this process, and lets go of where the launcher was started.
fn close_to_others() -> Result<(), StepFailure> {
    // Only now: the maps of a process that is not dumpable belong to root. From here on nobody in the sandbox can reach
    // this process's memory, nor its program's file through /proc.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|errno| StepFailure::new(Step::Privileges, "PR_SET_DUMPABLE", errno))?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    rustix::process::chdir("/").map_err(|errno| StepFailure::new(Step::Root, "/", errno))
}

/// Maps the user to itself: the same number inside and outside. Supplementary groups cannot be mapped by somebody who
/// is not root, so they stay, as strangers; user_namespaces(7).
fn enter_user((uid, gid): UserIds) -> Result<(), StepFailure> {
    let put = |name: &str, text: &str| {
        let path = format!("/proc/self/{name}");
        rustix::fs::openat(CWD, &*path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
            .and_then(|file| rustix::io::write(&file, text.as_bytes()))
            .map_err(|errno| StepFailure::new(Step::UserMap, path, errno))
    };
    put("setgroups", "deny")?;
    put("gid_map", &format!("{gid} {gid} 1\n"))?;
    put("uid_map", &format!("{uid} {uid} 1\n"))?;
    Ok(())
}

/// Enters the cgroup whose limits hold for all that this process starts.
fn enter_group(orders: &InitOrders, fds: &[OwnedFd]) -> Result<(), StepFailure> {
    for index in &orders.groups {
        let door = usize::try_from(*index).ok().and_then(|at| fds.get(at));
        let entered = door
            .ok_or(Errno::BADF)
            .and_then(|door| rustix::io::write(door, b"0"));
        entered.map_err(|errno| StepFailure::new(Step::Limits, "tasks", errno))?;
    }
    Ok(())
}

fn name_host() -> Result<(), StepFailure> {
    let failed = |errno| StepFailure::new(Step::Namespaces, "sethostname", errno);
    rustix::system::sethostname(b"sandbox").map_err(failed)?;
    rustix::system::setdomainname(b"").map_err(failed)
}

/// Returns the limits of each program that is started. Not of this process: it has to see to the others.
fn rlimits(orders: &InitOrders) -> Vec<(Resource, Rlimit)> {
    let limits = orders.rlimits.iter().filter_map(|(number, limit)| {
        let resource = match *number {
            resource::CPU => Resource::Cpu,
            resource::FILE_SIZE => Resource::Fsize,
            resource::CORE => Resource::Core,
            resource::PROCESSES => Resource::Nproc,
            resource::OPEN_FILES => Resource::Nofile,
            _ => return None,
        };
        // What the launcher may not have, the program may not have either.
        let ceiling = rustix::process::getrlimit(resource).maximum;
        let limit = ceiling.map_or(*limit, |ceiling| ceiling.min(*limit));
        let limit = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        Some((resource, limit))
    });
    limits.collect()
}

/// Waits for the program's end, or for the launcher's.
fn wait_for_end(channel: BorrowedFd<'_>, started: ProgramHandle) -> InitMessage {
    let ProgramHandle {
        pid,
        ends,
        report,
        mut within,
        mut watcher,
        has_namespaces,
    } = started;
    let mut report = Some(report);
    loop {
        let mut fds = vec![
            PollFd::new(&channel, PollFlags::IN),
            PollFd::new(&ends, PollFlags::IN),
        ];
        if let Some(report) = &report {
            fds.push(PollFd::new(report, PollFlags::IN));
        }
        let at = fds.len();
        if let Some(within) = &within {
            fds.push(PollFd::new(within, PollFlags::IN));
        }
        let pause = watcher.as_ref().map(LimitWatcher::pause);
        match rustix::event::poll(&mut fds, pause.as_ref()) {
            Err(Errno::INTR) => continue,
            Err(errno) => {
                return InitMessage::Failed(StepFailure::new(Step::Control, "poll", errno));
            }
            Ok(_) => {}
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if let Some(over) = watcher.as_mut().and_then(LimitWatcher::check_limits) {
            return over;
        }
        if ready.first() == Some(&true) {
            if !channel::is_to_go_on(channel) {
                leave(has_namespaces);
            }
            terminal::go_on(pid);
        }
        if ready.get(at) == Some(&true) && within.as_ref().map(network::hand_out) != Some(Ok(())) {
            within = None;
        }
        if at == 3
            && ready.get(2) == Some(&true)
            && let Some(failure) = report.take().and_then(|report| report.failure())
        {
            return InitMessage::Failed(failure.into());
        }
        if ready.get(1) == Some(&true) {
            program::forget_ends(&ends);
            let found = reap_children(pid);
            if found.is_stopped && channel::send(channel, &InitMessage::Stopped).is_err() {
                leave(has_namespaces);
            }
            if let Some(status) = found.ended {
                // It may have ended because it could not begin.
                let failure = report.take().and_then(|report| report.failure());
                let ended = || InitMessage::Ended(status, None, BackgroundProcesses::default());
                return failure.map_or_else(ended, |f| InitMessage::Failed(f.into()));
            }
        }
    }
}

/// Ends this process because the launcher is gone, and everything in the sandbox.
fn leave(has_namespaces: bool) -> ! {
    if !has_namespaces {
        end_descendants();
    }
    std::process::exit(1)
}

/// Kills all descendants of this process. A child's own children come to this process when the child has ended.
fn end_descendants() {
    let deadline = Instant::now() + MAX_DESCENDANTS_WAIT;
    while program::kill_children() && Instant::now() < deadline {
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Ends what the program left behind, and waits for it a little: what is waited for is counted. The kernel ends the
/// rest with this process. Returns whether nothing is left.
fn end_all() -> bool {
    let deadline = Instant::now() + MAX_COUNT_WAIT;
    loop {
        match program::kill_others() {
            RemainingProcesses::Nobody => return true,
            RemainingProcesses::Some if Instant::now() < deadline => {}
            _ => return false,
        }
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The changes in the status of the program.
#[derive(Default)]
struct ChildStatus {
    /// Its wait status, if it has ended.
    ended: Option<i32>,
    is_stopped: bool,
}

/// Waits for all that have ended; returns what is new of the program.
fn reap_children(pid: i32) -> ChildStatus {
    let mut found = ChildStatus::default();
    let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
    while let Ok(Some((child, status))) = rustix::process::wait(options) {
        if child.as_raw_nonzero().get() != pid {
            continue;
        }
        if status.stopped() {
            found.is_stopped = true
        } else {
            found.ended = Some(status.as_raw())
        }
    }
    found
}
