//! A check of a store, from its directories to its contents.

use super::finding::{CheckProgress, Finding, FindingKind, FsckReport};
use super::inode_lists;
use super::journal_pass::JournalPass;
use crate::error::Result;
use crate::operator::Store;
use crate::world::store::settle::sessions;

/// Checks a store; with `contents`, all contents that have a digest are read. `step` is called from time to time with
/// the progress.
///
/// # Errors
/// Those of the system calls; a problem of the store is a finding, not an error.
pub fn check(
    store: &Store,
    contents: bool,
    step: &mut dyn FnMut(CheckProgress),
) -> Result<FsckReport> {
    let mut report = FsckReport {
        served: store.is_served()?,
        ..FsckReport::default()
    };
    let live = if report.served {
        store.holder()?.map(|holder| holder.session)
    } else {
        None
    };
    inode_lists::check_layout(store, &mut report)?;
    note_copy(store, &mut report)?;
    let mut journals = JournalPass::new(store, live, contents, &mut report)?;
    for session in sessions(&store.state)? {
        journals.check_session(&session, step)?;
    }
    journals.check_contents(step)?;
    journals.finish()?;
    inode_lists::check(store, &mut report)?;
    Ok(report)
}

/// Notes whether the store is a copy, where records of the original are not compared with inodes.
fn note_copy(store: &Store, report: &mut FsckReport) -> Result<()> {
    let Some(copied) = store.copy_origin()? else {
        return Ok(());
    };
    let copied_sessions = sessions(&store.state)?;
    let copied_sessions = copied_sessions
        .iter()
        .filter(|id| **id <= copied.last)
        .count();
    let what = match copied_sessions {
        1 => "the store is a copy: this session was recorded in the original".to_owned(),
        n => format!(
            "the store is a copy: this session and the {} before it were recorded in the original",
            n.saturating_sub(1)
        ),
    };
    let remedy = "What these sessions did can be taken back in the original only. Their journals, former contents and entries of the trash were checked, but for inode numbers, which do not hold here.";
    let finding = Finding::note(FindingKind::Copied, what, remedy);
    report.add(finding.in_session(&copied.last, None));
    Ok(())
}
