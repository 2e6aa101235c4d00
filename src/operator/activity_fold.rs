//! Folding a log: consecutive changes of one process become one [`Activity`], with counts instead of records.
//!
//! Owns the limits of an activity (`QUIET`, `LONG`) and the order of the output: by first record. Records of several
//! processes are interleaved, so a few activities are open at a time, never more than `OPEN`; each keeps only counts
//! and its first records, so memory does not grow with the log.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use chrono::{DateTime, TimeDelta, Utc};

use crate::journal::{Origin, RecordHeader};

/// A pause after which a process begins a new activity.
const ACTIVITY_PAUSE: TimeDelta = TimeDelta::seconds(5);
/// The maximum duration of an activity.
const MAX_ACTIVITY_TIME: TimeDelta = TimeDelta::seconds(60);
/// The maximum number of open activities.
const MAX_OPEN_ACTIVITIES: usize = 256;
/// Up to this many records are printed one by one.
pub const MAX_SINGLE_RECORDS: usize = 3;
/// The number of different files counted exactly; beyond it, every file counts as different.
const MAX_DISTINCT_FILES: usize = 4096;
/// The number of latest records that an `abort` can still refer to.
const MAX_ABORT_DISTANCE: usize = 512;

/// The kinds of changes that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// Created a file, FIFO or socket.
    CreatedFile,
    /// Created a directory.
    CreatedDirectory,
    /// Created a symlink.
    CreatedSymlink,
    /// Added a hard link.
    Linked,
    /// Opened a file for writing, truncated it, or reserved or punched space in it.
    Wrote,
    /// Changed mode, owner, times or an extended attribute.
    Changed,
    /// Moved or exchanged files.
    Renamed,
    /// Replaced a file by another.
    Replaced,
    /// Removed a file.
    RemovedFile,
    /// Removed a directory.
    RemovedDirectory,
    /// Restored a file from the trash.
    Restored,
}

/// The kinds, in output order.
pub const CHANGE_KINDS: [ChangeKind; 11] = [
    ChangeKind::CreatedFile,
    ChangeKind::CreatedDirectory,
    ChangeKind::CreatedSymlink,
    ChangeKind::Linked,
    ChangeKind::Wrote,
    ChangeKind::Changed,
    ChangeKind::Renamed,
    ChangeKind::Replaced,
    ChangeKind::RemovedFile,
    ChangeKind::RemovedDirectory,
    ChangeKind::Restored,
];

/// Consecutive changes of one process or one run.
#[derive(Debug, Clone)]
pub struct Activity {
    /// Its session.
    pub session: String,
    /// The process id.
    pub pid: u64,
    /// The process's name; empty where unknown.
    pub comm: String,
    /// The run that made the changes, whatever its processes; or the undo.
    pub origin: Origin,
    /// The number of its first record.
    pub first: u64,
    /// The number of its last record; other processes' records may lie in between.
    pub last: u64,
    /// The time of its first record.
    pub began: DateTime<Utc>,
    /// The time of its last record.
    pub ended: DateTime<Utc>,
    /// The number of its records.
    pub records: u64,
    /// The number of its records that were aborted.
    pub not_done: u64,
    /// The single path of all changes, or the directory that holds all their paths, as written in records.
    pub under: String,
    /// True if `under` is a single path.
    pub one_path: bool,
    /// The records themselves, while there are few ([`MAX_SINGLE_RECORDS`]).
    lines: Vec<Vec<u8>>,
    /// The directory of the single path.
    dir: String,
    counts: [u64; CHANGE_KINDS.len()],
    seen: HashSet<u64>,
    closed: bool,
}

/// The output of folding.
#[derive(Debug)]
pub enum FoldEvent {
    /// An activity of more than [`MAX_SINGLE_RECORDS`] records.
    Activity(Box<Activity>),
    /// A record by itself: begin and end of a session, a checkpoint, an undo, a purge; and each record of a short
    /// activity.
    Single {
        /// Its session.
        session: String,
        /// Its number.
        seq: u64,
        /// The record as written.
        line: Vec<u8>,
    },
}

impl FoldEvent {
    fn session(&self) -> &str {
        match self {
            FoldEvent::Activity(activity) => &activity.session,
            FoldEvent::Single { session, .. } => session,
        }
    }

    /// Returns the number of its first record.
    fn first(&self) -> u64 {
        match self {
            FoldEvent::Activity(activity) => activity.first,
            FoldEvent::Single { seq, .. } => *seq,
        }
    }
}

