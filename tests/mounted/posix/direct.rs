//! O_DIRECT: where it is supported it must be correct, also in combination with the page cache.

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

const CASES: &[Case] = &[
    case("writes and reads aligned blocks", |t| {
        let path = t.file("f", b"");
        let Ok(fd) = open(&path, O_RDWR | O_DIRECT, 0) else {
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
        let Ok(direct) = open(&path, O_RDWR | O_DIRECT, 0) else {
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
        let Ok(fd) = open(&path, O_RDONLY | O_DIRECT, 0) else {
            return;
        };
        eq!(t, ok!(t, pread_aligned(&fd, 8192, 0)), vec![b'x'; 5000]);
        eq!(t, ok!(t, pread_aligned(&fd, 4096, 8192)), b"");
    }),
    case(
        "is there at all, or refused with EINVAL, at open and by fcntl alike",
        |t| {
            let path = t.file("f", b"");
            match open(&path, O_RDWR | O_DIRECT, 0) {
                Ok(fd) => drop(ok!(t, rustix::fs::fcntl_getfl(&fd))),
                Err(error) => eq!(t, name_of(error), "EINVAL"),
            }
        },
    ),
    case("with O_TRUNC and O_CREAT", |t| {
        let path = t.file("f", &[1; 10_000]);
        let Ok(fd) = open(&path, O_RDWR | O_DIRECT | O_TRUNC | O_CREAT, 0o644) else {
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
