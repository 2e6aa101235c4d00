//! Retention: which part of the history stays, and the rest as a plan. [`World::expire`] records the cut and takes the
//! journals away; entries of the trash and former contents are purged before.
//!
//! The history is cut at one place: everything since the oldest thing that is to be kept stays whole, so every point
//! since then can be seen and restored, and everything before goes. What no journal names stays.
//!
//! [`World::expire`]: crate::world::World::expire

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::os::fd::AsFd;

use chrono::{DateTime, Local, NaiveDate, TimeDelta, Utc};

use super::Store;
use super::age_bounds::AgeBounds;
use super::kept_versions::{self, KeptVersion};
use super::log::ForwardRecords;
use super::point::Operation;
use super::trash::{self, TrashEntry};
use crate::error::{Error, Result};
use crate::journal::{Op, RunId, tail_of_damaged};
use crate::world::root::stat_fd;
use crate::world::store::settle::{open_journal, sessions};

/// The rules of what is kept. Each keeps its part, and everything since.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpireRules {
    /// Everything that is not certainly older than this.
    pub within: Option<TimeDelta>,
    /// The newest runs; what was done in no run counts as one for each session.
    pub last: Option<usize>,
    /// The state at the end of each of so many newest days, in this machine's zone, on which something was recorded.
    pub daily: Option<usize>,
    /// All checkpoints.
    pub checkpoints: bool,
    /// All marks of turns.
    pub marks: bool,
    /// The most bytes on disk that the trash, the former contents and the journals may take; it gives way to no rule but
    /// checkpoints and marks.
    pub max_size: Option<u64>,
}

/// A place in the history, of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct RecordPlace {
    session: String,
    seq: u64,
    /// The record's time, where it is known.
    time: String,
}

impl RecordPlace {
    fn is_after(&self, session: &str, seq: u64) -> bool {
        (session, seq) < (self.session.as_str(), self.seq)
    }
}

/// A session whose journal goes.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ExpiringSession {
    /// The session.
    pub session: String,
    /// The number of its records.
    pub records: u64,
    /// The space of its journal on disk, in bytes.
    pub disk: u64,
}

/// The part of the history that goes.
#[derive(Debug, Default, serde::Serialize)]
pub struct ExpirePlan {
    /// The first record that stays; absent where nothing goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Operation>,
    /// The time of that record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The rule because of which it stays: an option, or that a run is under way.
    pub because: &'static str,
    /// Entries of the trash, oldest first.
    pub entries: Vec<TrashEntry>,
    /// Former contents, oldest first.
    pub versions: Vec<KeptVersion>,
    /// The sessions whose journals go, oldest first.
    pub sessions: Vec<ExpiringSession>,
}

impl ExpirePlan {
    /// Returns whether nothing goes.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.versions.is_empty() && self.sessions.is_empty()
    }

    /// Returns the bytes on disk of all that goes.
    pub fn disk(&self) -> u64 {
        let entries = self.entries.iter().map(|entry| entry.disk);
        let versions = self.versions.iter().map(|version| version.disk);
        let sessions = self.sessions.iter().map(|session| session.disk);
        entries.chain(versions).chain(sessions).sum()
    }
}

/// The places that rules keep, found in one pass over the records.
#[derive(Debug, Default)]
struct KeptPlaces {
    first: Option<RecordPlace>,
    newest: RecordPlace,
    young: Option<RecordPlace>,
    /// The beginnings of the newest runs, in order.
    runs: VecDeque<RecordPlace>,
    known: HashSet<RunId>,
    days: BTreeMap<NaiveDate, RecordPlace>,
    checkpoint: Option<RecordPlace>,
    mark: Option<RecordPlace>,
    /// The first record of a run that is under way.
    under_way: Option<RecordPlace>,
}

