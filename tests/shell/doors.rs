//! The shell's file operations through both doors: a mounted home by its descriptor, and an unmounted store. Each
//! method of [`Home`] must give the same answer, tree and trash.
//!
//! Owns the table of cases, each a list of steps in a small language (`verb path …` and the answer).

use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink as plant_link;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{calls, need_mount};
use trumanfs::error::{Error, Result};
use trumanfs::exec::home::WriteMode;
use trumanfs::exec::mounted_home::MountedHome;
use trumanfs::exec::offline_home::OfflineHome;
use trumanfs::exec::shell::Shell;
use trumanfs::exec::{Home, Limits};
use trumanfs::name::WorldPath;
use trumanfs::world::{Meta, SetAttrs, SetTime, Time, ViewOptions};

struct Case {
    name: &'static str,
    flags: &'static [&'static str],
    /// What is in the store before: `dir/`, `file`, `link->target`, `pipe|`, `device!`.
    store: &'static [&'static str],
    /// What is done, and what it answers.
    steps: &'static [(&'static str, &'static str)],
    /// The names in the trash afterwards, without their times.
    trash: &'static str,
}

const CASES: &[Case] = &[
    Case {
        name: "reading and writing",
        flags: &[],
        store: &["f", "d/", "d/g", "p|"],
        steps: &[
            ("open f", "f"),
            ("open missing", "ENOENT"),
            ("open missing/f", "ENOENT"),
            ("open f/x", "ENOTDIR"),
            ("open f/x/y", "ENOTDIR"),
            ("open d", "EISDIR"),
            ("open .", "EISDIR"),
            ("open p", "EINVAL"),
            ("truncate f one", "ok"),
            ("append f two", "ok"),
            ("open f", "onetwo"),
            ("truncate new x", "ok"),
            ("append newer y", "ok"),
            ("stat new", "RegularFile 640 1 1"),
            ("exclusive new x", "EEXIST"),
            ("exclusive newest z", "ok"),
            ("exclusive d x", "EEXIST"),
            ("exclusive p x", "EEXIST"),
            ("exclusive . x", "EEXIST"),
            ("truncate d x", "EISDIR"),
            ("append d x", "EISDIR"),
            ("truncate . x", "EISDIR"),
            ("truncate p x", "EINVAL"),
            ("append p x", "EINVAL"),
            ("truncate missing/f x", "ENOENT"),
            ("append f/x y", "ENOTDIR"),
            (
                "list .",
                "d:Directory f:RegularFile new:RegularFile newer:RegularFile newest:RegularFile p:Fifo",
            ),
            ("list d", "g:RegularFile"),
            ("list f", "ENOTDIR"),
            ("list missing", "ENOENT"),
            ("list f/x", "ENOTDIR"),
            ("stat f", "RegularFile 644 1 6"),
            ("stat p", "Fifo 644 1 0"),
            ("stat d", "Directory 755"),
            ("stat .", "Directory 755"),
            ("stat f/x", "ENOTDIR"),
            ("stat d/g/x/y", "ENOTDIR"),
        ],
        trash: "",
    },
    Case {
        name: "making and removing",
        flags: &[],
        store: &[
            "f",
            "d/",
            "d/g",
            "p|",
            "full/",
            "full/a/",
            "full/a/b/",
            "full/a/b/c",
            "full/z",
        ],
        steps: &[
            ("mkdir e", "ok"),
            ("stat e", "Directory 750"),
            ("mkdir e", "EEXIST"),
            ("mkdir f", "EEXIST"),
            ("mkdir .", "EEXIST"),
            ("mkdir missing/e", "ENOENT"),
            ("mkdir f/e", "ENOTDIR"),
            ("remove d", "EISDIR"),
            ("remove .", "EBUSY"),
            ("remove missing", "ENOENT"),
            ("remove f/x", "ENOTDIR"),
            ("rmdir d", "ENOTEMPTY"),
            ("rmdir f", "ENOTDIR"),
            ("rmdir .", "EBUSY"),
            ("rmdir missing", "ENOENT"),
            ("rmtree f", "ENOTDIR"),
            ("rmtree p", "ENOTDIR"),
            ("rmtree missing", "ENOENT"),
            ("rmtree .", "EBUSY"),
            ("remove f", "ok"),
            ("remove p", "ok"),
            ("remove d/g", "ok"),
            ("rmdir d", "ok"),
            ("rmdir e", "ok"),
            ("rmtree full", "ok"),
            ("list .", ""),
        ],
        // What was removed from a directory before it was lies in it.
        trash: "d d/g e f full full/a full/a/b full/a/b/c full/z p",
    },
    Case {
        name: "moving",
        flags: &[],
        store: &["f", "g", "d/", "e/", "full/", "full/x"],
        steps: &[
            ("keep f g", "EEXIST"),
            ("keep f f", "EEXIST"),
            ("move f h", "ok"),
            ("move f h", "ENOENT"),
            ("keep f h", "ENOENT"),
            ("move h g", "ok"),
            ("open g", "f"),
            ("move g g", "ok"),
            ("move g d", "EISDIR"),
            ("move d g", "ENOTDIR"),
            ("move d e", "ok"),
            ("move e full", "ENOTEMPTY"),
            ("move e e/below", "EINVAL"),
            ("move full full/x", "EINVAL"),
            ("move full/x full", "ENOTEMPTY"),
            ("move . x", "EBUSY"),
            ("move g .", "EBUSY"),
            ("move g missing/g", "ENOENT"),
            ("move g full/x/g", "ENOTDIR"),
            ("keep g full/g", "ok"),
            ("list .", "e:Directory full:Directory"),
        ],
        trash: "e g",
    },
    Case {
        name: "attributes",
        flags: &[],
        store: &["f", "d/", "p|"],
        steps: &[
            ("chmod f 600", "ok"),
            ("stat f", "RegularFile 600 1 1"),
            ("chmod d 1777", "ok"),
            ("stat d", "Directory 1777"),
            ("chmod . 711", "ok"),
            ("stat .", "Directory 711"),
            ("chmod p 600", "ok"),
            ("stat p", "Fifo 600 1 0"),
            ("chmod missing 600", "ENOENT"),
            ("times f 1000000000", "ok"),
            ("mtime f", "1000000000.5"),
            ("times d 1000000001", "ok"),
            ("mtime d", "1000000001.5"),
            ("times . 1000000002", "ok"),
            ("mtime .", "1000000002.5"),
            ("times f/x 1", "ENOTDIR"),
            ("chown f 12 34", "ok"),
            ("owner f", "12 34"),
        ],
        trash: "",
    },
    Case {
        name: "hard links",
        flags: &[],
        store: &["f", "f=g", "d/", "f=d/h"],
        steps: &[
            ("stat g", "RegularFile 644 3 1"),
            ("move f g", "ok"),
            ("list .", "d:Directory f:RegularFile g:RegularFile"),
            ("remove f", "ok"),
            ("stat g", "RegularFile 644 2 1"),
            ("each . g f", "RegularFile/2 ENOENT"),
            ("each d h", "RegularFile/2"),
            ("keep g d/h", "EEXIST"),
        ],
        trash: "f",
    },
    Case {
        name: "links and devices do not exist",
        flags: &[],
        store: LINKS,
        steps: ABSENT,
        trash: GONE,
    },
    Case {
        name: "links do not exist for the shell where a home shows them",
        flags: &["--symlinks", "inside"],
        store: LINKS,
        steps: ABSENT,
        trash: GONE,
    },
    Case {
        name: "the trash and the state directory",
        flags: &[],
        store: &["f", "d/", ".trash/", ".trash/20260101T000000.000000Z_x"],
        steps: &[
            ("list .", "d:Directory f:RegularFile"),
            ("list .trash", "20260101T000000.000000Z_x:RegularFile"),
            ("stat .trash", "Directory 700"),
            (
                "open .trash/20260101T000000.000000Z_x",
                ".trash/20260101T000000.000000Z_x",
            ),
            ("append .trash/20260101T000000.000000Z_x y", "EROFS"),
            ("truncate .trash/20260101T000000.000000Z_x y", "EROFS"),
            ("exclusive .trash/y y", "EROFS"),
            ("truncate .trash/y y", "EROFS"),
            ("mkdir .trash/y", "EROFS"),
            ("remove .trash/20260101T000000.000000Z_x", "EROFS"),
            ("remove .trash", "EISDIR"),
            ("rmdir .trash", "EROFS"),
            ("rmtree .trash", "EROFS"),
            ("rmdir .trash/20260101T000000.000000Z_x", "ENOTDIR"),
            ("chmod .trash 777", "EROFS"),
            ("chmod .trash/20260101T000000.000000Z_x 777", "EROFS"),
            ("move f .trash/y", "EROFS"),
            ("move .trash t", "EROFS"),
            ("keep .trash/20260101T000000.000000Z_x f", "EEXIST"),
            ("move .trash/20260101T000000.000000Z_x f", "ok"),
            ("open f", ".trash/20260101T000000.000000Z_x"),
            ("stat .trumanfs", "ENOENT"),
            ("each . f .trumanfs", "RegularFile/1 ENOENT"),
            ("each .trumanfs lock", "ENOENT"),
            ("list .trumanfs", "ENOENT"),
            ("list .trumanfs/sessions", "ENOENT"),
            ("open .trumanfs/lock", "ENOENT"),
            ("truncate .trumanfs/lock x", "ENOENT"),
            ("mkdir .trumanfs", "ENOENT"),
            ("mkdir .trumanfs/sessions/x", "ENOENT"),
            ("rmtree .trumanfs", "ENOENT"),
            ("rmtree .trumanfs/sessions", "ENOENT"),
            ("move d .trumanfs", "ENOENT"),
            ("move .trumanfs x", "ENOENT"),
            ("chmod .trumanfs 777", "ENOENT"),
        ],
        trash: "f",
    },
    Case {
        name: "patterns hide",
        flags: &["--hide", "*.key", "--hide", "/s/", "--hide", "a/b"],
        store: &[
            "k.key", "s/", "s/x", "a/", "a/b/", "a/b/c", "d/", "d/k.key", "e/", "e/k.key", "e/f",
            "f",
        ],
        steps: &[
            (
                "list .",
                "a:Directory d:Directory e:Directory f:RegularFile",
            ),
            ("list a", ""),
            ("stat s/x", "ENOENT"),
            ("stat k.key", "ENOENT"),
            ("stat s", "ENOENT"),
            ("each . k.key f s", "ENOENT RegularFile/1 ENOENT"),
            ("each a b", "ENOENT"),
            ("open s/x", "ENOENT"),
            ("list s", "ENOENT"),
            ("list a/b", "ENOENT"),
            ("truncate k.key x", "ENOENT"),
            ("exclusive new.key x", "ENOENT"),
            ("mkdir s", "ENOENT"),
            ("move f x.key", "ENOENT"),
            ("move a c", "ok"),
            ("list c", ""),
            ("list c/b", "ENOENT"),
            ("rmdir c", "ok"),
            ("rmdir d", "ok"),
            ("rmtree e", "ok"),
            ("list .", "f:RegularFile"),
        ],
        trash: "c c/b c/b/c d d/k.key e e/f e/k.key",
    },
    Case {
        name: "patterns protect",
        flags: &["--read-only=/etc", "--read-only=*.lock"],
        store: &["etc/", "etc/f", "a.lock", "d/", "d/b.lock", "f"],
        steps: &[
            ("open etc/f", "etc/f"),
            ("append etc/f x", "EROFS"),
            ("truncate etc/f x", "EROFS"),
            ("exclusive etc/g x", "EROFS"),
            ("mkdir etc/d", "EROFS"),
            ("remove etc/f", "EROFS"),
            ("remove a.lock", "EROFS"),
            ("rmtree etc", "EROFS"),
            ("rmtree d", "EROFS"),
            ("move f a.lock", "EROFS"),
            ("move d g", "EROFS"),
            ("chmod etc 700", "EROFS"),
            ("times etc/f 1", "EROFS"),
            ("append f x", "ok"),
        ],
        trash: "",
    },
    Case {
        name: "a whole home that is read-only",
        flags: &["--read-only"],
        store: &["f", "d/", "d/g"],
        steps: &[
            ("open f", "f"),
            ("append f x", "EROFS"),
            ("truncate f x", "EROFS"),
            ("truncate g x", "EROFS"),
            ("exclusive g x", "EROFS"),
            ("mkdir g", "EROFS"),
            ("remove f", "EROFS"),
            ("rmdir d", "EROFS"),
            ("rmtree d", "EROFS"),
            ("move f g", "EROFS"),
            ("chmod f 600", "EROFS"),
            ("times f 1", "EROFS"),
        ],
        trash: "",
    },
];

