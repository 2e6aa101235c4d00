//! `--volatile PATTERN`: what can be made again. What programs in the home make there, and remove or overwrite, is gone
//! for good; everything else is kept as ever, wherever it lies: what was moved in or out, what its owner changed, what
//! git tracks, what has a name elsewhere. An undo names what it does not bring back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::common::random::Random;
use crate::common::{Home, describe, need_mount, trumanfs};

fn volatile() -> Home {
    Home::with(&["--volatile", "target/"])
}

/// Returns the names in the trash without their times, after everything volatile has been deleted.
#[track_caller]
fn left(home: &Home) -> Vec<String> {
    let mut waits = true;
    for _ in 0..200 {
        // A close is told a moment later.
        std::thread::sleep(Duration::from_millis(100));
        waits = home.status().unwrap()["volatile_waiting"] != 0;
        if !waits {
            break;
        }
    }
    assert!(!waits, "volatile things stay in the trash");
    home.gather();
    let names = names_in(&home.store().join(".trash"));
    let name = |name: &String| name.split_once('_').unwrap().1.to_owned();
    let mut names: Vec<_> = names.iter().map(name).collect();
    names.sort();
    names
}

fn names_in(dir: &Path) -> Vec<String> {
    let Ok(listed) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let names = listed.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name != ".gitignore").collect();
    names.sort();
    names
}

/// Returns all former contents that are kept.
fn kept(store: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for session in fs::read_dir(store.join(".trumanfs/sessions")).unwrap() {
        let dir = session.unwrap().path().join("versions");
        for name in names_in(&dir).iter().filter(|name| !name.contains('.')) {
            all.push(fs::read_to_string(dir.join(name)).unwrap());
        }
    }
    all.sort();
    all
}

