//! Who asked: from the thread id that the kernel gives with a request to the process behind it.
//!
//! Owns a small cache, because reading `/proc` costs as much as a request. An entry is believed for [`FRESH`] only: a
//! process may `exec` another program, and numbers come round again.
//!
//! A worker thread must not read `/proc/PID/exe` itself: the kernel takes the process's `exec_update_lock` for it, which
//! the process holds while `execve` closes its close-on-exec files, and that may wait for this very daemon. So a thread
//! of its own reads, and the worker waits for [`PATIENCE`] at most. The lock over the cache is never held meanwhile.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::record::Actor;
use crate::name::escape;

/// How long a cached answer is believed.
const FRESH: Duration = Duration::from_millis(100);

/// How long a request waits to learn which program sends it.
const PATIENCE: Duration = Duration::from_millis(5);

/// How many answers are kept before the stale ones are dropped.
const KEPT: usize = 1024;

/// Who sends a request, as the kernel says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The thread's id in the daemon's PID namespace; 0 where it has none there.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The record of the undo that it works for.
    pub undo: Option<u64>,
}

impl Caller {
    /// Returns this process itself, for work on a store that is not mounted.
    pub fn myself() -> Caller {
        Caller {
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            undo: None,
        }
    }
}

/// The processes lately seen.
#[derive(Debug)]
pub struct Actors {
    seen: Mutex<HashMap<u32, (Instant, Arc<Actor>)>>,
    reader: Mutex<Sender<(u32, SyncSender<String>)>>,
}

impl Default for Actors {
    fn default() -> Actors {
        let (reader, questions) = channel::<(u32, SyncSender<String>)>();
        let read = move || {
            for (pid, answer) in questions {
                // Whoever asked may have lost patience.
                let _ = answer.send(program(pid));
            }
        };
        // Without the thread the question is never taken, and the program stays unknown.
        let _ = std::thread::Builder::new()
            .name("actors".to_owned())
            .spawn(read);
        Actors {
            seen: Mutex::default(),
            reader: Mutex::new(reader),
        }
    }
}

impl Actors {
    /// Returns the process behind a request.
    pub fn of(&self, caller: Caller) -> Arc<Actor> {
        let now = Instant::now();
        let known = self.seen.lock().get(&caller.pid).cloned();
        if let Some((since, actor)) = &known
            && now.duration_since(*since) < FRESH
            && (actor.uid, actor.gid, actor.undo) == (caller.uid, caller.gid, caller.undo)
        {
            return actor.clone();
        }
        let mut actor = read(caller);
        actor.exe = match known {
            // The same name after so short a time is the same program.
            Some((_, old))
                if (old.pid, &old.comm) == (actor.pid, &actor.comm) && !old.exe.is_empty() =>
            {
                old.exe.clone()
            }
            _ => self.program_of(actor.pid),
        };
        let actor = Arc::new(actor);
        let mut seen = self.seen.lock();
        if seen.len() >= KEPT {
            seen.retain(|_, (since, _)| now.duration_since(*since) < FRESH);
        }
        seen.insert(caller.pid, (now, actor.clone()));
        actor
    }

    fn program_of(&self, pid: u32) -> String {
        let (answer, answered) = sync_channel(1);
        let asked = self.reader.lock().send((pid, answer));
        let program = asked
            .ok()
            .and_then(|()| answered.recv_timeout(PATIENCE).ok());
        program.unwrap_or_default()
    }
}

/// Reads what needs no lock of the process: neither `status` nor `comm` takes its `exec_update_lock`.
fn read(caller: Caller) -> Actor {
    let mut actor = Actor {
        pid: caller.pid,
        uid: caller.uid,
        gid: caller.gid,
        comm: String::new(),
        exe: String::new(),
        undo: caller.undo,
    };
    let Ok(status) = std::fs::read(format!("/proc/{}/status", caller.pid)) else {
        return actor;
    };
    for line in status.split(|b| *b == b'\n').take(8) {
        if let Some(pid) = line.strip_prefix(b"Tgid:") {
            let pid = std::str::from_utf8(pid)
                .ok()
                .and_then(|t| t.trim().parse().ok());
            actor.pid = pid.unwrap_or(caller.pid);
        }
    }
    // The name of the process, not of the thread that happened to ask.
    if let Ok(comm) = std::fs::read(format!("/proc/{}/comm", actor.pid)) {
        actor.comm = escape(comm.strip_suffix(b"\n").unwrap_or(&comm));
    }
    actor
}

fn program(pid: u32) -> String {
    let exe = std::fs::read_link(format!("/proc/{pid}/exe"));
    exe.map(|exe| escape(exe.as_os_str().as_bytes()))
        .unwrap_or_default()
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
        let actor = Actors::default().of(Caller {
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
            undo: None,
        };
        let actor = Actors::default().of(gone);
        assert_eq!(
            (actor.pid, actor.uid, actor.comm.as_str()),
            (u32::MAX, 7, "")
        );
    }
}
