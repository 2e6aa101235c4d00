//! Permissions: directories by their modes, an ordinary user alone, root, and groups.

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case(
        "each right on a directory, alone: what it allows and what it does not",
        |t| {
            let dir = t.dir_of(ANN, "d", 0o777);
            ok!(t, creat(dir.join("f"), 0o666));
            ok!(t, mkdir(dir.join("e"), 0o777));
            for (who, shift) in [(ANN, 6), (BOB, 0)] {
                for bits in 0..8u32 {
                    ok!(t, chmod(&dir, bits << shift));
                    t.user(who, || each_right(t, &dir, bits));
                }
            }
        },
    )
    .needs(USERS),
    case(
        "each right on a directory for an ordinary user alone",
        |t| {
            let dir = t.mkdir("d");
            ok!(t, creat(dir.join("f"), 0o666));
            ok!(t, mkdir(dir.join("e"), 0o777));
            for bits in 0..8u32 {
                ok!(t, chmod(&dir, bits << 6));
                each_right(t, &dir, bits);
            }
            ok!(t, chmod(&dir, 0o700));
        },
    )
    .needs(PLAIN | CHECKED),
    case("each right on a file for an ordinary user alone", |t| {
        let path = t.file("f", b"content");
        for bits in 0..8u32 {
            ok!(t, chmod(&path, bits << 6 | 0o077));
            for (flags, need) in [
                (O_RDONLY, 4),
                (O_WRONLY, 2),
                (O_RDWR, 6),
                (O_WRONLY | O_APPEND, 2),
                (O_RDWR | O_CREAT, 6),
            ] {
                if bits & need == need {
                    ok!(t, open(&path, flags, 0));
                } else {
                    err!(t, EACCES, open(&path, flags, 0));
                }
            }
            if bits & 2 == 0 {
                err!(t, EACCES, truncate(&path, 0));
                err!(t, EACCES, open(&path, O_WRONLY | O_TRUNC, 0));
            }
        }
        eq!(t, t.content(&path), b"content");
    })
    .needs(PLAIN),
    case("a descriptor keeps the rights it was opened with", |t| {
        let path = t.file("f", b"content");
        let fd = ok!(t, open(&path, O_RDWR, 0));
        ok!(t, chmod(&path, 0));
        err!(t, EACCES, open(&path, O_RDONLY, 0));
        eq!(t, ok!(t, pread(&fd, 20, 0)), b"content");
        ok!(t, pwrite(&fd, b"C", 0));
        ok!(t, ftruncate(&fd, 3));
        eq!(t, ok!(t, fstat(&fd)).size, 3);
    })
    .needs(PLAIN),
    case("root passes every mode", |t| {
        let dir = t.mkdir("d");
        ok!(t, creat(dir.join("f"), 0));
        ok!(t, chmod(&dir, 0));
        ok!(t, open(dir.join("f"), O_RDWR, 0));
        ok!(t, creat(dir.join("g"), 0));
        eq!(t, t.names(&dir), ["f", "g"]);
        ok!(t, truncate(dir.join("f"), 10));
        ok!(t, rename(dir.join("f"), dir.join("h")));
        ok!(t, unlink(dir.join("g")));
    })
    .needs(ROOT),
    case(
        "root passes every mode of others' files and keeps their owner",
        |t| {
            t.dir_of(ANN, "d", 0o700);
            let path = t.file_of(ANN, "d/f", 0o600);
            ok!(
                t,
                write(ok!(t, open(&path, O_WRONLY | O_TRUNC, 0)), b"root's")
            );
            let stat = ok!(t, stat(&path));
            eq!(t, (stat.uid, stat.gid, stat.mode), (ANN, ANN, 0o600));
        },
    )
    .needs(ROOT),
    case("two users work in one directory, each as himself", |t| {
        t.open_dir("d");
        t.user(ANN, || {
            ok!(
                t,
                write(ok!(t, open(t.p("d/a"), O_CREAT | O_WRONLY, 0o644)), b"ann")
            );
        });
        t.user(BOB, || {
            eq!(t, t.content(&t.p("d/a")), b"ann");
            err!(t, EACCES, open(t.p("d/a"), O_WRONLY, 0));
            err!(t, EACCES, truncate(t.p("d/a"), 0));
            err!(t, EPERM, chmod(t.p("d/a"), 0o666));
            ok!(
                t,
                write(ok!(t, open(t.p("d/b"), O_CREAT | O_WRONLY, 0o600)), b"bob")
            );
        });
        t.user(ANN, || err!(t, EACCES, open(t.p("d/b"), O_RDONLY, 0)));
        t.user_in(ANN, &[BOB], || {
            err!(t, EACCES, open(t.p("d/b"), O_RDONLY, 0))
        });
        eq!(t, t.content(&t.p("d/b")), b"bob");
    })
    .needs(USERS),
    case(
        "replacing another's file in one's own directory is allowed, whatever its mode",
        |t| {
            let dir = t.dir_of(ANN, "d", 0o755);
            ok!(t, creat(dir.join("theirs"), 0o600));
            ok!(t, chown(dir.join("theirs"), Some(BOB), Some(BOB)));
            t.user(ANN, || {
                err!(t, EACCES, open(dir.join("theirs"), O_RDONLY, 0));
                ok!(t, creat(dir.join("mine"), 0o600));
                ok!(t, rename(dir.join("mine"), dir.join("theirs")));
            });
            eq!(t, ok!(t, stat(dir.join("theirs"))).uid, ANN);
        },
    )
    .needs(USERS),
    case(
        "removing a directory of another's in one's own is allowed while it is empty",
        |t| {
            let dir = t.dir_of(ANN, "d", 0o755);
            ok!(t, mkdir(dir.join("theirs"), 0o700));
            ok!(t, chown(dir.join("theirs"), Some(BOB), Some(BOB)));
            ok!(t, creat(dir.join("theirs/f"), 0o600));
            t.user(ANN, || err!(t, ENOTEMPTY, rmdir(dir.join("theirs"))));
            ok!(t, unlink(dir.join("theirs/f")));
            t.user(ANN, || ok!(t, rmdir(dir.join("theirs"))));
        },
    )
    .needs(USERS),
    case(
        "a way with one closed directory is closed: EACCES for every call",
        |t| {
            let dir = t.dir_of(ANN, "d", 0o700);
            ok!(t, mkdir(dir.join("e"), 0o777));
            ok!(t, creat(dir.join("e/f"), 0o666));
            t.user(BOB, || {
                let f = dir.join("e/f");
                err!(t, EACCES, stat(&f));
                err!(t, EACCES, open(&f, O_RDONLY, 0));
                err!(
                    t,
                    EACCES,
                    open(dir.join("e/new"), O_CREAT | O_WRONLY, 0o644)
                );
                err!(t, EACCES, mkdir(dir.join("e/new"), 0o755));
                err!(t, EACCES, rmdir(dir.join("e")));
                err!(t, EACCES, unlink(&f));
                err!(t, EACCES, rename(&f, dir.join("e/g")));
                err!(t, EACCES, link(&f, dir.join("e/g")));
                err!(t, EACCES, mkfifo(dir.join("e/p"), 0o644));
                err!(t, EACCES, truncate(&f, 0));
                err!(t, EACCES, utimensat(&f, OLD, OLD));
                err!(t, EACCES, chmod(&f, 0o600));
                err!(t, EACCES, chown(&f, None, Some(BOB)));
                err!(t, EACCES, access(&f, F_OK));
                err!(t, EACCES, readdir(dir.join("e")));
                err!(t, EACCES, statvfs(&f));
                err!(t, EACCES, readlink(&f));
            });
            eq!(t, t.names(&dir.join("e")), ["f"]);
        },
    )
    .needs(USERS),
];

