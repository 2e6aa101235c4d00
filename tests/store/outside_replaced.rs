//! A store whose owner changes files that an agent's programs have replaced, as editors do: what the owner set or wrote
//! stays at the name.

use std::fs::{self, File};
use std::os::unix::fs::{DirEntryExt, MetadataExt, PermissionsExt};
use std::time::{Duration, Instant, SystemTime};

use crate::common::{Home, describe, need_mount, skip, trumanfs};
use crate::outside::{LINES, SAVES, home_after, home_with, text, undo};

/// The ways in which an agent's programs save a file.
const CHANGES: [&str; 9] = [
    "echo x >> f",
    "cp f g; echo x >> g; mv g f",
    "sed -i s/2/x/ f",
    "mv f f~; sed s/2/x/ f~ > f; rm f~",
    "mv f f~; sed s/2/x/ f~ > f",
    "rm f; echo x > f",
    "sed s/2/x/ f > g; rm f; mv g f",
    "sed -i s/2/x/ f; sed -i s/3/y/ f",
    "mv f f~; sed s/2/x/ f~ > f; rm f~; mv f f~; sed s/3/x/ f~ > f; rm f~",
];

fn mode(home: &Home) -> u32 {
    mode_at(home, "f")
}

fn mode_at(home: &Home, name: &str) -> u32 {
    let there = fs::metadata(home.store().join(name)).unwrap();
    there.permissions().mode() & 0o7777
}

fn set_mode(home: &Home, mode: u32) {
    fs::set_permissions(home.store().join("f"), fs::Permissions::from_mode(mode)).unwrap();
}

fn home_with_mode() -> Home {
    let home = home_with(LINES);
    set_mode(&home, 0o644);
    home
}

/// Runs a verb with the store and further words, and expects its exit status.
#[track_caller]
fn verb(home: &Home, name: &str, how: &[&str], code: i32) -> String {
    let output = trumanfs(&[&[name, home.store().to_str().unwrap()], how].concat());
    let told = describe(&output);
    assert_eq!(output.status.code(), Some(code), "{told}");
    told
}

/// The names in a store's top directory that a person sees.
fn names(home: &Home) -> Vec<String> {
    let listed = fs::read_dir(home.store()).unwrap();
    let names = listed.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names
        .filter(|name| ![".trash", ".trumanfs"].contains(&&**name))
        .collect();
    names.sort();
    names
}

/// A person makes a file executable that the agent has saved, while the home is mounted or later.
#[test]
fn mode_that_the_owner_set_stays() {
    need_mount!();
    for change in CHANGES {
        for is_mounted in [true, false] {
            for (name, how) in [
                ("undo", &["--session", "all"][..]),
                ("reject", &["--session", "last", "/f"]),
            ] {
                let mut home = home_with_mode();
                home.sh(change);
                if is_mounted {
                    set_mode(&home, 0o755);
                }
                home.umount();
                set_mode(&home, 0o755);
                let told = verb(&home, name, how, 0);
                let is = (text(&home, "f"), mode(&home));
                assert_eq!(is, (LINES.to_owned(), 0o755), "{change}: {told}");
            }
        }
    }
}

/// Also where that is the file that an undo has brought back, and however often it is taken back.
#[test]
fn mode_that_the_owner_set_stays_with_redo() {
    need_mount!();
    for change in CHANGES {
        let mut home = home_with_mode();
        home.sh(change);
        let left = text(&home, "f");
        home.umount();
        undo(&home, &[], 0);
        set_mode(&home, 0o755);
        for (name, then) in [("redo", &*left), ("undo", LINES), ("redo", &left)] {
            let how = &["--session", "all"][..];
            let how = if name == "undo" { how } else { &[] };
            let told = verb(&home, name, how, 0);
            let is = (text(&home, "f"), mode(&home));
            assert_eq!(is, (then.to_owned(), 0o755), "{name}, {change}: {told}");
        }
    }
}

/// A mode that the agent had set itself, and its owner has changed, is a conflict where the file stays.
#[test]
fn mode_that_both_set_is_a_conflict() {
    need_mount!();
    let mut home = home_with_mode();
    home.sh("chmod 600 f");
    home.umount();
    set_mode(&home, 0o640);
    let told = undo(&home, &[], 4);
    assert!(told.contains("other permissions"), "{told}");
    assert_eq!(mode(&home), 0o640);
    undo(&home, &["--force"], 0);
    assert_eq!(mode(&home), 0o644);
}

