//! Which call changes which time, visible in the attributes at once.

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case(
        "write updates modification and change times, read the access time at most",
        |t| {
            let path = t.file("f", b"content");
            let before = t.age(&path);
            ok!(t, pwrite(ok!(t, open(&path, O_WRONLY, 0)), b"C", 0));
            let after = ok!(t, stat(&path));
            is!(
                t,
                after.mtime > before.mtime && after.ctime > before.ctime,
                "write: the times stay"
            );
            // The rest of the page is read for it, unless the cache still has that.
            is!(
                t,
                after.atime == before.atime || t.writes_back() && after.atime > before.ctime,
                "write: the access time does not stay"
            );
            let before = t.age(&path);
            t.content(&path);
            let after = ok!(t, stat(&path));
            unchanged!(t, path, Stat { atime: after.atime, ..before });
            is!(
                t,
                after.atime == before.atime || after.atime > before.ctime,
                "read: an access time that is neither old nor now"
            );
        },
    ),
    case(
        "fstat, stat and a second descriptor show a write's time at once",
        |t| {
            let path = t.file("f", b"content");
            let (one, two) = (
                ok!(t, open(&path, O_RDWR, 0)),
                ok!(t, open(&path, O_RDONLY, 0)),
            );
            for _ in 0..3 {
                let before = t.age(&path);
                ok!(t, pwrite(&one, b"x", 0));
                let seen = [
                    ok!(t, fstat(&one)),
                    ok!(t, fstat(&two)),
                    ok!(t, stat(&path)),
                ];
                is!(
                    t,
                    seen.iter()
                        .all(|stat| stat.mtime > before.mtime && stat.mtime == seen[0].mtime),
                    "write: mtimes {:?}",
                    seen.map(|stat| stat.mtime)
                );
            }
        },
    ),
    case(
        "a time does not change again when the file is closed or synced",
        |t| {
            let path = t.file("f", b"content");
            let fd = ok!(t, open(&path, O_RDWR, 0));
            ok!(t, pwrite(&fd, b"C", 0));
            let after = ok!(t, fstat(&fd));
            t.tick(after.ctime);
            ok!(t, fsync(&fd));
            eq!(t, ok!(t, fstat(&fd)).mtime, after.mtime);
            close(fd);
            eq!(t, ok!(t, stat(&path)).mtime, after.mtime);
            t.tick(after.ctime);
            close(ok!(t, open(&path, O_RDWR, 0)));
            eq!(t, ok!(t, stat(&path)).mtime, after.mtime);
        },
    ),
    case(
        "every change of a directory's entries updates the directory, nothing else does",
        |t| {
            let dir = t.mkdir("d");
            t.file("outside", b"");
            type Change = (&'static str, bool, fn(&Trial<'_>) -> Sys<()>);
            let changes: &[Change] = &[
                ("creat", true, |t| creat(t.p("d/f"), 0o644).map(drop)),
                ("write", false, |t| {
                    write(open(t.p("d/f"), O_WRONLY, 0)?, b"x").map(drop)
                }),
                ("truncate", false, |t| truncate(t.p("d/f"), 0)),
                ("chmod in it", false, |t| chmod(t.p("d/f"), 0o600)),
                ("utimensat in it", false, |t| {
                    utimensat(t.p("d/f"), OLD, OLD)
                }),
                ("stat", false, |t| stat(t.p("d/f")).map(drop)),
                ("link", true, |t| link(t.p("d/f"), t.p("d/g"))),
                ("rename within", true, |t| rename(t.p("d/g"), t.p("d/h"))),
                ("rename over", true, |t| rename(t.p("outside"), t.p("d/h"))),
                ("rename out", true, |t| rename(t.p("d/h"), t.p("outside"))),
                ("mkdir", true, |t| mkdir(t.p("d/e"), 0o755)),
                ("mkdir deeper", false, |t| mkdir(t.p("d/e/x"), 0o755)),
                ("rmdir deeper", false, |t| rmdir(t.p("d/e/x"))),
                ("exchange", true, |t| {
                    renameat2(t.p("d/e"), t.p("d/f"), RENAME_EXCHANGE)
                }),
                ("exchange back", true, |t| {
                    renameat2(t.p("d/e"), t.p("d/f"), RENAME_EXCHANGE)
                }),
                ("rmdir", true, |t| rmdir(t.p("d/e"))),
                ("mkfifo", true, |t| mkfifo(t.p("d/p"), 0o644)),
                ("unlink", true, |t| unlink(t.p("d/p"))),
            ];
            for (what, changes, change) in changes {
                let before = t.age(&dir);
                ok!(t, change(t));
                let after = ok!(t, stat(&dir));
                let changed = (after.mtime > before.mtime, after.ctime > before.ctime);
                is!(
                    t,
                    changed == (*changes, *changes),
                    "{what}: (mtime, ctime) of the directory changed: {changed:?}, expected {changes}"
                );
            }
        },
    ),
    case(
        "times are finer than a second, and the store's clock is the system's",
        |t| {
            let mut seen = std::collections::HashSet::new();
            for number in 0..20 {
                let path = t.file(format!("f{number}"), b"");
                let stat = ok!(t, stat(&path));
                seen.insert(stat.mtime.1);
                t.tick(stat.ctime);
            }
            is!(
                t,
                seen.len() > 10,
                "stat: 20 files have {} different nanoseconds",
                seen.len()
            );
            let now = std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |time| time.as_secs());
            let made = ok!(t, stat(t.p("f19"))).mtime.0;
            is!(
                t,
                made.abs_diff(now.cast_signed()) <= 2,
                "stat: a new file's time is {made}, the clock says {now}"
            );
        },
    ),
    case("noatime access times do not go back", |t| {
        let path = t.file("f", b"content");
        ok!(t, utimensat(&path, (4_000_000_000, 1), (1, 2)));
        t.content(&path);
        is!(
            t,
            ok!(t, stat(&path)).atime == (4_000_000_000, 1)
                || ok!(t, stat(&path)).atime.0 > 1_000_000_000
        );
        eq!(t, ok!(t, stat(&path)).mtime, (1, 2));
    }),
    case(
        "a removed and recreated name has the new file's times and number",
        |t| {
            let path = t.file("f", b"one");
            let old = t.age(&path);
            ok!(t, unlink(&path));
            t.file("f", b"three");
            let new = ok!(t, stat(&path));
            eq!(t, (new.size, new.nlink), (5, 1));
            is!(t, new.mtime > old.mtime && new.ctime > old.ctime);
        },
    ),
];
