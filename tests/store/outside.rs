//! A store that its owner edits beside the home: what is taken back then, what is a conflict, and that no former content
//! is made up.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use crate::common::{Home, describe, need_mount, trumanfs};

pub(crate) const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

/// Saves a text at a path.
pub(crate) type EditorSave = fn(&Path, &str);

/// The ways in which people's programs save a file.
pub(crate) const SAVES: [(&str, EditorSave); 5] = [
    ("in place", |path, text| fs::write(path, text).unwrap()),
    ("in place without emptying it first", |path, text| {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(text.as_bytes(), 0).unwrap();
        file.set_len(text.len() as u64).unwrap();
    }),
    ("as a new file that is moved into place", |path, text| {
        let new = path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, path).unwrap();
    }),
    (
        "as a new file, after the old one is a backup",
        |path, text| {
            let backup = path.with_extension("bak");
            fs::rename(path, &backup).unwrap();
            fs::write(path, text).unwrap();
            fs::remove_file(backup).unwrap();
        },
    ),
    ("as a new file beside a backup", |path, text| {
        let mut backup = path.as_os_str().to_owned();
        backup.push("~");
        fs::rename(path, backup).unwrap();
        fs::write(path, text).unwrap();
    }),
];

pub(crate) fn home_with(text: &str) -> Home {
    Home::prepared(|store| fs::write(store.join("f"), text).unwrap(), &[])
}

/// Returns a home over `f` with a text, after a change in it and the end of its session.
pub(crate) fn home_after(change: &str, text: &str) -> Home {
    let mut home = home_with(text);
    home.sh(change);
    home.umount();
    home
}

/// Checks that an undo is a conflict that names a change of the file by its owner.
#[track_caller]
fn assert_conflict(home: &Home, name: &str, case: &str) {
    let told = undo(home, &[], 4);
    let wanted = format!("/{name} was written to later: by somebody outside the home");
    assert!(told.contains(&wanted), "{case}: {told}");
}

#[track_caller]
pub(crate) fn undo(home: &Home, how: &[&str], code: i32) -> String {
    let mut args = vec!["undo", home.store().to_str().unwrap(), "--session", "all"];
    args.extend(how);
    let output = trumanfs(&args);
    let told = describe(&output);
    assert_eq!(output.status.code(), Some(code), "{told}");
    told
}

pub(crate) fn text(home: &Home, name: &str) -> String {
    fs::read_to_string(home.store().join(name)).unwrap()
}

/// The content before the first session, as `cat --at` tells it; `None` where it says that it is unknown.
fn content_before(home: &Home, name: &str) -> Option<String> {
    let sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
    let sessions = sessions.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let (path, at) = (format!("/{name}"), format!("{}:1", sessions.min().unwrap()));
    let output = trumanfs(&["cat", home.store().to_str().unwrap(), &path, "--at", &at]);
    match output.status.code() {
        Some(0) => Some(String::from_utf8(output.stdout).unwrap()),
        Some(_) => None,
        None => panic!("{}", describe(&output)),
    }
}

/// Changes of other lines are kept, and those of the home go.
#[test]
fn changes_are_taken_back_beside_those_of_other_lines() {
    need_mount!();
    for (how, save) in SAVES {
        for change in [
            "sed -i s/2/agent/ f",
            "echo agent >> f",
            "sed s/2/agent/ f > g; cat g > f; rm g",
        ] {
            let home = home_after(change, LINES);
            let left = text(&home, "f");
            save(
                &home.store().join("f"),
                &left.replace('7', "seven, by the owner"),
            );
            let told = undo(&home, &[], 0);
            assert!(told.contains("of /f; kept 1 later change"), "{how}: {told}");
            let wanted = LINES.replace('7', "seven, by the owner");
            assert_eq!(text(&home, "f"), wanted, "{change}, saved {how}: {told}");
            assert_eq!(content_before(&home, "f").as_deref(), Some(LINES), "{how}");
        }
    }
}

