//! Files that programs write anew and move into place, as `sed -i`, editors and `git checkout` do, and that are
//! changed later: a conflict uses the name that the user sees, and so do the names of the two contents afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::calls::{RENAME_EXCHANGE, renameat2};
use crate::common::{Home, describe, need_mount, trumanfs};

/// Names, contents and modes of what is in the store's root.
fn look(store: &Path) -> BTreeMap<String, (String, u32)> {
    let entries = fs::read_dir(store).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let seen = files.map(|entry| {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o7777;
        let name = entry.file_name().into_string().unwrap();
        (name, (fs::read_to_string(entry.path()).unwrap(), mode))
    });
    seen.collect()
}

fn undo(home: &Home, session: &str, how: &[&str], code: i32) -> String {
    let mut args = vec!["undo", home.store().to_str().unwrap(), "--session", session];
    args.extend(how);
    let output = trumanfs(&args);
    assert_eq!(output.status.code(), Some(code), "{}", describe(&output));
    describe(&output)
}

fn redo(home: &Home) {
    let output = trumanfs(&["redo".as_ref(), home.store().as_os_str()]);
    assert!(output.status.success(), "{}", describe(&output));
}

const WAYS: &[&str] = &[
    "sed -i s/old/agent/ f0",
    "sed -i s/old/agent/ f0; sed -i s/agent/twice/ f0",
    "printf 'agent\n' > tmp; mv tmp f0",
    "printf 'agent\n' > .f0.swp; chmod 600 .f0.swp; touch -d 2020-01-01 .f0.swp; mv .f0.swp f0",
    "mv f0 f0~; printf 'agent\n' > f0; rm f0~",
    "mv f0 f0~; printf 'agent\n' > f0",
    "rm f0; printf 'agent\n' > f0",
    "cp -p f0 f0.bak; printf 'agent\n' > '#f0#'; mv '#f0#' f0; rm f0.bak",
    "exchange",
];

#[test]
fn what_was_moved_into_place_and_changed_later_goes_by_the_name_that_people_see() {
    need_mount!();
    for way in WAYS {
        let mut home = Home::prepared(|store| fs::write(store.join("f0"), "old\n").unwrap(), &[]);
        let start = look(home.store());
        if *way == "exchange" {
            home.sh("echo agent > tmp");
            renameat2(home.path("tmp"), home.path("f0"), RENAME_EXCHANGE).unwrap();
            home.sh("rm tmp");
        } else {
            home.sh(way);
        }
        let sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
        let first = sessions
            .map(|entry| entry.unwrap().file_name())
            .max()
            .unwrap();
        let first = first.to_str().unwrap();
        home.remount();
        home.sh("echo human >> f0");
        let before = look(home.store());
        let human = before["f0"].clone();
        assert!(human.0.ends_with("human\n"), "{way}");

        let told = undo(&home, first, &[], 4);
        assert!(
            told.contains(": /f0 ") && !told.contains("tmp was"),
            "{way}: {told}"
        );
        assert!(told.contains("write /f0 by"), "{way}: {told}");
        for name in ["/sed", "swp", "#f0#"] {
            assert!(!told.contains(name), "{way}: {told}");
        }
        assert_eq!(look(home.store()), before, "{way}");

        // What is there keeps its name, and what comes back is put beside it.
        undo(&home, first, &["--keep-both"], 0);
        let mut both = look(home.store());
        assert_eq!(both.remove("f0").unwrap(), human, "{way}: {both:?}");
        let (name, back) = both.pop_first().unwrap();
        assert!(name.starts_with("f0.before-"), "{way}: {name}");
        assert_eq!((&back, both.len()), (&start["f0"], 0), "{way}: {both:?}");
        redo(&home);
        assert_eq!(look(home.store()), before, "{way}");

        // Forced, it comes back in place, and what was there lies in the trash by its name.
        undo(&home, first, &["--force"], 0);
        assert_eq!(look(home.store()), start, "{way}");
        let trashed = home.trashed("f0");
        let contents = trashed.iter().map(|path| fs::read_to_string(path).unwrap());
        assert!(
            contents.into_iter().any(|text| text == human.0),
            "{way}: {trashed:?}"
        );
        redo(&home);
        assert_eq!(look(home.store()), before, "{way}");
    }
}

