//! The actor of a request: the process behind the thread id that the kernel passes with it.
//!
//! Owns a small cache, because reading `/proc` costs as much as a request. An entry is valid while the process runs
//! the same program ([`ProgramImage`]), and for at most [`FRESH`], since thread ids are reused.
//!
//! A worker thread must not read `/proc/PID/exe` itself: the kernel takes the process's `exec_update_lock` for it,
//! which the process holds while `execve` closes its close-on-exec files, and that may wait for this very daemon. So
//! a separate thread reads it, and the worker waits for [`PROBE_TIMEOUT`] at most. The cache's lock is never held
//! meanwhile.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use parking_lot::Mutex;

use super::image::{ProgramImage, ProgramProbe};
use super::record::Actor;
use crate::name::escape;
use trumanfs_types::origin::{Origin, OriginKind, RunId};

/// The time that a cache entry is valid.
const FRESH: Duration = Duration::from_millis(100);

/// The time that a request waits to learn its program.
///
/// On a busy machine the thread that looks it up may have to wait for a processor for some milliseconds. The whole
/// time passes only where the caller is in an `execve`, which sends no request that needs an author but a write-back.
const PROBE_TIMEOUT: Duration = Duration::from_millis(100);

/// The maximum number of cache entries; each may have a descriptor.
const KEPT: usize = 128;

/// The time that an idle process stays in the cache.
const REMEMBERED: Duration = Duration::from_secs(2);

/// The maximum number of inspections of a process in the middle of an `execve`.
const LOOKS: usize = 3;

/// The sender of a request, as reported by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The thread's id in the daemon's PID namespace; 0 if it has none there.
    pub pid: u32,
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// The origin of the request, as far as the executor or the daemon knows it.
    pub origin: Origin,
}

impl Caller {
    /// Returns this process, for work on a store that is not mounted.
    pub fn myself() -> Caller {
        Caller {
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            origin: Origin::default(),
        }
    }

    /// Returns the same caller with the origin of a run.
    #[must_use]
    pub fn for_run(self, origin: Origin) -> Caller {
        Caller { origin, ..self }
    }

    /// Returns the same caller with the origin of an undo: the current one, or else a new run.
    #[must_use]
    pub fn for_undo(self) -> Caller {
        match self.origin.is_undo() {
            true => self,
            false => self.for_run(Origin::of_run(OriginKind::Undo, RunId::random())),
        }
    }
}

/// The process behind a change, and the change's origin.
#[derive(Debug, Clone)]
pub struct Author {
    /// The process.
    pub actor: Arc<Actor>,
    /// The origin, with the run if there is one.
    pub origin: Origin,
}

/// The cache of recent processes.
#[derive(Debug)]
pub struct ActorCache {
    /// The processes by thread id.
    seen: Arc<Mutex<HashMap<u32, CachedActor>>>,
    reader: Mutex<Sender<(ProcessIds, SyncSender<ProgramFile>)>>,
}

/// A process in the cache.
#[derive(Debug, Clone)]
struct CachedActor {
    since: Instant,
    actor: Arc<Actor>,
    /// `None` where the process may not be inspected: then an equal name counts as the same program.
    image: Option<Arc<ProgramImage>>,
}

impl CachedActor {
    fn is_recent(&self, time: Duration) -> bool {
        self.since.elapsed() < time
    }

    /// Returns whether the process still runs the same program.
    fn runs(&self) -> bool {
        match &self.image {
            Some(image) => image.runs(),
            None => comm(self.actor.pid) == self.actor.comm,
        }
    }
}

/// A process id and that of its parent.
type ProcessIds = (u32, Option<u32>);

/// A program's file, and a way to tell whether it is still running.
#[derive(Debug, Clone, Default)]
struct ProgramFile {
    exe: String,
    image: Option<Arc<ProgramImage>>,
    /// True if the process can run another program unnoticed.
    fleeting: bool,
}

impl Default for ActorCache {
    fn default() -> ActorCache {
        let (reader, questions) = channel::<(ProcessIds, SyncSender<ProgramFile>)>();
        let seen = Arc::new(Mutex::new(HashMap::default()));
        let known = seen.clone();
        let read = move || answer(&questions, &known);
        // Without the thread no question is received, and the program stays unknown.
        let _ = std::thread::Builder::new()
            .name("actors".to_owned())
            .spawn(read);
        ActorCache {
            seen,
            reader: Mutex::new(reader),
        }
    }
}

impl ActorCache {
    /// Returns the author of a change.
    pub fn author(&self, caller: Caller) -> Author {
        Author {
            actor: self.of(caller),
            origin: caller.origin,
        }
    }