/// Folds records into activities.
#[derive(Debug, Default)]
pub struct ActivityFold {
    queue: VecDeque<FoldEvent>,
    /// The latest records: number, the first record of the activity, and the kind counted.
    recent: VecDeque<(u64, u64, Option<ChangeKind>)>,
    now: DateTime<Utc>,
}

impl Activity {
    /// Returns the number of changes of a kind.
    pub fn count(&self, act: ChangeKind) -> u64 {
        CHANGE_KINDS
            .iter()
            .position(|a| *a == act)
            .and_then(|i| self.counts.get(i).copied())
            .unwrap_or(0)
    }

    fn count_mut(&mut self, act: ChangeKind) -> Option<&mut u64> {
        let at = CHANGE_KINDS.iter().position(|a| *a == act)?;
        self.counts.get_mut(at)
    }

    fn add(&mut self, record: &RecordHeader<'_>, time: DateTime<Utc>) -> Option<ChangeKind> {
        self.records += 1;
        self.last = record.seq;
        self.ended = self.ended.max(time);
        if self.records as usize <= MAX_SINGLE_RECORDS {
            self.lines.push(record.line.to_vec());
        } else {
            self.lines = Vec::new();
        }
        let path = record.path().unwrap_or_default();
        self.include_path(&path, dir_of(&record.op, &path));
        let replaces = match &*record.op {
            "rename" | "restore" => {
                if let Some(to) = record.to() {
                    self.include_path(&to, parent(&to));
                }
                record.has_replaced()
            }
            _ => false,
        };
        if replaces && let Some(count) = self.count_mut(ChangeKind::Replaced) {
            *count += 1;
        }
        let act = act_of(&record.op)?;
        if matches!(act, ChangeKind::Wrote | ChangeKind::Changed)
            && self.seen.len() < MAX_DISTINCT_FILES
        {
            let mut hasher = DefaultHasher::new();
            (act, path).hash(&mut hasher);
            if !self.seen.insert(hasher.finish()) {
                return None;
            }
        }
        *self.count_mut(act)? += 1;
        Some(act)
    }

    /// Widens `under` to include another path, in `dir`.
    fn include_path(&mut self, path: &str, dir: &str) {
        if self.one_path && self.under == path {
            return;
        }
        if self.one_path {
            self.one_path = false;
            self.under = std::mem::take(&mut self.dir);
        }
        while !is_below(dir, &self.under) {
            self.under.truncate(parent_length(&self.under));
        }
    }
}

impl ActivityFold {
    /// Adds the next record.
    pub fn add(&mut self, session: &str, record: &RecordHeader<'_>) {
        let time = DateTime::parse_from_rfc3339(&record.time).map_or(self.now, |t| t.to_utc());
        self.now = self.now.max(time);
        match &*record.op {
            // Part of a removal that is counted already.
            "gather" => {}
            "abort" => self.uncount(session, record),
            "begin" | "end" => {
                self.close_all();
                self.single(session, record);
            }
            // What follows belongs to another turn.
            "checkpoint" if record.turn_mark().is_some() => {
                self.close_all();
                self.single(session, record);
            }
            "run" | "checkpoint" | "undo" | "accept" => self.single(session, record),
            "purge" | "evict" => self.single(session, record),
            _ => self.activity(session, record, time),
        }
    }

    /// Returns the next complete event.
    pub fn next_complete(&mut self) -> Option<FoldEvent> {
        let is_complete = match self.queue.front()? {
            FoldEvent::Activity(activity) => {
                activity.closed
                    || self.queue.len() > MAX_OPEN_ACTIVITIES
                    || self.now - activity.ended > ACTIVITY_PAUSE
                    || self.now - activity.began > MAX_ACTIVITY_TIME
            }
            FoldEvent::Single { .. } => true,
        };
        match is_complete.then(|| self.queue.pop_front())?? {
            FoldEvent::Activity(activity) if activity.records as usize <= MAX_SINGLE_RECORDS => {
                self.put_records_back(*activity);
                self.next_complete()
            }
            event => Some(event),
        }
    }

    /// Puts the records of a short activity back, each in its place.
    fn put_records_back(&mut self, activity: Activity) {
        for line in activity.lines {
            let seq = RecordHeader::of(&line).map_or(activity.first, |line| line.seq);
            let later =
                |event: &FoldEvent| event.session() != activity.session || event.first() > seq;
            let place = self.queue.iter().position(later);
            let session = activity.session.clone();
            let single = FoldEvent::Single { session, seq, line };
            self.queue.insert(place.unwrap_or(self.queue.len()), single);
        }
    }

