//! Device and inode number in twelve bytes instead of sixteen: there can be a million of them.
//!
//! Owns the list of known devices: nearly always a single one.

use std::num::NonZeroU32;

use crate::journal::InodeNumbers;

/// The device's index in the list plus one, and the two halves of the inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::operator::past) struct CompactInode(NonZeroU32, u32, u32);

#[derive(Debug, Default)]
pub(in crate::operator::past) struct DeviceTable(Vec<u64>);

impl DeviceTable {
    pub(in crate::operator::past) fn inode(&mut self, ids: InodeNumbers) -> CompactInode {
        if !self.0.contains(&ids[0]) {
            self.0.push(ids[0]);
        }
        // The fallback is for more devices than any machine has.
        let last = CompactInode(NonZeroU32::MAX, 0, 0);
        self.known(ids).unwrap_or(last)
    }

    /// Returns the compact form of an inode; `None` for an unknown device.
    pub(in crate::operator::past) fn known(&self, ids: InodeNumbers) -> Option<CompactInode> {
        let device = self.0.iter().position(|device| *device == ids[0])?;
        let device = NonZeroU32::new(u32::try_from(device + 1).ok()?)?;
        let (high, low) = (ids[1] >> 32, ids[1] & u64::from(u32::MAX));
        let (high, low) = (u32::try_from(high).ok()?, u32::try_from(low).ok()?);
        Some(CompactInode(device, high, low))
    }

    pub(in crate::operator::past) fn ids(&self, inode: CompactInode) -> Option<InodeNumbers> {
        let device = self.0.get(inode.0.get() as usize - 1)?;
        Some([*device, u64::from(inode.1) << 32 | u64::from(inode.2)])
    }
}
