//! O_DIRECT: where it is supported it must be correct, also in combination with the page cache.

use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::trial::*;
use crate::common::calls::*;

/// Opens with O_DIRECT, which must go wherever the file system of the temporary directory has it: a home's is the store's. Where that
/// has none, the case is skipped.
fn direct(t: &Trial<'_>, path: &Path, flags: i32) -> Option<OwnedFd> {
    match open(path, flags, 0o644) {
        Err(Errno::INVAL) if open(std::env::temp_dir(), O_TMPFILE | O_RDWR | O_DIRECT, 0o600).is_err() => {
            crate::need::skipped("direct", "no O_DIRECT on the file system of the temporary directory");
            None
        }
        opened => Some(ok!(t, opened)),
    }
}

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("writes and reads aligned blocks", |t| {
        let path = t.file("f", b"");
        let Some(fd) = direct(t, &path, O_RDWR | O_DIRECT) else {
            return;
        };
        let block = Aligned::filled(b'd', 65536);
        eq!(t, ok!(t, pwrite(&fd, block.bytes(), 0)), 65536);
        eq!(t, ok!(t, pwrite(&fd, block.bytes(), 65536)), 65536);
        eq!(t, ok!(t, pread_aligned(&fd, 65536, 65536)), block.bytes());
        eq!(t, ok!(t, stat(&path)).size, 131_072);
        eq!(t, t.content(&path), vec![b'd'; 131_072]);
    }),
    case("direct and cached descriptors see one content", |t| {
        let path = t.file("f", &[b'a'; 16384]);
        let cached = ok!(t, open(&path, O_RDWR, 0));
        let Some(direct) = direct(t, &path, O_RDWR | O_DIRECT) else {
            return;
        };
        eq!(t, ok!(t, pread(&cached, 4, 4096)), b"aaaa");
        ok!(
            t,
            pwrite(&direct, Aligned::filled(b'b', 4096).bytes(), 4096)
        );
        eq!(t, ok!(t, pread(&cached, 4, 4096)), b"bbbb");
        ok!(t, pwrite(&cached, b"cached", 8192));
        eq!(
            t,
            &ok!(t, pread_aligned(&direct, 4096, 8192))[..8],
            b"cachedaa"
        );
        // Extending through one shows through the other.
        ok!(
            t,
            pwrite(&direct, Aligned::filled(b'e', 4096).bytes(), 16384)
        );
        eq!(t, ok!(t, fstat(&cached)).size, 20480);
        eq!(t, ok!(t, pread(&cached, 2, 20478)), b"ee");
    }),
    case("reading stops at the end of the file", |t| {
        let path = t.file("f", &[b'x'; 5000]);
        let Some(fd) = direct(t, &path, O_RDONLY | O_DIRECT) else {
            return;
        };
        eq!(t, ok!(t, pread_aligned(&fd, 8192, 0)), vec![b'x'; 5000]);
        eq!(t, ok!(t, pread_aligned(&fd, 4096, 8192)), b"");
    }),
    case("open and fcntl agree on it", |t| {
        let path = t.file("f", b"");
        let Some(fd) = direct(t, &path, O_RDWR | O_DIRECT) else {
            return;
        };
        is!(t, ok!(t, fcntl_getfl(&fd)).contains(OFlags::DIRECT));
        let plain = ok!(t, open(&path, O_RDWR, 0));
        is!(t, !ok!(t, fcntl_getfl(&plain)).contains(OFlags::DIRECT));
        ok!(t, fcntl_setfl(&plain, OFlags::DIRECT));
        is!(t, ok!(t, fcntl_getfl(&plain)).contains(OFlags::DIRECT));
    }),
    case("with O_TRUNC and O_CREAT", |t| {
        let path = t.file("f", &[1; 10_000]);
        let Some(fd) = direct(t, &path, O_RDWR | O_DIRECT | O_TRUNC | O_CREAT) else {
            return;
        };
        eq!(t, ok!(t, fstat(&fd)).size, 0);
        ok!(t, pwrite(&fd, Aligned::filled(b'n', 4096).bytes(), 0));
        let new = ok!(
            t,
            open(t.p("g"), O_RDWR | O_DIRECT | O_CREAT | O_EXCL, 0o644)
        );
        ok!(t, pwrite(&new, Aligned::filled(b'g', 4096).bytes(), 0));
        eq!(t, t.content(&path), vec![b'n'; 4096]);
        eq!(t, t.content(&t.p("g")), vec![b'g'; 4096]);
    }),
];
