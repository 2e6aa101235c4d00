//! read(2), write(2) and their relatives.

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case(
        "what was written is read, by every size around a page and a request",
        |t| {
            for length in [
                0usize, 1, 511, 4095, 4096, 4097, 65536, 131_072, 131_073, 1_048_577, 3_000_000,
            ] {
                let content: Vec<u8> = (0..length).map(|index| (index * 31 % 253) as u8).collect();
                let path = t.file(format!("f{length}"), &content);
                eq!(t, t.content(&path) == content, true);
                eq!(t, ok!(t, stat(&path)).size as usize, length);
            }
        },
    ),
    case("pread and pwrite leave the position", |t| {
        let fd = ok!(t, open(t.file("f", b"0123456789"), O_RDWR, 0));
        ok!(t, read(&fd, 3));
        ok!(t, pwrite(&fd, b"XY", 7));
        eq!(t, ok!(t, pread(&fd, 3, 6)), b"6XY");
        eq!(t, ok!(t, lseek(&fd, SeekFrom::Current(0))), 3);
        eq!(t, ok!(t, read(&fd, 100)), b"3456XY9");
        eq!(t, ok!(t, read(&fd, 100)), b"");
    }),
    case("two descriptors see each other's writes at once", |t| {
        let path = t.file("f", b"");
        let (one, two) = (
            ok!(t, open(&path, O_RDWR, 0)),
            ok!(t, open(&path, O_RDWR, 0)),
        );
        for round in 0..50u64 {
            ok!(t, pwrite(&one, &round.to_le_bytes(), round * 8));
            eq!(t, ok!(t, pread(&two, 8, round * 8)), round.to_le_bytes());
            eq!(t, ok!(t, fstat(&two)).size as u64, (round + 1) * 8);
        }
    }),
    case(
        "a writer and a reader that opened differently see one content",
        |t| {
            let path = t.file("f", b"old content");
            let reader = ok!(t, open(&path, O_RDONLY, 0));
            eq!(t, ok!(t, pread(&reader, 20, 0)), b"old content");
            let writer = ok!(t, open(&path, O_WRONLY, 0));
            ok!(t, pwrite(&writer, b"NEW", 0));
            eq!(t, ok!(t, pread(&reader, 20, 0)), b"NEW content");
            close(writer);
            let appender = ok!(t, open(&path, O_WRONLY | O_APPEND, 0));
            ok!(t, write(&appender, b" and more"));
            eq!(t, ok!(t, pread(&reader, 40, 0)), b"NEW content and more");
        },
    ),
    case("scattered writes out of order", |t| {
        let path = t.file("f", b"");
        let fd = ok!(t, open(&path, O_RDWR, 0));
        let mut wanted = vec![0u8; 300_000];
        for step in 0..300usize {
            let at = step * 7919 % 299_000;
            let bytes = [(step % 255) as u8 + 1; 700];
            ok!(t, pwrite(&fd, &bytes, at as u64));
            wanted[at..at + 700].copy_from_slice(&bytes);
        }
        let got = t.content(&path);
        eq!(
            t,
            got == wanted[..got.len()] && wanted[got.len()..].iter().all(|byte| *byte == 0),
            true
        );
    }),
    case("readv and writev", |t| {
        use std::io::{IoSlice, IoSliceMut};
        let fd = ok!(t, open(t.file("f", b""), O_RDWR, 0));
        let parts = [
            IoSlice::new(b"one"),
            IoSlice::new(b""),
            IoSlice::new(b"three"),
        ];
        eq!(t, ok!(t, rustix::io::writev(&fd, &parts)), 8);
        let (mut a, mut b) = ([0; 4], [0; 10]);
        eq!(
            t,
            ok!(
                t,
                rustix::io::preadv(
                    &fd,
                    &mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)],
                    0
                )
            ),
            8
        );
        eq!(t, (&a, &b[..4]), (b"onet", &b"hree"[..]));
    }),
    case(
        "EFBIG past the process's limit, after a partial write up to it",
        |t| {
            let path = t.file("f", b"");
            t.child(|| {
                ignore_signal(libc::SIGXFSZ);
                limit_file_size(1000);
                let fd = ok!(t, open(&path, O_RDWR, 0));
                eq!(t, ok!(t, pwrite(&fd, &[1; 600], 0)), 600);
                eq!(t, ok!(t, pwrite(&fd, &[2; 600], 600)), 400);
                err!(t, EFBIG, pwrite(&fd, &[3; 10], 1000));
                eq!(t, ok!(t, pwrite(&fd, &[4; 600], 0)), 600);
            });
            eq!(t, ok!(t, stat(&path)).size, 1000);
        },
    ),
    case(
        "EFAULT-free basics: zero bytes change nothing, EINVAL for a negative offset",
        |t| {
            let path = t.file("f", b"content");
            let fd = ok!(t, open(&path, O_RDWR, 0));
            let before = t.age(&path);
            eq!(t, ok!(t, write(&fd, b"")), 0);
            eq!(t, ok!(t, read(&fd, 0)), b"");
            eq!(t, ok!(t, stat(&path)).mtime, before.mtime);
            err!(t, EINVAL, pread(&fd, 1, u64::MAX));
            err!(t, EINVAL, pwrite(&fd, b"x", u64::MAX));
        },
    ),
    case("RWF_APPEND and RWF_NOWAIT are minded or refused", |t| {
        use rustix::io::ReadWriteFlags;
        let path = t.file("f", b"content");
        let fd = ok!(t, open(&path, O_RDWR, 0));
        let slice = [std::io::IoSlice::new(b"!")];
        ok!(
            t,
            rustix::io::pwritev2(&fd, &slice, 0, ReadWriteFlags::APPEND)
        );
        eq!(t, t.content(&path), b"content!");
        let mut room = [0; 8];
        let mut slices = [std::io::IoSliceMut::new(&mut room)];
        match rustix::io::preadv2(&fd, &mut slices, 0, ReadWriteFlags::NOWAIT) {
            Ok(length) => eq!(t, length, 8),
            Err(error) => is!(
                t,
                [EAGAIN, EOPNOTSUPP].contains(&error.raw_os_error()),
                "preadv2(RWF_NOWAIT): {}",
                name_of(error)
            ),
        }
    }),
    case("dup shares the position, another open does not", |t| {
        let path = t.file("f", b"0123456789");
        let fd = ok!(t, open(&path, O_RDONLY, 0));
        let twin = ok!(t, rustix::io::dup(&fd));
        ok!(t, read(&fd, 4));
        eq!(t, ok!(t, read(&twin, 2)), b"45");
        eq!(t, ok!(t, read(ok!(t, open(&path, O_RDONLY, 0)), 2)), b"01");
    }),
    case("readahead, fadvise and sync_file_range do no harm", |t| {
        let path = t.file("f", &[9; 200_000]);
        let fd = ok!(t, open(&path, O_RDWR, 0));
        ok!(t, fsync(&fd));
        ok!(
            t,
            rustix::fs::fadvise(&fd, 0, None, rustix::fs::Advice::DontNeed)
        );
        ok!(
            t,
            rustix::fs::fadvise(&fd, 0, None, rustix::fs::Advice::WillNeed)
        );
        eq!(t, t.content(&path) == vec![9; 200_000], true);
    }),
];