/// Finds out what goes by these rules. `live`: the runs that are under way in the home, which stay whole, if the store is
/// mounted.
///
/// # Errors
/// [`Error::Usage`] for no rules; [`Error::Missing`] for rules that find nothing to keep; [`Error::Damaged`] for a journal
/// that cannot be read, of which it is not known what it needs; those of reading the directories.
pub fn expire_plan(
    store: &Store,
    rules: &ExpireRules,
    live: Option<&[RunId]>,
) -> Result<ExpirePlan> {
    if *rules == ExpireRules::default() {
        return Err(Error::usage(
            "nothing says what is to be kept",
            "Give at least one of --keep-within, --keep-last, --keep-daily, --keep-checkpoints, --keep-marks and --max-size.",
        ));
    }
    let places = KeptPlaces::read(store, rules, live.unwrap_or_default())?;
    let entries = trash::list(store)?;
    let versions = kept_versions::list(store)?;
    let all = sessions(store.state())?;
    let journals = journals_of(store, &all)?;
    let (mut before, mut because) = places.cut(rules)?;
    if let Some(most) = rules.max_size {
        let checkpoint = places.checkpoint.as_ref().filter(|_| rules.checkpoints);
        let mark = places.mark.as_ref().filter(|_| rules.marks);
        let firm = checkpoint.into_iter().chain(mark);
        let firm = firm.chain(places.under_way.as_ref()).min();
        let sized = size_cut(most, (&entries, &versions, &journals), &places.newest);
        let sized = firm.cloned().into_iter().chain([sized]).min();
        if sized > before {
            (before, because) = (sized, "--max-size");
        }
    }
    let Some(before) = before.filter(|before| places.first.as_ref() < Some(before)) else {
        return Ok(ExpirePlan {
            because,
            ..ExpirePlan::default()
        });
    };
    let goes = |entry: &TrashEntry| match (&entry.session, entry.seq) {
        (Some(session), Some(seq)) => before.is_after(session, seq),
        _ => false,
    };
    // The present session, which is still to come if the store is not mounted, and the one before it stay.
    let stay = if live.is_some() { 2 } else { 1 };
    let old = |journal: &&ExpiringSession| {
        let newer = all.iter().rev().take(stay);
        journal.session < before.session && !newer.clone().any(|id| *id == journal.session)
    };
    let plan = ExpirePlan {
        entries: entries.into_iter().filter(goes).collect(),
        versions: versions
            .into_iter()
            .filter(|version| before.is_after(&version.session, version.seq))
            .collect(),
        sessions: journals.iter().filter(old).cloned().collect(),
        time: Some(before.time).filter(|time| !time.is_empty()),
        before: Some(Operation {
            session: before.session,
            seq: before.seq,
        }),
        because,
    };
    Ok(match plan.is_empty() {
        true => ExpirePlan {
            because,
            ..ExpirePlan::default()
        },
        false => plan,
    })
}

impl KeptPlaces {
    fn read(store: &Store, rules: &ExpireRules, under_way: &[RunId]) -> Result<KeptPlaces> {
        let mut places = KeptPlaces::default();
        let since = rules
            .within
            .and_then(|age| Utc::now().checked_sub_signed(age));
        let since = since.map(|time| time.to_rfc3339_opts(chrono::SecondsFormat::Micros, true));
        let mut log = ForwardRecords::open(store)?;
        let mut bounds = AgeBounds::new();
        let mut session = String::new();
        let mut has_plain = false;
        while log.advance()? {
            if session != log.session() {
                log.session().clone_into(&mut session);
                has_plain = false;
            }
            let header = log.header()?;
            let place = RecordPlace {
                session: session.clone(),
                seq: header.seq,
                time: header.time.to_string(),
            };
            let not_before = match &*header.op {
                "begin" => bounds.not_before(&log.record()?),
                _ => bounds.not_before_time(&header.time),
            };
            if places.young.is_none()
                && since
                    .as_ref()
                    .is_some_and(|since| not_before >= since.as_str())
            {
                places.young = Some(place.clone());
            }
            if places.under_way.is_none()
                && header
                    .origin()
                    .run
                    .is_some_and(|run| under_way.contains(&run))
            {
                places.under_way = Some(place.clone());
            }
            if header.op == "checkpoint"
                && let Op::Checkpoint { mark, .. } = log.record()?.op
            {
                let oldest = match mark {
                    Some(_) => &mut places.mark,
                    None => &mut places.checkpoint,
                };
                oldest.get_or_insert_with(|| place.clone());
            }
            if matches!(&*header.op, "begin" | "end") {
                places.first.get_or_insert_with(|| place.clone());
                continue;
            }
            // What an operator deletes, accepts or names is no run's work.
            let is_work = !matches!(
                &*header.op,
                "purge" | "evict" | "accept" | "checkpoint" | "gather" | "abort"
            );
            let is_new = is_work
                && match header.origin().run {
                    Some(run) => places.known.insert(run),
                    None => !std::mem::replace(&mut has_plain, true),
                };
            places.note(&place, (is_new, not_before), rules);
            places.newest = place;
        }
        Ok(places)
    }

