//! The command line: every refusal with its message and exit code, output for people and for programs, and the ways a
//! mount ends.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::common::{Home, copy_program, describe, need_mount, need_root, skip, trumanfs, watch};
use rustix::process::{Pid, Signal};
use serde_json::Value;

/// A directory with a store and a home in it, unmounted.
fn places() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::TempDir::with_prefix("trumanfs-").unwrap();
    let base = fs::canonicalize(dir.path()).unwrap();
    let (store, home) = (base.join("store"), base.join("home"));
    fs::create_dir(&store).unwrap();
    fs::create_dir(&home).unwrap();
    (dir, store, home)
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Runs the binary and expects an exit code, words on stderr, and nothing on stdout.
#[track_caller]
fn refused<A: AsRef<OsStr>>(args: &[A], expected: i32, words: &[&str]) -> Output {
    let output = trumanfs(args);
    assert_eq!(code(&output), expected, "{}", describe(&output));
    let said = err(&output);
    for word in words {
        assert!(said.contains(word), "no {word:?} in {said:?}");
    }
    assert!(out(&output).is_empty(), "{}", describe(&output));
    output
}

fn mount_args<'a>(store: &'a Path, home: &'a Path, more: &'a [&'a str]) -> Vec<&'a OsStr> {
    let mut args = vec![OsStr::new("mount"), store.as_os_str(), home.as_os_str()];
    args.extend(more.iter().map(OsStr::new));
    args
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn last_op(home: &Home) -> String {
    let journal = home.journal();
    journal.last().unwrap()["op"].as_str().unwrap().to_owned()
}

// What was typed

#[test]
fn what_was_typed_wrongly_ends_with_2() {
    refused::<&str>(&[], 2, &["Usage"]);
    refused(&["nonsense"], 2, &["nonsense"]);
    refused(&["mount", "only-one"], 2, &["<HOME>"]);
    refused(
        &["mount", "a", "b", "--no-such-option"],
        2,
        &["--no-such-option"],
    );
    refused(
        &["mount", "a", "b", "--symlinks", "outside"],
        2,
        &["outside", "hidden", "inside"],
    );
    refused(
        &["mount", "a", "b", "--trash", "gone"],
        2,
        &["gone", "unlisted", "listed"],
    );
    refused(&["mount", "a", "b", "--cache-ttl", "long"], 2, &["long"]);
    refused(
        &["mount", "a", "b", "--owner", "x", "--allow-other"],
        2,
        &["--owner", "--allow-other"],
    );
    refused(&["trash"], 2, &["list", "restore"]);
    refused(&["trash", "restore", "a"], 2, &["<ENTRY>"]);
    refused(&["log"], 2, &["no store encloses", "log TARGET"]);
}

#[test]
fn help_and_version_end_with_0_and_are_no_errors() {
    for args in [
        &["--help"][..],
        &["mount", "--help"],
        &["help", "log"],
        &["--version"],
    ] {
        let output = trumanfs(args);
        assert_eq!(code(&output), 0);
        assert!(err(&output).is_empty() && !out(&output).is_empty());
    }
    let help = out(&trumanfs(&["--help"]));
    assert!(!help.contains("__daemon"), "{help}");
    for command in ["mount", "umount", "status", "log", "trash", "Exit codes"] {
        assert!(help.contains(command), "no {command} in {help}");
    }
    assert_eq!(
        out(&trumanfs(&["--version"])).trim(),
        format!("trumanfs {}", env!("CARGO_PKG_VERSION"))
    );
}

// Refusals before mounting

#[test]
fn an_option_that_is_unknown_is_refused_by_its_name() {
    let (_dir, store, home) = places();
    for (options, words) in [
        ("nonsense", &["-o nonsense", "unknown option"][..]),
        ("ro,nonsense=1", &["-o nonsense=1", "unknown option"]),
        ("suid", &["-o suid", "nosuid"]),
        ("dev", &["-o dev", "nodev"]),
        ("hide", &["-o hide", "needs a value"]),
        ("owner", &["-o owner", "needs a value"]),
        ("symlinks=outside", &["-o symlinks=outside"]),
        ("trash=gone", &["-o trash=gone"]),
        ("cache_ttl=long", &["-o cache_ttl=long", "not a number"]),
        ("xattr=yes", &["-o xattr=yes"]),
        ("ro=1", &["-o ro=1"]),
    ] {
        refused(&mount_args(&store, &home, &["-o", options]), 2, words);
    }
    refused(
        &mount_args(&store, &home, &["--cache-ttl=-1"]),
        2,
        &["--cache-ttl", "-1"],
    );
    refused(
        &mount_args(&store, &home, &["--cache-ttl", "nan"]),
        2,
        &["--cache-ttl"],
    );
    assert!(
        fs::read_dir(&store).unwrap().next().is_none(),
        "a refusal has left something"
    );
}

#[test]
fn places_that_will_not_do_are_refused_with_a_remedy() {
    need_mount!();
    let (dir, store, home) = places();
    let base = fs::canonicalize(dir.path()).unwrap();
    let missing = base.join("missing");
    let file = base.join("file");
    fs::write(&file, "").unwrap();
    refused(
        &mount_args(&missing, &home, &[]),
        3,
        &["the store", "missing", "Make the directory first"],
    );
    refused(
        &mount_args(&store, &missing, &[]),
        3,
        &["the home", "missing", "Make the directory first"],
    );
    refused(
        &mount_args(&file, &home, &[]),
        6,
        &["the store", "not a directory"],
    );
    refused(
        &mount_args(&store, &file, &[]),
        6,
        &["the home", "not a directory"],
    );

    let inner = store.join("inner");
    fs::create_dir(&inner).unwrap();
    refused(
        &mount_args(&store, &inner, &[]),
        6,
        &["the home", "lies in the store"],
    );
    refused(
        &mount_args(&inner, &store, &[]),
        6,
        &["the store", "lies in the home"],
    );
    refused(&mount_args(&store, &store, &[]), 6, &["lies in"]);
    // By another name it is the same place.
    let link = base.join("link");
    std::os::unix::fs::symlink(&store, &link).unwrap();
    refused(
        &mount_args(&store, &link.join("inner"), &[]),
        6,
        &["lies in the store"],
    );

    refused(
        &mount_args(&store, &home, &["--owner", "no-such-user"]),
        3,
        &["no-such-user", "no such user"],
    );
    refused(
        &mount_args(&store, &home, &["--owner", "0", "-o", "allow_other"]),
        2,
        &["--allow-other"],
    );
    refused(
        &mount_args(&store, &home, &["--hide", "[z-a]"]),
        2,
        &["--hide [z-a]"],
    );
    refused(
        &mount_args(&store, &home, &["--read-only=[z-a]"]),
        2,
        &["[z-a]"],
    );
    assert!(!watch::is_mountpoint(&home));
}

#[test]
fn a_trash_that_is_none_is_refused() {
    need_mount!();
    for name in [".trash", ".trumanfs"] {
        for link in [false, true] {
            let (_dir, store, home) = places();
            let elsewhere = store.with_file_name("elsewhere");
            fs::create_dir(&elsewhere).unwrap();
            if link {
                std::os::unix::fs::symlink(&elsewhere, store.join(name)).unwrap();
            } else {
                fs::write(store.join(name), "mine").unwrap();
            }
            refused(&mount_args(&store, &home, &[]), 6, &[name]);
            assert!(!watch::is_mountpoint(&home));
            assert!(fs::read_dir(&elsewhere).unwrap().next().is_none());
        }
    }
}

#[test]
fn a_store_that_is_served_is_refused_and_its_holder_named() {
    need_mount!();
    let home = Home::mount();
    let other = home.base().join("other");
    fs::create_dir(&other).unwrap();
    let pid = format!("process {}", home.daemon_pid());
    refused(
        &mount_args(home.store(), &other, &[]),
        6,
        &[
            "already being served",
            home.home().to_str().unwrap(),
            &pid,
            "trumanfs umount",
        ],
    );
    refused(
        &mount_args(home.store(), home.home(), &[]),
        6,
        &["already mounted there", "trumanfs umount"],
    );
    let second = home.base().join("second");
    fs::create_dir(&second).unwrap();
    refused(
        &mount_args(&second, home.home(), &[]),
        6,
        &["already mounted there"],
    );
    // The first is none the worse for it, and its journal has one session.
    fs::write(home.path("file"), "x").unwrap();
    let begun = home
        .journal()
        .iter()
        .filter(|record| record["op"] == "begin")
        .count();
    assert_eq!(begun, 1);
}

#[test]
fn targets_that_are_none_are_refused() {
    let (dir, store, _home) = places();
    let (store, missing) = (store.to_str().unwrap(), dir.path().join("missing"));
    let missing = missing.to_str().unwrap();
    for command in [&["status"][..], &["log"], &["trash", "list"]] {
        let with = |target| [command, &[target]].concat();
        refused(&with(store), 6, &["is not a store", "trumanfs mount"]);
        refused(&with(missing), 3, &["No such file or directory"]);
    }
    refused(&["trash", "restore", store, "x"], 6, &["is not a store"]);
    refused(&["umount", store], 6, &["is not a mounted home"]);
    refused(&["umount", missing], 6, &["is not a mounted home"]);
}

// Mounting

#[test]
fn the_mount_table_says_nothing_of_the_store() {
    need_mount!();
    let home = Home::mount();
    let mounted = watch::mount_at(home.home()).unwrap();
    assert_eq!(
        (mounted.kind.as_str(), mounted.source.as_str()),
        ("fuse.trumanfs", "trumanfs")
    );
    let options: Vec<_> = mounted.options.split(',').collect();
    let user = format!("user_id={}", rustix::process::geteuid().as_raw());
    for wanted in ["rw", "nosuid", "nodev", &user] {
        assert!(options.contains(&wanted), "no {wanted} in {options:?}");
    }
    assert!(
        !options.iter().any(|option| option.contains("store")),
        "{options:?}"
    );
    // The process list says as little.
    let line = fs::read(format!("/proc/{}/cmdline", home.daemon_pid())).unwrap();
    assert!(
        !String::from_utf8_lossy(&line).contains("store"),
        "{line:?}"
    );
}

/// Access times are those of the store's files: an option that they do not follow is refused, and one that they do has its effect.
#[test]
fn access_times_are_as_asked_for_or_the_mount_is_refused() {
    need_mount!();
    need_root!("to mount a tmpfs");
    let base = tempfile::TempDir::with_prefix("trumanfs-atime-").unwrap();
    let store = base.path().join("store");
    fs::create_dir(&store).unwrap();
    let mount = |words: &[&str]| {
        let mut command = std::process::Command::new("mount");
        command.args(words);
        let output = crate::common::run_limited(command, crate::common::COMMAND_LIMIT);
        assert!(output.status.success(), "{}", describe(&output));
    };
    let at = base.path().to_str().unwrap();
    mount(&["--bind", at, at]);
    let _bound = Bound(base.path().to_owned());
    let words = ["noatime", "relatime", "strictatime", "nodiratime", "atime"];
    let holds: [(&str, &[&str]); 4] = [
        ("noatime", &["noatime", "nodiratime"]),
        ("relatime", &["relatime", "atime"]),
        ("strictatime", &["strictatime", "atime"]),
        ("nodiratime,relatime", &["relatime", "nodiratime", "atime"]),
    ];
    for (of_store, wanted) in holds {
        // What was said before stays, but for its opposite.
        let others = match of_store {
            "noatime" => "",
            "nodiratime,relatime" => ",atime",
            _ => ",atime,diratime",
        };
        mount(&["-o", &format!("remount,bind{others},{of_store}"), at]);
        for word in words {
            let home = Home::plan()
                .on(base.path())
                .options(&["-o", word])
                .try_mount();
            let expected = wanted.contains(&word);
            let home = match home {
                Err(output) => {
                    assert!(!expected, "{word} in {of_store}: {}", describe(&output));
                    let said = String::from_utf8_lossy(&output.stderr).into_owned();
                    assert!(
                        said.contains(&format!("-o {word}: access times are")),
                        "{said}"
                    );
                    continue;
                }
                Ok(home) => home,
            };
            assert!(expected, "{word} in {of_store}");
            let options = watch::mount_at(home.home()).unwrap().options;
            let shown: Vec<&str> = options
                .split(',')
                .filter(|o| o.ends_with("atime"))
                .collect();
            let real: Vec<&str> = of_store
                .split(',')
                .filter(|o| *o != "strictatime")
                .collect();
            assert!(
                real.iter().all(|o| shown.contains(o)),
                "{word} in {of_store}: {options}"
            );
            fs::write(home.path("f"), "x").unwrap();
            let old = (978_307_200, 0);
            let later = (1_000_000_000, 0);
            crate::common::calls::lutimens(home.path("f"), later, old).unwrap();
            fs::read(home.path("f")).unwrap();
            let atime = fs::metadata(home.path("f")).unwrap().atime();
            // Newer than the change, but older than a day: relatime and strictatime both renew it.
            assert_eq!(
                atime == later.0,
                of_store == "noatime",
                "{word} in {of_store}"
            );
        }
    }
    for word in ["sync", "dirsync", "lazytime"] {
        let output = Home::plan()
            .options(&["-o", word])
            .try_mount()
            .err()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains(word) && said.contains("does not have"),
            "{said}"
        );
    }
}

/// A bind mount, taken away when dropped.
struct Bound(std::path::PathBuf);

impl Drop for Bound {
    fn drop(&mut self) {
        watch::detach(&self.0);
    }
}

#[test]
fn options_come_as_mount8_writes_them_too() {
    need_mount!();
    let home = Home::plan()
        .options(&[
            "-o",
            "ro,rw,noexec,hide=*.key,read_only=/kept,symlinks=inside",
            "-o",
            "trash=listed,cache_ttl=0.5,no_follow",
        ])
        .prepare(|store| {
            fs::write(store.join("a.key"), "").unwrap();
            fs::create_dir(store.join("kept")).unwrap();
        })
        .mount();
    let options = watch::mount_at(home.home()).unwrap().options;
    for wanted in ["rw", "noexec"] {
        assert!(
            options.split(',').any(|option| option == wanted),
            "{options}"
        );
    }
    assert!(!home.path("a.key").exists());
    let error = fs::write(home.path("kept/x"), "").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    std::os::unix::fs::symlink("kept", home.path("link")).unwrap();
    assert!(
        fs::read_dir(home.home())
            .unwrap()
            .any(|entry| entry.unwrap().file_name() == ".trash")
    );
}

#[test]
fn read_only_homes_change_nothing() {
    need_mount!();
    for options in [&["--read-only"][..], &["-o", "ro"], &["-o", "read_only"]] {
        let home = Home::prepared(|store| fs::write(store.join("file"), "1").unwrap(), options);
        for error in [
            fs::write(home.path("file"), "2").unwrap_err(),
            fs::remove_file(home.path("file")).unwrap_err(),
            fs::create_dir(home.path("dir")).unwrap_err(),
        ] {
            assert_eq!(
                error.kind(),
                std::io::ErrorKind::ReadOnlyFilesystem,
                "{options:?}"
            );
        }
        assert_eq!(fs::read_to_string(home.path("file")).unwrap(), "1");
    }
}

#[test]
fn in_the_foreground_it_stays_until_it_is_unmounted() {
    need_mount!();
    let (_dir, store, home) = places();
    let mut process = Command::new(crate::common::binary())
        .args(mount_args(&store, &home, &["--foreground"]))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("it is mounted", || watch::is_mountpoint(&home));
    fs::write(home.join("file"), "x").unwrap();
    assert!(process.try_wait().unwrap().is_none());
    let output = trumanfs(&[OsStr::new("umount"), home.as_os_str()]);
    assert!(output.status.success(), "{}", describe(&output));
    // `umount` returns when the daemon has ended, so there is nothing to wait for.
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
    assert!(store.join("file").exists());
    let mut refused = Command::new(crate::common::binary());
    refused.args(mount_args(&store, &store, &["--foreground"]));
    let output = crate::common::run_limited(refused, crate::common::COMMAND_LIMIT);
    assert_eq!(code(&output), 6, "{}", describe(&output));
}

#[test]
fn mounting_leaves_nothing_open_behind_it() {
    need_mount!();
    let (_dir, store, home) = places();
    // A reader of its output is at its end once `mount` is, although the daemon goes on.
    let mut process = Command::new(crate::common::binary())
        .args(mount_args(&store, &home, &[]))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdout, mut stderr) = (
        process.stdout.take().unwrap(),
        process.stderr.take().unwrap(),
    );
    let (done, ended) = channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).unwrap();
        stderr.read_to_string(&mut text).unwrap();
        done.send(text)
    });
    let text = ended.recv_timeout(Duration::from_secs(20));
    let status = process.wait().unwrap();
    let output = trumanfs(&[OsStr::new("umount"), home.as_os_str()]);
    assert_eq!(text.as_deref(), Ok(""), "the daemon holds on to the output");
    assert!(
        status.success() && output.status.success(),
        "{}",
        describe(&output)
    );
}

