//! Every rule through both doors: the unmounted store in process, and the mounted home through real system calls. The
//! same steps must give the same answers, errnos, tree and trash.
//!
//! Owns the table of cases, each a list of steps in a small language (`verb path …` and the answer), and mounted
//! cases that the other door cannot have: open files.

use std::fs;
use std::os::unix::fs::symlink as plant_link;
use std::path::Path;

use crate::common::calls::{self, Errno, Sys};
use crate::common::{Home, need_mount, need_root};
use crate::door::{Door, InProcess, Mounted};
use rustix::fs::FileType;
use trumanfs::world::{RenameMode, SymlinkPolicy, ViewOptions};

struct Case {
    name: &'static str,
    flags: &'static [&'static str],
    /// What is in the store before: `dir/`, `file`, `link->target`, `pipe|`, `device!`.
    store: &'static [&'static str],
    /// What is done, and what it answers. Files that are made hold their own path.
    steps: &'static [(&'static str, &'static str)],
    /// The names in the trash afterwards, without their times.
    trash: &'static str,
}

const CASES: &[Case] = &[
    Case {
        name: "making and reading",
        flags: &[],
        store: &[],
        steps: &[
            ("create f", "ok"),
            ("create f", "EEXIST"),
            ("read f", "f"),
            ("append f", "ok"),
            ("read f", "ff"),
            ("overwrite f", "ok"),
            ("read f", "f"),
            ("overwrite missing", "ENOENT"),
            ("truncate f 3", "ok"),
            ("stat f", "RegularFile 644 1 3"),
            ("chmod f 600", "ok"),
            ("stat f", "RegularFile 600 1 3"),
            ("create missing/f", "ENOENT"),
            ("create f/g", "ENOTDIR"),
            ("read .", "EISDIR"),
            ("mkdir d", "ok"),
            ("mkdir d", "EEXIST"),
            ("mkdir f", "EEXIST"),
            ("create d", "EEXIST"),
            ("overwrite d", "EISDIR"),
            ("truncate d 0", "EISDIR"),
            ("mkfifo p", "ok"),
            ("stat p", "Fifo 644 1 0"),
            ("mknod n", "EPERM"),
            ("stat n", "ENOENT"),
            ("list .", "d f p"),
            ("list f", "ENOTDIR"),
            ("list missing", "ENOENT"),
        ],
        trash: "",
    },
    Case {
        name: "removing",
        flags: &[],
        store: &["f", "d/", "d/g", "p|"],
        steps: &[
            ("unlink f", "ok"),
            ("unlink f", "ENOENT"),
            ("stat f", "ENOENT"),
            ("create f", "ok"),
            ("unlink f", "ok"),
            ("unlink d", "EISDIR"),
            ("rmdir d", "ENOTEMPTY"),
            ("rmdir d/g", "ENOTDIR"),
            ("unlink d/g", "ok"),
            ("rmdir d", "ok"),
            ("rmdir d", "ENOENT"),
            ("unlink p", "ok"),
            ("list .", ""),
        ],
        // What was removed from d before d was is gathered in it.
        trash: "d d/g f f p",
    },
    Case {
        name: "moving",
        flags: &[],
        store: &["f", "g", "d/", "e/", "full/", "full/x"],
        steps: &[
            ("rename f h", "ok"),
            ("rename f h", "ENOENT"),
            ("rename h g", "ok"),
            ("read g", "f"),
            ("rename g d", "EISDIR"),
            ("rename d g", "ENOTDIR"),
            ("rename d e", "ok"),
            ("rename e full", "ENOTEMPTY"),
            ("rename full e", "ok"),
            ("read e/x", "full/x"),
            ("rename e e/below", "EINVAL"),
            ("rename e e/x", "EINVAL"),
            ("rename e/x e", "ENOTEMPTY"),
            ("rename g g", "ok"),
            ("rename e e", "ok"),
            ("rename g missing/g", "ENOENT"),
            ("rename g e/x/g", "ENOTDIR"),
            ("noreplace g e", "EEXIST"),
            ("noreplace g h", "ok"),
            ("exchange h missing", "ENOENT"),
            ("exchange h e", "ok"),
            ("list h", "x"),
            ("exchange h h/x", "EINVAL"),
            ("exchange h/x h", "EINVAL"),
            ("list .", "e h"),
        ],
        trash: "e e g",
    },
    Case {
        name: "hard links",
        flags: &[],
        store: &["f", "d/"],
        steps: &[
            ("link f g", "ok"),
            ("link f d/h", "ok"),
            ("stat f", "RegularFile 644 3 1"),
            ("link f g", "EEXIST"),
            ("link d e", "EPERM"),
            ("link d f", "EEXIST"),
            ("link missing x", "ENOENT"),
            ("link f missing/x", "ENOENT"),
            ("append g", "ok"),
            ("read d/h", "fg"),
            ("rename f g", "ok"),
            ("list .", "d f g"),
            ("unlink f", "ok"),
            ("stat g", "RegularFile 644 2 2"),
            ("noreplace g d/h", "EEXIST"),
            ("rename g d/h", "ok"),
            ("exchange g d/h", "ok"),
            ("unlink g", "ok"),
            ("stat d/h", "RegularFile 644 1 2"),
        ],
        trash: "f g",
    },
    Case {
        name: "links and devices do not exist",
        flags: &[],
        store: &["f", "d/", "l->f", "out->/etc", "d/l->../f", "n!"],
        steps: &[
            ("list .", "d f"),
            ("list d", ""),
            ("stat l", "ENOENT"),
            ("read out/passwd", "ENOENT"),
            ("create l", "ENOENT"),
            ("overwrite l", "ENOENT"),
            ("mkdir out", "ENOENT"),
            ("mkfifo n", "ENOENT"),
            ("unlink l", "ENOENT"),
            ("rmdir out", "ENOENT"),
            ("chmod n 777", "ENOENT"),
            ("rename f l", "ENOENT"),
            ("rename d out", "ENOENT"),
            ("noreplace f n", "ENOENT"),
            ("exchange f l", "ENOENT"),
            ("rename l x", "ENOENT"),
            ("link f l", "ENOENT"),
            ("link l x", "ENOENT"),
            ("symlink f x", "EPERM"),
            ("stat x", "ENOENT"),
            ("rmdir d", "ok"),
        ],
        trash: "d d/l",
    },
    Case {
        name: "links that stay inside",
        flags: &["--symlinks", "inside"],
        store: &[
            "f",
            "d/",
            "d/up->../f",
            "out->/etc",
            "climb->../x",
            "d/climb->../../x",
        ],
        steps: &[
            ("list .", "d f"),
            ("list d", "up"),
            ("stat out", "ENOENT"),
            ("create climb", "ENOENT"),
            ("symlink f l", "ok"),
            ("symlink f l", "EEXIST"),
            ("symlink /etc a", "EPERM"),
            ("symlink ../f a", "EPERM"),
            ("symlink ../f d/a", "ok"),
            ("symlink ../../f d/b", "EPERM"),
            ("symlink d/../../f b", "EPERM"),
            // Moved up, it would lead out, so it stays. One that comes along leads nowhere from there on.
            ("rename d/a a", "EPERM"),
            ("read a", "ENOENT"),
            ("mkdir d/e", "ok"),
            ("symlink ../../f d/e/l", "ok"),
            ("rename d/e e", "ok"),
            ("read e/l", "ENOENT"),
            ("unlink l", "ok"),
            ("list d", "a up"),
        ],
        trash: "l",
    },
    Case {
        name: "the state directory does not exist",
        flags: &["--trash", "listed"],
        store: &["f", "d/"],
        steps: &[
            ("list .", ".trash d f"),
            ("stat .trumanfs", "ENOENT"),
            ("list .trumanfs", "ENOENT"),
            ("read .trumanfs/lock", "ENOENT"),
            ("create .trumanfs", "ENOENT"),
            ("create .trumanfs/x", "ENOENT"),
            ("mkdir .trumanfs", "ENOENT"),
            ("unlink .trumanfs", "ENOENT"),
            ("rmdir .trumanfs", "ENOENT"),
            ("rename f .trumanfs", "ENOENT"),
            ("rename d .trumanfs", "ENOENT"),
            ("rename .trumanfs x", "ENOENT"),
            ("exchange d .trumanfs", "ENOENT"),
            ("link f .trumanfs", "ENOENT"),
            ("mkdir d/.trumanfs", "ok"),
            ("rename d/.trumanfs .trumanfs", "ENOENT"),
        ],
        trash: "",
    },
    Case {
        name: "the trash, seen from inside",
        flags: &[],
        store: &["f", "d/", ".trash/", ".trash/20260101T000000.000000Z_x"],
        steps: &[
            ("list .", "d f"),
            ("list .trash", "20260101T000000.000000Z_x"),
            (
                "read .trash/20260101T000000.000000Z_x",
                ".trash/20260101T000000.000000Z_x",
            ),
            ("append .trash/20260101T000000.000000Z_x", "EROFS"),
            ("truncate .trash/20260101T000000.000000Z_x 0", "EROFS"),
            ("chmod .trash/20260101T000000.000000Z_x 0", "EROFS"),
            ("unlink .trash/20260101T000000.000000Z_x", "EROFS"),
            ("create .trash/y", "EROFS"),
            ("mkdir .trash/y", "EROFS"),
            ("rename f .trash/y", "EROFS"),
            ("link f .trash/y", "EROFS"),
            ("link .trash/20260101T000000.000000Z_x y", "EROFS"),
            ("exchange f .trash/20260101T000000.000000Z_x", "EROFS"),
            ("rename .trash x", "EROFS"),
            ("rmdir .trash", "EROFS"),
            ("noreplace .trash/20260101T000000.000000Z_x f", "EEXIST"),
            ("rename .trash/20260101T000000.000000Z_x f", "ok"),
            ("read f", ".trash/20260101T000000.000000Z_x"),
        ],
        trash: "f",
    },
    Case {
        name: "patterns hide",
        flags: &["--hide", "*.key", "--hide", "/s/", "--hide", "a/b"],
        store: &[
            "k.key", "s/", "s/x", "a/", "a/b/", "a/b/c", "d/", "d/k.key", "f",
        ],
        steps: &[
            ("list .", "a d f"),
            ("list a", ""),
            ("list d", ""),
            ("stat s/x", "ENOENT"),
            ("create new.key", "ENOENT"),
            ("create k.key", "ENOENT"),
            ("mkdir s", "ENOENT"),
            ("rename f x.key", "ENOENT"),
            ("rename a/b c", "ENOENT"),
            ("rename a c", "ok"),
            ("stat c/b", "ENOENT"),
            ("list c", ""),
            ("rmdir d", "ok"),
            ("rmdir c", "ok"),
            ("list .", "f"),
        ],
        trash: "c c/b c/b/c d d/k.key",
    },
    Case {
        name: "patterns protect",
        flags: &["--read-only=/etc", "--read-only=*.lock"],
        store: &["etc/", "etc/f", "a.lock", "d/", "d/b.lock", "f"],
        steps: &[
            ("read etc/f", "etc/f"),
            ("append etc/f", "EROFS"),
            ("create etc/g", "EROFS"),
            ("mkdir etc/d", "EROFS"),
            ("unlink etc/f", "EROFS"),
            ("unlink a.lock", "EROFS"),
            ("rename f a.lock", "EROFS"),
            ("rename etc g", "EROFS"),
            ("rename d g", "EROFS"),
            ("exchange f a.lock", "EROFS"),
            ("link a.lock g", "EROFS"),
            ("create c.lock", "EROFS"),
            ("truncate etc/f 0", "EROFS"),
            ("chmod etc 700", "EROFS"),
            ("append f", "ok"),
            ("list etc", "f"),
        ],
        trash: "",
    },
    Case {
        name: "a whole home that is read-only",
        flags: &["--read-only"],
        store: &["f", "d/"],
        steps: &[
            ("read f", "f"),
            ("list .", "d f"),
            ("append f", "EROFS"),
            ("create g", "EROFS"),
            ("mkdir g", "EROFS"),
            ("unlink f", "EROFS"),
            ("rmdir d", "EROFS"),
            ("rename f g", "EROFS"),
            ("link f g", "EROFS"),
            ("truncate f 0", "EROFS"),
            ("chmod f 600", "EROFS"),
        ],
        trash: "",
    },
];

