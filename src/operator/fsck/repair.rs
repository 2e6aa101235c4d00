//! Repairs without deleting anything of the occupant's.

use std::os::fd::AsFd;

use super::check::check;
use super::finding::{CheckProgress, Finding, FsckReport, RepairAction};
use super::inode_lists;
use crate::error::Result;
use crate::name::Name;
use crate::operator::Store;
use crate::world::keep::version_files::versions_of;
use crate::world::new_session_id;
use crate::world::root::Root;
use crate::world::store::holder::StoreHolder;
use crate::world::store::layout::{map_name, version_name};
use crate::world::store::settle;
use crate::world::store::state::StateDir;
use crate::world::trash::trash_entries::rename_noreplace;

/// Checks a store, repairs what can be repaired, and checks again. The report has all findings of both checks; those
/// that the second no longer has are marked as repaired.
///
/// # Errors
/// [`Error::Refused`](crate::error::Error::Refused) where the store is served; those of the system calls.
pub fn repair(
    store: &Store,
    contents: bool,
    step: &mut dyn FnMut(CheckProgress),
) -> Result<FsckReport> {
    let root = store.root().duplicate_for_changes()?;
    let mut before = check(store, contents, step)?;
    if before.findings.iter().all(|finding| finding.mend.is_none()) {
        return Ok(before);
    }
    let state = StateDir::open(&root, StoreHolder::this_process("fsck", None), None)?;
    for finding in &before.findings {
        if let Err(error) = repair_finding(&root, &state, store, finding) {
            log::warn!("cannot be repaired: {}: {error}", finding.what);
        }
    }
    state.close();
    drop(state);
    // Opened again: its directories may have been created just now.
    let after = check(&store.reopen()?, contents, step)?;
    for finding in &mut before.findings {
        finding.repaired = !after.findings.contains(finding);
    }
    let new = after.findings.into_iter();
    let known = before.findings.clone();
    before
        .findings
        .extend(new.filter(|finding| !known.contains(finding)));
    before.unnamed = after.unnamed;
    Ok(before)
}

fn repair_finding(root: &Root, state: &StateDir, store: &Store, finding: &Finding) -> Result<()> {
    let session = finding.session.as_deref().unwrap_or_default();
    match finding.mend {
        None => Ok(()),
        Some(RepairAction::Cut(length)) => settle::cut_torn_end(state, session, length).map(|_| ()),
        Some(RepairAction::Settle) => settle::last_session(root, state).map(|_| ()),
        Some(RepairAction::Close) => settle::end_damaged_session(root, state, session),
        Some(RepairAction::Seal) => settle::seal_again(root, state, session),
        Some(RepairAction::Orphan) => {
            move_orphan_to_trash(root, state, session, finding.at.unwrap_or_default())
        }
        Some(RepairAction::Lists) => {
            let (_, pinned) = crate::world::store::inode_lists::read(state.as_fd(), root.id().0)?;
            let should = inode_lists::recount_lists(store, &pinned)?;
            crate::world::store::inode_lists::rewrite(
                state.as_fd(),
                root.id().0,
                &should.links,
                &should.pinned,
            )
        }
        // Opening the state directory has created its own part.
        Some(RepairAction::Layout) => crate::world::trash::trash_entries::open(root).map(|_| ()),
    }
}

/// Moves a version without a record to the trash, where it can be inspected and purged.
fn move_orphan_to_trash(root: &Root, state: &StateDir, session: &str, n: u64) -> Result<()> {
    let Some(versions) = versions_of(state, session)? else {
        return Ok(());
    };
    let trash = crate::world::trash::trash_entries::open(root)?;
    for name in [version_name(n), map_name(n)] {
        // Not named like an entry, since it will never have a record.
        let entry = format!("version-{name}-of-{session}-{}", &new_session_id());
        match rename_noreplace(
            &versions,
            Name::new(name.as_bytes())?,
            &trash,
            Name::new(entry.as_bytes())?,
        ) {
            Err(crate::error::Error::NotFound) => {}
            moved => moved?,
        }
    }
    Ok(())
}
