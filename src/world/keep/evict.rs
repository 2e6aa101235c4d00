//! Eviction: deletes versions without losing any other content.
//!
//! An older version of the same file may be read through the evicted one. So the ranges that the older one lacks are
//! first copied into it, and a new list says so (`past`, see `ranges.rs`); then a record names the evicted version;
//! then it is deleted. A daemon that dies at any point leaves versions that read as before. Only the evicted state
//! itself is lost.
//!
//! For `--keep-evict` a thread does it when there is no space left, because the threads that act for the owner have no
//! access to older sessions. It thins out the middle: see [`VersionChains::order`].
//!
//! Lock: the finalizer's, throughout, so that what versions are read through does not change meanwhile.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Weak};

use rustix::fs::{Mode, OFlags};

use crate::error::{Error, Result};
use crate::journal::{Journal, Op};
use crate::world::keep::blocks::copy_range;
use crate::world::keep::chains::{VersionChains, VersionLink};
use crate::world::keep::finalize::Finalizer;
use crate::world::keep::quota::{SpaceRequest, VersionQuota};
use crate::world::keep::ranges::{self, merged, subtract};
use crate::world::keep::version_files::{delete, list, versions_of};
use crate::world::root::{open_beneath, stat_fd};
use crate::world::store::layout::version_name;

/// The number of bytes deleted at once, so that not every write has to wait for an eviction.
const EVICT_BATCH_BYTES: u64 = 16 << 20;

/// The number of versions that one `evict` record names.
const MAX_VERSIONS_PER_RECORD: usize = 500;

/// The smallest gain, in bytes, for which a version is evicted.
const MIN_GAIN: u64 = 4096;

/// The evicting thread, with its resources.
#[derive(Debug)]
pub(in crate::world) struct Evictor {
    pub(in crate::world) state: OwnedFd,
    pub(in crate::world) journal: Arc<Journal>,
    pub(in crate::world) session: Arc<str>,
    pub(in crate::world) durable: bool,
    pub(in crate::world) finalizer: Weak<Finalizer>,
}

/// The versions of one session on disk, and their sizes there.
#[derive(Debug)]
struct VersionSizes {
    session: Arc<str>,
    dir: Option<OwnedFd>,
    sizes: HashMap<u64, u64>,
}

impl VersionSizes {
    fn of(state: &OwnedFd, session: &Arc<str>) -> Result<VersionSizes> {
        let dir = versions_of(state, session)?;
        let sizes = dir.as_ref().map(list).transpose()?.unwrap_or_default();
        Ok(VersionSizes {
            session: session.clone(),
            dir,
            sizes: sizes.into_iter().collect(),
        })
    }
}

impl Evictor {
    /// Starts a thread that evicts versions at the limit.
    pub(in crate::world) fn start(self, quota: &Arc<VersionQuota>) {
        let (sender, asked) = channel();
        let weak = Arc::downgrade(quota);
        let thread = std::thread::Builder::new().name("evict".to_owned());
        match thread.spawn(move || self.serve(&asked, &weak)) {
            Ok(_) => quota.evict_by(sender),
            // Nothing is evicted then, and writes fail at the limit.
            Err(error) => log::warn!("no thread to delete former contents: {error}"),
        }
    }

    /// Answers requests for space, as long as the quota exists.
    fn serve(&self, asked: &Receiver<SpaceRequest>, quota: &Weak<VersionQuota>) {
        let mut chains = None;
        for (wanted, answer) in asked {
            let (Some(quota), Some(finalizer)) = (quota.upgrade(), self.finalizer.upgrade()) else {
                return;
            };
            let freed = self.make_room(&mut chains, &quota, &finalizer, wanted);
            let freed = freed.unwrap_or_else(|error| {
                log::warn!("no former contents could be deleted: {error}");
                0
            });
            let _ = answer.send(freed > 0);
        }
    }

