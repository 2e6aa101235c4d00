//! The user database: users for `--owner USER`, and the names of users and groups.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A user from the machine's user database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserEntry {
    /// The user id.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    /// All groups of the user, including the primary one.
    pub groups: Vec<u32>,
}

/// Finds a user by name or number; `None` if there is no such user. A number needs no entry in the database.
pub fn find(name: &str) -> Option<UserEntry> {
    if let Ok(uid) = name.parse::<u32>() {
        return Some(by_uid(uid).unwrap_or(UserEntry {
            uid,
            gid: uid,
            groups: vec![uid],
        }));
    }
    let name = CString::new(name).ok()?;
    lookup(|pwd, buf, result| {
        // SAFETY: all pointers are valid for the length given, and `name` ends with NUL.
        unsafe { libc::getpwnam_r(name.as_ptr(), pwd, buf.as_mut_ptr(), buf.len(), result) }
    })
}

fn by_uid(uid: u32) -> Option<UserEntry> {
    lookup(|pwd, buf, result| {
        // SAFETY: all pointers are valid for the length given.
        unsafe { libc::getpwuid_r(uid, pwd, buf.as_mut_ptr(), buf.len(), result) }
    })
}

/// Has users, groups and hosts be looked up in files, and hosts by DNS, whatever `/etc/nsswitch.conf` names besides. For a
/// program that is linked statically: other services are libraries for the machine's own C library, which it must not load.
/// To be called before anything else is looked up.
#[cfg(target_env = "gnu")]
pub fn use_builtin_services() {
    unsafe extern "C" {
        // nss.h
        fn __nss_configure_lookup(
            database: *const libc::c_char,
            services: *const libc::c_char,
        ) -> libc::c_int;
    }
    for (database, services) in [
        (c"passwd", c"files"),
        (c"group", c"files"),
        (c"initgroups", c"files"),
        (c"hosts", c"files dns"),
    ] {
        // SAFETY: both are texts that end with NUL, of which the C library makes copies.
        unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
    }
}

type Query<'a> =
    dyn FnMut(*mut libc::passwd, &mut [libc::c_char], *mut *mut libc::passwd) -> libc::c_int + 'a;

fn lookup(
    mut query: impl FnMut(*mut libc::passwd, &mut [libc::c_char], *mut *mut libc::passwd) -> libc::c_int,
) -> Option<UserEntry> {
    let query: &mut Query<'_> = &mut query;
    let mut buf = vec![0; 16 * 1024];
    // SAFETY: passwd is plain data of integers and pointers, for which zero is a valid value.
    let mut pwd: libc::passwd = unsafe { std::mem::zeroed() };
    let mut result = std::ptr::null_mut();
    let failed = query(&raw mut pwd, &mut buf, &raw mut result);
    if failed != 0 || result.is_null() {
        return None;
    }
    let mut groups = vec![0; 1024];
    let mut count = 1024;
    // SAFETY: pw_name points into `buf`, which lives; `groups` has room for `count` entries.
    let found =
        unsafe { libc::getgrouplist(pwd.pw_name, pwd.pw_gid, groups.as_mut_ptr(), &raw mut count) };
    groups.truncate(usize::try_from(count.min(found.max(0))).unwrap_or(0));
    Some(UserEntry {
        uid: pwd.pw_uid,
        gid: pwd.pw_gid,
        groups,
    })
}

/// The largest buffer for a group's entry, which holds the names of all members.
const ROOM: usize = 4 << 20;

/// Returns a user's name; `None` if the database does not have it.
pub fn name(uid: u32) -> Option<Vec<u8>> {
    text(|buf| {
        // SAFETY: passwd is plain data of integers and pointers, for which zero is a valid value.
        let mut pwd: libc::passwd = unsafe { std::mem::zeroed() };
        let mut result = std::ptr::null_mut();
        let (start, length) = (buf.as_mut_ptr(), buf.len());
        // SAFETY: all pointers are valid for the length given.
        let failed = unsafe { libc::getpwuid_r(uid, &raw mut pwd, start, length, &raw mut result) };
        (failed, (!result.is_null()).then_some(pwd.pw_name))
    })
}

/// Returns a user's home directory; `None` if the database does not have it.
pub fn home(uid: u32) -> Option<PathBuf> {
    let path = text(|buf| {
        // SAFETY: passwd is plain data of integers and pointers, for which zero is a valid value.
        let mut pwd: libc::passwd = unsafe { std::mem::zeroed() };
        let mut result = std::ptr::null_mut();
        let (start, length) = (buf.as_mut_ptr(), buf.len());
        // SAFETY: all pointers are valid for the length given.
        let failed = unsafe { libc::getpwuid_r(uid, &raw mut pwd, start, length, &raw mut result) };
        (failed, (!result.is_null()).then_some(pwd.pw_dir))
    })?;
    Some(PathBuf::from(std::ffi::OsString::from_vec(path)))
}

/// Returns a group's name; `None` if the database does not have it.
pub fn group(gid: u32) -> Option<Vec<u8>> {
    text(|buf| {
        // SAFETY: group is plain data of integers and pointers, for which zero is a valid value.
        let mut group: libc::group = unsafe { std::mem::zeroed() };
        let mut result = std::ptr::null_mut();
        let (start, length) = (buf.as_mut_ptr(), buf.len());
        // SAFETY: all pointers are valid for the length given.
        let failed =
            unsafe { libc::getgrgid_r(gid, &raw mut group, start, length, &raw mut result) };
        (failed, (!result.is_null()).then_some(group.gr_name))
    })
}

/// Calls `ask` with growing buffers. The result is a string in the buffer.
fn text(
    ask: impl Fn(&mut [libc::c_char]) -> (libc::c_int, Option<*mut libc::c_char>),
) -> Option<Vec<u8>> {
    let mut buf = vec![0; 16 * 1024];
    loop {
        let (failed, found) = ask(&mut buf);
        if failed == libc::ERANGE && buf.len() < ROOM {
            buf.resize(buf.len() * 4, 0);
            continue;
        }
        // SAFETY: the string ends with NUL and is in `buf`, which lives.
        return found.map(|name| unsafe { CStr::from_ptr(name) }.to_bytes().to_vec());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_by_name_and_number() {
        assert_eq!(find("root").map(|u| (u.uid, u.gid)), Some((0, 0)));
        assert_eq!(find("0"), find("root"));
        assert_eq!(find("nobody-of-this-name"), None);
        assert_eq!(find("4000000").map(|u| u.uid), Some(4_000_000));
    }

    #[test]
    fn numbers_have_names() {
        assert_eq!(name(0), Some(b"root".to_vec()));
        assert_eq!(group(0), Some(b"root".to_vec()));
        assert_eq!((name(4_000_000), group(4_000_000)), (None, None));
    }
}
