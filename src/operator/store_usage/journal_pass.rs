//! The shares of directories, programs, runs and days in what is kept: one pass over all journals, oldest first.
//!
//! Owns the rule which record a kept thing is of: the first that names it. A tree in the trash is of the record that
//! removed the tree, with all that lies in it. A record is parsed only if it may name something.

use std::cmp::Reverse;
use std::collections::HashMap;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use super::super::Store;
use super::super::age_bounds::AgeBounds;
use super::super::log::ForwardRecords;
use super::super::made_again::made_again;
use super::super::point::start_of_today;
use super::disk_scan::KeptFiles;
use super::{
    AgeClass, AgeUsage, DirectoryUsage, KeptSpace, MadeAgainUsage, ProblemList, ProgramUsage,
    RunUsage,
};
use crate::error::{Error, Result};
use crate::journal::{Op, OriginKind, Record, RecordHeader, RunId};
use crate::name::WorldPath;

/// A process's name and its program's file.
type ProgramId = (String, String);

/// The shares found so far.
#[derive(Debug)]
pub(super) struct KeptShares {
    /// The kept things that no record was found for.
    kept: KeptFiles,
    depth: usize,
    /// The beginnings of the classes of ages, newest first; the last has none.
    spans: [(AgeClass, String); 4],
    directories: HashMap<WorldPath, KeptSpace>,
    programs: HashMap<ProgramId, KeptSpace>,
    runs: HashMap<Option<RunId>, (OriginKind, KeptSpace)>,
    ages: [KeptSpace; 4],
    made_again: HashMap<&'static str, KeptSpace>,
    /// The commands of the runs of the present session, and of others with a share.
    commands: HashMap<RunId, String>,
    /// The present session.
    session: String,
}

