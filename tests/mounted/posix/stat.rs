//! stat(2), lstat(2), fstat(2), fstatat(2) and statx(2).

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("all doors show the same", |t| {
        for (name, kind) in t.kinds() {
            let path = t.p(name);
            t.make(kind, &path);
            let by_path = ok!(t, lstat(&path));
            eq!(t, by_path.kind, kind);
            let fd = ok!(t, open(&path, O_PATH | O_NOFOLLOW, 0));
            eq!(t, ok!(t, fstat(&fd)), by_path);
            let dir = ok!(t, open(t.dir, O_PATH, 0));
            eq!(
                t,
                ok!(t, fstatat(&dir, name, libc::AT_SYMLINK_NOFOLLOW)),
                by_path
            );
            eq!(t, ok!(t, fstatat(&fd, "", libc::AT_EMPTY_PATH)), by_path);
            eq!(t, by_path.dev, ok!(t, stat(t.dir)).dev);
        }
    }),
    case(
        "statx shows the same, and a birth time if any that is not later than the change",
        |t| {
            use rustix::fs::{AtFlags, CWD, StatxFlags};
            let path = t.file("f", b"content");
            let plain = ok!(t, stat(&path));
            for sync in [
                AtFlags::empty(),
                AtFlags::STATX_FORCE_SYNC,
                AtFlags::STATX_DONT_SYNC,
            ] {
                let wide = ok!(
                    t,
                    rustix::fs::statx(
                        CWD,
                        &path,
                        sync,
                        StatxFlags::BASIC_STATS | StatxFlags::BTIME
                    )
                );
                eq!(
                    t,
                    (wide.stx_ino, u64::from(wide.stx_nlink), wide.stx_size),
                    (plain.ino, plain.nlink, 7)
                );
                eq!(
                    t,
                    (wide.stx_mtime.tv_sec, i64::from(wide.stx_mtime.tv_nsec)),
                    plain.mtime
                );
                eq!(t, u32::from(wide.stx_mode), plain.mode | plain.kind);
                if StatxFlags::from_bits_retain(wide.stx_mask).contains(StatxFlags::BTIME) {
                    is!(
                        t,
                        (wide.stx_btime.tv_sec, i64::from(wide.stx_btime.tv_nsec)) <= plain.ctime
                    );
                }
            }
        },
    ),
    case("inode numbers tell objects apart and stay", |t| {
        let mut seen = std::collections::HashSet::new();
        for number in 0..100 {
            t.file(format!("f{number}"), b"");
            is!(t, seen.insert(ok!(t, stat(t.p(format!("f{number}")))).ino));
        }
        let before = ok!(t, stat(t.p("f0"))).ino;
        ok!(t, rename(t.p("f0"), t.p("g")));
        eq!(t, ok!(t, stat(t.p("g"))).ino, before);
        // What readdir says is what stat says.
        let dir = ok!(t, open(t.dir, O_RDONLY | O_DIRECTORY, 0));
        for entry in ok!(t, rustix::fs::Dir::read_from(&dir)) {
            let entry = ok!(t, entry);
            if entry.file_name().to_bytes() != b".." {
                eq!(
                    t,
                    entry.ino(),
                    ok!(t, fstatat(&dir, entry.file_name(), 0)).ino
                );
            }
        }
    }),
    case("size and blocks follow what is written", |t| {
        let path = t.file("f", b"");
        let fd = ok!(t, open(&path, O_RDWR, 0));
        for length in [1usize, 4096, 10_000, 100_000] {
            ok!(t, pwrite(&fd, &vec![1; length], 0));
            eq!(
                t,
                ok!(t, stat(&path)).size,
                i64::try_from(length).unwrap_or(0)
            );
            eq!(
                t,
                ok!(t, fstat(&fd)).size,
                i64::try_from(length).unwrap_or(0)
            );
        }
        ok!(t, fsync(&fd));
        is!(t, ok!(t, stat(&path)).blocks * 512 >= 100_000);
    }),
    case("ENOENT, ENOTDIR and ENAMETOOLONG", |t| {
        t.file("f", b"");
        err!(t, ENOENT, stat(t.p("missing")));
        err!(t, ENOENT, stat(t.p("missing/f")));
        err!(t, ENOENT, stat(""));
        err!(t, ENOTDIR, stat(t.p("f/x")));
        err!(t, ENOTDIR, stat(t.p("f/")));
        err!(t, ENAMETOOLONG, stat(t.p("n".repeat(256))));
        err!(t, EBADF, fstat(bad_fd()));
        err!(t, EINVAL, fstatat(rustix::fs::CWD, t.p("f"), 0x1));
    }),
    case("needs to search the way, not to read the object", |t| {
        let dir = t.dir_of(ANN, "d", 0o755);
        ok!(t, creat(dir.join("f"), 0));
        t.user(BOB, || {
            ok!(t, stat(dir.join("f")));
        });
        ok!(t, chmod(&dir, 0o711));
        t.user(BOB, || {
            ok!(t, stat(dir.join("f")));
        });
        ok!(t, chmod(&dir, 0o744));
        t.user(BOB, || {
            err!(t, EACCES, stat(dir.join("f")));
            err!(t, EACCES, stat(dir.join("missing")));
            eq!(t, t.names(&dir), ["f"]);
        });
        ok!(t, chmod(&dir, 0o600));
        t.user(ANN, || err!(t, EACCES, stat(dir.join("f"))));
    })
    .needs(USERS),
    case(". and .. are where they should be", |t| {
        t.mkdir("d");
        t.mkdir("d/e");
        let ino = |path: &str| stat(t.p(path)).map(|stat| stat.ino);
        eq!(t, ok!(t, ino("d/.")), ok!(t, ino("d")));
        eq!(t, ok!(t, ino("d/e/..")), ok!(t, ino("d")));
        eq!(t, ok!(t, ino("d/e/../../d/./e")), ok!(t, ino("d/e")));
    }),
];

/// A descriptor that can never be open.
fn bad_fd() -> rustix::fd::BorrowedFd<'static> {
    // `AT_FDCWD` is no file: fstat on it gives EBADF like any number that is not open.
    rustix::fs::CWD
}
