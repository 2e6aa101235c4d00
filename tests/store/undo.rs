//! Undo on a mounted home: its laws under random operations from several processes, and the command line: conflicts,
//! dry runs, redo, restore, checkpoints; also on an unmounted store, and on one whose daemon was killed.
//! `TRUMANFS_SEED` repeats a run, `TRUMANFS_ROUNDS` sets the number of rounds. Many more histories run in process in
//! `src/operator/undo/tests.rs`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::calls::*;
use crate::common::random::Random;
use crate::common::{Home, child, describe, need_mount, skip, trumanfs};

fn random_path(random: &mut Random) -> String {
    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    let depth = 1 + random.below(3);
    let names = (0..depth).map(|_| NAMES[usize::try_from(random.below(6)).unwrap()]);
    names.collect::<Vec<_>>().join("/")
}

/// What a thing is, as far as an undo restores it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, i64),
    size: u64,
    content: Vec<u8>,
    /// Where there is data, in whole blocks; the last block that is not whole may become data by an append.
    data: Vec<(u64, u64)>,
    xattrs: BTreeMap<String, Vec<u8>>,
    /// The first path of the same inode.
    same_as: PathBuf,
}

type Snapshot = BTreeMap<PathBuf, Seen>;

/// Looks at a home, and for holes at its store.
fn look(home: &Home) -> Snapshot {
    // With the writeback cache the kernel hands on what was written, and when, in its own time and order. What it believes of a
    // time is its own then; what is undone is the store's.
    rustix::fs::syncfs(open(home.home(), O_RDONLY, 0).unwrap()).unwrap();
    let writeback = home.status().unwrap()["mechanisms"]["writeback"] == true;
    let mut all = Snapshot::new();
    let mut inodes = BTreeMap::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(dir) = pending.pop() {
        let mut names: Vec<_> = fs::read_dir(home.path(&dir))
            .unwrap()
            .map(|entry| dir.join(entry.unwrap().file_name()))
            .collect();
        names.sort();
        for path in names {
            let at = home.path(&path);
            let meta = fs::symlink_metadata(&at).unwrap();
            let stored = fs::symlink_metadata(home.store().join(&path)).unwrap();
            let (content, data) = match meta.is_file() {
                true => (fs::read(&at).unwrap(), data(&home.store().join(&path))),
                false => Default::default(),
            };
            // Without --xattr there are none.
            let names = listxattr(&at).unwrap_or_default();
            let values = names
                .into_iter()
                .map(|name| (name.clone(), getxattr(&at, &name).unwrap()));
            let xattrs = values.collect();
            let times = |meta: &fs::Metadata| (meta.mtime(), meta.mtime_nsec());
            assert_eq!(
                meta.size(),
                stored.size(),
                "{path:?}: size in the home / in the store"
            );
            assert!(
                writeback || times(&meta) == times(&stored),
                "{path:?}: time in the home / in the store: {:?} / {:?}",
                times(&meta),
                times(&stored)
            );
            let first = inodes.entry(meta.ino()).or_insert(path.clone()).clone();
            let seen = Seen {
                mode: meta.mode(),
                owner: (meta.uid(), meta.gid()),
                mtime: (stored.mtime(), stored.mtime_nsec()),
                size: if meta.is_file() { stored.len() } else { 0 },
                content,
                data,
                xattrs,
                same_as: first,
            };
            if meta.is_dir() {
                pending.push(path.clone());
            }
            all.insert(path, seen);
        }
    }
    all
}

fn data(path: &Path) -> Vec<(u64, u64)> {
    use rustix::fs::{SeekFrom, seek};
    let file = fs::File::open(path).unwrap();
    let whole = file.metadata().unwrap().len() / 4096 * 4096;
    let (mut all, mut at) = (Vec::new(), 0);
    while let Ok(data) = seek(&file, SeekFrom::Data(at)) {
        at = seek(&file, SeekFrom::Hole(data)).unwrap();
        if data < whole {
            all.push((data, at.min(whole)));
        }
    }
    all
}

