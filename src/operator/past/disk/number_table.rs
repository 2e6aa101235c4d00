//! A hash table of numbers whose keys are stored elsewhere: five and a third bytes for each number.
//!
//! The maps of the standard library store a copy of each key. Where the number leads to its key anyway, that copy
//! would be most of their memory.

use std::num::NonZeroU32;

/// Numbers with open addressing; nothing is ever removed.
#[derive(Debug, Default)]
pub(super) struct NumberTable {
    /// The slots: a power of two, a quarter of them free; or none.
    slots: Vec<Option<NonZeroU32>>,
    used: usize,
}

impl NumberTable {
    /// Returns the number with this hash for which `is_it` holds.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(NonZeroU32) -> bool) -> Option<NonZeroU32> {
        let last = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & last;
        loop {
            let number = (*self.slots.get(at)?)?;
            if is_it(number) {
                return Some(number);
            }
            at = (at + 1) & last;
        }
    }

    /// Adds a number greater than all in the table; `hash_of` hashes those.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        number: NonZeroU32,
        hash_of: impl Fn(NonZeroU32) -> Option<u64>,
    ) {
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            self.slots = vec![None; (self.slots.len() * 2).max(64)];
            // In numeric rather than slot order, so that their keys are read sequentially.
            for known in (1..number.get()).filter_map(NonZeroU32::new) {
                if let Some(hash) = hash_of(known) {
                    self.put(hash, known);
                }
            }
        }
        self.put(hash, number);
        self.used += 1;
    }

    fn put(&mut self, hash: u64, number: NonZeroU32) {
        let last = self.slots.len().saturating_sub(1);
        let mut at = hash as usize & last;
        while let Some(slot) = self.slots.get_mut(at) {
            if slot.is_none() {
                *slot = Some(number);
                return;
            }
            at = (at + 1) & last;
        }
    }
}
