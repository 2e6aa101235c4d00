//! Calls that go on after their answer: what takes longer than a client waits becomes a job.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::answer::ToolAnswer;
use super::live_output::{LiveOutput, ShownOutput};
use crate::exec::CancelToken;
use crate::journal::RunId;

/// The longest time to wait for calls that have to end.
const GRACE: Duration = Duration::from_secs(3);
/// The largest number of jobs that go on at once.
const MAX_JOBS: usize = 16;
/// The largest number of ended jobs that are kept until a client asks for them.
const KEPT: usize = 64;

/// A call, from its start.
pub(super) struct ToolJob {
    /// Its id.
    pub(super) id: String,
    /// The tool.
    pub(super) tool: String,
    /// The session it belongs to.
    pub(super) session: String,
    /// The token that ends the call.
    pub(super) cancel: CancelToken,
    /// The output that the call has written so far, for each stream.
    pub(super) streams: [LiveOutput; 2],
    /// The time at which the call began.
    pub(super) begun: Instant,
    /// The number of bytes of each stream that have been shown.
    seen: Mutex<[u64; 2]>,
    ended: Mutex<Option<ToolAnswer>>,
    end: Condvar,
}

impl ToolJob {
    /// Makes one that begins now.
    pub(super) fn new(
        tool: &str,
        session: &str,
        cancel: CancelToken,
        streams: [LiveOutput; 2],
    ) -> Arc<ToolJob> {
        Arc::new(ToolJob {
            id: RunId::random().to_string(),
            tool: tool.to_owned(),
            session: session.to_owned(),
            cancel,
            streams,
            begun: Instant::now(),
            seen: Mutex::default(),
            ended: Mutex::default(),
            end: Condvar::new(),
        })
    }

    fn finish(&self, answer: ToolAnswer) {
        *self.ended.lock() = Some(answer);
        self.end.notify_all();
    }

    /// Returns what it ended with, waiting so long at most.
    pub(super) fn ended_within(&self, wait: Duration) -> Option<ToolAnswer> {
        let mut ended = self.ended.lock();
        if ended.is_none() {
            self.end.wait_for(&mut ended, wait);
        }
        ended.clone()
    }

    fn has_ended(&self) -> bool {
        self.ended.lock().is_some()
    }

    /// Returns what it has written since this was asked last, or its start and its end.
    pub(super) fn news(&self) -> [ShownOutput; 2] {
        let mut seen = self.seen.lock();
        let mut number = 0;
        self.streams.each_ref().map(|stream| {
            let new = stream.after(seen.get(number).copied().unwrap_or_default());
            if let Some(seen) = seen.get_mut(number) {
                *seen = new.total;
            }
            number += 1;
            new
        })
    }
}

/// The calls of a server that go on, and the jobs among them.
#[derive(Default)]
pub(super) struct ToolJobs {
    /// Calls that have not ended.
    calls: Mutex<Vec<Arc<ToolJob>>>,
    kept: Mutex<Vec<Arc<ToolJob>>>,
}

impl ToolJobs {
    /// Notes a call that begins.
    pub(super) fn begin(&self, call: &Arc<ToolJob>) {
        self.calls.lock().push(call.clone());
    }

    /// Notes how a call ended.
    pub(super) fn end(&self, call: &Arc<ToolJob>, answer: ToolAnswer) {
        self.calls.lock().retain(|other| !Arc::ptr_eq(other, call));
        call.finish(answer);
    }

    /// Notes that a call goes on.
    ///
    /// # Errors
    /// That too many do.
    pub(super) fn keep(&self, job: &Arc<ToolJob>) -> Result<(), String> {
        let mut jobs = self.kept.lock();
        if jobs.iter().filter(|job| !job.has_ended()).count() >= MAX_JOBS {
            return Err(format!(
                "{MAX_JOBS} jobs go on already, so this one was ended: end some with bash_kill"
            ));
        }
        while jobs.len() >= KEPT + MAX_JOBS {
            match jobs.iter().position(|job| job.has_ended()) {
                Some(oldest) => drop(jobs.remove(oldest)),
                None => break,
            }
        }
        jobs.push(job.clone());
        Ok(())
    }

    /// Returns the job with an id.
    pub(super) fn find(&self, id: &str) -> Option<Arc<ToolJob>> {
        self.kept.lock().iter().find(|job| job.id == id).cloned()
    }

    /// Ends all calls that go on; does not wait for them.
    pub(super) fn cancel_all(&self) {
        for call in self.calls.lock().iter() {
            call.cancel.cancel();
        }
    }

    /// Ends all calls that go on, and waits a moment for them.
    pub(super) fn end_all(&self) {
        self.cancel_all();
        let calls = self.calls.lock().clone();
        let end = Instant::now() + GRACE;
        for call in &calls {
            call.ended_within(end.saturating_duration_since(Instant::now()));
        }
    }
}
