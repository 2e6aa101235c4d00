//! Setuid and setgid: what clears them, and what setgid directories hand on.

use super::trial::*;
use crate::common::calls::*;

pub(crate) const CASES: &[Case] = &[
    case(
        "what is made in a setgid directory has its group, and directories the bit",
        |t| {
            let dir = t.dir_of(ANN, "d", 0o755);
            ok!(t, chown(&dir, None, Some(4242)));
            ok!(t, chmod(&dir, 0o2777));
            let make = || {
                ok!(t, creat(dir.join("f"), 0o644));
                ok!(t, mkdir(dir.join("e"), 0o755));
                ok!(t, mkfifo(dir.join("p"), 0o644));
            };
            t.user(BOB, make);
            for (name, mode) in [("f", 0o644), ("e", 0o2755), ("p", 0o644)] {
                let stat = ok!(t, stat(dir.join(name)));
                eq!(t, (stat.uid, stat.gid, stat.mode), (BOB, 4242, mode));
            }
        },
    )
    .needs(USERS),
    case("the same for the owner of the home", |t| {
        let dir = t.mkdir("d");
        ok!(t, chown(&dir, None, Some(4242)));
        ok!(t, chmod(&dir, 0o2755));
        ok!(t, creat(dir.join("f"), 0o644));
        ok!(t, mkdir(dir.join("e"), 0o755));
        ok!(t, mkdir(dir.join("e/deeper"), 0o700));
        eq!(t, ok!(t, stat(dir.join("f"))).gid, 4242);
        for (name, mode) in [("e", 0o2755), ("e/deeper", 0o2700)] {
            let stat = ok!(t, stat(dir.join(name)));
            eq!(t, (stat.gid, stat.mode), (4242, mode));
        }
    })
    .needs(ROOT),
    case("a move or a link does not change the group", |t| {
        let dir = t.mkdir("d");
        ok!(t, chown(&dir, None, Some(4242)));
        ok!(t, chmod(&dir, 0o2755));
        let before = ok!(t, stat(t.file("f", b""))).gid;
        ok!(t, rename(t.p("f"), dir.join("f")));
        eq!(t, ok!(t, stat(dir.join("f"))).gid, before);
    })
    .needs(ROOT),
    case(
        "a setgid file made by one who is not of the group loses the bit",
        |t| {
            let dir = t.dir_of(ANN, "d", 0o755);
            ok!(t, chown(&dir, None, Some(4242)));
            ok!(t, chmod(&dir, 0o2777));
            t.user(BOB, || {
                ok!(t, creat(dir.join("f"), 0o2755));
                eq!(t, ok!(t, stat(dir.join("f"))).mode, 0o755);
            });
            t.user_in(BOB, &[4242], || {
                ok!(t, creat(dir.join("g"), 0o2755));
                eq!(t, ok!(t, stat(dir.join("g"))).mode, 0o2755);
            });
        },
    )
    .needs(USERS),
    case(
        "writing by an ordinary user clears setuid and setgid",
        |t| {
            for (way, change) in WAYS {
                let path = t.file_of(ANN, format!("f-{way}"), 0o6777);
                t.user(BOB, || {
                    ok!(t, change(&path));
                    is!(
                        t,
                        ok!(t, stat(&path)).mode == 0o777,
                        "{way} leaves mode {:o}",
                        ok!(t, stat(&path)).mode
                    );
                });
                is!(
                    t,
                    ok!(t, stat(&path)).mode == 0o777,
                    "{way}, seen by root: mode {:o}",
                    ok!(t, stat(&path)).mode
                );
            }
        },
    )
    .needs(USERS),
    case("writing by the owner clears them too", |t| {
        for (way, change) in WAYS {
            let path = t.file(format!("f-{way}"), b"content");
            ok!(t, chmod(&path, 0o6777));
            ok!(t, change(&path));
            is!(
                t,
                ok!(t, stat(&path)).mode == 0o777,
                "{way} leaves mode {:o}",
                ok!(t, stat(&path)).mode
            );
        }
    })
    .needs(PLAIN),
    case("writing by root clears nothing", |t| {
        for (way, change) in WAYS {
            let path = t.file(format!("f-{way}"), b"content");
            ok!(t, chmod(&path, 0o6777));
            ok!(t, change(&path));
            is!(
                t,
                ok!(t, stat(&path)).mode == 0o6777,
                "{way} leaves mode {:o}",
                ok!(t, stat(&path)).mode
            );
        }
    })
    .needs(ROOT),
    case(
        "setgid without the group's right to run is kept by one of the group",
        |t| {
            let path = t.file_of(ANN, "f", 0o2666);
            t.user(ANN, || {
                ok!(t, write(ok!(t, open(&path, O_WRONLY, 0)), b"x"));
            });
            eq!(t, ok!(t, stat(&path)).mode, 0o2666);
        },
    )
    .needs(USERS),
    case(
        "writing clears through a descriptor that was open before the bits were set",
        |t| {
            let path = t.file_of(ANN, "f", 0o666);
            t.user(ANN, || {
                let fd = ok!(t, open(&path, O_RDWR, 0));
                ok!(t, write(&fd, b"before"));
                ok!(t, chmod(&path, 0o4777));
                eq!(t, ok!(t, stat(&path)).mode, 0o4777);
                ok!(t, write(&fd, b"after"));
                eq!(t, ok!(t, stat(&path)).mode, 0o777);
            });
        },
    )
    .needs(USERS | LATE_SETID),
    case(
        "chown clears them on files, for root too, and leaves directories",
        |t| {
            let path = t.file("f", b"");
            for mode in [0o4755, 0o2755, 0o6755] {
                ok!(t, chmod(&path, mode));
                ok!(t, chown(&path, Some(ANN), Some(ANN)));
                eq!(t, ok!(t, stat(&path)).mode, 0o755);
            }
            t.mkdir("d");
            ok!(t, chmod(t.p("d"), 0o6755));
            ok!(t, chown(t.p("d"), Some(ANN), Some(ANN)));
            eq!(t, ok!(t, stat(t.p("d"))).mode, 0o6755);
        },
    )
    .needs(ROOT),
    case("chown by the owner clears them", |t| {
        let path = t.file_of(ANN, "f", 0o6755);
        t.user_in(ANN, &[4242], || ok!(t, chown(&path, None, Some(4242))));
        eq!(t, ok!(t, stat(&path)).mode, 0o755);
        ok!(t, chmod(&path, 0o6755));
        t.user_in(ANN, &[4242], || ok!(t, chown(&path, Some(ANN), Some(4242))));
        eq!(t, ok!(t, stat(&path)).mode, 0o755);
    })
    .needs(USERS),
    case(
        "chmod by one who is not of the file's group clears setgid",
        |t| {
            let path = t.file_of(ANN, "f", 0o644);
            ok!(t, chown(&path, None, Some(4242)));
            t.user(ANN, || ok!(t, chmod(&path, 0o2755)));
            eq!(t, ok!(t, stat(&path)).mode, 0o755);
            t.user_in(ANN, &[4242], || ok!(t, chmod(&path, 0o2755)));
            eq!(t, ok!(t, stat(&path)).mode, 0o2755);
            ok!(t, chmod(&path, 0o2755));
            eq!(t, ok!(t, stat(&path)).mode, 0o2755);
        },
    )
    .needs(USERS),
    case("reading clears nothing", |t| {
        let path = t.file_of(ANN, "f", 0o6755);
        t.user(BOB, || drop(t.content(&path)));
        eq!(t, ok!(t, stat(&path)).mode, 0o6755);
    })
    .needs(USERS),
];

