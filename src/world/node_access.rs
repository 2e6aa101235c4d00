//! An operator's access to directories and files that the owner of a store has closed to itself.
//!
//! An ordinary user who mounts a home is also the occupant's user: a `chmod 0` in the home keeps that user from the
//! directory, in the home and in the store. That shall bind the occupant, not the operator's verbs. Only the owner can
//! have closed the directory, so the owner can open it.
//!
//! Owns the grants of the owner's missing permission bits: for one system call that was refused without them; on the
//! store's own directory, which all work needs, as long as the store is mounted or worked on; on all closed nodes while
//! an undo changes something there (`operator/closed_nodes.rs`). Grants are recorded first (`lent_bits.rs`), so that
//! they are taken back after a kill. The store's own directory has to be open for that; a kill between granting and
//! recording leaves it open to its owner. The mode is restored at the end, unless it was changed meanwhile; until then
//! this process shows and records the node's own mode.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::FileType;
use rustix::io::Errno;

use super::granted_modes;
use crate::error::{Error, Result};
use crate::world::store::lent_record::LentRecord;
use trumanfs_types::meta::Id;

/// The maximum number of attempts while another process grants and takes away the same bits.
const MAX_GRANT_ATTEMPTS: u32 = 20;

/// The owner's bits that reading a file needs.
pub const READ_BITS: u32 = 0o400;
/// The owner's bits that writing a file's content anew needs.
pub(super) const WRITE_BITS: u32 = 0o600;

/// The permissions by which a store's nodes are reached.
#[derive(Debug, Clone)]
pub enum NodeAccess {
    /// The permission bits as they are: for requests of an occupant.
    Permitted,
    /// The permission bits, and grants for nodes that this process's user has closed to itself: for an operator.
    Owned(Arc<BitLender>),
}

impl NodeAccess {
    /// Returns whether an error is a refusal that a grant may lift.
    pub(super) fn may_open(&self, error: &Error) -> bool {
        matches!(self, NodeAccess::Owned(_)) && error.is_denial()
    }

    /// Carries out a call that needs permission bits of a node. If they are missing, they are granted for the length of
    /// the call.
    ///
    /// # Errors
    /// As `act`.
    pub fn with_access<T>(&self, node: BorrowedFd<'_>, act: impl Fn() -> Result<T>) -> Result<T> {
        match self {
            NodeAccess::Permitted => act(),
            NodeAccess::Owned(lender) => lender.with_access(node, READ_BITS, act),
        }
    }
}

/// A grant that is about to be made.
#[derive(Debug)]
pub struct PlannedGrant {
    id: Id,
    /// The mode without the grant, and with it.
    modes: (u32, u32),
}

impl PlannedGrant {
    /// Returns the grant that opens a node to its owner for reading; `None` if it is open, or cannot be opened.
    pub fn of(node: BorrowedFd<'_>) -> Option<PlannedGrant> {
        let stat = rustix::fs::fstat(node).ok()?;
        let modes = missing_bits(&stat, READ_BITS).ok()??;
        let id = Id(stat.st_dev, stat.st_ino);
        Some(PlannedGrant { id, modes })
    }
}

/// A lender of permission bits in one store.
#[derive(Debug)]
pub struct BitLender {
    record: LentRecord,
    /// The store's directory.
    top: Id,
    /// True if this lender has taken over a killed process's grant on that directory.
    has_taken_over: AtomicBool,
}

impl BitLender {
    /// Creates the lender of a store, from its directory and the one that has its state.
    pub(super) fn new(fd: OwnedFd, state_in: OwnedFd, top: Id) -> BitLender {
        BitLender {
            record: LentRecord::new(fd, state_in, top.0),
            top,
            has_taken_over: AtomicBool::new(false),
        }
    }

    /// Creates the record, for threads that may not create it.
    ///
    /// # Errors
    /// As [`LentRecord::prepare`].
    pub(super) fn prepare(&self) -> Result<()> {
        self.record.prepare()
    }

    /// Ends the grant that was taken over, and removes the record if nothing is granted.
    pub(super) fn close(&self) {
        if self.has_taken_over.swap(false, Ordering::AcqRel) {
            self.restore_mode(self.record.top());
        }
        self.record.close();
    }

    /// Takes over a killed process's grant on the store's directory, in which this process already works.
    ///
    /// # Errors
    /// As [`LentRecord::note`].
    pub(super) fn take_over(&self, modes: (u32, u32)) -> Result<()> {
        self.record.note(self.top, modes, true)?;
        granted_modes::insert((self.top.0, self.top.1), modes);
        self.has_taken_over.store(true, Ordering::Release);
        Ok(())
    }

    /// Carries out a call that needs permission bits of a node, as [`NodeAccess::with_access`]; a regular file needs
    /// the bits `of_file`.
    ///
    /// # Errors
    /// As `act`.
    pub(super) fn with_access<T>(
        &self,
        node: BorrowedFd<'_>,
        of_file: u32,
        act: impl Fn() -> Result<T>,
    ) -> Result<T> {
        let mut done = act();
        for _ in 0..MAX_GRANT_ATTEMPTS {
            if !done.as_ref().is_err_and(Error::is_denial) {
                break;
            }
            let Ok(is_granted) = self.grant_bits(node, of_file) else {
                break;
            };
            // Without a grant, the bits are there by now: another operator's grant.
            done = act();
            if is_granted {
                self.restore_mode(node);
                break;
            }
        }
        done
    }

