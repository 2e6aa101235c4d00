//! symlink(2), readlink(2) and following links. Homes support them only with `--symlinks inside`.

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case(
        "makes a link with a target, of that size, that readlink gives back",
        |t| {
            for (name, target) in [
                ("a", "f"),
                ("b", "d/e"),
                ("c", "missing"),
                ("e", "./d//e/."),
            ] {
                ok!(t, symlink(target, t.p(name)));
                let stat = ok!(t, lstat(t.p(name)));
                eq!(
                    t,
                    (stat.kind, stat.size, stat.nlink),
                    (S_IFLNK, i64::try_from(target.len()).unwrap_or(0), 1)
                );
                eq!(t, ok!(t, readlink(t.p(name))), std::path::Path::new(target));
            }
            eq!(t, t.names(t.dir), ["a", "b", "c", "e"]);
        },
    )
    .needs(LINKS),
    case(
        "a link works: stat, open, chdir through, create through, list through",
        |t| {
            t.mkdir("d");
            t.file("d/f", b"content");
            ok!(t, symlink("d", t.p("l")));
            ok!(t, symlink("d/f", t.p("lf")));
            eq!(t, ok!(t, stat(t.p("lf"))).ino, ok!(t, stat(t.p("d/f"))).ino);
            eq!(t, t.content(&t.p("l/f")), b"content");
            ok!(t, creat(t.p("l/new"), 0o644));
            eq!(t, t.names(&t.p("l")), ["f", "new"]);
            ok!(t, chmod(t.p("lf"), 0o600));
            eq!(t, ok!(t, stat(t.p("d/f"))).mode, 0o600);
            ok!(t, truncate(t.p("lf"), 1));
            eq!(t, t.content(&t.p("d/f")), b"c");
        },
    )
    .needs(LINKS),
    case("a link upwards that stays inside works", |t| {
        t.mkdir("d");
        t.file("f", b"content");
        ok!(t, symlink("../f", t.p("d/l")));
        eq!(t, t.content(&t.p("d/l")), b"content");
    })
    .needs(LINKS),
    case("a chain of links works, forty are too many: ELOOP", |t| {
        t.file("l0", b"content");
        for number in 1..=45 {
            ok!(
                t,
                symlink(format!("l{}", number - 1), t.p(format!("l{number}")))
            );
        }
        eq!(t, t.content(&t.p("l40")), b"content");
        err!(t, ELOOP, open(t.p("l41"), O_RDONLY, 0));
        err!(t, ELOOP, stat(t.p("l45")));
        ok!(t, lstat(t.p("l45")));
    })
    .needs(LINKS),
    case(
        "ELOOP for a link to itself, by every call that follows",
        |t| {
            ok!(t, symlink("self", t.p("self")));
            err!(t, ELOOP, stat(t.p("self")));
            err!(t, ELOOP, open(t.p("self"), O_RDONLY, 0));
            err!(t, ELOOP, open(t.p("self"), O_CREAT | O_WRONLY, 0o644));
            err!(t, ELOOP, chmod(t.p("self"), 0o600));
            err!(t, ELOOP, chown(t.p("self"), None, None));
            err!(t, ELOOP, truncate(t.p("self"), 0));
            err!(t, ELOOP, access(t.p("self"), F_OK));
            err!(t, ELOOP, utimensat(t.p("self"), OLD, OLD));
            err!(t, ELOOP, readdir(t.p("self")));
            err!(t, ELOOP, rename(t.p("self/x"), t.p("y")));
            err!(t, ELOOP, symlink("x", t.p("self/x")));
            err!(t, ELOOP, mknod(t.p("self/x"), S_IFIFO | 0o644, 0));
            ok!(t, unlink(t.p("self")));
        },
    )
    .needs(LINKS),
    case("EEXIST for a name of any type", |t| {
        for (name, kind) in t.kinds() {
            t.make(kind, &t.p(name));
            err!(t, EEXIST, symlink("x", t.p(name)));
        }
    })
    .needs(LINKS),
    case("ENOENT, ENOTDIR and ENAMETOOLONG", |t| {
        t.file("f", b"");
        err!(t, ENOENT, symlink("x", t.p("missing/l")));
        err!(t, ENOENT, symlink("", t.p("l")));
        err!(t, ENOTDIR, symlink("x", t.p("f/l")));
        err!(t, ENAMETOOLONG, symlink("x", t.p("n".repeat(256))));
        err!(t, ENAMETOOLONG, symlink("x".repeat(4096), t.p("l")));
        ok!(t, symlink("x", t.p("n".repeat(255))));
        err!(t, ENOENT, readlink(t.p("missing")));
    })
    .needs(LINKS),
    case("targets up to 4095 bytes come back whole", |t| {
        let long = ["x".repeat(200).as_str(); 20].join("/");
        ok!(t, symlink(&long, t.p("l")));
        eq!(t, ok!(t, readlink(t.p("l"))), std::path::Path::new(&long));
        eq!(
            t,
            ok!(t, lstat(t.p("l"))).size,
            i64::try_from(long.len()).unwrap_or(0)
        );
    })
    .needs(LINKS),
    case("EINVAL for readlink of anything else", |t| {
        for (name, kind) in t.kinds() {
            if kind != S_IFLNK {
                t.make(kind, &t.p(name));
                err!(t, EINVAL, readlink(t.p(name)));
            }
        }
    }),
    case("EACCES for a directory that may not be written", |t| {
        t.dir_of(ANN, "closed", 0o555);
        t.user(ANN, || err!(t, EACCES, symlink("x", t.p("closed/l"))));
    })
    .needs(LINKS | USERS),
    case("updates the directory's times", |t| {
        let before = t.age(t.dir);
        ok!(t, symlink("x", t.p("l")));
        let after = ok!(t, stat(t.dir));
        is!(t, after.mtime > before.mtime && after.ctime > before.ctime);
    })
    .needs(LINKS),
    case(
        "lchown and utimensat(AT_SYMLINK_NOFOLLOW) change the link, not its target",
        |t| {
            t.file("f", b"");
            let target = t.age(&t.p("f"));
            ok!(t, symlink("f", t.p("l")));
            ok!(t, lchown(t.p("l"), Some(ANN), Some(BOB)));
            ok!(t, lutimens(t.p("l"), (5, 6), (7, 8)));
            let link = ok!(t, lstat(t.p("l")));
            eq!(
                t,
                (link.uid, link.gid, link.atime, link.mtime),
                (ANN, BOB, (5, 6), (7, 8))
            );
            eq!(t, ok!(t, stat(t.p("f"))), target);
        },
    )
    .needs(LINKS | ROOT),
    case("rename moves and replaces the link itself", |t| {
        t.file("f", b"content");
        ok!(t, symlink("f", t.p("l")));
        ok!(t, rename(t.p("l"), t.p("m")));
        eq!(t, ok!(t, readlink(t.p("m"))), std::path::Path::new("f"));
        t.file("g", b"other");
        ok!(t, rename(t.p("g"), t.p("m")));
        eq!(t, ok!(t, lstat(t.p("m"))).kind, S_IFREG);
        eq!(t, t.content(&t.p("f")), b"content");
    })
    .needs(LINKS),
];
