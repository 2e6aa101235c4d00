//! Checks the store's own directories, and compares the lists of hard links and pinned inodes with the disk.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;

use rustix::fs::{FileType, Mode, OFlags};

use super::super::Store;
use super::super::trash_size::entries;
use super::finding::{Finding, FindingKind, FsckReport, RepairAction};
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath, escape};
use crate::world::Id;
use crate::world::root::open_beneath;
use crate::world::store::inode_lists;
use crate::world::store::layout::{PURGING, SESSIONS, STATE, TRASH};

/// The correct content of the lists.
#[derive(Debug, Default)]
pub(super) struct InodeLists {
    pub(super) links: HashMap<Id, u32>,
    pub(super) pinned: HashSet<Id>,
}

/// Checks the directories that every store has.
pub(super) fn check_layout(store: &Store, report: &mut FsckReport) -> Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (root, name) = (&store.root, TRASH);
    let trash =
        root.with_top_access(|| open_beneath(root.state_place(), name, flags, Mode::empty()));
    let sessions = open_beneath(
        store.state.as_fd(),
        SESSIONS.as_bytes(),
        flags,
        Mode::empty(),
    );
    let (trash_name, state_name) = (escape(TRASH), escape(STATE));
    let sessions_name = format!("{state_name}/{SESSIONS}");
    for (name, found) in [(trash_name, trash), (sessions_name, sessions)] {
        match found {
            Ok(_) => {}
            Err(Error::NotFound) => {
                let what = format!("{name} is missing: what was in it is gone");
                let remedy = "If it was moved away, move it back. --repair, and the next mount, make an empty one.";
                report.add(
                    Finding::problem(FindingKind::Layout, what, remedy)
                        .with_repair(RepairAction::Layout),
                );
            }
            Err(_) => {
                let what = format!("{name} is no directory of this store");
                let remedy = "A mount is refused. Move it away, it may hold something of value.";
                report.add(Finding::problem(FindingKind::Layout, what, remedy));
            }
        }
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let state = store.state.as_fd();
    if let Ok(dir) = open_beneath(state, PURGING.as_bytes(), flags, Mode::empty()) {
        let names = rustix::fs::Dir::read_from(&dir).map_err(Error::os("getdents64"))?;
        let left = names.filter(|name| name.is_ok()).count().saturating_sub(2);
        if left > 0 {
            let what =
                format!("a purge was interrupted: {left} of its entries are not deleted yet");
            report.add(Finding::note(
                FindingKind::Purge,
                what,
                "The next purge or mount goes on with it.",
            ));
        }
    }
    Ok(())
}

/// Compares the lists with the disk.
pub(super) fn check(store: &Store, report: &mut FsckReport) -> Result<()> {
    let (links, pinned) = inode_lists::read(store.state.as_fd(), store.root().id().0)?;
    let should = match recount_lists(store, &pinned) {
        Err(error) if error.errno() == rustix::io::Errno::ACCESS => {
            let what = "some directories are closed to this user, so the lists of hard links and hidden things were not checked";
            report.add(Finding::note(
                FindingKind::Links,
                what,
                "Check as root, who may read all.",
            ));
            return Ok(());
        }
        should => should?,
    };
    if store.copy_origin()?.is_some_and(|copied| copied.is_fresh) {
        // The lists are the original's; the next session sets them aside.
        return Ok(());
    }
    if report.served {
        // The daemon may be adding to them now; reading them again would not help.
        return Ok(());
    }
    let stale = links
        .iter()
        .filter(|(id, count)| should.links.get(id).copied().unwrap_or(0) < **count);
    let stale = stale.count();
    if stale > 0 {
        let what = format!(
            "the list of hard links in the trash is wrong for {stale} files: their number of links is shown too low, or will be for new files"
        );
        let remedy = "Entries were deleted behind the mount. --repair counts anew.";
        report.add(
            Finding::problem(FindingKind::Links, what, remedy).with_repair(RepairAction::Lists),
        );
    }
    let stale = pinned.difference(&should.pinned).count();
    if stale > 0 {
        let what = format!(
            "the list of what stays hidden names {stale} things that are not there any more: new files may be hidden in their stead"
        );
        let remedy = "They were deleted behind the mount. --repair takes them out.";
        report.add(
            Finding::problem(FindingKind::Pinned, what, remedy).with_repair(RepairAction::Lists),
        );
    }
    Ok(())
}

/// Computes the correct lists: the files with names both in the trash and elsewhere, and the pinned inodes that still
/// exist.
pub(super) fn recount_lists(store: &Store, pinned: &HashSet<Id>) -> Result<InodeLists> {
    let mut should = InodeLists::default();
    let mut pending = vec![WorldPath::parse(TRASH)?];
    while let Some(path) = pending.pop() {
        let dir = match store.root.dir(&path) {
            Err(Error::NotFound | Error::NotDirectory) => continue,
            dir => dir?,
        };
        for (name, meta) in entries(store, &dir)? {
            if meta.is_dir() {
                pending.push(path.join(Name::new(&name)?));
            } else if meta.nlink > 1 {
                *should.links.entry(meta.id).or_default() += 1;
            }
        }
    }
    if !pinned.is_empty() {
        should.pinned = still_there(store, pinned)?;
    }
    Ok(should)
}

/// Searches the whole store for inodes, by names and inode numbers only.
fn still_there(store: &Store, wanted: &HashSet<Id>) -> Result<HashSet<Id>> {
    let mut found = HashSet::new();
    let mut pending = vec![WorldPath::root()];
    while let Some(path) = pending.pop() {
        let dir = match store.root.dir(&path) {
            Err(Error::NotFound | Error::NotDirectory) => continue,
            dir => dir?,
        };
        let fd = store.root.read_dir(&dir)?;
        for entry in rustix::fs::Dir::new(fd).map_err(Error::os("getdents64"))? {
            let entry = entry.map_err(Error::os("getdents64"))?;
            let Ok(name) = Name::new(entry.file_name().to_bytes()) else {
                continue; // `.` and `..`
            };
            let id = Id(dir.id().0, entry.ino());
            if wanted.contains(&id) {
                found.insert(id);
            }
            let is_dir = match entry.file_type() {
                FileType::Unknown => dir.stat(name).is_ok_and(|meta| meta.is_dir()),
                kind => kind == FileType::Directory,
            };
            if is_dir && !(path.is_root() && name.bytes() == STATE) {
                pending.push(path.join(name));
            }
        }
        if let Some(name) = store.root.unlisted_name(&dir) {
            pending.push(path.join(Name::new(name)?));
        }
    }
    Ok(found)
}
