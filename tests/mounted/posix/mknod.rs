//! mknod(2), mkfifo(3), and binding sockets.

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("mkfifo makes a FIFO with the mode asked for", |t| {
        for mode in [0o644, 0o600, 0o777, 0o000] {
            let path = t.p(format!("p{mode:o}"));
            ok!(t, mkfifo(&path, mode));
            let stat = ok!(t, lstat(&path));
            eq!(
                t,
                (stat.kind, stat.mode, stat.nlink, stat.size),
                (S_IFIFO, mode, 1, 0)
            );
        }
    }),
    case("mknod makes regular files, FIFOs and sockets", |t| {
        for (name, kind) in [("f", S_IFREG), ("p", S_IFIFO), ("s", S_IFSOCK)] {
            ok!(t, mknod(t.p(name), kind | 0o640, 0));
            let stat = ok!(t, lstat(t.p(name)));
            eq!(t, (stat.kind, stat.mode, stat.nlink), (kind, 0o640, 1));
        }
        ok!(t, write(ok!(t, open(t.p("f"), O_WRONLY, 0)), b"content"));
        eq!(t, t.content(&t.p("f")), b"content");
    }),
    case("mknod minds the umask", |t| {
        t.child(|| {
            umask(0o077);
            ok!(t, mkfifo(t.p("p"), 0o666));
            ok!(t, mknod(t.p("f"), S_IFREG | 0o666, 0));
            eq!(t, ok!(t, stat(t.p("p"))).mode, 0o600);
            eq!(t, ok!(t, stat(t.p("f"))).mode, 0o600);
        });
    }),
    case("a FIFO carries bytes between processes", |t| {
        ok!(t, mkfifo(t.p("p"), 0o600));
        let path = t.p("p");
        let writer = crate::common::child::spawn(move || {
            let fd = open(&path, O_WRONLY, 0).map_err(|error| error.to_string())?;
            write(&fd, b"through").map_err(|error| error.to_string())?;
            Ok(String::new())
        });
        let reader = ok!(t, open(t.p("p"), O_RDONLY, 0));
        let mut all = Vec::new();
        loop {
            let part = ok!(t, read(&reader, 100));
            if part.is_empty() {
                break;
            }
            all.extend(part);
        }
        eq!(t, all, b"through");
        eq!(t, writer.join(), Ok(String::new()));
    }),
    case("a socket is bound, connected to and talked through", |t| {
        use std::io::{Read, Write};
        // A socket's path may have 107 bytes; a link of the descriptor keeps it short.
        let dir = ok!(t, open(t.dir, O_PATH, 0));
        let short = format!("/proc/self/fd/{}/s", std::os::fd::AsRawFd::as_raw_fd(&dir));
        let listener = match std::os::unix::net::UnixListener::bind(&short) {
            Ok(listener) => listener,
            Err(error) => t.stop(format!("bind: {error}")),
        };
        eq!(t, ok!(t, lstat(t.p("s"))).kind, S_IFSOCK);
        let again =
            std::os::unix::net::UnixListener::bind(&short).map_err(|error| error.raw_os_error());
        eq!(t, again.map(drop), Err(Some(EADDRINUSE)));
        match std::os::unix::net::UnixStream::connect(&short) {
            Ok(mut client) => {
                let mut heard = [0; 5];
                is!(t, client.write_all(b"hello").is_ok());
                is!(
                    t,
                    listener
                        .accept()
                        .is_ok_and(|(mut peer, _)| peer.read_exact(&mut heard).is_ok())
                );
                eq!(t, &heard, b"hello");
            }
            Err(error) => t.problem(format!("connect: {error}")),
        }
        drop(listener);
        let refused =
            std::os::unix::net::UnixStream::connect(&short).map_err(|error| error.raw_os_error());
        eq!(t, refused.map(drop), Err(Some(ECONNREFUSED)));
        ok!(t, unlink(t.p("s")));
    }),
    case("EEXIST for a name of any type", |t| {
        for (name, kind) in t.kinds() {
            t.make(kind, &t.p(name));
            err!(t, EEXIST, mkfifo(t.p(name), 0o644));
            err!(t, EEXIST, mknod(t.p(name), S_IFREG | 0o644, 0));
        }
    }),
    case("ENOENT, ENOTDIR and ENAMETOOLONG", |t| {
        t.file("f", b"");
        err!(t, ENOENT, mkfifo(t.p("missing/p"), 0o644));
        err!(t, ENOENT, mkfifo("", 0o644));
        err!(t, ENOTDIR, mkfifo(t.p("f/p"), 0o644));
        err!(t, ENAMETOOLONG, mkfifo(t.p("n".repeat(256)), 0o644));
        ok!(t, mkfifo(t.p("n".repeat(255)), 0o644));
        err!(t, ENOENT, mknod(t.p("missing/f"), S_IFREG | 0o644, 0));
        err!(t, ENOENT | ENOTDIR, mkfifo(t.p("p/"), 0o644));
    }),
    case("EPERM for a directory and for a type that is none", |t| {
        err!(t, EPERM, mknod(t.p("d"), S_IFDIR | 0o755, 0));
        err!(t, EINVAL, mknod(t.p("l"), S_IFLNK | 0o755, 0));
        err!(t, ENOENT, lstat(t.p("d")));
    }),
    case("updates the directory's times", |t| {
        let before = t.age(t.dir);
        ok!(t, mkfifo(t.p("p"), 0o644));
        let (after, new) = (ok!(t, stat(t.dir)), ok!(t, stat(t.p("p"))));
        is!(t, after.mtime > before.mtime && after.ctime > before.ctime);
        is!(
            t,
            new.atime > before.ctime && new.mtime > before.ctime && new.ctime > before.ctime
        );
    }),
    case(
        "EACCES for a directory that may not be written; the caller owns what it makes",
        |t| {
            t.dir_of(ANN, "closed", 0o555);
            t.open_dir("d");
            t.user(ANN, || {
                err!(t, EACCES, mkfifo(t.p("closed/p"), 0o644));
                ok!(t, mkfifo(t.p("d/p"), 0o644));
                ok!(t, mknod(t.p("d/s"), S_IFSOCK | 0o644, 0));
                for name in ["d/p", "d/s"] {
                    let stat = ok!(t, stat(t.p(name)));
                    eq!(t, (stat.uid, stat.gid), (ANN, ANN));
                }
            });
        },
    )
    .needs(USERS),
    case("EPERM for a device node from an ordinary user", |t| {
        t.open_dir("d");
        t.user(ANN, || {
            err!(t, EPERM, mknod(t.p("d/c"), S_IFCHR | 0o644, 0x0103));
            err!(t, EPERM, mknod(t.p("d/b"), S_IFBLK | 0o644, 0x0700));
        });
    })
    .needs(USERS),
    case("device nodes keep their numbers", |t| {
        for (name, kind, dev) in [("c", S_IFCHR, 0x0103), ("b", S_IFBLK, 0x0700)] {
            ok!(t, mknod(t.p(name), kind | 0o600, dev));
            let stat = ok!(t, lstat(t.p(name)));
            eq!(t, (stat.kind, stat.rdev, stat.mode), (kind, dev, 0o600));
        }
    })
    .needs(DEVICES),
];