const LINKS: &[&str] = &[
    "f",
    "d/",
    "l->f",
    "dl->d",
    "out->/etc",
    "d/l->../f",
    "n!",
    "e/",
    "e/l->../f",
    "e/g",
    "e/e/",
    "e/e/l->../../f",
];

const ABSENT: &[(&str, &str)] = &[
    ("list .", "d:Directory e:Directory f:RegularFile"),
    ("list d", ""),
    ("list dl", "ENOENT"),
    (
        "each . f l n out d missing",
        "RegularFile/1 ENOENT ENOENT ENOENT Directory/2 ENOENT",
    ),
    ("each d l", "ENOENT"),
    ("each dl f", "ENOENT"),
    ("each f f", "ENOTDIR"),
    ("stat l", "ENOENT"),
    ("stat dl/l", "ENOENT"),
    ("stat n", "ENOENT"),
    ("stat n/x", "ENOENT"),
    ("stat l/x", "ENOENT"),
    ("open l", "ENOENT"),
    ("open dl/l", "ENOENT"),
    ("open out/passwd", "ENOENT"),
    ("open n", "ENOENT"),
    ("truncate l x", "ENOENT"),
    ("append l x", "ENOENT"),
    ("exclusive l x", "ENOENT"),
    ("truncate out/passwd x", "ENOENT"),
    ("truncate n x", "ENOENT"),
    ("mkdir l", "ENOENT"),
    ("mkdir out", "ENOENT"),
    ("mkdir out/x", "ENOENT"),
    ("mkdir n", "ENOENT"),
    ("remove l", "ENOENT"),
    ("remove dl/l", "ENOENT"),
    ("rmdir dl", "ENOENT"),
    ("rmtree dl", "ENOENT"),
    ("rmtree out", "ENOENT"),
    ("remove n", "ENOENT"),
    ("move f l", "ENOENT"),
    ("keep f l", "ENOENT"),
    ("move d dl", "ENOENT"),
    ("move l x", "ENOENT"),
    ("keep l x", "ENOENT"),
    ("chmod l 600", "ENOENT"),
    ("times out 1", "ENOENT"),
    ("chmod n 600", "ENOENT"),
    ("rmdir e", "ENOTEMPTY"),
    ("rmdir d", "ok"),
    ("rmtree e", "ok"),
    ("open f", "f"),
];

