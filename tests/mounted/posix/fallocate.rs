//! fallocate(2) and its modes.

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case(
        "allocates: the size grows, the blocks are there, the content is zeros",
        |t| {
            let path = t.file("f", b"content");
            let fd = ok!(t, open(&path, O_RDWR, 0));
            ok!(t, fallocate(&fd, 0, 0, 1 << 20));
            let stat = ok!(t, stat(&path));
            eq!(t, stat.size, 1 << 20);
            is!(t, stat.blocks >= 2048, "fallocate: {} blocks", stat.blocks);
            eq!(t, ok!(t, pread(&fd, 9, 0)), b"content\0\0");
            // A range within the file changes nothing that is visible.
            ok!(t, fallocate(&fd, 0, 0, 100));
            eq!(t, ok!(t, fstat(&fd)).size, 1 << 20);
        },
    ),
    case("KEEP_SIZE leaves the size", |t| {
        let fd = ok!(t, open(t.file("f", b"content"), O_RDWR, 0));
        ok!(t, fallocate(&fd, libc::FALLOC_FL_KEEP_SIZE, 0, 1 << 20));
        eq!(t, ok!(t, fstat(&fd)).size, 7);
        is!(t, ok!(t, fstat(&fd)).blocks >= 2048);
        eq!(t, t.content(&t.p("f")), b"content");
    }),
    case("PUNCH_HOLE empties a range and frees its blocks", |t| {
        let path = t.file("f", &vec![7; 1 << 20]);
        let fd = ok!(t, open(&path, O_RDWR, 0));
        ok!(t, fsync(&fd));
        let before = ok!(t, fstat(&fd)).blocks;
        ok!(t, fallocate(&fd, PUNCH, 65536, 524_288));
        eq!(t, ok!(t, fstat(&fd)).size, 1 << 20);
        is!(t, ok!(t, fstat(&fd)).blocks < before);
        let content = t.content(&path);
        is!(
            t,
            content[..65536].iter().all(|byte| *byte == 7),
            "fallocate: what is before the hole"
        );
        is!(
            t,
            content[65536..589_824].iter().all(|byte| *byte == 0),
            "fallocate: the hole"
        );
        is!(
            t,
            content[589_824..].iter().all(|byte| *byte == 7),
            "fallocate: what is after the hole"
        );
        err!(
            t,
            EOPNOTSUPP | EINVAL,
            fallocate(&fd, libc::FALLOC_FL_PUNCH_HOLE, 0, 4096)
        );
    }),
    case("ZERO_RANGE where it is supported", |t| {
        let path = t.file("f", &[7; 20_000]);
        let fd = ok!(t, open(&path, O_RDWR, 0));
        match fallocate(&fd, libc::FALLOC_FL_ZERO_RANGE, 100, 10_000) {
            Ok(()) => {
                let content = t.content(&path);
                is!(
                    t,
                    content.len() == 20_000 && content[100..10_100].iter().all(|byte| *byte == 0)
                );
                is!(
                    t,
                    content[..100]
                        .iter()
                        .chain(&content[10_100..])
                        .all(|byte| *byte == 7)
                );
                ok!(
                    t,
                    fallocate(&fd, libc::FALLOC_FL_ZERO_RANGE, 15_000, 10_000)
                );
                eq!(t, ok!(t, fstat(&fd)).size, 25_000);
            }
            // tmpfs has none.
            Err(error) => eq!(t, name_of(error), "EOPNOTSUPP"),
        }
    }),
    case(
        "what is not supported is refused and changes nothing",
        |t| {
            let path = t.file("f", &[7; 65536]);
            let fd = ok!(t, open(&path, O_RDWR, 0));
            err!(t, EOPNOTSUPP, fallocate(&fd, 1 << 20, 0, 4096));
            if t.has(HOME) {
                err!(
                    t,
                    EOPNOTSUPP,
                    fallocate(&fd, libc::FALLOC_FL_COLLAPSE_RANGE, 4096, 4096)
                );
                err!(
                    t,
                    EOPNOTSUPP,
                    fallocate(&fd, libc::FALLOC_FL_INSERT_RANGE, 4096, 4096)
                );
            }
            eq!(t, t.content(&path), vec![7; 65536]);
        },
    ),
    case(
        "EINVAL for an empty or negative range, EBADF for a read-only descriptor",
        |t| {
            let path = t.file("f", b"content");
            let fd = ok!(t, open(&path, O_RDWR, 0));
            err!(t, EINVAL, fallocate(&fd, 0, 0, 0));
            err!(t, EINVAL, fallocate(&fd, 0, 1 << 63, 10));
            err!(
                t,
                EBADF,
                fallocate(ok!(t, open(&path, O_RDONLY, 0)), 0, 0, 100)
            );
            err!(t, EFBIG, fallocate(&fd, 0, (1 << 63) - 10, 100));
            eq!(t, t.content(&path), b"content");
        },
    ),
    case("ENODEV or EISDIR for what is no file", |t| {
        t.mkdir("d");
        err!(
            t,
            EBADF | EISDIR,
            fallocate(ok!(t, open(t.p("d"), O_RDONLY, 0)), 0, 0, 100)
        );
        ok!(t, mkfifo(t.p("p"), 0o644));
        err!(
            t,
            ESPIPE,
            fallocate(ok!(t, open(t.p("p"), O_RDWR, 0)), 0, 0, 100)
        );
    }),
    case("EFBIG past the process's limit", |t| {
        let path = t.file("f", b"content");
        t.child(|| {
            ignore_signal(libc::SIGXFSZ);
            limit_file_size(1000);
            err!(
                t,
                EFBIG,
                fallocate(ok!(t, open(&path, O_RDWR, 0)), 0, 0, 2000)
            );
        });
        eq!(t, ok!(t, stat(&path)).size, 7);
    }),
    case(
        "updates the modification and change times where it changes the file",
        |t| {
            let path = t.file("f", &[7; 65536]);
            for (mode, offset, length) in [(0, 65536, 4096), (PUNCH, 0, 4096)] {
                let before = t.age(&path);
                ok!(
                    t,
                    fallocate(ok!(t, open(&path, O_RDWR, 0)), mode, offset, length)
                );
                let after = ok!(t, stat(&path));
                is!(
                    t,
                    after.ctime > before.ctime,
                    "fallocate mode {mode}: the change time stays"
                );
                is!(
                    t,
                    after.mtime > before.mtime,
                    "fallocate mode {mode}: the modification time stays"
                );
            }
        },
    ),
    case("works on a file that has lost its name", |t| {
        let fd = ok!(t, open(t.file("f", b"content"), O_RDWR, 0));
        ok!(t, unlink(t.p("f")));
        ok!(t, fallocate(&fd, 0, 0, 10_000));
        eq!(t, ok!(t, fstat(&fd)).size, 10_000);
    }),
];

const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
