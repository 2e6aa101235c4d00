//! The selection of entries and versions to delete for good. The deletion itself is [`World::purge`] and
//! [`World::evict`].
//!
//! Each condition narrows the selection; without any condition nothing is selected. A former content that an older
//! one depends on is never selected without the older one, which would become unreadable.
//!
//! [`World::purge`]: crate::world::World::purge
//! [`World::evict`]: crate::world::World::evict

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};

use super::kept_versions::{self, KeptVersion};
use super::trash::{self, TrashEntry};
use super::{Store, ephemeral};
use crate::error::Result;
use crate::journal::InodeNumbers;
use crate::name::{EscapedBytes, WorldPath};
use crate::world::{Caller, PurgeResult, World};

/// The kinds of files to select from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PurgeScope {
    /// Entries of the trash.
    #[default]
    Trash,
    /// Former contents.
    Versions,
    /// Both.
    Both,
}

/// A request to purge.
#[derive(Debug, Clone, Default)]
pub struct PurgeRequest {
    /// Entries by name; all entries where empty.
    pub entries: Vec<EscapedBytes>,
    /// Only files removed, or contents kept, before this time.
    pub before: Option<DateTime<Utc>>,
    /// Only files of at least this size in bytes.
    pub larger_than: Option<u64>,
    /// The number of newest items to keep: in the trash, and of each file's former contents.
    pub keep_last: Option<usize>,
    /// Only noise; see [`ephemeral`].
    pub ephemeral: bool,
    /// The kinds to select from.
    pub among: PurgeScope,
}

/// The selection to purge.
#[derive(Debug, Default, serde::Serialize)]
pub struct PurgePlan {
    /// Entries of the trash, oldest first.
    pub entries: Vec<TrashEntry>,
    /// Former contents, oldest first.
    pub versions: Vec<KeptVersion>,
    /// The number of former contents that were left out because older ones depend on them.
    pub needed: u64,
    /// The number of entries that were left out because no record has the time of their removal.
    pub undated: u64,
}

/// Purges a selection in a running world. `step` is called with the bytes freed.
///
/// # Errors
/// Those of recording the purge; an unrecorded item is not deleted.
pub fn purge_items(
    world: &World,
    entries: &[EscapedBytes],
    versions: &[(String, u64)],
    caller: Caller,
    step: &mut dyn FnMut(u64),
) -> Result<PurgeResult> {
    let mut purged = world.purge(entries, caller, step)?;
    if purged.stopped.is_some() {
        return Ok(purged);
    }
    match world.evict(versions, caller, step) {
        Ok(evicted) => purged.add(evicted),
        Err(error) if purged.entries == 0 => return Err(error),
        Err(error) => purged.stopped = Some(error.to_string()),
    }
    Ok(purged)
}

/// Returns how many entries and former contents of a selection still exist.
///
/// # Errors
/// Those of reading the directories.
pub fn still_there(store: &Store, choice: &PurgePlan) -> Result<u64> {
    let trash: HashSet<EscapedBytes> = trash::list(store)?.into_iter().map(|l| l.entry).collect();
    let entries = choice.entries.iter();
    let entries = entries
        .filter(|listed| trash.contains(&listed.entry))
        .count();
    let kept: HashSet<(String, u64)> = if choice.versions.is_empty() {
        HashSet::new()
    } else {
        kept_versions::list(store)?
            .into_iter()
            .map(|v| (v.session, v.n))
            .collect()
    };
    let versions = choice.versions.iter();
    let versions = versions
        .filter(|v| kept.contains(&(v.session.clone(), v.n)))
        .count();
    Ok((entries + versions) as u64)
}

