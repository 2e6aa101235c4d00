//! An intact store has no findings, whatever was done in it; in a store damaged on purpose, the damage is found and
//! described, and what can be repaired is repaired.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use crate::common::{Home, describe, need_mount, trumanfs};
use serde_json::Value;

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn fsck(store: &Path, more: &[&str]) -> Output {
    let mut args = vec![OsStr::new("fsck"), store.as_os_str()];
    args.extend(more.iter().map(OsStr::new));
    trumanfs(&args)
}

/// The kinds of what is found, problems only; the texts are in the second place.
#[track_caller]
fn problems(store: &Path, expected: i32, more: &[&str]) -> Vec<(String, String)> {
    let mut args = vec!["--json"];
    args.extend(more);
    let output = fsck(store, &args);
    assert_eq!(code(&output), expected, "{}", describe(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .filter(|f| f["weight"] == "problem" && f["repaired"] == false)
        .map(|f| {
            (
                f["kind"].as_str().unwrap().to_owned(),
                f["what"].as_str().unwrap().to_owned(),
            )
        })
        .collect()
}

fn sessions(store: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(store.join(".trumanfs/sessions"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    found.sort();
    found
}

/// A store with a bit of everything in it, unmounted.
fn worked_in() -> Home {
    // Made before, so that nobody has it open any more when it is changed: it is kept block by block then.
    let big = |store: &Path| {
        let bytes: Vec<u8> = (0..6_000_000_u32).map(|n| (n % 251) as u8).collect();
        fs::write(store.join("big"), bytes).unwrap();
    };
    let mut home = Home::prepared(big, &[]);
    home.sh("mkdir -p d/e; for i in 1 2 3 4 5; do echo $i > d/$i; echo $i > d/e/$i; done; echo a > a; ln a b; rm a");
    home.sh(
        "for i in 1 2 3; do echo version $i > f; done; echo x > g; echo y > h; mv g h; rm -r d",
    );
    home.sh("printf mid | dd of=big bs=1 seek=500000 conv=notrunc status=none");
    home.umount();
    home
}

#[test]
fn whole_stores_are_whole() {
    need_mount!();
    let mut home = worked_in();
    assert_eq!(problems(home.store(), 0, &[]), []);
    // While it is mounted and worked in, too.
    home.mount_again();
    let worker = std::thread::spawn({
        let dir = home.home().to_owned();
        move || {
            for round in 0..30 {
                let sub = dir.join(format!("w{round}"));
                fs::create_dir(&sub).unwrap();
                for i in 0..20 {
                    fs::write(sub.join(i.to_string()), "1").unwrap();
                    fs::write(sub.join(i.to_string()), "22").unwrap();
                }
                fs::remove_dir_all(&sub).unwrap();
            }
        }
    });
    while !worker.is_finished() {
        assert_eq!(problems(home.store(), 0, &[]), []);
    }
    worker.join().unwrap();
    // Entries that were purged, put back, gathered and put back from what they were gathered in.
    let entry = home.trashed("d").remove(0);
    let name = entry.file_name().unwrap().to_str().unwrap();
    home.sh(&format!(
        "mv .trash/{name}/e/3 three; mv .trash/{name}/e again; rm -r again"
    ));
    trumanfs(&[
        OsStr::new("trash"),
        OsStr::new("purge"),
        home.store().as_os_str(),
        OsStr::new("--keep-last"),
        OsStr::new("2"),
        OsStr::new("--versions"),
    ]);
    assert_eq!(problems(home.store(), 0, &[]), []);
    let text = fsck(home.home(), &[]);
    assert!(
        String::from_utf8_lossy(&text.stdout).contains("everything agrees"),
        "{}",
        describe(&text)
    );
    assert_eq!(
        code(&fsck(home.store(), &["--repair"])),
        6,
        "not while it is mounted"
    );
    home.kill_daemon();
    assert_eq!(problems(home.store(), 0, &[]), []);
    assert_eq!(problems(home.store(), 0, &["--repair"]), []);
    home.mount_again();
    home.umount();
    assert_eq!(problems(home.store(), 0, &[]), []);
}

/// A content whose file gets another inode is at its version's name only after its record: what was there before got the
/// digest, where another file was closed at that moment.
#[test]
fn contents_that_are_replaced_at_once_have_their_own_digests() {
    need_mount!();
    let mut home = Home::mount();
    std::thread::scope(|threads| {
        for thread in 0..8 {
            let home = &home;
            threads.spawn(move || {
                for i in 0..100 {
                    let file = home.path(format!("{thread}-{i}"));
                    fs::write(&file, "1").unwrap();
                    fs::write(&file, "22").unwrap();
                }
            });
        }
    });
    home.umount();
    assert_eq!(problems(home.store(), 0, &[]), []);
}

/// On a busy machine the daemon may be stopped between a record and what it records: "version has 0 bytes instead of 1".
#[test]
fn a_change_that_is_under_way_is_waited_for() {
    need_mount!();
    let home = Home::mount();
    fs::write(home.path("f"), "old").unwrap();
    fs::write(home.path("f"), "newer").unwrap();
    let version = sessions(home.store())
        .pop()
        .unwrap()
        .join("versions/00000001");
    assert_eq!(fs::read(&version).unwrap(), b"old");
    fs::write(&version, "").unwrap();
    let act = std::thread::spawn({
        let version = version.clone();
        move || {
            std::thread::sleep(std::time::Duration::from_millis(500));
            fs::write(version, "old").unwrap();
        }
    });
    assert_eq!(problems(home.store(), 0, &[]), []);
    act.join().unwrap();
    // What stays so is found.
    fs::write(&version, "").unwrap();
    assert_eq!(problems(home.store(), 1, &[]).len(), 1);
}

#[test]
fn a_changed_byte_is_named_with_its_line() {
    need_mount!();
    let home = worked_in();
    let journal = sessions(home.store()).pop().unwrap().join("journal.jsonl");
    let whole = fs::read(&journal).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|b| *b == b'\n').collect();
    let fourth: usize = lines[..3].iter().map(|line| line.len()).sum();
    // Every byte of a line that has others behind it.
    for at in (fourth..fourth + lines[3].len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x04;
        fs::write(&journal, &bytes).unwrap();
        let found = problems(home.store(), 1, &[]);
        let named = |(kind, what): &(String, String)| {
            (kind == "changed" || kind == "lines")
                && (what.contains("line 4") || what.contains("line 5"))
        };
        assert!(found.iter().any(named), "byte {at}: {found:?}");
    }
    // The other readers say so too, and do not show what follows as if it were sound.
    let mut bytes = whole.clone();
    let text = String::from_utf8(lines[3].to_vec())
        .unwrap()
        .replace("\"uid\":0", "\"uid\":7");
    bytes.splice(fourth..fourth + lines[3].len(), text.into_bytes());
    assert_ne!(bytes, whole);
    fs::write(&journal, &bytes).unwrap();
    let output = trumanfs(&[OsStr::new("log"), home.store().as_os_str()]);
    assert_eq!(code(&output), 5, "{}", describe(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("journal line 5"));
}

#[test]
fn a_removed_line_is_counted() {
    need_mount!();
    let home = worked_in();
    let journal = sessions(home.store()).pop().unwrap().join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let cut = [&lines[..4], &lines[6..]].concat().concat();
    fs::write(&journal, cut).unwrap();
    let found = problems(home.store(), 1, &[]);
    let lines = &found.iter().find(|(kind, _)| kind == "lines").unwrap().1;
    assert!(
        lines.contains("2 lines are missing before line 5") && lines.contains("record 5"),
        "{lines}"
    );
}

#[test]
fn the_end_of_an_old_session_that_was_cut_off_is_missed() {
    need_mount!();
    let mut home = worked_in();
    home.mount_again();
    home.umount();
    let journal = sessions(home.store()).remove(0).join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    // Its seal; the record before it, and so on: the next session knows how this one had ended.
    for cut in 1..6 {
        fs::write(&journal, lines[..lines.len() - cut].concat()).unwrap();
        let found = problems(home.store(), 1, &[]);
        let end = |(kind, _): &&(String, String)| kind == "end";
        assert_eq!(found.iter().filter(end).count(), 1, "{found:?}");
    }
    fs::remove_file(&journal).unwrap();
    let found = problems(home.store(), 1, &[]);
    assert!(found.iter().any(|(kind, _)| kind == "end"), "{found:?}");
}

#[test]
fn a_torn_end_is_cut_off_in_any_session() {
    need_mount!();
    let mut home = worked_in();
    home.mount_again();
    home.umount();
    for session in sessions(home.store()) {
        let journal = session.join("journal.jsonl");
        let whole = fs::read(&journal).unwrap();
        fs::write(
            &journal,
            [&whole[..], b"{\"v\":1,\"seq\":99,\"op\":\"unl"].concat(),
        )
        .unwrap();
        let found = problems(home.store(), 1, &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, "torn");
        assert_eq!(problems(home.store(), 0, &["--repair"]), []);
        assert_eq!(fs::read(&journal).unwrap()[..whole.len()], whole);
        assert_eq!(problems(home.store(), 0, &[]), []);
    }
    home.mount_again();
}

#[test]
fn a_session_with_a_break_can_be_closed_so_that_the_store_can_be_mounted() {
    need_mount!();
    let mut home = Home::mount();
    home.sh("echo 1 > a; echo 2 > b; echo 3 > c; rm a b c");
    home.kill_daemon();
    let journal = sessions(home.store()).pop().unwrap().join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(
        &journal,
        text.replacen("\"path\":\"/a\"", "\"path\":\"/x\"", 1),
    )
    .unwrap();
    let found = problems(home.store(), 1, &[]);
    let kinds: Vec<_> = found.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["changed", "end"], "{found:?}");
    let found = problems(home.store(), 5, &["--repair"]);
    assert_eq!(found.len(), 1, "the break stays: {found:?}");
    home.mount_again();
    home.umount();
    assert_eq!(problems(home.store(), 1, &[]).len(), 1);
}

#[test]
fn versions_that_are_missing_unfit_or_nobodys_are_named() {
    need_mount!();
    let home = worked_in();
    let versions = sessions(home.store()).pop().unwrap().join("versions");
    let mut names: Vec<_> = fs::read_dir(&versions)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let map = names
        .iter()
        .find(|name| name.ends_with(".map"))
        .expect("a version by blocks")
        .clone();
    let blocks = map.trim_end_matches(".map").to_owned();
    let first = names
        .iter()
        .find(|name| **name != blocks && !name.ends_with(".map"))
        .unwrap()
        .clone();
    let only = |kind: &str, word: &str| {
        let found = problems(home.store(), 1, &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, kind);
        assert!(found[0].1.contains(word), "{found:?}");
    };
    let away = versions.join("../away");
    fs::rename(versions.join(&first), &away).unwrap();
    only("version-missing", &first);
    fs::rename(&away, versions.join(&first)).unwrap();
    let content = fs::read(versions.join(&first)).unwrap();
    fs::write(versions.join(&first), "other").unwrap();
    only("version-unfit", "5 bytes instead of");
    fs::write(versions.join(&first), content).unwrap();
    let list = fs::read(versions.join(&map)).unwrap();
    for wrong in [
        "0 99999999\n",
        "0 x\n",
        "18446744073709551615 9\n",
        "\u{1b}[2J\n",
    ] {
        fs::write(versions.join(&map), wrong).unwrap();
        only("version-unfit", "a range that it cannot have");
    }
    fs::remove_file(versions.join(&map)).unwrap();
    only("version-unfit", "no list of its ranges");
    fs::write(versions.join(&map), list).unwrap();
    assert_eq!(problems(home.store(), 0, &[]), []);
    fs::write(versions.join("00004711"), "precious").unwrap();
    only("version-orphan", "00004711");
    assert_eq!(problems(home.store(), 0, &["--repair"]), []);
    let saved = home
        .trash()
        .into_iter()
        .find(|name| name.to_string_lossy().contains("00004711"));
    let saved = home
        .store()
        .join(".trash")
        .join(saved.expect("it lies in the trash"));
    assert_eq!(fs::read_to_string(saved).unwrap(), "precious");
}

#[test]
fn entries_that_are_missing_or_unknown_are_named() {
    need_mount!();
    let home = worked_in();
    let d = home.trashed("d").remove(0);
    let away = home.base().join("away");
    fs::rename(d.join("e/2"), &away).unwrap();
    // What lies deeper was gathered into an entry that is gathered itself; only the names directly in an entry are looked for.
    fs::rename(&away, d.join("e/2")).unwrap();
    fs::rename(d.join("3"), &away).unwrap();
    let found = problems(home.store(), 1, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].0 == "entry-missing" && found[0].1.contains("/d/3"),
        "{found:?}"
    );
    fs::rename(&away, d.join("3")).unwrap();
    fs::rename(&d, &away).unwrap();
    let found = problems(home.store(), 1, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.contains(": /d,"), "{found:?}");
    fs::rename(&away, &d).unwrap();
    let unknown = home
        .store()
        .join(".trash/29990101T000000.000000Z_from the future");
    fs::write(&unknown, "").unwrap();
    fs::write(home.store().join(".trash/README"), "").unwrap();
    let found = problems(home.store(), 1, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, "entry-unknown");
    fs::remove_file(unknown).unwrap();
    // The file moves away and lives on, so that no file system can give its number to the one in its place.
    let h = home.trashed("h").remove(0);
    fs::rename(&h, &away).unwrap();
    fs::write(&h, "another").unwrap();
    let found = problems(home.store(), 1, &[]);
    assert!(
        found.iter().all(|(kind, _)| kind == "entry-other"),
        "{found:?}"
    );
}

#[test]
fn a_store_that_was_copied_is_no_damage() {
    need_mount!();
    let home = worked_in();
    let copy = home.base().join("copy");
    let status = std::process::Command::new("cp")
        .arg("-a")
        .arg(home.store())
        .arg(&copy)
        .status();
    assert!(status.unwrap().success());
    // The list of hard links names inodes of the other store.
    let found = problems(&copy, 0, &["--repair"]);
    assert_eq!(found, []);
    assert_eq!(problems(&copy, 0, &[]), []);
}

#[test]
fn a_copy_of_a_store_that_is_served_can_be_mounted() {
    need_mount!();
    let home = Home::mount();
    home.sh("echo a > a");
    let (copy, at) = (home.base().join("copy"), home.base().join("at"));
    let mut copying = std::process::Command::new("cp");
    copying.arg("-a").arg(home.store()).arg(&copy);
    assert!(copying.status().unwrap().success());
    fs::create_dir(&at).unwrap();
    let other = trumanfs(&["mount".as_ref(), copy.as_os_str(), at.as_os_str()]);
    assert!(other.status.success(), "{}", describe(&other));
    assert_eq!(fs::read_to_string(at.join("a")).unwrap(), "a\n");
    let other = trumanfs(&["umount".as_ref(), at.as_os_str()]);
    assert!(other.status.success(), "{}", describe(&other));
}

/// A kill came after the record of a gathering and before its move.
#[test]
fn entry_that_was_not_gathered_and_was_restored_is_not_missing() {
    need_mount!();
    let mut home = Home::prepared(|store| fs::write(store.join("f"), "x").unwrap(), &[]);
    home.sh("mkdir d; mv f d; rm -r d");
    let records = home.journal();
    home.umount();
    let trash = home.store().join(".trash");
    let gather = records.iter().find(|line| line["op"] == "gather").unwrap();
    let (into, entry) = (&gather["trash"], &gather["entries"][0]);
    let at = |name: &Value| trash.join(name.as_str().unwrap());
    fs::rename(at(into).join("f"), at(entry)).unwrap();
    let undone = trumanfs(&[
        "undo".as_ref(),
        home.store().as_os_str(),
        "--session".as_ref(),
        "last".as_ref(),
    ]);
    assert!(undone.status.success(), "{}", describe(&undone));
    assert_eq!(problems(home.store(), 0, &[]), []);
}

#[test]
fn lists_are_written_anew_and_missing_directories_made() {
    need_mount!();
    let mut home = Home::prepared(
        |store| fs::create_dir_all(store.join("d/secret")).unwrap(),
        &["--hide", "/d/secret"],
    );
    home.sh("echo a > a; ln a b; rm a; mv d e; rmdir e");
    home.umount();
    assert_eq!(problems(home.store(), 0, &[]), []);
    for entry in home.trash() {
        let entry = home.store().join(".trash").join(entry);
        let _ = fs::remove_file(&entry).or_else(|_| fs::remove_dir_all(&entry));
    }
    let kinds = |found: Vec<(String, String)>| {
        let mut kinds: Vec<_> = found.into_iter().map(|(kind, _)| kind).collect();
        kinds.sort();
        kinds
    };
    assert_eq!(
        kinds(problems(home.store(), 1, &[])),
        ["entry-missing", "entry-missing", "links", "pinned"]
    );
    assert_eq!(
        kinds(problems(home.store(), 5, &["--repair"])),
        ["entry-missing", "entry-missing"]
    );
    assert_eq!(
        fs::read_to_string(home.store().join(".trumanfs/pinned")).unwrap(),
        ""
    );
    fs::remove_dir_all(home.store().join(".trash")).unwrap();
    assert!(kinds(problems(home.store(), 1, &[])).contains(&"layout".to_owned()));
    problems(home.store(), 5, &["--repair"]);
    assert!(home.store().join(".trash").is_dir());
}

#[test]
fn a_long_journal_is_checked_in_seconds() {
    need_mount!();
    let mut home = Home::mount();
    home.umount();
    // Written with the library, as a daemon would: a record in this build costs about as much to check as to write.
    let session = home
        .store()
        .join(".trumanfs/sessions/20200101T000000.000000Z-0001");
    fs::create_dir(&session).unwrap();
    let file = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(session.join("journal.jsonl"))
        .unwrap();
    let journal = trumanfs::journal::Journal::new(file.into(), None, false, 0);
    let path =
        |n: u32| trumanfs::name::WorldPath::parse(format!("/dir/file{n}").as_bytes()).unwrap();
    for n in 0..50_000 {
        let op = trumanfs::journal::Op::Create {
            path: path(n),
            mode: 0o644,
            dropped: None,
        };
        journal.note(op, None).unwrap();
    }
    journal
        .note(trumanfs::journal::Op::End { settled: false }, None)
        .unwrap();
    journal.trim();
    let start = Instant::now();
    assert_eq!(problems(home.store(), 0, &[]), []);
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn an_empty_journal_between_others_is_no_damage() {
    need_mount!();
    let mut home = worked_in();
    home.umount();
    let mut after = sessions(home.store()).pop().unwrap().into_os_string();
    after.push("z");
    fs::create_dir(&after).unwrap();
    fs::write(Path::new(&after).join("journal.jsonl"), "").unwrap();
    home.mount_again();
    home.umount();
    assert_eq!(problems(home.store(), 0, &[]), []);
}

/// A kill came after the move of a hard link into the trash or out of it, and before its line in the list.
#[test]
fn the_last_hard_links_in_the_trash_are_counted_after_a_crash() {
    need_mount!();
    for (script, links) in [
        ("ln a b; rm a", 1),
        ("ln a b; rm a; mv .trash/*_a c", 2),
        ("ln a b; mkdir d; mv a d; rm -r d; mv .trash/*_d c", 2),
        ("ln a b; echo other > c; mv -f c a", 1),
    ] {
        let mut home = Home::prepared(|store| fs::write(store.join("a"), "x").unwrap(), &[]);
        home.sh(script);
        home.kill_daemon();
        let list = home.store().join(".trumanfs/links");
        let text = fs::read_to_string(&list).unwrap();
        let last = text.trim_end().rfind('\n').map_or(0, |end| end + 1);
        fs::write(&list, text.get(..last).unwrap()).unwrap();
        home.mount_again();
        assert_eq!(
            fs::metadata(home.path("b")).unwrap().nlink(),
            links,
            "{script}"
        );
        home.umount();
        assert_eq!(problems(home.store(), 0, &[]), [], "{script}");
    }
}
