//! Time zones: the name of the process's zone (`TZ`), and the machine's zone database.
//!
//! A name is looked up only beneath the database's directory, never as a path: the shell's occupant chooses it.

use std::ffi::CStr;

/// The directory of the zone database (tzfile(5)).
const DATABASE: &str = "/usr/share/zoneinfo";

/// The size limit of a zone file, in bytes; real ones have some 3 KiB.
const MAX_ZONE_BYTES: u64 = 64 * 1024;

/// Returns the bytes of a zone's file in the database (tzfile(5)); `None` if there is no such zone.
pub fn rules(name: &str) -> Option<Vec<u8>> {
    use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, openat2};
    use std::io::Read;
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-/".contains(&byte);
    if name.is_empty() || !name.bytes().all(known) {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(DATABASE, flags | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(&dir, name, flags | OFlags::NONBLOCK, Mode::empty(), resolve).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    let mut file = std::fs::File::from(file).take(MAX_ZONE_BYTES);
    file.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns the zone's name at a time in seconds since 1970: `CET` in winter, `CEST` in summer. `None` for a year out
/// of C's range.
pub fn name(seconds: i64) -> Option<Vec<u8>> {
    // SAFETY: tm is plain data of integers and one pointer, for which zero is a valid value.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call.
    let found = unsafe { libc::localtime_r(&raw const seconds, &raw mut tm) };
    if found.is_null() || tm.tm_zone.is_null() {
        return None;
    }
    // SAFETY: tm_zone is a string that the C library keeps for the life of the process.
    let name = unsafe { CStr::from_ptr(tm.tm_zone) };
    Some(name.to_bytes().to_vec())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_but_to_a_zone() {
        for name in [
            "",
            "/etc/passwd",
            "../../../etc/passwd",
            "Europe",
            "Europe/..",
            "No/Where",
            "a b",
        ] {
            assert_eq!(rules(name), None, "{name}");
        }
    }

    #[test]
    fn a_zone_has_a_name() {
        assert!(!name(0).unwrap().is_empty());
        assert_eq!(name(i64::MAX), None);
    }
}