#[track_caller]
fn undo(store: &Path, more: &[&str], code: i32) -> String {
    let output = trumanfs(&[&["undo", store.to_str().unwrap()], more].concat());
    assert_eq!(output.status.code(), Some(code), "{}", describe(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn agrees(store: &Path) {
    let output = trumanfs(&["fsck", store.to_str().unwrap()]);
    assert!(output.status.success(), "{}", describe(&output));
}

#[test]
fn what_can_be_made_again_is_not_kept() {
    need_mount!();
    let mut home = volatile();
    home.sh(
        "mkdir -p target/d/e; echo 1 >target/d/e/f; echo 2 >target/g; echo 3 >target/h
         ln -s x target/l 2>/dev/null || :; mkfifo target/p
         echo 22 >target/g; echo 222 >>target/g; printf x | dd of=target/g conv=notrunc status=none
         echo new >target/new; mv target/new target/h
         echo kept >k; echo changed >k; rm k
         rm -r target/d target/p; rm -f target/l",
    );
    assert_eq!(left(&home), ["k"]);
    assert_eq!(kept(home.store()), ["kept\n"]);
    home.umount();
    agrees(home.store());
    // Nothing of it is needed to take everything back.
    let text = undo(home.store(), &["--session", "all"], 0);
    assert!(!text.contains("volatile"), "{text}");
    assert!(!home.store().join("target").exists());
}

#[test]
fn later_session_goes_on() {
    need_mount!();
    let mut home = volatile();
    home.sh("mkdir target; echo 1 >target/a; echo 2 >target/b; echo 3 >target/c; mkdir target/d; echo 4 >k");
    home.remount();
    home.sh("rm target/a; echo 22 >target/b; rmdir target/d; rm k");
    assert_eq!(left(&home), ["k"]);
    assert_eq!(kept(home.store()), [""; 0]);
    home.umount();
    agrees(home.store());
    let log = String::from_utf8(trumanfs(&["log", "--all", home.store().to_str().unwrap()]).stdout);
    assert!(log.unwrap().contains("unlink /target/a"));
    let text = undo(home.store(), &["--session", "last", "--dry-run"], 0);
    assert!(
        text.contains("would not bring back, as volatile: 3 things in /target\n"),
        "{text}"
    );
    let text = undo(home.store(), &["--session", "last"], 0);
    assert!(
        text.contains("not brought back, as volatile: 3 things in /target\n"),
        "{text}"
    );
    assert_eq!(fs::read_to_string(home.store().join("k")).unwrap(), "4\n");
    assert_eq!(
        fs::read_to_string(home.store().join("target/b")).unwrap(),
        "22\n"
    );
    agrees(home.store());
    // An operator's session does not make an end of it.
    home.mount_again();
    home.sh("rm target/c");
    assert_eq!(left(&home), [""; 0]);
    home.umount();
    // One without the option does, for its changes were not looked at.
    home.remount_with(&[]);
    home.sh("echo more >>target/b");
    home.remount_with(&["--volatile", "target/"]);
    home.sh("rm target/b");
    assert_eq!(left(&home), ["b"]);
}

#[test]
fn what_comes_from_elsewhere_is_kept() {
    need_mount!();
    let home = volatile();
    home.sh(
        "mkdir target src; echo 1 >src/a; echo 2 >b; mv src target/; mv b target/b
         echo 3 >c; ln c target/c
         rm -r target/src; rm target/b; echo 33 >target/c; rm target/c",
    );
    assert_eq!(left(&home), ["b", "c", "src"]);
    assert_eq!(kept(home.store()), ["3\n"]);
    let src = home.trashed("src").pop().unwrap();
    assert_eq!(fs::read_to_string(src.join("a")).unwrap(), "1\n");
}

/// Whoever moves something out for a moment, or the directory around it, has it kept; so has a further name.
#[test]
fn what_had_a_name_elsewhere_is_kept() {
    need_mount!();
    let home = volatile();
    home.sh(
        "mkdir -p target/d/e; for n in a b c d/e/f; do echo $n >target/$n; done
         mv target/a a; mv a target/a; rm target/a
         ln target/b b; rm b; echo more >target/b; rm target/b
         mv target/d d; mv d target/d; rm -r target/d
         mv target other; mv other target; rm target/c",
    );
    assert_eq!(left(&home), ["a", "b", "b", "c", "d"]);
    assert_eq!(kept(home.store()), ["b\n"]);
    let dir = home.trashed("d").pop().unwrap();
    assert_eq!(fs::read_to_string(dir.join("e/f")).unwrap(), "d/e/f\n");
}

/// A kept thing in a volatile directory comes back into it.
#[test]
fn directory_of_something_kept_is_kept() {
    need_mount!();
    let mut home = volatile();
    home.sh("mkdir -p target/d/e target/x; echo 1 >a; mv a target/d/e/a; echo 2 >target/x/gone; echo 3 >target/x/out");
    home.remount();
    home.sh(
        "mv target/x/out out; rm target/d/e/a; rmdir target/d/e; rmdir target/d; rm -r target/x",
    );
    let names = left(&home);
    assert_eq!(names, ["a", "d", "e", "x"]);
    home.umount();
    let text = undo(home.store(), &["--session", "last"], 0);
    assert!(text.contains("volatile: 1 thing in /target"), "{text}");
    let read = |name: &str| fs::read_to_string(home.store().join(name)).unwrap();
    assert_eq!(read("target/d/e/a"), "1\n");
    assert_eq!(read("target/x/out"), "3\n");
    agrees(home.store());
}

#[test]
fn what_its_owner_changed_is_kept() {
    need_mount!();
    let mut home = volatile();
    home.sh("mkdir target; for n in a b c d e f g h i; do echo $n >target/$n; done");
    let store = home.store().to_owned();
    fs::write(store.join("target/a"), "owner\n").unwrap();
    fs::write(store.join("target/b"), "owner\n").unwrap();
    // A new file of the same name, and one that the home never made.
    fs::remove_file(store.join("target/c")).unwrap();
    fs::write(store.join("target/c"), "owner\n").unwrap();
    fs::write(store.join("target/own"), "owner\n").unwrap();
    home.sh("rm target/a; echo home >target/b; rm target/b target/c target/own");
    assert_eq!(left(&home), ["a", "b", "c", "own"]);
    assert_eq!(kept(&store), ["owner\n"]);
    home.umount();
    // Between two sessions, too.
    fs::write(store.join("target/d"), "owner\n").unwrap();
    fs::hard_link(store.join("target/e"), store.join("e")).unwrap();
    for name in ["g", "h", "i"] {
        fs::write(store.join("target").join(name), "owner\n").unwrap();
    }
    home.mount_again();
    home.sh("rm target/d; echo home >target/e; rm target/f");
    // Whatever the home does first with what its owner left.
    home.sh(
        "mv target/g target/G; rm target/G; chmod 600 target/h; rm target/h
         echo more >>target/i; rm target/i",
    );
    let names = ["G", "a", "b", "c", "d", "h", "i", "own"];
    assert_eq!(left(&home), names);
    assert!(kept(&store).contains(&"e\n".to_owned()));
    home.umount();
    agrees(&store);
}

/// Of several names in the directory itself, each can be had back as long as the file has another one; with the last one
/// all of them go.
#[test]
fn file_goes_with_its_last_name() {
    need_mount!();
    let mut home = volatile();
    home.sh(
        "mkdir -p target/d; echo 1 >target/d/a; ln target/d/a target/a; ln target/d/a target/b",
    );
    home.remount();
    home.sh("rm target/d/a; sleep 1; cat target/a; rm target/b");
    assert_eq!(left(&home), ["a", "b"]);
    home.umount();
    let text = undo(home.store(), &["--session", "last"], 0);
    assert!(!text.contains("volatile"), "{text}");
    let file = home.store().join("target/a");
    assert_eq!(fs::read_to_string(&file).unwrap(), "1\n");
    assert_eq!(file.metadata().unwrap().nlink(), 3);
    agrees(home.store());
    home.mount_again();
    home.sh("rm target/b; rm target/d/a; sleep 0.5; rm target/a");
    assert_eq!(left(&home), [""; 0]);
    home.umount();
    agrees(home.store());
    let text = undo(home.store(), &["--session", "last"], 0);
    assert!(text.contains("volatile: 3 things in /target"), "{text}");
    agrees(home.store());
}

#[test]
fn what_git_tracks_is_kept() {
    need_mount!();
    let mut home = volatile();
    home.sh(
        "git init -q .; git config user.email a@b; git config user.name a
         mkdir target; echo 1 >target/a; echo 2 >target/b; git add -f target/a; git commit -qm 1
         echo 11 >target/a; rm target/a; rm target/b
         git checkout -q target/a; git rm -q target/a",
    );
    let names = left(&home);
    let files: Vec<_> = names.iter().filter(|name| name.len() == 1).collect();
    assert_eq!(files, ["a"], "{names:?}");
    let removed = home.trashed("target").pop().unwrap();
    assert_eq!(fs::read_to_string(removed.join("a")).unwrap(), "1\n");
    assert!(kept(home.store()).contains(&"1\n".to_owned()));
    // Where the index cannot be read, everything is.
    home.sh("mkdir -p target; echo 3 >target/c; echo nonsense >.git/index; rm target/c");
    let names = left(&home);
    assert!(names.contains(&"c".to_owned()), "{names:?}");
    home.umount();
    agrees(home.store());
}

#[test]
fn file_that_is_open_stays_usable() {
    need_mount!();
    let home = volatile();
    home.sh(
        "mkdir target; exec 3<>target/a; echo 1 >&3; rm target/a; sleep 1
         echo 2 >&3; test \"$(cat /proc/self/fd/3 | wc -l)\" = 2",
    );
    assert_eq!(left(&home), [""; 0]);
}

/// What waits in the trash when the daemon dies stays there, and what it knew is kept from then on.
#[test]
fn killed_daemon_deletes_too_little() {
    need_mount!();
    let mut home = volatile();
    home.sh("mkdir target; for n in $(seq 50); do echo $n >target/$n; done");
    home.sh("rm target/1 target/2");
    home.kill_daemon();
    home.mount_again();
    assert!(left(&home).len() <= 2);
    home.sh("rm target/3; echo 4 >target/new; rm target/new");
    assert!(left(&home).contains(&"3".to_owned()));
    assert!(!left(&home).contains(&"new".to_owned()));
    home.umount();
    agrees(home.store());
}

/// An undo's own removals are kept: a redo brings them back.
#[test]
fn undo_can_be_taken_back() {
    need_mount!();
    let mut home = volatile();
    home.sh("mkdir target; echo 1 >target/a");
    let target = home.home().to_str().unwrap().to_owned();
    for unmounted in [false, true] {
        let target = match unmounted {
            true => {
                home.umount();
                home.store().to_str().unwrap().to_owned()
            }
            false => target.clone(),
        };
        undo(Path::new(&target), &["--session", "all"], 0);
        assert!(!home.store().join("target").exists());
        let output = trumanfs(&["redo", &target]);
        assert!(output.status.success(), "{}", describe(&output));
        let read = fs::read_to_string(home.store().join("target/a"));
        assert_eq!(read.unwrap(), "1\n");
    }
    agrees(home.store());
}

/// A pattern with a slash names a place: what moves with its directory has a name elsewhere.
#[test]
fn pattern_of_a_place() {
    need_mount!();
    let home = Home::with(&["--volatile", "/a/out", "--volatile", "*.o"]);
    home.sh(
        "mkdir -p a/out b; echo 1 >a/out/f; echo 2 >a/out/g; echo 3 >b/x.o; echo 4 >b/x.c
         rm a/out/f b/x.o b/x.c
         mv a b/a; mv b/a a; rm a/out/g",
    );
    assert_eq!(left(&home), ["g", "x.c"]);
}

#[test]
fn bad_pattern_is_refused() {
    need_mount!();
    let base = tempfile::tempdir().unwrap();
    let (store, home) = (base.path().join("store"), base.path().join("home"));
    fs::create_dir(&store).unwrap();
    fs::create_dir(&home).unwrap();
    let (store, home) = (store.to_str().unwrap(), home.to_str().unwrap());
    let output = trumanfs(&["mount", "--volatile", "[z-a]", store, home]);
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("--volatile [z-a]"), "{text}");
}

// ── At random ───────────────────────────────────────────────────────────────────────────────────────────────────────

/// Does things at random inside and outside `target/`, in the home and as the owner beside it, over remounts and kills.
/// Every text that existed outside `target/`, or that its owner wrote, is afterwards in the store or kept, but for what
/// the owner overwrote; fsck agrees.
fn storm(seed: u64, steps: usize) {
    let mut random = Random(seed);
    let mut home = volatile();
    home.sh("mkdir -p target/d src/d");
    let mut precious: BTreeSet<String> = BTreeSet::new();
    let names = [
        "target/a",
        "target/b",
        "target/d/a",
        "src/a",
        "src/d/a",
        "b",
    ];
    let dirs = ["target/d", "src/d", "target", "src"];
    let is_inside = |path: &str| path.starts_with("target/");
    for step in 0..steps {
        let (one, two) = (names[random.index(6)], names[random.index(6)]);
        let (from, to) = (dirs[random.index(4)], dirs[random.index(4)]);
        let text = format!("{seed}-{step};");
        let there = texts(&home.store().join(one));
        let does = |script: String| {
            home.sh(&format!("({script}) 2>/dev/null && echo yes || :")) == "yes\n"
        };
        match random.below(16) {
            0..=3 => {
                if does(format!("echo '{text}' >{one}")) && !is_inside(one) {
                    precious.insert(text);
                }
            }
            4 => drop(does(format!("echo '{text}' >>{one}"))),
            5 | 6 => drop(does(format!("rm {one}"))),
            // What has been outside is kept from then on.
            doing @ (7 | 8) => {
                let verb = if doing == 7 { "mv -f" } else { "ln -f" };
                if does(format!("{verb} {one} {two}")) && !(is_inside(one) && is_inside(two)) {
                    precious.extend(there);
                }
            }
            9 => {
                let below = texts(&home.store().join(from));
                let moves = does(format!("mv -T {from} {to}2"));
                if moves && !(is_inside(from) && is_inside(to)) {
                    precious.extend(below);
                }
                if moves {
                    does(format!("mv -T {to}2 {from}"));
                }
            }
            10 => drop(does(format!("rm -r {from}; mkdir -p target/d src/d"))),
            11 | 12 => {
                // Nobody kept what the owner overwrites.
                if fs::write(home.store().join(one), format!("{text}\n")).is_ok() {
                    precious.retain(|lost| !there.contains(lost));
                    precious.insert(text);
                }
            }
            13 => drop(home.remount()),
            14 => {
                home.kill_daemon();
                home.mount_again();
            }
            _ => std::thread::sleep(Duration::from_millis(random.below(500))),
        }
    }
    home.umount();
    agrees(home.store());
    let all = texts(home.store());
    for text in precious {
        assert!(all.contains(&text), "seed {seed}: {text} is lost");
    }
}

/// Returns the first and the last seed: these, or those of the environment.
fn seeds(usual: (u64, u64)) -> (u64, u64) {
    match std::env::var("TRUMANFS_VOLATILE_SEEDS") {
        Ok(range) => {
            let (first, last) = range.split_once('-').unwrap();
            (first.parse().unwrap(), last.parse().unwrap())
        }
        Err(_) => usual,
    }
}

#[test]
fn storms_lose_nothing_that_is_kept() {
    need_mount!();
    let (first, last) = seeds((1, 4));
    for seed in first..=last {
        storm(seed, 60);
    }
}

/// Returns the lines of a file, or of all files below a directory but the journals.
fn texts(top: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(path) = waiting.pop() {
        match path.symlink_metadata() {
            Ok(meta) if meta.is_dir() => {
                waiting.extend(
                    fs::read_dir(path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
            Ok(meta) if meta.is_file() && !path.ends_with("journal.jsonl") => {
                let text = fs::read_to_string(path).unwrap_or_default();
                found.extend(text.lines().map(str::to_owned));
            }
            _ => {}
        }
    }
    found
}

/// Returns the paths and texts of all files of the occupant.
fn tree(store: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![store.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .strip_prefix(store)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            if name.starts_with(".trash") || name.starts_with(".trumanfs") {
                continue;
            }
            if path.is_dir() {
                waiting.push(path);
                found.insert(name, "directory".to_owned());
            } else {
                found.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

/// The tree without what lies below `target`.
fn outside(tree: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let files = tree.iter().filter(|(name, _)| !name.starts_with("target"));
    files
        .map(|(name, text)| (name.clone(), text.clone()))
        .collect()
}

/// An undo of everything at random brings back all that lies outside, and below `target/` what was not volatile or is
/// still there; a redo brings back what the undo took away.
fn undo_storm(seed: u64) {
    let mut random = Random(seed);
    let mut home = volatile();
    home.sh(
        "mkdir -p target/d target/e src/d; echo 0 >src/k; echo 0 >k; mv k target/d/k
         for f in target/a target/b target/d/a target/e/a src/a src/d/a b; do echo $f >$f; done",
    );
    home.remount();
    let before = tree(home.store());
    let names = [
        "target/a",
        "target/b",
        "target/d/a",
        "target/e/a",
        "src/a",
        "src/d/a",
        "b",
        "target/d/k",
        "target/n",
    ];
    let dirs = ["target/d", "target/e", "src/d", "target", "src"];
    for step in 0..30 {
        let (one, two) = (names[random.index(9)], names[random.index(9)]);
        let dir = dirs[random.index(5)];
        let script = match random.below(12) {
            0 | 1 => format!("echo {step} >{one}"),
            2 => format!("echo {step} >>{one}"),
            3 | 4 => format!("rm {one}"),
            5 => format!("mv -f {one} {two}"),
            6 => format!("ln -f {one} {two}"),
            7 => format!("mv -T {dir} {dir}2; mkdir -p {dir}"),
            8 => format!("rm -r {dir}"),
            9 => "mkdir -p target/d target/e src/d".to_owned(),
            10 => "sleep 0.5".to_owned(),
            _ => {
                home.remount();
                continue;
            }
        };
        home.sh(&format!("({script}) 2>/dev/null || :"));
    }
    home.umount();
    let store = home.store().to_owned();
    let after = tree(&store);
    agrees(&store);
    let second = names_in(&store.join(".trumanfs/sessions"))[1].clone();
    let text = undo(&store, &["--to", &second], 0);
    let undone = tree(&store);
    assert_eq!(outside(&undone), outside(&before), "seed {seed}: {text}");
    // What was overwritten there stays as it is, and nothing new stays.
    for name in undone.keys() {
        assert!(before.contains_key(name), "seed {seed}: {name}");
    }
    assert_eq!(
        undone["target/d/k"], "0\n",
        "seed {seed}: it was made elsewhere"
    );
    agrees(&store);
    let output = trumanfs(&["redo", store.to_str().unwrap()]);
    assert!(
        output.status.success(),
        "seed {seed}: {}",
        describe(&output)
    );
    assert_eq!(tree(&store), after, "seed {seed}");
    agrees(&store);
}

#[test]
fn undo_at_random_brings_back_what_is_not_volatile() {
    need_mount!();
    let (first, last) = seeds((1, 6));
    for seed in first..=last {
        undo_storm(seed);
    }
}
