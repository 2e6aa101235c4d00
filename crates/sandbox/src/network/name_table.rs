//! [`NameTable`]: the addresses that allowed names have in one sandbox. They mean something there and nowhere else.

use std::collections::HashMap;
use std::net::Ipv4Addr;

/// The first address that is given out; 198.18.0.0/15 belongs to nobody (RFC 2544).
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// The most names that one sandbox may ask for: a list with `*.host` allows any number.
const MAX_NAMES: u32 = 4096;

/// Names and their addresses: one address for a name, and never another name's.
#[derive(Debug, Default)]
pub(super) struct NameTable {
    by_name: HashMap<String, Ipv4Addr>,
    by_address: HashMap<Ipv4Addr, String>,
}

impl NameTable {
    /// Returns a name's address; nothing if there are too many names.
    pub(super) fn address_of(&mut self, name: &str) -> Option<Ipv4Addr> {
        if let Some(address) = self.by_name.get(name) {
            return Some(*address);
        }
        let count = u32::try_from(self.by_name.len()).ok()?;
        if count >= MAX_NAMES {
            return None;
        }
        let address = Ipv4Addr::from_bits(FIRST_ADDRESS.to_bits() + count);
        self.by_name.insert(name.to_owned(), address);
        self.by_address.insert(address, name.to_owned());
        Some(address)
    }

    /// Returns the name that has an address here.
    pub(super) fn name_of(&self, address: Ipv4Addr) -> Option<&str> {
        self.by_address.get(&address).map(String::as_str)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn one_address_for_each_name_and_an_end() {
        let mut names = NameTable::default();
        let first = names.address_of("a.example").unwrap();
        let second = names.address_of("b.example").unwrap();
        assert_eq!(names.address_of("a.example"), Some(first));
        assert_ne!(first, second);
        assert_eq!(names.name_of(first), Some("a.example"));
        assert_eq!(names.name_of(Ipv4Addr::new(198, 18, 0, 99)), None);
        for number in 2..MAX_NAMES {
            let address = names.address_of(&format!("{number}.example")).unwrap();
            assert!(matches!(address.octets(), [198, 18 | 19, _, _]));
        }
        assert_eq!(names.address_of("more.example"), None);
        assert_eq!(names.address_of("b.example"), Some(second));
    }
}
