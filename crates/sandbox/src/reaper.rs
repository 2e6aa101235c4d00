//! Waiting for the ends of sandboxes in which nothing runs any more.
//!
//! When a first process has told that everything else has ended, the kernel still has to take apart its namespaces and
//! mounts, which takes longer than many a program. A thread of the launcher's waits for that, so that nobody else has
//! to.

use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use parking_lot::Mutex;

use super::limits::EnforcedLimits;
use trumanfs_init::sys::program;

/// The time that everything in a sandbox may take to end after it was killed. A process that waits for a file system in
/// the kernel may take longer; nobody waits for it.
pub(super) const GONE_LIMIT: Duration = Duration::from_secs(2);

/// A task that is handed to the thread.
#[derive(Debug)]
enum ReaperTask {
    /// A child to wait for, and the cgroup to remove after that.
    Reap(i32, EnforcedLimits),
    /// Somebody to tell when all that was handed over before is done.
    Tell(SyncSender<()>),
}

/// Waits for the first processes of a launcher's sandboxes. Dropping it waits for those that are ending, for a while.
#[derive(Debug, Default)]
pub(super) struct ChildReaper(Mutex<Option<Sender<ReaperTask>>>);

impl ChildReaper {
    /// Waits for a child that is ending, and removes its cgroup then, without keeping the caller waiting. Only where
    /// there can be no thread the caller waits.
    pub(super) fn reap_later(&self, pid: i32, enforced: EnforcedLimits) {
        let mut thread = self.0.lock();
        if thread.is_none() {
            *thread = start();
        }
        let task = ReaperTask::Reap(pid, enforced);
        let refused = match thread.as_ref() {
            Some(thread) => thread.send(task).err().map(|error| error.0),
            None => Some(task),
        };
        if let Some(task) = refused {
            reap(task);
        }
    }
}

impl Drop for ChildReaper {
    fn drop(&mut self) {
        let Some(thread) = self.0.lock().take() else {
            return;
        };
        let (tell, done) = sync_channel(1);
        if thread.send(ReaperTask::Tell(tell)).is_ok() {
            let _ = done.recv_timeout(GONE_LIMIT);
        }
    }
}

/// Starts the thread, which ends when nobody hands it anything any more.
fn start() -> Option<Sender<ReaperTask>> {
    let (hand, handed) = channel();
    let named = std::thread::Builder::new().name("sandbox-reaper".to_owned());
    let thread = named.spawn(move || handed.into_iter().for_each(reap));
    thread.is_ok().then_some(hand)
}

fn reap(task: ReaperTask) {
    match task {
        ReaperTask::Reap(pid, enforced) => {
            // A process that ignores the ends of its children has none to wait for.
            let _ = program::wait(pid, true);
            drop(enforced);
        }
        ReaperTask::Tell(tell) => drop(tell.send(())),
    }
}