    /// Records the grants that are about to be made, all at once.
    ///
    /// # Errors
    /// Any error from `open(2)`, `write(2)` or `fsync(2)`; `ENOENT` if the directory is no store.
    pub fn record_grants(&self, grants: &[PlannedGrant]) -> Result<()> {
        for planned in grants {
            self.record.note(planned.id, planned.modes, false)?;
        }
        self.record.sync()
    }

    /// Grants the missing bits of a directory or a regular file, which needs the bits `of_file`. Returns whether any
    /// were missing.
    ///
    /// # Errors
    /// Any error from `fchmodat2(2)`, or of recording it; `EACCES` if a grant would lose a set-group-id bit.
    pub fn grant_bits(&self, node: BorrowedFd<'_>, of_file: u32) -> rustix::io::Result<bool> {
        let stat = rustix::fs::fstat(node)?;
        let id = Id(stat.st_dev, stat.st_ino);
        let Some((mode, wide)) = missing_bits(&stat, of_file)? else {
            return Ok(false);
        };
        let late = match self.record.note(id, (mode, wide), true) {
            Ok(()) => false,
            // The record lies behind the directory that is closed.
            Err(error) if error.is_denial() && id == self.top => true,
            // An agent's own directory is no store.
            Err(Error::NotFound) => false,
            // Operations that make room on a full disk need access, too.
            Err(error) if matches!(error.errno(), Errno::NOSPC | Errno::DQUOT) => {
                log::warn!("lent permission bits are not recorded: {error}");
                false
            }
            Err(error) => return Err(error.errno()),
        };
        // Noted first, so that no reader takes the wide mode for the node's own.
        granted_modes::insert((id.0, id.1), (mode, wide));
        crate::sys::fd::chmod(node, wide).inspect_err(|_| {
            granted_modes::remove((id.0, id.1));
            self.record.note_taken_back(id);
        })?;
        if late && let Err(error) = self.record.note(id, (mode, wide), true) {
            log::warn!("lent permission bits are not recorded: {error}");
        }
        Ok(true)
    }

    /// Restores the mode of a node that was granted bits, unless the mode was changed meanwhile.
    pub fn restore_mode(&self, node: BorrowedFd<'_>) {
        let Ok(stat) = rustix::fs::fstat(node) else {
            return;
        };
        if let Some((mode, wide)) = granted_modes::remove((stat.st_dev, stat.st_ino))
            && stat.st_mode & 0o7777 == wide
            && let Err(errno) = crate::sys::fd::chmod(node, mode)
        {
            log::warn!("the mode {mode:04o} could not be restored: {errno}");
            return;
        }
        self.record.note_taken_back(Id(stat.st_dev, stat.st_ino));
    }

    /// Forgets the grant on a node that is given a permanent mode.
    pub(super) fn forget_grant(&self, id: Id) {
        granted_modes::remove((id.0, id.1));
        self.record.note_taken_back(id);
    }
}

impl Drop for BitLender {
    fn drop(&mut self) {
        self.close();
    }
}

/// Returns the mode of a node, and the mode with the missing bits; `None` if none is missing. A regular file needs the
/// bits `of_file`.
///
/// # Errors
/// `EACCES` and `EPERM` if no bits can be granted.
fn missing_bits(stat: &rustix::fs::Stat, of_file: u32) -> rustix::io::Result<Option<(u32, u32)>> {
    let wanted = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => 0o700,
        FileType::RegularFile => of_file,
        _ => return Err(Errno::ACCESS),
    };
    let now = stat.st_mode & 0o7777;
    let wide = now | wanted;
    let me = rustix::process::geteuid();
    if stat.st_uid != me.as_raw() && !me.is_root() {
        return Err(Errno::PERM);
    }
    if now == wide {
        return Ok(None);
    }
    // chmod(2) would take the bit away for good.
    if now & 0o2000 != 0 && !is_own_group(stat.st_gid) {
        return Err(Errno::ACCESS);
    }
    Ok(Some((
        granted_modes::mode_of((stat.st_dev, stat.st_ino), now),
        wide,
    )))
}

/// A grant of permission bits on a node, which ends when this value is dropped.
#[derive(Debug)]
pub(super) struct BitGrant<F: AsFd> {
    lender: Arc<BitLender>,
    node: F,
}

impl<F: AsFd> BitGrant<F> {
    /// Grants the missing bits; `None` if none is missing.
    ///
    /// # Errors
    /// As [`BitLender::grant_bits`].
    pub(super) fn of(lender: &Arc<BitLender>, node: F) -> rustix::io::Result<Option<BitGrant<F>>> {
        let is_granted = lender.grant_bits(node.as_fd(), READ_BITS)?;
        let lender = lender.clone();
        Ok(is_granted.then(|| BitGrant { lender, node }))
    }

    /// Ends the grant.
    pub(super) fn end(&self) {
        self.lender.restore_mode(self.node.as_fd());
    }
}

impl<F: AsFd> Drop for BitGrant<F> {
    fn drop(&mut self) {
        self.end();
    }
}

fn is_own_group(gid: u32) -> bool {
    let others = rustix::process::getgroups().unwrap_or_default();
    rustix::process::getegid().as_raw() == gid || others.iter().any(|other| other.as_raw() == gid)
}
