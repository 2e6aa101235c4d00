//! mkdir(2).

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("makes an empty directory with the mode asked for", |t| {
        for mode in [0o755, 0o700, 0o777, 0o000, 0o151, 0o1777] {
            let path = t.p(format!("d{mode:o}"));
            ok!(t, mkdir(&path, mode));
            let stat = ok!(t, lstat(&path));
            eq!(t, (stat.kind, stat.mode, stat.nlink), (S_IFDIR, mode, 2));
            ok!(t, chmod(&path, 0o700));
            eq!(t, t.names(&path), Vec::<String>::new());
        }
    }),
    case("minds the umask", |t| {
        t.child(|| {
            umask(0o027);
            ok!(t, mkdir(t.p("d"), 0o777));
            eq!(t, ok!(t, stat(t.p("d"))).mode, 0o750);
        });
    }),
    case("gives the directory to the caller", |t| {
        t.open_dir("d");
        t.user(ANN, || ok!(t, mkdir(t.p("d/e"), 0o755)));
        let stat = ok!(t, stat(t.p("d/e")));
        eq!(t, (stat.uid, stat.gid), (ANN, ANN));
    })
    .needs(USERS),
    case(
        "updates the parent's times and link count; the new directory's times are new",
        |t| {
            let before = t.age(t.dir);
            ok!(t, mkdir(t.p("d"), 0o755));
            let (parent, new) = (ok!(t, stat(t.dir)), ok!(t, stat(t.p("d"))));
            is!(
                t,
                parent.mtime > before.mtime && parent.ctime > before.ctime
            );
            eq!(t, parent.nlink, before.nlink + 1);
            is!(
                t,
                new.atime > before.ctime && new.mtime > before.ctime && new.ctime > before.ctime
            );
        },
    ),
    case("a failed mkdir leaves the parent's times alone", |t| {
        t.mkdir("d");
        let before = t.age(t.dir);
        err!(t, EEXIST, mkdir(t.p("d"), 0o755));
        err!(t, ENOENT, mkdir(t.p("x/y"), 0o755));
        eq!(t, ok!(t, stat(t.dir)), before);
    }),
    case("EEXIST for a name of any type, also . and ..", |t| {
        for (name, kind) in t.kinds() {
            t.make(kind, &t.p(name));
            err!(t, EEXIST, mkdir(t.p(name), 0o755));
        }
        err!(t, EEXIST, mkdir(t.p("."), 0o755));
        err!(t, EEXIST, mkdir(t.p(".."), 0o755));
        err!(t, EEXIST, mkdir(t.p("dir/"), 0o755));
    }),
    case("a trailing slash is allowed", |t| {
        ok!(t, mkdir(t.p("d/"), 0o755));
        ok!(t, mkdir(t.p("d/e//"), 0o755));
        eq!(t, t.names(&t.p("d")), ["e"]);
    }),
    case("ENOENT for a missing parent and the empty path", |t| {
        err!(t, ENOENT, mkdir(t.p("x/d"), 0o755));
        err!(t, ENOENT, mkdir("", 0o755));
    }),
    case("ENOTDIR for a parent that is no directory", |t| {
        t.file("f", b"");
        err!(t, ENOTDIR, mkdir(t.p("f/d"), 0o755));
    }),
    case("ENAMETOOLONG for a component of 256 bytes", |t| {
        ok!(t, mkdir(t.p("n".repeat(255)), 0o755));
        err!(t, ENAMETOOLONG, mkdir(t.p("n".repeat(256)), 0o755));
    }),
    case(
        "EACCES for a parent that may not be written or searched",
        |t| {
            t.dir_of(ANN, "closed", 0o555);
            t.dir_of(ANN, "unsearchable", 0o666);
            t.user(ANN, || {
                err!(t, EACCES, mkdir(t.p("closed/d"), 0o755));
                err!(t, EACCES, mkdir(t.p("unsearchable/d"), 0o755));
            });
            t.user(BOB, || err!(t, EACCES, mkdir(t.p("closed/d"), 0o755)));
        },
    )
    .needs(USERS),
    case(
        "ELOOP for links that lead to each other, EEXIST for a dangling link",
        |t| {
            ok!(t, symlink("b", t.p("a")));
            ok!(t, symlink("a", t.p("b")));
            err!(t, ELOOP, mkdir(t.p("a/d"), 0o755));
            ok!(t, symlink("missing", t.p("l")));
            err!(t, EEXIST, mkdir(t.p("l"), 0o755));
        },
    )
    .needs(LINKS),
    case("of many at once one wins", |t| {
        let tries: Vec<_> = (0..8)
            .map(|_| {
                let path = t.p("d");
                std::thread::spawn(move || mkdir(&path, 0o755))
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
                .filter(|result| **result == Err(Errno::EXIST))
                .count(),
            7
        );
    }),
    case("mkdirat goes by the directory that was opened", |t| {
        t.mkdir("d");
        let dir = ok!(t, open(t.p("d"), O_PATH | O_DIRECTORY, 0));
        ok!(t, mkdirat(&dir, "e", 0o755));
        ok!(t, rename(t.p("d"), t.p("moved")));
        ok!(t, mkdirat(&dir, "f", 0o755));
        eq!(t, t.names(&t.p("moved")), ["e", "f"]);
    }),
    case(
        "ENOENT below a directory that was removed while open",
        |t| {
            t.mkdir("d");
            let dir = ok!(t, open(t.p("d"), O_RDONLY | O_DIRECTORY, 0));
            ok!(t, rmdir(t.p("d")));
            err!(t, ENOENT, mkdirat(&dir, "e", 0o755));
            err!(t, ENOENT, openat(&dir, "f", O_CREAT | O_WRONLY, 0o644));
        },
    ),
];