/// An undo of one path takes back that a new file was moved there, and not that it was made: with its owner's later lines
/// it stays.
#[test]
fn new_file_with_the_owners_lines_is_not_moved_back() {
    need_mount!();
    for (how, save) in SAVES {
        for change in ["sed -i s/2/agent/ f", "mv g f"] {
            let mut home = home_with(LINES);
            fs::write(home.store().join("g"), LINES.replace('2', "agent")).unwrap();
            home.sh(change);
            home.umount();
            let owners = LINES.replace('2', "agent\nowner");
            save(&home.store().join("f"), &owners);
            let told = undo(&home, &["--path", "/f"], 4);
            assert!(told.contains("/f was written to later"), "{how}: {told}");
            if change == "mv g f" {
                undo(&home, &[], 4);
            }
            assert_eq!(text(&home, "f"), owners, "{change}, saved {how}");
            undo(&home, &["--path", "/f", "--keep-both"], 0);
            assert_eq!(text(&home, "f"), owners, "{change}, saved {how}");
        }
    }
}

/// Nor where the directory that it came from is gone.
#[test]
fn moved_file_with_the_owners_lines_does_not_vanish() {
    need_mount!();
    let mut home = home_with(LINES);
    fs::create_dir(home.store().join("d")).unwrap();
    fs::write(home.store().join("d/g"), "other\n").unwrap();
    home.sh("mv d/g f");
    home.umount();
    fs::write(home.store().join("f"), "other\nowner\n").unwrap();
    fs::remove_dir(home.store().join("d")).unwrap();
    let told = undo(&home, &[], 4);
    assert!(told.contains("/f was written to later"), "{told}");
    assert_eq!(text(&home, "f"), "other\nowner\n");
}

/// A later session's program may have put another file in the place of the one that an earlier session wrote to.
#[test]
fn changes_are_taken_back_in_the_file_that_replaced_theirs() {
    need_mount!();
    for (replace, code, wanted) in [
        (
            "sed s/7/seven/ f > t; mv t f",
            0,
            LINES.replace('7', "seven"),
        ),
        (
            "mv f f~; sed s/7/seven/ f~ > f; rm f~",
            0,
            LINES.replace('7', "seven"),
        ),
        (
            "sed s/agent/other/ f > t; mv t f",
            4,
            LINES.replace('2', "other"),
        ),
        ("rm f; echo else > f", 4, "else\n".to_owned()),
        ("sed s/agent/2/ f > t; mv t f", 1, LINES.to_owned()),
    ] {
        let mut home = home_after("sed s/2/agent/ f > t; cat t > f; rm t", LINES);
        let session = session_of(&home);
        home.mount_again();
        home.sh(replace);
        home.umount();
        let store = home.store().to_str().unwrap();
        let output = trumanfs(&["undo", store, "--session", &session]);
        let told = describe(&output);
        assert_eq!(output.status.code(), Some(code), "{replace}: {told}");
        assert_eq!(text(&home, "f"), wanted, "{replace}: {told}");
        if code == 4 {
            assert!(told.contains("/f was replaced later: operation"), "{told}");
            let output = trumanfs(&["undo", store, "--session", &session, "--force"]);
            assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
            assert_eq!(text(&home, "f"), LINES, "{replace}");
        }
        if replace.contains("seven") {
            let output = trumanfs(&["redo", store]);
            assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
            assert_eq!(text(&home, "f"), wanted.replace('2', "agent"), "{replace}");
        }
    }
}

/// A change of the same lines stops the undo, which names the path.
#[test]
fn changes_of_the_same_lines_are_a_conflict() {
    need_mount!();
    for (how, save) in SAVES {
        for change in [
            "printf 'new\n' > f",
            "sed -i s/2/agent/ f",
            "echo agent >> f",
        ] {
            let home = home_after(change, LINES);
            save(&home.store().join("f"), "all of it is the owner's\n");
            assert_conflict(&home, "f", how);
            assert_eq!(text(&home, "f"), "all of it is the owner's\n", "{how}");
            undo(&home, &["--force"], 0);
            assert_eq!(text(&home, "f"), LINES, "{change}, saved {how}");
        }
    }
}