impl KeptShares {
    /// Reads all journals.
    ///
    /// # Errors
    /// Read errors. Of a damaged journal the rest is left out, which is a problem.
    pub(super) fn read(
        store: &Store,
        kept: KeptFiles,
        depth: usize,
        problems: &mut ProblemList,
    ) -> Result<KeptShares> {
        let mut shares = KeptShares {
            kept,
            depth,
            spans: spans(Utc::now()),
            directories: HashMap::new(),
            programs: HashMap::new(),
            runs: HashMap::new(),
            ages: [KeptSpace::default(); 4],
            made_again: HashMap::new(),
            commands: HashMap::new(),
            session: String::new(),
        };
        let mut log = ForwardRecords::open(store)?;
        let mut bounds = AgeBounds::new();
        loop {
            match shares.take_next(&mut log, &mut bounds) {
                Ok(true) => {}
                Ok(false) => return Ok(shares),
                Err(error @ Error::Damaged(_)) => {
                    log.skip_session();
                    problems.add(|| error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the next record. Returns whether there was one.
    fn take_next(&mut self, log: &mut ForwardRecords<'_>, bounds: &mut AgeBounds) -> Result<bool> {
        if !log.advance()? {
            return Ok(false);
        }
        if self.session != log.session() {
            log.session().clone_into(&mut self.session);
            let runs = &self.runs;
            self.commands
                .retain(|run, _| runs.contains_key(&Some(*run)));
        }
        let header = log.header()?;
        if header.op == "begin" {
            bounds.not_before(&log.record()?);
            return Ok(true);
        }
        let time = bounds.not_before_time(&header.time);
        let command = match &*header.op {
            "run" => header.command(),
            "undo" => Some(header.words()),
            _ => None,
        };
        if let (Some(command), Some(run)) = (command, header.origin().run) {
            self.commands.insert(run, command.into_owned());
        }
        if may_name_kept(&header) {
            let age = self
                .spans
                .iter()
                .position(|(_, since)| time >= since.as_str());
            self.take(&log.record()?, age.unwrap_or(self.spans.len() - 1));
        }
        Ok(true)
    }

    /// Adds what a record has kept, in the class of this number, to all shares.
    fn take(&mut self, record: &Record, age: usize) {
        let trashed = record.op.trashed();
        let entry = trashed.and_then(|it| self.kept.take_entry(&it.entry.0));
        let version = record.op.kept();
        let version = version.and_then(|(kept, _)| self.kept.take_version(&self.session, kept.n));
        let path = match (trashed, record.op.path()) {
            (Some(trashed), _) => trashed.path,
            (None, Some(path)) => path,
            (None, None) => return,
        };
        if entry.is_none() && version.is_none() {
            return;
        }
        let space = KeptSpace {
            trash: entry.unwrap_or_default(),
            versions: version.unwrap_or_default(),
        };
        let is_dir = matches!(record.op, Op::Rmdir { .. });
        if let Some(name) = made_again(path) {
            self.made_again.entry(name).or_default().add(space);
        }
        let directory = top_directory(path, is_dir, self.depth);
        self.directories.entry(directory).or_default().add(space);
        let actor = record.actor.as_ref();
        let program = actor.map_or_else(ProgramId::default, |actor| {
            (actor.comm.clone(), actor.exe.clone())
        });
        self.programs.entry(program).or_default().add(space);
        let run = self.runs.entry(record.origin.run).or_default();
        run.0 = record.origin.kind;
        run.1.add(space);
        if let Some(share) = self.ages.get_mut(age) {
            share.add(space);
        }
    }

    /// Returns the sum of all shares.
    pub(super) fn total(&self) -> KeptSpace {
        let mut total = KeptSpace::default();
        self.ages.iter().for_each(|share| total.add(*share));
        total
    }

    /// Returns the shares of directories, largest first.
    pub(super) fn directories(&self) -> Vec<DirectoryUsage> {
        let rows = self.directories.iter().map(|(path, kept)| DirectoryUsage {
            path: path.clone(),
            kept: *kept,
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_cached_key(|row| (Reverse(row.kept.total()), row.path.clone()));
        rows
    }

    /// Returns the shares of programs, largest first.
    pub(super) fn programs(&self) -> Vec<ProgramUsage> {
        let rows = self.programs.iter();
        let rows = rows.map(|((comm, exe), kept)| ProgramUsage {
            comm: comm.clone(),
            exe: exe.clone(),
            kept: *kept,
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_cached_key(|row| {
            let name = (row.comm.clone(), row.exe.clone());
            (Reverse(row.kept.total()), name)
        });
        rows
    }

    /// Returns the shares of runs, largest first.
    pub(super) fn runs(&self) -> Vec<RunUsage> {
        let rows = self.runs.iter().map(|(run, (kind, kept))| RunUsage {
            run: *run,
            kind: run.map(|_| *kind),
            command: run.and_then(|run| self.commands.get(&run).cloned()),
            kept: *kept,
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|row| (Reverse(row.kept.total()), row.run));
        rows
    }

    /// Returns the shares of directories of what can be made again, by their names, largest first.
    pub(super) fn made_again(&self) -> Vec<MadeAgainUsage> {
        let rows = self.made_again.iter();
        let rows = rows.map(|(name, kept)| MadeAgainUsage { name, kept: *kept });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|row| (Reverse(row.kept.total()), row.name));
        rows
    }

    /// Returns the shares of spans of time, newest first.
    pub(super) fn ages(&self) -> Vec<AgeUsage> {
        let rows = self.spans.iter().zip(&self.ages);
        rows.map(|((age, since), kept)| AgeUsage {
            age: *age,
            since: Some(since.clone()).filter(|since| !since.is_empty()),
            kept: *kept,
        })
        .collect()
    }
}

/// Returns whether a record may name an entry of the trash or a version.
fn may_name_kept(header: &RecordHeader<'_>) -> bool {
    matches!(&*header.op, "unlink" | "rmdir") || header.has_kept() || header.has_replaced()
}

/// Returns the beginnings of the classes of ages, in the form of records' times.
fn spans(now: DateTime<Utc>) -> [(AgeClass, String); 4] {
    let text = |time: DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::Micros, true);
    let ago = |days| now.checked_sub_signed(TimeDelta::days(days)).map(text);
    [
        (
            AgeClass::Today,
            start_of_today(now).map_or_else(|| text(now), text),
        ),
        (AgeClass::Week, ago(7).unwrap_or_default()),
        (AgeClass::Month, ago(30).unwrap_or_default()),
        (AgeClass::Older, String::new()),
    ]
}

/// Returns the directory that a thing counts for: the one that it was in, or that it was, cut after `depth` components.
fn top_directory(path: &WorldPath, is_dir: bool, depth: usize) -> WorldPath {
    let names = path.components().count() - usize::from(!is_dir && !path.is_root());
    let mut top = WorldPath::root();
    for name in path.components().take(names.min(depth)) {
        top.push(name);
    }
    top
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn thing_counts_for_its_directory() {
        for (path, is_dir, depth, top) in [
            ("/f", false, 1, "/"),
            ("/d", true, 1, "/d"),
            ("/d/f", false, 1, "/d"),
            ("/d/e/f", false, 1, "/d"),
            ("/d/f", false, 2, "/d"),
            ("/d/e", true, 2, "/d/e"),
            ("/d/e/f/g", false, 2, "/d/e"),
            ("/", true, 2, "/"),
        ] {
            let path = WorldPath::parse(path.as_bytes()).unwrap();
            let found = top_directory(&path, is_dir, depth);
            assert_eq!(found.to_string(), top, "{path} at {depth}");
        }
    }

    #[test]
    fn spans_follow_each_other() {
        let [today, week, month, older] = spans("2026-03-31T12:00:00Z".parse().unwrap());
        assert!(today.1 > week.1);
        assert_eq!(week.1, "2026-03-24T12:00:00.000000Z");
        assert_eq!(month.1, "2026-03-01T12:00:00.000000Z");
        assert_eq!(older.1, "");
    }
}
