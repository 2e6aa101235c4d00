//! Looking at what the processes of a sandbox use, where the kernel does not count it for all of them together.
//!
//! A use that cannot be measured counts as too much: a program that hides what it uses ends as one that uses it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::io::{Errno, Result};

use crate::channel::InitMessage;
use crate::error::{Step, StepFailure};
use crate::limit::LimitKind;
use crate::orders::WatchLimits;
use crate::process_table::{CpuTime, ProcessTable};
use crate::sys::program::system_v_memory;

/// The time until the next look.
const MIN_PAUSE: Duration = Duration::from_millis(50);
/// The time until the next look where many processes share most of their memory: finding out how much they share is
/// work.
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// The watch over a sandbox.
pub(crate) struct LimitWatcher {
    watch: WatchLimits,
    next: Instant,
    table: ProcessTable,
    cpu: CpuAccount,
    /// Processor time at the last look, in microseconds.
    counted: u64,
    /// Clock ticks and pages, in microseconds and bytes.
    tick_us: u64,
    page: u64,
}

/// A process, by its number and the time of its start.
type ProcessId = (u64, u64);

/// Memory of a process that is no file's, in bytes: what it has in common with others counts for each.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct MemoryUse {
    private: u64,
    shared: u64,
}

impl MemoryUse {
    fn total(self) -> u64 {
        self.private.saturating_add(self.shared)
    }
}

/// The processor time of all processes that there are and were. A child whose parent ignores SIGCHLD counts nowhere
/// once it has ended; so what each process had used at the last look stays counted.
#[derive(Debug, Default)]
struct CpuAccount {
    last: HashMap<ProcessId, CpuTime>,
    /// Of processes that are not there any more.
    ended: u64,
}

impl CpuAccount {
    /// Takes what the processes there are have used; returns the sum with what others used before.
    fn take(&mut self, now: HashMap<ProcessId, CpuTime>) -> u64 {
        let waited = now.iter().map(|(process, time)| {
            let before = self.last.get(process).map_or(0, |time| time.children);
            time.children.saturating_sub(before)
        });
        let gone = self.last.iter().filter(|(one, _)| !now.contains_key(*one));
        let (own, children) = gone.fold((0, 0), |(own, children), (_, time)| {
            (own + time.own, children + time.children)
        });
        // What was waited for has what these had at the last look, and what their children had, which is counted
        // already.
        self.ended += waited.sum::<u64>().saturating_sub(children).max(own);
        let living: u64 = now.values().map(|time| time.own).sum();
        self.last = now;
        self.ended + living
    }
}

impl LimitWatcher {
    /// Begins to watch; nothing if there is nothing to watch.
    ///
    /// # Errors
    /// [`Step::Limits`] where there is nothing to look at.
    pub(crate) fn new(watch: WatchLimits) -> std::result::Result<Option<Self>, StepFailure> {
        if watch == WatchLimits::default() {
            return Ok(None);
        }
        let failed = |errno| StepFailure::new(Step::Limits, "/proc", errno);
        Ok(Some(Self {
            watch,
            next: Instant::now() + MIN_PAUSE,
            table: ProcessTable::open().map_err(failed)?,
            cpu: CpuAccount::default(),
            counted: 0,
            tick_us: 1_000_000 / rustix::param::clock_ticks_per_second().max(1),
            page: rustix::param::page_size() as u64,
        }))
    }

