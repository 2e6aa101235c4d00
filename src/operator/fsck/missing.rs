//! Reports entries without a record, and expected entries that were never found, after the last session.

use std::collections::HashMap;
use std::io::BufReader;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::finding::{Finding, FindingKind};
use super::journal_pass::{JournalPass, MissingVersion, hash};
use crate::error::{Error, Result};
use crate::journal::{LenientReader, Op, ParsedLine};
use crate::name::{Name, WorldPath, escape};
use crate::world::keep::version_files::versions_of;
use crate::world::root::stat_at;
use crate::world::store::layout::{TRASH, version_name};
use crate::world::store::settle::{open_journal, sessions};
use crate::world::trash::trash_entries::parse_entry;

/// The time that a check of a served store waits in all for changes that are recorded but not yet done.
const MAX_CHANGE_WAIT: Duration = Duration::from_secs(3);
/// The interval between two checks of such a change.
const RECHECK_PAUSE: Duration = Duration::from_millis(20);

/// An expected entry: session, record, path in the trash, and its path before.
type AwaitedEntry = (String, u64, Vec<u8>, String);

impl JournalPass<'_> {
    /// Reports the expected entries that were not found, after the last session.
    pub(super) fn finish(mut self) -> Result<()> {
        let until = Instant::now() + MAX_CHANGE_WAIT;
        for gone in std::mem::take(&mut self.gone) {
            self.recheck_version(&gone, until)?;
        }
        self.check_cut();
        self.unknown_entries();
        self.other_inodes();
        let missing = self.missing_entries()?;
        self.report_missing(missing)
    }

    /// Checks a missing or unfit version once more. In the session that a daemon is writing, the change may still be
    /// under way: the record comes first.
    fn recheck_version(&mut self, gone: &MissingVersion, until: Instant) -> Result<()> {
        let (name, seq, path) = (version_name(gone.n), gone.seq, &gone.path);
        let under_way = || self.live.as_ref() == Some(&gone.session) && Instant::now() < until;
        let meta = loop {
            let meta = match versions_of(&self.store.state, &gone.session)? {
                Some(dir) => stat_at(dir.as_fd(), Name::new(name.as_bytes())?).ok(),
                None => None,
            };
            let is_fit = meta.as_ref().is_some_and(|meta| meta.size == gone.size);
            if is_fit || gone.unfit.is_some() || !under_way() {
                break meta;
            }
            std::thread::sleep(RECHECK_PAUSE);
        };
        let finding = match (meta, &gone.unfit) {
            (None, _) => {
                let what =
                    format!("version {name} is missing: what {path} held before record {seq}");
                let remedy = "That content, and older ones that are made from it, cannot be given back. Look for the file in a backup of the store.";
                Finding::problem(FindingKind::VersionMissing, what, remedy)
            }
            (Some(meta), None) if meta.size == gone.size => return Ok(()),
            (Some(meta), unfit) => {
                let size = || format!("has {} bytes instead of {}", meta.size, gone.size);
                let how = unfit.clone().unwrap_or_else(size);
                let what = format!("version {name}, what {path} held before record {seq}, {how}");
                let remedy = "That content cannot be given back as it was, nor older ones of the same file that are made from it.";
                Finding::problem(FindingKind::VersionUnfit, what, remedy)
            }
        };
        self.report
            .add(finding.in_session(&gone.session, Some(gone.n)));
        Ok(())
    }

    fn unknown_entries(&mut self) {
        let mut unknown: Vec<&Vec<u8>> = self
            .entries
            .iter()
            .filter(|(_, e)| !e.known)
            .map(|(n, _)| n)
            .collect();
        unknown.sort();
        for name in unknown {
            let shown = escape(name);
            let remedy = "`trumanfs trash restore --to PATH` takes it out of the trash.";
            let finding = match parse_entry(name) {
                None => {
                    let what = format!("{shown} in the trash was not put there by trumanfs");
                    Finding::note(FindingKind::EntryUnknown, what, remedy)
                }
                Some((time, _)) => {
                    let day = time.format("%Y%m%dT%H%M%S%.6fZ").to_string();
                    if self.oldest.as_ref().is_none_or(|oldest| day < *oldest) {
                        let what = format!("{shown} in the trash is older than the oldest journal");
                        Finding::note(FindingKind::EntryUnknown, what, remedy)
                    } else {
                        let what = format!(
                            "{shown} in the trash has no record: nothing says where it was"
                        );
                        Finding::problem(FindingKind::EntryUnknown, what, remedy)
                    }
                }
            };
            self.report.add(finding);
        }
    }

    fn other_inodes(&mut self) {
        for (session, seq, name) in std::mem::take(&mut self.other) {
            let what = format!(
                "{} in the trash is not what record {seq} removed: it has been replaced behind the mount",
                escape(&name)
            );
            let finding = Finding::problem(
                FindingKind::EntryOther,
                what,
                "Look at it before it is restored.",
            );
            self.report.add(finding.in_session(&session, Some(seq)));
        }
    }

    /// Names the entries still expected, from the journals as they are now.
    fn missing_entries(&self) -> Result<HashMap<u64, AwaitedEntry>> {
        let mut missing = HashMap::new();
        if self.awaited.is_empty() {
            return Ok(missing);
        }
        for session in sessions(&self.store.state)? {
            let Ok(file) = open_journal(&self.store.state, &session) else {
                continue;
            };
            let mut survey = LenientReader::new(BufReader::with_capacity(1 << 17, file));
            while let Some(line) = survey.next_line()? {
                if let ParsedLine::Record(record) = line.what {
                    self.name_missing(&session, record.seq, &record.op, &mut missing);
                }
            }
        }
        Ok(missing)
    }

    /// Reports the missing entries that are not on the disk and that no record has taken away since: a move is recorded
    /// before it is made, so the journals are read after the disk.
    fn report_missing(&mut self, mut missing: HashMap<u64, AwaitedEntry>) -> Result<()> {
        missing.retain(|_, (_, _, name, _)| !self.is_in_trash(name));
        if missing.is_empty() {
            return Ok(());
        }
        let still = self.missing_entries()?;
        missing.retain(|key, _| still.contains_key(key));
        let mut missing: Vec<_> = missing.into_values().collect();
        missing.sort();
        for (session, seq, name, was) in missing {
            let what = format!(
                "{} is missing in the trash: {was}, removed by record {seq}",
                escape(&name)
            );
            let remedy = "It was deleted behind the mount. It cannot be restored, nor that removal undone; look for it in a backup of the store.";
            let finding = Finding::problem(FindingKind::EntryMissing, what, remedy);
            self.report.add(finding.in_session(&session, Some(seq)));
        }
        Ok(())
    }

    /// Returns whether a path in the trash exists.
    fn is_in_trash(&self, path: &[u8]) -> bool {
        let look = || -> Result<_> {
            let mut whole = WorldPath::parse(TRASH)?;
            let path = WorldPath::parse(path)?;
            path.components().for_each(|part| whole.push(part));
            let (parent, name) = whole.parent().zip(whole.name()).ok_or(Error::NotFound)?;
            self.store.root.dir(&parent)?.stat(name)
        };
        look().is_ok()
    }

    /// Fills in the names of an expected entry when its record is read again.
    fn name_missing(
        &self,
        session: &str,
        seq: u64,
        op: &Op,
        missing: &mut HashMap<u64, AwaitedEntry>,
    ) {
        // In a served store, an entry that has been purged or restored since is not missing.
        match op {
            Op::Restore { path, .. } => {
                let below: Vec<&[u8]> = path.components().skip(1).map(Name::bytes).collect();
                missing.remove(&hash(&below));
            }
            Op::Purge { entries, .. } | Op::Gather { entries, .. } => {
                entries.iter().for_each(|e| {
                    missing.remove(&hash(&[&e.0]));
                })
            }
            _ => {}
        }
        let mut note = |key: u64, at: Vec<u8>, was: String| {
            if self.awaited.contains_key(&key) {
                missing.insert(key, (session.to_owned(), seq, at, was));
            }
        };
        if let Some(trashed) = op.trashed() {
            let entry = &trashed.entry.0;
            note(hash(&[entry]), entry.clone(), trashed.path.to_string());
        }
        if let Op::Gather {
            path,
            trash,
            entries,
            names,
        } = op
        {
            for entry in entries {
                let whole = names.iter().find(|(e, _)| e == entry);
                let name = whole.map(|(_, name)| name.0.as_slice());
                if let Some(name) = name.or_else(|| parse_entry(&entry.0).map(|(_, name)| name)) {
                    let at = [trash.0.as_slice(), name].join(&b'/');
                    let was = format!("{path}/{}", escape(name));
                    note(hash(&[&trash.0, name]), at, was);
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::finding::FsckReport;
    use super::*;
    use crate::operator::Store;
    use crate::world::{Caller, World};

    /// The check was between its last look at the journals and its look at the disk when the daemon gathered.
    #[test]
    fn entry_gathered_between_two_looks_is_not_missing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        std::fs::write(dir.path().join("d/f"), "f").unwrap();
        let (world, _) = World::open_offline(dir.path()).unwrap();
        let me = Caller::myself();
        let name = |name| Name::new(name).unwrap();
        let in_d = world.dir(&WorldPath::parse(b"d").unwrap()).unwrap();
        world.unlink(&in_d, name(b"f"), me).unwrap();
        let store = Store::of(&world).unwrap();
        let entry = world.root().dir(&WorldPath::parse(TRASH).unwrap()).unwrap();
        let listed = std::fs::read_dir(dir.path().join(".trash")).unwrap();
        let entry_name = listed
            .map(|entry| entry.unwrap().file_name().into_encoded_bytes())
            .find(|name| name.ends_with(b"_f"))
            .unwrap();
        assert!(entry.stat(name(&entry_name)).is_ok());
        let mut report = FsckReport::default();
        let mut journals = JournalPass::new(&store, None, false, &mut report).unwrap();
        journals.awaited.insert(hash(&[&entry_name]), 1);
        let before = journals.missing_entries().unwrap();
        assert_eq!(before.len(), 1);
        world
            .rmdir(&world.dir(&WorldPath::root()).unwrap(), name(b"d"), me)
            .unwrap();
        world.gather_now();
        assert!(
            entry.stat(name(&entry_name)).is_err(),
            "it was not gathered"
        );
        journals.report_missing(before).unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        world.close();
    }
}