type Way = (&'static str, fn(&std::path::Path) -> Sys<()>);

/// The ways to change a file's content.
const WAYS: &[Way] = &[
    ("write", |path| {
        write(open(path, O_WRONLY, 0)?, b"x").map(drop)
    }),
    ("append", |path| {
        write(open(path, O_WRONLY | O_APPEND, 0)?, b"x").map(drop)
    }),
    ("truncate", |path| truncate(path, 3)),
    ("ftruncate", |path| ftruncate(open(path, O_WRONLY, 0)?, 3)),
    ("O_TRUNC", |path| {
        open(path, O_WRONLY | O_TRUNC, 0).map(drop)
    }),
    ("fallocate", |path| {
        fallocate(open(path, O_WRONLY, 0)?, 0, 0, 8192)
    }),
    ("copy_file_range", |path| {
        let fd = open(path, O_RDWR, 0)?;
        copy_file_range(&fd, 0, &fd, 5, 1).map(drop)
    }),
    ("O_DIRECT", |path| {
        match open(path, O_WRONLY | O_DIRECT, 0) {
            Ok(fd) => pwrite(fd, Aligned::filled(1, 4096).bytes(), 0).map(drop),
            Err(_) => write(open(path, O_WRONLY, 0)?, b"x").map(drop),
        }
    }),
];
