//! The supervisor's side of a worker: starting it, listening to it, and ending it when it uses more than its quota.
//!
//! Owns what a worker's death means. A worker that ends without a word was killed: by a limit of the kernel, or by this
//! file. What it left half done is for `settlement.rs` to find out.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::failure::TaskFailure;
use super::failure_reason::FailureReason;
use super::quota::TaskQuota;
use super::worker::WORKER;
use super::worker::channel::{pair, receive, send, send_bytes};
use super::worker::worker_order::{GO, WorkerOrder, WorkerReport};
use crate::error::{Error, Result};
use crate::exec::cancel::{CancelReason, CancelToken};

/// The interval between two looks at a worker's use.
const MEASURE_INTERVAL: Duration = Duration::from_millis(20);

/// The number of bytes that a worker may write besides the data of a copy: its messages.
const OTHER_WRITES: u64 = 64 << 10;

/// The variable that a test ends a process by.
const FAILPOINT: &str = super::failpoint::VARIABLE;

/// A worker that runs. Dropping it ends it.
#[derive(Debug)]
pub(super) struct WorkerProcess {
    child: Child,
    socket: OwnedFd,
    quota: Option<TaskQuota>,
}

/// A worker that is started before there is anything to do for it.
#[derive(Debug, Default)]
pub(super) struct ReadyWorker(Mutex<Option<WorkerProcess>>);

impl ReadyWorker {
    /// Starts one, unless there is one. Where that fails, the next task says so.
    pub(super) fn prepare(&self) {
        let mut ready = self.0.lock();
        if ready.is_none() {
            *ready = WorkerProcess::start().ok();
        }
    }

    /// Gives an order to the one that is there, or to a new one.
    ///
    /// # Errors
    /// As [`WorkerProcess::start`] and [`WorkerProcess::order`].
    pub(super) fn order(
        &self,
        order: &WorkerOrder,
        places: &[BorrowedFd<'_>],
    ) -> Result<WorkerProcess> {
        let ready = self.0.lock().take();
        // One that was killed meanwhile has heard nothing.
        if let Some(mut ready) = ready
            && ready.child.try_wait().is_ok_and(|ended| ended.is_none())
            && ready.order(order, places).is_ok()
        {
            // The next one starts while this one works.
            self.prepare();
            return Ok(ready);
        }
        let mut worker = WorkerProcess::start()?;
        worker.order(order, places)?;
        Ok(worker)
    }
}

impl WorkerProcess {
    /// Starts one; it waits for its order.
    ///
    /// # Errors
    /// What `socketpair(2)` and starting a program say.
    fn start() -> Result<WorkerProcess> {
        let (ours, theirs) = pair().map_err(Error::os("socketpair"))?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("trumanfs")
            .arg(WORKER)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::inherit());
        if let Some(failpoint) = std::env::var_os(FAILPOINT) {
            command.env(FAILPOINT, failpoint);
        }
        let child = command
            .spawn()
            .map_err(|error| Error::io("execve", &error))?;
        Ok(WorkerProcess {
            child,
            socket: ours,
            quota: None,
        })
    }