fn view(flags: &[&str]) -> ViewOptions {
    let mut view = ViewOptions::default();
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        match flag.split_once('=') {
            Some((_, pattern)) => view.read_only.push(pattern.to_owned()),
            None if *flag == "--read-only" => view.all_read_only = true,
            None => match (*flag, *flags.next().unwrap()) {
                ("--hide", pattern) => view.hide.push(pattern.to_owned()),
                ("--symlinks", "inside") => view.symlinks = SymlinkPolicy::Inside,
                ("--trash", "listed") => view.list_trash = true,
                other => panic!("{other:?}"),
            },
        }
    }
    view
}

fn fill(store: &Path, things: &[&str]) {
    for thing in things {
        if let Some((name, target)) = thing.split_once("->") {
            plant_link(target, store.join(name)).unwrap();
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

fn answer(door: &dyn Door, step: &str) -> String {
    fn ok(result: Sys<()>) -> Result<String, Errno> {
        result.map(|()| "ok".to_owned())
    }
    let words: Vec<&str> = step.split(' ').collect();
    let path = if words[1] == "." { "" } else { words[1] };
    let bytes = path.as_bytes();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let result = match words[0] {
        // The root is no entry of anything; reading it is the same error by any path.
        "read" if path.is_empty() => Err(Errno::ISDIR),
        "create" => ok(door.create(path, bytes)),
        "overwrite" => ok(door.overwrite(path, bytes)),
        "append" => ok(door.append(path, bytes)),
        "read" => door.read(path).map(text),
        "stat" => door
            .stat(path)
            .map(|s| format!("{:?} {:o} {} {}", s.kind, s.mode, s.nlink, s.size)),
        "list" => door.list(path).map(|names| names.join(" ")),
        "mkdir" => ok(door.mkdir(path)),
        "mkfifo" => ok(door.mknod(path, FileType::Fifo)),
        "mknod" => ok(door.mknod(path, FileType::CharacterDevice)),
        "symlink" => ok(door.symlink(words[1], words[2])),
        "link" => ok(door.link(path, words[2])),
        "unlink" => ok(door.unlink(path)),
        "rmdir" => ok(door.rmdir(path)),
        "rename" => ok(door.rename(path, words[2], RenameMode::Replace)),
        "noreplace" => ok(door.rename(path, words[2], RenameMode::NoReplace)),
        "exchange" => ok(door.rename(path, words[2], RenameMode::Exchange)),
        "truncate" => ok(door.truncate(path, words[2].parse().unwrap())),
        "chmod" => ok(door.chmod(path, u32::from_str_radix(words[2], 8).unwrap())),
        other => panic!("{other} is no verb"),
    };
    result.unwrap_or_else(|errno| name(errno).to_owned())
}

fn name(errno: Errno) -> &'static str {
    const NAMES: &[(Errno, &str)] = &[
        (Errno::PERM, "EPERM"),
        (Errno::NOENT, "ENOENT"),
        (Errno::ACCESS, "EACCES"),
        (Errno::EXIST, "EEXIST"),
        (Errno::XDEV, "EXDEV"),
        (Errno::NOTDIR, "ENOTDIR"),
        (Errno::ISDIR, "EISDIR"),
        (Errno::INVAL, "EINVAL"),
        (Errno::ROFS, "EROFS"),
        (Errno::NOTEMPTY, "ENOTEMPTY"),
        (Errno::LOOP, "ELOOP"),
        (Errno::BUSY, "EBUSY"),
    ];
    let found = NAMES.iter().find(|(e, _)| *e == errno);
    found
        .unwrap_or_else(|| panic!("{errno:?} has no name here"))
        .1
}

/// Everything below a directory of the store, in order, by paths from it.
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
fn run(which: &str, door: &dyn Door, case: &Case) -> (Vec<String>, Vec<String>) {
    let mut problems = Vec::new();
    for (step, wanted) in case.steps {
        let got = answer(door, step);
        if got != *wanted {
            problems.push(format!(
                "{}, {which}: {step}: expected {wanted}, got {got}",
                case.name
            ));
        }
    }
    door.gather();
    let mut trash: Vec<String> = below(&door.store().join(".trash"))
        .iter()
        .map(|path| {
            path.split_once('_')
                .map_or(path.clone(), |(_, rest)| rest.to_owned())
        })
        .collect();
    trash.sort();
    if trash.join(" ") != case.trash {
        problems.push(format!(
            "{}, {which}: in the trash: expected {:?}, got {:?}",
            case.name,
            case.trash,
            trash.join(" ")
        ));
    }
    (problems, below(door.store()))
}

#[test]
fn both_doors_lead_to_the_same_world() {
    need_mount!();
    need_root!("to make devices");
    crate::common::usual_umask();
    let mut problems = Vec::new();
    for case in CASES {
        let store = tempfile::tempdir().unwrap();
        fill(store.path(), case.store);
        let inside = InProcess::open(store.path(), view(case.flags));
        let (found, tree) = run("in process", &inside, case);
        problems.extend(found);
        inside.world().close();

        let home = Home::prepared(|store| fill(store, case.store), case.flags);
        let mounted = Mounted(home);
        let (found, mounted_tree) = run("mounted", &mounted, case);
        problems.extend(found);
        if tree != mounted_tree {
            problems.push(format!(
                "{}: the trees differ: {tree:?} and {mounted_tree:?}",
                case.name
            ));
        }
        crate::door::journals(store.path());
        crate::door::journals(mounted.store());
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

// ── Found by the model ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/// The model, seed 1019: a file with one name in the home and one in the trash was last seen in the trash, and could
/// from then on not be changed by its name in the home either.
#[test]
fn a_file_that_has_a_name_in_the_trash_too_can_be_changed() {
    need_mount!();
    let home = Home::mount();
    fs::write(home.path("a"), "a").unwrap();
    calls::link(home.path("a"), home.path("b")).unwrap();
    calls::unlink(home.path("a")).unwrap();
    let entry = home.trash().pop().unwrap();
    calls::stat(home.path(".trash").join(&entry)).unwrap();
    home.sh("ls -lR .trash");
    calls::chmod(home.path("b"), 0o600).unwrap();
    fs::write(home.path("b"), "changed").unwrap();
    calls::link(home.path("b"), home.path("c")).unwrap();
    calls::truncate(home.path("c"), 3).unwrap();
    assert_eq!(fs::read(home.path("b")).unwrap(), b"cha");
    // Its name in the trash is as fixed as any there.
    let trashed = home.path(".trash").join(&entry);
    assert_eq!(calls::unlink(&trashed), Err(Errno::ROFS));
    assert_eq!(
        calls::rename(&trashed, home.path(".trash/x")),
        Err(Errno::ROFS)
    );
    assert_eq!(calls::stat(home.path("b")).unwrap().nlink, 2);
}

/// Looking into the trash must not take from an open file, removed meanwhile, what its holder may do with it.
#[test]
fn looking_into_the_trash_leaves_open_files_alone() {
    need_mount!();
    let home = Home::mount();
    let fd = calls::open(home.path("f"), calls::O_CREAT | calls::O_RDWR, 0o644).unwrap();
    calls::write(&fd, b"content").unwrap();
    calls::unlink(home.path("f")).unwrap();
    calls::ftruncate(&fd, 6).unwrap();
    home.sh("ls -lR .trash; cat .trash/*");
    calls::write(&fd, b"!").unwrap();
    calls::ftruncate(&fd, 3).unwrap();
    calls::fchmod(&fd, 0o600).unwrap();
    calls::futimens(&fd, (1, 0), (2, 0)).unwrap();
    assert_eq!(calls::pread(&fd, 10, 0).unwrap(), b"con");
    assert_eq!(calls::fstat(&fd).unwrap().nlink, 0);
}

/// What was open when it was removed stays writable by whoever has it open, and not a moment longer.
#[test]
fn the_trash_is_fixed_once_nobody_has_it_open() {
    need_mount!();
    let home = Home::mount();
    fs::create_dir(home.path("d")).unwrap();
    for name in ["f", "r", "d/g", "d/h"] {
        fs::write(home.path(name), name).unwrap();
    }
    let located = |name: &str, flags: i32| calls::open(home.path(name), flags, 0).unwrap();
    let fds = [
        located("f", calls::O_RDWR),
        located("r", calls::O_RDONLY),
        located("d/g", calls::O_RDWR),
        located("d/h", calls::O_RDONLY),
    ];
    home.sh("rm -r f r d; ls -lR .trash >/dev/null; cat .trash/*_f .trash/*_r >/dev/null");
    let entry = |name: &str| {
        let entry = home.trashed(name).pop().unwrap();
        home.path(".trash").join(entry.file_name().unwrap())
    };
    let paths = [
        entry("f"),
        entry("r"),
        entry("d").join("g"),
        entry("d").join("h"),
    ];
    let _looked = paths.each_ref().map(|p| calls::open(p, calls::O_PATH, 0));
    drop(fds);
    // The daemon hears of the closing a moment later.
    while home.status().unwrap()["open"] != 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    home.sh("ls -lR .trash >/dev/null");
    for path in paths {
        let at = path.display();
        let refused = |what: &str, result: Sys<()>| match result {
            // ENOENT: the directory was open when it was removed (see the next test).
            Err(Errno::ROFS | Errno::NOENT) => {}
            other => panic!("{what} {at}: {other:?}"),
        };
        for flags in [
            calls::O_WRONLY,
            calls::O_RDWR,
            calls::O_WRONLY | calls::O_TRUNC,
        ] {
            refused("open", calls::open(&path, flags, 0).map(drop));
        }
        refused("truncate", calls::truncate(&path, 0));
        refused("chmod", calls::chmod(&path, 0o777));
        refused("link", calls::link(&path, home.path("x")));
    }
}

/// The kernel marks a removed directory as dead (S_DEAD), and its entry in the trash is the same inode to it: as long as
/// somebody has the directory, or something in it, open, the entry seems empty and cannot be used when it comes back.
#[test]
fn a_removed_directory_that_is_in_use_can_be_looked_into_and_taken_back() {
    need_mount!();
    let home = Home::mount();
    fs::create_dir(home.path("d")).unwrap();
    fs::write(home.path("d/g"), "g").unwrap();
    let _held = calls::open(home.path("d/g"), calls::O_RDONLY, 0).unwrap();
    let _cwd = calls::open(home.path("d"), calls::O_RDONLY | calls::O_DIRECTORY, 0).unwrap();
    home.sh("rm -r d");
    let entry = home.trashed("d").pop().unwrap();
    let entry = home.path(".trash").join(entry.file_name().unwrap());
    assert_eq!(calls::readdir(&entry), Ok(vec!["g".into()]));
    calls::rename(&entry, home.path("back")).unwrap();
    assert_eq!(fs::read(home.path("back/g")).unwrap(), b"g");
    fs::write(home.path("back/new"), "new").unwrap();
}

/// The store's file system uses the inode number of what an operator has purged again, at once as a rule, and to the
/// kernel the new directory is the dead one that it still remembers from the trash.
#[test]
fn a_number_that_is_used_again_is_another_thing() {
    need_mount!();
    let home = Home::mount();
    for _ in 0..20 {
        fs::create_dir(home.path("d")).unwrap();
        fs::write(home.path("d/g"), "g").unwrap();
        let located = calls::open(home.path("d/g"), calls::O_RDONLY, 0).unwrap();
        home.sh("rm -r d; ls -lR .trash >/dev/null");
        // An operator purges, while the kernel still knows the entry.
        for entry in home.trash() {
            fs::remove_dir_all(home.store().join(".trash").join(entry)).unwrap();
        }
        fs::create_dir(home.path("d")).unwrap();
        fs::write(home.path("d/g"), "new").unwrap();
        assert_eq!(fs::read(home.path("d/g")).unwrap(), b"new");
        drop(located);
        home.sh("rm -r d");
    }
}