/// Tries everything that a directory's rights decide; leaves it as it was.
fn each_right(t: &Trial<'_>, dir: &std::path::Path, bits: u32) {
    let (may_read, may_change, may_search) = (bits & 4 != 0, bits & 3 == 3, bits & 1 != 0);
    let expect = |what: &str, allowed: bool, result: Sys<()>| match result {
        Ok(()) => is!(
            t,
            allowed,
            "{what} in a directory with rights {bits}: expected EACCES, got success"
        ),
        Err(error) => is!(
            t,
            !allowed && error == Errno::ACCESS,
            "{what} in a directory with rights {bits}: got {}",
            name_of(error)
        ),
    };
    expect("readdir", may_read, readdir(dir).map(drop));
    expect("stat", may_search, stat(dir.join("f")).map(drop));
    expect(
        "open",
        may_search,
        open(dir.join("f"), O_RDONLY, 0).map(drop),
    );
    expect(
        "open(O_CREAT) of what exists",
        may_search,
        open(dir.join("f"), O_CREAT | O_RDONLY, 0o644).map(drop),
    );
    expect(
        "creat",
        may_change,
        open(dir.join("new"), O_CREAT | O_EXCL | O_WRONLY, 0o644).map(drop),
    );
    expect(
        "rename",
        may_change,
        rename(
            dir.join(if may_change { "new" } else { "f" }),
            dir.join("new2"),
        ),
    );
    expect(
        "link",
        may_change,
        link(
            dir.join(if may_change { "new2" } else { "f" }),
            dir.join("new3"),
        ),
    );
    expect(
        "unlink",
        may_change,
        unlink(dir.join(if may_change { "new2" } else { "f" })),
    );
    if may_change {
        expect("unlink", true, unlink(dir.join("new3")));
    }
    expect("mkdir", may_change, mkdir(dir.join("sub"), 0o755));
    expect(
        "rmdir",
        may_change,
        rmdir(dir.join(if may_change { "sub" } else { "e" })),
    );
    expect("mkfifo", may_change, mkfifo(dir.join("p"), 0o644));
    if may_change {
        expect("unlink", true, unlink(dir.join("p")));
    }
    // A chdir is a search right on the directory itself.
    expect("lookup of .", may_search, stat(dir.join(".")).map(drop));
}