/// Selects the items that a request means, in the store as it is now.
///
/// # Errors
/// [`Error::Missing`](crate::error::Error::Missing) for an entry that is not there; those of reading the trash and the
/// journals.
pub fn choose_items(store: &Store, selection: &PurgeRequest) -> Result<PurgePlan> {
    let mut choice = PurgePlan::default();
    if selection.among != PurgeScope::Versions {
        (choice.entries, choice.undated) = choose_entries(store, selection)?;
    }
    if selection.among != PurgeScope::Trash && !selection.ephemeral {
        (choice.versions, choice.needed) = choose_versions(store, selection)?;
    }
    Ok(choice)
}

fn choose_entries(store: &Store, selection: &PurgeRequest) -> Result<(Vec<TrashEntry>, u64)> {
    let mut listed = trash::list(store)?;
    let there: HashSet<&[u8]> = listed.iter().map(|l| l.entry.0.as_slice()).collect();
    for named in &selection.entries {
        if !there.contains(named.0.as_slice()) {
            return Err(trash::no_entry(&named.0));
        }
    }
    // The time in a name comes from a clock, which must not decide what is deleted for good.
    let all = listed.len();
    if selection.keep_last.is_some() || selection.before.is_some() {
        listed.retain(|entry| entry.session.is_some());
    }
    let undated = (all - listed.len()) as u64;
    if let Some(keep) = selection.keep_last {
        listed.truncate(listed.len().saturating_sub(keep));
    }
    if !selection.entries.is_empty() {
        let named: HashSet<&EscapedBytes> = selection.entries.iter().collect();
        listed.retain(|entry| named.contains(&entry.entry));
    }
    listed
        .retain(|entry| is_old_and_large(selection, &entry.not_before, entry.size.max(entry.disk)));
    if selection.ephemeral {
        let noise = ephemeral::ephemeral_among(store, &listed)?;
        listed.retain(|entry| noise.contains(&entry.entry.0));
    }
    Ok((listed, undated))
}

/// Returns whether an item is old and large enough. `time`: the time before which it was not made; an item without one
/// is never old enough.
fn is_old_and_large(selection: &PurgeRequest, time: &str, bytes: u64) -> bool {
    let old = selection.before.is_none_or(|before| {
        DateTime::parse_from_rfc3339(time).is_ok_and(|time| time.with_timezone(&Utc) < before)
    });
    old && selection.larger_than.is_none_or(|least| bytes >= least)
}

fn choose_versions(store: &Store, selection: &PurgeRequest) -> Result<(Vec<KeptVersion>, u64)> {
    let listed = kept_versions::list(store)?;
    let mut newer: HashMap<&WorldPath, usize> = HashMap::new();
    let mut chosen = vec![false; listed.len()];
    for (version, chosen) in listed.iter().zip(&mut chosen).rev() {
        let newer = newer.entry(&version.path).or_default();
        let kept = selection.keep_last.is_some_and(|keep| *newer < keep);
        *newer += 1;
        *chosen = !kept && is_old_and_large(selection, &version.not_before, version.disk);
    }
    // A content that is not kept whole is completed from the next one of the same inode, and so on.
    let mut needs: HashSet<InodeNumbers> = HashSet::new();
    let mut needed = 0;
    for (version, chosen) in listed.iter().zip(&mut chosen) {
        if *chosen && needs.contains(&version.ids) {
            *chosen = false;
            needed += 1;
        }
        if !*chosen {
            if version.map {
                needs.insert(version.after)
            } else {
                needs.remove(&version.ids)
            };
        }
    }
    let mut chosen = chosen.into_iter();
    let versions = listed.into_iter();
    let versions = versions.filter(|_| chosen.next().unwrap_or(false));
    Ok((versions.collect(), needed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_without_a_time_is_never_old_enough() {
        let selection = PurgeRequest {
            before: Some(Utc::now()),
            ..PurgeRequest::default()
        };
        assert!(is_old_and_large(
            &selection,
            "2026-01-16T10:15:30.123456Z",
            0
        ));
        assert!(!is_old_and_large(&selection, "", 0));
        assert!(!is_old_and_large(&selection, "2999-01-16T10:15:30Z", 0));
    }
}