/// As long as the home is mounted, no copy of what was left is kept.
#[test]
fn changes_in_a_mounted_home_are_taken_back_or_are_a_conflict() {
    need_mount!();
    for (how, save) in SAVES {
        let home = home_with(LINES);
        home.sh("sed -i s/2/agent/ f");
        let owners = LINES.replace('2', "agent").replace('7', "seven");
        save(&home.store().join("f"), &owners);
        assert_conflict(&home, "f", how);
        assert_eq!(text(&home, "f"), owners, "{how}");
    }
}

#[test]
fn new_file_that_the_owner_saved_stays() {
    need_mount!();
    for (how, save) in SAVES {
        let home = home_after("echo x > n", LINES);
        save(&home.store().join("n"), "the owner's\n");
        assert_conflict(&home, "n", how);
        assert_eq!(text(&home, "n"), "the owner's\n", "{how}");
        assert!(home.trash().is_empty(), "{how}");
    }
}

/// An append keeps the whole content once, so that a change of earlier bytes does not alter the past.
#[test]
fn former_content_is_not_what_the_owner_made_of_it() {
    need_mount!();
    for (how, save) in SAVES {
        for change in [
            "echo x >> f",
            "printf agent | dd of=f conv=notrunc status=none",
        ] {
            let home = home_after(change, LINES);
            save(&home.store().join("f"), "a much longer first line\n2\n");
            let before = content_before(&home, "f");
            assert_eq!(before.as_deref(), Some(LINES), "{change}, saved {how}");
        }
    }
}

/// A byte of a longer file is changed in place: only its block would be kept, and the rest is the owner's then.
#[test]
fn content_of_a_longer_file_is_given_back_whole() {
    need_mount!();
    // No text: of a text there is a copy.
    let numbers: String = (0..20_000).map(|n| format!("{n}\n")).collect();
    let long = format!("\0{numbers}");
    for (how, save) in SAVES {
        let change = "printf X | dd of=f bs=1 seek=50000 conv=notrunc status=none";
        let home = home_after(change, &long);
        save(&home.store().join("f"), &long.replace('9', "neun"));
        undo(&home, &[], 4);
        undo(&home, &["--force"], 0);
        assert!(text(&home, "f") == long, "{how}");
    }
}

/// A file that the home only moved, or that an undo brought back, has a stamp as well.
#[test]
fn files_that_were_only_moved_are_recognised() {
    need_mount!();
    for options in [&[][..], &["--no-passthrough"]] {
        for (change, name) in [
            ("mv f n; printf XY | dd of=n conv=notrunc status=none", "n"),
            ("echo n > m; mv m n", "n"),
            ("printf '1\\nx\\n' > t; chmod 600 t; mv t f", "f"),
        ] {
            let mut home =
                Home::prepared(|store| fs::write(store.join("f"), LINES).unwrap(), options);
            home.sh(change);
            let at = home.store().join(name);
            let file = fs::OpenOptions::new().write(true).open(at).unwrap();
            file.write_all_at(b"O", 0).unwrap();
            drop(file);
            let owners = text(&home, name);
            home.umount();
            let told = undo(&home, &[], 4);
            assert!(
                told.contains("by somebody outside the home"),
                "{change}: {told}"
            );
            assert_eq!(text(&home, name), owners, "{change}, {options:?}");
        }
        for change in ["mv f n", "ln f n"] {
            let mut home =
                Home::prepared(|store| fs::write(store.join("f"), LINES).unwrap(), options);
            home.sh(change);
            fs::write(home.store().join("n"), "the owner's\n").unwrap();
            home.umount();
            let before = content_before(&home, "f");
            assert_eq!(before, None, "{change}, {options:?}");
        }
    }
}

