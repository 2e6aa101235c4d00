//! renameat2(2): RENAME_NOREPLACE, RENAME_EXCHANGE and flags that are refused.

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("NOREPLACE moves to a free name of any type", |t| {
        for (name, kind) in t.kinds() {
            t.make(kind, &t.p(name));
            ok!(
                t,
                renameat2(t.p(name), t.p(format!("{name}-2")), RENAME_NOREPLACE)
            );
            eq!(t, ok!(t, lstat(t.p(format!("{name}-2")))).kind, kind);
            err!(t, ENOENT, lstat(t.p(name)));
        }
    }),
    case(
        "NOREPLACE gives EEXIST for a name in use, of any type, also its own",
        |t| {
            t.file("f", b"content");
            for (name, kind) in t.kinds() {
                t.make(kind, &t.p(name));
                err!(t, EEXIST, renameat2(t.p("f"), t.p(name), RENAME_NOREPLACE));
            }
            err!(t, EEXIST, renameat2(t.p("f"), t.p("f"), RENAME_NOREPLACE));
            ok!(t, link(t.p("f"), t.p("g")));
            err!(t, EEXIST, renameat2(t.p("f"), t.p("g"), RENAME_NOREPLACE));
            t.mkdir("d");
            t.mkdir("e");
            err!(t, EEXIST, renameat2(t.p("d"), t.p("e"), RENAME_NOREPLACE));
            eq!(t, t.content(&t.p("f")), b"content");
        },
    ),
    case("NOREPLACE gives ENOENT for a missing source", |t| {
        err!(
            t,
            ENOENT,
            renameat2(t.p("missing"), t.p("g"), RENAME_NOREPLACE)
        );
        err!(
            t,
            EINVAL,
            renameat2(t.mkdir("d"), t.p("d/x"), RENAME_NOREPLACE)
        );
    }),
    case("EXCHANGE swaps two objects of any types", |t| {
        for (name, kind) in t.kinds() {
            for (other, other_kind) in t.kinds() {
                let (a, b) = (t.p(format!("{name}-a")), t.p(format!("{other}-b")));
                t.make(kind, &a);
                t.make(other_kind, &b);
                let (first, second) = (ok!(t, lstat(&a)).ino, ok!(t, lstat(&b)).ino);
                ok!(t, renameat2(&a, &b, RENAME_EXCHANGE));
                let (now_a, now_b) = (ok!(t, lstat(&a)), ok!(t, lstat(&b)));
                eq!(t, (now_a.ino, now_a.kind), (second, other_kind));
                eq!(t, (now_b.ino, now_b.kind), (first, kind));
                t.remove(other_kind, &a);
                t.remove(kind, &b);
            }
        }
        eq!(t, t.names(t.dir), Vec::<String>::new());
    }),
    case(
        "EXCHANGE swaps whole trees across directories; both stay whole",
        |t| {
            for dir in ["a", "b", "a/x", "b/y"] {
                t.mkdir(dir);
            }
            t.file("a/x/f", b"one");
            t.file("b/y/g", b"two");
            ok!(t, renameat2(t.p("a/x"), t.p("b/y"), RENAME_EXCHANGE));
            eq!(t, t.content(&t.p("b/y/f")), b"one");
            eq!(t, t.content(&t.p("a/x/g")), b"two");
            eq!(
                t,
                ok!(t, stat(t.p("a/x/.."))).ino,
                ok!(t, stat(t.p("a"))).ino
            );
            err!(t, ENOENT, stat(t.p("a/x/f")));
            eq!(
                t,
                (ok!(t, stat(t.p("a"))).nlink, ok!(t, stat(t.p("b"))).nlink),
                (3, 3)
            );
        },
    ),
    case(
        "EXCHANGE of a directory with a file moves the link count",
        |t| {
            t.mkdir("a");
            t.mkdir("b");
            t.mkdir("a/d");
            t.file("b/f", b"");
            ok!(t, renameat2(t.p("a/d"), t.p("b/f"), RENAME_EXCHANGE));
            eq!(
                t,
                (ok!(t, stat(t.p("a"))).nlink, ok!(t, stat(t.p("b"))).nlink),
                (2, 3)
            );
        },
    ),
    case("EXCHANGE follows for open descriptors", |t| {
        let (a, b) = (t.file("a", b"one"), t.file("b", b"two"));
        let fd = ok!(t, open(&a, O_RDWR, 0));
        ok!(t, renameat2(&a, &b, RENAME_EXCHANGE));
        ok!(t, pwrite(&fd, b"ONE", 0));
        eq!(t, t.content(&b), b"ONE");
        eq!(t, t.content(&a), b"two");
    }),
    case(
        "EXCHANGE gives ENOENT if either is missing, EINVAL for a directory with what lies below it",
        |t| {
            t.file("f", b"");
            err!(
                t,
                ENOENT,
                renameat2(t.p("f"), t.p("missing"), RENAME_EXCHANGE)
            );
            err!(
                t,
                ENOENT,
                renameat2(t.p("missing"), t.p("f"), RENAME_EXCHANGE)
            );
            t.mkdir("d");
            t.mkdir("d/e");
            err!(t, EINVAL, renameat2(t.p("d"), t.p("d/e"), RENAME_EXCHANGE));
            err!(t, EINVAL, renameat2(t.p("d/e"), t.p("d"), RENAME_EXCHANGE));
            ok!(t, renameat2(t.p("f"), t.p("f"), RENAME_EXCHANGE));
        },
    ),
    case(
        "EXCHANGE updates both directories' times and both change times",
        |t| {
            t.mkdir("a");
            t.mkdir("b");
            t.file("a/f", b"");
            t.file("b/g", b"");
            let before: Vec<Stat> = ["a", "b", "a/f", "b/g"]
                .iter()
                .map(|name| t.age(&t.p(name)))
                .collect();
            ok!(t, renameat2(t.p("a/f"), t.p("b/g"), RENAME_EXCHANGE));
            for (name, before) in ["a", "b"].iter().zip(&before) {
                let after = ok!(t, stat(t.p(name)));
                is!(
                    t,
                    after.mtime > before.mtime && after.ctime > before.ctime,
                    "renameat2: the times of {name} stay"
                );
            }
            is!(t, ok!(t, stat(t.p("b/g"))).ctime > before[2].ctime);
            is!(t, ok!(t, stat(t.p("a/f"))).ctime > before[3].ctime);
        },
    ),
    case("EXCHANGE needs to write both directories: EACCES", |t| {
        t.open_dir("d");
        ok!(t, creat(t.p("d/f"), 0o666));
        t.dir_of(ANN, "closed", 0o755);
        ok!(t, creat(t.p("closed/g"), 0o666));
        t.user(BOB, || {
            err!(
                t,
                EACCES,
                renameat2(t.p("d/f"), t.p("closed/g"), RENAME_EXCHANGE)
            );
            err!(
                t,
                EACCES,
                renameat2(t.p("closed/g"), t.p("d/f"), RENAME_EXCHANGE)
            );
            err!(
                t,
                EACCES,
                renameat2(t.p("d/f"), t.p("closed/new"), RENAME_NOREPLACE)
            );
        });
    })
    .needs(USERS),
    case("EINVAL for flags together and unknown flags", |t| {
        t.file("f", b"");
        t.file("g", b"");
        err!(
            t,
            EINVAL,
            renameat2(t.p("f"), t.p("g"), RENAME_NOREPLACE | RENAME_EXCHANGE)
        );
        err!(
            t,
            EINVAL,
            renameat2(t.p("f"), t.p("g"), RENAME_WHITEOUT | RENAME_EXCHANGE)
        );
        err!(t, EINVAL, renameat2(t.p("f"), t.p("g"), 1 << 3));
        err!(t, EINVAL, renameat2(t.p("f"), t.p("g"), 1 << 31));
        eq!(t, t.names(t.dir), ["f", "g"]);
    }),
    case("EINVAL for RENAME_WHITEOUT", |t| {
        t.file("f", b"");
        err!(t, EINVAL, renameat2(t.p("f"), t.p("g"), RENAME_WHITEOUT));
        eq!(t, t.names(t.dir), ["f"]);
    })
    .needs(HOME | ROOT),
    case(
        "NOREPLACE of many onto one name: one wins, the others stay",
        |t| {
            for number in 0..8 {
                t.file(format!("f{number}"), b"");
            }
            let tries: Vec<_> = (0..8)
                .map(|number| {
                    let (from, to) = (t.p(format!("f{number}")), t.p("to"));
                    std::thread::spawn(move || renameat2(&from, &to, RENAME_NOREPLACE))
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
            eq!(t, t.names(t.dir).len(), 8);
        },
    ),
];
