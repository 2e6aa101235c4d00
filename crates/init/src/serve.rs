//! The first process of a sandbox that takes orders: it starts programs as it is told, and tells of their ends.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, WaitOptions};

use crate::channel::{self, InitMessage};
use crate::error::{Step, StepFailure};
use crate::limit_watcher::LimitWatcher;
use crate::network;
use crate::orders::StartOrder;
use crate::start::{self, StartReport};
use crate::sys::program;

/// A program that was started.
struct ServedProgram {
    number: u32,
    /// Ends when the program is executed, or says why not.
    report: StartReport,
}

/// Starts programs until the launcher has closed its end, which ends everything. Returns only where a limit is passed,
/// or where that end cannot be waited for.
///
/// `within`: where the launcher asks for sockets of this network.
pub(crate) fn serve(
    channel: BorrowedFd<'_>,
    ends: &OwnedFd,
    mut within: Option<OwnedFd>,
    mut watcher: Option<LimitWatcher>,
    rlimits: &[(Resource, Rlimit)],
) -> InitMessage {
    let mut running: HashMap<i32, ServedProgram> = HashMap::new();
    let mut next = 0;
    loop {
        let mut fds = vec![
            PollFd::new(&channel, PollFlags::IN),
            PollFd::new(ends, PollFlags::IN),
        ];
        fds.extend(within.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
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
        let is_ready = |at: usize| ready.get(at) == Some(&true);
        let (ordered, ended) = (is_ready(0), is_ready(1));
        if let Some(over) = watcher.as_mut().and_then(LimitWatcher::check_limits) {
            return over;
        }
        if is_ready(2) && within.as_ref().map(network::hand_out) != Some(Ok(())) {
            within = None;
        }
        if ended {
            program::forget_ends(ends);
            report_ended(channel, &mut running);
        }
        if ordered {
            // Nothing more is ordered: the launcher is gone, and everything here ends with this process.
            let Ok(Some((bytes, fds))) = channel::receive_orders(channel) else {
                std::process::exit(1);
            };
            match start(&bytes, &fds, next, rlimits) {
                Ok((pid, started)) => drop(running.insert(pid, started)),
                Err(error) => send_event(channel, &InitMessage::ProgramFailed(next, error)),
            }
            next += 1;
        }
    }
}

fn start(
    bytes: &[u8],
    fds: &[OwnedFd],
    number: u32,
    rlimits: &[(Resource, Rlimit)],
) -> Result<(i32, ServedProgram), StepFailure> {
    let misread = || StepFailure::new(Step::Control, "", Errno::BADMSG);
    let order = StartOrder::from_bytes(bytes).ok_or_else(misread)?;
    let (pid, report) = start::start(&order, fds, (None, None), rlimits)?;
    Ok((pid, ServedProgram { number, report }))
}

/// Waits for all that have ended, and tells of those that were ordered.
fn report_ended(channel: BorrowedFd<'_>, running: &mut HashMap<i32, ServedProgram>) {
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        let Some(ServedProgram { number, report }) = running.remove(&pid.as_raw_nonzero().get())
        else {
            continue;
        };
        let message = match report.failure() {
            Some(failure) => InitMessage::ProgramFailed(number, failure.into()),
            None => InitMessage::ProgramEnded(number, status.as_raw()),
        };
        send_event(channel, &message);
    }
}

/// Tells the launcher. One that does not hear it is gone.
fn send_event(channel: BorrowedFd<'_>, message: &InitMessage) {
    if channel::send(channel, message).is_err() {
        std::process::exit(1);
    }
}