    /// Closes all activities: no records follow, for now.
    pub fn close_all(&mut self) {
        for event in &mut self.queue {
            if let FoldEvent::Activity(activity) = event {
                activity.closed = true;
            }
        }
    }

    fn single(&mut self, session: &str, record: &RecordHeader<'_>) {
        self.queue.push_back(FoldEvent::Single {
            session: session.to_owned(),
            seq: record.seq,
            line: record.line.to_vec(),
        });
    }

    fn activity(&mut self, session: &str, record: &RecordHeader<'_>, time: DateTime<Utc>) {
        let pid = record.pid().unwrap_or(0);
        let comm = record.comm();
        let origin = record.origin();
        // A run is one activity, whatever its processes.
        let is_of = |a: &Activity| {
            a.origin == origin && (origin.run.is_some() || (a.pid, &*a.comm) == (pid, &*comm))
        };
        let open = self.queue.iter_mut().rev().find_map(|event| match event {
            FoldEvent::Activity(activity)
                if is_of(activity)
                    && !activity.closed
                    && activity.session == session
                    && time - activity.ended <= ACTIVITY_PAUSE
                    && time - activity.began <= MAX_ACTIVITY_TIME =>
            {
                Some(activity)
            }
            _ => None,
        });
        let (first, act) = match open {
            Some(activity) => (activity.first, activity.add(record, time)),
            None => {
                let path = record.path().unwrap_or_default();
                let mut activity = Box::new(Activity {
                    dir: dir_of(&record.op, &path).to_owned(),
                    session: session.to_owned(),
                    pid,
                    comm: comm.into_owned(),
                    origin,
                    first: record.seq,
                    last: record.seq,
                    began: time,
                    ended: time,
                    records: 0,
                    not_done: 0,
                    under: path.into_owned(),
                    one_path: true,
                    lines: Vec::new(),
                    counts: [0; CHANGE_KINDS.len()],
                    seen: HashSet::new(),
                    closed: false,
                });
                let act = activity.add(record, time);
                self.queue.push_back(FoldEvent::Activity(activity));
                (record.seq, act)
            }
        };
        self.recent.push_back((record.seq, first, act));
        if self.recent.len() > MAX_ABORT_DISTANCE {
            self.recent.pop_front();
        }
    }

    /// Uncounts an aborted record.
    fn uncount(&mut self, session: &str, record: &RecordHeader<'_>) {
        let of = record.aborted();
        let known = self.recent.iter().rev().find(|(seq, ..)| Some(*seq) == of);
        let Some((of, first, act)) = known.copied() else {
            return self.single(session, record);
        };
        let activity = self.queue.iter_mut().find_map(|event| match event {
            FoldEvent::Activity(it) if it.first == first && it.session == session => Some(it),
            _ => None,
        });
        match activity {
            Some(activity) => {
                activity.not_done += 1;
                if let Some(count) = act.and_then(|act| activity.count_mut(act)) {
                    *count = count.saturating_sub(1);
                }
                activity
                    .lines
                    .retain(|line| RecordHeader::of(line).is_ok_and(|line| line.seq != of));
            }
            None => self.single(session, record),
        }
    }
}

fn act_of(op: &str) -> Option<ChangeKind> {
    Some(match op {
        "create" | "mknod" => ChangeKind::CreatedFile,
        "mkdir" => ChangeKind::CreatedDirectory,
        "symlink" => ChangeKind::CreatedSymlink,
        "link" => ChangeKind::Linked,
        "write" | "truncate" | "allocate" | "content" => ChangeKind::Wrote,
        "attr" | "xattr" => ChangeKind::Changed,
        "rename" | "exchange" => ChangeKind::Renamed,
        "unlink" => ChangeKind::RemovedFile,
        "rmdir" => ChangeKind::RemovedDirectory,
        "restore" => ChangeKind::Restored,
        _ => return None,
    })
}

/// Returns the directory of an operation: a created or removed directory counts as its own.
fn dir_of<'a>(op: &str, path: &'a str) -> &'a str {
    match op {
        "mkdir" | "rmdir" => path,
        _ => parent(path),
    }
}

fn parent_length(path: &str) -> usize {
    path.rfind('/').unwrap_or(0)
}

/// Returns the parent of a path; empty for a path in the home itself.
fn parent(path: &str) -> &str {
    path.get(..parent_length(path)).unwrap_or_default()
}