/// The directory was made in the same session: it stays for what is in it.
#[test]
fn a_file_in_a_new_directory_stays_where_it_is_seen() {
    need_mount!();
    let mut home = Home::mount();
    home.sh("mkdir d; echo agent > d/tmp; mv d/tmp d/f; echo more > d/g");
    let sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
    let first = sessions
        .map(|entry| entry.unwrap().file_name())
        .max()
        .unwrap();
    home.remount();
    home.sh("echo human >> d/f");
    let told = undo(&home, first.to_str().unwrap(), &["--keep-both"], 0);
    assert!(told.contains("/d/f was written to later"), "{told}");
    assert_eq!(home.sh("ls d; cat d/f"), "f\nagent\nhuman\n", "{told}");
}

/// A directory goes into the trash again only as the home left it, also where a stamp tells how a file in it was left.
#[test]
fn redo_of_a_removal_spares_what_the_owner_wrote_since() {
    need_mount!();
    for change in [
        "true",
        "printf '1\n' > d/f",
        "chmod 600 d/f",
        "echo 2 >> d/f",
    ] {
        let prepare = |store: &Path| {
            fs::create_dir(store.join("d")).unwrap();
            fs::write(store.join("d/f"), "1\n").unwrap();
        };
        let mut home = Home::prepared(prepare, &[]);
        home.sh(&format!("{change}; rm -r d"));
        home.umount();
        let store = home.store().to_str().unwrap();
        let undone = trumanfs(&["undo", store, "--session", "last"]);
        assert!(undone.status.success(), "{}", describe(&undone));
        fs::write(home.store().join("d/f"), "1\nowner\n").unwrap();
        let redone = trumanfs(&["redo", store]);
        let told = format!("{change}: {}", describe(&redone));
        assert!(
            redone.status.code() == Some(4) && told.contains("/d/f"),
            "{told}"
        );
        assert_eq!(
            fs::read(home.store().join("d/f")).unwrap(),
            b"1\nowner\n",
            "{told}"
        );
    }
}

/// Makes a change of `f` in a session and another one in a later session, and undoes the first.
fn undo_before(change: &str, later: &str, how: &[&str]) -> (Home, std::process::Output) {
    let prepare = |store: &Path| fs::write(store.join("f"), "1\n2\n3\n4\n5\n").unwrap();
    let mut home = Home::prepared(prepare, &[]);
    home.sh(change);
    home.umount();
    let sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
    let first = sessions.last().unwrap().unwrap().file_name();
    home.mount_again();
    home.sh(later);
    home.umount();
    let mut words = vec!["undo", home.store().to_str().unwrap(), "--session"];
    words.push(first.to_str().unwrap());
    words.extend(how);
    let undone = trumanfs(&words);
    (home, undone)
}

/// A later run's editor made a backup of the file: what an undo takes back goes from the backup and from the new file.
#[test]
fn undo_of_a_file_that_a_later_run_saved_anew_beside_a_backup() {
    need_mount!();
    let cases = [
        ("sed s/3/three/ f~ > f", &[][..], 0, "1\n2\nthree\n4\n5\n"),
        ("echo new > f", &[], 4, "new\n"),
        ("echo new > f", &["--force"], 0, "1\n2\n3\n4\n5\n"),
        ("echo new > f", &["--keep-both"], 5, "new\n"),
    ];
    for (save, how, code, wanted) in cases {
        let (home, undone) = undo_before("echo agent >> f", &format!("mv f f~; {save}"), how);
        let told = format!("{save} {how:?}: {}", describe(&undone));
        assert_eq!(undone.status.code(), Some(code), "{told}");
        let text = |name: &str| fs::read_to_string(home.store().join(name)).unwrap();
        assert_eq!(text("f"), wanted, "{told}");
        let kept = if code == 4 { "agent\n" } else { "" };
        assert_eq!(text("f~"), format!("1\n2\n3\n4\n5\n{kept}"), "{told}");
    }
}

/// A run gave the file a second name, which still has it where a later run has put another one in its place: what an undo
/// takes back goes from that one as well.
#[test]
fn undo_of_a_file_with_a_new_hard_link_that_a_later_run_saved_anew() {
    need_mount!();
    let cases = [
        ("sed -i s/3/three/ f", &[][..], 0, "1\n2\nthree\n4\n5\n"),
        ("rm f; echo new > f", &[], 4, "new\n"),
        ("rm f; echo new > f", &["--force"], 0, "1\n2\n3\n4\n5\n"),
    ];
    for (save, how, code, wanted) in cases {
        let (home, undone) = undo_before("ln f g; echo agent >> f", save, how);
        let told = format!("{save} {how:?}: {}", describe(&undone));
        assert_eq!(undone.status.code(), Some(code), "{told}");
        let text = |name: &str| fs::read_to_string(home.store().join(name)).ok();
        assert_eq!(text("f").as_deref(), Some(wanted), "{told}");
        assert_eq!(text("g").is_some(), code == 4, "{told}");
    }
}

