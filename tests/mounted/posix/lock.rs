//! flock(2) and the fcntl(2) locks: POSIX and open file description.

use super::trial::*;
use crate::common::calls::*;
use crate::common::child;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case(
        "flock: exclusive excludes, shared shares, EWOULDBLOCK otherwise",
        |t| {
            let path = t.file("f", b"");
            let (one, two) = (
                ok!(t, open(&path, O_RDWR, 0)),
                ok!(t, open(&path, O_RDONLY, 0)),
            );
            ok!(t, flock(&one, LOCK_EX));
            err!(t, EAGAIN, flock(&two, LOCK_EX | LOCK_NB));
            err!(t, EAGAIN, flock(&two, LOCK_SH | LOCK_NB));
            ok!(t, flock(&one, LOCK_SH));
            ok!(t, flock(&two, LOCK_SH | LOCK_NB));
            err!(t, EAGAIN, flock(&one, LOCK_EX | LOCK_NB));
            ok!(t, flock(&two, LOCK_UN));
            ok!(t, flock(&one, LOCK_EX | LOCK_NB));
            err!(t, EINVAL, flock(&one, 0));
        },
    ),
    case("flock: closing and dying release", |t| {
        let path = t.file("f", b"");
        let one = ok!(t, open(&path, O_RDWR, 0));
        let two = ok!(t, open(&path, O_RDWR, 0));
        t.child(|| {
            // A description of the child's own: dying closes it.
            let mine = ok!(t, open(&path, O_RDWR, 0));
            ok!(t, flock(&mine, LOCK_EX | LOCK_NB));
            std::mem::forget(mine);
        });
        ok!(t, flock(&two, LOCK_EX | LOCK_NB));
        ok!(t, flock(&two, LOCK_UN));
        ok!(t, flock(&one, LOCK_EX | LOCK_NB));
    }),
    case("flock: a waiter gets the lock when it is released", |t| {
        let path = t.file("f", b"");
        let holder = ok!(t, open(&path, O_RDWR, 0));
        ok!(t, flock(&holder, LOCK_EX));
        let (up, at) = ok!(t, rustix::pipe::pipe());
        let waiter = child::spawn(|| {
            let fd = open(&path, O_RDWR, 0).map_err(|error| error.to_string())?;
            write(&at, b"!").map_err(|error| error.to_string())?;
            flock(&fd, LOCK_EX).map_err(|error| error.to_string())?;
            write(&fd, b"mine").map_err(|error| error.to_string())?;
            Ok(String::new())
        });
        ok!(t, read(&up, 1));
        ok!(t, pwrite(&holder, b"hold", 0));
        eq!(t, t.content(&path), b"hold");
        ok!(t, flock(&holder, LOCK_UN));
        eq!(t, waiter.join(), Ok(String::new()));
        eq!(t, t.content(&path), b"mine");
    }),
    case(
        "fcntl: ranges of two processes exclude each other where they overlap",
        |t| {
            let path = t.file("f", b"0123456789");
            let fd = ok!(t, open(&path, O_RDWR, 0));
            ok!(t, fcntl_lock(&fd, F_SETLK, F_WRLCK, 0, 5));
            let me = std::process::id().cast_signed();
            t.child(|| {
                let fd = ok!(t, open(&path, O_RDWR, 0));
                err!(t, EAGAIN | EACCES, fcntl_lock(&fd, F_SETLK, F_WRLCK, 4, 5));
                err!(t, EAGAIN | EACCES, fcntl_lock(&fd, F_SETLK, F_RDLCK, 0, 0));
                ok!(t, fcntl_lock(&fd, F_SETLK, F_WRLCK, 5, 5));
                let held = ok!(t, fcntl_lock(&fd, F_GETLK, F_RDLCK, 2, 1));
                eq!(
                    t,
                    (i32::from(held.l_type), held.l_pid, held.l_start, held.l_len),
                    (F_WRLCK, me, 0, 5)
                );
                let free = ok!(t, fcntl_lock(&fd, F_GETLK, F_WRLCK, 20, 1));
                eq!(t, i32::from(free.l_type), F_UNLCK);
            });
            ok!(t, fcntl_lock(&fd, F_SETLK, F_UNLCK, 2, 1));
            t.child(|| {
                let fd = ok!(t, open(&path, O_RDWR, 0));
                ok!(t, fcntl_lock(&fd, F_SETLK, F_WRLCK, 2, 1));
                err!(t, EAGAIN | EACCES, fcntl_lock(&fd, F_SETLK, F_WRLCK, 3, 1));
            });
        },
    ),
    case(
        "fcntl: read locks share, and need a descriptor for reading: EBADF",
        |t| {
            let path = t.file("f", b"0123456789");
            let fd = ok!(t, open(&path, O_RDWR, 0));
            ok!(t, fcntl_lock(&fd, F_SETLK, F_RDLCK, 0, 0));
            t.child(|| {
                let fd = ok!(t, open(&path, O_RDWR, 0));
                ok!(t, fcntl_lock(&fd, F_SETLK, F_RDLCK, 0, 0));
                err!(t, EAGAIN | EACCES, fcntl_lock(&fd, F_SETLK, F_WRLCK, 0, 1));
            });
            err!(
                t,
                EBADF,
                fcntl_lock(ok!(t, open(&path, O_RDONLY, 0)), F_SETLK, F_WRLCK, 0, 1)
            );
            err!(
                t,
                EBADF,
                fcntl_lock(ok!(t, open(&path, O_WRONLY, 0)), F_SETLK, F_RDLCK, 0, 1)
            );
            err!(t, EINVAL, fcntl_lock(&fd, F_SETLK, F_WRLCK, -5, 2));
        },
    ),
    case(
        "fcntl: closing any descriptor of the file releases the process's locks",
        |t| {
            let path = t.file("f", b"0123456789");
            let fd = ok!(t, open(&path, O_RDWR, 0));
            ok!(t, fcntl_lock(&fd, F_SETLK, F_WRLCK, 0, 0));
            let try_lock = || {
                child::in_child(|| {
                    let fd = open(&path, O_RDWR, 0).map_err(|error| error.to_string())?;
                    Ok(fcntl_lock(&fd, F_SETLK, F_WRLCK, 0, 0)
                        .map_or("held", |_| "free")
                        .to_owned())
                })
            };
            eq!(t, try_lock(), Ok("held".to_owned()));
            close(ok!(t, open(&path, O_RDONLY, 0)));
            eq!(t, try_lock(), Ok("free".to_owned()));
        },
    ),
    case("fcntl: F_SETLKW waits", |t| {
        let path = t.file("f", b"");
        let fd = ok!(t, open(&path, O_RDWR, 0));
        ok!(t, fcntl_lock(&fd, F_SETLK, F_WRLCK, 0, 0));
        let (up, at) = ok!(t, rustix::pipe::pipe());
        let waiter = child::spawn(|| {
            let fd = open(&path, O_RDWR, 0).map_err(|error| error.to_string())?;
            write(&at, b"!").map_err(|error| error.to_string())?;
            fcntl_lock(&fd, F_SETLKW, F_WRLCK, 0, 0).map_err(|error| error.to_string())?;
            pwrite(&fd, b"mine", 0).map_err(|error| error.to_string())?;
            Ok(String::new())
        });
        ok!(t, read(&up, 1));
        eq!(t, ok!(t, stat(&path)).size, 0);
        ok!(t, fcntl_lock(&fd, F_SETLK, F_UNLCK, 0, 0));
        eq!(t, waiter.join(), Ok(String::new()));
        eq!(t, t.content(&path), b"mine");
    }),
    case(
        "open file description locks belong to the description",
        |t| {
            let path = t.file("f", b"0123456789");
            let (one, two) = (
                ok!(t, open(&path, O_RDWR, 0)),
                ok!(t, open(&path, O_RDWR, 0)),
            );
            ok!(t, fcntl_lock(&one, F_OFD_SETLK, F_WRLCK, 0, 5));
            err!(t, EAGAIN, fcntl_lock(&two, F_OFD_SETLK, F_WRLCK, 0, 5));
            ok!(t, fcntl_lock(&two, F_OFD_SETLK, F_WRLCK, 5, 5));
            let held = ok!(t, fcntl_lock(&two, F_OFD_GETLK, F_WRLCK, 0, 1));
            eq!(t, (i32::from(held.l_type), held.l_pid), (F_WRLCK, -1));
            ok!(t, fcntl_lock(&one, F_OFD_SETLK, F_UNLCK, 0, 5));
            ok!(t, fcntl_lock(&two, F_OFD_SETLK, F_WRLCK, 0, 5));
        },
    ),
    case(
        "locks stay over rename and unlink, and a new file of that name is free",
        |t| {
            let path = t.file("f", b"");
            let one = ok!(t, open(&path, O_RDWR, 0));
            ok!(t, flock(&one, LOCK_EX));
            ok!(t, rename(&path, t.p("g")));
            let two = ok!(t, open(t.p("g"), O_RDWR, 0));
            err!(t, EAGAIN, flock(&two, LOCK_EX | LOCK_NB));
            ok!(t, unlink(t.p("g")));
            err!(t, EAGAIN, flock(&two, LOCK_EX | LOCK_NB));
            t.file("g", b"");
            ok!(
                t,
                flock(ok!(t, open(t.p("g"), O_RDWR, 0)), LOCK_EX | LOCK_NB)
            );
        },
    ),
    case("flock on a directory", |t| {
        let (one, two) = (
            ok!(t, open(t.dir, O_RDONLY, 0)),
            ok!(t, open(t.dir, O_RDONLY, 0)),
        );
        ok!(t, flock(&one, LOCK_EX));
        err!(t, EAGAIN, flock(&two, LOCK_SH | LOCK_NB));
    }),
    case("a counter under a lock loses no step", |t| {
        let path = t.file("f", b"0");
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let path = path.clone();
                child::spawn(move || {
                    for _ in 0..100 {
                        let fd = open(&path, O_RDWR, 0).map_err(|error| error.to_string())?;
                        flock(&fd, LOCK_EX).map_err(|error| error.to_string())?;
                        let text = pread(&fd, 20, 0).map_err(|error| error.to_string())?;
                        let count: u32 = String::from_utf8_lossy(&text)
                            .parse()
                            .map_err(|_| format!("read {text:?}"))?;
                        pwrite(&fd, (count + 1).to_string().as_bytes(), 0)
                            .map_err(|error| error.to_string())?;
                    }
                    Ok(String::new())
                })
            })
            .collect();
        for worker in workers {
            eq!(t, worker.join(), Ok(String::new()));
        }
        eq!(t, t.content(&path), b"300");
    }),
];
