//! The sticky bit: a name in such a directory belongs to the owner of the file and of the directory.

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case(
        "EPERM for unlink, rmdir and rename of what belongs to another",
        |t| {
            let dir = sticky(t, 0);
            ok!(t, creat(dir.join("anns"), 0o666));
            ok!(t, chown(dir.join("anns"), Some(ANN), Some(ANN)));
            ok!(t, mkdir(dir.join("annsdir"), 0o777));
            ok!(t, chown(dir.join("annsdir"), Some(ANN), Some(ANN)));
            t.user(BOB, || {
                err!(t, EPERM, unlink(dir.join("anns")));
                err!(t, EPERM, rmdir(dir.join("annsdir")));
                err!(t, EPERM, rename(dir.join("anns"), dir.join("x")));
                err!(t, EPERM, rename(dir.join("annsdir"), dir.join("x")));
                ok!(t, creat(dir.join("bobs"), 0o666));
                err!(t, EPERM, rename(dir.join("bobs"), dir.join("anns")));
                err!(
                    t,
                    EPERM,
                    renameat2(dir.join("bobs"), dir.join("anns"), RENAME_EXCHANGE)
                );
                // Writing into another's file is a matter of its mode.
                ok!(t, open(dir.join("anns"), O_WRONLY, 0));
                ok!(t, unlink(dir.join("bobs")));
            });
            eq!(t, t.names(&dir), ["anns", "annsdir"]);
            t.user(ANN, || {
                ok!(t, rename(dir.join("anns"), dir.join("renamed")));
                ok!(t, unlink(dir.join("renamed")));
                ok!(t, rmdir(dir.join("annsdir")));
            });
        },
    )
    .needs(USERS),
    case("the directory's owner may", |t| {
        let dir = sticky(t, BOB);
        for name in ["one", "two"] {
            ok!(t, creat(dir.join(name), 0o600));
            ok!(t, chown(dir.join(name), Some(ANN), Some(ANN)));
        }
        t.user(BOB, || {
            ok!(t, rename(dir.join("one"), dir.join("two")));
            ok!(t, unlink(dir.join("two")));
        });
        eq!(t, t.names(&dir), Vec::<String>::new());
    })
    .needs(USERS),
    case("without the bit anybody who may write may", |t| {
        let dir = t.open_dir("d");
        ok!(t, creat(dir.join("f"), 0o600));
        ok!(t, chown(dir.join("f"), Some(ANN), Some(ANN)));
        t.user(BOB, || {
            ok!(t, rename(dir.join("f"), dir.join("g")));
            ok!(t, unlink(dir.join("g")));
        });
    })
    .needs(USERS),
    case("moving a directory out of a sticky one, and into it", |t| {
        let dir = sticky(t, 0);
        t.open_dir("free");
        ok!(t, mkdir(dir.join("anns"), 0o777));
        ok!(t, chown(dir.join("anns"), Some(ANN), Some(ANN)));
        t.user(BOB, || {
            err!(t, EPERM, rename(dir.join("anns"), t.p("free/x")))
        });
        t.user(ANN, || {
            ok!(t, rename(dir.join("anns"), t.p("free/x")));
            ok!(t, rename(t.p("free/x"), dir.join("back")));
        });
    })
    .needs(USERS),
    case(
        "the bit is kept, inherited by nothing, and harmless on files",
        |t| {
            ok!(t, mkdir(t.p("d"), 0o1777));
            ok!(t, mkdir(t.p("d/e"), 0o755));
            eq!(
                t,
                (ok!(t, stat(t.p("d"))).mode, ok!(t, stat(t.p("d/e"))).mode),
                (0o1777, 0o755)
            );
            ok!(t, chmod(t.p("d"), 0o755));
            eq!(t, ok!(t, stat(t.p("d"))).mode, 0o755);
        },
    ),
];

/// A directory as /tmp is.
fn sticky(t: &Trial<'_>, owner: u32) -> std::path::PathBuf {
    t.dir_of(owner, "sticky", 0o1777)
}