#[test]
fn blanks_and_odd_bytes_in_paths_are_no_matter() {
    need_mount!();
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::TempDir::with_prefix("trumanfs-").unwrap();
    let base = fs::canonicalize(dir.path()).unwrap();
    let store = base.join(OsStr::from_bytes(b"st ore\t\\1\xff"));
    let home = base.join(OsStr::from_bytes(b"ho me\n,x=\xfe"));
    fs::create_dir(&store).unwrap();
    fs::create_dir(&home).unwrap();
    let output = trumanfs(&mount_args(&store, &home, &[]));
    assert!(output.status.success(), "{}", describe(&output));
    let written = fs::write(home.join("file"), "x");
    let status = trumanfs(&[OsStr::new("status"), home.as_os_str(), OsStr::new("--json")]);
    let output = trumanfs(&[OsStr::new("umount"), home.as_os_str()]);
    assert!(output.status.success(), "{}", describe(&output));
    written.unwrap();
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert!(
        status["home"].as_str().unwrap().contains("ho me"),
        "{status}"
    );
    assert!(store.join("file").exists());
}

// Unmounting

#[test]
fn umount_of_a_home_in_use_is_refused_unless_lazy() {
    need_mount!();
    let mut home = Home::mount();
    let mut file = fs::File::create(home.path("file")).unwrap();
    let path = home.home().to_owned();
    refused(
        &[OsStr::new("umount"), path.as_os_str()],
        6,
        &["is in use", "--lazy"],
    );
    assert!(watch::is_mountpoint(&path));
    let output = trumanfs(&[OsStr::new("umount"), OsStr::new("--lazy"), path.as_os_str()]);
    assert!(output.status.success(), "{}", describe(&output));
    assert!(!watch::is_mountpoint(&path));
    // Whoever has it open goes on to its end, and so does the session.
    std::io::Write::write_all(&mut file, b"still").unwrap();
    assert_ne!(last_op(&home), "end");
    drop(file);
    wait_until("the session ends with its last user", || {
        last_op(&home) == "end"
    });
    assert_eq!(
        fs::read_to_string(home.store().join("file")).unwrap(),
        "still"
    );
    home.umount();
}