    /// Returns the time that the next look can wait.
    pub(crate) fn pause(&self) -> Timespec {
        let pause = self.next.saturating_duration_since(Instant::now());
        Timespec {
            tv_sec: i64::try_from(pause.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: pause.subsec_nanos().into(),
        }
    }

    /// Looks, if it is time to; says which limit is passed, or cannot be seen to.
    pub(crate) fn check_limits(&mut self) -> Option<InitMessage> {
        if Instant::now() < self.next {
            return None;
        }
        self.next = Instant::now() + MIN_PAUSE;
        let over = match self.measure() {
            Ok(over) => over?,
            Err(_) if self.watch.memory > 0 => LimitKind::Memory,
            Err(_) if self.watch.cpu_us > 0 => LimitKind::Cpu,
            Err(_) => LimitKind::Processes,
        };
        // Of what dies after this process, the kernel tells nobody the time.
        Some(InitMessage::Over(over, self.counted))
    }

    fn measure(&mut self) -> Result<Option<LimitKind>> {
        let (mut threads, mut cpu, mut memory) = (0, HashMap::new(), 0_u64);
        let stats = self.table.stats()?;
        for (pid, stat) in &stats {
            threads += stat.threads;
            cpu.insert((*pid, stat.start), stat.cpu);
            if self.watch.memory > 0 {
                let used = self.memory_of(*pid, stat.threads)?;
                memory = memory.saturating_add(used.map_or(0, |(_, used)| used.total()));
            }
        }
        let over = |limit: u64, used: u64| limit > 0 && used > limit;
        self.counted = self.cpu.take(cpu).saturating_mul(self.tick_us);
        if over(self.watch.cpu_us, self.counted) {
            return Ok(Some(LimitKind::Cpu));
        }
        // The first process does not count.
        if over(self.watch.processes, threads.saturating_sub(1)) {
            return Ok(Some(LimitKind::Processes));
        }
        if self.watch.memory == 0 {
            return Ok(None);
        }
        let files = self.memory_file_bytes()?;
        if !over(self.watch.memory, memory.saturating_add(files)) {
            return Ok(None);
        }
        // Memory that more and more processes map while they are asked one after the other counts too much: whole for
        // the first, in parts for the others. What one sum has too much of, the next has not.
        for _ in 0..2 {
            let mut exact = self.memory_file_bytes()?;
            for pid in self.table.stats()?.keys() {
                exact = exact.saturating_add(self.fair_share(*pid)?);
            }
            if !over(self.watch.memory, exact) {
                self.next = Instant::now() + MAX_PAUSE;
                return Ok(None);
            }
        }
        Ok(Some(LimitKind::Memory))
    }

    /// Returns the memory of a process, with the directory of /proc that says so; `None` if the process has ended. A
    /// process whose first thread has ended shows its memory by another thread.
    fn memory_of(&self, pid: u64, threads: u64) -> Result<Option<(String, MemoryUse)>> {
        let dir = pid.to_string();
        let used = self.table.read(&format!("{dir}/status"))?;
        let used = used.and_then(|status| of_status(&status));
        if used.is_some() || threads < 2 {
            return Ok(used.map(|used| (dir, used)));
        }
        let tasks = format!("{pid}/task");
        for thread in self.table.numbers(&tasks)? {
            let dir = format!("{tasks}/{thread}");
            let status = self.table.read(&format!("{dir}/status"))?;
            if let Some(used) = status.and_then(|status| of_status(&status)) {
                return Ok(Some((dir, used)));
            }
        }
        Ok(None)
    }

    /// A process's fair share of what it has in common with others; all of it where the process does not let us see.
    /// Memory in /dev/shm or of System V is left out: it counts by itself.
    fn fair_share(&self, pid: u64) -> Result<u64> {
        let Some((dir, used)) = self.memory_of(pid, u64::MAX)? else {
            return Ok(0);
        };
        let rollup = format!("{dir}/smaps_rollup");
        let fair = match self.table.read(&rollup) {
            Ok(Some(text)) => of_rollup(&text),
            Ok(None) => return Ok(0),
            Err(Errno::ACCESS | Errno::PERM) => None,
            Err(errno) => return Err(errno),
        };
        let Some(fair) = fair else {
            return Ok(used.total());
        };
        if fair.shared == 0 {
            return Ok(fair.private);
        }
        let counted = self.table.read(&format!("{dir}/smaps"))?;
        let counted = counted.map_or(0, |text| counted_elsewhere(&text));
        // A process that mapped the same meanwhile has made this one's share smaller.
        let after = self.table.read(&rollup)?.and_then(|text| of_rollup(&text));
        let shared = after.map_or(0, |after| after.shared.min(fair.shared));
        Ok(fair.private + shared.saturating_sub(counted))
    }

    /// Returns the bytes in /dev/shm and in shared memory of System V, mapped or not.
    fn memory_file_bytes(&self) -> Result<u64> {
        let stat = rustix::fs::statvfs("/dev/shm")?;
        let files = stat.f_blocks.saturating_sub(stat.f_bfree) * stat.f_frsize;
        Ok(files.saturating_add(system_v_memory()?.saturating_mul(self.page)))
    }
}

/// Reads a number of KiB from a line of a file of /proc, as bytes.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib << 10)
}

