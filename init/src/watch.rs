//! Looking at what the processes of a sandbox use, where the kernel does not count it for all of them together.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::fs::{CWD, Mode, OFlags};

use crate::limit::Limit;
use crate::orders::Watch;

/// How long it takes until the next look: the less is left, the shorter.
const OFTEN: Duration = Duration::from_millis(50);
/// When many processes share most of their memory, finding out how much they share is work.
const SELDOM: Duration = Duration::from_millis(500);

/// The watch over a sandbox.
pub(crate) struct Watcher {
    watch: Watch,
    next: Instant,
    proc: OwnedFd,
    /// Clock ticks and pages, in microseconds and bytes.
    tick_us: u64,
    page: u64,
}

/// What all processes use together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Use {
    threads: u64,
    cpu_ticks: u64,
    /// Memory that is no file's, in pages; what processes share by fork(2) counts for each.
    pages: u64,
}

impl Watcher {
    /// Begins to watch; nothing if there is nothing to watch, or nothing to look at.
    pub(crate) fn new(watch: Watch) -> Option<Self> {
        if watch == Watch::default() {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Some(Self {
            watch,
            next: Instant::now() + OFTEN,
            proc: rustix::fs::openat(CWD, "/proc", flags, Mode::empty()).ok()?,
            tick_us: 1_000_000 / rustix::param::clock_ticks_per_second().max(1),
            page: rustix::param::page_size() as u64,
        })
    }

    /// How long the next look can wait.
    pub(crate) fn pause(&self) -> Timespec {
        let pause = self.next.saturating_duration_since(Instant::now());
        Timespec {
            tv_sec: i64::try_from(pause.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: pause.subsec_nanos().into(),
        }
    }

    /// Looks, if it is time to; returns the limit that is passed.
    pub(crate) fn look(&mut self) -> Option<Limit> {
        if Instant::now() < self.next {
            return None;
        }
        let pids = self.pids();
        let mut all = Use::default();
        for pid in &pids {
            if let Some(one) = self.read(pid, "stat").and_then(|stat| of_stat(&stat)) {
                all.threads += one.threads;
                all.cpu_ticks += one.cpu_ticks;
            }
            if self.watch.memory > 0
                && let Some(statm) = self.read(pid, "statm")
            {
                all.pages += pages(&statm).unwrap_or(0);
            }
        }
        self.next = Instant::now() + OFTEN;
        let over = |limit: u64, used: u64| limit > 0 && used > limit;
        if over(
            self.watch.cpu_us,
            all.cpu_ticks.saturating_mul(self.tick_us),
        ) {
            return Some(Limit::Cpu);
        }
        // The first process does not count.
        if over(self.watch.processes, all.threads.saturating_sub(1)) {
            return Some(Limit::Processes);
        }
        if over(self.watch.memory, all.pages * self.page + self.files()) {
            let exact: u64 = pids.iter().map(|pid| self.share(pid)).sum();
            if over(self.watch.memory, exact + self.files()) {
                return Some(Limit::Memory);
            }
            self.next = Instant::now() + SELDOM;
        }
        None
    }

    fn pids(&self) -> Vec<String> {
        let listing = rustix::fs::Dir::read_from(&self.proc);
        let names = listing.into_iter().flatten().flatten();
        names
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
            .collect()
    }

    fn read(&self, pid: &str, name: &str) -> Option<String> {
        use std::io::Read;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let path = format!("{pid}/{name}");
        let file = rustix::fs::openat(&self.proc, path, flags, Mode::empty()).ok()?;
        let mut bytes = Vec::new();
        std::fs::File::from(file).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A process's fair share of what it has in common with others; all of it where the process does not let us see.
    fn share(&self, pid: &str) -> u64 {
        let fair = self
            .read(pid, "smaps_rollup")
            .and_then(|text| anonymous(&text));
        fair.unwrap_or_else(|| {
            let statm = self.read(pid, "statm");
            statm.and_then(|text| pages(&text)).unwrap_or(0) * self.page
        })
    }

    /// What lies in /dev/shm.
    fn files(&self) -> u64 {
        rustix::fs::statvfs("/dev/shm").map_or(0, |stat| {
            stat.f_blocks.saturating_sub(stat.f_bfree) * stat.f_frsize
        })
    }
}

/// Reads a line of /proc/PID/stat. The name, in parentheses, may hold anything.
fn of_stat(text: &str) -> Option<Use> {
    let (_, fields) = text.rsplit_once(')')?;
    // The first field here is the third, the state; proc_pid_stat(5) counts from 1.
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Use {
        // utime, stime, and those of children that were waited for.
        cpu_ticks: number(14)? + number(15)? + number(16)? + number(17)?,
        threads: number(20)?,
        pages: 0,
    })
}

/// Reads /proc/PID/statm: what is resident and no file's.
fn pages(text: &str) -> Option<u64> {
    let mut fields = text.split_whitespace().skip(1);
    let (resident, shared): (u64, u64) =
        (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(resident.saturating_sub(shared))
}

/// Reads /proc/PID/smaps_rollup: the fair share of what is no file's, in bytes.
fn anonymous(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Pss_Anon:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_proc_are_read() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194560 1 2 3 4 11 22 33 44 20 0 5 0 99";
        let wanted = Use {
            threads: 5,
            cpu_ticks: 110,
            pages: 0,
        };
        assert_eq!(of_stat(stat), Some(wanted));
        assert_eq!(pages("100 60 20 1 0 1 0\n"), Some(40));
        assert_eq!(
            anonymous("00-ff ---p [rollup]\nRss: 5 kB\nPss_Anon:      12 kB\n"),
            Some(12 << 10)
        );
        for broken in ["", "x", "1 (a"] {
            assert_eq!(
                (of_stat(broken), pages(broken), anonymous(broken)),
                (None, None, None)
            );
        }
    }
}
