//! utimensat(2) and futimens(3).

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("sets both times to the nanosecond on every type", |t| {
        for (name, kind) in t.kinds() {
            let path = t.p(name);
            t.make(kind, &path);
            for (atime, mtime) in [
                ((1_000_000_000, 1), (1_100_000_000, 999_999_999)),
                ((0, 0), (0, 0)),
                ((1, 500_000_000), (2_000_000_000, 123_456_789)),
            ] {
                ok!(t, lutimens(&path, atime, mtime));
                let stat = ok!(t, lstat(&path));
                eq!(t, (stat.atime, stat.mtime), (atime, mtime));
            }
        }
    }),
    case("takes times before 1970 and after 2038", |t| {
        let path = t.file("f", b"");
        for time in [
            (-1, 0),
            (-1_000_000_000, 500_000_000),
            (2_147_483_648, 7),
            (4_294_967_296, 8),
            (9_000_000_000, 999_999_999),
        ] {
            ok!(t, utimensat(&path, time, time));
            let stat = ok!(t, stat(&path));
            eq!(t, (stat.atime, stat.mtime), (time, time));
        }
    }),
    case(
        "futimens goes by the descriptor, also a read-only one and one without a name",
        |t| {
            let fd = ok!(t, open(t.file("f", b""), O_RDONLY, 0));
            ok!(t, futimens(&fd, (10, 11), (12, 13)));
            let stat = ok!(t, stat(t.p("f")));
            eq!(t, (stat.atime, stat.mtime), ((10, 11), (12, 13)));
            ok!(t, unlink(t.p("f")));
            ok!(t, futimens(&fd, (20, 21), (22, 23)));
            eq!(t, ok!(t, fstat(&fd)).mtime, (22, 23));
            let dir = ok!(t, open(t.mkdir("d"), O_RDONLY, 0));
            ok!(t, futimens(&dir, OLD, OLD));
            eq!(t, ok!(t, crate::common::calls::stat(t.p("d"))).mtime, OLD);
        },
    ),
    case("the change time is now, whatever is set", |t| {
        let path = t.file("f", b"");
        let before = t.age(&path);
        ok!(t, utimensat(&path, (1, 0), (2, 0)));
        is!(t, ok!(t, stat(&path)).ctime > before.ctime);
    }),
    case("UTIME_OMIT leaves one time alone", |t| {
        let path = t.file("f", b"");
        t.age(&path);
        ok!(t, utimensat(&path, (5, 6), (0, UTIME_OMIT)));
        eq!(
            t,
            (ok!(t, stat(&path)).atime, ok!(t, stat(&path)).mtime),
            ((5, 6), OLD)
        );
        ok!(t, utimensat(&path, (99, UTIME_OMIT), (7, 8)));
        eq!(
            t,
            (ok!(t, stat(&path)).atime, ok!(t, stat(&path)).mtime),
            ((5, 6), (7, 8))
        );
    }),
    case(
        "UTIME_OMIT for both changes nothing, not even the change time",
        |t| {
            let path = t.file("f", b"");
            let before = t.age(&path);
            ok!(t, utimensat(&path, (0, UTIME_OMIT), (0, UTIME_OMIT)));
            unchanged!(t, path, before);
        },
    ),
    case("UTIME_NOW sets one or both to now", |t| {
        let path = t.file("f", b"");
        let before = t.age(&path);
        ok!(t, utimensat(&path, (0, UTIME_NOW), (0, UTIME_OMIT)));
        let after = ok!(t, stat(&path));
        is!(t, after.atime > before.ctime && after.mtime == OLD);
        t.age(&path);
        ok!(t, utimensat(&path, (0, UTIME_OMIT), (0, UTIME_NOW)));
        let after = ok!(t, stat(&path));
        is!(t, after.mtime > before.ctime && after.atime == OLD);
        t.age(&path);
        ok!(t, utimensat(&path, (0, UTIME_NOW), (0, UTIME_NOW)));
        let after = ok!(t, stat(&path));
        is!(t, after.mtime > before.ctime && after.atime > before.ctime);
        ok!(t, utimensat(&path, (0, UTIME_NOW), (1, 2)));
        eq!(t, ok!(t, stat(&path)).mtime, (1, 2));
    }),
    case("EINVAL for nanoseconds out of range", |t| {
        let path = t.file("f", b"");
        let before = t.age(&path);
        err!(t, EINVAL, utimensat(&path, (0, 1_000_000_000), (0, 0)));
        err!(t, EINVAL, utimensat(&path, (0, 0), (0, -1)));
        unchanged!(t, path, before);
    }),
    case("ENOENT, ENOTDIR and ENAMETOOLONG", |t| {
        t.file("f", b"");
        err!(t, ENOENT, utimensat(t.p("missing"), OLD, OLD));
        err!(t, ENOTDIR, utimensat(t.p("f/x"), OLD, OLD));
        err!(t, ENAMETOOLONG, utimensat(t.p("n".repeat(256)), OLD, OLD));
    }),
    case(
        "a time of one's choice is the owner's (EPERM); now is for all who may write (EACCES)",
        |t| {
            let now = (0, UTIME_NOW);
            let writable = t.file_of(ANN, "w", 0o666);
            let closed = t.file_of(ANN, "c", 0o644);
            t.user(BOB, || {
                err!(t, EPERM, utimensat(&writable, OLD, OLD));
                err!(t, EPERM, utimensat(&writable, now, (0, UTIME_OMIT)));
                err!(t, EPERM, utimensat(&writable, now, OLD));
                ok!(t, utimensat(&writable, now, now));
                ok!(t, utimensat(&closed, (0, UTIME_OMIT), (0, UTIME_OMIT)));
                err!(t, EACCES, utimensat(&closed, now, now));
                err!(t, EPERM, utimensat(&closed, OLD, OLD));
                err!(
                    t,
                    EPERM,
                    futimens(ok!(t, open(&closed, O_RDONLY, 0)), OLD, OLD)
                );
            });
            t.user(ANN, || ok!(t, utimensat(&closed, OLD, OLD)));
            ok!(t, chmod(&closed, 0));
            t.user(ANN, || ok!(t, utimensat(&closed, now, now)));
        },
    )
    .needs(USERS),
    case(
        "times that were set survive reading the attributes again and writing elsewhere",
        |t| {
            let path = t.file("f", b"content");
            let fd = ok!(t, open(&path, O_RDWR, 0));
            ok!(t, pwrite(&fd, b"C", 0));
            ok!(t, futimens(&fd, OLD, OLD));
            ok!(t, fsync(&fd));
            close(fd);
            t.file("g", b"other");
            let stat = ok!(t, stat(&path));
            eq!(t, (stat.atime, stat.mtime), (OLD, OLD));
        },
    ),
];
