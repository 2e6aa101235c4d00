//! rmdir(2).

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("removes an empty directory, and its name is free", |t| {
        t.mkdir("d");
        ok!(t, rmdir(t.p("d")));
        err!(t, ENOENT, lstat(t.p("d")));
        eq!(t, t.names(t.dir), Vec::<String>::new());
        t.file("d", b"now a file");
        ok!(t, unlink(t.p("d")));
        ok!(t, mkdir(t.p("d"), 0o755));
        ok!(t, rmdir(t.p("d/")));
    }),
    case("updates the parent's times and link count", |t| {
        t.mkdir("d");
        let before = t.age(t.dir);
        ok!(t, rmdir(t.p("d")));
        let after = ok!(t, stat(t.dir));
        is!(t, after.mtime > before.mtime && after.ctime > before.ctime);
        eq!(t, after.nlink + 1, before.nlink);
    }),
    case(
        "ENOTEMPTY for a directory that holds anything, and a failure changes nothing",
        |t| {
            for (name, kind) in t.kinds() {
                let dir = t.mkdir(format!("in-{name}"));
                t.make(kind, &dir.join("x"));
                let before = t.age(t.dir);
                err!(t, ENOTEMPTY | EEXIST, rmdir(&dir));
                eq!(t, ok!(t, stat(t.dir)), before);
                t.remove(kind, &dir.join("x"));
                ok!(t, rmdir(&dir));
            }
        },
    ),
    case("ENOTDIR for anything else", |t| {
        for (name, kind) in t.kinds() {
            if kind != S_IFDIR {
                t.make(kind, &t.p(name));
                err!(t, ENOTDIR, rmdir(t.p(name)));
                ok!(t, lstat(t.p(name)));
            }
        }
        err!(t, ENOTDIR, rmdir(t.p("file/x")));
    }),
    case("ENOENT for a missing name", |t| {
        err!(t, ENOENT, rmdir(t.p("missing")));
        err!(t, ENOENT, rmdir(t.p("missing/d")));
        err!(t, ENOENT, rmdir(""));
    }),
    case("EINVAL for a path that ends in ., ENOTEMPTY for ..", |t| {
        t.mkdir("d");
        err!(t, EINVAL, rmdir(t.p("d/.")));
        err!(t, ENOTEMPTY, rmdir(t.p("d/..")));
    }),
    case("EBUSY for the root of a mount", |t| {
        t.mkdir("d");
        t.child(|| {
            ok!(t, unshare_mounts());
            ok!(
                t,
                rustix::mount::mount(
                    "tmpfs",
                    t.p("d"),
                    "tmpfs",
                    rustix::mount::MountFlags::empty(),
                    None
                )
            );
            err!(t, EBUSY, rmdir(t.p("d")));
            err!(t, EBUSY, rename(t.p("d"), t.p("e")));
            t.mkdir("other");
            err!(t, EBUSY, rename(t.p("other"), t.p("d")));
        });
        ok!(t, rmdir(t.p("d")));
    })
    .needs(ROOT),
    case("EBUSY for the home itself", |t| {
        err!(t, EBUSY, rmdir(t.root));
    })
    .needs(HOME | ROOT),
    case("ENAMETOOLONG for a component of 256 bytes", |t| {
        ok!(t, mkdir(t.p("n".repeat(255)), 0o755));
        ok!(t, rmdir(t.p("n".repeat(255))));
        err!(t, ENAMETOOLONG, rmdir(t.p("n".repeat(256))));
    }),
    case(
        "EACCES for a parent that may not be written or searched",
        |t| {
            let closed = t.dir_of(ANN, "closed", 0o755);
            ok!(t, mkdir(closed.join("d"), 0o777));
            ok!(t, chown(closed.join("d"), Some(BOB), Some(BOB)));
            t.user(BOB, || err!(t, EACCES, rmdir(closed.join("d"))));
            ok!(t, chmod(&closed, 0o555));
            t.user(ANN, || err!(t, EACCES, rmdir(closed.join("d"))));
            ok!(t, chmod(&closed, 0o666));
            t.user(ANN, || err!(t, EACCES, rmdir(closed.join("d"))));
            ok!(t, chmod(&closed, 0o300));
            t.user(ANN, || ok!(t, rmdir(closed.join("d"))));
        },
    )
    .needs(USERS),
    case("a directory's own mode does not protect it", |t| {
        ok!(t, mkdir(t.p("d"), 0));
        ok!(t, rmdir(t.p("d")));
    }),
    case(
        "a removed directory that is still open is empty, without links, and takes nothing new",
        |t| {
            t.mkdir("d");
            let dir = ok!(t, open(t.p("d"), O_RDONLY | O_DIRECTORY, 0));
            ok!(t, rmdir(t.p("d")));
            eq!(t, ok!(t, fstat(&dir)).nlink, 0);
            err!(t, ENOENT, openat(&dir, "f", O_CREAT | O_WRONLY, 0o644));
            err!(t, ENOENT, openat(&dir, "f", O_RDONLY, 0));
        },
    ),
    case("many made and removed under one name", |t| {
        for _ in 0..50 {
            ok!(t, mkdir(t.p("d"), 0o755));
            ok!(t, rmdir(t.p("d")));
        }
        err!(t, ENOENT, rmdir(t.p("d")));
    }),
    case("ELOOP and ENOTDIR for links", |t| {
        t.mkdir("d");
        ok!(t, symlink("d", t.p("l")));
        err!(t, ENOTDIR, rmdir(t.p("l")));
        ok!(t, symlink("b", t.p("a")));
        ok!(t, symlink("a", t.p("b")));
        err!(t, ELOOP, rmdir(t.p("a/d")));
    })
    .needs(LINKS),
];