fn assert_same(is: &Snapshot, was: &Snapshot, what: &str) {
    let names = |all: &Snapshot| {
        let each = all
            .iter()
            .map(|(path, seen)| format!("{path:?}={:?}", seen.same_as));
        each.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(is), names(was), "{what}: is / was");
    for (path, was) in was {
        let is = &is[path];
        let short = |seen: &Seen| {
            (
                format!("{:o}", seen.mode),
                seen.owner,
                seen.mtime,
                seen.size,
                seen.data.clone(),
                seen.xattrs.keys().cloned().collect::<Vec<_>>(),
            )
        };
        assert_eq!(short(is), short(was), "{what}: {path:?}: is / was");
        assert!(is == was, "{what}: {path:?}: bytes or values differ");
    }
}

/// One operation of one process; what cannot be done is not.
fn step(home: &Path, random: &mut Random) -> Sys<()> {
    let path = random_path(random);
    let at = home.join(&path);
    let other = home.join(random_path(random));
    let text = format!("{path} {} ", random.below(1_000_000))
        .repeat(1 + usize::try_from(random.below(300)).unwrap());
    match random.below(18) {
        0..=2 => {
            let fd = open(&at, O_WRONLY | O_CREAT | O_TRUNC, 0o644)?;
            write(&fd, text.as_bytes())?;
        }
        3 | 4 => {
            let fd = open(&at, O_RDWR, 0)?;
            pwrite(&fd, text.as_bytes(), random.below(8000))?;
        }
        5 => {
            let fd = open(&at, O_WRONLY | O_APPEND, 0)?;
            write(&fd, text.as_bytes())?;
        }
        6 => truncate(&at, i64::try_from(random.below(9000)).unwrap())?,
        7 | 8 => mkdir(&at, 0o755)?,
        9 => unlink(&at)?,
        10 => rmdir(&at)?,
        11 => rename(&at, &other)?,
        12 => renameat2(&at, &other, RENAME_EXCHANGE)?,
        13 => link(&at, &other)?,
        14 => chmod(
            &at,
            [0o600, 0o644, 0o755, 0o4755][usize::try_from(random.below(4)).unwrap()],
        )?,
        15 => {
            let time = fs::FileTimes::new().set_modified(
                std::time::SystemTime::UNIX_EPOCH + Duration::from_nanos(random.below(1 << 50)),
            );
            fs::File::open(&at)
                .and_then(|file| file.set_times(time))
                .ok();
        }
        16 => match random.below(2) {
            0 => setxattr(&at, "user.x", &text.as_bytes()[..8], 0)?,
            _ => removexattr(&at, "user.x")?,
        },
        _ => {
            let fd = open(&at, O_RDWR | O_CREAT, 0o640)?;
            pwrite(&fd, b"far", 400_000)?;
            fallocate(
                &fd,
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                0,
                4096,
            )?;
        }
    }
    Ok(())
}

fn rm_all(at: &Path) {
    let _ = fs::remove_dir_all(at);
}

/// Three processes at once, each a number of operations.
fn work(home: &Path, seed: u64, count: u64) {
    let processes: Vec<_> = (0..3)
        .map(|process| {
            let home = home.to_owned();
            child::spawn(move || {
                let mut random = Random(seed * 10 + process);
                for number in 0..count {
                    let _ = step(&home, &mut random);
                    if number % 20 == 19 {
                        rm_all(&home.join(random_path(&mut random)));
                    }
                }
                Ok(String::new())
            })
        })
        .collect();
    for process in processes {
        process.join().unwrap();
    }
}

/// Runs a verb on a target and expects this exit code.
fn verb(expected: i32, args: &[&OsStr]) -> String {
    let output = trumanfs(args);
    assert_eq!(
        output.status.code(),
        Some(expected),
        "{args:?}: {}",
        describe(&output)
    );
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn run(expected: i32, target: &Path, line: &str) -> String {
    let mut words = line.split(' ').map(OsStr::new);
    let mut args = vec![words.next().unwrap()];
    if args[0] == "checkpoint" {
        args.extend(words.next());
    }
    args.push(target.as_os_str());
    args.extend(words);
    verb(expected, &args)
}

fn seeds() -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    match number("TRUMANFS_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("TRUMANFS_ROUNDS").unwrap_or(2)).collect(),
    }
}