const GONE: &str = "d d/l e e/e e/e/l e/g e/l";

fn view(flags: &[&str]) -> ViewOptions {
    let mut view = ViewOptions::default();
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        match flag.split_once('=') {
            Some((_, pattern)) => view.read_only.push(pattern.to_owned()),
            None if *flag == "--read-only" => view.all_read_only = true,
            None => match (*flag, *flags.next().unwrap()) {
                ("--hide", pattern) => view.hide.push(pattern.to_owned()),
                ("--symlinks", "inside") => view.symlinks = trumanfs::world::SymlinkPolicy::Inside,
                other => panic!("{other:?}"),
            },
        }
    }
    view
}

fn fill(store: &Path, things: &[&str]) {
    calls::chmod(store, 0o755).unwrap();
    for thing in things {
        if let Some((name, target)) = thing.split_once("->") {
            plant_link(target, store.join(name)).unwrap();
        } else if let Some((old, new)) = thing.split_once('=') {
            fs::hard_link(store.join(old), store.join(new)).unwrap();
        } else if let Some(name) = thing.strip_suffix('/') {
            // Our own would be refused if others could get in.
            let mode = if name == ".trash" { 0o700 } else { 0o755 };
            calls::mkdir(store.join(name), mode).unwrap();
        } else if let Some(name) = thing.strip_suffix('|') {
            calls::mkfifo(store.join(name), 0o644).unwrap();
        } else if let Some(name) = thing.strip_suffix('!') {
            calls::mknod(store.join(name), calls::S_IFCHR | 0o666, 0x0103).unwrap();
        } else {
            fs::write(store.join(thing), thing).unwrap();
            calls::chmod(store.join(thing), 0o644).unwrap();
        }
    }
}

