//! Time zones: what the process's zone (`TZ`) is called.

use std::ffi::CStr;

/// Returns what the zone is called at a moment, in seconds since 1970: `CET` in winter, `CEST` in summer. Nothing for a
/// moment past the years that C knows.
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
    fn a_zone_has_a_name() {
        assert!(!name(0).unwrap().is_empty());
        assert_eq!(name(i64::MAX), None);
    }
}