    /// Notes a record for the newest runs, if it is the first one of a run, and for its day.
    fn note(
        &mut self,
        place: &RecordPlace,
        (begins, not_before): (bool, &str),
        rules: &ExpireRules,
    ) {
        if let (true, Some(last)) = (begins, rules.last) {
            self.runs.push_back(place.clone());
            if self.runs.len() > last.max(1) {
                self.runs.pop_front();
            }
        }
        if let Some(days) = rules.daily
            && let Ok(time) = DateTime::parse_from_rfc3339(not_before)
        {
            let day = time.with_timezone(&Local).date_naive();
            self.days.insert(day, place.clone());
            if self.days.len() > days.max(1) {
                self.days.pop_first();
            }
        }
    }

    /// Returns the oldest place that a rule keeps, and the rule. `None` keeps everything.
    ///
    /// # Errors
    /// [`Error::Missing`] where the rules find nothing to keep.
    fn cut(&self, rules: &ExpireRules) -> Result<(Option<RecordPlace>, &'static str)> {
        let newest = Some(&self.newest);
        // What a rule finds nothing of it does not keep.
        let within = rules.within.map(|_| self.young.as_ref().or(newest));
        let last = rules.last.map(|_| self.runs.front().or(newest));
        let daily = rules.daily.map(|_| {
            self.days
                .first_key_value()
                .map(|(_, place)| place)
                .or(newest)
        });
        let checkpoints = rules.checkpoints.then_some(self.checkpoint.as_ref());
        let marks = rules.marks.then_some(self.mark.as_ref());
        let kept = [
            (within, "--keep-within"),
            (last, "--keep-last"),
            (daily, "--keep-daily"),
            (checkpoints, "--keep-checkpoints"),
            (marks, "--keep-marks"),
        ];
        let oldest = kept
            .into_iter()
            .filter_map(|(place, option)| Some((place??, option)))
            .min_by_key(|(place, _)| *place);
        if oldest.is_none() && rules.max_size.is_none() {
            return Err(Error::Missing {
                what: "there is no checkpoint and no mark of that kind to keep".to_owned(),
                remedy: "All of the history would go. Give another option as well, as --keep-within 30d."
                    .to_owned(),
            });
        }
        let under_way = self.under_way.as_ref();
        Ok(match (oldest, under_way) {
            (Some((place, _)), Some(run)) if run < place => {
                (Some(run.clone()), "a run is under way")
            }
            (Some((place, option)), _) => (Some(place.clone()), option),
            (None, _) => (None, "--max-size"),
        })
    }
}

/// Returns the first place from which on everything takes no more than a number of bytes.
fn size_cut(
    most: u64,
    (entries, versions, journals): (&[TrashEntry], &[KeptVersion], &[ExpiringSession]),
    newest: &RecordPlace,
) -> RecordPlace {
    let mut sizes: BTreeMap<(String, u64), u64> = BTreeMap::new();
    for entry in entries {
        if let (Some(session), Some(seq)) = (&entry.session, entry.seq) {
            *sizes.entry((session.clone(), seq)).or_default() += entry.disk;
        }
    }
    for version in versions {
        let place = (version.session.clone(), version.seq);
        *sizes.entry(place).or_default() += version.disk;
    }
    for journal in journals {
        let place = (journal.session.clone(), journal.records);
        *sizes.entry(place).or_default() += journal.disk;
    }
    let mut sum = 0;
    for ((session, seq), bytes) in sizes.into_iter().rev() {
        sum += bytes;
        if sum > most {
            let next = RecordPlace {
                session,
                seq: seq + 1,
                time: String::new(),
            };
            return next.min(newest.clone());
        }
    }
    RecordPlace::default()
}

/// Returns all sessions with the size of their journals.
fn journals_of(store: &Store, all: &[String]) -> Result<Vec<ExpiringSession>> {
    let mut found = Vec::new();
    for id in all {
        let file = match open_journal(store.state(), id) {
            // The daemon was killed before it began.
            Err(Error::NotFound) => continue,
            file => file?,
        };
        let records = tail_of_damaged(&file)?.map_or(0, |tail| tail.record.seq);
        found.push(ExpiringSession {
            session: id.clone(),
            records,
            disk: stat_fd(file.as_fd())?.blocks * 512,
        });
    }
    Ok(found)
}