fn answer(home: &dyn Home, step: &str) -> String {
    let words: Vec<&str> = step.split(' ').collect();
    let path = WorldPath::parse(words[1].as_bytes()).unwrap();
    let second = || WorldPath::parse(words[2].as_bytes()).unwrap();
    let octal = |text: &str| u32::from_str_radix(text, 8).unwrap();
    let write = |how| {
        let mut file = home.open_write(&path, how, 0o640)?;
        file.write_all(words[2].as_bytes()).unwrap();
        Ok(())
    };
    let names: Vec<&[u8]> = words[2..].iter().map(|name| name.as_bytes()).collect();
    let set = |change: SetAttrs| home.set_attrs(&path, &change);
    let did = |result: Result<()>| result.map(|()| "ok".to_owned());
    let result = match words[0] {
        "open" => home.open(&path).map(|mut file| {
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            text
        }),
        "truncate" => did(write(WriteMode::Truncate)),
        "append" => did(write(WriteMode::Append)),
        "exclusive" => did(write(WriteMode::New)),
        "stat" => home.stat(&path).map(|meta| {
            let (kind, mode) = (meta.kind, meta.permissions());
            match meta.is_dir() {
                true => format!("{kind:?} {mode:o}"),
                false => format!("{kind:?} {mode:o} {} {}", meta.nlink, meta.size),
            }
        }),
        "each" => home.stat_entries(&path, &names).map(|metas| {
            let shown = |meta: &Result<Meta>| match meta {
                Ok(meta) => format!("{:?}/{}", meta.kind, meta.nlink.min(9)),
                Err(error) => errno(error),
            };
            metas.iter().map(shown).collect::<Vec<_>>().join(" ")
        }),
        "mtime" => home
            .stat(&path)
            .map(|meta| format!("{}.{}", meta.mtime.sec, meta.mtime.nsec)),
        "owner" => home
            .stat(&path)
            .map(|meta| format!("{} {}", meta.uid, meta.gid)),
        "list" => home.list(&path).map(|mut entries| {
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            let shown = |entry: &trumanfs::exec::home::DirEntry| {
                let name = String::from_utf8_lossy(&entry.name);
                format!("{name}:{:?}", entry.kind)
            };
            entries.iter().map(shown).collect::<Vec<_>>().join(" ")
        }),
        "mkdir" => did(home.mkdir(&path, 0o750)),
        "remove" => did(home.remove(&path)),
        "rmdir" => did(home.remove_dir(&path)),
        "rmtree" => did(home.remove_tree(&path, &|| true)),
        "move" => did(home.rename(&path, &second(), true)),
        "keep" => did(home.rename(&path, &second(), false)),
        "chmod" => did(set(SetAttrs {
            mode: Some(octal(words[2])),
            ..SetAttrs::default()
        })),
        "chown" => did(set(SetAttrs {
            uid: Some(words[2].parse().unwrap()),
            gid: Some(words[3].parse().unwrap()),
            ..SetAttrs::default()
        })),
        "times" => {
            let time = SetTime::To(Time {
                sec: words[2].parse().unwrap(),
                nsec: 5,
            });
            did(set(SetAttrs {
                atime: time,
                mtime: time,
                ..SetAttrs::default()
            }))
        }
        other => panic!("{other} is no verb"),
    };
    result.unwrap_or_else(|error| errno(&error))
}

