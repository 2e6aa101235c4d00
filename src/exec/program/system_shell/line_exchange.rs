//! The talk with a shell about one line: the line's text in, the report of its end out.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::script::LineReport;
use crate::exec::CancelToken;
use crate::exec::program::sandbox::{ProgramEnd, SandboxService};

/// The interval at which is looked whether the line has to end.
const INTERVAL: Duration = Duration::from_millis(50);

/// The longest time in which a shell that has read the order to report does so.
const REPORT_LIMIT: Duration = Duration::from_secs(5);

/// The longest report that is read, in bytes.
const MAX_REPORT: usize = 8192;

/// The end of a line, as its shell tells it or not.
#[derive(Debug)]
pub(super) enum LineEnd {
    /// The shell goes on.
    Reported(LineReport),
    /// The shell has ended.
    ShellEnded(ProgramEnd),
    /// The shell has read on without a report: it runs nothing any more, or something else than was said.
    NoReport,
    /// The line had to end.
    Cancelled,
}

/// The ends of the pipes to a shell at which something can be done.
struct ReadyEnds {
    /// Text can be sent.
    script: bool,
    /// Nobody reads text any more.
    is_closed: bool,
    /// A part of the report has come.
    report: bool,
}

/// A line that a shell runs.
pub(super) struct LineExchange<'a> {
    pub(super) sandbox: &'a SandboxService,
    /// The shell's number in it.
    pub(super) shell: u32,
    /// Where the shell reads what it is to do; does not block.
    pub(super) script: &'a OwnedFd,
    /// Where the report comes.
    pub(super) report: &'a OwnedFd,
    /// The nonce with which it begins.
    pub(super) nonce: &'a str,
}

impl LineExchange<'_> {
    /// Sends the text of a line, and waits for its end.
    pub(super) fn run(
        &self,
        text: &[u8],
        cancel: &CancelToken,
        is_lost: &dyn Fn() -> bool,
    ) -> LineEnd {
        let (mut unsent, mut report) = (text, Vec::new());
        let mut read_on_since = None;
        let go_on = || cancel.ended().is_none() && !is_lost();
        loop {
            let ready = self.poll(!unsent.is_empty(), cancel);
            if ready.report
                && let Some(whole) = self.read_report(&mut report)
            {
                return whole.map_or(LineEnd::NoReport, LineEnd::Reported);
            }
            if let Some(end) = self.sandbox.end_so_far(self.shell) {
                return LineEnd::ShellEnded(end);
            }
            if ready.is_closed {
                // The shell has ended or has become another program, and is heard of when that ends.
                let end = self.sandbox.wait(self.shell, &go_on);
                return end.map_or(LineEnd::Cancelled, LineEnd::ShellEnded);
            }
            if ready.script {
                self.send(&mut unsent);
            }
            if !go_on() {
                return LineEnd::Cancelled;
            }
            if unsent.is_empty() && rustix::io::ioctl_fionread(self.script) == Ok(0) {
                let since = *read_on_since.get_or_insert_with(Instant::now);
                if since.elapsed() > REPORT_LIMIT {
                    return LineEnd::NoReport;
                }
            }
        }
    }

    /// Waits a moment.
    fn poll(&self, has_text: bool, cancel: &CancelToken) -> ReadyEnds {
        let wanted = match has_text {
            true => PollFlags::OUT,
            false => PollFlags::empty(),
        };
        let mut fds = [
            PollFd::from_borrowed_fd(self.script.as_fd(), wanted),
            PollFd::from_borrowed_fd(self.report.as_fd(), PollFlags::IN),
        ];
        let most = Timespec {
            tv_sec: 0,
            tv_nsec: cancel.remaining(INTERVAL).subsec_nanos().into(),
        };
        let _ = rustix::event::poll(&mut fds, Some(&most));
        let [script, report] = fds.map(|fd| fd.revents());
        ReadyEnds {
            script: script.contains(PollFlags::OUT),
            is_closed: script.contains(PollFlags::ERR),
            report: report.contains(PollFlags::IN),
        }
    }

    /// Sends a part of the text. That nobody reads it is seen by the next poll.
    fn send(&self, unsent: &mut &[u8]) {
        let sent = rustix::io::write(self.script, unsent).unwrap_or(0);
        *unsent = unsent.get(sent..).unwrap_or_default();
    }

    /// Reads what there is of the report. Returns it once it is whole, and nothing in its place where it is none.
    fn read_report(&self, report: &mut Vec<u8>) -> Option<Option<LineReport>> {
        let mut chunk = [0; MAX_REPORT];
        let read = rustix::io::read(self.report, &mut chunk).unwrap_or(0);
        report.extend(chunk.get(..read).unwrap_or_default());
        if report.ends_with(b"\0") {
            return Some(LineReport::read(report, self.nonce));
        }
        (report.len() > MAX_REPORT).then_some(None)
    }
}