/// A file that goes keeps what the owner set at the further name that he gave it.
#[test]
fn mode_that_the_owner_set_stays_at_a_further_name() {
    need_mount!();
    let link = |home: &Home| {
        set_mode(home, 0o640);
        fs::hard_link(home.store().join("f"), home.store().join("k")).unwrap();
    };
    let modes = |home: &Home| (mode_at(home, "f"), mode_at(home, "k"));
    for change in [
        "cp f g; chmod 644 g; mv g f",
        "cp f g; chmod 755 g; mv g f",
        "rm f; echo x > f; chmod 600 f",
    ] {
        for (name, how) in [
            ("undo", &["--session", "all"][..]),
            ("reject", &["--session", "last", "/f"]),
        ] {
            let mut home = home_with_mode();
            home.sh(change);
            home.umount();
            link(&home);
            let told = verb(&home, name, how, 0);
            assert_eq!(modes(&home), (0o640, 0o640), "{change}: {told}");
            assert_eq!(text(&home, "f"), LINES, "{change}");
            let told = verb(&home, "redo", &[], 0);
            assert_eq!(modes(&home), (0o640, 0o640), "redo, {change}: {told}");
        }
    }

    // What the run had set at the name itself is a conflict.
    let mut home = home_with_mode();
    home.sh("chmod 600 f; sed -i s/2/x/ f");
    home.umount();
    undo(&home, &[], 0);
    link(&home);
    let told = verb(&home, "redo", &[], 4);
    assert_eq!(modes(&home), (0o640, 0o640), "{told}");
}

/// A program that saves twice makes a file that nobody sees in the end; it is of the path, and does not come back.
#[test]
fn path_that_was_saved_twice_is_rejected_whole() {
    need_mount!();
    for change in [
        "sed -i s/2/two/ f; sed -i s/4/four/ f",
        "for n in 2 4 6; do sed s/$n/x/ f > $n; mv $n f; done",
    ] {
        let mut home = home_with(LINES);
        home.sh(change);
        home.umount();
        verb(&home, "reject", &["--session", "last", "/f"], 0);
        assert_eq!(text(&home, "f"), LINES, "{change}");
        assert_eq!(names(&home), ["f"], "{change}");
    }
}

/// The owner's lines are merged with what was there before both saves, or are a conflict.
#[test]
fn owners_lines_stay_in_a_file_that_was_saved_twice() {
    need_mount!();
    for (how, save) in SAVES {
        for (name, words) in [
            ("reject", ["--session", "last", "/f"]),
            ("undo", ["--session", "all", "--keep-both"]),
        ] {
            let change = "for n in 2 4 6; do sed s/$n/x/ f > g; mv g f; done";
            let home = home_after(change, LINES);
            let owners = text(&home, "f").replace('9', "nine");
            save(&home.store().join("f"), &owners);
            let told = verb(&home, name, &words, 0);
            assert!(told.contains("took back 3 lines of /f; kept 1"), "{told}");
            assert_eq!(text(&home, "f"), LINES.replace('9', "nine"), "{how}");
            assert!(!home.store().join("g").exists(), "{how}");

            // Now they touch those of the first save.
            let home = home_after(change, LINES);
            let owners = text(&home, "f").replacen("x", "owner", 1);
            save(&home.store().join("f"), &owners);
            if name == "reject" {
                let told = verb(&home, name, &words, 4);
                let said = "/f was written to later: by somebody outside the home";
                assert!(told.contains(said), "{how}: {told}");
            } else {
                verb(&home, name, &words, 0);
            }
            assert_eq!(text(&home, "f"), owners, "{how}");
            assert!(!home.store().join("g").exists(), "{how}");
        }
    }
}

/// Nor do they go away with the file between, where it is to be moved back.
#[test]
fn owners_lines_do_not_go_with_the_file_of_the_first_save() {
    need_mount!();
    for (how, save) in SAVES {
        let home = home_after(
            "sed s/2/two/ f > g; mv g f; sed s/4/four/ f > h; mv h f",
            LINES,
        );
        let owners = text(&home, "f").replace('9', "nine");
        save(&home.store().join("f"), &owners);
        let paths = ["--path", "/f", "--path", "/h"];
        let told = undo(&home, &paths, 4);
        let said = "/f was written to later: by somebody outside the home";
        assert!(told.contains(said), "{how}: {told}");
        assert_eq!(text(&home, "f"), owners, "{how}");
        undo(&home, &[&paths[..], &["--keep-both"]].concat(), 0);
        assert_eq!(text(&home, "f"), owners, "{how}");
    }
}