fn the_law(options: &[&str]) {
    for seed in seeds() {
        println!("TRUMANFS_SEED={seed}");
        let home = Home::plan()
            .options(options)
            .limit(Duration::from_secs(180))
            .mount();
        let target = home.home().to_owned();
        work(home.home(), seed, 60);
        let mut points = Vec::new();
        for round in 0..4 {
            run(0, &target, &format!("checkpoint create point{round}"));
            points.push(look(&home));
            work(home.home(), seed + 1000 * (round + 1), 40);
        }
        let end = look(&home);
        run(0, &target, "undo --to point0");
        assert_same(&look(&home), &points[0], "everything undone");
        run(0, &target, "redo");
        assert_same(&look(&home), &end, "and redone");
        for round in [2, 0, 3, 1] {
            run(0, &target, &format!("undo --to point{round}"));
            assert_same(&look(&home), &points[round], "at a checkpoint");
        }
        // It stays so when the kernel has to ask again.
        let mut home = home;
        home.remount();
        assert_same(&look(&home), &points[1], "after a remount");
        let output = trumanfs(&["fsck".as_ref(), home.store().as_os_str()]);
        assert!(output.status.success(), "{}", describe(&output));
    }
}

#[test]
fn the_law_holds_with_passthrough() {
    need_mount!();
    the_law(&["--xattr"]);
}

#[test]
fn the_law_holds_through_the_daemon() {
    need_mount!();
    the_law(&["--xattr", "--no-passthrough"]);
}