fn is_below(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn line(seq: u64, second: u64, pid: u32, rest: &str) -> String {
        format!(
            "{{\"v\":1,\"seq\":{seq},\"time\":\"2026-01-16T10:{:02}:{:02}.000000Z\",{rest},\"actor\":{{\"pid\":{pid},\"uid\":0,\"gid\":0,\"comm\":\"p{pid}\"}},\"prev\":\"\"}}",
            second / 60,
            second % 60,
        )
    }

    fn fold(lines: &[String]) -> Vec<FoldEvent> {
        let mut fold = ActivityFold::default();
        let mut out = Vec::new();
        for line in lines {
            fold.add("s", &RecordHeader::of(line.as_bytes()).unwrap());
            out.extend(std::iter::from_fn(|| fold.next_complete()));
        }
        fold.close_all();
        out.extend(std::iter::from_fn(|| fold.next_complete()));
        out
    }

    fn doings(events: &[FoldEvent]) -> Vec<&Activity> {
        events
            .iter()
            .filter_map(|event| match event {
                FoldEvent::Activity(activity) => Some(&**activity),
                FoldEvent::Single { .. } => None,
            })
            .collect()
    }

    fn create(seq: u64, second: u64, pid: u32, path: &str) -> String {
        line(
            seq,
            second,
            pid,
            &format!("\"op\":\"create\",\"path\":\"{path}\",\"mode\":420"),
        )
    }

    #[test]
    fn interleaved_processes_become_separate_activities() {
        let lines: Vec<String> = (0..20)
            .map(|i| {
                create(
                    i + 1,
                    i / 4,
                    7 + (i % 2) as u32,
                    &format!("/src/d{}/f{i}", i % 3),
                )
            })
            .collect();
        let events = fold(&lines);
        let doings = doings(&events);
        assert_eq!(doings.len(), 2);
        for (activity, pid) in doings.iter().zip([7, 8]) {
            assert_eq!(
                (
                    activity.pid,
                    activity.records,
                    activity.count(ChangeKind::CreatedFile)
                ),
                (pid, 10, 10)
            );
            assert_eq!(
                (activity.under.as_str(), activity.one_path),
                ("/src", false)
            );
        }
    }

    #[test]
    fn pause_begins_a_new_activity() {
        let mut lines: Vec<String> = (1..5).map(|i| create(i, i, 7, &format!("/a{i}"))).collect();
        lines.extend((5..9).map(|i| create(i, 20, 7, "/b")));
        let events = fold(&lines);
        let doings = doings(&events);
        let under =
            |activity: &&Activity| (activity.records, activity.under.clone(), activity.one_path);
        let expected = [(4, String::new(), false), (4, "/b".to_owned(), true)];
        assert_eq!(doings.iter().map(under).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn few_records_stay_single_and_in_order() {
        let mut lines = vec![create(1, 0, 7, "/a")];
        lines.extend((2..8).map(|i| create(i, 0, 8, "/d/f")));
        lines.push(create(8, 0, 7, "/b"));
        lines.push(create(9, 0, 9, "/c"));
        let order: Vec<u64> = fold(&lines).iter().map(FoldEvent::first).collect();
        assert_eq!(order, [1, 2, 8, 9]);
    }

    #[test]
    fn file_written_often_counts_once() {
        let lines: Vec<String> = (1..9)
            .map(|i| {
                line(
                    i,
                    0,
                    7,
                    "\"op\":\"write\",\"path\":\"/d/f\",\"ids\":[1,2],\"size\":3",
                )
            })
            .collect();
        let events = fold(&lines);
        let activity = doings(&events)[0].clone();
        assert_eq!(
            (activity.count(ChangeKind::Wrote), activity.records),
            (1, 8)
        );
        assert_eq!((activity.under.as_str(), activity.one_path), ("/d/f", true));
    }

    #[test]
    fn aborted_records_do_not_count() {
        let mut lines: Vec<String> = (1..6).map(|i| create(i, 0, 7, &format!("/f{i}"))).collect();
        lines.push("{\"v\":1,\"seq\":6,\"time\":\"2026-01-16T10:00:00.000000Z\",\"op\":\"abort\",\"of\":5,\"error\":\"x\",\"prev\":\"\"}".to_owned());
        let events = fold(&lines);
        let activity = doings(&events)[0].clone();
        assert_eq!(
            (activity.count(ChangeKind::CreatedFile), activity.not_done),
            (4, 1)
        );
    }

    #[test]
    fn number_of_open_activities_is_bounded() {
        let mut fold = ActivityFold::default();
        for i in 1..5000 {
            let line = create(i, 0, i as u32, &format!("/f{i}"));
            fold.add("s", &RecordHeader::of(line.as_bytes()).unwrap());
            while fold.next_complete().is_some() {}
            assert!(fold.queue.len() <= MAX_OPEN_ACTIVITIES);
        }
    }
}
