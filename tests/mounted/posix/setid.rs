//! Set-user-id and set-group-id: what clears them, and what set-group-id directories pass on.

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

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
        "what is left of the bits, for every way, mode and relation to the group",
        |t| {
            for (way, change) in WAYS {
                for mode in [0o2666, 0o6666, 0o4666, 0o2676, 0o6777] {
                    for who in [Who::Owner, Who::Member, Who::Other, Who::RootWithout] {
                        let name = format!("f-{way}-{mode:o}-{who:?}");
                        let path = t.file_of(ANN, name, mode);
                        ok!(t, chown(&path, None, Some(GROUP)));
                        ok!(t, chmod(&path, mode));
                        who.run(t, || ok!(t, change(&path)));
                        let keeps = mode & 0o010 == 0 && matches!(who, Who::Member);
                        let wanted = if keeps { mode & !0o4000 } else { mode & 0o777 };
                        let got = ok!(t, stat(&path)).mode;
                        is!(
                            t,
                            got == wanted,
                            "{way} by {who:?} of mode {mode:o}: {got:o}, not {wanted:o}"
                        );
                    }
                }
            }
        },
    )
    .needs(USERS),
    case("opening for writing clears nothing", |t| {
        let path = t.file_of(ANN, "f", 0o6777);
        t.user(BOB, || {
            ok!(t, open(&path, O_WRONLY, 0));
            ok!(t, open(&path, O_RDWR | O_APPEND, 0));
        });
        eq!(t, ok!(t, stat(&path)).mode, 0o6777);
    })
    .needs(USERS),
    case(
        "the first write clears through every way that a file can be open",
        |t| {
            for (flags, other) in [
                (O_WRONLY, None),
                (O_RDWR, None),
                (O_WRONLY | O_APPEND, None),
                (O_WRONLY, Some(O_RDONLY)),
                (O_RDWR, Some(O_RDWR)),
            ] {
                for size in [100, 3 << 20] {
                    let path = t.file(format!("f-{flags}-{other:?}-{size}"), &vec![b'x'; size]);
                    ok!(t, chown(&path, Some(ANN), Some(ANN)));
                    ok!(t, chmod(&path, 0o6777));
                    let beside = other.map(|flags| ok!(t, open(&path, flags, 0)));
                    t.user(BOB, || {
                        let fd = ok!(t, open(&path, flags, 0));
                        eq!(t, ok!(t, fstat(&fd)).mode, 0o6777);
                        ok!(t, write(&fd, b"y"));
                        eq!(t, ok!(t, fstat(&fd)).mode, 0o777);
                    });
                    drop(beside);
                    eq!(t, ok!(t, stat(&path)).mode, 0o777);
                }
            }
        },
    )
    .needs(USERS),
    case(
        "a chown that names nobody clears them, by who may chmod, and leaves directories",
        |t| {
            for mode in [0o6755, 0o4644, 0o2755, 0o2644] {
                for who in [Who::Root, Who::Owner, Who::Member, Who::Other] {
                    let path = t.file_of(ANN, format!("f-{mode:o}-{who:?}"), mode);
                    ok!(t, chown(&path, None, Some(GROUP)));
                    ok!(t, chmod(&path, mode));
                    let before = t.age(&path);
                    let keeps = mode & 0o010 == 0 && matches!(who, Who::Member | Who::Root);
                    let wanted = if keeps { mode & !0o4000 } else { mode & 0o777 };
                    if wanted != mode && matches!(who, Who::Member | Who::Other) {
                        who.run(t, || err!(t, EPERM, chown(&path, None, None)));
                        eq!(t, ok!(t, stat(&path)).mode, mode);
                        continue;
                    }
                    who.run(t, || ok!(t, chown(&path, None, None)));
                    let now = ok!(t, stat(&path));
                    is!(
                        t,
                        now.mode == wanted,
                        "{who:?} of mode {mode:o}: {:o}, not {wanted:o}",
                        now.mode
                    );
                    is!(t, now.ctime > before.ctime);
                    eq!(t, (now.mtime, now.uid, now.gid), (OLD, ANN, GROUP));
                }
            }
            let dir = t.dir_of(ANN, "d", 0o6755);
            ok!(t, chown(&dir, None, None));
            eq!(t, ok!(t, stat(&dir)).mode, 0o6755);
        },
    )
    .needs(USERS),
    case("the same for the owner of a home", |t| {
        let path = t.file("f", b"content");
        ok!(t, chmod(&path, 0o6755));
        ok!(t, chown(&path, None, None));
        eq!(t, ok!(t, stat(&path)).mode, 0o755);
        ok!(t, chmod(&path, 0o2644));
        ok!(t, chown(&path, None, None));
        eq!(t, ok!(t, stat(&path)).mode, 0o2644);
    }),
    case(
        "chown by one who is not of the file's group takes setgid without the group's right to run",
        |t| {
            let path = t.file_of(ANN, "f", 0o644);
            ok!(t, chown(&path, None, Some(GROUP)));
            ok!(t, chmod(&path, 0o2644));
            t.user(ANN, || ok!(t, chown(&path, None, Some(ANN))));
            eq!(t, ok!(t, stat(&path)).mode, 0o644);
            ok!(t, chown(&path, None, Some(GROUP)));
            ok!(t, chmod(&path, 0o2644));
            t.user_in(ANN, &[GROUP], || ok!(t, chown(&path, None, Some(ANN))));
            eq!(t, ok!(t, stat(&path)).mode, 0o2644);
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
    .needs(USERS),
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

/// A group that neither of the users has as their first.
const GROUP: u32 = 4242;

/// Who changes a file of [`ANN`] and [`GROUP`].
#[derive(Debug, Clone, Copy)]
enum Who {
    Root,
    /// Root, but for the capability that keeps the bits.
    RootWithout,
    Owner,
    /// Another user, of the group by a supplementary one.
    Member,
    Other,
}

impl Who {
    fn run(self, t: &Trial<'_>, work: impl FnOnce()) {
        match self {
            Who::Root => work(),
            Who::RootWithout => t.child(|| {
                drop_capability_to_keep_setid();
                work();
            }),
            Who::Owner => t.user(ANN, work),
            Who::Member => t.user_in(BOB, &[GROUP], work),
            Who::Other => t.user(BOB, work),
        }
    }
}

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
    ("pwrite", |path| {
        pwrite(open(path, O_RDWR, 0)?, b"x", 3).map(drop)
    }),
    ("punch", |path| fallocate(open(path, O_RDWR, 0)?, 3, 0, 4)),
    ("O_DIRECT", |path| {
        match open(path, O_WRONLY | O_DIRECT, 0) {
            Ok(fd) => pwrite(fd, Aligned::filled(1, 4096).bytes(), 0).map(drop),
            Err(_) => write(open(path, O_WRONLY, 0)?, b"x").map(drop),
        }
    }),
];
