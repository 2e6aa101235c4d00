//! link(2) and linkat(2).

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case(
        "gives a file of any type but directories a second name",
        |t| {
            for (name, kind) in t.kinds() {
                if kind == S_IFDIR {
                    continue;
                }
                let (one, two) = (t.p(name), t.p(format!("{name}-2")));
                t.make(kind, &one);
                eq!(t, ok!(t, lstat(&one)).nlink, 1);
                ok!(t, link(&one, &two));
                let (first, second) = (ok!(t, lstat(&one)), ok!(t, lstat(&two)));
                eq!(t, first, second);
                eq!(t, (first.nlink, first.kind), (2, kind));
                ok!(t, unlink(&one));
                eq!(t, ok!(t, lstat(&two)).nlink, 1);
                ok!(t, unlink(&two));
            }
        },
    ),
    case(
        "both names are one file: content, mode, size and times",
        |t| {
            let (one, two) = (t.file("one", b"content"), t.p("two"));
            ok!(t, link(&one, &two));
            ok!(
                t,
                write(ok!(t, open(&two, O_WRONLY | O_APPEND, 0)), b" and more")
            );
            eq!(t, t.content(&one), b"content and more");
            eq!(t, ok!(t, stat(&one)).size, 16);
            ok!(t, chmod(&one, 0o640));
            eq!(t, ok!(t, stat(&two)).mode, 0o640);
            ok!(t, truncate(&two, 3));
            eq!(t, ok!(t, stat(&one)).size, 3);
            ok!(t, utimensat(&one, OLD, OLD));
            eq!(t, ok!(t, stat(&two)).mtime, OLD);
            eq!(t, ok!(t, stat(&one)), ok!(t, stat(&two)));
        },
    ),
    case(
        "the count is right under each name at each step, across directories",
        |t| {
            t.mkdir("d");
            t.mkdir("d/e");
            let names = ["a", "b", "d/a", "d/b", "d/e/a"];
            t.file("a", b"x");
            for (index, name) in names.iter().enumerate().skip(1) {
                ok!(t, link(t.p(names[index - 1]), t.p(name)));
                for known in &names[..=index] {
                    eq!(t, ok!(t, stat(t.p(known))).nlink, index as u64 + 1);
                }
            }
            for (index, name) in names.iter().enumerate() {
                ok!(t, unlink(t.p(name)));
                for known in &names[index + 1..] {
                    eq!(t, ok!(t, stat(t.p(known))).nlink, 4 - index as u64);
                }
            }
        },
    ),
    case(
        "updates the file's change time and the directory's times",
        |t| {
            let path = t.file("f", b"");
            t.mkdir("d");
            let (dir, file) = (t.age(&t.p("d")), t.age(&path));
            ok!(t, link(&path, t.p("d/g")));
            let (dir_now, now) = (ok!(t, stat(t.p("d"))), ok!(t, stat(&path)));
            is!(t, now.ctime > file.ctime && now.mtime == file.mtime);
            is!(t, dir_now.mtime > dir.mtime && dir_now.ctime > dir.ctime);
        },
    ),
    case("a failed link changes no times", |t| {
        let path = t.file("f", b"");
        t.file("g", b"");
        let (dir, file) = (t.age(t.dir), t.age(&path));
        err!(t, EEXIST, link(&path, t.p("g")));
        eq!(t, ok!(t, stat(&path)), file);
        eq!(t, ok!(t, stat(t.dir)).mtime, dir.mtime);
    }),
    case("EEXIST for a name of any type", |t| {
        t.file("f", b"");
        for (name, kind) in t.kinds() {
            t.make(kind, &t.p(name));
            err!(t, EEXIST, link(t.p("f"), t.p(name)));
        }
        err!(t, EEXIST, link(t.p("f"), t.p("f")));
        eq!(t, ok!(t, stat(t.p("f"))).nlink, 1);
    }),
    case("EPERM for a directory", |t| {
        t.mkdir("d");
        err!(t, EPERM, link(t.p("d"), t.p("e")));
        err!(t, ENOENT, lstat(t.p("e")));
    }),
    case("ENOENT for a missing source or parent", |t| {
        t.file("f", b"");
        err!(t, ENOENT, link(t.p("missing"), t.p("g")));
        err!(t, ENOENT, link(t.p("f"), t.p("missing/g")));
        err!(t, ENOENT, link("", t.p("g")));
        err!(t, ENOENT, link(t.p("f"), ""));
    }),
    case("ENOTDIR for a component that is no directory", |t| {
        t.file("f", b"");
        t.file("g", b"");
        err!(t, ENOTDIR, link(t.p("f/x"), t.p("h")));
        err!(t, ENOTDIR, link(t.p("f"), t.p("g/x")));
        err!(t, ENOTDIR | ENOENT, link(t.p("f"), t.p("h/")));
    }),
    case("EXDEV for another file system", |t| {
        t.file("f", b"");
        err!(t, EXDEV, link(t.p("f"), t.elsewhere()));
    }),
    case("ENAMETOOLONG for a component of 256 bytes", |t| {
        t.file("f", b"");
        ok!(t, link(t.p("f"), t.p("n".repeat(255))));
        err!(t, ENAMETOOLONG, link(t.p("f"), t.p("n".repeat(256))));
        err!(t, ENAMETOOLONG, link(t.p("n".repeat(256)), t.p("g")));
    }),
    case(
        "EACCES for a directory that may not be written or searched",
        |t| {
            t.open_dir("d");
            ok!(t, creat(t.p("d/f"), 0o666));
            ok!(t, chown(t.p("d/f"), Some(ANN), Some(ANN)));
            t.dir_of(ANN, "closed", 0o555);
            t.dir_of(ANN, "unsearchable", 0o666);
            t.user(ANN, || {
                err!(t, EACCES, link(t.p("d/f"), t.p("closed/g")));
                err!(t, EACCES, link(t.p("d/f"), t.p("unsearchable/g")));
                err!(t, EACCES, link(t.p("unsearchable/f"), t.p("d/g")));
                ok!(t, link(t.p("d/f"), t.p("d/g")));
            });
            t.user(BOB, || err!(t, EACCES, link(t.p("d/f"), t.p("closed/g"))));
            eq!(t, ok!(t, stat(t.p("d/f"))).nlink, 2);
        },
    )
    .needs(USERS),
    case("does not follow a link unless told to", |t| {
        t.file("f", b"content");
        ok!(t, symlink("f", t.p("l")));
        ok!(t, link(t.p("l"), t.p("l2")));
        eq!(t, ok!(t, lstat(t.p("l2"))).kind, S_IFLNK);
        let dir = ok!(t, open(t.dir, O_PATH, 0));
        ok!(t, linkat(&dir, "l", &dir, "f2", libc::AT_SYMLINK_FOLLOW));
        eq!(t, ok!(t, lstat(t.p("f2"))).ino, ok!(t, lstat(t.p("f"))).ino);
        ok!(t, symlink("b", t.p("a")));
        ok!(t, symlink("a", t.p("b")));
        err!(t, ELOOP, link(t.p("a/x"), t.p("g")));
        err!(t, ELOOP, link(t.p("f"), t.p("a/x")));
    })
    .needs(LINKS),
    case(
        "linkat: EINVAL for an unknown flag, ENOENT for an open file that has lost its last name",
        |t| {
            let dir = ok!(t, open(t.dir, O_PATH, 0));
            t.file("f", b"");
            err!(t, EINVAL, linkat(&dir, "f", &dir, "g", 0x1));
            let fd = ok!(t, open(t.p("f"), O_RDWR, 0));
            ok!(t, unlink(t.p("f")));
            let by_fd = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
            err!(
                t,
                ENOENT,
                linkat(&dir, by_fd, &dir, "g", libc::AT_SYMLINK_FOLLOW)
            );
            eq!(t, t.names(t.dir), Vec::<String>::new());
        },
    ),
    case("linkat names an open file that still has a name", |t| {
        let dir = ok!(t, open(t.dir, O_PATH, 0));
        let fd = ok!(t, open(t.file("f", b"content"), O_RDONLY, 0));
        let by_fd = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
        ok!(t, linkat(&dir, by_fd, &dir, "g", libc::AT_SYMLINK_FOLLOW));
        eq!(t, t.content(&t.p("g")), b"content");
        eq!(t, ok!(t, fstat(&fd)).nlink, 2);
    }),
    case("a removed name can be linked again from the other", |t| {
        let path = t.file("f", b"content");
        for _ in 0..10 {
            ok!(t, link(&path, t.p("g")));
            ok!(t, unlink(t.p("g")));
        }
        eq!(t, ok!(t, stat(&path)).nlink, 1);
        err!(t, ENOENT, stat(t.p("g")));
    }),
];
