//! Names and paths: their bytes, their lengths, and trees deeper than a path can express.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("names of any bytes but / and NUL", |t| {
        let mut names: Vec<Vec<u8>> = (1..=255u8)
            .filter(|byte| *byte != b'/' && *byte != b'.')
            .map(|byte| vec![byte])
            .collect();
        for name in [
            "...",
            "-rf",
            "a b",
            "a\nb",
            "~~",
            "$HOME",
            "%s",
            "ünïcödé",
            "日本語",
            "e\u{301}",
            "é",
            ".hidden",
            "x.",
            "CON",
        ] {
            names.push(name.as_bytes().to_vec());
        }
        names.push(b"\xff\xfe\x80 not utf-8 \xc3".to_vec());
        for (number, name) in names.iter().enumerate() {
            let path = t.p(OsStr::from_bytes(name));
            let content = number.to_string().into_bytes();
            ok!(
                t,
                write(
                    ok!(t, open(&path, O_CREAT | O_EXCL | O_WRONLY, 0o644)),
                    &content
                )
            );
        }
        for (number, name) in names.iter().enumerate() {
            eq!(
                t,
                t.content(&t.p(OsStr::from_bytes(name))),
                number.to_string().into_bytes()
            );
        }
        let mut listed: Vec<Vec<u8>> = ok!(t, readdir(t.dir))
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        listed.sort();
        names.sort();
        eq!(t, listed == names, true);
        for name in &names {
            let path = t.p(OsStr::from_bytes(name));
            ok!(t, rename(&path, t.p("moved")));
            ok!(t, rename(t.p("moved"), &path));
            ok!(t, unlink(&path));
        }
        eq!(t, t.names(t.dir), Vec::<String>::new());
    }),
    case(
        "names that differ in case or composition are different",
        |t| {
            for name in ["a", "A", "é", "e\u{301}"] {
                t.file(name, name.as_bytes());
            }
            for name in ["a", "A", "é", "e\u{301}"] {
                eq!(t, t.content(&t.p(name)), name.as_bytes());
            }
        },
    ),
    case(
        "255 bytes are a name for every call, 256 are ENAMETOOLONG",
        |t| {
            let long = |length: usize| t.p("é".repeat(length / 2) + &"x".repeat(length % 2));
            let (good, bad) = (long(255), long(256));
            ok!(t, open(&good, O_CREAT | O_EXCL | O_WRONLY, 0o644));
            ok!(t, stat(&good));
            ok!(t, chmod(&good, 0o600));
            ok!(t, truncate(&good, 10));
            ok!(t, utimensat(&good, OLD, OLD));
            ok!(t, access(&good, R_OK));
            ok!(t, rename(&good, t.p("short")));
            ok!(t, link(t.p("short"), &good));
            ok!(t, rename(t.p("short"), t.p("short")));
            ok!(t, unlink(&good));
            ok!(t, mkdir(&good, 0o755));
            ok!(t, creat(good.join("f"), 0o644));
            ok!(t, unlink(good.join("f")));
            ok!(t, rmdir(&good));
            ok!(t, mkfifo(&good, 0o644));
            ok!(t, rename(t.p("short"), &good));
            ok!(t, unlink(&good));
            for call in [
                |path: &std::path::Path| open(path, O_CREAT | O_WRONLY, 0o644).map(drop),
                |path: &std::path::Path| stat(path).map(drop),
                |path: &std::path::Path| mkdir(path, 0o755),
                |path: &std::path::Path| rmdir(path),
                |path: &std::path::Path| unlink(path),
                |path: &std::path::Path| mkfifo(path, 0o644),
                |path: &std::path::Path| access(path, F_OK),
                |path: &std::path::Path| stat(path.join("below")).map(drop),
            ] {
                err!(t, ENAMETOOLONG, call(&bad));
            }
        },
    ),
    case(
        "a removed or replaced name of 255 bytes can be used again",
        |t| {
            for byte in ["x", "é", "日"] {
                let name = byte.repeat(255 / byte.len());
                for _ in 0..3 {
                    t.file(&name, b"content");
                    ok!(t, unlink(t.p(&name)));
                    t.mkdir(&name);
                    ok!(t, rmdir(t.p(&name)));
                }
            }
            eq!(t, t.names(t.dir), Vec::<String>::new());
        },
    ),
    case(
        "a path of PATH_MAX is too long: ENAMETOOLONG; one byte less is not",
        |t| {
            let mut path = t.dir.as_os_str().as_bytes().to_vec();
            while path.len() + 251 < 4095 {
                path.push(b'/');
                path.extend([b'd'; 200]);
                ok!(t, mkdir(OsStr::from_bytes(&path), 0o755));
            }
            path.push(b'/');
            path.resize(4095, b'f');
            ok!(t, creat(OsStr::from_bytes(&path), 0o644));
            ok!(t, stat(OsStr::from_bytes(&path)));
            path.push(b'f');
            err!(t, ENAMETOOLONG, stat(OsStr::from_bytes(&path)));
            err!(t, ENAMETOOLONG, creat(OsStr::from_bytes(&path), 0o644));
            path.pop();
            ok!(t, unlink(OsStr::from_bytes(&path)));
        },
    ),
    case(
        "a tree deeper than PATH_MAX, by openat: everything works down there, and the whole can be moved and removed",
        |t| {
            const DEPTH: usize = 60;
            let name = "d".repeat(100);
            let mut chain = vec![ok!(t, open(t.dir, O_PATH | O_DIRECTORY, 0))];
            for _ in 0..DEPTH {
                let here = &chain[chain.len() - 1];
                ok!(t, mkdirat(here, &name, 0o755));
                let next = ok!(t, openat(here, &name, O_PATH | O_DIRECTORY, 0));
                chain.push(next);
            }
            let deepest = &chain[DEPTH];
            let fd = ok!(t, openat(deepest, "f", O_CREAT | O_RDWR, 0o644));
            ok!(t, write(&fd, b"deep"));
            ok!(t, renameat(deepest, "f", deepest, "g"));
            ok!(t, linkat(deepest, "g", deepest, "h", 0));
            eq!(t, ok!(t, fstatat(deepest, "h", 0)).nlink, 2);
            let again = ok!(t, openat(deepest, "g", O_RDONLY, 0));
            eq!(t, ok!(t, read(&again, 10)), b"deep");
            eq!(
                t,
                ok!(t, fstatat(deepest, "..", 0)).ino,
                ok!(t, fstat(&chain[DEPTH - 1])).ino
            );
            ok!(t, rename(t.p(&name), t.p("moved")));
            eq!(t, ok!(t, fstatat(deepest, "g", 0)).size, 4);
            ok!(t, unlinkat(deepest, "g", 0));
            ok!(t, renameat(deepest, "h", &chain[0], "up"));
            eq!(t, t.content(&t.p("up")), b"deep");
            ok!(t, unlinkat(&chain[0], "up", 0));
            chain.truncate(DEPTH);
            while chain.len() > 1 {
                let here = &chain[chain.len() - 1];
                ok!(t, unlinkat(here, &name, libc::AT_REMOVEDIR));
                chain.pop();
            }
            ok!(t, rmdir(t.p("moved")));
            eq!(t, t.names(t.dir), Vec::<String>::new());
        },
    ),
    case("a working directory deeper than PATH_MAX", |t| {
        let name = "d".repeat(200);
        t.child(|| {
            ok!(t, rustix::process::chdir(t.dir));
            for _ in 0..30 {
                ok!(t, mkdir(&name, 0o755));
                ok!(t, rustix::process::chdir(&name));
            }
            ok!(
                t,
                write(ok!(t, open("f", O_CREAT | O_RDWR, 0o644)), b"deep")
            );
            eq!(t, ok!(t, stat("f")).size, 4);
            eq!(t, ok!(t, stat("./../../.")).kind, S_IFDIR);
            err!(
                t,
                ENAMETOOLONG | ERANGE,
                rustix::process::getcwd(Vec::new()).map(drop)
            );
            ok!(t, unlink("f"));
            for _ in 0..30 {
                ok!(t, rustix::process::chdir(".."));
                ok!(t, rmdir(&name));
            }
        });
        eq!(t, t.names(t.dir), Vec::<String>::new());
    }),
    case("rm -rf of a deep and wide tree", |t| {
        t.shell("mkdir -p a/b/c/d/e/f/g/h; for d in a a/b a/b/c a/b/c/d/e; do for n in 1 2 3 4 5 6 7 8 9; do echo $n >$d/$n; done; done; rm -rf a");
        eq!(t, t.names(t.dir), Vec::<String>::new());
        t.shell("mkdir -p a/b; echo new >a/b/f");
        eq!(t, t.content(&t.p("a/b/f")), b"new\n");
    }),
];
