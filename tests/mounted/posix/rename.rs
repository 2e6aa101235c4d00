//! rename(2) without flags.

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("moves an object of any type, whole", |t| {
        t.mkdir("to");
        for (name, kind) in t.kinds() {
            let (from, to) = (t.p(name), t.p(format!("to/{name}-2")));
            t.make(kind, &from);
            let before = ok!(t, lstat(&from));
            ok!(t, rename(&from, &to));
            let after = ok!(t, lstat(&to));
            err!(t, ENOENT, lstat(&from));
            eq!(t, (after.ino, after.kind, after.mode, after.nlink), (before.ino, kind, before.mode, before.nlink));
            eq!(t, (after.mtime, after.size), (before.mtime, before.size));
        }
        eq!(t, t.names(t.dir), ["to"]);
    }),
    case("replaces a file of any type", |t| {
        for (name, kind) in t.kinds() {
            for (other, other_kind) in t.kinds() {
                if kind == S_IFDIR || other_kind == S_IFDIR {
                    continue;
                }
                let (from, to) = (t.p(name), t.p(format!("{other}-old")));
                t.make(kind, &from);
                t.make(other_kind, &to);
                let ino = ok!(t, lstat(&from)).ino;
                ok!(t, rename(&from, &to));
                err!(t, ENOENT, lstat(&from));
                let after = ok!(t, lstat(&to));
                eq!(t, (after.ino, after.kind, after.nlink), (ino, kind, 1));
                ok!(t, unlink(&to));
            }
        }
        eq!(t, t.names(t.dir), Vec::<String>::new());
    }),
    case("replaces content: the reader sees the old or the new, never none", |t| {
        let path = t.file("f", b"generation 0");
        let reader = crate::common::child::spawn(|| {
            for _ in 0..2000 {
                let fd = open(&path, O_RDONLY, 0).map_err(|error| format!("open while renamed over: {error}"))?;
                let text = read(&fd, 100).map_err(|error| format!("read while renamed over: {error}"))?;
                if !text.starts_with(b"generation ") {
                    return Err(format!("read {text:?}"));
                }
            }
            Ok(String::new())
        });
        for number in 1..200 {
            t.file("new", format!("generation {number}").as_bytes());
            ok!(t, rename(t.p("new"), t.p("f")));
        }
        eq!(t, reader.join(), Ok(String::new()));
        eq!(t, t.content(&path), b"generation 199");
        eq!(t, t.names(t.dir), ["f"]);
    }),
    case("an open file that is replaced keeps its content and has no links", |t| {
        let path = t.file("f", b"old");
        let fd = ok!(t, open(&path, O_RDWR, 0));
        t.file("g", b"new");
        ok!(t, rename(t.p("g"), &path));
        eq!(t, ok!(t, pread(&fd, 10, 0)), b"old");
        ok!(t, pwrite(&fd, b"OLDER", 0));
        eq!(t, ok!(t, pread(&fd, 10, 0)), b"OLDER");
        eq!(t, ok!(t, fstat(&fd)).nlink, 0);
        eq!(t, t.content(&path), b"new");
    }),
    case("a replaced file's other link counts one less", |t| {
        t.file("a", b"old");
        ok!(t, link(t.p("a"), t.p("b")));
        t.file("c", b"new");
        let before = t.age(&t.p("b"));
        ok!(t, rename(t.p("c"), t.p("a")));
        let after = ok!(t, stat(t.p("b")));
        eq!(t, (after.nlink, ok!(t, stat(t.p("a"))).nlink), (1, 1));
        is!(t, after.ctime > before.ctime, "rename: the ctime of what was replaced stays");
        eq!(t, t.content(&t.p("b")), b"old");
    }),
    case("a name renamed to another link of the same file does nothing: both stay", |t| {
        t.file("a", b"content");
        ok!(t, link(t.p("a"), t.p("b")));
        ok!(t, rename(t.p("a"), t.p("b")));
        eq!(t, t.names(t.dir), ["a", "b"]);
        eq!(t, ok!(t, stat(t.p("a"))).nlink, 2);
        ok!(t, rename(t.p("a"), t.p("a")));
        eq!(t, t.content(&t.p("a")), b"content");
        t.mkdir("d");
        ok!(t, rename(t.p("d"), t.p("d")));
        ok!(t, rename(t.p("d/"), t.p("d/")));
        ok!(t, stat(t.p("d")));
    }),
    case("replaces an empty directory by a directory", |t| {
        t.mkdir("a");
        t.file("a/f", b"content");
        t.mkdir("b");
        let ino = ok!(t, stat(t.p("a"))).ino;
        ok!(t, rename(t.p("a"), t.p("b")));
        eq!(t, ok!(t, stat(t.p("b"))).ino, ino);
        eq!(t, t.content(&t.p("b/f")), b"content");
        eq!(t, t.names(t.dir), ["b"]);
    }),
    case("ENOTEMPTY for replacing a directory that holds anything", |t| {
        for (name, kind) in t.kinds() {
            t.mkdir(format!("from-{name}"));
            t.mkdir(format!("to-{name}"));
            t.make(kind, &t.p(format!("to-{name}/x")));
            err!(t, ENOTEMPTY | EEXIST, rename(t.p(format!("from-{name}")), t.p(format!("to-{name}"))));
            ok!(t, lstat(t.p(format!("to-{name}/x"))));
            ok!(t, lstat(t.p(format!("from-{name}"))));
        }
    }),
    case("EISDIR for a file onto a directory, ENOTDIR for a directory onto anything else", |t| {
        t.mkdir("d");
        t.mkdir("empty");
        for (name, kind) in t.kinds() {
            if kind != S_IFDIR {
                t.make(kind, &t.p(name));
                err!(t, EISDIR, rename(t.p(name), t.p("empty")));
                err!(t, ENOTDIR, rename(t.p("d"), t.p(name)));
                ok!(t, lstat(t.p(name)));
            }
        }
        ok!(t, stat(t.p("d")));
        ok!(t, stat(t.p("empty")));
    }),
    case("EINVAL for a directory into itself or below itself", |t| {
        t.mkdir("d");
        t.mkdir("d/e");
        err!(t, EINVAL, rename(t.p("d"), t.p("d/x")));
        err!(t, EINVAL, rename(t.p("d"), t.p("d/e/x")));
        err!(t, EINVAL, rename(t.p("d"), t.p("d/e")));
        // The other way round an ancestor would be replaced, which is never empty.
        err!(t, ENOTEMPTY, rename(t.p("d/e"), t.p("d")));
        eq!(t, t.names(&t.p("d")), ["e"]);
    }),
    case("EBUSY for . and ..", |t| {
        t.mkdir("d");
        err!(t, EBUSY | EINVAL, rename(t.p("d/."), t.p("x")));
        err!(t, EBUSY | EINVAL, rename(t.p("d/.."), t.p("x")));
        t.mkdir("e");
        err!(t, EBUSY | EINVAL, rename(t.p("e"), t.p("d/.")));
        err!(t, EBUSY | EINVAL, rename(t.p("e"), t.p("d/..")));
    }),
    case("ENOENT for a missing source or a missing parent", |t| {
        t.file("f", b"");
        err!(t, ENOENT, rename(t.p("missing"), t.p("g")));
        err!(t, ENOENT, rename(t.p("missing"), t.p("f")));
        err!(t, ENOENT, rename(t.p("f"), t.p("missing/g")));
        err!(t, ENOENT, rename(t.p("missing/f"), t.p("g")));
        err!(t, ENOENT, rename("", t.p("g")));
        err!(t, ENOENT, rename(t.p("f"), ""));
        ok!(t, stat(t.p("f")));
    }),
    case("ENOTDIR for a component that is no directory, and a trailing slash after a file", |t| {
        t.file("f", b"");
        t.file("g", b"");
        err!(t, ENOTDIR, rename(t.p("f/x"), t.p("h")));
        err!(t, ENOTDIR, rename(t.p("f"), t.p("g/x")));
        err!(t, ENOTDIR, rename(t.p("f/"), t.p("h")));
        err!(t, ENOTDIR, rename(t.p("f"), t.p("h/")));
        t.mkdir("d");
        ok!(t, rename(t.p("d/"), t.p("e/")));
        eq!(t, t.names(t.dir), ["e", "f", "g"]);
    }),
    case("EXDEV for another file system", |t| {
        t.file("f", b"");
        t.mkdir("d");
        err!(t, EXDEV, rename(t.p("f"), t.elsewhere()));
        err!(t, EXDEV, rename(t.p("d"), t.elsewhere()));
        err!(t, EXDEV, rename("/proc/version", t.p("f")));
        ok!(t, stat(t.p("f")));
    }),
    case("ENAMETOOLONG for a component of 256 bytes", |t| {
        t.file("f", b"");
        err!(t, ENAMETOOLONG, rename(t.p("f"), t.p("n".repeat(256))));
        err!(t, ENAMETOOLONG, rename(t.p("n".repeat(256)), t.p("g")));
        ok!(t, rename(t.p("f"), t.p("n".repeat(255))));
        ok!(t, rename(t.p("n".repeat(255)), t.p("m".repeat(255))));
        // Replacing a file with a long name sends that one to the trash.
        t.file("g", b"");
        ok!(t, rename(t.p("g"), t.p("m".repeat(255))));
    }),
    case("updates the times of both directories and the object's change time", |t| {
        t.mkdir("a");
        t.mkdir("b");
        t.file("a/f", b"");
        let (a, b, f) = (t.age(&t.p("a")), t.age(&t.p("b")), t.age(&t.p("a/f")));
        ok!(t, rename(t.p("a/f"), t.p("b/g")));
        let (a_now, b_now, f_now) = (ok!(t, stat(t.p("a"))), ok!(t, stat(t.p("b"))), ok!(t, stat(t.p("b/g"))));
        is!(t, a_now.mtime > a.mtime && a_now.ctime > a.ctime, "rename: the source directory's times stay");
        is!(t, b_now.mtime > b.mtime && b_now.ctime > b.ctime, "rename: the target directory's times stay");
        is!(t, f_now.ctime > f.ctime && f_now.mtime == f.mtime, "rename: ctime must change and mtime not");
    }),
    case("a failed rename changes no times", |t| {
        t.mkdir("d");
        t.file("f", b"");
        let (dir, file) = (t.age(t.dir), t.age(&t.p("f")));
        err!(t, EISDIR, rename(t.p("f"), t.p("d")));
        err!(t, ENOENT, rename(t.p("f"), t.p("x/y")));
        eq!(t, ok!(t, stat(t.p("f"))), file);
        eq!(t, ok!(t, stat(t.dir)).mtime, dir.mtime);
    }),
    case("moving a directory moves a link count from parent to parent, and .. follows", |t| {
        t.mkdir("a");
        t.mkdir("b");
        t.mkdir("a/d");
        eq!(t, (ok!(t, stat(t.p("a"))).nlink, ok!(t, stat(t.p("b"))).nlink), (3, 2));
        ok!(t, rename(t.p("a/d"), t.p("b/d")));
        eq!(t, (ok!(t, stat(t.p("a"))).nlink, ok!(t, stat(t.p("b"))).nlink), (2, 3));
        eq!(t, ok!(t, stat(t.p("b/d/.."))).ino, ok!(t, stat(t.p("b"))).ino);
        t.mkdir("a/d");
        ok!(t, rename(t.p("b/d"), t.p("a/d")));
        eq!(t, (ok!(t, stat(t.p("a"))).nlink, ok!(t, stat(t.p("b"))).nlink), (3, 2));
        eq!(t, ok!(t, stat(t.p("a/d/.."))).ino, ok!(t, stat(t.p("a"))).ino);
    }),
    case("what lies below a moved directory is there, by its new path only", |t| {
        t.mkdir("a");
        t.mkdir("a/b");
        t.file("a/b/f", b"content");
        for (from, to) in [("a", "x"), ("x", "y"), ("y/b", "b"), ("b", "y/c")] {
            ok!(t, rename(t.p(from), t.p(to)));
        }
        eq!(t, t.content(&t.p("y/c/f")), b"content");
        for gone in ["a", "a/b/f", "x/b/f", "y/b/f", "b/f"] {
            err!(t, ENOENT, stat(t.p(gone)));
        }
        ok!(t, unlink(t.p("y/c/f")));
        ok!(t, rmdir(t.p("y/c")));
        ok!(t, rmdir(t.p("y")));
    }),
    case("the old name is free at once", |t| {
        for number in 0..30 {
            t.file("f", format!("{number}").as_bytes());
            ok!(t, rename(t.p("f"), t.p("g")));
            err!(t, ENOENT, stat(t.p("f")));
            eq!(t, t.content(&t.p("g")), format!("{number}").into_bytes());
        }
    }),
    case("EACCES for a directory that may not be written or searched", |t| {
        t.open_dir("d");
        t.file("d/f", b"");
        t.dir_of(ANN, "closed", 0o755);
        ok!(t, creat(t.p("closed/f"), 0o666));
        ok!(t, chmod(t.p("closed"), 0o555));
        t.dir_of(ANN, "unsearchable", 0o666);
        t.user(ANN, || {
            err!(t, EACCES, rename(t.p("d/f"), t.p("closed/g")));
            err!(t, EACCES, rename(t.p("closed/f"), t.p("d/g")));
            err!(t, EACCES, rename(t.p("closed/f"), t.p("closed/g")));
            err!(t, EACCES, rename(t.p("d/f"), t.p("unsearchable/g")));
            ok!(t, rename(t.p("d/f"), t.p("d/g")));
        });
        eq!(t, t.names(&t.p("closed")), ["f"]);
    })
    .needs(USERS),
    case("EACCES for moving a directory that may not be written to another parent: its .. would change", |t| {
        t.open_dir("a");
        t.open_dir("b");
        t.user(ANN, || {
            ok!(t, mkdir(t.p("a/mine"), 0o555));
            err!(t, EACCES, rename(t.p("a/mine"), t.p("b/mine")));
            ok!(t, rename(t.p("a/mine"), t.p("a/mine2")));
            ok!(t, chmod(t.p("a/mine2"), 0o755));
            ok!(t, rename(t.p("a/mine2"), t.p("b/mine")));
        });
        t.user(BOB, || err!(t, EACCES, rename(t.p("b/mine"), t.p("a/mine"))));
    })
    .needs(USERS),
    case("ELOOP for links that lead to each other", |t| {
        t.file("f", b"");
        ok!(t, symlink("b", t.p("a")));
        ok!(t, symlink("a", t.p("b")));
        err!(t, ELOOP, rename(t.p("f"), t.p("a/x")));
        err!(t, ELOOP, rename(t.p("a/x"), t.p("g")));
        ok!(t, rename(t.p("f"), t.p("a")));
        eq!(t, ok!(t, lstat(t.p("a"))).kind, S_IFREG);
    })
    .needs(LINKS),
    case("renameat goes by the directories that were opened", |t| {
        t.mkdir("a");
        t.mkdir("b");
        t.file("a/f", b"content");
        let (a, b) = (ok!(t, open(t.p("a"), O_PATH, 0)), ok!(t, open(t.p("b"), O_PATH, 0)));
        ok!(t, rename(t.p("a"), t.p("c")));
        ok!(t, renameat(&a, "f", &b, "g"));
        eq!(t, t.content(&t.p("b/g")), b"content");
        err!(t, ENOTDIR, renameat(ok!(t, open(t.p("b/g"), O_RDONLY, 0)), "x", &b, "y"));
    }),
    case("ENOENT for renaming into a directory that was removed while open", |t| {
        t.mkdir("d");
        t.file("f", b"");
        let (here, dir) = (ok!(t, open(t.dir, O_PATH, 0)), ok!(t, open(t.p("d"), O_PATH, 0)));
        ok!(t, rmdir(t.p("d")));
        err!(t, ENOENT, renameat(&here, "f", &dir, "g"));
        ok!(t, stat(t.p("f")));
    }),
    case("two threads that rename back and forth lose nothing", |t| {
        t.mkdir("a");
        t.mkdir("b");
        for number in 0..10 {
            t.file(format!("a/f{number}"), b"content");
        }
        let workers: Vec<_> = [("a", "b"), ("b", "a")]
            .into_iter()
            .map(|(from, to)| {
                let (from, to) = (t.p(from), t.p(to));
                std::thread::spawn(move || {
                    for round in 0..100 {
                        let name = format!("f{}", round % 10);
                        match rename(from.join(&name), to.join(&name)) {
                            Ok(()) | Err(Errno::NOENT) => {}
                            Err(error) => return Err(error),
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        for worker in workers {
            eq!(t, worker.join().ok(), Some(Ok(())));
        }
        let mut names = t.names(&t.p("a"));
        names.extend(t.names(&t.p("b")));
        names.sort();
        eq!(t, names, (0..10).map(|number| format!("f{number}")).collect::<Vec<_>>());
    }),
];
