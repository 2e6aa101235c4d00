//! Removed trees, which are gathered in the trash behind the reply: nobody who looks sees a half of it, what is open stays
//! what it is, a daemon that dies loses nothing; and the trash that somebody outside moves away while it is kept open.
//!
//! The order of gathering and its bound are tried without a mount, in `src/operator/undo/tests/gather.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::Duration;

use crate::common::calls::{self, *};
use crate::common::random::Random;
use crate::common::{Home, describe, need_mount, trumanfs};

/// A tree of three levels in the home, and the contents of its files.
fn tree(home: &Home, name: &str) -> BTreeSet<String> {
    let mut contents = BTreeSet::new();
    for dir in ["", "sub/", "sub/deep/", "other/"] {
        fs::create_dir_all(home.path(format!("{name}/{dir}"))).unwrap();
        for n in 0..5 {
            let content = format!("{name}/{dir}{n}");
            fs::write(home.path(&content), &content).unwrap();
            contents.insert(content);
        }
    }
    contents
}

/// The contents of all files below a directory.
fn contents(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(contents(&entry.path())),
            false if entry.file_name() == ".gitignore" => {}
            false => found.push(fs::read_to_string(entry.path()).unwrap()),
        }
    }
    found
}

fn names(dir: &Path) -> Vec<String> {
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    fs::read_dir(dir)
        .unwrap()
        .map(|e| name(e.unwrap()))
        .collect()
}

