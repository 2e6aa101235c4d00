//! Compares a record with the disk: its version, and the place of the node that it removed.

use std::collections::HashMap;
use std::os::fd::AsFd;

use super::finding::{Finding, FindingKind};
use super::journal_pass::{JournalPass, MAX_ABORT_DISTANCE, MissingVersion, SessionScan, hash};
use crate::error::{Error, Result};
use crate::journal::{InodeNumbers, KeepMethod, Op, Record, SEALED, VersionRef};
use crate::name::{EscapedBytes, Name, WorldPath};
use crate::world::Id;
use crate::world::keep::ranges;
use crate::world::keep::version_files::versions_of;
use crate::world::trash::trash_entries::parse_entry;

impl JournalPass<'_> {
    pub(super) fn check_record(&mut self, here: &mut SessionScan, record: Record) -> Result<()> {
        let record = record.with_device(self.store.root().id().0);
        let seq = record.seq;
        self.sums.record(&record);
        if let (Some(path), Some((kept, size))) = (record.op.path(), record.op.kept()) {
            self.check_version(here, seq, path, kept, size)?;
        }
        match &record.op {
            Op::Begin { session, after, .. } => {
                here.has_seals = record.v >= SEALED;
                if *session != here.id {
                    let what = format!("the journal is that of another session, {session}");
                    let finding = Finding::problem(
                        FindingKind::Layout,
                        what,
                        "Give the directory its old name.",
                    );
                    self.report.add(finding.in_session(&here.id, Some(1)));
                }
                if let Some(after) = after {
                    self.check_previous_end(here, after);
                }
            }
            Op::End { .. } => here.ended = true,
            Op::Unlink { ids, trash, .. } | Op::Rmdir { ids, trash, .. } => {
                self.expect(here, seq, trash, *ids);
            }
            Op::Rename {
                replaced: Some(replaced),
                ..
            } => self.expect(here, seq, &replaced.trash, replaced.ids),
            Op::Restore { path, replaced, .. } => {
                let below: Vec<&[u8]> = path.components().skip(1).map(Name::bytes).collect();
                self.take_entry(hash(&below));
                if let Some(replaced) = replaced {
                    self.expect(here, seq, &replaced.trash, replaced.ids);
                }
            }
            Op::Gather {
                trash,
                entries,
                names,
                ..
            } => self.note_gathering(seq, trash, entries, names),
            Op::Purge {
                entries, expired, ..
            } => {
                if let Some(cut) = expired {
                    self.cut_sessions.extend(cut.sessions.iter().cloned());
                }
                for entry in entries {
                    self.take_entry(hash(&[&entry.0]));
                }
            }
            Op::Evict { versions, .. } => {
                let evicted =
                    |g: &MissingVersion| versions.iter().any(|(s, n)| *s == g.session && *n == g.n);
                self.gone.retain(|gone| !evicted(gone));
            }
            Op::Abort { of, .. } => {
                let not_done = self.recent.iter().find(|(seq, _)| seq == of);
                if let Some((_, hash)) = not_done {
                    self.awaited.remove(hash);
                }
                self.gone
                    .retain(|gone| gone.session != here.id || gone.seq != *of);
            }
            _ => {}
        }
        Ok(())
    }

    /// Handles a record that moved a node to the trash.
    fn expect(&mut self, here: &SessionScan, seq: u64, trash: &EscapedBytes, ids: InodeNumbers) {
        if let Some(entry) = self.entries.get_mut(&trash.0) {
            entry.known = true;
            let is_other = entry.id != Id(ids[0], ids[1]);
            if is_other && !here.foreign {
                self.other.push((here.id.clone(), seq, trash.0.clone()));
            }
            return;
        }
        self.expect_entry(seq, hash(&[&trash.0]));
    }

    fn expect_entry(&mut self, seq: u64, hash: u64) {
        self.awaited.insert(hash, seq);
        self.recent.push_back((seq, hash));
        if self.recent.len() > MAX_ABORT_DISTANCE {
            self.recent.pop_front();
        }
    }

    /// Handles an entry that a record takes from the trash. Returns whether it was awaited there.
    fn take_entry(&mut self, key: u64) -> bool {
        let below = self.gathered.remove(&key);
        let keys = below.into_iter().chain([key]);
        keys.filter(|key| self.awaited.remove(key).is_some())
            .count()
            > 0
    }

    /// Handles entries moved below another one under their own names.
    fn note_gathering(
        &mut self,
        seq: u64,
        trash: &EscapedBytes,
        entries: &[EscapedBytes],
        names: &[(EscapedBytes, EscapedBytes)],
    ) {
        let into = match (&self.trash, self.entries.contains_key(&trash.0)) {
            (Some(dir), true) => Name::new(&trash.0).and_then(|name| dir.child(name)).ok(),
            _ => None,
        };
        let whole: HashMap<&EscapedBytes, &EscapedBytes> =
            names.iter().map(|(e, n)| (e, n)).collect();
        for entry in entries {
            // An entry that was purged or restored before is not expected anywhere.
            let was_awaited = self.take_entry(hash(&[&entry.0]));
            let name = match whole.get(entry) {
                Some(name) => Some(name.0.as_slice()),
                None => parse_entry(&entry.0).map(|(_, name)| name),
            };
            if let (true, Some(into), Some(name)) = (was_awaited, &into, name)
                && Name::new(name).and_then(|name| into.stat(name)).is_err()
            {
                let key = hash(&[&trash.0, name]);
                self.expect_entry(seq, key);
                self.gathered.insert(hash(&[&entry.0]), key);
            }
        }
    }

    fn check_version(
        &mut self,
        here: &mut SessionScan,
        seq: u64,
        path: &WorldPath,
        kept: VersionRef,
        size: u64,
    ) -> Result<()> {
        if kept.how == KeepMethod::Length {
            return Ok(());
        }
        here.last_n = here.last_n.max(kept.n);
        let mut has_map = false;
        let found = here.versions.get_mut(&kept.n).map(|(files, known)| {
            *known = true;
            has_map = files.map;
            files.size == Some(size)
        });
        let unfit = match found {
            Some(true) if kept.how == KeepMethod::Blocks || has_map => {
                self.unfit_map(&here.id, kept, size)?
            }
            _ => None,
        };
        if found == Some(true) && unfit.is_none() {
            return Ok(());
        }
        // Checked again at the end: the change may be aborted by a later record, or still be under way.
        self.gone.push(MissingVersion {
            session: here.id.clone(),
            seq,
            n: kept.n,
            path: path.clone(),
            size,
            unfit,
        });
        Ok(())
    }

    /// Checks a version's list of ranges. Returns the problem with it, if any.
    fn unfit_map(&self, session: &str, kept: VersionRef, size: u64) -> Result<Option<String>> {
        let dir = versions_of(&self.store.state, session)?.ok_or(Error::NotFound)?;
        let list = match ranges::read(dir.as_fd(), kept.n) {
            Err(Error::Damaged(line)) => {
                return Ok(Some(format!("lists a range that it cannot have: {line}")));
            }
            list => list?,
        };
        let by_blocks = kept.how == KeepMethod::Blocks;
        let what = match list {
            None if by_blocks => "has no list of its ranges".to_owned(),
            None => return Ok(None),
            Some(list) => match (list.ranges.last(), list.content) {
                (Some((start, end)), _) if *end > size => {
                    format!("lists a range that it cannot have: {start} {}", end - start)
                }
                (_, None) if !by_blocks => "has a list of its ranges that is not whole".to_owned(),
                (_, Some((of, _))) if of != size => {
                    "has a list of its ranges that is of another content".to_owned()
                }
                _ => return Ok(None),
            },
        };
        Ok(Some(what))
    }
}
