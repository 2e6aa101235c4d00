//! Names as numbers: each name is kept once, however many places have it, and a place is two numbers.
//!
//! What records touched can be a million names, so what one costs decides how much memory a question about the past takes.

use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::num::NonZeroU32;

use super::table::Table;

/// A name that a `Pool` keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(NonZeroU32);

/// Every name that was met.
#[derive(Debug, Default)]
pub(in crate::operator) struct Pool {
    bytes: Vec<u8>,
    /// Where each ends, from where its block starts.
    ends: Vec<u32>,
    /// Where each block of names starts.
    blocks: Vec<usize>,
    labels: Table,
    hasher: RandomState,
}

/// So many names make a block: together they are far shorter than 4 GiB.
const BLOCK: usize = 4096;

impl Pool {
    /// Returns the name.
    pub(in crate::operator) fn text(&self, label: Label) -> &[u8] {
        let at = label.0.get() as usize - 1;
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

    /// Returns the label of a name.
    pub(super) fn label(&mut self, name: &[u8]) -> Label {
        let hash = self.hasher.hash_one(name);
        if let Some(label) = self.find(hash, name) {
            return label;
        }
        if self.ends.len().is_multiple_of(BLOCK) {
            self.blocks.push(self.bytes.len());
        }
        self.bytes.extend_from_slice(name);
        let block = self.blocks.last().copied().unwrap_or_default();
        let end = u32::try_from(self.bytes.len() - block);
        self.ends.push(end.unwrap_or(u32::MAX));
        // Four thousand million names do not fit into memory.
        let number = u32::try_from(self.ends.len()).ok();
        let number = number.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX);
        let mut labels = std::mem::take(&mut self.labels);
        labels.insert(hash, number, |known| {
            self.hasher.hash_one(self.text(Label(known)))
        });
        self.labels = labels;
        Label(number)
    }

    fn find(&self, hash: u64, name: &[u8]) -> Option<Label> {
        let is_it = |number| self.text(Label(number)) == name;
        self.labels.find(hash, is_it).map(Label)
    }
}

/// Hashes numbers that this program has given out itself, one after the other: nobody can choose them so that they meet.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::operator) struct Numbers(u64);

/// For maps by such numbers.
pub(in crate::operator) type ByNumber = BuildHasherDefault<Numbers>;

impl Hasher for Numbers {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        // The golden ratio's digits: neighbours end far from each other, in the high bits too, which hash maps look at.
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_label() {
        let mut pool = Pool::default();
        let names: Vec<String> = (0..50_000u64)
            .map(|i| format!("{}", i * i % 40_009))
            .collect();
        let labels: Vec<Label> = names.iter().map(|n| pool.label(n.as_bytes())).collect();
        for (name, label) in names.iter().zip(&labels) {
            assert_eq!(pool.text(*label), name.as_bytes());
            assert_eq!(pool.label(name.as_bytes()), *label);
        }
        let distinct: std::collections::HashSet<&String> = names.iter().collect();
        assert_eq!(pool.ends.len(), distinct.len());
        let empty = pool.label(b"");
        assert_eq!((pool.label(b""), pool.text(empty)), (empty, &b""[..]));
    }
}