    /// Gives it its order.
    ///
    /// # Errors
    /// Errors of `sendmsg(2)`.
    fn order(&mut self, order: &WorkerOrder, places: &[BorrowedFd<'_>]) -> Result<()> {
        self.quota = order.quota;
        send(&self.socket, order, places).map_err(Error::os("sendmsg"))
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// Errors of `sendmsg(2)`.
    pub(super) fn go(&self) -> Result<()> {
        send_bytes(&self.socket, GO, &[]).map_err(Error::os("sendmsg"))
    }

    /// Waits for what it says next.
    ///
    /// # Errors
    /// Where it used more than its quota and was ended, died in another way, or somebody ended the request.
    pub(super) fn next(
        &mut self,
        cancel: Option<&CancelToken>,
    ) -> std::result::Result<WorkerReport, TaskFailure> {
        loop {
            let tick = cancel.map_or(MEASURE_INTERVAL, |cancel| {
                cancel.remaining(MEASURE_INTERVAL)
            });
            let tick = Timespec {
                tv_sec: 0,
                tv_nsec: i64::from(tick.subsec_nanos()).max(1_000_000),
            };
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            match rustix::event::poll(&mut fds, Some(&tick)) {
                Ok(0) | Err(Errno::INTR) => self.check(cancel)?,
                Ok(_) => match receive::<WorkerReport>(&self.socket) {
                    Ok(Some((report, _))) => return Ok(report),
                    Ok(None) | Err(_) => return Err(self.died()),
                },
                Err(_) => {
                    return Err(FailureReason::Worker.because("the worker cannot be heard"));
                }
            }
        }
    }

    /// Ends it where it uses more than it may.
    fn check(&mut self, cancel: Option<&CancelToken>) -> std::result::Result<(), TaskFailure> {
        let over =
            |quota: FailureReason, what: &str| quota.because(format!("quota.{what} was used up"));
        let failure = match cancel.and_then(CancelToken::ended) {
            Some(CancelReason::TimedOut) => Some(over(FailureReason::QuotaWall, "wall_ms")),
            Some(CancelReason::Cancelled) => {
                Some(FailureReason::Interrupted.because("the task was ended"))
            }
            None => {
                let pid = self.child.id();
                let quota = self.quota.as_ref();
                let cpu = quota.filter(|quota| cpu_ms(pid).is_some_and(|ms| ms > quota.cpu_ms));
                let io = quota.filter(|quota| {
                    let most = quota.io_bytes.saturating_add(OTHER_WRITES);
                    written(pid).is_some_and(|bytes| bytes > most)
                });
                match (cpu, io) {
                    (Some(_), _) => Some(over(FailureReason::QuotaCpu, "cpu_ms")),
                    (None, Some(_)) => Some(over(FailureReason::QuotaIo, "io_bytes")),
                    (None, None) => None,
                }
            }
        };
        match failure {
            None => Ok(()),
            Some(failure) => {
                self.end();
                Err(failure)
            }
        }
    }

    /// Says how it died.
    fn died(&mut self) -> TaskFailure {
        let status = self.child.wait();
        match status.ok().and_then(|status: ExitStatus| status.signal()) {
            Some(SIGXCPU) => FailureReason::QuotaCpu.because("quota.cpu_ms was used up"),
            Some(SIGXFSZ) => FailureReason::QuotaFile.because("quota.file_bytes was used up"),
            Some(SIGABRT | SIGSEGV | SIGBUS) if self.quota.is_some() => {
                FailureReason::QuotaMemory.because("the worker ran out of memory (quota.memory_bytes)")
            }
            Some(SIGKILL) => FailureReason::SystemLimit.because(
                "the worker was killed by SIGKILL, which no limit of the lease sends: the machine or its control group ran out of memory, \
                 or somebody ended it",
            ),
            Some(signal) => {
                FailureReason::Worker.because(format!("the worker was ended by signal {signal}"))
            }
            None => FailureReason::Worker.because("the worker ended before its task"),
        }
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.end();
    }
}

const SIGABRT: i32 = 6;
const SIGBUS: i32 = 7;
const SIGKILL: i32 = 9;
const SIGSEGV: i32 = 11;
const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;

/// Returns how long a process has run on processors, in milliseconds (proc_pid_stat(5): its file schedstat has it in ns).
fn cpu_ms(pid: u32) -> Option<u64> {
    let text = of_process(pid, "schedstat")?;
    let nanoseconds: u64 = text.split(' ').next()?.parse().ok()?;
    Some(nanoseconds / 1_000_000)
}

/// Returns how many bytes a process has written (proc_pid_io(5)).
fn written(pid: u32) -> Option<u64> {
    let text = of_process(pid, "io")?;
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "))?;
    line.parse().ok()
}

fn of_process(pid: u32, file: &str) -> Option<String> {
    use std::io::Read;
    let path = format!("/proc/{pid}/{file}");
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let mode = rustix::fs::Mode::empty();
    let opened = rustix::fs::openat(rustix::fs::CWD, path, flags, mode).ok()?;
    let mut text = String::new();
    std::fs::File::from(opened).read_to_string(&mut text).ok()?;
    Some(text)
}