/// Reads /proc/PID/status; nothing where the thread has no memory any more.
fn of_status(text: &str) -> Option<MemoryUse> {
    Some(MemoryUse {
        private: kib(text, "RssAnon:")? + kib(text, "VmSwap:").unwrap_or(0),
        shared: kib(text, "RssShmem:")?,
    })
}

/// Reads /proc/PID/smaps_rollup.
fn of_rollup(text: &str) -> Option<MemoryUse> {
    Some(MemoryUse {
        private: kib(text, "Pss_Anon:")? + kib(text, "SwapPss:").unwrap_or(0),
        shared: kib(text, "Pss_Shmem:")?,
    })
}

/// Reads /proc/PID/smaps: the fair share, in bytes, of shared maps of what lies in /dev/shm or belongs to System V.
fn counted_elsewhere(text: &str) -> u64 {
    let (mut sum, mut counts) = (0, false);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("Pss:"), Some(kib)) if counts => sum += kib.parse::<u64>().unwrap_or(0) << 10,
            (Some(range), Some(modes)) if !range.ends_with(':') => {
                // Offset, device and inode come before the name.
                let name = words.nth(3).unwrap_or_default();
                let is_counted = name.starts_with("/dev/shm/") || name.starts_with("/SYSV");
                counts = modes.ends_with('s') && is_counted;
            }
            _ => {}
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_proc_are_read() {
        let status = "Name:\tx\nVmRSS:\t 9 kB\nRssAnon:\t       4 kB\nRssFile:\t 3 kB\nRssShmem:\t 2 kB\nVmSwap:\t 1 kB\n";
        let used = |private: u64, shared: u64| {
            let (private, shared) = (private << 10, shared << 10);
            Some(MemoryUse { private, shared })
        };
        assert_eq!(of_status(status), used(5, 2));
        assert_eq!(of_status("Name:\tx\nState:\tZ (zombie)\n"), None);
        let rollup = "00-ff ---p [rollup]\nRss: 5 kB\nPss_Anon:      12 kB\nPss_Shmem: 3 kB\nSwapPss: 0 kB\n";
        assert_eq!(of_rollup(rollup), used(12, 3));
        for broken in ["", "x", "1 (a"] {
            assert_eq!((of_status(broken), of_rollup(broken)), (None, None));
        }
    }

    #[test]
    fn shared_maps_of_files_in_memory_count_by_those() {
        let map = |modes: &str, name: &str| {
            format!(
                "7f00-7f01 {modes} 00000000 00:01 12 {name}\nSize: 9 kB\nPss: 4 kB\nPss_Dirty: 2 kB\n"
            )
        };
        let text = [
            map("rw-s", "/dev/shm/a b"),
            map("rw-s", "/SYSV00000000 (deleted)"),
            map("rw-p", "/dev/shm/private"),
            map("rw-s", "/memfd:/dev/shm/ (deleted)"),
            map("rw-s", "/dev/zero (deleted)"),
            map("rw-p", ""),
        ];
        assert_eq!(counted_elsewhere(&text.concat()), 8 << 10);
    }

    #[test]
    fn processor_time_of_what_has_ended_counts_once() {
        let time = |own, children| CpuTime { own, children };
        let mut account = CpuAccount::default();
        let mut take = |all: &[(u64, u64, u64)]| {
            let all = all.iter();
            account.take(
                all.map(|(pid, own, kin)| ((*pid, 0), time(*own, *kin)))
                    .collect(),
            )
        };
        assert_eq!(take(&[(1, 0, 0), (2, 5, 0), (3, 10, 0)]), 15);
        // 3 ended and was waited for by 2, which had 2 more.
        assert_eq!(take(&[(1, 0, 0), (2, 5, 12)]), 17);
        // 4 came and ended between two looks, and was waited for.
        assert_eq!(take(&[(1, 0, 0), (2, 5, 15)]), 20);
        assert_eq!(take(&[(1, 0, 0), (2, 5, 15), (5, 40, 0)]), 60);
        // 5 ended, and nobody waited for it.
        assert_eq!(take(&[(1, 0, 0), (2, 5, 15)]), 60);
        // 2 ended, and the first process waited for it: what its children had is counted.
        assert_eq!(take(&[(1, 0, 21)]), 61);
        assert_eq!(take(&[(1, 0, 21)]), 61);
    }
}
