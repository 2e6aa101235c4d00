//! chmod(2) and fchmod(2).

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("sets every bit of every type but links", |t| {
        for (name, kind) in t.kinds() {
            if kind == S_IFLNK {
                continue;
            }
            t.make(kind, &t.p(name));
            for mode in [
                0o000, 0o111, 0o444, 0o644, 0o700, 0o777, 0o1777, 0o2755, 0o4755, 0o6711, 0o7777,
            ] {
                ok!(t, chmod(t.p(name), mode));
                let stat = ok!(t, lstat(t.p(name)));
                eq!(t, (stat.mode, stat.kind), (mode, kind));
            }
            ok!(t, chmod(t.p(name), 0o700));
        }
    })
    .needs(ROOT),
    case("sets the permission bits of one's own files", |t| {
        for (name, kind) in t.kinds() {
            if kind != S_IFLNK {
                t.make(kind, &t.p(name));
                for mode in [0o000, 0o111, 0o444, 0o640, 0o777, 0o4755] {
                    ok!(t, chmod(t.p(name), mode));
                    eq!(t, ok!(t, lstat(t.p(name))).mode, mode);
                }
                ok!(t, chmod(t.p(name), 0o700));
            }
        }
    }),
    case("updates the change time only", |t| {
        let path = t.file("f", b"content");
        let before = t.age(&path);
        ok!(t, chmod(&path, 0o600));
        let after = ok!(t, stat(&path));
        is!(t, after.ctime > before.ctime);
        eq!(
            t,
            (after.atime, after.mtime, after.size),
            (before.atime, before.mtime, before.size)
        );
        t.tick(after.ctime);
        // The same mode again is a change too.
        ok!(t, chmod(&path, 0o600));
        is!(t, ok!(t, stat(&path)).ctime > after.ctime);
    }),
    case(
        "fchmod goes by the descriptor, also of a file without a name",
        |t| {
            let fd = ok!(t, open(t.file("f", b""), O_RDONLY, 0));
            ok!(t, fchmod(&fd, 0o640));
            eq!(t, ok!(t, stat(t.p("f"))).mode, 0o640);
            ok!(t, unlink(t.p("f")));
            ok!(t, fchmod(&fd, 0o400));
            eq!(t, ok!(t, fstat(&fd)).mode, 0o400);
            let dir = ok!(t, open(t.mkdir("d"), O_RDONLY, 0));
            ok!(t, fchmod(&dir, 0o711));
            eq!(t, ok!(t, stat(t.p("d"))).mode, 0o711);
        },
    ),
    case("ENOENT, ENOTDIR and ENAMETOOLONG", |t| {
        t.file("f", b"");
        err!(t, ENOENT, chmod(t.p("missing"), 0o644));
        err!(t, ENOENT, chmod("", 0o644));
        err!(t, ENOTDIR, chmod(t.p("f/x"), 0o644));
        err!(t, ENAMETOOLONG, chmod(t.p("n".repeat(256)), 0o644));
    }),
    case("EPERM for another's file, and nothing changes", |t| {
        let path = t.file_of(ANN, "f", 0o666);
        let before = t.age(&path);
        t.user(BOB, || {
            err!(t, EPERM, chmod(&path, 0o777));
            let fd = ok!(t, open(&path, O_RDWR, 0));
            err!(t, EPERM, fchmod(&fd, 0o777));
        });
        unchanged!(t, path, before);
        t.user(ANN, || ok!(t, chmod(&path, 0o600)));
        eq!(t, ok!(t, stat(&path)).mode, 0o600);
    })
    .needs(USERS),
    case("EACCES for a directory that may not be searched", |t| {
        let dir = t.dir_of(ANN, "d", 0o755);
        ok!(t, creat(dir.join("f"), 0o644));
        ok!(t, chown(dir.join("f"), Some(BOB), Some(BOB)));
        ok!(t, chmod(&dir, 0o600));
        t.user(ANN, || err!(t, EACCES, chmod(dir.join("f"), 0o600)));
        t.user(BOB, || err!(t, EACCES, chmod(dir.join("f"), 0o600)));
    })
    .needs(USERS),
    case(
        "a mode takes effect at once, but not on descriptors that are open",
        |t| {
            let path = t.file_of(ANN, "f", 0o644);
            t.user(ANN, || {
                let fd = ok!(t, open(&path, O_RDWR, 0));
                ok!(t, chmod(&path, 0));
                err!(t, EACCES, open(&path, O_RDONLY, 0));
                eq!(t, ok!(t, pread(&fd, 20, 0)), b"content");
                ok!(t, pwrite(&fd, b"C", 0));
                ok!(t, chmod(&path, 0o400));
                eq!(t, t.content(&path), b"Content");
                err!(t, EACCES, open(&path, O_WRONLY, 0));
            });
        },
    )
    .needs(USERS),
    case("a link's target is changed, and ELOOP is told", |t| {
        t.file("f", b"");
        ok!(t, symlink("f", t.p("l")));
        ok!(t, chmod(t.p("l"), 0o640));
        eq!(t, ok!(t, stat(t.p("f"))).mode, 0o640);
        eq!(t, ok!(t, lstat(t.p("l"))).mode, 0o777);
    })
    .needs(LINKS),
];
