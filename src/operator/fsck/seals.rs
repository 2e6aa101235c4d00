//! Verifies the seals of a journal, and compares the end of a session with the next session's record of it.

use super::finding::{Finding, FindingKind, RepairAction};
use super::journal_pass::{BROKEN_REMEDY, JournalPass, LastLine, SessionScan};
use crate::journal::{Seal, SessionEnd};

impl JournalPass<'_> {
    /// Handles a seal, given its line and the first line it covers, and whether it and those lines are intact.
    pub(super) fn check_seal(
        &mut self,
        here: &mut SessionScan,
        (line, first): (u64, u64),
        seal: &Seal,
        (whole, covers): (bool, bool),
    ) {
        let what = if !whole {
            Some(format!(
                "line {line} of the journal, a seal, was changed after it was written"
            ))
        } else if !covers && !here.named {
            let (from, last) = (seal.from, seal.seq);
            Some(format!(
                "lines {first} to {} of the journal, records {from} to {last}, are not what line {line} has sealed",
                line - 1
            ))
        } else {
            None
        };
        here.named = false;
        here.last = if whole {
            LastLine::Good
        } else {
            LastLine::damaged(true)
        };
        if let Some(what) = what {
            let finding = Finding::problem(FindingKind::Changed, what, BROKEN_REMEDY);
            self.report.add(finding.in_session(&here.id, Some(line)));
        }
    }

    /// Reports lines after the last seal.
    pub(super) fn report_unsealed(&mut self, here: &SessionScan, first: u64, lines: u64) {
        let live = self.live.as_deref() == Some(&*here.id);
        let mend = match here.last {
            LastLine::BadSeal => Some(RepairAction::Seal),
            // For an unfinished session, `end` reports it.
            LastLine::Neither if here.ended => Some(RepairAction::Close),
            _ => None,
        };
        if let (Some(mend), false) = (mend, live) {
            let what = "the journal ends in a line that was changed, so it cannot be read to its end, nor, if it is the newest, the store be mounted";
            let remedy =
                "--repair puts another end under it; the changed line stays, and is always told.";
            let finding = Finding::problem(FindingKind::End, what, remedy);
            self.report
                .add(finding.in_session(&here.id, None).with_repair(mend));
        }
        // Schema 1 had no seals; the newest session is sealed when it is settled.
        if first > lines || live || !here.has_seals {
            return;
        }
        let what = format!(
            "the journal is not sealed from line {first} on: nothing tells whether its last line was changed"
        );
        let remedy = if self.newest.as_deref() == Some(&*here.id) && !here.ended {
            "Its daemon ended without unmounting. The next mount seals it."
        } else {
            "Its daemon was killed, or the disk was full, in the moment in which it ended."
        };
        let finding = Finding::note(FindingKind::Unsealed, what, remedy);
        self.report.add(finding.in_session(&here.id, Some(first)));
    }

    /// Compares a session's reference to the previous one with how that ended.
    pub(super) fn check_previous_end(&mut self, here: &SessionScan, after: &SessionEnd) {
        let of = &after.session;
        let finding = match &self.before {
            Some(before) if before.session == *of => {
                let is_it = |hash: &[u8; 64]| after.hash.as_bytes() == hash;
                // An empty journal has no last line to hash.
                if before.hashes.iter().any(is_it) || (after.seq == 0 && before.lines == 0) {
                    return;
                }
                let known =
                    |f: &Finding| f.kind == FindingKind::End && f.session.as_ref() == Some(of);
                if self.report.findings.iter().any(known) {
                    return;
                }
                let what = format!(
                    "its end is not the one it had when session {} began, after record {}: lines were cut off, changed or added",
                    here.id, after.seq
                );
                Finding::problem(FindingKind::End, what, BROKEN_REMEDY).in_session(of, None)
            }
            // The oldest session present: a later record may say that earlier ones have expired.
            None => {
                self.cut_end = Some((after.clone(), here.id.clone()));
                return;
            }
            Some(_) => {
                let what = format!("session {of}, which came before this one, is missing");
                let remedy = "If its directory was moved away, move it back. What was done in it has no record.";
                Finding::problem(FindingKind::Layout, what, remedy).in_session(&here.id, None)
            }
        };
        self.report.add(finding);
    }

    /// Compares the end before the oldest session with what records say of the sessions that have expired, after the last
    /// session.
    pub(super) fn check_cut(&mut self) {
        let Some((after, oldest)) = self.cut_end.take() else {
            return;
        };
        let of = &after.session;
        let finding = match self.cut_sessions.iter().find(|cut| cut.id == *of) {
            Some(cut) if cut.last == after.hash => return,
            Some(_) => {
                let what = format!(
                    "session {of} has expired, but its end was not the one it had when session {oldest} began, after record {}",
                    after.seq
                );
                Finding::problem(FindingKind::End, what, BROKEN_REMEDY)
            }
            None => {
                let what =
                    format!("session {of}, which came before this one, is not there any more");
                Finding::note(
                    FindingKind::Layout,
                    what,
                    "Nothing to do, if it was taken away on purpose.",
                )
            }
        };
        self.report.add(finding.in_session(&oldest, None));
    }
}
