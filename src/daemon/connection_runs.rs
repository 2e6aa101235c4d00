//! Runs on the control socket: an executor says which of its threads, or which PID namespace, works for a request.
//!
//! Owns what may be registered, and by whom: threads of the process that is connected, no others; a namespace that is
//! neither the daemon's nor that process's own. A run ends with its connection at the latest, so an executor that is
//! killed leaves none. What an operator may do beyond the occupant belongs to an undo, which is none of these runs.

use std::collections::HashSet;
use std::time::Duration;

use crate::control::{ControlAnswer, RunRequest};
use crate::error::{Error, Result};
use crate::fuse::SharedState;
use crate::name::WorldPath;
use crate::world::{Caller, Origin, OriginKind, Run, RunId, TurnMark};

/// The number of looks at whether a file that a run has open is closed by now, and the time between two.
const CLOSE_CHECKS: u32 = 4;
const CLOSE_PAUSE: Duration = Duration::from_millis(5);

/// The runs of one connection.
pub(super) struct ConnectionRuns<'s> {
    shared: &'s SharedState,
    /// The process at the other end.
    caller: Caller,
    under_way: HashSet<(RunId, OriginKind)>,
}

impl<'s> ConnectionRuns<'s> {
    /// Starts without any.
    pub(super) fn new(shared: &'s SharedState, caller: Caller) -> ConnectionRuns<'s> {
        ConnectionRuns {
            shared,
            caller,
            under_way: HashSet::new(),
        }
    }

    /// Does what an executor asks for.
    ///
    /// # Errors
    /// [`Error::Refused`] for what may not be registered, and for a run that is not of this connection;
    /// [`Error::Conflict`] where it belongs to another run already. Then nothing has changed, but that of several
    /// threads that join the first ones may have.
    pub(super) fn answer_request(&mut self, request: RunRequest) -> Result<ControlAnswer> {
        match request {
            RunRequest::End { id } => {
                let origin = self.origin(id)?;
                self.under_way.remove(&(id, origin.kind));
                return Ok(ControlAnswer::RunEnded {
                    recorded: self.end(id),
                });
            }
            RunRequest::Follow { run, after } => {
                let before = self.origin(after)?;
                let origin = run.origin();
                self.begin(run, &[])?;
                self.shared.runs.pass_on(after, origin);
                self.under_way.remove(&(after, before.kind));
                return Ok(ControlAnswer::RunEnded {
                    recorded: self.end(after),
                });
            }
            RunRequest::Look { id } => {
                self.origin(id)?;
                return Ok(ControlAnswer::RunGoesOn {
                    recorded: self.shared.world.run_has_recorded(id),
                });
            }
            RunRequest::Begin { run, threads } => self.begin(run, &threads)?,
            RunRequest::Join { id, threads } => {
                let origin = self.origin(id)?;
                self.join(&threads, origin)?;
            }
            RunRequest::Leave { id, threads } => {
                self.origin(id)?;
                for thread in threads {
                    self.shared.runs.remove_thread(thread, id);
                }
            }
            RunRequest::Everybody { id } => {
                let origin = self.origin(id)?;
                self.shared.runs.add_everybody(origin)?;
            }
            RunRequest::Mark { id, mut mark } => {
                let caller = self.caller.for_run(self.origin(id)?);
                (mark.written, mark.others) = self.written_by(id);
                let seq = self.shared.world.note_turn(mark, caller)?;
                return Ok(ControlAnswer::Checkpoint(seq));
            }
            RunRequest::Adopt { .. } => {
                return Err(Error::refused("only the home takes a file in", ""));
            }
            RunRequest::Namespace { id, process } => {
                let origin = self.origin(id)?;
                self.shared
                    .runs
                    .add_namespace_of(self.caller.pid, process, origin)?;
            }
        }
        Ok(ControlAnswer::Done)
    }

    fn begin(&mut self, run: Run, threads: &[u32]) -> Result<()> {
        if !run.origin().is_for_agent() {
            return Err(Error::refused(
                format!("a run cannot be of the kind {}", run.kind.word()),
                "An executor has runs of its own kind.",
            ));
        }
        let origin = run.origin();
        let id = run.id;
        self.shared.world.begin_run(&run)?;
        self.under_way.insert((id, origin.kind));
        self.join(threads, origin).inspect_err(|_| {
            self.under_way.remove(&(id, origin.kind));
            self.end(id);
        })
    }

    fn join(&self, threads: &[u32], origin: Origin) -> Result<()> {
        for thread in threads {
            self.shared
                .runs
                .add_thread(self.caller.pid, *thread, origin)?;
        }
        Ok(())
    }

    /// Returns what the changes of a run that is under way here carry.
    ///
    /// # Errors
    /// [`Error::Refused`] for a run that is not of this connection.
    pub(super) fn origin(&self, id: RunId) -> Result<Origin> {
        let run = self.under_way.iter().find(|(run, _)| *run == id);
        run.map(|(run, kind)| Origin::of_run(*kind, *run))
            .ok_or_else(|| Error::refused(format!("no run {id} is under way here"), ""))
    }

    /// Returns the files that a run has open for writing, and whether there are more of them. The kernel tells of the end of
    /// an open file after close(2) has returned, so what has just been closed is waited for.
    fn written_by(&self, run: RunId) -> (Vec<WorldPath>, bool) {
        let mut open = self.shared.handles.written_by(run);
        for _ in 0..CLOSE_CHECKS {
            if open.is_empty() {
                break;
            }
            std::thread::sleep(CLOSE_PAUSE);
            let still = self.shared.handles.written_by(run);
            open.retain(|node| still.contains(node));
        }
        let places = open
            .into_iter()
            .map(|node| self.shared.inodes.location(node));
        let mut paths: Vec<WorldPath> = places
            .filter_map(|place| place.ok().filter(|place| !place.removed))
            .map(|place| place.path)
            .collect();
        let others = paths.len() > TurnMark::MAX_WRITTEN;
        paths.truncate(TurnMark::MAX_WRITTEN);
        (paths, others)
    }

    /// Returns whether anything of the run was recorded.
    fn end(&self, id: RunId) -> bool {
        self.shared.runs.end(id);
        self.shared.world.end_run(id)
    }
}

impl Drop for ConnectionRuns<'_> {
    fn drop(&mut self) {
        for (id, _) in &self.under_way {
            self.end(*id);
        }
    }
}
