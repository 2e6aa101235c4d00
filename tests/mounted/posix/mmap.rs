//! mmap(2): shared and private mappings, and their coherence with read(2) and write(2).

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case(
        "a mapping shows the file, and a shared one writes it",
        |t| {
            let path = t.file("f", &[b'a'; 10_000]);
            let fd = ok!(t, open(&path, O_RDWR, 0));
            let map = ok!(t, Map::new(&fd, 10_000, 0, true, true));
            eq!(t, map.get(9990, 10), b"aaaaaaaaaa");
            map.put(5000, b"through the map");
            ok!(t, map.msync());
            eq!(t, ok!(t, pread(&fd, 15, 5000)), b"through the map");
            drop((map, fd));
            eq!(t, &t.content(&path)[5000..5015], b"through the map");
            eq!(t, ok!(t, stat(&path)).size, 10_000);
        },
    ),
    case(
        "write is seen in the mapping and the mapping by read, at once",
        |t| {
            let path = t.file("f", &[0; 8192]);
            let (fd, other) = (
                ok!(t, open(&path, O_RDWR, 0)),
                ok!(t, open(&path, O_RDWR, 0)),
            );
            let map = ok!(t, Map::new(&fd, 8192, 0, true, true));
            for round in 0..20u8 {
                let at = usize::from(round) * 400;
                ok!(t, pwrite(&other, &[round + 1; 4], at as u64));
                eq!(t, map.get(at, 4), [round + 1; 4]);
                map.put(at + 100, &[round + 100; 4]);
                eq!(
                    t,
                    ok!(t, pread(&other, 4, at as u64 + 100)),
                    [round + 100; 4]
                );
            }
        },
    ),
    case("two processes share a mapping", |t| {
        let path = t.file("f", &[0; 4096]);
        let fd = ok!(t, open(&path, O_RDWR, 0));
        let map = ok!(t, Map::new(&fd, 4096, 0, true, true));
        map.put(0, b"parent");
        t.child(|| {
            let fd = ok!(t, open(&path, O_RDWR, 0));
            let mine = ok!(t, Map::new(&fd, 4096, 0, true, true));
            eq!(t, mine.get(0, 6), b"parent");
            mine.put(100, b"child");
        });
        eq!(t, map.get(100, 5), b"child");
        ok!(t, map.msync());
        eq!(t, &t.content(&path)[100..105], b"child");
    }),
    case("many writers through mappings of one file", |t| {
        let path = t.file("f", &[0; 40_960]);
        let workers: Vec<_> = (0..4u8)
            .map(|worker| {
                let path = path.clone();
                crate::common::child::spawn(move || {
                    let fd = open(&path, O_RDWR, 0).map_err(|error| error.to_string())?;
                    let map =
                        Map::new(&fd, 40_960, 0, true, true).map_err(|error| error.to_string())?;
                    for index in 0..10_240 {
                        map.put(index * 4 + usize::from(worker), &[worker + 1]);
                    }
                    map.msync().map_err(|error| error.to_string())?;
                    Ok(String::new())
                })
            })
            .collect();
        for worker in workers {
            eq!(t, worker.join(), Ok(String::new()));
        }
        is!(
            t,
            t.content(&path)
                .chunks(4)
                .all(|chunk| chunk == [1, 2, 3, 4])
        );
    }),
    case("a private mapping writes nothing", |t| {
        let path = t.file("f", b"content");
        let fd = ok!(t, open(&path, O_RDONLY, 0));
        let map = ok!(t, Map::new(&fd, 7, 0, false, true));
        map.put(0, b"CHANGED");
        eq!(t, map.get(0, 7), b"CHANGED");
        drop(map);
        eq!(t, t.content(&path), b"content");
    }),
    case(
        "EACCES for a writable shared mapping of a descriptor that is not, ENODEV for a directory",
        |t| {
            let path = t.file("f", b"content");
            err!(
                t,
                EACCES,
                Map::new(ok!(t, open(&path, O_RDONLY, 0)), 7, 0, true, true)
            );
            err!(
                t,
                EACCES,
                Map::new(ok!(t, open(&path, O_WRONLY, 0)), 7, 0, true, false)
            );
            err!(
                t,
                ENODEV,
                Map::new(ok!(t, open(t.dir, O_RDONLY, 0)), 4096, 0, true, false)
            );
            err!(
                t,
                EINVAL,
                Map::new(ok!(t, open(&path, O_RDWR, 0)), 7, 100, true, false)
            );
        },
    ),
    case("a mapping outlives its descriptor and its name", |t| {
        let path = t.file("f", &[1; 4096]);
        let fd = ok!(t, open(&path, O_RDWR, 0));
        let map = ok!(t, Map::new(&fd, 4096, 0, true, true));
        close(fd);
        ok!(t, unlink(&path));
        t.file("f", b"another");
        map.put(10, b"still here");
        eq!(t, map.get(10, 10), b"still here");
        ok!(t, map.msync());
        eq!(t, t.content(&path), b"another");
    }),
    case("a part of a file, at an offset", |t| {
        let fd = ok!(t, open(t.file("f", b""), O_RDWR, 0));
        ok!(t, ftruncate(&fd, 1 << 20));
        let map = ok!(t, Map::new(&fd, 4096, 65536, true, true));
        map.put(5, b"here");
        eq!(t, ok!(t, pread(&fd, 4, 65541)), b"here");
    }),
    case(
        "writing through a mapping updates the modification time by msync",
        |t| {
            let path = t.file("f", &[1; 4096]);
            let fd = ok!(t, open(&path, O_RDWR, 0));
            let map = ok!(t, Map::new(&fd, 4096, 0, true, true));
            let before = t.age(&path);
            map.put(0, b"x");
            ok!(t, map.msync());
            drop((map, fd));
            // The kernel syncs a map without asking the daemon, and tells it of the close after close(2) has returned.
            let mut after = ok!(t, stat(&path));
            for _ in 0..100 {
                if t.has(HOME) && after.mtime == before.mtime {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    after = ok!(t, stat(&path));
                }
            }
            is!(t, after.mtime > before.mtime && after.ctime > before.ctime);
        },
    ),
    case(
        "bytes past the end within the last page are zero and are not written",
        |t| {
            let path = t.file("f", b"content");
            let fd = ok!(t, open(&path, O_RDWR, 0));
            let map = ok!(t, Map::new(&fd, 4096, 0, true, true));
            eq!(t, map.get(7, 100), vec![0; 100]);
            map.put(50, b"lost");
            ok!(t, map.msync());
            drop(map);
            eq!(t, ok!(t, fstat(&fd)).size, 7);
            eq!(t, t.content(&path), b"content");
        },
    ),
    case("a mapping grows with its file", |t| {
        let fd = ok!(t, open(t.file("f", b""), O_RDWR, 0));
        let map = ok!(t, Map::new(&fd, 16384, 0, true, true));
        ok!(t, ftruncate(&fd, 16384));
        map.put(12000, b"reached");
        eq!(t, ok!(t, pread(&fd, 7, 12000)), b"reached");
        ok!(t, ftruncate(&fd, 20_000));
        eq!(t, map.get(12000, 7), b"reached");
    }),
];
