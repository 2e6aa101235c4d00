//! unlink(2) and unlinkat(2).

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("removes a name of any type but directories", |t| {
        for (name, kind) in t.kinds() {
            if kind != S_IFDIR {
                t.make(kind, &t.p(name));
                ok!(t, unlink(t.p(name)));
                err!(t, ENOENT, lstat(t.p(name)));
            }
        }
        eq!(t, t.names(t.dir), Vec::<String>::new());
    }),
    case("EISDIR for a directory", |t| {
        t.mkdir("d");
        err!(t, EISDIR, unlink(t.p("d")));
        err!(t, EISDIR, unlink(t.p("d/..")));
        ok!(t, stat(t.p("d")));
    }),
    case("ENOENT for a missing name, and after the removal", |t| {
        err!(t, ENOENT, unlink(t.p("missing")));
        err!(t, ENOENT, unlink(t.p("missing/f")));
        err!(t, ENOENT, unlink(""));
        t.file("f", b"");
        ok!(t, unlink(t.p("f")));
        err!(t, ENOENT, unlink(t.p("f")));
    }),
    case(
        "ENOTDIR for a component that is no directory, and a trailing slash",
        |t| {
            t.file("f", b"");
            err!(t, ENOTDIR, unlink(t.p("f/x")));
            err!(t, ENOTDIR, unlink(t.p("f/")));
            ok!(t, stat(t.p("f")));
        },
    ),
    case(
        "updates the directory's times, and the change time of what keeps another link",
        |t| {
            let path = t.file("f", b"content");
            ok!(t, link(&path, t.p("g")));
            let (dir, file) = (t.age(t.dir), t.age(&path));
            ok!(t, unlink(t.p("g")));
            let after = ok!(t, stat(&path));
            is!(
                t,
                ok!(t, stat(t.dir)).mtime > dir.mtime && ok!(t, stat(t.dir)).ctime > dir.ctime
            );
            eq!(
                t,
                (after.nlink, after.mtime, after.size),
                (1, file.mtime, 7)
            );
            is!(
                t,
                after.ctime > file.ctime,
                "unlink: the remaining link's ctime stays"
            );
            eq!(t, t.content(&path), b"content");
        },
    ),
    case("a failed unlink leaves the times alone", |t| {
        t.mkdir("d");
        let before = t.age(t.dir);
        err!(t, EISDIR, unlink(t.p("d")));
        err!(t, ENOENT, unlink(t.p("missing")));
        eq!(t, ok!(t, stat(t.dir)), before);
    }),
    case("counts links down to the last", |t| {
        let path = t.file("f0", b"content");
        for number in 1..5 {
            ok!(t, link(&path, t.p(format!("f{number}"))));
        }
        for number in 0..4 {
            ok!(t, unlink(t.p(format!("f{number}"))));
            eq!(t, ok!(t, stat(t.p("f4"))).nlink, 4 - number);
        }
        eq!(t, t.content(&t.p("f4")), b"content");
    }),
    case(
        "EACCES for a directory that may not be written or searched, whoever owns the file",
        |t| {
            let dir = t.dir_of(ANN, "d", 0o755);
            ok!(t, creat(dir.join("f"), 0o666));
            ok!(t, chown(dir.join("f"), Some(BOB), Some(BOB)));
            t.user(BOB, || err!(t, EACCES, unlink(dir.join("f"))));
            ok!(t, chmod(&dir, 0o666));
            t.user(ANN, || err!(t, EACCES, unlink(dir.join("f"))));
            ok!(t, chmod(&dir, 0o300));
            t.user(ANN, || ok!(t, unlink(dir.join("f"))));
        },
    )
    .needs(USERS),
    case("a file's own mode does not protect it", |t| {
        ok!(t, open(t.p("f"), O_CREAT | O_WRONLY, 0));
        ok!(t, unlink(t.p("f")));
    }),
    case("ENAMETOOLONG for a component of 256 bytes", |t| {
        t.file("n".repeat(255), b"");
        ok!(t, unlink(t.p("n".repeat(255))));
        err!(t, ENAMETOOLONG, unlink(t.p("n".repeat(256))));
    }),
    case("removes a link, not its target", |t| {
        t.file("f", b"content");
        ok!(t, symlink("f", t.p("l")));
        ok!(t, unlink(t.p("l")));
        err!(t, ENOENT, lstat(t.p("l")));
        eq!(t, t.content(&t.p("f")), b"content");
        ok!(t, symlink("b", t.p("a")));
        ok!(t, symlink("a", t.p("b")));
        err!(t, ELOOP, unlink(t.p("a/x")));
    })
    .needs(LINKS),
    case(
        "unlinkat: AT_REMOVEDIR for directories, EINVAL for an unknown flag",
        |t| {
            t.mkdir("d");
            t.file("f", b"");
            let dir = ok!(t, open(t.dir, O_RDONLY | O_DIRECTORY, 0));
            err!(t, EISDIR, unlinkat(&dir, "d", 0));
            err!(t, ENOTDIR, unlinkat(&dir, "f", libc::AT_REMOVEDIR));
            err!(t, EINVAL, unlinkat(&dir, "f", 0x1));
            ok!(t, unlinkat(&dir, "d", libc::AT_REMOVEDIR));
            ok!(t, unlinkat(&dir, "f", 0));
            eq!(t, t.names(t.dir), Vec::<String>::new());
        },
    ),
    case("of many at once one wins", |t| {
        for _ in 0..20 {
            t.file("f", b"");
            let tries: Vec<_> = (0..4)
                .map(|_| {
                    let path = t.p("f");
                    std::thread::spawn(move || unlink(&path))
                })
                .collect();
            let results: Vec<_> = tries
                .into_iter()
                .filter_map(|one| one.join().ok())
                .collect();
            eq!(t, results.iter().filter(|result| result.is_ok()).count(), 1);
            eq!(
                t,
                results
                    .iter()
                    .filter(|result| **result == Err(Errno::NOENT))
                    .count(),
                3
            );
        }
    }),
];
