//! The processes that a program leaves behind: what each is, before it is ended with the program.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::process::WaitOptions;

use crate::process_table::ProcessTable;

/// The most different lines that are kept.
pub const MAX_LINES: usize = 8;

/// The most bytes that are kept of a line.
pub const MAX_LINE_BYTES: usize = 160;

/// The time in which processes may end by themselves after the program, as those do whose input has ended with it.
const GRACE: Duration = Duration::from_millis(30);

/// The time until the next look meanwhile.
const PAUSE: Duration = Duration::from_millis(1);

/// The time that reading about processes may take, however many there are.
const MAX_READ_TIME: Duration = Duration::from_secs(1);

/// The processes that still ran when the program had ended. Each can say of itself whatever it likes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackgroundProcesses {
    /// The words of each, ended by zeros, of which up to [`MAX_LINE_BYTES`] are kept, and how many have these words.
    pub lines: Vec<(Vec<u8>, u32)>,
    /// The number of others, whose lines are not kept.
    pub others: u32,
}

impl BackgroundProcesses {
    fn add(&mut self, line: Vec<u8>) {
        if let Some((_, count)) = self.lines.iter_mut().find(|(known, _)| *known == line) {
            *count += 1;
        } else if self.lines.len() < MAX_LINES {
            self.lines.push((line, 1));
        } else {
            self.others += 1;
        }
    }

    /// Writes them as bytes.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.others.to_le_bytes());
        for (line, count) in &self.lines {
            out.extend(count.to_le_bytes());
            out.push(u8::try_from(line.len()).unwrap_or(u8::MAX));
            out.extend(line.iter().take(u8::MAX.into()));
        }
    }

    /// Reads what [`put`](Self::put) wrote; nothing if these are other bytes.
    pub(crate) fn get(bytes: &[u8]) -> Option<Self> {
        let number = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?));
        let (others, mut rest) = bytes.split_at_checked(4)?;
        let mut lines = Vec::new();
        while !rest.is_empty() {
            let (count, after) = rest.split_at_checked(4)?;
            let (len, after) = after.split_first()?;
            let (line, after) = after.split_at_checked((*len).into())?;
            lines.push((line.to_vec(), number(count)?));
            rest = after;
        }
        let others = number(others)?;
        Some(Self { lines, others })
    }
}

/// Waits a little for the processes that end by themselves, and reads what the others are. Takes no time where there are
/// none.
pub(crate) fn wait_and_name() -> BackgroundProcesses {
    let deadline = Instant::now() + GRACE;
    while has_descendants() {
        if Instant::now() >= deadline {
            return name_all();
        }
        std::thread::sleep(PAUSE);
    }
    BackgroundProcesses::default()
}

/// Waits for all children that have ended, and returns whether there are others. A process's orphans are this one's
/// children, so where it has none, it has no descendants either.
fn has_descendants() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Reads what the processes of the sandbox are. What a process has called itself lies in its memory, which another of its
/// threads can keep locked; so a thread reads it, which ends with this process.
fn name_all() -> BackgroundProcesses {
    let deadline = Instant::now() + MAX_READ_TIME;
    let (tell, told) = channel();
    let read = move || {
        let Ok(table) = ProcessTable::open() else {
            return;
        };
        for (pid, stat) in table.others().unwrap_or_default() {
            let words = table.read_start(&format!("{pid}/cmdline"), MAX_LINE_BYTES as u64);
            let mut words = match words {
                // It has ended meanwhile.
                Ok(None) => continue,
                words => words.ok().flatten().unwrap_or_default(),
            };
            let len = words.iter().rposition(|byte| *byte != 0);
            words.truncate(len.map_or(0, |last| last + 1));
            if words.is_empty() {
                words = stat.name.into_bytes();
            }
            if tell.send(words).is_err() {
                return;
            }
        }
    };
    let mut found = BackgroundProcesses::default();
    if std::thread::Builder::new().spawn(read).is_ok() {
        while let Ok(line) = told.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            found.add(line);
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_survive_the_wire() {
        let mut found = BackgroundProcesses::default();
        assert_eq!(BackgroundProcesses::get(&[0, 0, 0, 0]), Some(found.clone()));
        for number in 0..500_usize {
            found.add(vec![u8::try_from(number % 10).unwrap(); MAX_LINE_BYTES]);
        }
        assert_eq!((found.lines.len(), found.others), (MAX_LINES, 100));
        assert!(found.lines.iter().all(|(_, count)| *count == 50));
        let mut bytes = Vec::new();
        found.put(&mut bytes);
        assert_eq!(BackgroundProcesses::get(&bytes), Some(found));
        bytes.pop();
        assert_eq!(BackgroundProcesses::get(&bytes), None);
    }
}