    /// Returns the process behind a request.
    pub fn of(&self, caller: Caller) -> Arc<Actor> {
        let now = Instant::now();
        let known = self.seen.lock().get(&caller.pid).cloned();
        let known = known.filter(CachedActor::runs);
        if let Some(seen) = &known
            && let actor = &seen.actor
            && now.duration_since(seen.since) < FRESH
            && (actor.uid, actor.gid) == (caller.uid, caller.gid)
        {
            return actor.clone();
        }
        let (mut actor, parent) = read(caller);
        let program = match known {
            Some(old) if old.actor.pid == actor.pid && !old.actor.exe.is_empty() => ProgramFile {
                exe: old.actor.exe.clone(),
                image: old.image,
                fleeting: false,
            },
            _ => self.program_of((actor.pid, parent)),
        };
        actor.exe = program.exe;
        let actor = Arc::new(actor);
        let mut seen = self.seen.lock();
        if seen.len() >= KEPT {
            seen.retain(|_, seen| seen.is_recent(FRESH));
        }
        if seen.len() >= KEPT {
            seen.clear();
        }
        if program.fleeting {
            seen.remove(&caller.pid);
        } else {
            let entry = CachedActor {
                since: now,
                actor: actor.clone(),
                image: program.image,
            };
            seen.insert(caller.pid, entry);
        }
        actor
    }

    fn program_of(&self, process: ProcessIds) -> ProgramFile {
        let (answer, answered) = sync_channel(1);
        let asked = self.reader.lock().send((process, answer));
        let program = asked
            .ok()
            .and_then(|()| answered.recv_timeout(PROBE_TIMEOUT).ok());
        program.unwrap_or_default()
    }
}

/// Inspects processes for the workers, and drops idle ones from the cache.
fn answer(
    questions: &Receiver<(ProcessIds, SyncSender<ProgramFile>)>,
    seen: &Mutex<HashMap<u32, CachedActor>>,
) {
    let mut idle = false;
    loop {
        // Waits without a timeout only after an idle period: by then every answer is in the cache.
        let question = match idle && seen.lock().is_empty() {
            true => questions.recv().map_err(RecvTimeoutError::from),
            false => questions.recv_timeout(REMEMBERED),
        };
        idle = question.is_err();
        match question {
            // The worker may have given up waiting.
            Ok((process, answer)) => drop(answer.send(program(process))),
            Err(RecvTimeoutError::Timeout) => {
                seen.lock().retain(|_, seen| seen.is_recent(REMEMBERED));
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Reads `status` and `comm`, which need no lock of the process: neither takes its `exec_update_lock`.
fn read(caller: Caller) -> (Actor, Option<u32>) {
    let mut actor = Actor {
        pid: caller.pid,
        uid: caller.uid,
        gid: caller.gid,
        comm: String::new(),
        exe: String::new(),
        undo: None,
    };
    let mut parent = None;
    let Ok(status) = std::fs::read(format!("/proc/{}/status", caller.pid)) else {
        return (actor, parent);
    };
    let number = |text| std::str::from_utf8(text).ok()?.trim().parse().ok();
    for line in status.split(|b| *b == b'\n').take(8) {
        if let Some(pid) = line.strip_prefix(b"Tgid:") {
            actor.pid = number(pid).unwrap_or(caller.pid);
        } else if let Some(pid) = line.strip_prefix(b"PPid:") {
            parent = number(pid);
        }
    }
    // The name of the process, not of the thread that sent the request.
    actor.comm = comm(actor.pid);
    (actor, parent)
}

fn comm(pid: u32) -> String {
    let comm = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    escape(comm.strip_suffix(b"\n").unwrap_or(&comm))
}

fn program((pid, parent): ProcessIds) -> ProgramFile {
    let exe = || {
        let exe = std::fs::read_link(format!("/proc/{pid}/exe"));
        exe.map(|exe| escape(exe.as_os_str().as_bytes()))
            .unwrap_or_default()
    };
    for _ in 0..LOOKS {
        match ProgramImage::of(pid, parent) {
            ProgramProbe::Refused => break,
            ProgramProbe::Shared => {
                return ProgramFile {
                    exe: exe(),
                    image: None,
                    fleeting: true,
                };
            }
            ProgramProbe::At(image) => {
                let exe = exe();
                // Otherwise `exe` may be the file of the next program.
                if image.runs() {
                    return ProgramFile {
                        exe,
                        image: Some(Arc::new(image)),
                        fleeting: false,
                    };
                }
            }
        }
    }
    ProgramFile {
        exe: exe(),
        ..ProgramFile::default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_its_process() {
        let tid = rustix::thread::gettid()
            .as_raw_nonzero()
            .get()
            .unsigned_abs();
        let actor = ActorCache::default().of(Caller {
            pid: tid,
            ..Caller::myself()
        });
        assert_eq!(actor.pid, std::process::id());
        assert!(!actor.exe.is_empty());
    }

    #[test]
    fn a_process_that_has_ended_keeps_its_number() {
        let gone = Caller {
            pid: u32::MAX,
            uid: 7,
            gid: 8,
            origin: Origin::default(),
        };
        let actor = ActorCache::default().of(gone);
        assert_eq!(
            (actor.pid, actor.uid, actor.comm.as_str()),
            (u32::MAX, 7, "")
        );
    }
}
