//! Taking back of permission bits that a process had lent when it was killed.
//!
//! Nodes are found by inode, wherever they are by now. Only the owner's bits are taken, whatever the record has: it may
//! have come along with the files of the store.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};

use crate::error::{Error, Result};
use crate::name::WorldPath;
use crate::world::root::{Root, stat_fd};
use crate::world::store::inode_lists;
use crate::world::store::layout::LENT;
use crate::world::store::lent_record::parse;
use crate::world::store::notices::StoreFinding;
use crate::world::store::state_files;
use crate::world::walk::walk;
use trumanfs_types::meta::Id;

/// Takes back the bits that killed processes have lent. Returns a finding for each node that still had them, for the
/// session that the lock names. If `is_fresh_copy` returns true, the records are another store's and are only removed.
pub fn take_back(
    root: &Root,
    (state, named): (BorrowedFd<'_>, Option<&str>),
    is_fresh_copy: impl Fn() -> bool,
) -> Vec<StoreFinding> {
    let messages = take_all_back(root, state, &is_fresh_copy).unwrap_or_else(|error| {
        log::warn!("lent permission bits could not be taken back: {error}");
        Vec::new()
    });
    let found = |what| StoreFinding {
        session: named.unwrap_or_default().to_owned(),
        what,
        crash: true,
    };
    messages.into_iter().map(found).collect()
}

fn take_all_back(
    root: &Root,
    state: BorrowedFd<'_>,
    is_fresh_copy: &dyn Fn() -> bool,
) -> Result<Vec<String>> {
    let mut messages = Vec::new();
    for name in left_behind(state)? {
        let file = match state_files::open(state, &name, OFlags::RDWR) {
            Ok(file) => file,
            Err(error) => {
                log::warn!("a record of lent permission bits cannot be read: {error}");
                continue;
            }
        };
        // Its process is still running.
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let text = state_files::read(&file, LENT, inode_lists::MAX_LIST_BYTES)?;
        let lent = parse(&text, root.id().0);
        if !lent.is_empty() && !is_fresh_copy() {
            messages.extend(restore(root, stat_fd(state)?.id, &lent)?);
        }
        let _ = rustix::fs::unlinkat(state, name, AtFlags::empty());
    }
    Ok(messages)
}

/// Returns the names of the records in a state directory.
fn left_behind(state: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(state, ".", flags, Mode::empty()).map_err(Error::os("openat"))?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(dir).map_err(Error::os("getdents64"))? {
        let entry = entry.map_err(Error::os("getdents64"))?;
        let name = entry.file_name().to_bytes();
        if name.starts_with(LENT.as_bytes()) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Takes lent bits back from all nodes of the store that still have them. The store's own directory keeps them as long
/// as this process works in it, unless the process has an operator's access to closed directories.
fn restore(root: &Root, state: Id, lent: &HashMap<Id, Vec<(u32, u32)>>) -> Result<Vec<String>> {
    let takes_over = !root.is_for_operator();
    let root = root.duplicate()?.for_operator();
    let mode_of = |id: Id, now: u32| {
        let modes = lent.get(&id)?;
        modes
            .iter()
            .find(|(_, wide)| *wide == now)
            .map(|(mode, _)| *mode)
    };
    let top = WorldPath::root();
    let mut found = Vec::new();
    let meta = root.node(&top)?.stat()?;
    if let Some(mode) = mode_of(meta.id, meta.permissions()) {
        if takes_over {
            root.lender().take_over((mode, meta.permissions()))?
        } else {
            found.push((top.clone(), meta.id, mode))
        }
    }
    walk(&root, &top, |step| {
        if let Ok(meta) = step.dir.stat(step.name)
            && let Some(mode) = mode_of(meta.id, meta.permissions())
        {
            found.push((step.path.clone(), meta.id, mode));
        }
        let listed = || root.read_dir(&root.dir(step.path)?);
        Ok(step.is_dir && step.id != state && !listed().is_err_and(|error| error.is_denial()))
    })?;
    let mut messages = Vec::new();
    // Nodes below a directory come before it.
    found.sort_by(|(one, ..), (two, ..)| two.cmp(one));
    for (path, id, mode) in found {
        let node = root.node_expecting(&path, id);
        match node.and_then(|node| root.chmod(&node, mode)) {
            Ok(()) => messages.push(format!(
                "{path} was open to its owner while a process worked that was killed; it has mode {mode:04o} again"
            )),
            Err(error) => log::warn!("{path}: its mode could not be restored: {error}"),
        }
    }
    Ok(messages)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::Path;

    use super::*;
    use crate::name::Name;
    use crate::world::store::layout::STATE;
    use crate::world::{World, WorldOptions, new_session_id};

    fn open(dir: &Path) -> (World, Vec<String>) {
        let options = WorldOptions {
            session: new_session_id(),
            ..WorldOptions::default()
        };
        let (world, settled) = World::open(dir, options).unwrap();
        (world, settled.into_iter().map(|found| found.what).collect())
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    fn records(dir: &Path) -> usize {
        let entries = fs::read_dir(dir.join(OsStr::from_bytes(STATE))).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| name.to_string_lossy().starts_with(LENT))
            .count()
    }

    #[test]
    fn bits_lent_by_a_killed_process_are_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path()).0.close();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("closed/in")).unwrap();
        for name in ["closed/in/f", "chosen", "struck", "widened"] {
            fs::write(at(name), "content").unwrap();
        }
        // Each with its mode, what a record says, and the mode that it shall have then.
        let cases = [
            ("closed/in/f", 0o600, '+', 0o200, 0o600, 0o200),
            ("closed/in", 0o755, '+', 0o055, 0o755, 0o055),
            ("closed", 0o700, '+', 0, 0o700, 0),
            ("chosen", 0o640, '+', 0o200, 0o600, 0o640),
            ("struck", 0o600, '-', 0o200, 0o600, 0o600),
            ("widened", 0o600, '+', 0o4777, 0o600, 0o600),
        ];
        let mut text = String::new();
        for (name, now, sign, own, wide, _) in cases {
            set(&at(name), now);
            let ino = at(name).metadata().unwrap().ino();
            text += &format!("{sign}{own:04o} {wide:04o} 0 {ino}\n");
        }
        fs::write(
            dir.path()
                .join(OsStr::from_bytes(STATE))
                .join(format!("{LENT}killed")),
            text,
        )
        .unwrap();
        let (world, messages) = open(dir.path());
        assert_eq!(messages.len(), 3, "{messages:?}");
        assert_eq!(records(dir.path()), 0);
        world.close();
        for (name, .., then) in cases.iter().rev() {
            assert_eq!(mode(&at(name)), *then, "{name}");
            set(&at(name), 0o700);
        }
        assert_eq!(open(dir.path()).1, Vec::<String>::new());
    }

    /// A process that is under way, and one that has ended as it should, leave nothing to take back.
    #[test]
    fn record_lives_as_long_as_its_process_lends() {
        let dir = tempfile::tempdir().unwrap();
        let (world, _) = open(dir.path());
        let (path, name) = (dir.path().join("f"), Name::new(b"f").unwrap());
        fs::write(&path, "content").unwrap();
        set(&path, 0o200);
        let node = world.dir(&WorldPath::root()).unwrap().node(name).unwrap();
        let lender = world.root().lender();
        assert!(lender.grant_bits(node.as_fd(), 0o400).unwrap());
        let state = world.state().as_fd();
        let messages = take_back(world.root(), (state, None), || false);
        assert_eq!((messages, mode(&path)), (Vec::new(), 0o600));
        // This process shows and records the file's own mode.
        assert_eq!(node.stat().unwrap().permissions(), 0o200);
        lender.restore_mode(node.as_fd());
        assert_eq!((mode(&path), records(dir.path())), (0o200, 1));
        // Lent once more, and given another mode meanwhile.
        assert!(lender.grant_bits(node.as_fd(), 0o400).unwrap());
        world.root().chmod(&node, 0o640).unwrap();
        lender.restore_mode(node.as_fd());
        assert_eq!(mode(&path), 0o640);
        world.close();
        assert_eq!(records(dir.path()), 0);
    }

    /// Only its owner may change the mode of a file, and this file's owner needs no bits.
    #[test]
    fn bits_that_a_file_has_are_not_lent() {
        let dir = tempfile::tempdir().unwrap();
        let (world, _) = open(dir.path());
        fs::write(dir.path().join("f"), "content").unwrap();
        let name = Name::new(b"f").unwrap();
        let node = world.dir(&WorldPath::root()).unwrap().node(name).unwrap();
        assert!(
            !world
                .root()
                .lender()
                .grant_bits(node.as_fd(), 0o400)
                .unwrap()
        );
        assert_eq!(records(dir.path()), 0);
    }
}