fn errno(error: &Error) -> String {
    let text = format!("{:?}", error.errno());
    let known = [
        (rustix::io::Errno::NOENT, "ENOENT"),
        (rustix::io::Errno::EXIST, "EEXIST"),
        (rustix::io::Errno::NOTDIR, "ENOTDIR"),
        (rustix::io::Errno::ISDIR, "EISDIR"),
        (rustix::io::Errno::INVAL, "EINVAL"),
        (rustix::io::Errno::ROFS, "EROFS"),
        (rustix::io::Errno::NOTEMPTY, "ENOTEMPTY"),
        (rustix::io::Errno::BUSY, "EBUSY"),
    ];
    let found = known.iter().find(|(errno, _)| *errno == error.errno());
    found.map_or(text, |(_, name)| (*name).to_owned())
}

/// Everything below a directory, in order, by paths from it.
fn below(top: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![top.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                pending.push(path.clone());
            }
            found.push(path.strip_prefix(top).unwrap().to_str().unwrap().to_owned());
        }
    }
    found.retain(|path| {
        ![".trash", ".trumanfs", ".gitignore"]
            .iter()
            .any(|ours| path.starts_with(ours))
    });
    found.sort();
    found
}

/// Runs a case; returns the problems, and the store's tree.
fn run(which: &str, home: &dyn Home, store: &Path, case: &Case) -> (Vec<String>, Vec<String>) {
    let mut problems = Vec::new();
    for (step, wanted) in case.steps {
        let got = answer(home, step);
        if got != *wanted {
            problems.push(format!(
                "{}, {which}: {step}: expected {wanted}, got {got}",
                case.name
            ));
        }
    }
    let of_entry = |path: &String| {
        path.split_once('_')
            .map_or(path.clone(), |(_, rest)| rest.to_owned())
    };
    // Who looks into the trash through a home has what was removed gathered.
    let _ = home.list(&WorldPath::parse(b".trash").unwrap());
    let mut trash: Vec<String> = below(&store.join(".trash")).iter().map(of_entry).collect();
    trash.sort();
    if trash.join(" ") != case.trash {
        problems.push(format!(
            "{}, {which}: in the trash: expected {:?}, got {:?}",
            case.name,
            case.trash,
            trash.join(" ")
        ));
    }
    (problems, below(store))
}