#[test]
fn redo_does_not_take_away_what_the_owner_wrote_to_a_file_that_came_back() {
    need_mount!();
    for change in ["rm f", "sed -i s/2/agent/ f"] {
        for (how, save) in SAVES {
            let home = home_after(change, LINES);
            undo(&home, &[], 0);
            save(&home.store().join("f"), "the owner's\n");
            let output = trumanfs(&["redo".as_ref(), home.store().as_os_str()]);
            assert_eq!(
                output.status.code(),
                Some(4),
                "{change}, {how}: {}",
                describe(&output)
            );
            assert_eq!(text(&home, "f"), "the owner's\n", "{change}, {how}");
        }
    }
}

/// The numbers of hunks are those of what the run left, whoever changed the file since.
#[test]
fn hunks_are_those_of_the_run() {
    need_mount!();
    for (how, save) in SAVES {
        let home = home_after("sed s/9/agent/ f > g; cat g > f; rm g", LINES);
        let owners = LINES.replace('1', "one").replace('9', "agent");
        save(&home.store().join("f"), &owners);
        let store = home.store().to_str().unwrap();
        let reject = |hunk| {
            let words = ["reject", store, "--session", "last", "f", "--hunk", hunk];
            trumanfs(&words)
        };
        let output = reject("2");
        assert!(!output.status.success(), "{how}: {}", describe(&output));
        let output = reject("1");
        assert!(output.status.success(), "{how}: {}", describe(&output));
        assert_eq!(text(&home, "f"), LINES.replace('1', "one"), "{how}");
    }
}

/// Of a save in two steps the last one alone could be taken back: what the file is then, nobody wrote.
#[test]
fn file_of_a_conflict_is_left_as_it_is_beside_the_former_one() {
    need_mount!();
    for (how, save) in SAVES {
        let change = "printf '1\\nA\\n4\\n5\\n6\\n7\\n8\\n9\\n' | dd of=f conv=notrunc status=none; \
                      truncate -s 16 f";
        let home = home_after(change, LINES);
        let owners = text(&home, "f").replace('A', "owner");
        save(&home.store().join("f"), &owners);
        let told = undo(&home, &["--keep-both"], 0);
        assert_eq!(text(&home, "f"), owners, "{how}: {told}");
        assert!(!told.contains("took back"), "{how}: {told}");
        undo(&home, &["--force"], 0);
        assert_eq!(text(&home, "f"), LINES, "{how}");
    }
}

/// A directory goes into the trash again with what the owner has done in it, so that is asked first.
#[test]
fn directory_that_the_owner_changed_is_not_removed_again() {
    need_mount!();
    for (name, written) in [("/d/e/f", "e/f"), ("/d/e/new", "e/new"), ("/d/new", "new")] {
        let mut home = Home::prepared(
            |store| {
                fs::create_dir_all(store.join("d/e")).unwrap();
                fs::write(store.join("d/e/f"), "former").unwrap();
            },
            &[],
        );
        home.sh("rm -r d");
        home.umount();
        let (store, dir) = (home.store().to_str().unwrap(), home.store().join("d"));
        undo(&home, &[], 0);
        let redo = |how: &[&str], code| {
            let output = trumanfs(&[&["redo", store], how].concat());
            let told = describe(&output);
            assert_eq!(output.status.code(), Some(code), "{told}");
            told
        };
        // Inodes have the time of the kernel's last tick.
        std::thread::sleep(Duration::from_millis(20));
        fs::write(dir.join(written), "owner").unwrap();
        let told = redo(&[], 4);
        let said = "was changed later: by somebody outside the home";
        assert!(told.contains(said) && told.contains(name), "{told}");
        assert!(dir.exists());
        redo(&["--force"], 0);
        assert!(!dir.exists());
    }
}