#[test]
fn what_a_dead_daemon_leaves_is_cleaned_up() {
    need_mount!();
    need_root!(
        "for passthrough: without it the times that the kernel writes back are recorded, too"
    );
    let mut home = Home::mount();
    fs::write(home.path("file"), "x").unwrap();
    home.kill_daemon_only();
    let error = fs::metadata(home.path("file")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(107), "ENOTCONN");
    let path = home.home().as_os_str().to_owned();
    refused(
        &mount_args(home.store(), home.home(), &[]),
        6,
        &["has died", "trumanfs umount", "nothing is lost"],
    );
    let status = trumanfs(&[OsStr::new("status"), &path]);
    assert_eq!(code(&status), 1, "{}", describe(&status));
    let output = trumanfs(&[OsStr::new("umount"), &path]);
    assert!(output.status.success(), "{}", describe(&output));
    assert!(!watch::is_mountpoint(home.home()));
    // The next mount says what it found, and the journal is closed.
    let output = home.mount_again();
    assert!(
        err(&output).contains("after a crash"),
        "{}",
        describe(&output)
    );
    assert_eq!(fs::read_to_string(home.path("file")).unwrap(), "x");
    let ops: Vec<_> = home
        .journal()
        .iter()
        .map(|record| record["op"].clone())
        .collect();
    assert_eq!(ops, ["begin", "create", "end", "begin"]);
}