/// The owner's bytes in a file that a later run wrote to as well: a redo does not take it away.
#[test]
fn redo_spares_a_file_that_a_later_run_and_the_owner_wrote_to() {
    need_mount!();
    for last in ["true", "echo agent >> f"] {
        let prepare = |store: &Path| fs::write(store.join("f"), "1\n2\n3\n4\n").unwrap();
        let mut home = Home::prepared(prepare, &[]);
        home.sh("mv f f~; sed s/1/one/ f~ > f; rm f~");
        home.umount();
        let store = home.store().to_str().unwrap().to_owned();
        let undone = trumanfs(&["undo", &store, "--session", "last"]);
        assert!(undone.status.success(), "{}", describe(&undone));
        home.mount_again();
        let write = "printf Z | dd of=f bs=1 seek=3 conv=notrunc status=none";
        home.sh(write);
        home.umount();
        fs::write(home.store().join("f"), "1\nZ\nowner\n4\n").unwrap();
        home.mount_again();
        home.sh(last);
        home.umount();
        let is = fs::read_to_string(home.store().join("f")).unwrap();
        let redone = trumanfs(&["redo", &store]);
        let told = format!("{last}: {}", describe(&redone));
        assert!(
            redone.status.code() == Some(4) && told.contains("/f"),
            "{told}"
        );
        assert_eq!(
            fs::read_to_string(home.store().join("f")).unwrap(),
            is,
            "{told}"
        );
    }
}

/// A point after an undo that found the owner's change of a file shows no state of the file before that change.
#[test]
fn point_after_an_undo_has_what_the_owner_wrote_before_it() {
    need_mount!();
    let prepare = |store: &Path| fs::write(store.join("f"), "1\n2\n3\n4\n5\n6\n").unwrap();
    let mut home = Home::prepared(prepare, &[]);
    home.sh("sed s/1/one/ f > new; mv new f");
    home.umount();
    let store = home.store().to_str().unwrap().to_owned();
    let run = |words: &[&str]| {
        let done = trumanfs(words);
        assert!(done.status.success(), "{words:?}: {}", describe(&done));
    };
    let text = fs::read_to_string(home.store().join("f")).unwrap();
    fs::write(home.store().join("f"), text.replace('5', "owner")).unwrap();
    run(&["undo", &store, "--session", "last"]);
    run(&["redo", &store]);
    let is = fs::read(home.store().join("f")).unwrap();
    let sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
    let session = sessions
        .map(|entry| entry.unwrap().file_name())
        .max()
        .unwrap();
    let last = home.journal().last().unwrap()["seq"].to_string();
    let point = format!("{}:{last}", session.display());
    let shown = trumanfs(&["cat", &store, "/f", "--at", &point]);
    let is_true = match shown.status.code() {
        Some(0) => shown.stdout == is,
        _ => describe(&shown).contains("is unknown"),
    };
    assert!(is_true, "{}", describe(&shown));
}

/// A file that a later session moved is not gone because its first name is free: the move is in the way, and then both can
/// be taken back.
#[test]
fn new_file_that_was_moved_later_is_a_conflict() {
    need_mount!();
    for (moved, to) in [
        ("mv n f0", "f0"),
        ("mv n m", "m"),
        ("mkdir d; mv n d/n", "d/n"),
        ("ln n m; rm n", "m"),
    ] {
        let mut home = Home::prepared(|store| fs::write(store.join("f0"), "old\n").unwrap(), &[]);
        let start = look(home.store());
        home.sh("echo one > n; echo two >> n");
        let mut sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
        let session = sessions.next().unwrap().unwrap().file_name();
        let session = session.into_string().unwrap();
        home.remount();
        home.sh(moved);
        home.umount();
        let left = look(home.store());
        for (how, code) in [(&[][..], 4), (&["--force"], 5), (&["--keep-both"], 5)] {
            let said = undo(&home, &session, &[how, &["--dry-run"]].concat(), code);
            assert!(said.contains("/n was moved later"), "{moved}: {said}");
        }
        undo(&home, &session, &[], 4);
        assert_eq!(look(home.store()), left, "{moved}");
        let text = fs::read_to_string(home.store().join(to)).unwrap();
        assert_eq!(text, "one\ntwo\n", "{moved}");
        undo(&home, "all", &[], 0);
        assert_eq!(look(home.store()), start, "{moved}");
    }
}