/// An undo beside the owner's lines leaves nothing of the run to take back, and what the run left is no past of the
/// owner's.
#[test]
fn hunk_that_was_taken_back_beside_the_owners_lines_is_gone() {
    need_mount!();
    for (how, save) in SAVES {
        let mut home = home_with(LINES);
        home.sh("printf A | dd of=f bs=1 seek=8 conv=notrunc status=none");
        home.umount();
        let left = text(&home, "f");
        save(&home.store().join("f"), &format!("owner\n{left}"));
        undo(&home, &[], 0);
        let merged = format!("owner\n{LINES}");
        assert_eq!(text(&home, "f"), merged, "{how}");
        let store = home.store().to_str().unwrap();
        let sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
        let sessions = sessions.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let first = sessions.min().unwrap();
        let point = format!("{first}:2");
        let output = trumanfs(&["cat", store, "/f", "--at", &point]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), left, "{how}");
        let output = trumanfs(&["review", store, "--session", &first, "--patch"]);
        let shown = describe(&output);
        assert!(
            shown.contains("a/f") && !shown.contains("hunk"),
            "{how}: {shown}"
        );
        assert_eq!(text(&home, "f"), merged, "{how}");
    }
}

/// What the owner removed comes back by no undo, unless that is asked for.
#[test]
fn file_that_the_owner_removed_stays_away() {
    need_mount!();
    for change in ["mv f f~; echo x > f; rm f~", "cp f g; echo x >> g; mv g f"] {
        let mut home = home_with(LINES);
        home.sh(change);
        home.umount();
        fs::remove_file(home.store().join("f")).unwrap();
        undo(&home, &[], 4);
        assert!(!home.store().join("f").exists(), "{change}");
    }
}

/// Nor does anything come back there with `--keep-both`: it lies beside, and a second undo has nothing to do.
#[test]
fn what_comes_back_lies_beside_the_name_that_the_owner_left() {
    need_mount!();
    for change in [
        "mv f f~; echo x > f; rm f~",
        "mv f f~; echo x > f",
        "rm f; echo x > f",
        "cp f g; echo x >> g; mv g f",
    ] {
        for is_moved in [true, false] {
            let mut home = home_with(LINES);
            home.sh(change);
            let session = session_of(&home);
            home.umount();
            let at = |name: &str| home.store().join(name);
            if is_moved {
                fs::rename(at("f"), at("n")).unwrap();
            } else {
                fs::remove_file(at("f")).unwrap();
            }
            let words = ["undo", home.store().to_str().unwrap(), "--keep-both"];
            let output = trumanfs(&[&words[..], &["--session", &session]].concat());
            let told = describe(&output);
            assert!(told.contains("/f"), "{change}: {told}");
            for again in 0..2 {
                let names = fs::read_dir(home.store()).unwrap();
                let names = names.map(|name| name.unwrap().file_name().into_string().unwrap());
                let beside: Vec<String> =
                    names.filter(|name| name.starts_with("f.before-")).collect();
                assert_eq!(beside.len(), 1, "{change}, {again}: {told}");
                assert_eq!(text(&home, &beside[0]), LINES, "{change}, {again}");
                assert!(!at("f").exists(), "{change}, {again}: {told}");
                assert_eq!(at("n").exists(), is_moved, "{change}, {again}: {told}");
                undo(
                    &home,
                    &["--keep-both"],
                    output.status.code().map_or(1, |code| code.max(1)),
                );
            }
        }
    }
}

/// The record that moved a new file into place is about the one that its stamp is about.
#[test]
fn point_after_an_atomic_save_is_not_shown_as_the_owner_left_it() {
    need_mount!();
    for (how, save) in SAVES {
        let home = home_after("sed -i s/2/agent/ f", LINES);
        let after = format!("{}:{}", session_of(&home), last_operation(&home) - 1);
        save(&home.store().join("f"), "owner\n");
        let store = home.store().to_str().unwrap();
        let output = trumanfs(&["cat", store, "/f", "--at", &after]);
        let shown = String::from_utf8_lossy(&output.stdout);
        // Of a file that is gone it may be unknown.
        if output.status.success() || how.starts_with("in place") {
            let told = describe(&output);
            assert_eq!(shown, LINES.replace('2', "agent"), "{how}: {told}");
        }
    }
}