#[test]
fn signals_end_a_session_cleanly() {
    need_mount!();
    for signal in [Signal::TERM, Signal::INT] {
        let mut home = Home::mount();
        fs::write(home.path("file"), "x").unwrap();
        let pid = Pid::from_raw(i32::try_from(home.daemon_pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        wait_until("the session ends", || last_op(&home) == "end");
        wait_until("it is unmounted", || !watch::is_mountpoint(home.home()));
        home.umount();
        let output = home.mount_again();
        assert!(
            err(&output).is_empty(),
            "nothing to settle: {}",
            describe(&output)
        );
    }
}

#[test]
fn a_signal_ends_a_home_in_use_too() {
    need_mount!();
    let mut home = Home::mount();
    let file = fs::File::create(home.path("file")).unwrap();
    let pid = Pid::from_raw(i32::try_from(home.daemon_pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    wait_until("it is out of sight", || !watch::is_mountpoint(home.home()));
    drop(file);
    wait_until("the session ends with its last user", || {
        last_op(&home) == "end"
    });
    home.umount();
}

// Looking

#[test]
fn status_as_json_has_what_it_promises() {
    need_mount!();
    let home = Home::mount();
    fs::create_dir(home.path("dir")).unwrap();
    fs::write(home.path("dir/file"), "x").unwrap();
    fs::remove_file(home.path("dir/file")).unwrap();
    let held = fs::File::create(home.path("held")).unwrap();
    let of_store = home.status().unwrap();
    assert_eq!(of_store["home"], home.home().to_str().unwrap());
    assert_eq!(of_store["store"], home.store().to_str().unwrap());
    assert_eq!(of_store["pid"], home.daemon_pid());
    assert_eq!(of_store["version"], env!("CARGO_PKG_VERSION"));
    let sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
    let session = sessions.last().unwrap().unwrap().file_name();
    assert_eq!(of_store["session"], session.to_str().unwrap());
    chrono::DateTime::parse_from_rfc3339(of_store["since"].as_str().unwrap()).unwrap();
    assert_eq!(of_store["records"], home.journal().len());
    assert_eq!(of_store["open"], 1);
    assert!(of_store["known"].as_u64().unwrap() >= 3, "{of_store}");
    assert!(of_store["trash_bytes"].as_u64().unwrap() > 0, "{of_store}");
    for mechanism in [
        "passthrough",
        "writeback",
        "readdirplus",
        "atomic_o_trunc",
        "killpriv_v2",
        "follow",
    ] {
        assert!(
            of_store["mechanisms"][mechanism].is_boolean(),
            "{mechanism} in {of_store}"
        );
    }
    assert_eq!(of_store["counters"]["unlink"], 1);
    drop(held);

    // By the home, by anything in it, and among all.
    for target in [home.home(), &home.path("dir")] {
        let output = trumanfs(&[
            OsStr::new("status"),
            target.as_os_str(),
            OsStr::new("--json"),
        ]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(status["session"], of_store["session"]);
    }
    let output = trumanfs(&["status", "--json"]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        all["mounts"]
            .as_array()
            .unwrap()
            .iter()
            .any(|status| status["session"] == of_store["session"])
    );

    let text = out(&trumanfs(&[OsStr::new("status"), home.home().as_os_str()]));
    for word in [
        home.home().to_str().unwrap(),
        "session",
        "since",
        "mechanisms",
        "requests",
    ] {
        assert!(text.contains(word), "no {word} in {text}");
    }
}

#[test]
fn status_of_what_is_not_mounted_ends_with_1() {
    need_mount!();
    let mut home = Home::mount();
    home.umount();
    let output = trumanfs(&[OsStr::new("status"), home.store().as_os_str()]);
    assert_eq!(code(&output), 1, "{}", describe(&output));
    assert!(out(&output).contains("is not mounted"));
}

fn hash(line: &str) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(line.as_bytes()))
}

fn lines_of_all_journals(store: &Path) -> String {
    let sessions = fs::read_dir(store.join(".trumanfs/sessions")).unwrap();
    let mut sessions: Vec<_> = sessions.map(|session| session.unwrap().path()).collect();
    sessions.sort();
    let read = |session: &PathBuf| fs::read_to_string(session.join("journal.jsonl")).unwrap();
    sessions.iter().map(read).collect()
}

#[test]
fn the_log_as_json_parses_and_its_chain_holds() {
    need_mount!();
    let mut home = Home::mount();
    home.sh("mkdir d; echo 1 >d/a; mv d/a d/b; echo 2 >>d/b; chmod 600 d/b; ln d/b d/c; rm -r d; echo 'x y' >$(printf 'odd\\377\\nname')");
    home.remount();
    fs::write(home.path("second"), "").unwrap();
    let output = trumanfs(&[
        OsStr::new("log"),
        home.home().as_os_str(),
        OsStr::new("--json"),
    ]);
    assert!(output.status.success(), "{}", describe(&output));
    let text = out(&output);
    let mut printed = text.lines();
    let mut prev = "0".repeat(16);
    let mut seq = 0;
    let mut ops = Vec::new();
    let whole = lines_of_all_journals(home.store());
    for line in whole.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        if record["op"] == "seal" {
            // The chain goes through it, and the log does not show it.
            assert_eq!(record["prev"], prev.as_str(), "{line}");
            assert_eq!(record["seq"], seq, "{line}");
            prev = hash(line);
            continue;
        }
        if record["op"] == "begin" {
            (prev, seq) = ("0".repeat(16), 0);
        }
        seq += 1;
        // The printed line is the journal's own, to the byte, with its session before it.
        let line_printed = printed.next().unwrap();
        match record["op"] == "begin" {
            true => assert_eq!(line_printed, line),
            false => {
                let (session, rest) = line_printed.split_once(',').unwrap();
                assert!(session.starts_with("{\"session\":\"20"), "{session}");
                assert_eq!(format!("{{{rest}"), line);
            }
        }
        assert_eq!(record["v"], 6, "{line}");
        assert_eq!(record["seq"], seq, "{line}");
        assert_eq!(record["prev"], prev.as_str(), "{line}");
        chrono::DateTime::parse_from_rfc3339(record["time"].as_str().unwrap()).unwrap();
        if !["begin", "end", "gather"].contains(&record["op"].as_str().unwrap()) {
            let actor = &record["actor"];
            assert_eq!(
                (&actor["uid"], &actor["gid"]),
                (
                    &Value::from(rustix::process::geteuid().as_raw()),
                    &Value::from(rustix::process::getegid().as_raw())
                ),
                "{line}"
            );
            assert!(actor["pid"].as_u64().unwrap() > 1, "{line}");
        }
        prev = hash(line);
        ops.push(record["op"].as_str().unwrap().to_owned());
    }
    assert_eq!(printed.next(), None);
    for op in [
        "begin", "mkdir", "create", "rename", "write", "attr", "link", "unlink", "rmdir", "gather",
        "end",
    ] {
        assert!(ops.iter().any(|found| found == op), "no {op} in {ops:?}");
    }
    assert_eq!(ops.iter().filter(|op| *op == "begin").count(), 2);

    let text = out(&trumanfs(&[OsStr::new("log"), home.store().as_os_str()]));
    assert_eq!(text.matches("── session").count(), 2, "{text}");
    assert!(
        text.contains("mkdir /d\n") && text.contains("rename /d/a → /d/b"),
        "{text}"
    );
    assert!(
        text.lines().all(|line| !line.contains('\u{fffd}')),
        "{text}"
    );
}

#[test]
fn a_journal_that_was_changed_is_noticed() {
    need_mount!();
    let mut home = Home::mount();
    home.sh("echo 1 >a; echo 2 >b; rm a");
    home.umount();
    let sessions = home.store().join(".trumanfs/sessions");
    let journal = fs::read_dir(sessions)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("\"/b\"", "\"/c\"", 1)).unwrap();
    let output = trumanfs(&[OsStr::new("log"), home.store().as_os_str()]);
    assert_eq!(code(&output), 5, "{}", describe(&output));
    assert!(err(&output).contains("line"), "{}", describe(&output));
    // What the trash holds is listed all the same.
    let output = trumanfs(&[
        OsStr::new("trash"),
        OsStr::new("list"),
        home.store().as_os_str(),
    ]);
    assert!(
        output.status.success() && out(&output).contains("_a"),
        "{}",
        describe(&output)
    );
}

#[test]
fn log_follow_shows_what_comes() {
    need_mount!();
    let mut home = Home::mount();
    fs::write(home.path("before"), "").unwrap();
    let mut process = Command::new(crate::common::binary())
        .args([OsStr::new("log"), home.store().as_os_str()])
        .args(["--json", "--follow"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let record: Value = serde_json::from_str(&line).unwrap();
            if send.send(record).is_err() {
                return;
            }
        }
    });
    let next = || {
        receive
            .recv_timeout(Duration::from_secs(60))
            .expect("a record")
    };
    assert_eq!(next()["op"], "begin");
    assert_eq!(next()["path"], "/before");
    fs::write(home.path("after"), "").unwrap();
    assert_eq!(next()["path"], "/after");
    // Into the next session as well.
    home.remount();
    fs::write(home.path("later"), "").unwrap();
    assert_eq!(next()["op"], "end");
    assert_eq!(next()["op"], "begin");
    assert_eq!(next()["path"], "/later");
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    need_mount!();
    let home = Home::mount();
    for n in 0..2000 {
        fs::write(home.path(format!("file-with-a-rather-long-name-{n}")), "").unwrap();
    }
    let said = home.sh(&format!(
        "'{}' log '{}' 2>&1 | head -n 1",
        crate::common::binary(),
        home.store().display()
    ));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("── session"), "{said}");
}

