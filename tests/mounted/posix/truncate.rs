//! truncate(2) and ftruncate(2).

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("shortens, lengthens with zeros, and reaches 0", |t| {
        let by_path = |t: &Trial<'_>, length| truncate(t.p("f"), length);
        let by_fd = |t: &Trial<'_>, length| {
            open(t.p("f"), O_WRONLY, 0).and_then(|fd| ftruncate(fd, length))
        };
        for cut in [by_path as fn(&Trial<'_>, i64) -> Sys<()>, by_fd] {
            let path = t.file("f", b"0123456789");
            ok!(t, cut(t, 5));
            eq!(t, t.content(&path), b"01234");
            ok!(t, cut(t, 8));
            eq!(t, t.content(&path), b"01234\0\0\0");
            ok!(t, cut(t, 8));
            eq!(t, ok!(t, stat(&path)).size, 8);
            ok!(t, cut(t, 0));
            eq!(t, t.content(&path), b"");
            ok!(t, cut(t, 10_000));
            eq!(t, t.content(&path), vec![0; 10_000]);
            ok!(t, cut(t, 1));
            ok!(t, cut(t, 9000));
            eq!(t, t.content(&path), vec![0; 9000]);
            ok!(t, unlink(&path));
        }
    }),
    case("what was cut off does not come back", |t| {
        let path = t.file("f", &[7; 10_000]);
        ok!(t, truncate(&path, 100));
        ok!(t, truncate(&path, 10_000));
        let content = t.content(&path);
        is!(
            t,
            content[..100].iter().all(|byte| *byte == 7)
                && content[100..].iter().all(|byte| *byte == 0)
        );
    }),
    case(
        "updates the modification and change times, also where the length stays",
        |t| {
            let path = t.file("f", b"content");
            for length in [3, 3, 10, 0] {
                let before = t.age(&path);
                ok!(t, ftruncate(ok!(t, open(&path, O_WRONLY, 0)), length));
                let after = ok!(t, stat(&path));
                is!(
                    t,
                    after.mtime > before.mtime && after.ctime > before.ctime,
                    "ftruncate to {length}: the times stay"
                );
            }
            for length in [3, 10, 0] {
                let before = t.age(&path);
                ok!(t, truncate(&path, length));
                let after = ok!(t, stat(&path));
                is!(
                    t,
                    after.mtime > before.mtime && after.ctime > before.ctime,
                    "truncate to {length}: the times stay"
                );
            }
        },
    ),
    case(
        "an open descriptor sees the new length, by whatever door",
        |t| {
            let path = t.file("f", b"0123456789");
            let fd = ok!(t, open(&path, O_RDWR, 0));
            ok!(t, truncate(&path, 4));
            eq!(t, ok!(t, fstat(&fd)).size, 4);
            eq!(t, ok!(t, pread(&fd, 20, 0)), b"0123");
            ok!(t, ftruncate(&fd, 6));
            eq!(t, ok!(t, stat(&path)).size, 6);
            ok!(t, pwrite(&fd, b"x", 9));
            eq!(t, t.content(&path), b"0123\0\0\0\0\0x");
        },
    ),
    case("the position of a descriptor stays", |t| {
        let fd = ok!(t, open(t.file("f", b"0123456789"), O_RDWR, 0));
        ok!(t, read(&fd, 8));
        ok!(t, ftruncate(&fd, 2));
        eq!(t, ok!(t, lseek(&fd, SeekFrom::Current(0))), 8);
        ok!(t, write(&fd, b"x"));
        eq!(t, t.content(&t.p("f")), b"01\0\0\0\0\0\0x");
    }),
    case(
        "EISDIR for a directory, EINVAL for a negative length and for what has no length",
        |t| {
            t.mkdir("d");
            t.file("f", b"x");
            ok!(t, mkfifo(t.p("p"), 0o644));
            err!(t, EISDIR, truncate(t.p("d"), 0));
            err!(t, EINVAL, truncate(t.p("f"), -1));
            err!(t, EINVAL, ftruncate(ok!(t, open(t.p("f"), O_RDWR, 0)), -1));
            err!(t, EINVAL, ftruncate(ok!(t, open(t.p("f"), O_RDONLY, 0)), 0));
            err!(t, EINVAL, ftruncate(ok!(t, open(t.p("d"), O_RDONLY, 0)), 0));
            err!(t, EINVAL, truncate(t.p("p"), 0));
            eq!(t, t.content(&t.p("f")), b"x");
        },
    ),
    case("ENOENT, ENOTDIR and ENAMETOOLONG", |t| {
        t.file("f", b"");
        err!(t, ENOENT, truncate(t.p("missing"), 0));
        err!(t, ENOTDIR, truncate(t.p("f/x"), 0));
        err!(t, ENAMETOOLONG, truncate(t.p("n".repeat(256)), 0));
        err!(t, ENOENT, stat(t.p("missing")));
    }),
    case(
        "EACCES without the right to write; a descriptor keeps the right",
        |t| {
            let path = t.file_of(ANN, "f", 0o644);
            t.user(BOB, || err!(t, EACCES, truncate(&path, 0)));
            t.user(ANN, || {
                let fd = ok!(t, open(&path, O_RDWR, 0));
                ok!(t, chmod(&path, 0o444));
                err!(t, EACCES, truncate(&path, 0));
                ok!(t, ftruncate(&fd, 3));
            });
            eq!(t, t.content(&path), b"con");
        },
    )
    .needs(USERS),
    case("EFBIG past the process's limit, and nothing changes", |t| {
        let path = t.file("f", b"content");
        t.child(|| {
            ignore_signal(libc::SIGXFSZ);
            limit_file_size(100);
            err!(t, EFBIG, truncate(&path, 101));
            err!(t, EFBIG, ftruncate(ok!(t, open(&path, O_WRONLY, 0)), 101));
            ok!(t, truncate(&path, 100));
        });
        eq!(t, ok!(t, stat(&path)).size, 100);
    }),
    case("EFBIG or EINVAL past what a file can have", |t| {
        let path = t.file("f", b"content");
        if ok!(t, statvfs(t.dir)).f_bsize != 4096 || truncate(&path, i64::MAX).is_ok() {
            // A file system without such a limit (tmpfs) is right too.
            return;
        }
        err!(t, EFBIG | EINVAL, truncate(&path, i64::MAX));
        eq!(t, t.content(&path), b"content");
    }),
    case("works on a file that has lost its name", |t| {
        let fd = ok!(t, open(t.file("f", b"content"), O_RDWR, 0));
        ok!(t, unlink(t.p("f")));
        ok!(t, ftruncate(&fd, 3));
        eq!(t, ok!(t, pread(&fd, 10, 0)), b"con");
        ok!(t, ftruncate(&fd, 0));
        eq!(t, ok!(t, fstat(&fd)).size, 0);
    }),
    case("frees and does not take blocks", |t| {
        let path = t.file("f", &vec![1; 1 << 20]);
        ok!(t, fsync(ok!(t, open(&path, O_WRONLY, 0))));
        is!(t, ok!(t, stat(&path)).blocks >= 2048);
        ok!(t, truncate(&path, 0));
        eq!(t, ok!(t, stat(&path)).blocks, 0);
        ok!(t, truncate(&path, 1 << 30));
        is!(
            t,
            ok!(t, stat(&path)).blocks < 100,
            "truncate: a hole takes blocks"
        );
    }),
];