/// Of a file in a directory that the home moved no record tells.
#[test]
fn past_of_a_file_that_no_record_knows_is_not_what_its_owner_wrote_since() {
    need_mount!();
    let files = |store: &Path| {
        fs::create_dir(store.join("d")).unwrap();
        for name in ["f", "g"] {
            fs::write(store.join("d").join(name), LINES).unwrap();
        }
    };
    let mut home = Home::prepared(files, &[]);
    home.sh("mv d e");
    home.umount();
    fs::write(home.store().join("e/f"), "owner\n").unwrap();
    assert_eq!(content_before(&home, "d/f"), None);
    assert_eq!(content_before(&home, "d/g").as_deref(), Some(LINES));
}

/// A file that was linked and whose owner saved it anew was the linked one before.
#[test]
fn past_of_a_linked_file_that_the_owner_saved_anew_is_the_linked_files() {
    need_mount!();
    let (_, save) = SAVES[3];
    let home = home_after("ln f g; echo x >> g", LINES);
    save(&home.store().join("f"), "owner\n");
    let after = format!("{}:{}", session_of(&home), last_operation(&home));
    let store = home.store().to_str().unwrap();
    for undone in [false, true] {
        if undone {
            undo(&home, &[], 0);
        }
        assert_eq!(content_before(&home, "f").as_deref(), Some(LINES));
        let output = trumanfs(&["cat", store, "/f", "--at", &after]);
        assert!(!output.status.success(), "{}", describe(&output));
    }
    assert_eq!(text(&home, "f"), "owner\n");
    assert!(!home.store().join("g").exists());
}

/// Nor does what was at the name of a file that the owner moved, also if an undo had brought that back, or the home has
/// it open for writing where it is.
#[test]
fn name_of_a_file_that_the_owner_moved_stays_free() {
    need_mount!();
    let save = "mv f f~; echo x > f; rm f~";
    let home = home_with(LINES);
    let moves = || fs::rename(home.store().join("f"), home.store().join("g")).unwrap();
    home.sh(save);
    moves();
    home.sh("exec 3>>g");
    undo(&home, &[], 4);
    assert!(!home.store().join("f").exists());

    let mut home = home_after(save, LINES);
    undo(&home, &[], 0);
    let moved = home.store().join("g");
    fs::rename(home.store().join("f"), &moved).unwrap();
    let output = trumanfs(&["redo", home.store().to_str().unwrap()]);
    let told = describe(&output);
    assert_eq!(output.status.code(), Some(4), "{told}");
    assert!(told.contains("/f was removed or moved later"), "{told}");
    assert!(!home.store().join("f").exists());
    assert_eq!(fs::read_to_string(moved).unwrap(), LINES);
    home.umount();
}

/// A file that an undo brought back, and that its owner had changed before a run replaced it: it has no stamp.
#[test]
fn redo_of_a_replacement_names_what_was_written_to_what_came_back() {
    need_mount!();
    let mut home = home_with(LINES);
    home.sh("chmod 600 f");
    fs::write(home.store().join("f"), "owner\n").unwrap();
    home.sh("echo agent > g; mv g f");
    undo(&home, &["--force"], 0);
    let at = home.store().join("f");
    let mut file = fs::File::options().append(true).open(&at).unwrap();
    std::io::Write::write_all(&mut file, b"later\n").unwrap();
    let is = text(&home, "f");
    let output = trumanfs(&["redo", home.store().to_str().unwrap()]);
    let told = describe(&output);
    assert!(!output.status.success() && told.contains("/f"), "{told}");
    assert_eq!(text(&home, "f"), is, "{told}");
    home.umount();
}

