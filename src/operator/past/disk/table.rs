//! A table that finds numbers by what they stand for, which is kept elsewhere: four bytes and a third for each.
//!
//! The maps of the standard library keep a copy of the key beside each value. Where the number leads to its key anyway,
//! that is most of their memory.

use std::num::NonZeroU32;

/// Numbers, with open addressing: nothing is ever taken out.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// A power of two of them, a quarter free; or none.
    slots: Vec<Option<NonZeroU32>>,
    used: usize,
}

impl Table {
    /// Returns the number of this hash that is the one looked for.
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

    /// Adds a number that is not in it and greater than those that are; `hash_of` hashes these, and no others.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        number: NonZeroU32,
        hash_of: impl Fn(NonZeroU32) -> Option<u64>,
    ) {
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            self.slots = vec![None; (self.slots.len() * 2).max(64)];
            // In their order, not in that of the slots: so what they stand for is read from its start to its end.
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
