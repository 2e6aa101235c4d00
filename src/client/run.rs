//! Runs of executors in this process, as the daemon of a mounted home hears of them: what their threads and programs
//! change belongs to the run.
//!
//! One connection carries all runs of a store, from the first on, and is shared by all threads; what has begun on it
//! ends with it. A run that works in further stores is registered with the daemon of each, under the same id. Where
//! nothing is mounted there is nothing to register: the callers of the world have the run
//! ([`Caller::for_run`]).
//!
//! Locks: one mutex over the connection, held for a request and its answer; one over the list of further registries, one
//! over that of runs under way.
//!
//! [`Caller::for_run`]: crate::world::Caller::for_run

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::connect::DaemonConnection;
use super::target::Client;
use crate::control::{ControlAnswer, ControlRequest, RunRequest};
use crate::error::{Error, Result};

use crate::name::{EscapedBytes, WorldPath};
use crate::world::{Run, RunId, TurnMark};

/// The time that the daemon may take to note something of a run: it answers at once, or it hangs.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The registry of this process's runs at the daemon of a mounted store.
#[derive(Debug)]
pub struct RunRegistry {
    /// The store's own directory, where the socket is.
    state: OwnedFd,
    /// The store's path, as records of other stores name it.
    path: PathBuf,
    connection: Mutex<Option<DaemonConnection>>,
    /// The runs that the daemon has not been told the end of.
    under_way: Mutex<HashSet<RunId>>,
    /// The registries of the further stores that runs work in.
    further: Mutex<Vec<Arc<RunRegistry>>>,
}

impl RunRegistry {
    /// Makes ready; nothing is said before the first run.
    ///
    /// # Errors
    /// Errors of `fcntl(2)`.
    pub fn new(client: &Client) -> Result<Arc<RunRegistry>> {
        let state = rustix::io::fcntl_dupfd_cloexec(client.store.state(), 0);
        Ok(Arc::new(RunRegistry {
            path: client.whole_path(),
            ..RunRegistry::of(state.map_err(Error::os("fcntl"))?)
        }))
    }

    /// Makes ready by the descriptor of a store's state directory.
    pub fn from_state_dir(state: OwnedFd) -> Arc<RunRegistry> {
        Arc::new(RunRegistry::of(state))
    }

    fn of(state: OwnedFd) -> RunRegistry {
        RunRegistry {
            state,
            path: PathBuf::new(),
            connection: Mutex::new(None),
            under_way: Mutex::default(),
            further: Mutex::default(),
        }
    }

    /// Has the runs that begin from now on work in another store as well.
    pub fn add_further(&self, further: Arc<RunRegistry>) {
        self.further.lock().push(further);
    }

    /// Begins a run. The calling thread works for it from now on.
    ///
    /// # Errors
    /// [`Error::Refused`] where the daemon cannot be asked, or sees this process under other numbers (another PID
    /// namespace); [`Error::Conflict`] where this thread works for another run, or there was a run of this id. Then
    /// there is no run, and what is done all the same belongs to none.
    pub fn begin(self: &Arc<RunRegistry>, run: &Run) -> Result<LiveRun> {
        self.begin_with(run, &[own_thread()])
    }

    /// Begins a run of programs, which [join](LiveRun::add_program) it: no thread of this process works for it.
    ///
    /// # Errors
    /// As [`RunRegistry::begin`].
    pub fn begin_for_programs(self: &Arc<RunRegistry>, run: &Run) -> Result<LiveRun> {
        self.begin_with(run, &[])
    }

    fn begin_with(self: &Arc<RunRegistry>, run: &Run, threads: &[u32]) -> Result<LiveRun> {
        let further = self.further.lock().clone();
        if further.is_empty() {
            return self.begin_here(run, threads);
        }
        let stores: Vec<&Path> = std::iter::once(self)
            .chain(&further)
            .map(|registry| &*registry.path)
            .collect();
        let in_store = |path: &Path| {
            let others = stores.iter().filter(|other| **other != path);
            let also = others.map(|other| EscapedBytes(other.as_os_str().as_bytes().to_vec()));
            Run {
                also: also.collect(),
                ..run.clone()
            }
        };
        let mut live = self.begin_here(&in_store(&self.path), threads)?;
        for registry in &further {
            let beside = Run {
                // Where it begins lies in the first store.
                cwd: WorldPath::root(),
                ..in_store(&registry.path)
            };
            live.further.push(registry.begin_here(&beside, threads)?);
        }
        Ok(live)
    }

    fn begin_here(self: &Arc<RunRegistry>, run: &Run, threads: &[u32]) -> Result<LiveRun> {
        let begin = RunRequest::Begin {
            run: run.clone(),
            threads: threads.to_vec(),
        };
        self.ask(begin, true)?;
        Ok(self.note_begin(run.id))
    }

    /// Begins a run where another one ends, whose programs work for it from now on. Returns whether that one has recorded
    /// anything, too. Nothing is begun where the run works in several stores.
    ///
    /// # Errors
    /// As [`RunRegistry::begin`]; [`Error::Refused`] where the other one is not under way. It is as it was then.
    pub fn follow(
        self: &Arc<RunRegistry>,
        run: &Run,
        after: RunId,
    ) -> Result<Option<(LiveRun, bool)>> {
        if !self.further.lock().is_empty() {
            return Ok(None);
        }
        let follow = RunRequest::Follow {
            run: run.clone(),
            after,
        };
        let recorded = self.ask(follow, false)?;
        self.under_way.lock().remove(&after);
        Ok(Some((self.note_begin(run.id), recorded)))
    }

