//! fsync(2), fdatasync(2), syncfs(2), O_SYNC, statvfs(2).

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("fsync and fdatasync on files, by any descriptor", |t| {
        let path = t.file("f", b"content");
        for flags in [
            O_RDONLY,
            O_WRONLY,
            O_RDWR,
            O_RDWR | O_SYNC,
            O_RDWR | O_DSYNC,
        ] {
            let fd = ok!(t, open(&path, flags, 0));
            if flags != O_RDONLY {
                ok!(t, pwrite(&fd, b"C", 0));
            }
            ok!(t, fsync(&fd));
            ok!(t, fdatasync(&fd));
        }
        eq!(t, t.content(&path), b"Content");
    }),
    case("fsync on directories", |t| {
        t.file("f", b"");
        let dir = ok!(t, open(t.dir, O_RDONLY | O_DIRECTORY, 0));
        ok!(t, fsync(&dir));
        ok!(t, fdatasync(&dir));
        ok!(t, unlink(t.p("f")));
        ok!(t, fsync(&dir));
        ok!(t, syncfs(&dir));
    }),
    case("fsync on a file and a directory without a name", |t| {
        let (fd, dir) = (
            ok!(t, open(t.file("f", b"x"), O_RDWR, 0)),
            ok!(t, open(t.mkdir("d"), O_RDONLY, 0)),
        );
        ok!(t, unlink(t.p("f")));
        ok!(t, rmdir(t.p("d")));
        ok!(t, pwrite(&fd, b"y", 0));
        ok!(t, fsync(&fd));
        ok!(t, fsync(&dir));
    }),
    case("EBADF for O_PATH, EINVAL for what cannot be synced", |t| {
        t.file("f", b"");
        ok!(t, mkfifo(t.p("p"), 0o644));
        err!(t, EBADF, fsync(ok!(t, open(t.p("f"), O_PATH, 0))));
        err!(t, EINVAL, fsync(ok!(t, open(t.p("p"), O_RDWR, 0))));
    }),
    case(
        "the way editors save: write, fsync, rename, fsync the directory",
        |t| {
            t.file("f", b"old");
            let fd = ok!(t, open(t.p("f.new"), O_CREAT | O_EXCL | O_WRONLY, 0o644));
            ok!(t, write(&fd, b"new"));
            ok!(t, fsync(&fd));
            ok!(t, rename(t.p("f.new"), t.p("f")));
            ok!(t, fsync(ok!(t, open(t.dir, O_RDONLY, 0))));
            eq!(t, t.content(&t.p("f")), b"new");
        },
    ),
    case(
        "statvfs is plausible, and by path and descriptor the same",
        |t| {
            let path = t.file("f", b"");
            let (dir, file) = (
                ok!(t, statvfs(t.dir)),
                ok!(t, fstatvfs(ok!(t, open(&path, O_RDONLY, 0)))),
            );
            is!(t, dir.f_bsize >= 512 && dir.f_frsize >= 512);
            is!(
                t,
                dir.f_blocks > 0 && dir.f_bfree <= dir.f_blocks && dir.f_bavail <= dir.f_blocks
            );
            is!(t, dir.f_files >= dir.f_ffree);
            eq!(t, dir.f_namemax, 255);
            eq!(
                t,
                (file.f_blocks, file.f_bsize, file.f_namemax),
                (dir.f_blocks, dir.f_bsize, dir.f_namemax)
            );
            err!(t, ENOENT, statvfs(t.p("missing")));
            err!(t, ENOTDIR, statvfs(t.p("f/x")));
        },
    ),
];