#[test]
fn an_empty_trash_is_listed_with_1() {
    need_mount!();
    let home = Home::mount();
    for more in [&[][..], &["--json"]] {
        let mut args = vec![
            OsStr::new("trash"),
            OsStr::new("list"),
            home.home().as_os_str(),
        ];
        args.extend(more.iter().map(OsStr::new));
        let output = trumanfs(&args);
        assert_eq!(code(&output), 1, "{}", describe(&output));
        assert!(out(&output).is_empty() && err(&output).is_empty());
    }
    fs::write(home.path("file"), "12345").unwrap();
    fs::remove_file(home.path("file")).unwrap();
    let text = out(&trumanfs(&[
        OsStr::new("trash"),
        OsStr::new("list"),
        home.home().as_os_str(),
    ]));
    assert!(
        text.contains("_file\n") && text.contains("was /file, 5 bytes, removed "),
        "{text}"
    );
}

// What others may do

#[test]
fn others_learn_nothing_and_change_nothing() {
    need_mount!();
    need_root!("to be another user");
    let home = Home::mount();
    fs::write(home.path("secret-name"), "x").unwrap();
    fs::remove_file(home.path("secret-name")).unwrap();
    // The state is root's, whoever the store's directory is for.
    let state = fs::metadata(home.store().join(".trumanfs")).unwrap();
    assert_eq!((state.mode() & 0o7777, state.uid()), (0o700, 0));
    fs::set_permissions(home.store(), fs::Permissions::from_mode(0o755)).unwrap();
    // A binary that another user can reach.
    let binary = home.base().join("trumanfs");
    copy_program(crate::common::binary(), &binary);
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    for (args, expected) in [
        (&["status", "STORE"][..], &[6, 7][..]),
        (&["log", "STORE"], &[6, 7]),
        (&["status", "HOME"], &[6, 7]),
        (&["umount", "HOME"], &[6, 7]),
        (&["umount", "--lazy", "HOME"], &[6, 7]),
        (&["trash", "restore", "STORE", "x", "--to", "/y"], &[6, 7]),
    ] {
        let args: Vec<&OsStr> = args
            .iter()
            .map(|arg| match *arg {
                "STORE" => home.store().as_os_str(),
                "HOME" => home.home().as_os_str(),
                arg => OsStr::new(arg),
            })
            .collect();
        let mut command = Command::new(&binary);
        command.args(&args).current_dir("/");
        std::os::unix::process::CommandExt::uid(&mut command, 12_345);
        std::os::unix::process::CommandExt::gid(&mut command, 12_345);
        let output = crate::common::run_limited(command, crate::common::COMMAND_LIMIT);
        assert!(
            expected.contains(&code(&output)),
            "{args:?}: {}",
            describe(&output)
        );
        assert!(
            !out(&output).contains("secret-name"),
            "{args:?}: {}",
            describe(&output)
        );
    }
    assert!(watch::is_mountpoint(home.home()));
}

#[test]
fn a_machine_without_the_device_is_told_what_to_do() {
    need_mount!();
    let (_dir, store, home) = places();
    let script =
        "mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; exec \"$0\" mount store home";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "sh", "-euc", script])
        .arg(crate::common::binary())
        .current_dir(store.parent().unwrap());
    let output = crate::common::run_limited(command, crate::common::COMMAND_LIMIT);
    if err(&output).contains("unshare") {
        skip!("namespaces", "unshare cannot make a mount namespace here");
    }
    assert_eq!(code(&output), 6, "{}", describe(&output));
    assert!(
        err(&output).contains("/dev/fuse cannot be opened")
            && err(&output).contains("mknod -m 666 /dev/fuse"),
        "{}",
        describe(&output)
    );
    assert!(!watch::is_mountpoint(&home));
}
