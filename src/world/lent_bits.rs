//! Opening of a file whose mode forbids that to its own owner: permission bits are lent to it for a moment.
//!
//! Owns the record of it: an `attr` marked as lent, which its abort follows as soon as the mode is back. A daemon that
//! dies in between leaves the record, and the next mount takes the bits back (`take_back`). Only a file's owner may
//! change its mode, so a file of somebody else stays closed, and what needed it open fails.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::attr::lent_op;
use super::layout::TRASH;
use super::located::{Located, stat};
use super::root::{Node, Root};
use super::{Id, World};
use crate::error::{Error, Result};
use crate::journal::{Ids, Journal, Op, Record};
use crate::name::{Escaped, Name, WorldPath};

/// The reason in the abort of a lent record.
const GIVEN_BACK: &str = "the mode is as it was: the file was only opened";

/// Opens files that their own owner may not open.
#[derive(Debug, Clone)]
pub struct BitLender(Arc<Journal>);

impl World {
    /// Opens a file for reading even if its mode forbids it.
    ///
    /// # Errors
    /// As [`BitLender::open_to_read`].
    pub fn open_to_read(&self, located: &Located) -> Result<OwnedFd> {
        self.lender()
            .open_to_read(&self.root, &located.path, &located.node)
    }

    /// Opens a file for an operator to write to, even if its mode forbids it.
    ///
    /// # Errors
    /// As [`BitLender::open_to_read`].
    pub(super) fn open_to_replace(&self, located: &Located) -> Result<OwnedFd> {
        let (path, node) = (&located.path, &located.node);
        match self.root.reopen(node, OFlags::RDWR) {
            Err(error) if error.errno() == Errno::ACCESS => {
                let how = (OFlags::RDWR, 0o600);
                self.lender().open(&self.root, (path, node), how, error)
            }
            opened => opened,
        }
    }

    /// Returns what opens the store's files for its operator.
    pub fn lender(&self) -> BitLender {
        BitLender(self.journal.clone())
    }
}

impl BitLender {
    /// Opens a file for reading even if its mode forbids it.
    ///
    /// # Errors
    /// `EACCES` if it belongs to somebody else and may not be read. Nothing of it may then be destroyed.
    pub fn open_to_read(&self, root: &Root, path: &WorldPath, node: &Node) -> Result<OwnedFd> {
        // Only the owner may use O_NOATIME.
        match root.reopen(node, OFlags::RDONLY | OFlags::NOATIME) {
            Err(error) if error.errno() == Errno::PERM => root.reopen(node, OFlags::RDONLY),
            Err(error) if error.errno() == Errno::ACCESS => {
                self.open(root, (path, node), (OFlags::RDONLY, 0o400), error)
            }
            opened => opened,
        }
    }

    /// Opens a file while its mode has some bits more. `refused` is the error without them.
    fn open(
        &self,
        root: &Root,
        (path, node): (&WorldPath, &Node),
        (flags, bits): (OFlags, u32),
        refused: Error,
    ) -> Result<OwnedFd> {
        let meta = node.stat()?;
        let (mode, lent) = (meta.permissions(), meta.permissions() | bits);
        if mode == lent {
            // Its owner has these bits: it is somebody else's.
            return Err(refused);
        }
        let pending = self.0.begin(lent_op(path, &meta, lent), &[], None)?;
        let opened = match root.chmod(node, lent) {
            Ok(()) => {
                let opened = root.reopen(node, flags);
                // Somebody may have set another mode meanwhile, which stays.
                if node.stat()?.permissions() == lent {
                    // Where this fails, the record stays: an undo, or the next mount, sets the mode right.
                    root.chmod(node, mode)?;
                }
                opened
            }
            Err(error) if error.errno() == Errno::PERM => Err(refused),
            Err(error) => Err(error),
        };
        pending.abort(&Error::refused(GIVEN_BACK, ""));
        opened
    }
}

/// Takes lent bits back from a file, if it still has them: the daemon ended before it did. Returns the message for the
/// operator if it had them. `later`: the records after it.
///
/// # Errors
/// Any error from looking at the file.
pub(super) fn take_back(
    root: &Root,
    (path, ids): (&WorldPath, Ids),
    (mode, lent): (u32, u32),
    later: &[&Record],
) -> Result<Option<String>> {
    let Some(path) = place_after(path, ids, later)? else {
        return Ok(None);
    };
    let has_them = stat(root, &path)?
        .is_some_and(|meta| meta.id == Id(ids[0], ids[1]) && meta.permissions() == lent);
    if !has_them {
        return Ok(None);
    }
    root.chmod(&root.node_expecting(&path, Id(ids[0], ids[1]))?, mode)?;
    Ok(Some(format!(
        "{path} had mode {lent:o} for a moment, so that its content could be kept; it has {mode:o} again"
    )))
}