#[test]
fn a_conflict_names_the_later_operation_and_changes_nothing() {
    need_mount!();
    let home = Home::mount();
    home.sh("echo one > f; echo two > f");
    let second = home.journal().last().unwrap()["seq"].as_u64().unwrap();
    home.sh("echo three > f");
    let before = (look(&home), home.journal().len());
    let said = run(4, home.home(), &format!("undo {second}"));
    assert!(said.contains("/f was written to later"), "{said}");
    assert!(
        said.contains(&format!(":{} truncate", second + 1))
            || said.contains(&format!(":{}, truncate /f", second + 1)),
        "{said}"
    );
    let json = run(4, home.home(), &format!("undo {second} --json"));
    let json: serde_json::Value = serde_json::from_str(json.trim()).unwrap();
    let by = json["conflicts"][0]["by"].as_str().unwrap();
    assert!(by.ends_with(&format!(":{}", second + 1)), "{json}");
    assert_eq!(before.1, home.journal().len(), "a conflict writes nothing");
    assert_same(&look(&home), &before.0, "a conflict");

    run(0, home.home(), &format!("undo {second} --keep-both"));
    assert_eq!(home.sh("cat f"), "three\n");
    assert_eq!(home.sh(&format!("cat f.before-{second}")), "one\n");
    run(0, home.home(), "redo");
    assert_same(&look(&home), &before.0, "kept both, and redone");
    run(0, home.home(), &format!("undo {second} --force"));
    assert_eq!(home.sh("cat f"), "one\n");
    run(0, home.home(), "redo");
    assert_same(&look(&home), &before.0, "forced, and redone");
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_would() {
    need_mount!();
    let home = Home::mount();
    home.sh("echo one > f; mkdir d");
    run(0, home.home(), "checkpoint create start");
    home.sh("echo two > f; mv d e; rm f; touch g");
    let before = (look(&home), home.journal().len());
    let said = run(0, home.home(), "undo --to start --dry-run");
    for line in [
        "would bring back /f",
        "would move /e to /d",
        "would remove /g",
        "would content of /f",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert_same(&look(&home), &before.0, "a dry run");
    assert_eq!(before.1, home.journal().len());
    let again = run(4, home.home(), "checkpoint create start");
    assert!(again.contains("already"), "{again}");
    let listed = run(0, home.home(), "checkpoint list");
    assert!(listed.contains("start"), "{listed}");
    run(2, home.home(), "checkpoint create 12");
    run(2, home.home(), "undo");
    run(3, home.home(), "redo");
}

#[test]
fn a_program_is_undone_and_others_are_not() {
    need_mount!();
    let home = Home::mount();
    home.sh("mkdir ours theirs; echo a > ours/a; echo b > theirs/b");
    home.run(
        "dd",
        &[
            "if=/dev/zero",
            "of=ours/a",
            "bs=10",
            "count=1",
            "status=none",
        ],
    );
    home.run(
        "dd",
        &[
            "if=/dev/zero",
            "of=ours/new",
            "bs=10",
            "count=1",
            "status=none",
        ],
    );
    home.sh("echo c > theirs/c");
    run(0, home.home(), "undo --program dd");
    assert_eq!(
        home.sh("cat ours/a; ls ours theirs | xargs"),
        "a\nours: a theirs: b c\n"
    );
    run(0, home.home(), "redo");
    assert_eq!(home.sh("ls ours | xargs"), "a new\n");
}

#[test]
fn what_is_open_goes_on_in_the_file_it_is() {
    need_mount!();
    let home = Home::mount();
    home.sh("echo one > f");
    let reader = fs::File::open(home.path("f")).unwrap();
    let writer = fs::OpenOptions::new()
        .write(true)
        .open(home.path("f"))
        .unwrap();
    writer.write_all_at(b"two\n", 0).unwrap();
    let seq = home.journal().last().unwrap()["seq"].as_u64().unwrap();
    run(0, home.home(), &format!("undo {seq}"));
    let mut text = [0; 4];
    reader.read_exact_at(&mut text, 0).unwrap();
    assert_eq!(&text, b"one\n", "who has it open sees it too");
    assert_eq!(fs::read(home.path("f")).unwrap(), b"one\n");
    writer.write_all_at(b"six\n", 0).unwrap();
    assert_eq!(fs::read(home.path("f")).unwrap(), b"six\n");
}

#[test]
fn an_unmounted_store_and_one_whose_daemon_was_killed_can_be_undone() {
    need_mount!();
    let mut home = Home::mount();
    home.sh("mkdir d; echo one > d/f");
    run(0, home.home(), "checkpoint create start");
    let start = look(&home);
    home.sh("echo two > d/f; echo x > d/x; rm -r d");
    home.kill_daemon();
    run(0, home.store(), "undo --to start");
    home.mount_again();
    assert_same(&look(&home), &start, "after the daemon was killed");
    home.umount();
    run(0, home.store(), "redo");
    home.mount_again();
    assert_eq!(home.sh("ls"), "");
    home.umount();
    run(0, home.store(), "undo --to start");
    run(1, home.store(), "undo --to start");
    home.mount_again();
    assert_same(&look(&home), &start, "undone twice");
}

#[test]
fn a_path_is_restored_in_place_and_elsewhere() {
    need_mount!();
    let home = Home::mount();
    home.sh("mkdir d; echo one > d/f; chmod 600 d/f; ln d/f d/g");
    run(0, home.home(), "checkpoint create start");
    home.sh("echo two > d/f");
    run(0, home.home(), "restore d/f");
    assert_eq!(home.sh("cat d/f d/g"), "one\none\n", "one inode stays one");
    home.sh("echo three > d/f; rm -r d");
    run(0, home.home(), "restore /d --at start --to copy");
    assert_eq!(
        home.sh("cat copy/f; stat -c '%a %h' copy/g"),
        "one\n600 2\n"
    );
    run(0, home.home(), "restore /d");
    assert_eq!(home.sh("cat d/f"), "three\n", "as it was last");
    // What stands there is not lost.
    run(0, home.home(), "restore /d --at start");
    assert_eq!(home.sh("cat d/f"), "one\n");
    run(3, home.home(), "restore /nothing");
    let said = run(4, home.home(), "restore /d --at start --to no/where");
    assert!(said.contains("--to PATH"), "{said}");
    run(0, home.home(), "redo");
    assert_eq!(home.sh("cat d/f"), "three\n");
}

/// A directory of the operator's may be unwritable to its owner.
#[test]
fn modes_do_not_stand_in_the_way() {
    need_mount!();
    let home = Home::mount();
    home.sh("mkdir d; echo one > d/f");
    run(0, home.home(), "checkpoint create start");
    let start = look(&home);
    home.sh("rm d/f; chmod 000 d");
    run(0, home.home(), "undo --to start");
    assert_same(&look(&home), &start, "undone below a closed directory");
    let mode = fs::metadata(home.path("d")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

/// In each order of the removals: the directory that comes back had the time of the undo itself, and a second undo had
/// that to put back, where `rm -r` met another file after the one that was asked for.
#[test]
fn what_concerns_a_path_is_undone_and_nothing_else() {
    need_mount!();
    for removal in [
        "rm -r proj/a proj/b proj/sub proj",
        "rm -r proj/sub proj/b proj/a proj",
    ] {
        a_path_of_a_removed_tree(removal);
    }
}

/// What is gathered meanwhile is not between two places for who only looks.
#[test]
fn what_was_just_removed_is_found_by_who_only_looks() {
    need_mount!();
    let home = Home::mount();
    for round in 0..12 {
        let d = format!("d{round}");
        home.sh(&format!(
            "mkdir {d} {d}/e; touch {d}/e/f; cd {d}; touch $(seq 300)"
        ));
        home.sh(&format!("rm -r {d}"));
        let words = match round % 2 {
            0 => format!("undo --path {d}/e/f --dry-run --session last"),
            _ => format!("restore {d}/e/f --to back --dry-run"),
        };
        run(0, home.home(), &words);
    }
}

fn a_path_of_a_removed_tree(removal: &str) {
    let fill = |store: &Path| {
        fs::create_dir_all(store.join("proj/sub")).unwrap();
        for (path, text) in [("a", "a"), ("b", "b"), ("sub/c", "c")] {
            fs::write(store.join("proj").join(path), text).unwrap();
        }
        fs::write(store.join("notes"), "old").unwrap();
    };
    let home = Home::prepared(fill, &[]);
    let start = look(&home);
    home.sh(&format!(
        "echo x > made; echo new > notes; echo new > proj/a; echo new > proj/b; {removal}"
    ));
    let end = look(&home);
    let only = |paths: &[&str]| {
        let mut names: Vec<String> = look(&home)
            .into_keys()
            .map(|path| path.display().to_string())
            .collect();
        names.sort();
        assert_eq!(names, paths);
    };
    let said = run(
        0,
        home.home(),
        "undo --session last --path proj/a --dry-run",
    );
    assert!(said.contains("would bring back /proj\n"), "{said}");
    let said = run(0, home.home(), "undo --session last --path proj/a");
    let told = "brought back /proj; put back the content of /proj/a (";
    assert!(said.contains(told), "{said}");
    // The directory comes back for it, and what else was in it stays where it is.
    only(&["made", "notes", "proj", "proj/a"]);
    assert_eq!(home.sh("cat proj/a notes"), "anew\n");
    run(1, home.home(), "undo --session last --path proj/a");
    let said = run(0, home.home(), "redo");
    assert!(
        said.contains("took back “undo --session last --path proj/a”"),
        "{said}"
    );
    assert_same(&look(&home), &end, "redone");
    // A pattern, a directory, several; and a program with them.
    run(
        3,
        home.home(),
        "undo --session last --program rm --path notes",
    );
    run(0, home.home(), "undo --path notes --path made");
    only(&["notes"]);
    assert_eq!(home.sh("cat notes"), "old");
    run(0, home.home(), "undo --path proj");
    assert_same(&look(&home), &start, "in two parts, all of it");
    run(3, home.home(), "undo --path nothing");
    let said = run(2, home.home(), "undo --path a[");
    assert!(said.contains("not a pattern"), "{said}");

    // By the name it had: a rename concerns both names.
    home.sh("mv notes proj/notes; echo more >> proj/notes");
    let said = run(0, home.home(), "undo --program mv --path /notes");
    assert!(said.contains("moved back /notes"), "{said}");
    assert_eq!(home.sh("cat notes; ls proj"), "oldmore\na\nb\nsub\n");
}

/// "undone 46 operations: 0 moves, 0 contents, 0 attributes" counts nothing that a person knows.
#[test]
fn what_was_done_is_told_in_files() {
    need_mount!();
    let home = Home::prepared(
        |store| {
            for n in 0..6 {
                fs::write(store.join(format!("f{n}")), "old").unwrap();
            }
        },
        &[],
    );
    home.sh("rm f0 f1 f2 f3 f4; echo new > f5; chmod 600 f5; echo x > made");
    let said = run(0, home.home(), "undo --session last");
    for part in [
        "brought back /f0, /f1, /f2 and 2 more",
        "removed /made",
        "put back the content of /f5",
        "put back the attributes of /f5",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let log = run(0, home.home(), "log --op undo");
    assert!(log.contains("  undo --session last"), "{log}");
    run(0, home.home(), "redo");
    let log = run(0, home.home(), "log --op undo");
    assert!(log.contains("(undo --session last)"), "{log}");
    assert!(
        !log.contains("undo undo") && !log.contains("undo redo"),
        "{log}"
    );
    home.sh("touch f5");
    let said = run(0, home.home(), "undo --session last --program touch");
    assert!(said.contains("put back the time of /f5"), "{said}");
}

/// As people type them: without a slash, as paths of this machine, and from inside.
#[test]
fn a_path_is_understood_as_it_is_typed() {
    need_mount!();
    let home = Home::mount();
    home.sh("mkdir proj; echo one > notes; echo one > proj/x; echo two > notes; echo two > proj/x");
    let typed = |dir: &Path, target: &str, path: &str| {
        let mut command = std::process::Command::new(crate::common::binary());
        command.args(["versions", target, path]).current_dir(dir);
        let output = crate::common::run_limited(command, crate::common::COMMAND_LIMIT);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.split_whitespace()
            .next()
            .unwrap_or("nothing")
            .to_owned()
    };
    let base = home.base();
    let absolute = |dir: &Path, name: &str| dir.join(name).to_str().unwrap().to_owned();
    for target in ["home", "store", "./home", home.home().to_str().unwrap()] {
        for path in [
            "notes",
            "/notes",
            "./notes",
            &absolute(home.home(), "notes"),
        ] {
            assert_eq!(typed(base, target, path), "/notes", "{target} {path}");
        }
        assert_eq!(
            typed(base, target, &absolute(home.store(), "proj/x")),
            "/proj/x"
        );
        assert_eq!(typed(base, target, "proj/x"), "/proj/x");
    }
    assert_eq!(typed(base, "home", "home/proj/x"), "/proj/x");
    assert_eq!(typed(base, "store", "store/proj/x"), "/proj/x");
    assert_eq!(typed(home.home(), ".", "proj/x"), "/proj/x");
    let proj = home.path("proj");
    assert_eq!(typed(&proj, ".", "x"), "/proj/x");
    assert_eq!(typed(&proj, "..", "x"), "/proj/x", "what is meant is here");
    assert_eq!(typed(&proj, ".", "/notes"), "/notes");
    assert_eq!(typed(base, "home/proj", "x"), "/proj/x");
    // What the home has itself goes before.
    home.sh("mkdir home; echo one > home/notes; echo two > home/notes");
    assert_eq!(typed(base, "home", "home/notes"), "/home/notes");
    for (verb, rest) in [
        ("cat", &["--at", "last"][..]),
        ("restore", &[]),
        ("diff", &[]),
    ] {
        let mut args = vec![verb.as_ref(), home.home().as_os_str()];
        let path = proj.join("x");
        args.push(path.as_os_str());
        args.extend(rest.iter().map(OsStr::new));
        let output = trumanfs(&args);
        let code = match verb {
            "cat" => 3,
            "diff" => 1,
            _ => 0,
        };
        assert_eq!(
            output.status.code(),
            Some(code),
            "{verb}: {}",
            describe(&output)
        );
    }
}

/// Space that was reserved behind the end of a file is freed, whether or not its content changed.
#[test]
fn space_reserved_beyond_the_end_is_freed() {
    need_mount!();
    reserved_beyond_the_end(&std::env::temp_dir());
    // Its extents cannot be asked for.
    reserved_beyond_the_end(Path::new("/dev/shm"));
}

fn reserved_beyond_the_end(base: &Path) {
    const KEEP_SIZE: i32 = 1;
    const ZERO: i32 = 16;
    let names = ["plain", "changed", "zeroed", "linked", "sparse", "big"];
    let home = Home::plan()
        .on(base)
        .prepare(|store| {
            for name in names {
                fs::write(store.join(name), "text").unwrap();
            }
            fs::write(store.join("big"), vec![b'b'; 2_000_000]).unwrap();
            let sparse = fs::File::options().write(true).open(store.join("sparse"));
            sparse.unwrap().set_len(1 << 20).unwrap();
            fs::hard_link(store.join("linked"), store.join("other")).unwrap();
        })
        .mount();
    let blocks = |name| fs::metadata(home.store().join(name)).unwrap().blocks();
    let before = names.map(blocks);
    for name in names {
        let file = open(home.path(name), O_RDWR, 0).unwrap();
        let mode = if name == "zeroed" {
            KEEP_SIZE | ZERO
        } else {
            KEEP_SIZE
        };
        let zeroed = fallocate(&file, mode, 4 << 20, 1 << 16);
        // tmpfs does not zero.
        zeroed
            .or_else(|_| fallocate(&file, KEEP_SIZE, 4 << 20, 1 << 16))
            .unwrap();
        if name == "changed" || name == "linked" {
            pwrite(&file, b"evil", 0).unwrap();
        }
    }
    assert!(
        names
            .map(blocks)
            .iter()
            .zip(&before)
            .all(|(now, then)| now > then)
    );
    let undone = trumanfs(&["undo", home.store().to_str().unwrap(), "--session", "last"]);
    assert!(undone.status.success(), "{}", describe(&undone));
    assert_eq!(names.map(blocks), before);
    let again = trumanfs(&["undo", home.store().to_str().unwrap(), "--session", "last"]);
    assert_eq!(again.status.code(), Some(1), "{}", describe(&again));
}

/// An undo of which nothing is left to take back does not keep `redo` from the one before.
#[test]
fn redo_passes_over_an_undo_that_was_taken_back_by_hand() {
    need_mount!();
    let home = Home::plan()
        .prepare(|store| {
            fs::write(store.join("f"), "old").unwrap();
            fs::write(store.join("g"), "g").unwrap();
            chmod(store.join("g"), 0o644).unwrap();
        })
        .mount();
    let run = |words: &[&str]| {
        let output = trumanfs(&[&[words[0], home.store().to_str().unwrap()], &words[1..]].concat());
        assert!(output.status.success(), "{words:?}: {}", describe(&output));
    };
    fs::write(home.path("f"), "new").unwrap();
    run(&["undo", "--session", "last"]);
    chmod(home.path("g"), 0o600).unwrap();
    let number = home.journal().last().unwrap()["seq"].to_string();
    run(&["undo", &number]);
    chmod(home.path("g"), 0o600).unwrap();
    run(&["redo"]);
    assert_eq!(fs::read_to_string(home.store().join("f")).unwrap(), "new");
    let again = trumanfs(&["redo", home.store().to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(3), "{}", describe(&again));
}

/// It looked at the last session only, and did not say so.
#[test]
fn undo_says_which_session_it_looks_at() {
    let dir = tempfile::TempDir::with_prefix("trumanfs-").unwrap();
    let store = dir.path().to_str().unwrap();
    let exec = |line: &str| {
        let output = trumanfs(&["exec", "--root", store, "--", line]);
        assert!(output.status.success(), "{}", describe(&output));
    };
    exec("mkdir d; echo 1 >d/f");
    exec("echo 2 >other");
    let undo = |words: &[&str], code: i32, wanted: &str| {
        let output = trumanfs(&[&["undo", store], words].concat());
        assert_eq!(output.status.code(), Some(code), "{}", describe(&output));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(wanted), "{wanted} is not in {said}");
    };
    let missing = "no operation matches --path d in session ";
    undo(&["--path", "d"], 3, missing);
    undo(&["--path", "d"], 3, "--session all looks in every session");
    undo(
        &["--path", "none", "--session", "all"],
        3,
        "no operation matches --path none in any session",
    );
    undo(
        &["--path", "other", "--dry-run"],
        0,
        "the last one, is looked at",
    );
    undo(&["--path", "d", "--session", "all"], 0, "");
    assert!(!dir.path().join("d").exists());
    assert!(dir.path().join("other").exists());
}

/// A file that the owner of the store had put in the place of what was made in a home was removed by the undo.
#[test]
fn undo_of_a_creation_leaves_what_replaced_it_beside_the_home() {
    need_mount!();
    let mut home = Home::with(&[]);
    home.sh("echo mine >n; mkdir d; echo mine >d/f; echo mine >stays");
    home.umount();
    let at = |name: &str| home.store().join(name);
    if rustix::fs::statx(
        rustix::fs::CWD,
        at("n"),
        rustix::fs::AtFlags::empty(),
        rustix::fs::StatxFlags::BTIME,
    )
    .is_ok_and(|x| x.stx_btime.tv_sec == 0)
    {
        skip!(
            "labels",
            "the file system of the temporary directory has no birth times"
        );
    }
    // Inodes are marked by the kernel's coarse clock, which is some milliseconds behind.
    let ended = std::time::SystemTime::now();
    let probe = home.base().join("probe");
    let later = || {
        std::fs::write(&probe, "").unwrap();
        let born = probe.metadata().unwrap().created().unwrap();
        std::fs::remove_file(&probe).unwrap();
        born > ended
    };
    while !later() {}
    std::fs::remove_file(at("n")).unwrap();
    // The inode number is used again.
    std::fs::write(at("zz"), "1\n").unwrap();
    std::fs::write(at("n"), "owner\n").unwrap();
    let store = home.store().to_str().unwrap();
    let output = trumanfs(&["undo", store, "--session", "last"]);
    assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("/n "), "{said}");
    assert!(!said.contains("/d ") && !said.contains("/stays "), "{said}");
    assert_eq!(std::fs::read_to_string(at("n")).unwrap(), "owner\n");
    // The rest goes, and what is the owner's stays beside.
    let output = trumanfs(&["undo", store, "--session", "last", "--keep-both"]);
    assert!(output.status.success(), "{}", describe(&output));
    assert!(!at("d").exists() && !at("stays").exists());
    assert_eq!(std::fs::read_to_string(at("n")).unwrap(), "owner\n");
}

/// Emptying a file gives its directory another time for a moment. No record of that moment has it as the time before.
#[test]
fn names_made_beside_a_file_that_is_emptied_record_the_true_time() {
    need_mount!();
    const ROUNDS: usize = 400;
    let home = Home::plan()
        .limit(Duration::from_secs(120))
        .prepare(|store| {
            for round in 0..ROUNDS {
                let dir = store.join(format!("d{round}"));
                fs::create_dir(&dir).unwrap();
                fs::write(dir.join("f"), "content").unwrap();
                let dir = open(dir, O_RDONLY, 0).unwrap();
                futimens(&dir, (1, 0), (1_000_000_000, 0)).unwrap();
            }
        })
        .mount();
    let barrier = std::sync::Barrier::new(2);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for round in 0..ROUNDS {
                let path = home.path(format!("d{round}/f"));
                barrier.wait();
                truncate(path, 0).unwrap();
            }
        });
        for round in 0..ROUNDS {
            let path = home.path(format!("d{round}/n"));
            barrier.wait();
            std::thread::sleep(Duration::from_micros(round as u64 % 20 * 20));
            mkdir(path, 0o755).unwrap();
        }
    });
    let made = home
        .journal()
        .into_iter()
        .filter(|record| record["op"] == "mkdir");
    let wrong: Vec<_> = made
        .filter(|record| record["at"][0][0] != 1_000_000_000)
        .collect();
    assert!(
        wrong.is_empty(),
        "{} times: {:?}",
        wrong.len(),
        wrong.first()
    );
}