/// A file that was moved to a name which another one had left before goes back with nothing of the owner's.
#[test]
fn owners_lines_stay_where_another_file_had_left_the_name() {
    need_mount!();
    for (how, save) in SAVES {
        for change in ["rm f; mv g f", "mv f k; mv g f", "mv f f~; mv g f; rm f~"] {
            let mut home = home_with(LINES);
            fs::write(home.store().join("g"), "1\n2\n3\n").unwrap();
            home.sh(change);
            home.umount();
            save(&home.store().join("f"), "1\n2\n3\nowner\n");
            let told = undo(&home, &[], 4);
            assert!(told.contains("/f was written to later"), "{how}: {told}");
            assert_eq!(text(&home, "f"), "1\n2\n3\nowner\n", "{how}");
        }
    }
}

/// Waits until the daemon has closed a file: close(2) does not wait for that.
fn await_closed(home: &Home, name: &str) {
    let file = home.store().join(name);
    let descriptors = format!("/proc/{}/fd", home.daemon_pid());
    let limit = Instant::now() + Duration::from_secs(20);
    let is_open = || {
        let mut all = fs::read_dir(&descriptors).unwrap();
        all.any(|one| fs::read_link(one.unwrap().path()).is_ok_and(|to| to == file))
    };
    while is_open() {
        assert!(Instant::now() < limit, "{name} is open");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The owner's lines between two changes of a run are in no hunk of the run's: that is a conflict which says so.
#[test]
fn owners_lines_between_two_changes_go_with_no_hunk() {
    need_mount!();
    for (saved, save) in SAVES {
        for then in [
            "echo x >> f",
            "sed -i s/3/x/ f",
            "cp f g; cat g > f; rm g; echo x >> f",
        ] {
            for is_changed_later in [false, true] {
                let case = format!("{saved}, {then}, {is_changed_later}");
                let mut home = home_with(LINES);
                home.sh("echo first >> f");
                await_closed(&home, "f");
                let owners = text(&home, "f").replace('4', "owner");
                save(&home.store().join("f"), &owners);
                home.sh(then);
                home.umount();
                let mut left = text(&home, "f");
                if is_changed_later {
                    left = left.replace('1', "one");
                    save(&home.store().join("f"), &left);
                }
                let path = home.store().to_str().unwrap();
                let how = ["reject", path, "--session", "last", "/f", "--hunk", "1"];
                let output = trumanfs(&how);
                let told = describe(&output);
                assert!(!output.status.success(), "{case}: {told}");
                assert_eq!(text(&home, "f"), left, "{case}: {told}");
                // Where what the run left was not kept, there are no hunks.
                let known = output.status.code() == Some(4);
                assert_eq!(
                    told.contains("outside the home, after"),
                    known,
                    "{case}: {told}"
                );
                assert!(known || told.contains("has no hunks"), "{case}: {told}");
            }
        }
    }
}

/// Changes by a program that saves a file anew, with lines of the file's owner behind them.
const SAVED_ANEW: [&str; 4] = [
    "sed -i s/2/agent/ f",
    "echo agent >> f; sed -i s/2/agent/ f",
    "sed -i s/2/agent/ f; sed -i s/3/three/ f",
    "sed s/2/agent/ f > g; chmod 755 g; mv g f",
];

/// The files of a store, by name.
fn shown(home: &Home) -> Vec<(String, String)> {
    let entries = fs::read_dir(home.store()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut seen: Vec<(String, String)> = names
        .filter(|name| !name.starts_with('.'))
        .map(|name| (name.clone(), text(home, &name)))
        .collect();
    seen.sort();
    seen
}

/// An undo of what an undo or a rejection has taken back finds nothing to do: the owner's lines stay in their file.
#[test]
fn second_undo_of_a_file_saved_anew_changes_nothing() {
    need_mount!();
    for (how, save) in &SAVES[..4] {
        for change in SAVED_ANEW {
            for first in ["undo", "reject"] {
                let home = home_after(change, LINES);
                let left = text(&home, "f");
                save(&home.store().join("f"), &left.replace('7', "owner"));
                let path = home.store().to_str().unwrap();
                let done = trumanfs(&[first, path, "--session", "last"]);
                assert!(done.status.success(), "{change}: {}", describe(&done));
                let before = shown(&home);
                assert_eq!(text(&home, "f"), LINES.replace('7', "owner"), "{change}");
                for again in [&[][..], &["--keep-both"], &["--force"]] {
                    let told = undo(&home, again, 1);
                    assert_eq!(shown(&home), before, "{how}, {change}: {told}");
                    assert!(!told.contains("took back"), "{told}");
                }
            }
        }
    }
}

/// A file that comes back with `--keep-both` takes no name that one of the owner's has, and a second undo leaves it there.
#[test]
fn what_comes_back_beside_takes_no_name_of_another_file() {
    need_mount!();
    for change in ["echo x > f", "sed -i s/2/x/ f", "rm f; echo x > f"] {
        for is_taken in [false, true] {
            let home = home_after(change, LINES);
            fs::write(home.store().join("f"), "owner\n").unwrap();
            let mut owners = vec![("f".to_owned(), "owner\n".to_owned())];
            for seq in (2..6).filter(|_| is_taken) {
                let name = format!("f.before-{seq}");
                fs::write(home.store().join(&name), "mine\n").unwrap();
                owners.push((name, "mine\n".to_owned()));
            }
            undo(&home, &["--keep-both"], 0);
            let before = shown(&home);
            let added: Vec<_> = before.iter().filter(|at| !owners.contains(at)).collect();
            assert_eq!(before.len(), owners.len() + 1, "{change}: {before:?}");
            assert_eq!(added.len(), 1, "{change}: {before:?}");
            assert_eq!(added[0].1, LINES, "{change}: {before:?}");
            let told = undo(&home, &["--keep-both"], 1);
            assert_eq!(shown(&home), before, "{change}: {told}");
        }
    }
}

/// A file that its owner saved anew is not the linked one, which has another name still: an undo names the conflict, and
/// with `--keep-both` the owner's text is where it was put.
#[test]
fn linked_file_that_the_owner_saved_anew_is_a_conflict() {
    need_mount!();
    let (_, save) = SAVES[3];
    for change in [
        "mkdir d; ln f d/b; mv f g; echo x >> d/b; mv g f",
        "mkdir d; ln f d/b; mv d/b g; mv g d/c; mv f g; mv g f",
    ] {
        let home = home_after(change, LINES);
        let owners = text(&home, "f") + "owner\n";
        save(&home.store().join("f"), &owners);
        let told = undo(&home, &[], 4);
        assert!(told.contains("/f "), "{change}: {told}");
        let store = home.store().to_str().unwrap();
        let output = trumanfs(&["undo", store, "--session", "last", "--keep-both"]);
        let told = describe(&output);
        assert_eq!(text(&home, "f"), owners, "{change}: {told}");
    }
}

/// An undo by force put the owner's lines into the trash: a second one has nothing to keep of them.
#[test]
fn second_undo_after_one_by_force_changes_nothing() {
    need_mount!();
    let removed = "x=$(sed s/2/agent/ f); rm f; echo \"$x\" > f";
    for change in ["sed -i s/2/agent/ f", removed] {
        let home = home_after(change, LINES);
        let owners = text(&home, "f").replace("agent", "owner");
        fs::write(home.store().join("f"), owners).unwrap();
        undo(&home, &["--force"], 0);
        let before = shown(&home);
        assert_eq!(text(&home, "f"), LINES, "{change}");
        for again in [&[][..], &["--keep-both"], &["--force"]] {
            let told = undo(&home, again, 1);
            assert_eq!(shown(&home), before, "{change}: {told}");
        }
    }
}

/// What the owner writes after an undo, and what an undo has merged into a file, stay there also where the content that
/// was merged is in the trash no more.
#[test]
fn second_undo_leaves_what_it_cannot_merge_again() {
    need_mount!();
    for change in SAVED_ANEW {
        for (later, is_emptied) in [("", true), ("more\n", false), ("more\n", true)] {
            let home = home_after(change, LINES);
            let path = home.store().join("f");
            let left = text(&home, "f");
            fs::write(&path, left.replace('7', "owner")).unwrap();
            undo(&home, &[], 0);
            fs::write(&path, text(&home, "f") + later).unwrap();
            if is_emptied {
                fs::remove_dir_all(home.store().join(".trash")).unwrap();
            }
            let before = shown(&home);
            let store = home.store().to_str().unwrap();
            let words = ["undo", store, "--session", "all", "--keep-both"];
            for words in [&words[..4], &words] {
                let output = trumanfs(words);
                let told = describe(&output);
                assert!(told.contains(" later"), "{change}, {is_emptied}: {told}");
                assert!(words.len() > 4 || output.status.code() == Some(4), "{told}");
                assert_eq!(shown(&home), before, "{change}, {is_emptied}: {told}");
            }
        }
    }
}

/// A number that a new file of the owner's gets from one in the trash makes it none of the home's: nothing is done to it,
/// and nothing is lost by it.
#[test]
fn new_file_with_the_number_of_one_that_was_in_the_trash_is_another() {
    need_mount!();
    for is_dir in [false, true] {
        let home = home_after("sed -i s/2/agent/ f", LINES);
        let path = home.store().join("f");
        fs::write(&path, text(&home, "f").replace('7', "owner")).unwrap();
        undo(&home, &[], 0);
        let trash = home.store().join(".trash");
        let entries = fs::read_dir(&trash).unwrap();
        let numbers: Vec<u64> = entries.map(|entry| entry.unwrap().ino()).collect();
        fs::remove_dir_all(&trash).unwrap();
        let mut got = false;
        for n in 0..200 {
            let new = home.store().join(format!("new{n}"));
            match is_dir {
                true => fs::create_dir(&new).unwrap(),
                false => fs::write(&new, "the owner's\n").unwrap(),
            }
            got |= numbers.contains(&fs::metadata(&new).unwrap().ino());
            let old = SystemTime::now() - Duration::from_secs(9);
            File::open(&new).unwrap().set_modified(old).unwrap();
        }
        if !got {
            skip!("chance", "no file got a number of the trash's");
        }
        let state = |home: &Home| {
            let entries = fs::read_dir(home.store()).unwrap();
            let metas = entries.map(|entry| {
                let entry = entry.unwrap();
                (entry.file_name(), entry.metadata().unwrap())
            });
            let mut all: Vec<_> = metas
                .filter(|(name, _)| !name.to_string_lossy().starts_with('.'))
                .map(|(name, meta)| (name, meta.ino(), meta.mode(), meta.modified().unwrap()))
                .collect();
            all.sort();
            (all, text(home, "f"))
        };
        let before = state(&home);
        let store = home.store().to_str().unwrap();
        let words = ["undo", store, "--session", "all", "--keep-both"];
        for words in [&words[..4], &words] {
            let told = describe(&trumanfs(words));
            let after = state(&home);
            let changed: Vec<_> = after
                .0
                .iter()
                .filter(|one| !before.0.contains(one))
                .collect();
            assert!(
                changed.is_empty() && after.0.len() == before.0.len(),
                "{is_dir}: {told}: {changed:?}"
            );
            assert_eq!(after.1, before.1, "{is_dir}: {told}");
        }
    }
}

/// The owner's lines between two sessions whose programs save the file anew are merged into the one that comes back. Where
/// they cannot be, they stay in their file, under its own name.
#[test]
fn owners_lines_between_two_files_saved_anew_stay() {
    need_mount!();
    for (how, save) in &SAVES[..4] {
        for then in ["sed -i s/9/nine/ f", "sed s/9/nine/ f > g; mv g f"] {
            for (line, code) in [("7", 0), ("agent", 4)] {
                let mut home = home_after("sed -i s/2/agent/ f", LINES);
                let owners = text(&home, "f").replace(line, "owner");
                save(&home.store().join("f"), &owners);
                home.mount_again();
                home.sh(then);
                home.umount();
                let told = undo(&home, &[], code);
                let case = format!("{how}, {then}, {line}: {told}");
                if code == 0 {
                    assert_eq!(text(&home, "f"), LINES.replace('7', "owner"), "{case}");
                    continue;
                }
                assert!(told.contains(": /f was written to later"), "{case}");
                undo(&home, &["--keep-both"], 0);
                let kept = [("f", owners), ("f.before-5", LINES.to_owned())];
                let kept = kept.map(|(name, text)| (name.to_owned(), text));
                assert_eq!(shown(&home), kept, "{case}");
            }
        }
    }
}