/// Returns where a file is after some records; `None` if that is not known.
fn place_after(path: &WorldPath, ids: Ids, later: &[&Record]) -> Result<Option<WorldPath>> {
    let mut path = path.clone();
    for record in later {
        match &record.op {
            Op::Rename { to, ids: moved, .. } | Op::Restore { to, ids: moved, .. }
                if *moved == ids =>
            {
                path = to.clone();
            }
            Op::Unlink {
                ids: removed,
                trash,
                ..
            } if *removed == ids => path = entry_path(trash)?,
            Op::Rename { path: from, .. } | Op::Rmdir { path: from, .. }
                if from.contains(&path) =>
            {
                return Ok(None);
            }
            _ => {}
        }
    }
    Ok(Some(path))
}

/// Returns the path of a trash entry.
fn entry_path(entry: &Escaped) -> Result<WorldPath> {
    Ok(WorldPath::parse(TRASH)?.join(Name::new(&entry.0)?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::world::rename::Renaming;
    use crate::world::{Caller, WorldOptions};

    fn open(dir: &tempfile::TempDir) -> (World, Vec<String>) {
        let options = WorldOptions {
            session: crate::world::sessions::new_session_id(),
            ..WorldOptions::default()
        };
        let (world, settled) = World::open(dir.path(), options).unwrap();
        let settled = settled.into_iter().map(|found| found.what).collect();
        (world, settled)
    }

    /// Leaves a record of lent bits, and the bits, as a daemon that is killed then.
    fn lend(world: &World, path: &str) {
        let path = WorldPath::parse(path.as_bytes()).unwrap();
        let (dir, name) = world.parent(&path).unwrap();
        let located = world.hold(&dir, name).unwrap();
        let op = lent_op(&path, located.node.meta(), 0o600);
        world.journal.note(op, None).unwrap();
        world.root.chmod(&located.node, 0o600).unwrap();
    }

    #[test]
    fn lent_bits_are_taken_back_after_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        let mode = |name: &str| file(name).metadata().unwrap().permissions().mode() & 0o7777;
        for name in ["f", "moved", "removed", "chosen"] {
            fs::write(file(name), "content").unwrap();
            fs::set_permissions(file(name), fs::Permissions::from_mode(0o200)).unwrap();
        }
        let (world, _) = open(&dir);
        for name in ["f", "moved", "removed", "chosen"] {
            lend(&world, name);
        }
        let at = |path: &str| WorldPath::parse(path.as_bytes()).unwrap();
        let (from, to) = (at("moved"), at("there"));
        let (dir_of, name) = world.parent(&from).unwrap();
        let (dir_to, name_to) = world.parent(&to).unwrap();
        let caller = Caller::myself();
        world
            .rename(&dir_of, name, &dir_to, name_to, Renaming::NoReplace, caller)
            .unwrap();
        let gone = at("removed");
        let (dir_of, name) = world.parent(&gone).unwrap();
        world.unlink(&dir_of, name, caller).unwrap();
        fs::set_permissions(file("chosen"), fs::Permissions::from_mode(0o640)).unwrap();
        drop(world);
        let (world, settled) = open(&dir);
        assert_eq!(
            (mode("f"), mode("there"), mode("chosen")),
            (0o200, 0o200, 0o640)
        );
        let mut entries = fs::read_dir(file(".trash"))
            .unwrap()
            .map(|entry| entry.unwrap());
        let removed =
            |entry: &fs::DirEntry| entry.file_name().to_string_lossy().ends_with("_removed");
        let removed = entries.find(removed).unwrap().metadata().unwrap();
        assert_eq!(removed.permissions().mode() & 0o7777, 0o200);
        let said = settled
            .iter()
            .filter(|what| what.contains("it has 200 again"));
        assert_eq!(said.count(), 3, "{settled:?}");
        world.close();
        assert_eq!(open(&dir).1, Vec::<String>::new());
    }

    /// Only its owner may change the mode of a file, and this file's owner needs no bits.
    #[test]
    fn bits_that_a_file_has_are_not_lent() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("f"), "content").unwrap();
        let (world, _) = open(&dir);
        let at = WorldPath::parse(b"f").unwrap();
        let (dir_of, name) = world.parent(&at).unwrap();
        let located = world.hold(&dir_of, name).unwrap();
        let (node, how) = ((&at, &located.node), (OFlags::RDONLY, 0o400));
        let refused = Error::os("open")(Errno::ACCESS);
        let opened = world.lender().open(&world.root, node, how, refused);
        assert_eq!(opened.unwrap_err().errno(), Errno::ACCESS);
    }

    #[test]
    fn lent_bits_leave_no_change_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "content").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o200)).unwrap();
        let (world, _) = open(&dir);
        let at = WorldPath::parse(b"f").unwrap();
        let (dir_of, name) = world.parent(&at).unwrap();
        let located = world.hold(&dir_of, name).unwrap();
        let refused = Error::os("open")(Errno::ACCESS);
        let how = (OFlags::RDONLY, 0o400);
        let node = (&at, &located.node);
        let opened = world
            .lender()
            .open(&world.root, node, how, refused)
            .unwrap();
        assert!(rustix::fs::fcntl_getfl(&opened).is_ok());
        let mode = path.metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o200);
        assert_eq!(world.journal.last(), 3, "the record and its abort");
    }
}
