//! Stamps: the states in which the home leaves files are in the journal soon after, and no state that it did not see.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::common::disk::Disk;
use crate::common::{Home, describe, need_mount, need_passthrough, need_tools, skip, trumanfs};

/// All stamps in a store's seals, oldest first, after the last journal was sealed.
fn stamps(store: &Path) -> Vec<Value> {
    let logged = trumanfs(&["log", store.to_str().unwrap()]);
    assert!(logged.status.success(), "{}", describe(&logged));
    let listed = fs::read_dir(store.join(".trumanfs/sessions")).unwrap();
    let mut sessions: Vec<_> = listed.map(|entry| entry.unwrap().path()).collect();
    sessions.sort();
    let mut stamps = Vec::new();
    for session in sessions {
        let text = fs::read_to_string(session.join("journal.jsonl")).unwrap();
        for line in text.lines().filter(|line| line.contains("\"stamps\":")) {
            let seal: Value = serde_json::from_str(line).unwrap();
            stamps.extend(seal["stamps"].as_array().unwrap().iter().cloned());
        }
    }
    stamps
}

/// The last stamp of a file that lies in the store and was left.
pub(crate) fn stamp_of(store: &Path, name: &str) -> Option<Value> {
    let inode = fs::metadata(store.join(name)).unwrap().ino();
    let is_it = |stamp: &Value| stamp["ids"][1].as_u64() == Some(inode) && stamp["made"] != true;
    stamps(store).into_iter().rev().find(is_it)
}

