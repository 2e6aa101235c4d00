//! lseek(2), holes and sparse files.

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("SEEK_SET, SEEK_CUR and SEEK_END", |t| {
        let fd = ok!(t, open(t.file("f", b"0123456789"), O_RDWR, 0));
        eq!(t, ok!(t, lseek(&fd, SeekFrom::Start(4))), 4);
        eq!(t, ok!(t, read(&fd, 2)), b"45");
        eq!(t, ok!(t, lseek(&fd, SeekFrom::Current(-3))), 3);
        eq!(t, ok!(t, lseek(&fd, SeekFrom::End(-1))), 9);
        eq!(t, ok!(t, read(&fd, 10)), b"9");
        eq!(t, ok!(t, lseek(&fd, SeekFrom::End(100))), 110);
        eq!(t, ok!(t, read(&fd, 10)), b"");
    }),
    case("EINVAL before the start, ESPIPE for a FIFO", |t| {
        let fd = ok!(t, open(t.file("f", b"0123"), O_RDWR, 0));
        err!(t, EINVAL, lseek(&fd, SeekFrom::Current(-1)));
        err!(t, EINVAL, lseek(&fd, SeekFrom::End(-5)));
        eq!(t, ok!(t, lseek(&fd, SeekFrom::Current(0))), 0);
        ok!(t, mkfifo(t.p("p"), 0o644));
        err!(
            t,
            ESPIPE,
            lseek(
                ok!(t, open(t.p("p"), O_RDONLY | O_NONBLOCK, 0)),
                SeekFrom::Start(0)
            )
        );
    }),
    case("SEEK_END follows what another descriptor writes", |t| {
        let path = t.file("f", b"0123");
        let (one, two) = (
            ok!(t, open(&path, O_RDWR, 0)),
            ok!(t, open(&path, O_RDWR, 0)),
        );
        eq!(t, ok!(t, lseek(&one, SeekFrom::End(0))), 4);
        ok!(t, pwrite(&two, b"more", 4));
        eq!(t, ok!(t, lseek(&one, SeekFrom::End(0))), 8);
        ok!(t, truncate(&path, 2));
        eq!(t, ok!(t, lseek(&one, SeekFrom::End(0))), 2);
    }),
    case(
        "ENXIO for data or a hole before the start or behind the end",
        |t| {
            let fd = ok!(t, open(t.file("f", b"0123"), O_RDWR, 0));
            for at in [-1, i64::MIN, -4096, 4, 5, i64::MAX] {
                let at = at.cast_unsigned();
                err!(t, ENXIO, lseek(&fd, SeekFrom::Data(at)));
                err!(t, ENXIO, lseek(&fd, SeekFrom::Hole(at)));
            }
            eq!(t, ok!(t, lseek(&fd, SeekFrom::Current(0))), 0);
        },
    ),
    case(
        "SEEK_DATA and SEEK_HOLE find the parts of a sparse file",
        |t| {
            let fd = ok!(t, open(t.file("f", b""), O_RDWR, 0));
            ok!(t, ftruncate(&fd, 16 << 20));
            ok!(t, pwrite(&fd, &[1; 65536], 4 << 20));
            ok!(t, fsync(&fd));
            eq!(t, ok!(t, lseek(&fd, SeekFrom::Hole(0))), 0);
            eq!(t, ok!(t, lseek(&fd, SeekFrom::Data(0))), 4 << 20);
            eq!(
                t,
                ok!(t, lseek(&fd, SeekFrom::Data((4 << 20) + 100))),
                (4 << 20) + 100
            );
            eq!(
                t,
                ok!(t, lseek(&fd, SeekFrom::Hole(4 << 20))),
                (4 << 20) + 65536
            );
            err!(t, ENXIO, lseek(&fd, SeekFrom::Data(5 << 20)));
            eq!(t, ok!(t, lseek(&fd, SeekFrom::Hole(5 << 20))), 5 << 20);
        },
    )
    .needs(HOLES),
    case("SEEK_DATA and SEEK_HOLE past the end: ENXIO", |t| {
        let fd = ok!(t, open(t.file("f", b"0123"), O_RDWR, 0));
        eq!(t, ok!(t, lseek(&fd, SeekFrom::Data(0))), 0);
        eq!(t, ok!(t, lseek(&fd, SeekFrom::Hole(0))), 4);
        err!(t, ENXIO, lseek(&fd, SeekFrom::Data(4)));
        err!(t, ENXIO, lseek(&fd, SeekFrom::Hole(4)));
        err!(t, ENXIO, lseek(&fd, SeekFrom::Data(400)));
    }),
    case("a hole reads as zeros and takes no blocks", |t| {
        let path = t.file("f", b"");
        let fd = ok!(t, open(&path, O_RDWR, 0));
        ok!(t, pwrite(&fd, b"end", 8 << 20));
        ok!(t, fsync(&fd));
        let stat = ok!(t, stat(&path));
        eq!(t, stat.size, (8 << 20) + 3);
        is!(
            t,
            stat.blocks * 512 < 1 << 20,
            "write past the end: {} blocks",
            stat.blocks
        );
        eq!(t, ok!(t, pread(&fd, 4096, 1 << 20)), vec![0; 4096]);
        eq!(t, ok!(t, pread(&fd, 10, (8 << 20) - 2)), b"\0\0end");
    }),
    case("offsets far beyond 4 GiB", |t| {
        let path = t.file("f", b"");
        let fd = ok!(t, open(&path, O_RDWR, 0));
        for shift in [31, 32, 33, 40, 43] {
            let offset = (1u64 << shift) - 2;
            ok!(t, pwrite(&fd, b"far!", offset));
            eq!(t, ok!(t, pread(&fd, 10, offset)), b"far!");
            eq!(t, ok!(t, stat(&path)).size.unsigned_abs(), offset + 4);
            eq!(t, ok!(t, lseek(&fd, SeekFrom::End(-4))), offset);
            eq!(t, ok!(t, read(&fd, 4)), b"far!");
        }
        eq!(t, ok!(t, pread(&fd, 4, (1 << 31) - 2)), b"far!");
        ok!(t, ftruncate(&fd, (1 << 32) + 5));
        eq!(t, ok!(t, fstat(&fd)).size, (1 << 32) + 5);
    }),
];
