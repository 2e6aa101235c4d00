//! The interner of names: each name is stored once, however many places use it, and a place is two numbers.
//!
//! Records can name a million files, so the size of a name decides how much memory a question about the past takes.

use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::num::NonZeroU32;

use crate::operator::past::disk::number_table::NumberTable;

/// The id of an interned name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(NonZeroU32);

/// All names seen so far.
#[derive(Debug, Default)]
pub(in crate::operator) struct NameInterner {
    bytes: Vec<u8>,
    /// The end of each name, relative to the start of its block.
    ends: Vec<u32>,
    /// The start of each block of names.
    blocks: Vec<usize>,
    name_ids: NumberTable,
    seeds: HashSeeds,
}

/// Random hash seeds, unknown to those who choose names.
#[derive(Debug)]
struct HashSeeds([u64; 2]);

/// The number of names in a block: few enough to stay far below 4 GiB.
const BLOCK: usize = 4096;

impl NameInterner {
    /// Returns the name with an id.
    pub(in crate::operator) fn text(&self, name_id: NameId) -> &[u8] {
        let at = name_id.0.get() as usize - 1;
        let block = self.blocks.get(at / BLOCK).copied().unwrap_or_default();
        let start = match at % BLOCK {
            0 => 0,
            _ => self.ends.get(at - 1).copied().unwrap_or_default(),
        };
        let end = self.ends.get(at).copied().unwrap_or_default();
        self.bytes
            .get(block + start as usize..block + end as usize)
            .unwrap_or_default()
    }

    /// Returns the id of a name, interning it if it is new.
    pub(in crate::operator) fn name_id(&mut self, name: &[u8]) -> NameId {
        let hash = self.hash(name);
        if let Some(name_id) = self.find(hash, name) {
            return name_id;
        }
        if self.ends.len().is_multiple_of(BLOCK) {
            self.blocks.push(self.bytes.len());
        }
        self.bytes.extend_from_slice(name);
        let block = self.blocks.last().copied().unwrap_or_default();
        let end = u32::try_from(self.bytes.len() - block);
        self.ends.push(end.unwrap_or(u32::MAX));
        // Four billion names do not fit into memory.
        let number = u32::try_from(self.ends.len()).ok();
        let number = number.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX);
        let mut name_ids = std::mem::take(&mut self.name_ids);
        name_ids.insert(hash, number, |known| {
            Some(self.hash(self.text(NameId(known))))
        });
        self.name_ids = name_ids;
        NameId(number)
    }

    /// Hashes a name eight bytes at a time: this runs several times for each record, and most names are short.
    fn hash(&self, name: &[u8]) -> u64 {
        let HashSeeds([one, two]) = self.seeds;
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            (product ^ (product >> 64)) as u64
        };
        let mut state = one ^ name.len() as u64;
        let (words, rest) = name.as_chunks();
        for word in words {
            state = fold(state ^ u64::from_le_bytes(*word), two);
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        fold(state ^ u64::from_le_bytes(last), two.rotate_left(32))
    }

    fn find(&self, hash: u64, name: &[u8]) -> Option<NameId> {
        let is_it = |number| self.text(NameId(number)) == name;
        self.name_ids.find(hash, is_it).map(NameId)
    }
}

impl Default for HashSeeds {
    fn default() -> HashSeeds {
        let random = RandomState::new();
        HashSeeds([0, 1].map(|number: u64| random.hash_one(number) | 1))
    }
}

/// Hashes numbers that this program assigns in sequence: nobody can choose them to collide.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::operator) struct NumberHasher(u64);

/// The hasher for maps keyed by such numbers.
pub(in crate::operator) type NumberHash = BuildHasherDefault<NumberHasher>;

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.write_u64(u64::from_ne_bytes(*word));
        }
        for byte in rest {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        // The golden ratio spreads neighbours, in the high bits too, which hash maps use.
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interned_name_has_a_single_id() {
        let mut interner = NameInterner::default();
        let names: Vec<String> = (0..50_000u64)
            .map(|i| format!("{}", i * i % 40_009))
            .collect();
        let name_ids: Vec<NameId> = names
            .iter()
            .map(|n| interner.name_id(n.as_bytes()))
            .collect();
        for (name, name_id) in names.iter().zip(&name_ids) {
            assert_eq!(interner.text(*name_id), name.as_bytes());
            assert_eq!(interner.name_id(name.as_bytes()), *name_id);
        }
        let distinct: std::collections::HashSet<&String> = names.iter().collect();
        assert_eq!(interner.ends.len(), distinct.len());
        let empty = interner.name_id(b"");
        assert_eq!(
            (interner.name_id(b""), interner.text(empty)),
            (empty, &b""[..])
        );
    }
}