/// The last name of what the owner wrote is not removed.
#[test]
fn link_with_the_last_of_the_owners_text_stays() {
    need_mount!();
    let mut home = home_with(LINES);
    home.sh("ln f g");
    home.umount();
    fs::write(home.store().join("f"), "owner").unwrap();
    fs::remove_file(home.store().join("f")).unwrap();
    undo(&home, &[], 4);
    assert_eq!(text(&home, "g"), "owner");
}

/// Without a copy of what a run left, its hunks are not the owner's lines.
#[test]
fn hunks_of_a_file_that_was_saved_anew_by_both_are_not_the_owners() {
    need_mount!();
    let home = home_with(LINES);
    home.sh("sed s/8/agent/ f > g; mv g f");
    let (_, save) = SAVES[3];
    let owners = text(&home, "f").replace("4\n", "4\nowner\n");
    save(&home.store().join("f"), &owners);
    let store = home.store().to_str().unwrap();
    let output = trumanfs(&["review", store, "--session", "last", "--patch"]);
    assert!(
        !describe(&output).contains("+owner"),
        "{}",
        describe(&output)
    );
    let words = ["reject", store, "--session", "last", "f", "--hunk", "1"];
    let output = trumanfs(&words);
    assert!(!output.status.success(), "{}", describe(&output));
    assert_eq!(text(&home, "f"), owners);
}

/// A move is no change: what an earlier session left is compared although a later one has moved the file.
#[test]
fn past_of_a_file_that_an_undo_moved_back_is_not_the_owners() {
    need_mount!();
    let mut home = home_with(LINES);
    home.sh("mv f g");
    home.umount();
    let owners = format!("owner\n{LINES}");
    fs::write(home.store().join("g"), &owners).unwrap();
    undo(&home, &[], 0);
    assert_eq!(text(&home, "f"), owners);
    assert_eq!(content_before(&home, "f"), None);
}

/// An editor in the home moves the file that it had made itself to its backup, and makes another.
#[test]
fn past_of_a_file_that_an_agents_editor_made_twice_is_unknown() {
    need_mount!();
    let mut home = home_with(LINES);
    home.sh("mv f f~; echo 1 > f; mv f f~; echo 2 > f");
    let point = format!("{}:{}", session_of(&home), last_operation(&home));
    fs::write(home.store().join("f"), "owner\n").unwrap();
    home.umount();
    let (_, save) = SAVES[2];
    save(&home.store().join("f"), "owner again\n");
    let store = home.store().to_str().unwrap();
    let output = trumanfs(&["cat", store, "/f", "--at", &point]);
    assert!(!output.status.success(), "{}", describe(&output));
}

/// An agent's editor writes the file itself after a copy of it, and its owner's editor makes the copy's name a backup.
#[test]
fn backups_of_both_with_one_name_are_told_apart() {
    need_mount!();
    let home = home_after("cp f f~; sed s/5/five/ f~ >f; rm f~", LINES);
    let (_, save) = SAVES[4];
    save(
        &home.store().join("f"),
        &format!("owner\n{}", LINES.replace('5', "five")),
    );
    let point = format!("{}:{}", session_of(&home), last_operation(&home));
    assert_eq!(content_before(&home, "f").as_deref(), Some(LINES));
    undo(&home, &["--force"], 0);
    assert_eq!(text(&home, "f"), format!("owner\n{LINES}"));
    assert_eq!(content_before(&home, "f").as_deref(), Some(LINES));
    let store = home.store().to_str().unwrap();
    let output = trumanfs(&["cat", store, "/f", "--at", &point]);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(shown, LINES.replace('5', "five"), "{}", describe(&output));
}

/// The only session of a home.
fn session_of(home: &Home) -> String {
    let mut sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
    let session = sessions.next().unwrap().unwrap().file_name();
    assert!(sessions.next().is_none());
    session.into_string().unwrap()
}

fn last_operation(home: &Home) -> u64 {
    home.journal().last().unwrap()["seq"].as_u64().unwrap()
}
