//! chown(2), fchown(2) and lchown(2).

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case(
        "root sets owner and group of every type, together or one",
        |t| {
            for (name, kind) in t.kinds() {
                let path = t.p(name);
                t.make(kind, &path);
                ok!(t, lchown(&path, Some(ANN), Some(BOB)));
                let ids = |path| lstat(path).map(|stat| (stat.uid, stat.gid));
                eq!(t, ok!(t, ids(&path)), (ANN, BOB));
                ok!(t, lchown(&path, Some(123), None));
                eq!(t, ok!(t, ids(&path)), (123, BOB));
                ok!(t, lchown(&path, None, Some(456)));
                eq!(t, ok!(t, ids(&path)), (123, 456));
                ok!(t, lchown(&path, None, None));
                eq!(t, ok!(t, ids(&path)), (123, 456));
                ok!(t, lchown(&path, Some(0), Some(0)));
                eq!(t, ok!(t, lstat(&path)).kind, kind);
            }
        },
    )
    .needs(ROOT),
    case("takes large ids", |t| {
        let path = t.file("f", b"");
        for id in [65536, 100_000, 0x7fff_ffff, 0xffff_fffe] {
            ok!(t, chown(&path, Some(id), Some(id)));
            let stat = ok!(t, stat(&path));
            eq!(t, (stat.uid, stat.gid), (id, id));
        }
    })
    .needs(ROOT),
    case(
        "fchown goes by the descriptor, also of a file without a name",
        |t| {
            let fd = ok!(t, open(t.file("f", b""), O_RDONLY, 0));
            ok!(t, fchown(&fd, Some(ANN), Some(BOB)));
            eq!(t, ok!(t, stat(t.p("f"))).uid, ANN);
            ok!(t, unlink(t.p("f")));
            ok!(t, fchown(&fd, Some(BOB), None));
            eq!(t, ok!(t, fstat(&fd)).uid, BOB);
        },
    )
    .needs(ROOT),
    case("updates the change time only", |t| {
        let path = t.file("f", b"");
        let before = t.age(&path);
        ok!(t, chown(&path, Some(before.uid), Some(before.gid)));
        let after = ok!(t, stat(&path));
        is!(t, after.ctime > before.ctime);
        eq!(t, (after.atime, after.mtime), (before.atime, before.mtime));
    }),
    case(
        "EPERM for giving a file away, and for another's file",
        |t| {
            let (anns, bobs) = (t.file_of(ANN, "a", 0o666), t.file_of(BOB, "b", 0o666));
            t.user(ANN, || {
                err!(t, EPERM, chown(&anns, Some(BOB), None));
                err!(t, EPERM, chown(&anns, Some(0), Some(0)));
                err!(t, EPERM, chown(&bobs, Some(ANN), None));
                err!(t, EPERM, chown(&bobs, None, Some(ANN)));
                err!(
                    t,
                    EPERM,
                    fchown(ok!(t, open(&bobs, O_RDWR, 0)), Some(ANN), None)
                );
                ok!(t, chown(&anns, Some(ANN), Some(ANN)));
            });
            eq!(t, ok!(t, stat(&anns)).uid, ANN);
            eq!(t, ok!(t, stat(&bobs)).uid, BOB);
        },
    )
    .needs(USERS),
    case(
        "an owner may give a file to a group of his own, to no other: EPERM",
        |t| {
            let path = t.file_of(ANN, "f", 0o644);
            t.user_in(ANN, &[4242], || {
                ok!(t, chown(&path, None, Some(4242)));
                ok!(t, chown(&path, Some(ANN), Some(ANN)));
                err!(t, EPERM, chown(&path, None, Some(4243)));
            });
            eq!(t, ok!(t, stat(&path)).gid, ANN);
        },
    )
    .needs(USERS),
    case("EPERM for giving one's own file away", |t| {
        let path = t.file("f", b"");
        err!(t, EPERM, chown(&path, Some(BOB), None));
        err!(t, EPERM, chown(&path, None, Some(BOB)));
        ok!(t, chown(&path, Some(NOBODY), Some(NOBODY)));
        eq!(t, ok!(t, stat(&path)).uid, NOBODY);
    })
    .needs(PLAIN),
    case("ENOENT, ENOTDIR and ENAMETOOLONG", |t| {
        t.file("f", b"");
        err!(t, ENOENT, chown(t.p("missing"), None, None));
        err!(t, ENOENT, chown("", None, None));
        err!(t, ENOTDIR, chown(t.p("f/x"), None, None));
        err!(t, ENAMETOOLONG, chown(t.p("n".repeat(256)), None, None));
    }),
    case("EACCES for a directory that may not be searched", |t| {
        let dir = t.dir_of(ANN, "d", 0o755);
        ok!(t, creat(dir.join("f"), 0o644));
        ok!(t, chown(dir.join("f"), Some(BOB), Some(BOB)));
        ok!(t, chmod(&dir, 0o600));
        t.user(BOB, || {
            err!(t, EACCES, chown(dir.join("f"), None, Some(BOB)))
        });
    })
    .needs(USERS),
    case("a new owner has the owner's rights at once", |t| {
        let path = t.file_of(ANN, "f", 0o600);
        t.user(BOB, || err!(t, EACCES, open(&path, O_RDONLY, 0)));
        ok!(t, chown(&path, Some(BOB), None));
        t.user(BOB, || drop(ok!(t, open(&path, O_RDONLY, 0))));
        t.user(ANN, || err!(t, EACCES, open(&path, O_RDONLY, 0)));
    })
    .needs(USERS),
];
