//! Waiting for sockets, until a time or until the program's network ends.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// Tells everybody who waits that the network ends: the other end of a pipe is closed then.
#[derive(Debug, Clone)]
pub(crate) struct StopSignal(pub(crate) Arc<OwnedFd>);

/// The outcome of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// Which of the descriptors are ready.
    Ready(Vec<bool>),
    /// The time is up.
    Late,
    /// The network ends.
    Stopped,
}

impl StopSignal {
    /// Waits for descriptors. Those without flags are waited for, too: for their end.
    pub(crate) fn wait(
        &self,
        fds: &[(&dyn AsFd, PollFlags)],
        until: Option<Instant>,
    ) -> WaitOutcome {
        let mut polled = vec![PollFd::new(&*self.0, PollFlags::IN)];
        polled.extend(
            fds.iter()
                .map(|(fd, flags)| PollFd::from_borrowed_fd(fd.as_fd(), *flags)),
        );
        loop {
            let left = until.map(time_left);
            match rustix::event::poll(&mut polled, left.as_ref()) {
                Err(Errno::INTR) => {}
                Err(_) => return WaitOutcome::Stopped,
                Ok(0) => return WaitOutcome::Late,
                Ok(_) => break,
            }
        }
        let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
        match ready.next() {
            Some(false) => WaitOutcome::Ready(ready.collect()),
            _ => WaitOutcome::Stopped,
        }
    }
}

fn time_left(until: Instant) -> Timespec {
    let left = until.saturating_duration_since(Instant::now());
    Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    }
}
