//! Names as numbers: each name is kept once, however many places have it, and a place is two numbers.
//!
//! What records touched can be a million names, so what one costs decides how much memory a question about the past takes.

use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

/// A name that a `Pool` keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Label(u32);

/// Every name that was met.
#[derive(Debug, Default)]
pub(super) struct Pool {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    /// By hash, with open addressing: a label's number and one, or 0. Its length is a power of two, a quarter of it free.
    table: Vec<u32>,
    hasher: RandomState,
}

impl Pool {
    /// Returns the name.
    pub(super) fn text(&self, label: Label) -> &[u8] {
        let at = label.0 as usize;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before));
        let end = self.ends.get(at).copied().unwrap_or_default();
        let start = start.copied().unwrap_or_default();
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// Finds the label of a name that was met before.
    pub(super) fn find(&self, name: &[u8]) -> Option<Label> {
        self.seek(name).and_then(|(_, label)| label)
    }

    /// Returns the label of a name.
    pub(super) fn label(&mut self, name: &[u8]) -> Label {
        if let Some(label) = self.find(name) {
            return label;
        }
        if (self.ends.len() + 1) * 4 > self.table.len() * 3 {
            self.grow();
        }
        // Four thousand million names do not fit into memory.
        let label = Label(u32::try_from(self.ends.len()).unwrap_or(u32::MAX));
        if let Some((at, None)) = self.seek(name)
            && let Some(free) = self.table.get_mut(at)
        {
            *free = label.0.saturating_add(1);
        }
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len());
        label
    }

    /// Where in the table a name is or would be.
    fn seek(&self, name: &[u8]) -> Option<(usize, Option<Label>)> {
        let last = self.table.len().checked_sub(1)?;
        let mut at = self.hasher.hash_one(name) as usize & last;
        loop {
            let label = match self.table.get(at)?.checked_sub(1) {
                None => return Some((at, None)),
                Some(number) => Label(number),
            };
            if self.text(label) == name {
                return Some((at, Some(label)));
            }
            at = (at + 1) & last;
        }
    }

    fn grow(&mut self) {
        let size = (self.table.len() * 2).max(64);
        self.table = vec![0; size];
        for number in 0..u32::try_from(self.ends.len()).unwrap_or(u32::MAX) {
            let label = Label(number);
            if let Some((at, None)) = self.seek(self.text(label))
                && let Some(free) = self.table.get_mut(at)
            {
                *free = number.saturating_add(1);
            }
        }
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
        assert_eq!(pool.find(b"a"), None);
        let names: Vec<String> = (0..5000).map(|i| format!("{}", i * i % 4001)).collect();
        let labels: Vec<Label> = names.iter().map(|n| pool.label(n.as_bytes())).collect();
        for (name, label) in names.iter().zip(&labels) {
            assert_eq!(pool.text(*label), name.as_bytes());
            assert_eq!(pool.find(name.as_bytes()), Some(*label));
        }
        assert_eq!(
            (pool.find(b""), pool.label(b"") == pool.label(b"")),
            (None, true)
        );
        assert!(pool.ends.len() < names.len());
    }
}
