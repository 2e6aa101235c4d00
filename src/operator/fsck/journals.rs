//! Compares the records of all journals with the disk, in one pass.
//!
//! An entry that a record moved to the trash and that is not there is expected until a later record has the reason:
//! gathered, restored or purged. Only a hash of it is kept; the few that are never found are named in a second pass.

use std::collections::{HashMap, VecDeque};
use std::io::BufReader;

use super::super::Store;
use super::super::kept_versions::on_disk;
use super::super::trash_size::entries;
use super::finding::{CheckProgress, Finding, FindingKind, FsckReport, RepairAction};
use super::journal_pass::{
    BROKEN_REMEDY, CheckedEntry, JournalPass, LastLine, SessionScan, SessionTail,
};
use super::seal_digests::SealDigests;
use crate::error::{Error, Result};
use crate::journal::{JournalLine, LenientReader, ParsedLine};
use crate::name::{WorldPath, escape};
use crate::world::store::layout::{TRASH, version_name};
use crate::world::store::settle::{open_journal, sessions};

/// The number of records between two reports of progress.
const PROGRESS_STEP: u64 = 4096;

impl<'a> JournalPass<'a> {
    pub(super) fn new(
        store: &'a Store,
        live: Option<String>,
        contents: bool,
        report: &'a mut FsckReport,
    ) -> Result<JournalPass<'a>> {
        // Listed before the journals are read, so that every entry in the list has its record already.
        let trash = match store.root.dir(&WorldPath::parse(TRASH)?) {
            Ok(dir) => Some(dir),
            Err(Error::NotFound | Error::NotDirectory) => None,
            Err(error) => return Err(error),
        };
        let there = match &trash {
            Some(dir) => entries(store, dir)?,
            None => Vec::new(),
        };
        report.entries = there.len() as u64;
        let entry = |(name, meta): (Vec<u8>, crate::world::Meta)| {
            let (id, known) = (meta.id, false);
            (name, CheckedEntry { id, known })
        };
        let sessions = sessions(&store.state)?;
        Ok(JournalPass {
            store,
            report,
            live,
            oldest: sessions.first().cloned(),
            newest: sessions.last().cloned(),
            trash,
            entries: there.into_iter().map(entry).collect(),
            awaited: HashMap::new(),
            gathered: HashMap::new(),
            recent: VecDeque::new(),
            gone: Vec::new(),
            other: Vec::new(),
            before: None,
            sums: SealDigests::new(store, contents)?,
            cut_end: None,
            cut_sessions: Vec::new(),
        })
    }

    /// Checks one session. Sessions come oldest first.
    pub(super) fn check_session(
        &mut self,
        id: &str,
        step: &mut dyn FnMut(CheckProgress),
    ) -> Result<()> {
        self.report.sessions += 1;
        self.sums.session(id);
        let found = on_disk(self.store, id)?;
        for strange in found.strange {
            let what = format!(
                "{} among the versions of the session is no version",
                escape(&strange)
            );
            let finding = Finding::note(FindingKind::VersionOrphan, what, "Nothing reads it.");
            self.report.add(finding.in_session(id, None));
        }
        self.report.versions += found.versions.len() as u64;
        let versions = found.versions.into_iter();
        let mut here = SessionScan {
            id: id.to_owned(),
            versions: versions.map(|(n, files)| (n, (files, false))).collect(),
            seq: 0,
            ended: false,
            broken: false,
            last_n: 0,
            named: false,
            last: LastLine::Good,
            has_seals: false,
            foreign: self.store.is_foreign(id)?,
        };
        self.recent.clear();
        let before = self.before.replace(SessionTail::empty(id));
        let file = match open_journal(&self.store.state, id) {
            Err(Error::NotFound) => {
                let what = "the session has no journal: its daemon was killed before it had done anything, or the journal was taken away";
                let finding = Finding::note(FindingKind::Layout, what, "Nothing to do.");
                self.report.add(finding.in_session(id, None));
                return Ok(());
            }
            file => file?,
        };
        self.before = before;
        let mut survey = LenientReader::new(BufReader::with_capacity(1 << 17, file));
        while let Some(line) = survey.next_line()? {
            self.check_line(&mut here, line, step)?;
        }
        let lines = survey.lines();
        self.report_unsealed(&here, survey.unsealed(), lines);
        self.before = Some(SessionTail {
            session: here.id.clone(),
            hashes: survey.last_hashes(),
            lines,
        });
        self.end(&here, survey.torn(), survey.length());
        self.report_orphans(&here);
        Ok(())
    }

    /// Checks a line of the journal.
    fn check_line(
        &mut self,
        here: &mut SessionScan,
        line: JournalLine,
        step: &mut dyn FnMut(CheckProgress),
    ) -> Result<()> {
        let seq = match &line.what {
            ParsedLine::Record(record) => {
                self.report.records += 1;
                if self.report.records.is_multiple_of(PROGRESS_STEP) {
                    step(CheckProgress::Records(self.report.records));
                }
                record.seq
            }
            // A seal has the number of the record before it.
            ParsedLine::Seal { seal, .. } => seal.seq + 1,
            ParsedLine::Neither { what, passed } => {
                self.report_unreadable(here, line.number, what);
                here.last = LastLine::damaged(*passed);
                return Ok(());
            }
        };
        if !line.follows {
            self.report_broken(here, line.number, seq);
        }
        match line.what {
            ParsedLine::Record(record) => {
                here.seq = record.seq;
                here.last = LastLine::Good;
                self.check_record(here, *record)?;
            }
            ParsedLine::Seal {
                seal,
                whole,
                covers,
                first,
            } => {
                self.check_seal(here, (line.number, first), &seal, (whole, covers));
                for n in seal.stamps.iter().filter_map(|stamp| stamp.n) {
                    if let Some((_, known)) = here.versions.get_mut(&n) {
                        *known = true;
                    }
                }
                // The digests of a tampered seal mean nothing.
                if whole {
                    self.sums.digests(seal.digests);
                }
            }
            ParsedLine::Neither { .. } => {}
        }
        Ok(())
    }

    fn report_unreadable(&mut self, here: &mut SessionScan, line: u64, what: &str) {
        here.broken = true;
        here.named = true;
        let what = what.split_once(": ").map_or(what, |(_, what)| what);
        let what = format!("line {line} of the journal cannot be read: {what}");
        let finding = Finding::problem(FindingKind::Changed, what, BROKEN_REMEDY);
        self.report.add(finding.in_session(&here.id, Some(line)));
        // The line counts as a single record: more cannot be known.
        here.seq += 1;
        self.report.records += 1;
    }

    /// Reports a line without the checksum or hash of the line before it.
    fn report_broken(&mut self, here: &mut SessionScan, line: u64, seq: u64) {
        here.named = true;
        let missing = seq.saturating_sub(here.seq + 1);
        let (kind, what) = if line == 1 && seq == 1 {
            (
                FindingKind::Changed,
                format!("line {line} of the journal was changed"),
            )
        } else if missing > 0 {
            let lines = if missing == 1 { "line is" } else { "lines are" };
            let from = here.seq + 1;
            let what = format!(
                "{missing} {lines} missing before line {line} of the journal: from record {from} on"
            );
            (FindingKind::Lines, what)
        } else if here.broken {
            // The line before has a finding already, as unreadable.
            here.broken = false;
            return;
        } else {
            let what = format!(
                "line {} of the journal was changed after it was written",
                line - 1
            );
            (FindingKind::Changed, what)
        };
        let finding = Finding::problem(kind, what, BROKEN_REMEDY);
        self.report.add(finding.in_session(&here.id, Some(line)));
    }

    fn end(&mut self, here: &SessionScan, torn: u64, length: u64) {
        let id = here.id.as_str();
        if self.live.as_deref() == Some(id) {
            return;
        }
        let newest = self.newest.as_deref() == Some(id);
        if torn > 0 {
            let what = format!(
                "the journal ends in a half-written record of {torn} bytes; its act had not begun"
            );
            let remedy =
                "--repair cuts it off; so does the next mount, if it is the newest session.";
            let finding = Finding::problem(FindingKind::Torn, what, remedy);
            self.report.add(
                finding
                    .in_session(id, None)
                    .with_repair(RepairAction::Cut(length)),
            );
        }
        let damaged = |f: &Finding| {
            f.session.as_deref() == Some(id)
                && matches!(f.kind, FindingKind::Changed | FindingKind::Lines)
        };
        if here.ended {
        } else if newest && self.report.findings.iter().any(damaged) {
            let what = "the session has not ended, and a mount is refused, because its journal has a break";
            let remedy = "--repair puts an end under it, so that the store can be mounted; the break stays, and is always told.";
            let finding = Finding::problem(FindingKind::End, what, remedy);
            self.report.add(
                finding
                    .in_session(id, None)
                    .with_repair(RepairAction::Close),
            );
        } else if newest {
            let what = "the daemon of the newest session ended without unmounting";
            let remedy = "The next mount, or --repair, looks at its last records and settles them.";
            let finding = Finding::note(FindingKind::Died, what, remedy);
            self.report.add(
                finding
                    .in_session(id, None)
                    .with_repair(RepairAction::Settle),
            );
        } else if (here.seq, torn, length) == (0, 0, 0) {
            let what = "the journal is empty: its process was killed before it had done anything";
            let finding = Finding::note(FindingKind::Layout, what, "Nothing to do.");
            self.report.add(finding.in_session(id, None));
        } else {
            let what = format!(
                "the journal stops after record {}: its end is missing",
                here.seq
            );
            let remedy = "What was done later in that session has no record. The files and the trash are not affected.";
            let finding = Finding::problem(FindingKind::End, what, remedy);
            self.report.add(finding.in_session(id, None));
        }
    }

    fn report_orphans(&mut self, here: &SessionScan) {
        let live = self.live.as_deref() == Some(here.id.as_str());
        for (n, (files, known)) in &here.versions {
            if *known && files.size.is_none() && files.map {
                self.list_alone(here, *n);
                continue;
            }
            // A version is made before its record, so one in the making has none yet.
            if *known || (live && *n > here.last_n) {
                continue;
            }
            let what = format!("version {} belongs to no record", version_name(*n));
            let remedy = "It was kept for a change that was then not made, or its record is lost. --repair moves it into the trash.";
            let finding = Finding::problem(FindingKind::VersionOrphan, what, remedy);
            self.report.add(
                finding
                    .in_session(&here.id, Some(*n))
                    .with_repair(RepairAction::Orphan),
            );
        }
    }

    /// Reports a list without its version. While the store is served, it may just be being deleted.
    fn list_alone(&mut self, here: &SessionScan, n: u64) {
        let still = on_disk(self.store, &here.id).ok();
        let files = still.and_then(|found| found.versions.get(&n).copied());
        if files.is_some_and(|files| files.map && files.size.is_none()) {
            let what = format!(
                "the list of ranges of version {} has no version",
                version_name(n)
            );
            let finding = Finding::problem(FindingKind::VersionOrphan, what, LIST_ALONE_REMEDY);
            self.report.add(
                finding
                    .in_session(&here.id, Some(n))
                    .with_repair(RepairAction::Orphan),
            );
        }
    }
}

/// The remedy for a list without its version.
const LIST_ALONE_REMEDY: &str = "Whoever deleted the version was killed before its list, or it was taken away behind the mount. --repair moves the list into the trash.";
