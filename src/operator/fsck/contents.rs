//! Verifies the digests of contents in the trash and of versions.
//!
//! The digest of a file in the trash is valid while no later record names its inode and the inode has the same time
//! of birth; for a version, the latest digest is valid. Memory grows with the trash and the versions.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};

use super::finding::{CheckProgress, Finding, FindingKind, VerifiedTotals};
use super::journal_pass::JournalPass;
use super::seal_digests::{SealDigests, each_file};
use crate::error::Result;
use crate::journal::{LenientReader, Op, ParsedLine, Record};
use crate::name::{WorldPath, escape};
use crate::world::keep::digest::{SizedDigest, of_file, of_version};
use crate::world::keep::ranges;
use crate::world::keep::version_files::versions_of;
use crate::world::store::layout::version_name;
use crate::world::store::settle::{open_journal, sessions};

impl JournalPass<'_> {
    /// After the last session, reads all contents that have a digest.
    pub(super) fn check_contents(&mut self, step: &mut dyn FnMut(CheckProgress)) -> Result<()> {
        if !self.sums.wanted {
            return Ok(());
        }
        let sums = std::mem::take(&mut self.sums);
        let mut verified = VerifiedTotals::default();
        let mut bad = Vec::new();
        let mut closed = each_file(self.store, |dir, name, meta| {
            let known = sums.removed.get(&meta.id.1);
            let Some(known) =
                known.filter(|known| known.sum.as_ref().is_some_and(|s| s.0 == meta.born))
            else {
                verified.without += 1;
                return Ok(());
            };
            let node = dir.node(name)?;
            if node.meta().id != meta.id || node.meta().kind != FileType::RegularFile {
                return Ok(()); // The entry has been replaced meanwhile.
            }
            let open = |flags| self.store.root.reopen(&node, flags | OFlags::RDONLY);
            let file = open(OFlags::NOATIME).or_else(|_| open(OFlags::empty()))?;
            let found = read(|on| of_file(&file.into(), on), &mut verified, step)?;
            // While the store is served, the file may have been restored or purged meanwhile.
            let there = || dir.stat(name).is_ok_and(|now| now.id == meta.id);
            if found.as_ref() != known.sum.as_ref().map(|(_, sum)| sum) && there() {
                let path = dir.path().join(name);
                bad.push((known.last.clone(), path));
            }
            Ok(())
        })?;
        for ((session, seq), path) in bad {
            let of = |record: &Record| {
                let is_it = record.seq == seq;
                is_it.then(|| removed_from(&record.op)).flatten()
            };
            let was = self.path_of(&session, of);
            let was = was.map_or_else(String::new, |was| format!(", which was {was},"));
            let what = format!(
                "{}{was} is not what was removed: its content has been changed",
                shown(&path)
            );
            let remedy = "Somebody has written to it behind the mount, or the disk is failing. It is given back as it is now; compare it with a backup of the store.";
            let finding = Finding::problem(FindingKind::Content, what, remedy);
            self.report.add(finding.in_session(&session, Some(seq)));
        }
        closed += self.version_contents(sums, &mut verified, step)?;
        if closed > 0 {
            let what = format!(
                "{closed} things in the trash and the versions are closed to this user: their contents were not checked"
            );
            let remedy = "Check as root, who may read all.";
            self.report
                .add(Finding::note(FindingKind::Content, what, remedy));
        }
        self.report.verified = Some(verified);
        Ok(())
    }

    fn version_contents(
        &mut self,
        mut sums: SealDigests,
        verified: &mut VerifiedTotals,
        step: &mut dyn FnMut(CheckProgress),
    ) -> Result<u64> {
        let mut closed = 0;
        for session in sessions(&self.store.state)? {
            let Some(dir) = versions_of(&self.store.state, &session)? else {
                continue;
            };
            let id: Arc<str> = session.as_str().into();
            for (n, _) in crate::world::keep::version_files::list(&dir)? {
                // A version that contradicts its record has a finding already.
                if self.gone.iter().any(|g| g.session == session && g.n == n) {
                    continue;
                }
                let Some(sum) = sums.versions.remove(&(id.clone(), n)) else {
                    verified.without += 1;
                    continue;
                };
                let found = read(|on| of_version(&dir, n, on), verified, step);
                match found {
                    Ok(None) => continue, // evicted meanwhile
                    Ok(Some(found)) if found == sum => continue,
                    // Since its digest, evicted versions may have left ranges in it. Then its list says so and has a
                    // digest of the whole content, which is verified when the content is read.
                    Ok(Some(_))
                        if ranges::read(dir.as_fd(), n)?.is_some_and(|l| l.past.is_some()) =>
                    {
                        verified.without += 1;
                        verified.contents -= 1;
                        continue;
                    }
                    Err(error) if error.errno() == rustix::io::Errno::ACCESS => {
                        closed += 1;
                        continue;
                    }
                    Err(error) if error.errno() != rustix::io::Errno::IO => log::debug!("{error}"),
                    _ => {}
                }
                let of = |record: &Record| {
                    let (kept, _) = record.op.kept()?;
                    let path = record.op.path()?;
                    (kept.n == n).then(|| format!("{path} held before record {}", record.seq))
                };
                let was = self.path_of(&session, of);
                let was = was.map_or_else(String::new, |was| format!(", what {was},"));
                let what = format!(
                    "version {}{was} is not what was kept: its content has been changed",
                    version_name(n)
                );
                let remedy = "Somebody has written to it, or the disk is failing. An undo gives back what it holds now with --force alone; `restore` and `cat --at` do, and say so. Look for the file in a backup of the store.";
                let finding = Finding::problem(FindingKind::Content, what, remedy);
                self.report.add(finding.in_session(&session, Some(n)));
            }
        }
        Ok(closed)
    }

    /// Searches the records of a session for a path, once more: this is rare.
    fn path_of(&self, session: &str, of: impl Fn(&Record) -> Option<String>) -> Option<String> {
        let file = open_journal(&self.store.state, session).ok()?;
        let mut survey = LenientReader::new(std::io::BufReader::with_capacity(1 << 17, file));
        while let Ok(Some(line)) = survey.next_line() {
            if let ParsedLine::Record(record) = line.what
                && let Some(found) = of(&record)
            {
                return Some(found);
            }
        }
        None
    }
}

/// Reads one content and hashes it.
fn read(
    sum: impl FnOnce(&mut dyn FnMut(u64) -> bool) -> Result<Option<SizedDigest>>,
    verified: &mut VerifiedTotals,
    step: &mut dyn FnMut(CheckProgress),
) -> Result<Option<SizedDigest>> {
    verified.contents += 1;
    sum(&mut |bytes| {
        verified.bytes += bytes;
        step(CheckProgress::Bytes(verified.bytes));
        true
    })
}

fn removed_from(op: &Op) -> Option<String> {
    match op {
        Op::Unlink { path, .. } => Some(path.to_string()),
        Op::Rename { to, .. } | Op::Restore { to, .. } => Some(to.to_string()),
        _ => None,
    }
}

/// Formats a path in the trash for messages.
fn shown(path: &WorldPath) -> String {
    escape(path.bytes())
}