    fn make_room(
        &self,
        chains: &mut Option<VersionChains>,
        quota: &VersionQuota,
        finalizer: &Finalizer,
        wanted: u64,
    ) -> Result<u64> {
        let _working = finalizer.pause();
        let mut known = match chains.take() {
            Some(chains) => chains,
            None => VersionChains::read(&self.state, Some(&self.session))?,
        };
        for (seq, op) in finalizer.pending().take_history() {
            known.add(&self.session, seq, &op);
        }
        let known = chains.insert(known);
        let wanted = wanted.max(EVICT_BATCH_BYTES.min(quota.max().unwrap_or(u64::MAX) / 8));
        let mut freed = 0;
        let mut going: Vec<(OwnedFd, VersionLink)> = Vec::new();
        let mut of: Option<VersionSizes> = None;
        for link in known.order(&self.session) {
            if freed >= wanted || going.len() >= MAX_VERSIONS_PER_RECORD {
                break;
            }
            if of.as_ref().is_none_or(|of| of.session != link.session) {
                of = Some(VersionSizes::of(&self.state, &link.session)?);
            }
            let Some(VersionSizes {
                dir: Some(dir),
                sizes: there,
                ..
            }) = &of
            else {
                continue;
            };
            let Some(bytes) = there
                .get(&link.n)
                .copied()
                .filter(|bytes| *bytes >= MIN_GAIN)
            else {
                continue;
            };
            let own = link.session == self.session;
            if own && (quota.is_live(link.n) || !finalizer.pending().may_evict(link.n)) {
                continue;
            }
            let added = match known.older(&link.session, link.n) {
                Some(older) => copy_inherited_ranges(
                    &self.state,
                    older,
                    &link,
                    self.durable,
                    Some(bytes - MIN_GAIN),
                ),
                None => Ok(Some(0)),
            };
            match added {
                Ok(Some(added)) => freed += bytes.saturating_sub(added),
                Ok(None) => continue,
                Err(error) => {
                    log::warn!("version {} of {} stays: {error}", link.n, link.session);
                    continue;
                }
            }
            known.remove(&link.session, link.n);
            if own {
                finalizer.pending().note_evicted(link.n);
            }
            let dir = rustix::io::fcntl_dupfd_cloexec(dir, 0).map_err(Error::os("fcntl"))?;
            going.push((dir, link));
        }
        if going.is_empty() {
            return Ok(0);
        }
        self.delete_recorded(&going)?;
        quota.give_back(freed);
        Ok(freed)
    }

    /// Records the eviction of versions, each with its directory, and deletes them.
    fn delete_recorded(&self, going: &[(OwnedFd, VersionLink)]) -> Result<()> {
        let versions = going
            .iter()
            .map(|(_, link)| (link.session.to_string(), link.n));
        let op = Op::Evict {
            versions: versions.collect(),
            volatile: Vec::new(),
        };
        self.journal.note(op, None)?;
        for (dir, link) in going {
            delete(dir, link.n);
        }
        Ok(())
    }
}

/// Copies into a version the ranges that it reads through a later one, so that the later one can be deleted. Returns
/// the additional bytes on disk; `None` if they would exceed `most`, and then nothing has been done.
///
/// # Errors
/// Any error from the system calls; both versions then read as before.
pub(in crate::world) fn copy_inherited_ranges(
    state: impl AsFd,
    into: &VersionLink,
    from: &VersionLink,
    durable: bool,
    most: Option<u64>,
) -> Result<Option<u64>> {
    let open = |link: &VersionLink, flags| {
        let dir = versions_of(state.as_fd(), &link.session)?.ok_or(Error::NotFound)?;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let name = version_name(link.n);
        let file = open_beneath(dir.as_fd(), name.as_bytes(), flags, Mode::empty())?;
        Ok::<_, Error>((dir, file))
    };
    let (dir, file) = match open(into, OFlags::RDWR) {
        // A missing version reads through nothing.
        Err(Error::NotFound) => return Ok(Some(0)),
        opened => opened?,
    };
    let Some(mut has) = ranges::read(dir.as_fd(), into.n)? else {
        return Ok(Some(0)); // It is whole.
    };
    let (from_dir, source) = open(from, OFlags::RDONLY)?;
    let (before, size) = stat_fd(file.as_fd()).map(|meta| (meta.blocks * 512, meta.size))?;
    let later = ranges::read(from_dir.as_fd(), from.n)?;
    let end = stat_fd(source.as_fd())?.size;
    let past = later.as_ref().and_then(|later| later.past.clone());
    let gives = later.map_or_else(|| vec![(0, end)], |later| later.ranges);
    let needed = subtract(&has.ranges, &gives, size);
    let bytes: u64 = needed.iter().map(|(start, end)| end - start).sum();
    if most.is_some_and(|most| bytes > most) {
        return Ok(None);
    }
    for (start, end) in &needed {
        copy_range(source.as_fd(), file.as_fd(), *start, *end)?;
    }
    if durable {
        rustix::fs::fdatasync(&file).map_err(Error::os("fdatasync"))?;
    } else if !needed.is_empty() {
        let _ = crate::sys::fd::write_out(file.as_fd());
    }
    has.ranges.extend(needed);
    // Behind the later content's end nothing was read through it.
    if end < size {
        has.ranges.push((end, size));
    }
    has.ranges = merged(std::mem::take(&mut has.ranges));
    has.past = past.or_else(|| Some((from.session.to_string(), from.n)));
    let listed = ranges::space(dir.as_fd(), into.n)?;
    let lists = has.put(dir.as_fd(), into.n, durable)?;
    let after = stat_fd(file.as_fd()).map(|meta| meta.blocks * 512)?;
    Ok(Some((after + lists).saturating_sub(before + listed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_lacking_is_copied() {
        let has = [(4, 8), (12, 16)];
        assert_eq!(subtract(&has, &[(0, 20)], 18), [(0, 4), (8, 12), (16, 18)]);
        assert_eq!(
            subtract(&has, &[(5, 7), (13, 14), (15, 17)], 99),
            [(16, 17)]
        );
        assert_eq!(subtract(&[], &[(1, 2)], 99), [(1, 2)]);
        assert_eq!(subtract(&has, &[(1, 30)], 3), [(1, 3)]);
    }
}
