//! readdir(3), telldir, rewinding, and listing while the directory changes.

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("an empty directory has . and .. only", |t| {
        let dir = ok!(t, open(t.mkdir("d"), O_RDONLY | O_DIRECTORY, 0));
        let mut names: Vec<Vec<u8>> = Vec::new();
        for entry in ok!(t, rustix::fs::Dir::read_from(&dir)) {
            names.push(ok!(t, entry).file_name().to_bytes().to_vec());
        }
        names.sort();
        eq!(t, names, [b".".to_vec(), b"..".to_vec()]);
    }),
    case("names and types of every object", |t| {
        use rustix::fs::FileType;
        for (name, kind) in t.kinds() {
            t.make(kind, &t.p(name));
        }
        let dir = ok!(t, open(t.dir, O_RDONLY | O_DIRECTORY, 0));
        let mut found = 0;
        for entry in ok!(t, rustix::fs::Dir::read_from(&dir)) {
            let entry = ok!(t, entry);
            let name = entry.file_name().to_string_lossy();
            if let Some((_, kind)) = t.kinds().iter().find(|(known, _)| *known == name) {
                found += 1;
                is!(
                    t,
                    entry.file_type() == FileType::from_raw_mode(*kind)
                        || entry.file_type() == FileType::Unknown,
                    "readdir: the type of {name} is {:?}",
                    entry.file_type()
                );
            }
        }
        eq!(t, found, t.kinds().len());
    }),
    case(
        "thousands of entries, each exactly once, also while they are listed for the second time",
        |t| {
            let mut made: Vec<String> = (0..3000)
                .map(|number| format!("entry-with-a-name-of-some-length-{number:05}"))
                .collect();
            for name in &made {
                ok!(t, mknod(t.p(name), S_IFREG | 0o644, 0));
            }
            made.sort();
            eq!(t, t.names(t.dir) == made, true);
            eq!(t, t.names(t.dir) == made, true);
            for name in made.iter().step_by(2) {
                ok!(t, unlink(t.p(name)));
            }
            let left: Vec<String> = made.iter().skip(1).step_by(2).cloned().collect();
            eq!(t, t.names(t.dir) == left, true);
        },
    ),
    case("a rewound directory shows what is new", |t| {
        t.file("a", b"");
        let dir = ok!(t, open(t.dir, O_RDONLY | O_DIRECTORY, 0));
        eq!(t, listed(t, &dir), ["a"]);
        t.file("b", b"");
        ok!(t, unlink(t.p("a")));
        eq!(t, listed(t, &dir), ["b"]);
        t.file("c", b"");
        eq!(t, listed(t, &dir), ["b", "c"]);
    }),
    case(
        "what is there before and after a listing is in it, whatever happens to others meanwhile",
        |t| {
            for number in 0..500 {
                t.file(format!("stays-{number:03}"), b"");
                t.file(format!("goes-{number:03}"), b"");
            }
            let dir = ok!(t, open(t.dir, O_RDONLY | O_DIRECTORY, 0));
            let mut buffer = Vec::with_capacity(1024);
            let mut raw = rustix::fs::RawDir::new(&dir, buffer.spare_capacity_mut());
            let mut stays = Vec::new();
            let mut number = 0;
            while let Some(entry) = raw.next() {
                let name = ok!(t, entry).file_name().to_string_lossy().into_owned();
                if name.starts_with("stays") {
                    stays.push(name);
                }
                if number < 500 {
                    let _ = unlink(t.p(format!("goes-{number:03}")));
                    t.file(format!("new-{number:03}"), b"");
                    number += 1;
                }
            }
            stays.sort();
            eq!(
                t,
                stays,
                (0..500)
                    .map(|number| format!("stays-{number:03}"))
                    .collect::<Vec<_>>()
            );
        },
    ),
    case("positions can be gone back to", |t| {
        for number in 0..200 {
            t.file(format!("f{number:03}"), b"");
        }
        let dir = ok!(t, open(t.dir, O_RDONLY | O_DIRECTORY, 0));
        let all = positions(t, &dir);
        for index in [0, 1, 57, 150, all.len() - 2] {
            // A position is where the next entry is.
            ok!(t, lseek(&dir, SeekFrom::Start(all[index].1)));
            let rest: Vec<String> = positions(t, &dir)
                .into_iter()
                .map(|(name, _)| name)
                .collect();
            let wanted: Vec<String> = all[index + 1..]
                .iter()
                .map(|(name, _)| name.clone())
                .collect();
            eq!(t, rest, wanted);
        }
    }),
    case("two descriptors list independently", |t| {
        for number in 0..50 {
            t.file(format!("f{number:02}"), b"");
        }
        let (one, two) = (
            ok!(t, open(t.dir, O_RDONLY, 0)),
            ok!(t, open(t.dir, O_RDONLY, 0)),
        );
        eq!(t, listed(t, &one), listed(t, &two));
        eq!(t, listed(t, &one).len(), 50);
    }),
    case("rm as one reads: every entry is found", |t| {
        for number in 0..1000 {
            ok!(t, mknod(t.p(format!("f{number}")), S_IFREG | 0o644, 0));
        }
        let dir = ok!(t, open(t.dir, O_RDONLY | O_DIRECTORY, 0));
        for entry in ok!(t, rustix::fs::Dir::read_from(&dir)) {
            let entry = ok!(t, entry);
            if entry.file_type() != rustix::fs::FileType::Directory {
                ok!(t, unlinkat(&dir, entry.file_name(), 0));
            }
        }
        eq!(t, t.names(t.dir), Vec::<String>::new());
    }),
    case("a removed directory that is open lists nothing", |t| {
        let dir = ok!(t, open(t.mkdir("d"), O_RDONLY | O_DIRECTORY, 0));
        ok!(t, rmdir(t.p("d")));
        let left =
            rustix::fs::Dir::read_from(&dir).and_then(|entries| entries.collect::<Sys<Vec<_>>>());
        match left {
            Ok(left) => is!(
                t,
                left.iter()
                    .all(|entry| entry.file_name().to_bytes().starts_with(b"."))
            ),
            Err(error) => eq!(t, name_of(error), "ENOENT"),
        }
    }),
    case(
        "ENOTDIR for what is no directory, EACCES without the right to read",
        |t| {
            t.file("f", b"");
            err!(t, ENOTDIR, readdir(t.p("f")));
            err!(t, ENOENT, readdir(t.p("missing")));
            let mut room = [std::mem::MaybeUninit::uninit(); 512];
            let fd = ok!(t, open(t.p("f"), O_RDONLY, 0));
            let first = rustix::fs::RawDir::new(&fd, &mut room)
                .next()
                .map(|entry| entry.map(drop));
            eq!(t, first, Some(Err(Errno::NOTDIR)));
        },
    ),
    case("EACCES without the right to read", |t| {
        t.dir_of(ANN, "d", 0o711);
        t.user(BOB, || err!(t, EACCES, readdir(t.p("d"))));
        t.user(ANN, || drop(ok!(t, readdir(t.p("d")))));
        ok!(t, chmod(t.p("d"), 0o311));
        t.user(ANN, || err!(t, EACCES, readdir(t.p("d"))));
    })
    .needs(USERS),
    case("a rename within a directory shows the new name only", |t| {
        for number in 0..100 {
            t.file(format!("a{number}"), b"");
        }
        eq!(t, t.names(t.dir).len(), 100);
        for number in 0..100 {
            ok!(
                t,
                rename(t.p(format!("a{number}")), t.p(format!("b{number}")))
            );
        }
        let names = t.names(t.dir);
        is!(
            t,
            names.len() == 100 && names.iter().all(|name| name.starts_with('b')),
            "readdir after rename: {names:?}"
        );
    }),
];

/// Lists an open directory from the start, without `.` and `..`, sorted.
fn listed(t: &Trial<'_>, dir: &rustix::fd::OwnedFd) -> Vec<String> {
    let mut names: Vec<String> = {
        ok!(t, lseek(dir, SeekFrom::Start(0)));
        positions(t, dir)
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    };
    names.retain(|name| name != "." && name != "..");
    names.sort();
    names
}

/// Lists an open directory from where it stands: each name, and the position after it.
fn positions(t: &Trial<'_>, dir: &rustix::fd::OwnedFd) -> Vec<(String, u64)> {
    let mut buffer = Vec::with_capacity(4096);
    let mut raw = rustix::fs::RawDir::new(dir, buffer.spare_capacity_mut());
    let mut all = Vec::new();
    while let Some(entry) = raw.next() {
        let entry = ok!(t, entry);
        all.push((
            entry.file_name().to_string_lossy().into_owned(),
            entry.next_entry_cookie(),
        ));
    }
    all
}