#[test]
fn both_doors_of_the_shell_lead_to_the_same_world() {
    need_mount!();
    crate::common::usual_umask();
    let mut problems = Vec::new();
    for case in CASES {
        let store = tempfile::tempdir().unwrap();
        fill(store.path(), case.store);
        let stored =
            OfflineHome::with(store.path(), view(case.flags), Duration::from_secs(2)).unwrap();
        let (found, tree) = run("in process", &stored, store.path(), case);
        problems.extend(found);
        drop(stored);

        let mount = crate::common::Home::prepared(|store| fill(store, case.store), case.flags);
        calls::chmod(mount.store(), 0o755).unwrap();
        let mounted = MountedHome::open(mount.home()).unwrap();
        let (found, mounted_tree) = run("mounted", &mounted, mount.store(), case);
        problems.extend(found);
        if tree != mounted_tree {
            problems.push(format!(
                "{}: the trees differ: {tree:?} and {mounted_tree:?}",
                case.name
            ));
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn a_store_is_locked_from_the_first_change_as_long_as_the_shell_has_it() {
    let store = tempfile::tempdir().unwrap();
    let first = OfflineHome::open(store.path()).unwrap();
    first
        .mkdir(&WorldPath::parse(b"d").unwrap(), 0o755)
        .unwrap();
    let error = OfflineHome::open(store.path()).unwrap_err();
    assert!(
        error.to_string().contains("is working on the store"),
        "{error}"
    );
    drop(first);
    OfflineHome::open(store.path()).unwrap();
}

#[test]
fn a_store_that_is_mounted_names_its_home() {
    need_mount!();
    let mount = crate::common::Home::mount();
    let error = OfflineHome::open(mount.store()).unwrap_err().to_string();
    assert!(error.contains(mount.home().to_str().unwrap()), "{error}");
}

/// A directory above a store that is mounted would be a way around its home.
#[test]
fn a_store_that_is_mounted_is_worked_in_through_its_home_alone() {
    need_mount!();
    let mount = crate::common::Home::mount();
    fs::create_dir(mount.store().join("sub")).unwrap();
    let run = |root: &Path, line: &str| {
        let mut exec = std::process::Command::new(crate::common::binary());
        exec.args(["exec", "--root"]).arg(root).args(["--", line]);
        let output = exec.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        (err, output.status.code())
    };
    for root in [
        mount.store().join("sub"),
        mount.store().parent().unwrap().to_owned(),
    ] {
        let (err, status) = run(&root, "touch made");
        assert_eq!(status, Some(6), "{root:?}: {err}");
        assert!(!root.join("made").exists() && !root.join(".trumanfs").exists());
    }
    assert_eq!(
        run(&mount.home().join("sub"), "touch made"),
        (String::new(), Some(0))
    );
    assert!(mount.store().join("sub/made").exists());
}

/// What was opened stays open after the session has ended, as with any file.
#[test]
fn a_file_outlives_its_home() {
    let store = tempfile::tempdir().unwrap();
    let home = OfflineHome::open(store.path()).unwrap();
    let path = WorldPath::parse(b"f").unwrap();
    let mut file = home.open_write(&path, WriteMode::New, 0o644).unwrap();
    drop(home);
    file.write_all(b"late").unwrap();
    assert_eq!(fs::read(store.path().join("f")).unwrap(), b"late");
}

/// A tree that is deeper than a path can be long.
#[test]
fn a_very_deep_tree_is_one_entry_of_the_trash() {
    need_mount!();
    let mount = crate::common::Home::mount();
    let mounted = MountedHome::open(mount.home()).unwrap();
    let store = tempfile::tempdir().unwrap();
    let stored = OfflineHome::open(store.path()).unwrap();
    for (home, store) in [
        (&mounted as &dyn Home, mount.store()),
        (&stored, store.path()),
    ] {
        let mut path = WorldPath::root();
        for _ in 0..650 {
            path = WorldPath::parse(&[path.bytes(), b"/deeper"].concat()).unwrap();
            home.mkdir(&path, 0o755).unwrap();
        }
        let file = WorldPath::parse(&[path.bytes(), b"/f"].concat()).unwrap();
        home.open_write(&file, WriteMode::New, 0o644).unwrap();
        assert_eq!(home.stat(&file).unwrap().size, 0);
        home.remove_tree(&WorldPath::parse(b"deeper").unwrap(), &|| true)
            .unwrap();
        let _ = home.list(&WorldPath::parse(b".trash").unwrap());
        let names = fs::read_dir(store.join(".trash")).unwrap();
        let entries = names.filter(|name| name.as_ref().unwrap().file_name() != ".gitignore");
        assert_eq!(entries.count(), 1);
    }
}

/// Fills a directory with so many files.
fn crowd(dir: &Path, files: usize) {
    fs::create_dir_all(dir.join("below")).unwrap();
    for n in 0..files {
        fs::write(dir.join(format!("below/{n}")), "").unwrap();
    }
}

#[test]
fn removing_a_tree_stops_when_it_is_told_to() {
    need_mount!();
    let mount = crate::common::Home::prepared(|store| crowd(&store.join("d"), 100), &[]);
    let home = MountedHome::open(mount.home()).unwrap();
    let left = || fs::read_dir(mount.store().join("d/below")).unwrap().count();
    let asked = std::cell::Cell::new(0);
    let go_on = || asked.replace(asked.get() + 1) < 40;
    let path = WorldPath::parse(b"d").unwrap();
    let error = home.remove_tree(&path, &go_on).unwrap_err();
    assert_eq!(error.errno(), rustix::io::Errno::INTR);
    assert_eq!(left(), 60);
    home.remove_tree(&path, &|| true).unwrap();
    assert!(!mount.store().join("d").exists());
}

#[test]
fn a_line_that_removes_a_tree_ends_with_its_time() {
    need_mount!();
    let mount = crate::common::Home::prepared(|store| crowd(&store.join("d"), 5000), &[]);
    let home = Arc::new(MountedHome::open(mount.home()).unwrap());
    let limits = Limits {
        time: Some(Duration::from_millis(20)),
        ..Limits::default()
    };
    let mut shell = Shell::new(home, mount.home().as_os_str().as_bytes(), limits);
    let outcome = shell.run(b"rm -r d && echo done");
    assert_eq!(outcome.return_code, 124, "{outcome:?}");
    assert_eq!(outcome.stderr, b"bash: the line's time is up\n");
    assert!(mount.store().join("d/below").exists());
}

/// Another program makes and removes the file all the time: each write still finds it or makes it.
#[test]
fn writing_to_what_comes_and_goes_in_a_mounted_home_never_says_that_it_is_absent() {
    need_mount!();
    let mount = crate::common::Home::mount();
    let home = MountedHome::open(mount.home()).unwrap();
    let path = WorldPath::parse(b"f").unwrap();
    let (file, over) = (mount.home().join("f"), AtomicBool::new(false));
    let mut answers = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = fs::write(&file, "other");
                std::thread::sleep(Duration::from_micros(50));
                let _ = fs::remove_file(&file);
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        for _ in 0..1000 {
            for how in [WriteMode::Truncate, WriteMode::Append] {
                let opened = home.open_write(&path, how, 0o644);
                answers.extend(opened.err().as_ref().map(errno));
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let first = answers.first();
    assert!(answers.is_empty(), "{} times, {first:?}", answers.len());
}
