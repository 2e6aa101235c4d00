//! copy_file_range(2), sendfile(2) and cloning.

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("copies between files", |t| {
        let content: Vec<u8> = (0..100_000u32)
            .map(|number| u8::try_from(number % 251).unwrap_or(0))
            .collect();
        let (from, to) = (
            ok!(t, open(t.file("a", &content), O_RDONLY, 0)),
            ok!(t, open(t.file("b", b""), O_RDWR, 0)),
        );
        let mut done = 0u64;
        while (done as usize) < content.len() {
            let copied = ok!(
                t,
                copy_file_range(&from, done, &to, done, content.len() - done as usize)
            );
            if copied == 0 {
                t.stop("copy_file_range: 0 before the end".to_owned());
            }
            done += copied as u64;
        }
        eq!(t, t.content(&t.p("b")) == content, true);
        eq!(t, ok!(t, fstat(&to)).size, 100_000);
        eq!(t, ok!(t, copy_file_range(&from, 100_000, &to, 0, 10)), 0);
    }),
    case("copies a part into the middle and past the end", |t| {
        let (a, b) = (t.file("a", b"0123456789"), t.file("b", b"abcdefghij"));
        let (from, to) = (ok!(t, open(&a, O_RDONLY, 0)), ok!(t, open(&b, O_RDWR, 0)));
        eq!(t, ok!(t, copy_file_range(&from, 2, &to, 4, 3)), 3);
        eq!(t, t.content(&b), b"abcd234hij");
        eq!(t, ok!(t, copy_file_range(&from, 8, &to, 12, 100)), 2);
        eq!(t, t.content(&b), b"abcd234hij\0\x0089");
    }),
    case(
        "copies within one file where the ranges are apart, EINVAL where they overlap",
        |t| {
            let path = t.file("f", b"0123456789");
            let fd = ok!(t, open(&path, O_RDWR, 0));
            eq!(t, ok!(t, copy_file_range(&fd, 0, &fd, 5, 3)), 3);
            eq!(t, t.content(&path), b"0123401289");
            err!(t, EINVAL, copy_file_range(&fd, 0, &fd, 2, 5));
        },
    ),
    case(
        "EBADF for the wrong kind of descriptor, EISDIR for a directory, EINVAL for a FIFO",
        |t| {
            let (a, b) = (t.file("a", b"0123"), t.file("b", b""));
            let (read_only, write_only) =
                (ok!(t, open(&a, O_RDONLY, 0)), ok!(t, open(&b, O_WRONLY, 0)));
            err!(
                t,
                EBADF,
                copy_file_range(&write_only, 0, &write_only, 10, 1)
            );
            err!(
                t,
                EBADF,
                copy_file_range(&read_only, 0, ok!(t, open(&b, O_RDONLY, 0)), 0, 1)
            );
            err!(
                t,
                EBADF,
                copy_file_range(
                    &read_only,
                    0,
                    ok!(t, open(&b, O_WRONLY | O_APPEND, 0)),
                    0,
                    1
                )
            );
            err!(
                t,
                EISDIR,
                copy_file_range(ok!(t, open(t.dir, O_RDONLY, 0)), 0, &write_only, 0, 1)
            );
            ok!(t, mkfifo(t.p("p"), 0o644));
            err!(
                t,
                EINVAL,
                copy_file_range(ok!(t, open(t.p("p"), O_RDWR, 0)), 0, &write_only, 0, 1)
            );
        },
    ),
    case("EFBIG past the process's limit", |t| {
        let (a, b) = (t.file("a", b"0123456789"), t.file("b", b""));
        t.child(|| {
            ignore_signal(libc::SIGXFSZ);
            limit_file_size(100);
            let (from, to) = (ok!(t, open(&a, O_RDONLY, 0)), ok!(t, open(&b, O_RDWR, 0)));
            err!(t, EFBIG, copy_file_range(&from, 0, &to, 100, 10));
            eq!(t, ok!(t, copy_file_range(&from, 0, &to, 0, 10)), 10);
        });
    }),
    case("updates the target's times", |t| {
        let (a, b) = (t.file("a", b"0123456789"), t.file("b", b""));
        let before = t.age(&b);
        ok!(
            t,
            copy_file_range(
                ok!(t, open(&a, O_RDONLY, 0)),
                0,
                ok!(t, open(&b, O_RDWR, 0)),
                0,
                10
            )
        );
        let after = ok!(t, stat(&b));
        is!(t, after.mtime > before.mtime && after.ctime > before.ctime);
        eq!(t, after.size, 10);
    }),
    case("what was just written, and not synced, is copied", |t| {
        let from = ok!(t, open(t.file("a", b""), O_RDWR, 0));
        let to = ok!(t, open(t.file("b", b"old content"), O_RDWR, 0));
        eq!(t, ok!(t, pread(&to, 20, 0)), b"old content");
        ok!(t, pwrite(&from, b"new", 0));
        eq!(t, ok!(t, copy_file_range(&from, 0, &to, 0, 3)), 3);
        eq!(t, ok!(t, pread(&to, 20, 0)), b"new content");
    }),
    case("sendfile copies too", |t| {
        let (a, b) = (t.file("a", &[5; 50_000]), t.file("b", b""));
        let (from, to) = (ok!(t, open(&a, O_RDONLY, 0)), ok!(t, open(&b, O_WRONLY, 0)));
        let mut offset = 0;
        while offset < 50_000 {
            if ok!(
                t,
                rustix::fs::sendfile(&to, &from, Some(&mut offset), 50_000)
            ) == 0
            {
                break;
            }
        }
        eq!(t, t.content(&b), vec![5; 50_000]);
    }),
    case("copies by cp, with and without holes, are equal", |t| {
        let fd = ok!(t, open(t.file("a", b"start"), O_RDWR, 0));
        ok!(t, pwrite(&fd, b"end", 3 << 20));
        for way in [
            "--sparse=auto",
            "--sparse=always",
            "--sparse=never",
            "--reflink=auto",
        ] {
            let done = std::process::Command::new("cp")
                .arg(way)
                .arg(t.p("a"))
                .arg(t.p("b"))
                .status();
            is!(t, done.is_ok_and(|status| status.success()), "cp {way}");
            eq!(t, t.content(&t.p("a")) == t.content(&t.p("b")), true);
        }
    }),
];
