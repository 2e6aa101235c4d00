//! Open files and directories that lose their name or move.

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("an unlinked file works on through its descriptors", |t| {
        let path = t.file("f", b"content");
        let (one, two) = (
            ok!(t, open(&path, O_RDWR, 0)),
            ok!(t, open(&path, O_RDONLY, 0)),
        );
        ok!(t, unlink(&path));
        eq!(t, ok!(t, fstat(&one)).nlink, 0);
        eq!(t, ok!(t, pread(&two, 20, 0)), b"content");
        ok!(t, pwrite(&one, b"more content", 3));
        eq!(t, ok!(t, pread(&two, 20, 0)), b"conmore content");
        ok!(t, ftruncate(&one, 3));
        eq!(t, ok!(t, fstat(&two)).size, 3);
        ok!(t, fchmod(&one, 0o600));
        ok!(t, futimens(&one, OLD, OLD));
        let stat = ok!(t, fstat(&two));
        eq!(t, (stat.mode, stat.mtime, stat.kind), (0o600, OLD, S_IFREG));
        ok!(t, fsync(&one));
        err!(t, ENOENT, lstat(&path));
    }),
    case("a new file of the old name is another file", |t| {
        let path = t.file("f", b"old");
        let old = ok!(t, open(&path, O_RDWR, 0));
        ok!(t, unlink(&path));
        t.file("f", b"new");
        is!(t, ok!(t, fstat(&old)).ino != ok!(t, stat(&path)).ino);
        ok!(t, pwrite(&old, b"OLD", 0));
        eq!(t, t.content(&path), b"new");
        ok!(t, unlink(&path));
        eq!(t, ok!(t, pread(&old, 10, 0)), b"OLD");
    }),
    case(
        "with another link left, the count and the content are shared on",
        |t| {
            let path = t.file("f", b"content");
            ok!(t, link(&path, t.p("g")));
            let fd = ok!(t, open(&path, O_RDWR, 0));
            ok!(t, unlink(&path));
            eq!(t, ok!(t, fstat(&fd)).nlink, 1);
            ok!(t, pwrite(&fd, b"C", 0));
            eq!(t, t.content(&t.p("g")), b"Content");
            ok!(t, unlink(t.p("g")));
            eq!(t, ok!(t, fstat(&fd)).nlink, 0);
        },
    ),
    case(
        "the change time of an unlinked file is when it was unlinked",
        |t| {
            let path = t.file("f", b"content");
            let fd = ok!(t, open(&path, O_RDONLY, 0));
            let before = t.age(&path);
            ok!(t, unlink(&path));
            let after = ok!(t, fstat(&fd));
            is!(t, after.ctime > before.ctime && after.mtime == before.mtime);
        },
    ),
    case(
        "an unlinked file can be opened again through /proc while it is open",
        |t| {
            let fd = ok!(t, open(t.file("f", b"content"), O_RDWR, 0));
            ok!(t, unlink(t.p("f")));
            let by_fd = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
            let again = ok!(t, open(&by_fd, O_RDWR, 0));
            eq!(t, ok!(t, read(&again, 20)), b"content");
            ok!(t, pwrite(&again, b"C", 0));
            eq!(t, ok!(t, pread(&fd, 20, 0)), b"Content");
            eq!(t, ok!(t, stat(&by_fd)).nlink, 0);
        },
    ),
    case(
        "an open file follows its renaming, and its directory's",
        |t| {
            t.mkdir("a");
            t.mkdir("a/b");
            let fd = ok!(t, open(t.file("a/b/f", b"content"), O_RDWR, 0));
            ok!(t, rename(t.p("a/b/f"), t.p("a/b/g")));
            ok!(t, pwrite(&fd, b"1", 0));
            ok!(t, rename(t.p("a"), t.p("x")));
            ok!(t, pwrite(&fd, b"2", 1));
            ok!(t, rename(t.p("x/b"), t.p("y")));
            ok!(t, pwrite(&fd, b"3", 2));
            ok!(t, fchmod(&fd, 0o600));
            ok!(t, ftruncate(&fd, 5));
            let stat = ok!(t, stat(t.p("y/g")));
            eq!(
                t,
                (stat.size, stat.mode, stat.ino),
                (5, 0o600, ok!(t, fstat(&fd)).ino)
            );
            eq!(t, t.content(&t.p("y/g")), b"123te");
        },
    ),
    case(
        "an open directory follows its renaming: listing, lookups and changes",
        |t| {
            t.mkdir("a");
            t.mkdir("a/b");
            t.file("a/b/f", b"");
            let dir = ok!(t, open(t.p("a/b"), O_RDONLY | O_DIRECTORY, 0));
            ok!(t, rename(t.p("a"), t.p("x")));
            ok!(t, openat(&dir, "f", O_RDONLY, 0));
            ok!(t, openat(&dir, "new", O_CREAT | O_WRONLY, 0o644));
            ok!(t, unlinkat(&dir, "f", 0));
            ok!(t, mkdirat(&dir, "d", 0o755));
            eq!(t, t.names(&t.p("x/b")), ["d", "new"]);
            eq!(
                t,
                ok!(t, fstatat(&dir, "..", 0)).ino,
                ok!(t, stat(t.p("x"))).ino
            );
            // Another directory takes the old place.
            t.mkdir("a");
            t.mkdir("a/b");
            ok!(t, openat(&dir, "second", O_CREAT | O_WRONLY, 0o644));
            eq!(t, t.names(&t.p("a/b")), Vec::<String>::new());
            eq!(t, t.names(&t.p("x/b")), ["d", "new", "second"]);
        },
    ),
    case("unlink below a renamed directory", |t| {
        t.mkdir("a");
        t.file("a/f", b"content");
        t.file("a/g", b"");
        ok!(t, stat(t.p("a/f")));
        ok!(t, rename(t.p("a"), t.p("b")));
        ok!(t, unlink(t.p("b/f")));
        ok!(t, rename(t.p("b/g"), t.p("b/h")));
        eq!(t, t.names(&t.p("b")), ["h"]);
        err!(t, ENOENT, stat(t.p("a/f")));
    }),
    case("a file open in a tree that is removed by rm -rf", |t| {
        t.mkdir("a");
        t.mkdir("a/b");
        let fd = ok!(t, open(t.file("a/b/f", b"content"), O_RDWR, 0));
        t.shell("rm -rf a");
        err!(t, ENOENT, stat(t.p("a")));
        eq!(t, ok!(t, pread(&fd, 20, 0)), b"content");
        ok!(t, pwrite(&fd, b"C", 0));
        eq!(t, ok!(t, pread(&fd, 20, 0)), b"Content");
        eq!(t, ok!(t, fstat(&fd)).nlink, 0);
        ok!(t, ftruncate(&fd, 0));
        t.mkdir("a");
        eq!(t, t.names(&t.p("a")), Vec::<String>::new());
    }),
    case("a working directory that is removed: ENOENT in it", |t| {
        t.mkdir("d");
        t.child(|| {
            ok!(t, rustix::process::chdir(t.p("d")));
            ok!(t, rmdir(t.p("d")));
            err!(t, ENOENT, open("f", O_CREAT | O_WRONLY, 0o644));
            err!(t, ENOENT, stat("f"));
            err!(t, ENOENT, rustix::process::getcwd(Vec::new()).map(drop));
            ok!(t, stat("."));
            t.mkdir("d");
            err!(t, ENOENT, open("f", O_CREAT | O_WRONLY, 0o644));
        });
        eq!(t, t.names(&t.p("d")), Vec::<String>::new());
    }),
    case(
        "many open files without names, each with its own content",
        |t| {
            let all: Vec<_> = (0..100u32)
                .map(|number| {
                    let fd = ok!(t, open(t.file("f", &number.to_le_bytes()), O_RDWR, 0));
                    ok!(t, unlink(t.p("f")));
                    fd
                })
                .collect();
            for (number, fd) in (0u32..).zip(&all) {
                eq!(t, ok!(t, pread(fd, 10, 0)), number.to_le_bytes());
            }
            eq!(t, t.names(t.dir), Vec::<String>::new());
        },
    ),
    case(
        "link counts of directories are two and one for each directory in them",
        |t| {
            t.mkdir("d");
            for number in 0..5 {
                t.mkdir(format!("d/e{number}"));
                t.file(format!("d/f{number}"), b"");
                eq!(t, ok!(t, stat(t.p("d"))).nlink, 3 + number);
            }
            ok!(t, rmdir(t.p("d/e0")));
            ok!(t, unlink(t.p("d/f0")));
            ok!(t, rename(t.p("d/e1"), t.p("out")));
            eq!(t, ok!(t, stat(t.p("d"))).nlink, 5);
            ok!(t, rename(t.p("d/e2"), t.p("d/e3")));
            eq!(t, ok!(t, stat(t.p("d"))).nlink, 4);
            eq!(t, ok!(t, stat(t.p("out"))).nlink, 2);
        },
    ),
    case(
        "EBADF-like uses of an O_PATH descriptor of a removed file do not find the next one",
        |t| {
            let path = t.file("f", b"old");
            let fd = ok!(t, open(&path, O_PATH, 0));
            ok!(t, unlink(&path));
            t.file("f", b"newer");
            let stat = ok!(t, fstat(&fd));
            eq!(t, (stat.size, stat.nlink), (3, 0));
            let by_fd = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
            match open(&by_fd, O_RDONLY, 0) {
                Ok(again) => eq!(t, ok!(t, read(&again, 10)), b"old"),
                Err(error) => is!(
                    t,
                    t.has(HOME) && error == Errno::NOENT,
                    "open of /proc/self/fd: {}",
                    name_of(error)
                ),
            }
        },
    ),
];
