//! open(2), creat(2) and their flags.

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case(
        "O_TRUNC empties whatever the access, also for ioctls only",
        |t| {
            for access in [O_RDONLY, O_WRONLY, O_RDWR, O_WRONLY | O_RDWR] {
                let path = t.file(format!("f-{access}"), b"content");
                let fd = ok!(t, open(&path, access | O_TRUNC, 0));
                eq!(t, ok!(t, fstat(&fd)).size, 0);
                eq!(t, ok!(t, stat(&path)).size, 0);
                if access == O_WRONLY | O_RDWR {
                    err!(t, EBADF, read(&fd, 1));
                    err!(t, EBADF, write(&fd, b"x"));
                }
            }
        },
    ),
    case(
        "O_CREAT makes an empty regular file with the mode asked for",
        |t| {
            for mode in [0o644, 0o600, 0o777, 0o400, 0o000, 0o151] {
                let path = t.p(format!("f{mode:o}"));
                let fd = ok!(t, open(&path, O_CREAT | O_WRONLY, mode));
                let stat = ok!(t, fstat(&fd));
                eq!(
                    t,
                    (stat.kind, stat.mode, stat.size, stat.nlink),
                    (S_IFREG, mode, 0, 1)
                );
                eq!(t, ok!(t, lstat(&path)), stat);
            }
        },
    ),
    case("O_CREAT makes a writable descriptor even for mode 0", |t| {
        let fd = ok!(t, open(t.p("f"), O_CREAT | O_RDWR, 0));
        eq!(t, ok!(t, write(&fd, b"abc")), 3);
        eq!(t, ok!(t, pread(&fd, 9, 0)), b"abc");
    }),
    case("O_CREAT minds the umask", |t| {
        t.child(|| {
            for (mask, mode) in [
                (0o022, 0o644),
                (0o077, 0o600),
                (0o777, 0o000),
                (0o111, 0o666),
                (0o002, 0o664),
            ] {
                umask(mask);
                let path = t.p(format!("f{mask:o}"));
                ok!(t, open(&path, O_CREAT | O_WRONLY, 0o666));
                eq!(t, ok!(t, stat(&path)).mode, mode);
            }
        });
    }),
    case("O_CREAT gives the file to the caller", |t| {
        t.open_dir("d");
        t.user(ANN, || {
            ok!(t, open(t.p("d/f"), O_CREAT | O_WRONLY, 0o600));
            let stat = ok!(t, stat(t.p("d/f")));
            eq!(t, (stat.uid, stat.gid), (ANN, ANN));
        });
        t.user(BOB, || {
            ok!(t, creat(t.p("d/g"), 0o600));
            eq!(t, ok!(t, stat(t.p("d/g"))).uid, BOB);
        });
    })
    .needs(USERS),
    case(
        "O_CREAT updates the directory's times, and the file's are new",
        |t| {
            let before = t.age(t.dir);
            ok!(t, open(t.p("f"), O_CREAT | O_WRONLY, 0o644));
            let (dir, file) = (ok!(t, stat(t.dir)), ok!(t, stat(t.p("f"))));
            is!(t, dir.mtime > before.mtime && dir.ctime > before.ctime);
            is!(
                t,
                file.atime > before.ctime && file.mtime > before.ctime && file.ctime > before.ctime
            );
        },
    ),
    case("O_CREAT on an existing file changes nothing", |t| {
        let path = t.file("f", b"content");
        let before = t.age(&path);
        let dir = t.age(t.dir);
        ok!(t, open(&path, O_CREAT | O_RDWR, 0o777));
        unchanged!(t, path, before);
        eq!(t, ok!(t, stat(t.dir)).mtime, dir.mtime);
        eq!(t, t.content(&path), b"content");
    }),
    case("O_CREAT|O_EXCL gives EEXIST for any type of object", |t| {
        for (name, kind) in t.kinds() {
            t.make(kind, &t.p(name));
            err!(
                t,
                EEXIST,
                open(t.p(name), O_CREAT | O_EXCL | O_WRONLY, 0o644)
            );
            err!(
                t,
                EEXIST,
                open(t.p(name), O_CREAT | O_EXCL | O_RDONLY, 0o644)
            );
        }
    }),
    case("O_CREAT|O_EXCL: of many at once one wins", |t| {
        let path = t.p("f");
        let tries: Vec<_> = (0..8)
            .map(|_| {
                let path = path.clone();
                std::thread::spawn(move || open(&path, O_CREAT | O_EXCL | O_WRONLY, 0o644).is_ok())
            })
            .collect();
        eq!(
            t,
            tries
                .into_iter()
                .filter_map(|one| one.join().ok())
                .filter(|won| *won)
                .count(),
            1
        );
    }),
    case(
        "ENOENT for a missing file, a missing parent and the empty path",
        |t| {
            err!(t, ENOENT, open(t.p("missing"), O_RDONLY, 0));
            err!(t, ENOENT, open(t.p("missing"), O_RDWR, 0));
            err!(t, ENOENT, open(t.p("missing"), O_WRONLY | O_TRUNC, 0));
            err!(t, ENOENT, open(t.p("missing/f"), O_CREAT | O_WRONLY, 0o644));
            err!(t, ENOENT, open(t.p("missing"), O_PATH, 0));
            err!(t, ENOENT, open("", O_RDONLY, 0));
            err!(t, ENOENT, stat(t.p("missing")));
        },
    ),
    case(
        "a missing name can be created after it was looked up, and is missing again after its removal",
        |t| {
            for _ in 0..3 {
                err!(t, ENOENT, open(t.p("f"), O_RDONLY, 0));
                t.file("f", b"x");
                ok!(t, open(t.p("f"), O_RDONLY, 0));
                ok!(t, unlink(t.p("f")));
                err!(t, ENOENT, stat(t.p("f")));
                err!(t, ENOENT, open(t.p("f"), O_RDONLY, 0));
            }
        },
    ),
    case("ENOTDIR for a component that is no directory", |t| {
        t.file("f", b"");
        err!(t, ENOTDIR, open(t.p("f/x"), O_RDONLY, 0));
        err!(t, ENOTDIR, open(t.p("f/x"), O_CREAT | O_WRONLY, 0o644));
        err!(t, ENOTDIR, open(t.p("f/"), O_RDONLY, 0));
        err!(t, ENOTDIR, open(t.p("f/."), O_RDONLY, 0));
        ok!(t, mkfifo(t.p("p"), 0o644));
        err!(t, ENOTDIR, open(t.p("p/x"), O_RDONLY, 0));
    }),
    case(
        "O_DIRECTORY opens directories and gives ENOTDIR for the rest",
        |t| {
            t.mkdir("d");
            t.file("f", b"");
            ok!(t, mkfifo(t.p("p"), 0o644));
            ok!(t, open(t.p("d"), O_RDONLY | O_DIRECTORY, 0));
            err!(t, ENOTDIR, open(t.p("f"), O_RDONLY | O_DIRECTORY, 0));
            err!(t, ENOTDIR, open(t.p("p"), O_RDONLY | O_DIRECTORY, 0));
            err!(t, ENOTDIR, open(t.p("f"), O_PATH | O_DIRECTORY, 0));
        },
    ),
    case("EISDIR for opening a directory to write or create", |t| {
        t.mkdir("d");
        err!(t, EISDIR, open(t.p("d"), O_WRONLY, 0));
        err!(t, EISDIR, open(t.p("d"), O_RDWR, 0));
        err!(t, EISDIR, open(t.p("d"), O_RDONLY | O_TRUNC, 0));
        err!(t, EISDIR, open(t.p("d"), O_CREAT | O_RDONLY, 0o644));
        err!(t, EISDIR, open(t.p("new/"), O_CREAT | O_WRONLY, 0o644));
        err!(t, EISDIR, read(ok!(t, open(t.p("d"), O_RDONLY, 0)), 10));
        err!(t, EBADF, write(ok!(t, open(t.p("d"), O_RDONLY, 0)), b"x"));
    }),
    case("O_TRUNC empties a file and updates its times", |t| {
        for flags in [O_WRONLY, O_RDWR, O_WRONLY | O_CREAT] {
            let path = t.p("f");
            let _ = unlink(&path);
            t.file("f", b"content");
            let before = t.age(&path);
            let fd = ok!(t, open(&path, flags | O_TRUNC, 0o600));
            eq!(t, ok!(t, fstat(&fd)).size, 0);
            let after = ok!(t, stat(&path));
            eq!(
                t,
                (after.size, after.mode, after.nlink),
                (0, before.mode, 1)
            );
            is!(t, after.mtime > before.mtime && after.ctime > before.ctime);
            eq!(t, t.content(&path), b"");
        }
    }),
    case("O_TRUNC keeps the links, the owner and the mode", |t| {
        let path = t.file("f", b"content");
        ok!(t, link(&path, t.p("other")));
        ok!(t, chmod(&path, 0o640));
        let before = ok!(t, stat(&path));
        ok!(t, open(&path, O_WRONLY | O_TRUNC, 0));
        let after = ok!(t, stat(&path));
        eq!(
            t,
            (after.mode, after.uid, after.nlink, after.size),
            (before.mode, before.uid, 2, 0)
        );
        eq!(t, t.content(&t.p("other")), b"");
        eq!(t, ok!(t, stat(t.p("other"))).ino, after.ino);
    }),
    case(
        "O_TRUNC is seen through a descriptor that was open before",
        |t| {
            let path = t.file("f", b"content");
            let fd = ok!(t, open(&path, O_RDWR, 0));
            eq!(t, ok!(t, read(&fd, 3)), b"con");
            ok!(t, open(&path, O_WRONLY | O_TRUNC, 0));
            eq!(t, ok!(t, fstat(&fd)).size, 0);
            eq!(t, ok!(t, read(&fd, 9)), b"");
            ok!(t, pwrite(&fd, b"new", 0));
            eq!(t, t.content(&path), b"new");
        },
    ),
    case("O_APPEND writes at the end, whatever the position", |t| {
        let path = t.file("f", b"one");
        let (one, two) = (
            ok!(t, open(&path, O_RDWR | O_APPEND, 0)),
            ok!(t, open(&path, O_WRONLY | O_APPEND, 0)),
        );
        ok!(t, write(&two, b"two"));
        ok!(t, lseek(&one, SeekFrom::Start(0)));
        ok!(t, write(&one, b"three"));
        ok!(t, write(&two, b"four"));
        eq!(t, t.content(&path), b"onetwothreefour");
        eq!(t, ok!(t, lseek(&one, SeekFrom::Current(0))), 11);
        // Linux: pwrite on an O_APPEND descriptor appends too (pwrite(2), BUGS).
        ok!(t, pwrite(&one, b"five", 0));
        eq!(t, t.content(&path), b"onetwothreefourfive");
    }),
    case("O_APPEND: two processes do not overwrite each other", |t| {
        let path = t.file("f", b"");
        let others: Vec<_> = [b'a', b'b', b'c']
            .into_iter()
            .map(|byte| {
                let path = path.clone();
                crate::common::child::spawn(move || {
                    let fd =
                        open(&path, O_WRONLY | O_APPEND, 0).map_err(|error| error.to_string())?;
                    for _ in 0..200 {
                        write(&fd, &[byte; 10]).map_err(|error| error.to_string())?;
                    }
                    Ok(String::new())
                })
            })
            .collect();
        for other in others {
            eq!(t, other.join(), Ok(String::new()));
        }
        let content = t.content(&path);
        eq!(t, content.len(), 6000);
        is!(
            t,
            content
                .chunks(10)
                .all(|record| record.iter().all(|byte| *byte == record[0]))
        );
    }),
    case(
        "a descriptor does only what it was opened for: EBADF",
        |t| {
            let path = t.file("f", b"content");
            err!(t, EBADF, write(ok!(t, open(&path, O_RDONLY, 0)), b"x"));
            err!(t, EBADF, read(ok!(t, open(&path, O_WRONLY, 0)), 1));
            err!(t, EINVAL, ftruncate(ok!(t, open(&path, O_RDONLY, 0)), 0));
            let fd = ok!(t, open(&path, O_PATH, 0));
            err!(t, EBADF, read(&fd, 1));
            err!(t, EBADF, fchmod(&fd, 0o600));
            eq!(t, ok!(t, fstat(&fd)).size, 7);
        },
    ),
    case(
        "O_NOFOLLOW gives ELOOP for a symlink, and O_PATH|O_NOFOLLOW opens the link",
        |t| {
            t.file("f", b"content");
            ok!(t, symlink("f", t.p("l")));
            err!(t, ELOOP, open(t.p("l"), O_RDONLY | O_NOFOLLOW, 0));
            err!(
                t,
                ELOOP,
                open(t.p("l"), O_WRONLY | O_CREAT | O_NOFOLLOW, 0o644)
            );
            err!(
                t,
                ENOTDIR,
                open(t.p("l"), O_RDONLY | O_NOFOLLOW | O_DIRECTORY, 0)
            );
            eq!(
                t,
                ok!(t, fstat(ok!(t, open(t.p("l"), O_PATH | O_NOFOLLOW, 0)))).kind,
                S_IFLNK
            );
            ok!(t, open(t.p("f"), O_RDONLY | O_NOFOLLOW, 0));
        },
    )
    .needs(LINKS),
    case("O_CREAT through a dangling symlink makes its target", |t| {
        ok!(t, symlink("target", t.p("l")));
        err!(t, ENOENT, open(t.p("l"), O_RDONLY, 0));
        err!(
            t,
            EEXIST,
            open(t.p("l"), O_CREAT | O_EXCL | O_WRONLY, 0o644)
        );
        ok!(
            t,
            write(ok!(t, open(t.p("l"), O_CREAT | O_WRONLY, 0o644)), b"x")
        );
        eq!(t, t.content(&t.p("target")), b"x");
        eq!(t, ok!(t, lstat(t.p("l"))).kind, S_IFLNK);
    })
    .needs(LINKS),
    case(
        "O_CREAT needs a directory that may be written and searched: EACCES",
        |t| {
            t.dir_of(ANN, "closed", 0o555);
            t.dir_of(ANN, "unsearchable", 0o666);
            t.dir_of(ANN, "bobs", 0o777);
            t.user(ANN, || {
                err!(t, EACCES, open(t.p("closed/f"), O_CREAT | O_WRONLY, 0o644));
                err!(
                    t,
                    EACCES,
                    open(t.p("unsearchable/f"), O_CREAT | O_WRONLY, 0o644)
                );
            });
            t.user(BOB, || {
                err!(t, EACCES, open(t.p("closed/f"), O_CREAT | O_WRONLY, 0o644));
                ok!(t, open(t.p("bobs/f"), O_CREAT | O_WRONLY, 0o644));
            });
            err!(t, ENOENT, stat(t.p("closed/f")));
        },
    )
    .needs(USERS),
    case(
        "EACCES by owner, group and others, for each way to open",
        |t| {
            // A class's own bits count, even where another class has more.
            let ways = [(O_RDONLY, 4), (O_WRONLY, 2), (O_RDWR, 6)];
            for bits in 0..8u32 {
                let files = [(ANN, bits << 6), (BOB, bits << 3), (NOBODY, bits)];
                for (who, mode) in files {
                    let path = t.file_of(ANN, format!("f{who}-{bits}"), mode);
                    ok!(t, chown(&path, None, Some(BOB)));
                    ok!(t, chmod(&path, mode));
                    t.user(who, || {
                        for (way, need) in ways {
                            if bits & need == need {
                                ok!(t, open(&path, way, 0));
                            } else {
                                err!(t, EACCES, open(&path, way, 0));
                            }
                        }
                        if bits & 2 == 0 {
                            err!(t, EACCES, open(&path, O_RDONLY | O_TRUNC, 0));
                            err!(t, EACCES, open(&path, O_WRONLY | O_TRUNC, 0));
                        }
                    });
                    eq!(t, ok!(t, stat(&path)).size, 7);
                }
            }
        },
    )
    .needs(USERS),
    case(
        "the classes exclude each other: an owner without rights is not helped by the others' bits",
        |t| {
            let path = t.file_of(ANN, "f", 0o077);
            t.user(ANN, || err!(t, EACCES, open(&path, O_RDONLY, 0)));
            t.user(BOB, || drop(ok!(t, open(&path, O_RDWR, 0))));
            ok!(t, chmod(&path, 0o707));
            t.user(ANN, || drop(ok!(t, open(&path, O_RDWR, 0))));
            t.user_in(BOB, &[ANN], || err!(t, EACCES, open(&path, O_RDONLY, 0)));
            t.user(BOB, || drop(ok!(t, open(&path, O_RDWR, 0))));
        },
    )
    .needs(USERS),
    case("a supplementary group counts", |t| {
        let path = t.file_of(ANN, "f", 0o060);
        ok!(t, chown(&path, None, Some(4242)));
        t.user(BOB, || err!(t, EACCES, open(&path, O_RDONLY, 0)));
        t.user_in(BOB, &[1, 4242, 7], || drop(ok!(t, open(&path, O_RDWR, 0))));
    })
    .needs(USERS),
    case("O_NOATIME is the owner's: EPERM for others", |t| {
        let path = t.file_of(ANN, "f", 0o644);
        t.user(ANN, || drop(ok!(t, open(&path, O_RDONLY | O_NOATIME, 0))));
        t.user(BOB, || err!(t, EPERM, open(&path, O_RDONLY | O_NOATIME, 0)));
    })
    .needs(USERS),
    case("ENXIO for a FIFO without a reader, and for a socket", |t| {
        ok!(t, mkfifo(t.p("p"), 0o644));
        err!(t, ENXIO, open(t.p("p"), O_WRONLY | O_NONBLOCK, 0));
        let reader = ok!(t, open(t.p("p"), O_RDONLY | O_NONBLOCK, 0));
        let writer = ok!(t, open(t.p("p"), O_WRONLY | O_NONBLOCK, 0));
        ok!(t, write(&writer, b"through"));
        eq!(t, ok!(t, read(&reader, 20)), b"through");
        ok!(t, mknod(t.p("s"), S_IFSOCK | 0o644, 0));
        err!(t, ENXIO, open(t.p("s"), O_RDONLY, 0));
    }),
    case("ETXTBSY for writing to a program that runs", |t| {
        let program = t.program("program", "/bin/sleep");
        match std::process::Command::new(&program).arg("30").spawn() {
            Ok(mut running) => {
                err!(t, ETXTBSY, open(&program, O_WRONLY, 0));
                err!(t, ETXTBSY, truncate(&program, 0));
                err!(t, ETXTBSY, open(&program, O_RDWR | O_TRUNC, 0));
                let _ = running.kill();
                let _ = running.wait();
            }
            Err(error) => t.problem(format!("execve: {error}")),
        }
        ok!(t, open(&program, O_WRONLY, 0));
    }),
    case(
        "ETXTBSY for running a program that is open for writing, EACCES for one that is not executable",
        |t| {
            let program = t.program("program", "/bin/true");
            ok!(t, chmod(&program, 0o644));
            let run = || {
                std::process::Command::new(&program)
                    .status()
                    .map_err(|error| error.raw_os_error())
            };
            eq!(t, run().map(drop), Err(Some(EACCES)));
            ok!(t, chmod(&program, 0o755));
            let writer = ok!(t, open(&program, O_RDWR, 0));
            eq!(t, run().map(drop), Err(Some(ETXTBSY)));
            close(writer);
            // A child that another test has forked meanwhile holds a copy of the descriptor until it ends.
            let mut last = run().map(|status| status.success());
            for _ in 0..200 {
                if last != Err(Some(ETXTBSY)) {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
                last = run().map(|status| status.success());
            }
            eq!(t, last, Ok(true));
        },
    ),
    case("a script with an interpreter line runs", |t| {
        t.shell("printf '#!/bin/sh\\nexit 42\\n' >script; chmod 755 script");
        let status = std::process::Command::new(t.p("script")).status();
        eq!(t, status.map(|status| status.code()).ok(), Some(Some(42)));
    }),
    case(
        "openat goes by the directory that was opened, also after it was renamed",
        |t| {
            t.mkdir("d");
            let dir = ok!(t, open(t.p("d"), O_RDONLY | O_DIRECTORY, 0));
            ok!(t, rename(t.p("d"), t.p("e")));
            ok!(
                t,
                write(
                    ok!(t, openat(&dir, "f", O_CREAT | O_WRONLY, 0o644)),
                    b"here"
                )
            );
            eq!(t, t.content(&t.p("e/f")), b"here");
            err!(t, ENOENT, openat(&dir, "missing", O_RDONLY, 0));
            err!(
                t,
                ENOTDIR,
                openat(ok!(t, open(t.p("e/f"), O_RDONLY, 0)), "x", O_RDONLY, 0)
            );
            eq!(
                t,
                ok!(t, fstat(ok!(t, openat(&dir, "..", O_RDONLY, 0)))).ino,
                ok!(t, stat(t.dir)).ino
            );
        },
    ),
    case("a file opened many times at once is one file", |t| {
        let path = t.file("f", b"");
        let all: Vec<_> = (0..50).map(|_| ok!(t, open(&path, O_RDWR, 0))).collect();
        for (index, fd) in all.iter().enumerate() {
            ok!(
                t,
                pwrite(fd, &[u8::try_from(index).unwrap_or(0)], index as u64)
            );
        }
        eq!(
            t,
            ok!(t, pread(&all[0], 100, 0)),
            (0..50).collect::<Vec<u8>>()
        );
        eq!(t, ok!(t, fstat(&all[49])).size, 50);
    }),
    case("ENAMETOOLONG for a component of 256 bytes", |t| {
        ok!(t, open(t.p("n".repeat(255)), O_CREAT | O_WRONLY, 0o644));
        err!(
            t,
            ENAMETOOLONG,
            open(t.p("n".repeat(256)), O_CREAT | O_WRONLY, 0o644)
        );
        err!(t, ENAMETOOLONG, open(t.p("n".repeat(256)), O_RDONLY, 0));
    }),
    case("O_TMPFILE makes a file without a name", |t| {
        match open(t.dir, O_TMPFILE | O_RDWR, 0o600) {
            Ok(fd) => {
                ok!(t, write(&fd, b"x"));
                eq!(t, ok!(t, fstat(&fd)).nlink, 0);
            }
            // The file system below may lack it.
            Err(error) => eq!(t, name_of(error), "EOPNOTSUPP"),
        }
    })
    .needs(NATIVE),
    case(
        "O_TMPFILE gives EOPNOTSUPP, as on a file system without it",
        |t| {
            err!(t, EOPNOTSUPP, open(t.dir, O_TMPFILE | O_RDWR, 0o600));
            err!(
                t,
                EOPNOTSUPP,
                open(t.dir, O_TMPFILE | O_WRONLY | O_EXCL, 0o600)
            );
            eq!(t, t.names(t.dir), Vec::<String>::new());
        },
    )
    .needs(HOME),
    case("O_TMPFILE needs to write: EINVAL", |t| {
        err!(t, EINVAL, open(t.dir, O_TMPFILE | O_RDONLY, 0o600));
    }),
];