/// Expects that the last stamp of a file says how the file is. Returns the record that it follows.
#[track_caller]
pub(crate) fn expect_stamped(store: &Path, name: &str) -> u64 {
    let meta = fs::metadata(store.join(name)).unwrap();
    let time = |stamp: &Value, field: &str| (stamp[field][0].as_i64(), stamp[field][1].as_i64());
    let is_so = |stamp: &Value| {
        stamp["size"].as_u64() == Some(meta.size())
            && time(stamp, "mtime") == (Some(meta.mtime()), Some(meta.mtime_nsec()))
            && time(stamp, "ctime") == (Some(meta.ctime()), Some(meta.ctime_nsec()))
    };
    // Without passthrough the stamp is due when the kernel tells of the close, which close(2) does not wait for.
    let limit = Instant::now() + Duration::from_secs(20);
    loop {
        let stamp = stamp_of(store, name);
        match stamp.as_ref().filter(|stamp| is_so(stamp)) {
            Some(stamp) => return stamp["seq"].as_u64().unwrap(),
            None => assert!(Instant::now() < limit, "{name}: {stamp:?}, {meta:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The number of a file's last record.
fn last_record(home: &Home, path: &str) -> u64 {
    let records = home.journal();
    let mut of = records.iter().rev();
    of.find(|record| record["path"] == path).unwrap()["seq"]
        .as_u64()
        .unwrap()
}

#[test]
fn file_that_was_closed_has_a_stamp() {
    need_mount!();
    for options in [&[][..], &["--no-passthrough"]] {
        let home = Home::prepared(
            |store| {
                for name in ["old", "cut", "appended"] {
                    fs::write(store.join(name), "former").unwrap();
                }
            },
            options,
        );
        fs::write(home.path("new"), "new").unwrap();
        fs::write(home.path("old"), "longer than before").unwrap();
        let cut = fs::File::options().write(true).open(home.path("cut"));
        cut.unwrap().write_all_at(b"F", 0).unwrap();
        rustix::fs::ftruncate(
            fs::File::options()
                .write(true)
                .open(home.path("cut"))
                .unwrap(),
            3,
        )
        .unwrap();
        let appended = fs::File::options().append(true).open(home.path("appended"));
        appended.unwrap().write_all(b"more").unwrap();
        fs::File::create(home.path("empty")).unwrap();
        fs::File::create(home.path("mode")).unwrap();
        fs::set_permissions(home.path("mode"), fs::Permissions::from_mode(0o600)).unwrap();
        for name in ["new", "old", "cut", "appended", "empty", "mode"] {
            let seq = expect_stamped(home.store(), name);
            assert_eq!(
                seq,
                last_record(&home, &format!("/{name}")),
                "{name} {options:?}"
            );
        }
    }
}

/// The kernel tells of a close when it likes: another request about the file may come first, or hold its lock.
#[test]
fn file_whose_attributes_change_as_it_is_closed_has_a_stamp() {
    need_mount!();
    for options in [&[][..], &["--no-passthrough"]] {
        let home = Home::with(options);
        let names: Vec<String> = (0..400).map(|n| format!("f{n}")).collect();
        std::thread::scope(|scope| {
            for some in names.chunks(50) {
                let home = &home;
                scope.spawn(move || {
                    for name in some {
                        let path = home.path(name);
                        fs::File::create(&path).unwrap();
                        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
                        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
                        let open = fs::File::open(&path).unwrap();
                        open.set_modified(time).unwrap();
                    }
                });
            }
        });
        for name in ["f0", "f399"] {
            expect_stamped(home.store(), name);
        }
        let stamps = stamps(home.store());
        for name in &names {
            let meta = fs::metadata(home.store().join(name)).unwrap();
            let is_it = |stamp: &&Value| {
                stamp["ids"][1].as_u64() == Some(meta.ino()) && stamp["made"] != true
            };
            let last = stamps.iter().rfind(is_it);
            let times = last.map(|last| last["mtime"][0].as_i64());
            assert_eq!(
                times,
                Some(Some(meta.mtime())),
                "{name} {options:?}: {last:?}"
            );
        }
    }
}

/// Also where another record about the file came before the close.
#[test]
fn record_of_a_new_file_has_a_stamp_that_names_the_inode() {
    need_mount!();
    for options in [&[][..], &["--no-passthrough"]] {
        let home = Home::with(options);
        let mut file = fs::File::create(home.path("f")).unwrap();
        fs::set_permissions(home.path("f"), fs::Permissions::from_mode(0o600)).unwrap();
        file.write_all(b"text").unwrap();
        drop(file);
        fs::rename(home.path("f"), home.path("g")).unwrap();
        let records = home.journal();
        let made = records.iter().find(|record| record["op"] == "create");
        let seq = &made.unwrap()["seq"];
        let inode = fs::metadata(home.store().join("g")).unwrap().ino();
        let all = stamps(home.store());
        let made: Vec<_> = all.iter().filter(|stamp| stamp["seq"] == *seq).collect();
        assert!(!made.is_empty());
        assert!(
            made.iter()
                .all(|stamp| stamp["ids"][1] == inode && stamp["ids"][0] == 0)
        );
    }
}

#[test]
fn file_whose_daemon_is_killed_has_no_stamp() {
    need_mount!();
    let mut home = Home::prepared(|store| fs::write(store.join("f"), "former").unwrap(), &[]);
    need_passthrough!(home);
    let file = fs::File::options()
        .write(true)
        .open(home.path("f"))
        .unwrap();
    file.write_all_at(b"longer than before", 0).unwrap();
    home.kill_daemon_only();
    drop(file);
    home.detach();
    assert_eq!(stamp_of(home.store(), "f"), None);
    let again = home.mount_again();
    assert!(again.status.success(), "{}", describe(&again));
    assert_eq!(stamp_of(home.store(), "f"), None);
}

/// The power may have taken what the home wrote, and left the stamp: the next session settles this one, but that is no
/// end of its own.
#[test]
fn stamps_of_a_session_that_was_settled_are_no_evidence() {
    need_mount!();
    let mut home = Home::prepared(|store| fs::write(store.join("f"), "former").unwrap(), &[]);
    fs::write(home.path("f"), "longer than before").unwrap();
    let written = expect_stamped(home.store(), "f").to_string();
    home.kill_daemon_only();
    home.detach();
    fs::write(home.store().join("f"), "longer").unwrap();
    let again = home.mount_again();
    assert!(again.status.success(), "{}", describe(&again));
    home.umount();
    let store = home.store().to_str().unwrap();
    let sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
    let first = sessions.map(|entry| entry.unwrap().file_name()).min();
    let operation = format!("{}:{written}", first.unwrap().to_str().unwrap());
    let undone = trumanfs(&["undo", store, &operation]);
    assert!(undone.status.success(), "{}", describe(&undone));
    assert_eq!(fs::read(home.store().join("f")).unwrap(), b"former");
}

#[test]
fn files_of_an_unmounted_store_have_stamps() {
    let store = tempfile::tempdir().unwrap();
    let run = |line: &str| {
        let store = store.path().to_str().unwrap();
        let done = trumanfs(&["exec", "--root", store, "--", line]);
        assert!(done.status.success(), "{}", describe(&done));
    };
    run("mkdir d && echo 1 > d/f && cp d/f d/g");
    expect_stamped(store.path(), "d/f");
    expect_stamped(store.path(), "d/g");
    run("echo 2 >> d/f && echo 3 > d/g");
    expect_stamped(store.path(), "d/f");
    expect_stamped(store.path(), "d/g");
}

/// An operator's changes are the home's, too.
#[test]
fn contents_that_an_operator_puts_back_have_stamps() {
    need_mount!();
    let mut home = Home::prepared(|store| fs::write(store.join("f"), "former").unwrap(), &[]);
    fs::write(home.path("f"), "1").unwrap();
    for mounted in [true, false] {
        if !mounted {
            fs::write(home.path("f"), "2").unwrap();
            home.umount();
        }
        let store = home.store().to_str().unwrap();
        let undo = trumanfs(&["undo", store, "--session", "last"]);
        assert!(undo.status.success(), "{}", describe(&undo));
        assert_eq!(
            fs::read_to_string(home.store().join("f")).unwrap(),
            "former"
        );
        expect_stamped(home.store(), "f");
    }
}

/// As git writes an index: with its creation and its rename a new file has stamps, and what is written in between, which
/// no record tells, is no change of somebody else.
#[test]
fn file_written_before_its_rename_is_undone() {
    need_mount!();
    let mut home = Home::prepared(
        |store| fs::write(store.join("index"), "former").unwrap(),
        &[],
    );
    let store = home.store().to_owned();
    home.sh("exec 3<>index.lock; echo one >&3; mv index.lock index; echo two >&3; exec 3>&-");
    home.umount();
    let undone = trumanfs(&["undo", store.to_str().unwrap(), "--session", "last"]);
    assert!(undone.status.success(), "{}", describe(&undone));
    assert_eq!(fs::read(store.join("index")).unwrap(), b"former");
}

/// Waits until the daemon has marked a file that the home has open.
#[track_caller]
fn await_mark(home: &Home, name: &str) {
    let inode = fs::metadata(home.store().join(name)).unwrap().ino();
    let wanted = format!("fanotify ino:{inode:x} ");
    let descriptors = format!("/proc/{}/fdinfo", home.daemon_pid());
    let limit = Instant::now() + Duration::from_secs(20);
    let is_marked = || {
        let mut infos = fs::read_dir(&descriptors).unwrap();
        infos.any(|info| {
            let told = fs::read_to_string(info.unwrap().path()).unwrap_or_default();
            told.lines().any(|line| line.starts_with(&wanted))
        })
    };
    while !is_marked() {
        assert!(Instant::now() < limit, "{name} is not marked");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Undoes the last session, after the end of the home.
pub(crate) fn undo_last(home: &mut Home, how: &[&str]) -> (Option<i32>, String) {
    home.umount();
    let mut words = vec!["undo", home.store().to_str().unwrap(), "--session", "last"];
    words.extend(how);
    let output = trumanfs(&words);
    (output.status.code(), describe(&output))
}

/// The ways in which a program of the home has a file open for writing.
fn open_modes() -> [fs::OpenOptions; 3] {
    let (mut writes, mut both, mut appends) = (
        fs::OpenOptions::new(),
        fs::OpenOptions::new(),
        fs::OpenOptions::new(),
    );
    writes.write(true);
    both.read(true).write(true);
    appends.append(true);
    [writes, both, appends]
}

/// A file that a program keeps open, as a server does its log, and that its owner saves in place meanwhile: nobody knows
/// which of it is whose.
#[test]
fn file_that_both_write_to_is_a_conflict() {
    need_mount!();
    for options in [&[][..], &["--no-passthrough"]] {
        for mode in open_modes() {
            for (before, after) in [("2\n", "3\n"), ("2\n", ""), ("", "3\n"), ("", "")] {
                let mut home =
                    Home::prepared(|store| fs::write(store.join("f"), "1\n").unwrap(), options);
                let mut file = mode.open(home.path("f")).unwrap();
                file.write_all(before.as_bytes()).unwrap();
                await_mark(&home, "f");
                // In a process of its own: what another test forks at this moment has all files of this one open.
                let owner = Command::new("sh")
                    .args(["-c", "echo owner >>f"])
                    .current_dir(home.store())
                    .status();
                assert!(owner.unwrap().success());
                file.write_all(after.as_bytes()).unwrap();
                drop(file);
                let is = fs::read(home.store().join("f")).unwrap();
                let (code, told) = undo_last(&mut home, &[]);
                let case = format!("{options:?} {mode:?} {before:?} {after:?}: {told}");
                assert!(code == Some(4) && told.contains("/f"), "{case}");
                assert!(fs::read(home.store().join("f")).unwrap() == is, "{case}");
                let (code, told) = undo_last(&mut home, &["--force"]);
                let case = format!("{case}{told}");
                assert!(code == Some(0), "{case}");
                assert!(
                    fs::read(home.store().join("f")).unwrap() == b"1\n",
                    "{case}"
                );
            }
        }
    }
}

/// A program of the home that maps the file closes one of two descriptors while the owner is writing.
#[test]
fn what_an_owner_was_writing_at_a_close_is_not_the_homes() {
    need_mount!();
    need_tools!("python3");
    let mut home = Home::prepared(|store| fs::write(store.join("f"), "1\n").unwrap(), &[]);
    let script = "import mmap,os,sys; f = os.open('f', os.O_RDWR); m = mmap.mmap(f, 0); input()
o = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND); os.write(o, b'owner\\n')
os.close(os.dup(f)); os.close(o); m.close(); os.close(f)";
    let mut program = Command::new("python3")
        .args(["-c", script])
        .arg(home.store().join("f"))
        .current_dir(home.home())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    await_mark(&home, "f");
    program.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(program.wait().unwrap().success());
    let (code, told) = undo_last(&mut home, &[]);
    assert!(code == Some(4) && told.contains("/f"), "{told}");
}

/// Only the owner's closes are somebody else's: not those of a second program of the home, or of a verb.
#[test]
fn file_that_two_programs_of_the_home_write_to_is_none() {
    need_mount!();
    for options in [&[][..], &["--no-passthrough"]] {
        for mode in open_modes() {
            let mut home =
                Home::prepared(|store| fs::write(store.join("f"), "1\n").unwrap(), options);
            let mut file = mode.open(home.path("f")).unwrap();
            file.write_all(b"2\n").unwrap();
            await_mark(&home, "f");
            home.sh("echo second >>f; truncate -s 4 f; cat f >/dev/null");
            file.write_all(b"3\n").unwrap();
            drop(file);
            let (code, told) = undo_last(&mut home, &[]);
            assert!(code == Some(0), "{options:?} {mode:?}: {told}");
            assert!(
                fs::read(home.store().join("f")).unwrap() == b"1\n",
                "{told}"
            );
        }
    }
}

/// The number of a file that its owner has saved anew is free, and the home's next file may get it: what is known of that
/// one is not the former one's.
#[test]
fn number_that_another_file_gets_tells_nothing_of_the_former() {
    need_mount!();
    let mut home = Home::prepared(|store| fs::write(store.join("f"), "1\n").unwrap(), &[]);
    home.sh("echo agent >>f");
    let point = last_record(&home, "/f");
    let at = home.store().join("f");
    let inode = fs::metadata(&at).unwrap().ino();
    fs::write(home.store().join("new"), "1\nagent\nowner\n").unwrap();
    fs::rename(home.store().join("new"), &at).unwrap();
    // Where the file system gives numbers again, one of the next files has it.
    for n in 0..50 {
        home.sh(&format!("echo other >n{n}; echo more >>n{n}"));
        let made = fs::metadata(home.store().join(format!("n{n}"))).unwrap();
        if made.ino() == inode {
            break;
        }
    }
    home.umount();
    for seq in [point, point + 1, point + 2] {
        let at = seq.to_string();
        let words = ["cat", home.store().to_str().unwrap(), "/f", "--at", &at];
        let output = trumanfs(&words);
        let told = describe(&output);
        let is_true = output.stdout == b"1\nagent\n" || !output.status.success();
        assert!(is_true && !told.contains("other"), "{at}: {told}");
    }
}

/// The power goes just after the end of a session: with `--durable` all that it left is there, as its stamps say.
#[test]
fn durable_session_leaves_its_files_after_a_power_cut() {
    need_mount!();
    let base = match Disk::new(&["mkfs.xfs", "-q", "-m", "reflink=1"], 1024) {
        Ok(base) => base,
        Err(why) => skip!(
            "xfs",
            "no file system that clones files: {why} (package xfsprogs)"
        ),
    };
    for (mkfs, megabytes) in [(["mkfs.ext4", "-q"], 64), (["mkfs.xfs", "-q"], 320)] {
        let disk = Disk::within(&base.at("mnt"), &mkfs, megabytes).unwrap();
        let at = disk.store().join("f");
        fs::write(&at, "1\n").unwrap();
        fs::File::open(&at).unwrap().sync_all().unwrap();
        disk.mount_home("--durable");
        fs::write(disk.home("f"), "agent\n").unwrap();
        fs::write(disk.home("new"), "new\n").unwrap();
        disk.umount_home();
        let after = disk.cut(&base.at("mnt"));
        let read = |name: &str| fs::read_to_string(after.store().join(name)).unwrap();
        assert_eq!([read("f"), read("new")], ["agent\n", "new\n"], "{mkfs:?}");
        let told = after.says(&["undo", "--session", "last"]);
        assert!(told.starts_with("undone"), "{mkfs:?}: {told}");
        assert_eq!(fs::read(after.store().join("f")).unwrap(), b"1\n");
        assert!(!after.store().join("new").exists());
    }
}

/// An editor in the home makes the former file a backup, and its owner puts another one there: that is no former content.
#[test]
fn file_that_its_owner_moved_over_a_backup_does_not_come_back_as_the_former() {
    need_mount!();
    let fill = |store: &Path| {
        fs::write(store.join("f"), "former\n").unwrap();
        fs::write(store.join("g"), "owner\n").unwrap();
    };
    let mut home = Home::prepared(fill, &[]);
    home.sh("mv f f~; echo agent >f");
    fs::rename(home.store().join("g"), home.store().join("f~")).unwrap();
    let (code, told) = undo_last(&mut home, &[]);
    assert!(code == Some(4) && told.contains("/f~"), "{told}");
    let read = |name: &str| fs::read_to_string(home.store().join(name)).unwrap();
    assert_eq!([read("f"), read("f~")], ["agent\n", "owner\n"]);
}

/// A file that its owner moves over another one brings its own past along, not that of its new name.
#[test]
fn file_that_its_owner_moved_over_another_shows_no_past_there() {
    need_mount!();
    for line in [
        "ln d/c n",
        "echo more >>d/c",
        "chmod 600 d/c",
        "mv d/c d/k; mv d/k d/c",
    ] {
        let fill = |store: &Path| {
            fs::create_dir(store.join("d")).unwrap();
            fs::write(store.join("d/c"), "moved\n").unwrap();
            fs::write(store.join("b"), "replaced\n").unwrap();
        };
        let mut home = Home::prepared(fill, &[]);
        home.sh(&format!("{line}; mv d e"));
        let point = home.journal().last().unwrap()["seq"].as_u64().unwrap();
        let shown = |path: &str, at: u64| {
            let at = at.to_string();
            trumanfs(&["cat", home.store().to_str().unwrap(), path, "--at", &at])
        };
        // A directory that only moved hides nothing.
        assert!(shown("/e/c", point).status.success(), "{line}");
        fs::rename(home.store().join("e/c"), home.store().join("b")).unwrap();
        for at in 2..=point {
            let output = shown("/b", at);
            assert!(
                !output.status.success(),
                "{line}: {at}: {}",
                describe(&output)
            );
        }
        home.umount();
    }
}

/// The later lines of the owner are not merged into a file that goes into the trash again.
#[test]
fn file_that_goes_into_the_trash_again_with_the_owners_lines_is_a_conflict() {
    need_mount!();
    let lines = "1\n2\n3\n4\n5\n6\n";
    let fill = |store: &Path| {
        fs::write(store.join("f"), lines).unwrap();
        fs::write(store.join("g"), "other\n").unwrap();
    };
    let mut home = Home::prepared(fill, &[]);
    home.sh("printf two | dd of=f bs=1 seek=2 conv=notrunc status=none; mv g f");
    let (code, told) = undo_last(&mut home, &[]);
    assert_eq!(code, Some(0), "{told}");
    let at = home.store().join("f");
    let saved = format!("{lines}owner\n");
    fs::write(home.store().join("new"), &saved).unwrap();
    fs::rename(home.store().join("new"), &at).unwrap();
    let output = trumanfs(&["redo", home.store().to_str().unwrap()]);
    let told = describe(&output);
    assert!(
        output.status.code() == Some(4) && told.contains("/f"),
        "{told}"
    );
    assert_eq!(fs::read_to_string(at).unwrap(), saved);
}

/// The text that a run left in a home that stays mounted is copied soon after its end: later lines of the owner are merged.
#[test]
fn what_a_run_left_in_a_mounted_home_is_the_base_of_a_merge() {
    need_mount!();
    for then in ["true", "mv f g && mv g f", "chmod 600 f", "touch f"] {
        let prepare = |store: &Path| fs::write(store.join("f"), "1\n2\n3\n4\n5\n").unwrap();
        let home = Home::prepared(prepare, &[]);
        let exec = |line: &str| {
            let output = trumanfs(&["exec", "--root", home.home().to_str().unwrap(), line]);
            assert!(output.status.success(), "{}", describe(&output));
        };
        exec("echo agent >> f");
        let limit = Instant::now() + Duration::from_secs(20);
        while stamp_of(home.store(), "f").is_none_or(|stamp| stamp["n"].is_null()) {
            assert!(Instant::now() < limit, "no copy");
            std::thread::sleep(Duration::from_millis(20));
        }
        home.sh(then);
        let owner = Command::new("sh")
            .args(["-c", "printf 'owner\\n2\\n3\\n4\\n5\\nagent\\n' >f"])
            .current_dir(home.store())
            .status();
        assert!(owner.unwrap().success());
        let undone = trumanfs(&["undo", home.store().to_str().unwrap(), "--run", "last"]);
        let told = format!("{then}: {}", describe(&undone));
        assert!(undone.status.code() == Some(0), "{told}");
        assert!(told.contains("of /f; kept 1 later change"), "{told}");
        let is = fs::read_to_string(home.store().join("f")).unwrap();
        assert_eq!(is, "owner\n2\n3\n4\n5\n", "{told}");
        let fsck = trumanfs(&["fsck", home.store().to_str().unwrap()]);
        assert!(fsck.status.success(), "{}", describe(&fsck));
    }
}

/// A file that its owner saved anew, after giving the former one a further name: what the home wrote to that later is
/// none of the past of the first name.
#[test]
fn later_lines_of_a_further_name_are_no_past_of_the_first() {
    need_mount!();
    let mut home = Home::mount();
    fs::write(home.path("f"), "1\n").unwrap();
    let sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
    let session = sessions.last().unwrap().unwrap().file_name();
    let point = format!("{}:{}", session.display(), last_record(&home, "/f"));
    home.umount();
    fs::hard_link(home.store().join("f"), home.store().join("g")).unwrap();
    fs::write(home.store().join("new"), "owner\n").unwrap();
    fs::rename(home.store().join("new"), home.store().join("f")).unwrap();
    home.mount_again();
    home.sh("echo agent >> g");
    home.umount();
    fs::write(home.store().join("g"), "1\nagent\nowner\n").unwrap();
    let shown = trumanfs(&["cat", home.store().to_str().unwrap(), "/f", "--at", &point]);
    let is_true = match shown.status.code() {
        Some(0) => shown.stdout == b"1\n",
        _ => describe(&shown).contains("is unknown"),
    };
    assert!(is_true, "{}", describe(&shown));
}

/// A file that its owner put where another one was that the home had there: it is no successor of that one, which was
/// somewhere else at the point, or gone.
#[test]
fn file_that_came_to_a_place_after_another_had_left_has_no_past_of_it() {
    need_mount!();
    let cases = [
        ("mv f f~ && echo owner >f", "echo agent >> f~", "rm f~"),
        ("true", "rm f", "echo owner >f"),
        ("true", "mv f g", "echo owner >f; rm g"),
    ];
    for (first, change, last) in cases {
        let mut home = Home::prepared(|store| fs::write(store.join("f"), "1\n").unwrap(), &[]);
        home.sh("echo 2 >> f");
        home.umount();
        let store = home.store().to_owned();
        let owner = |line: &str| {
            let mut shell = Command::new("sh");
            let status = shell.args(["-c", line]).current_dir(&store).status();
            assert!(status.unwrap().success());
        };
        owner(first);
        home.mount_again();
        home.sh(change);
        let records = home.journal();
        home.umount();
        owner(last);
        let sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
        let session = sessions
            .map(|entry| entry.unwrap().file_name())
            .max()
            .unwrap();
        let point = format!("{}:{}", session.display(), records.last().unwrap()["seq"]);
        let shown = trumanfs(&["cat", home.store().to_str().unwrap(), "/f", "--at", &point]);
        let is_true = match shown.status.code() {
            Some(0) => first != "true" && shown.stdout == b"owner\n",
            _ => ["is unknown", "nothing was at"]
                .iter()
                .any(|words| describe(&shown).contains(words)),
        };
        assert!(is_true, "{first}, {change}, {last}: {}", describe(&shown));
    }
}