    fn note_begin(self: &Arc<RunRegistry>, id: RunId) -> LiveRun {
        self.under_way.lock().insert(id);
        LiveRun {
            runs: self.clone(),
            id,
            further: Vec::new(),
        }
    }

    /// Asks the daemon. Returns whether a run that ends with it, or is looked at, has recorded anything. A run that begins may need a new
    /// connection: another daemon may serve the store by now.
    fn ask(&self, request: RunRequest, begins: bool) -> Result<bool> {
        let request = ControlRequest::Run(request);
        let mut connection = self.connection.lock();
        let known = connection.take();
        let was_known = known.is_some();
        let connect = || DaemonConnection::open_within(&self.state, ANSWER_LIMIT);
        let mut asked = match known {
            Some(known) => known,
            None if begins => connect()?,
            None => return Err(Error::refused("the daemon went away during the run", "")),
        };
        let mut answer = asked.ask(&request);
        if answer.is_err() && asked.is_lost() && was_known && begins {
            asked = connect()?;
            answer = asked.ask(&request);
        }
        if !asked.is_lost() {
            *connection = Some(asked);
        }
        match answer? {
            ControlAnswer::Done | ControlAnswer::Checkpoint(_) => Ok(false),
            ControlAnswer::RunEnded { recorded } | ControlAnswer::RunGoesOn { recorded } => {
                Ok(recorded)
            }
            _ => Err(Error::refused("the daemon answers another question", "")),
        }
    }
}

/// A run that the daemon knows of. It ends when this is dropped.
#[derive(Debug)]
pub struct LiveRun {
    runs: Arc<RunRegistry>,
    id: RunId,
    /// The same run in further stores.
    further: Vec<LiveRun>,
}

impl LiveRun {
    /// Returns its id.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Has the calling thread work for the run, until the guard is dropped or the run ends.
    ///
    /// # Errors
    /// As [`RunRegistry::begin`].
    pub fn join(&self) -> Result<RunMember<'_>> {
        let thread = own_thread();
        let join = RunRequest::Join {
            id: self.id,
            threads: vec![thread],
        };
        self.runs.ask(join, false)?;
        Ok(RunMember { run: self, thread })
    }

    /// Has a program work for the run: a process of it, with all that share its PID namespace or are in one below it.
    /// To be said before the program does anything.
    ///
    /// # Errors
    /// [`Error::Refused`] where the process is not in a namespace of its own, or cannot be looked at.
    pub fn add_program(&self, process: u32) -> Result<()> {
        let namespace = RunRequest::Namespace {
            id: self.id,
            process,
        };
        self.runs.ask(namespace, false)?;
        let mut further = self.further.iter();
        further.try_for_each(|further| further.add_program(process))
    }

    /// Has everybody who works in the home work for the run, but for members of other runs.
    ///
    /// # Errors
    /// [`Error::Conflict`] where they work for another run already.
    pub fn add_everybody(&self) -> Result<()> {
        let everybody = RunRequest::Everybody { id: self.id };
        self.runs.ask(everybody, false).map(drop)
    }

    /// Has a file that was written beside the home come into it, at a path at which nothing is.
    ///
    /// # Errors
    /// As [`World::adopt`](crate::world::World::adopt), in words; [`Error::Partly`] where the daemon went away
    /// meanwhile.
    pub fn adopt(&self, written: &str, to: &WorldPath) -> Result<()> {
        let adopt = RunRequest::Adopt {
            id: self.id,
            written: written.to_owned(),
            to: to.clone(),
        };
        self.runs.ask(adopt, false).map(drop)
    }

    /// Has a turn begin in the run.
    ///
    /// # Errors
    /// [`Error::Refused`] where the daemon is gone, and the run with it; those of writing the record.
    pub fn mark(&self, mark: &TurnMark) -> Result<()> {
        let begin = RunRequest::Mark {
            id: self.id,
            mark: mark.clone(),
        };
        self.runs.ask(begin, false)?;
        self.further
            .iter()
            .try_for_each(|further| further.mark(mark))
    }

    /// Returns whether anything of the run has been recorded so far.
    ///
    /// # Errors
    /// [`Error::Refused`] where the daemon is gone, and the run with it.
    pub fn has_recorded(&self) -> Result<bool> {
        let recorded = self.runs.ask(RunRequest::Look { id: self.id }, false)?;
        let mut further = self.further.iter();
        further.try_fold(recorded, |recorded, further| {
            Ok(recorded | further.has_recorded()?)
        })
    }

    /// Ends the run. Returns whether anything of it was recorded.
    ///
    /// # Errors
    /// [`Error::Refused`] where the daemon is gone, and the run with it.
    pub fn end(&self) -> Result<bool> {
        self.runs.under_way.lock().remove(&self.id);
        let end = RunRequest::End { id: self.id };
        let recorded = self.runs.ask(end, false);
        let further: Vec<Result<bool>> = self.further.iter().map(LiveRun::end).collect();
        further
            .into_iter()
            .try_fold(recorded?, |recorded, further| {
                further.map(|further| recorded | further)
            })
    }
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        // Where the daemon is gone, so is the run.
        if self.runs.under_way.lock().contains(&self.id) {
            let _ = self.end();
        }
    }
}

/// A thread that works for a run.
#[derive(Debug)]
#[must_use = "the thread belongs to the run as long as this lives"]
pub struct RunMember<'r> {
    run: &'r LiveRun,
    thread: u32,
}

impl Drop for RunMember<'_> {
    fn drop(&mut self) {
        let leave = RunRequest::Leave {
            id: self.run.id,
            threads: vec![self.thread],
        };
        let _ = self.run.runs.ask(leave, false);
    }
}

fn own_thread() -> u32 {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    thread.unsigned_abs()
}
