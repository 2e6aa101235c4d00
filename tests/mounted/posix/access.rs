//! access(2) and faccessat(2).

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("F_OK for what exists, ENOENT for what does not", |t| {
        for (name, kind) in t.kinds() {
            t.make(kind, &t.p(name));
            if kind != S_IFLNK {
                ok!(t, access(t.p(name), F_OK));
                ok!(t, access(t.p(name), R_OK | W_OK));
            }
        }
        err!(t, ENOENT, access(t.p("missing"), F_OK));
        err!(t, ENOENT, access("", F_OK));
        err!(t, ENOTDIR, access(t.p("file/x"), F_OK));
        err!(t, ENAMETOOLONG, access(t.p("n".repeat(256)), F_OK));
        err!(t, EINVAL, access(t.p("file"), 0o100));
    }),
    case("root may all but run what nobody may run", |t| {
        let path = t.file("f", b"");
        ok!(t, chmod(&path, 0));
        ok!(t, access(&path, R_OK | W_OK));
        err!(t, EACCES, access(&path, X_OK));
        ok!(t, chmod(&path, 0o001));
        ok!(t, access(&path, X_OK | R_OK));
        t.mkdir("d");
        ok!(t, chmod(t.p("d"), 0));
        ok!(t, access(t.p("d"), R_OK | W_OK | X_OK));
    })
    .needs(ROOT),
    case("every mode for its owner", |t| {
        let path = t.file("f", b"");
        every_mode(t, &path, 6);
    })
    .needs(PLAIN),
    case("every mode for owner, group and others", |t| {
        for (who, shift) in [(ANN, 6), (BOB, 3), (NOBODY, 0)] {
            let path = t.file_of(ANN, format!("f{shift}"), 0);
            ok!(t, chown(&path, None, Some(BOB)));
            for bits in 0..8u32 {
                ok!(t, chmod(&path, bits << shift));
                t.user(who, || check(t, &path, bits));
            }
        }
    })
    .needs(USERS),
    case(
        "asks with the real ids, AT_EACCESS with the effective",
        |t| {
            let path = t.file_of(ANN, "f", 0o600);
            t.child(|| {
                let (root, ann) = (rustix::fs::Uid::ROOT, rustix::fs::Uid::from_raw(ANN));
                ok!(t, rustix::thread::set_thread_groups(&[]));
                ok!(
                    t,
                    rustix::thread::set_thread_res_uid(rustix::fs::Uid::from_raw(BOB), ann, root)
                );
                err!(t, EACCES, access(&path, R_OK));
                ok!(t, eaccess(&path, R_OK | W_OK));
                err!(t, EACCES, eaccess(&path, X_OK));
            });
        },
    )
    .needs(USERS),
    case("a directory on the way must be searchable: EACCES", |t| {
        let dir = t.dir_of(ANN, "d", 0o755);
        ok!(t, creat(dir.join("f"), 0o666));
        ok!(t, chmod(&dir, 0o644));
        t.user(ANN, || err!(t, EACCES, access(dir.join("f"), F_OK)));
        t.user(BOB, || err!(t, EACCES, access(dir.join("f"), F_OK)));
    })
    .needs(USERS),
];

fn every_mode(t: &Trial<'_>, path: &std::path::Path, shift: u32) {
    for bits in 0..8u32 {
        ok!(t, chmod(path, bits << shift));
        check(t, path, bits);
    }
}

/// Asks for each right alone and for all that are there, where the caller's class has `bits`.
fn check(t: &Trial<'_>, path: &std::path::Path, bits: u32) {
    for (flag, need) in [
        (R_OK, 4),
        (W_OK, 2),
        (X_OK, 1),
        (R_OK | W_OK, 6),
        (R_OK | X_OK, 5),
        (R_OK | W_OK | X_OK, 7),
    ] {
        if bits & need == need {
            ok!(t, access(path, flag));
        } else {
            err!(t, EACCES, access(path, flag));
        }
    }
    ok!(t, access(path, F_OK));
}