fn run(code: i32, words: &[&str], home: &Home) -> String {
    let mut args: Vec<&std::ffi::OsStr> = words.iter().map(AsRef::as_ref).collect();
    args.push(home.store().as_os_str());
    let output = trumanfs(&args);
    assert_eq!(output.status.code(), Some(code), "{}", describe(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn whoever_looks_sees_one_entry() {
    need_mount!();
    let mut home = Home::mount();
    let is_one = |seen: &[String]| matches!(seen, [one] if one.ends_with("_d"));
    for round in 0..12 {
        let was = tree(&home, "d");
        home.run("rm", &["-r", "d"]);
        match round % 6 {
            // The occupant lists the trash, or goes into it by a pattern or by a name.
            0 => assert!(is_one(&names(&home.path(".trash")))),
            1 => assert_eq!(home.sh("cat .trash/*_d/sub/deep/3"), "d/sub/deep/3"),
            2 => {
                home.sh("mv .trash/*_d back");
                assert_eq!(contents(&home.path("back")).len(), was.len());
                home.sh("rm -r back; cd .trash; test $(ls | wc -l) = 1; mv * ../d; rm -r ../d");
            }
            // An operator lists it, reads the log, or ends the session.
            3 => assert_eq!(run(0, &["trash", "list"], &home).lines().count(), 2),
            4 => {
                let log = run(0, &["log", "--all", "--session", "last"], &home);
                let last = log.lines().last().unwrap();
                assert!(last.contains(" gather "), "{log}");
                assert!(last.contains(" removed from /d "), "{log}");
            }
            _ => {
                home.umount();
                let left = names(&home.store().join(".trash"));
                let left: Vec<_> = left.into_iter().filter(|e| e != ".gitignore").collect();
                assert!(is_one(&left), "{left:?}");
                home.mount_again();
            }
        }
        let found: BTreeSet<_> = contents(&home.path(".trash")).into_iter().collect();
        assert_eq!(found, was);
        run(0, &["trash", "purge", "--all"], &home);
        assert!(home.trash().is_empty(), "{:?}", home.trash());
        assert!(contents(&home.store().join(".trash")).is_empty());
    }
}

#[test]
fn an_undo_right_after_a_removal_brings_all_of_it_back() {
    need_mount!();
    let mut home = Home::mount();
    for _ in 0..4 {
        let was = tree(&home, "d");
        home.remount();
        home.sh("rm -r d; mkdir d; echo new > d/0; rm -r d");
        run(0, &["undo", "--session", "last"], &home);
        let found: BTreeSet<_> = contents(&home.path("d")).into_iter().collect();
        assert_eq!(found, was);
    }
}

/// What is open, or where somebody works, is found in its new place at once: nobody has to look into the trash before.
#[test]
fn what_is_open_stays_what_it_is() {
    need_mount!();
    for options in [&[][..], &["--no-passthrough"]] {
        let home = Home::with(options);
        for _ in 0..5 {
            tree(&home, "d");
            let paths = ["d/0", "d/sub/1", "d/sub/deep/2"].map(|path| home.path(path));
            let mut open = paths.map(|path| {
                let file = fs::OpenOptions::new().read(true).write(true).open(path);
                file.unwrap()
            });
            let dir = calls::open(home.path("d/sub/deep"), O_RDONLY | O_DIRECTORY, 0).unwrap();
            home.run("rm", &["-r", "d"]);
            assert!(matches!(openat_in(&dir), Err(Errno::NOENT)));
            for (n, file) in open.iter_mut().enumerate() {
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                assert!(text.ends_with(&n.to_string()), "{text}");
                file.rewind().unwrap();
                file.set_len(0).unwrap();
                write!(file, "changed {n}").unwrap();
                file.sync_all().unwrap();
                assert_eq!(file.metadata().unwrap().nlink(), 0);
                file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))
                    .unwrap();
            }
            drop(open);
            let [entry] = &home.trashed("d")[..] else {
                panic!("{:?}", home.trash());
            };
            for (n, path) in ["0", "sub/1", "sub/deep/2"].iter().enumerate() {
                let text = fs::read_to_string(entry.join(path)).unwrap();
                assert_eq!(text, format!("changed {n}"));
            }
            drop(dir);
            run(0, &["trash", "purge", "--all"], &home);
        }
    }
}

fn openat_in(dir: &rustix::fd::OwnedFd) -> Result<(), Errno> {
    let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    rustix::fs::openat(dir, "new", flags, 0o600.into()).map(drop)
}

/// A daemon is killed at some moment of a removal or just after it. Each content is in the home or in the trash, the
/// store is in order, and an undo in the next session brings everything back.
#[test]
fn a_killed_daemon_loses_nothing_of_what_it_had_to_gather() {
    need_mount!();
    let mut random = Random(11);
    let mut home = Home::plan().limit(Duration::from_secs(240)).mount();
    for round in 0..8 {
        let name = format!("d{round}");
        let was = tree(&home, &name);
        home.sh("sync .");
        home.umount();
        home.mount_again();
        let mut rm = std::process::Command::new("rm")
            .args(["-r", &name])
            .current_dir(home.home())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(random.index(45) as u64));
        home.kill_daemon_only();
        rm.wait().unwrap();
        home.detach();
        let mut found = contents(&home.store().join(".trash"));
        if home.store().join(&name).exists() {
            found.extend(contents(&home.store().join(&name)));
        }
        let count = found.len();
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), was);
        assert_eq!(count, was.len(), "nothing is there twice");
        home.mount_again();
        run(0, &["fsck"], &home);
        // The killed session is the one before the last.
        let sessions = run(0, &["session", "list", "--json"], &home);
        let ids: Vec<String> = sessions
            .split('"')
            .filter(|word| home.store().join(".trumanfs/sessions").join(word).is_dir())
            .filter(|word| word.len() > 8)
            .map(str::to_owned)
            .collect();
        let killed = ids.iter().collect::<BTreeSet<_>>();
        let killed = killed.iter().rev().nth(1).unwrap();
        let output = trumanfs(&[
            "undo".as_ref(),
            home.store().as_os_str(),
            "--session".as_ref(),
            killed.as_ref(),
        ]);
        // 3: the removal had not begun.
        assert!(
            matches!(output.status.code(), Some(0 | 3)),
            "{}",
            describe(&output)
        );
        let found: BTreeSet<_> = contents(&home.path(&name)).into_iter().collect();
        assert_eq!(found, was, "round {round}: {}", describe(&output));
        run(0, &["fsck"], &home);
        assert!(home.trash().is_empty(), "{:?}", home.trash());
    }
}

