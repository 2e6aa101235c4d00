//! Reading /proc: the processes of a sandbox, which are this process and its descendants.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::{Errno, Result};

/// The number of the first process of a PID namespace, in a /proc of that.
const FIRST: u64 = 1;

/// Processor time of a process, in ticks.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuTime {
    pub(crate) own: u64,
    /// Of children that it has waited for, with theirs.
    pub(crate) children: u64,
}

/// The fields of /proc/PID/stat that are read of a process.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    /// The name of its program, which it can change.
    pub(crate) name: String,
    /// True if it has ended, and its parent has not waited for it.
    pub(crate) is_zombie: bool,
    parent: u64,
    /// The time of its start, in ticks since the machine's.
    pub(crate) start: u64,
    pub(crate) threads: u64,
    pub(crate) cpu: CpuTime,
}

/// The processes of a sandbox, as /proc shows them.
pub(crate) struct ProcessTable {
    proc: OwnedFd,
    /// The number of this process there; in a container's /proc, which has other processes too, it is not 1.
    own: u64,
}

impl ProcessTable {
    /// Opens /proc.
    ///
    /// # Errors
    /// Any error of opening it; `EBADMSG` where this process is not there.
    pub(crate) fn open() -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = rustix::fs::openat(CWD, "/proc", flags, Mode::empty())?;
        let own = rustix::fs::readlinkat(&proc, "self", Vec::new())?;
        let own = own.to_str().ok().and_then(|own| own.parse().ok());
        Ok(Self {
            own: own.ok_or(Errno::BADMSG)?,
            proc,
        })
    }

    /// Returns the processes of the sandbox by their numbers, this one too.
    pub(crate) fn stats(&self) -> Result<HashMap<u64, ProcessStat>> {
        let mut stats = HashMap::new();
        for pid in self.numbers(".")? {
            stats.extend(self.stat(pid)?.map(|stat| (pid, stat)));
        }
        if self.own == FIRST {
            return Ok(stats);
        }
        let mut inside = HashMap::new();
        for (pid, stat) in &stats {
            if self.is_inside(*pid, &stats)? {
                inside.insert(*pid, stat.clone());
            }
        }
        Ok(inside)
    }

    /// Returns the processes of the sandbox that run beside this one, the oldest first.
    pub(crate) fn others(&self) -> Result<Vec<(u64, ProcessStat)>> {
        let mut others: Vec<_> = self.stats()?.into_iter().collect();
        others.retain(|(pid, stat)| *pid != self.own && !stat.is_zombie);
        others.sort_by_key(|(pid, stat)| (stat.start, *pid));
        Ok(others)
    }

    fn stat(&self, pid: u64) -> Result<Option<ProcessStat>> {
        let text = self.read(&format!("{pid}/stat"))?;
        text.map(|text| of_stat(&text).ok_or(Errno::BADMSG))
            .transpose()
    }

    /// Returns whether a process descends from this one, as all of the sandbox do: orphans are this process's children.
    fn is_inside(&self, pid: u64, stats: &HashMap<u64, ProcessStat>) -> Result<bool> {
        let mut at = pid;
        // A number that was given anew meanwhile leads in a circle, perhaps.
        for _ in 0..=stats.len() {
            if at == self.own {
                return Ok(true);
            }
            let Some(mut parent) = stats.get(&at).map(|stat| stat.parent) else {
                return Ok(false);
            };
            if parent != 0 && !stats.contains_key(&parent) {
                // It has ended after it was read of, and its children have got another parent.
                parent = self.stat(at)?.map_or(0, |stat| stat.parent);
            }
            if parent == 0 {
                return Ok(false);
            }
            at = parent;
        }
        Ok(false)
    }

    /// Returns the names in a directory that are numbers; none if its process has ended.
    pub(crate) fn numbers(&self, dir: &str) -> Result<Vec<u64>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listing = match rustix::fs::openat(&self.proc, dir, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::SRCH) => return Ok(Vec::new()),
            listing => rustix::fs::Dir::new(listing?)?,
        };
        let mut numbers = Vec::new();
        for entry in listing {
            let name = entry?;
            let number: Option<u64> = name.file_name().to_str().ok().and_then(|n| n.parse().ok());
            numbers.extend(number);
        }
        Ok(numbers)
    }

    /// Reads a file below /proc; nothing if its process has ended.
    pub(crate) fn read(&self, path: &str) -> Result<Option<String>> {
        let bytes = self.read_start(path, u64::MAX)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Reads so many bytes of a file below /proc; nothing if its process has ended.
    pub(crate) fn read_start(&self, path: &str, max: u64) -> Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.proc, path, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::SRCH) => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        match File::from(file).take(max).read_to_end(&mut bytes) {
            Ok(_) => Ok(Some(bytes)),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::SRCH) => Ok(None),
                errno => Err(errno.unwrap_or(Errno::IO)),
            },
        }
    }
}

/// Reads a line of /proc/PID/stat. The name, in parentheses, may hold anything.
fn of_stat(text: &str) -> Option<ProcessStat> {
    let (start, fields) = text.rsplit_once(')')?;
    let (_, name) = start.split_once('(')?;
    // The first field here is the third, the state; proc_pid_stat(5) counts from 1.
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let threads = number(20)?;
    Some(ProcessStat {
        name: name.to_owned(),
        // Where only the first thread has ended, the others go on.
        is_zombie: matches!(fields.first(), Some(&("Z" | "X"))) && threads < 2,
        parent: number(4)?,
        start: number(22)?,
        threads,
        cpu: CpuTime {
            own: number(14)? + number(15)?,
            children: number(16)? + number(17)?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_any_name_is_read() {
        let of_state = |state: &str, threads: u64| {
            of_stat(&format!(
                "7 (a) b) (c) {state} 1 7 7 0 -1 4194560 1 2 3 4 11 22 33 44 20 0 {threads} 0 99"
            ))
        };
        let wanted = ProcessStat {
            name: "a) b) (c".to_owned(),
            is_zombie: false,
            parent: 1,
            start: 99,
            threads: 5,
            cpu: CpuTime {
                own: 33,
                children: 77,
            },
        };
        assert_eq!(of_state("S", 5), Some(wanted));
        for (state, threads, is_zombie) in [("Z", 1, true), ("Z", 2, false), ("R", 1, false)] {
            let stat = of_state(state, threads);
            assert_eq!(stat.map(|stat| stat.is_zombie), Some(is_zombie));
        }
        for broken in ["", "x", "1 (a"] {
            assert_eq!(of_stat(broken), None);
        }
    }
}