/// What was looked up in the trash is gathered with its directory like everything else, and whoever has it open still has it.
#[test]
fn what_was_seen_in_the_trash_stays_what_it_is_when_it_is_gathered() {
    need_mount!();
    let home = Home::mount();
    fs::create_dir_all(home.path("d/sub/inner")).unwrap();
    fs::write(home.path("d/sub/f"), "content").unwrap();
    fs::write(home.path("d/sub/inner/g"), "inner").unwrap();
    let open = open(home.path("d/sub/f"), O_RDWR, 0).unwrap();
    let seen = |name: &str| {
        let entry = home.trashed(name).remove(0);
        home.path(".trash").join(entry.file_name().unwrap())
    };
    fs::remove_file(home.path("d/sub/f")).unwrap();
    assert_eq!(fs::read_to_string(seen("f")).unwrap(), "content");
    fs::remove_file(home.path("d/sub/inner/g")).unwrap();
    let reader = fs::File::open(seen("g")).unwrap();
    fs::remove_dir(home.path("d/sub/inner")).unwrap();
    let inner = fs::File::open(seen("inner")).unwrap();
    fs::remove_dir(home.path("d/sub")).unwrap();
    assert_eq!(fs::metadata(seen("sub")).unwrap().mode() & 0o777, 0o755);
    fs::remove_dir(home.path("d")).unwrap();

    ftruncate(&open, 3).unwrap();
    fchmod(&open, 0o640).unwrap();
    futimens(&open, (5, 0), (7, 0)).unwrap();
    let stat = fstat(&open).unwrap();
    assert_eq!((stat.size, stat.mode, stat.mtime), (3, 0o640, (7, 0)));
    assert_eq!(fstat(&reader).unwrap().size, 5);
    let inner = format!("/proc/self/fd/{}", inner.as_raw_fd());
    assert_eq!(readdir(inner).unwrap(), ["g"]);
    assert_eq!(home.sh("cd .trash/*_d/sub; cat f inner/g"), "coninner");
}

/// The trash is kept open for a second. Whatever somebody outside does to it in that time, the next removal goes where the
/// store's trash is then.
#[test]
fn a_trash_that_was_moved_away_takes_nothing_more() {
    need_mount!();
    let home = Home::mount();
    let (trash, away) = (home.store().join(".trash"), home.base().join("away"));
    let remove = |name: &str| {
        fs::write(home.path(name), name).unwrap();
        fs::remove_file(home.path(name)).unwrap();
    };
    let in_it = |name: &str| {
        let entries = names(&trash);
        entries.iter().filter(|e| e.ends_with(name)).count()
    };
    remove("before");
    fs::rename(&trash, &away).unwrap();
    remove("moved");
    assert_eq!((in_it("before"), in_it("moved")), (0, 1));
    fs::rename(&trash, home.base().join("second")).unwrap();
    fs::create_dir(&trash).unwrap();
    remove("replaced");
    assert_eq!((in_it("moved"), in_it("replaced")), (0, 1));
    fs::rename(&trash, home.store().join("inside")).unwrap();
    fs::write(home.path("new"), "new").unwrap();
    home.sh("echo old > f; mv new f; mkdir dir; rmdir dir");
    assert_eq!((in_it("replaced"), in_it("_f"), in_it("_dir")), (0, 1, 1));
    fs::remove_dir_all(&trash).unwrap();
    remove("deleted");
    assert_eq!(in_it("deleted"), 1);
    for (dir, count) in [(&away, 1), (&home.base().join("second"), 1)] {
        let entries = names(dir);
        let count_now = entries.iter().filter(|e| *e != ".gitignore").count();
        assert_eq!(count_now, count, "{entries:?}");
    }
}

/// A link in the place of the trash is refused, and so is one that leads to where the trash was moved, once a second is over.
#[test]
fn a_link_in_place_of_the_trash_is_refused() {
    need_mount!();
    let home = Home::mount();
    let (trash, away) = (home.store().join(".trash"), home.base().join("away"));
    let outside = home.base().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(home.path("f"), "f").unwrap();
    fs::write(home.path("g"), "g").unwrap();
    fs::remove_file(home.path("f")).unwrap();
    fs::rename(&trash, &away).unwrap();
    symlink(&outside, &trash).unwrap();
    fs::remove_file(home.path("g")).unwrap_err();
    assert_eq!(fs::read_to_string(home.path("g")).unwrap(), "g");
    fs::remove_file(&trash).unwrap();
    symlink(&away, &trash).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    fs::remove_file(home.path("g")).unwrap_err();
    assert_eq!(fs::read_to_string(home.path("g")).unwrap(), "g");
    assert!(names(&outside).is_empty());
    assert!(names(&away).iter().all(|entry| !entry.ends_with("_g")));
    fs::remove_file(&trash).unwrap();
    fs::rename(&away, &trash).unwrap();
    fs::remove_file(home.path("g")).unwrap();
    assert_eq!(home.trashed("g").len(), 1);
}
