//! Undo by an ordinary user, whose store has files and directories that are closed to that user, and files of others.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::{binary, copy_program, describe, need_root, need_tools, run_limited, skip};

/// The user; a name is not needed where nothing is mounted.
const USER: &str = "65534";

/// Mounts the home with a device file that everybody may open, where only this script sees it.
const IN_HOME: &str = r#"
    cd "$1"; mkdir -p dev home; chown 65534:65534 home
    mount -t tmpfs none dev && mknod -m 666 dev/fuse c 10 229 && mount --bind dev/fuse /dev/fuse || exit 77
    run() { setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"; }
    run ./trumanfs mount store home $3 || exit 77
    run sh -ec "cd home; $2"; code=$?
    run ./trumanfs umount home; umount -l /dev/fuse dev
    exit $code
"#;

/// Kills the daemon of `home` and waits until its last thread has let go of the store.
const KILL: &str = r#"kill -9 $(./trumanfs status home --json | sed 's/.*"pid":\([0-9]*\).*/\1/')
    flock -w 30 store/.trumanfs/lock true"#;

/// A store below a directory of an ordinary user.
struct UserStore(tempfile::TempDir);

impl UserStore {
    /// Makes the store. `prepare` is a shell script of root's, in the store after everything there was given to the user.
    fn new(files: &[&str], prepare: &str) -> UserStore {
        let base = tempfile::TempDir::with_prefix("trumanfs-user-").unwrap();
        copy_program(binary(), base.path().join("trumanfs"));
        let store = UserStore(base);
        fs::create_dir(store.path("")).unwrap();
        for file in files {
            let path = store.path(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "good\n").unwrap();
        }
        let all = r#"chmod 755 "$1"; chown -R 65534:65534 "$1"; cd "$1/store"; "#;
        let mut command = Command::new("sh");
        command.args(["-euc", &format!("{all}{prepare}"), "sh"]);
        let output = command.arg(store.0.path()).output().unwrap();
        assert!(output.status.success(), "{}", describe(&output));
        store
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("store").join(name)
    }

    fn mode(&self, name: &str) -> u32 {
        mode(&self.path(name))
    }

    /// Runs the program as the user, in the user's directory, where the store is `store`.
    fn run(&self, words: &[&str]) -> Output {
        run_limited(self.command(words), Duration::from_secs(60))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--"]);
        command.args(["./trumanfs"]).args(words);
        command
            .env("HOME", self.0.path())
            .current_dir(self.0.path());
        command
    }

    /// Runs a line in the store, which must succeed.
    fn line(&self, line: &str) {
        let output = self.run(&["exec", "--root", "store", "--", line]);
        assert!(output.status.success(), "{line}: {}", describe(&output));
    }

    /// Runs a script in the store's home, mounted by the user, as the user; `None` where the user cannot mount.
    fn in_home(&self, script: &str, options: &str) -> Option<Output> {
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            IN_HOME,
            "sh",
        ]);
        command
            .arg(self.0.path())
            .arg(script)
            .arg(options)
            .env("HOME", self.0.path());
        let output = run_limited(command, Duration::from_secs(60));
        (output.status.code() != Some(77)).then_some(output)
    }

    fn undo(&self) -> Output {
        self.run(&["undo", "store", "--session", "all"])
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// The whole undo failed with "open: Permission denied".
#[test]
fn unreadable_file_of_another_does_not_stop_undo() {
    need_root!("to have files of two users");
    need_tools!("setpriv");
    let store = UserStore::new(&["f", "others"], "chown 0:0 others; chmod 602 others");
    store.line("echo x >> others; echo evil > f");
    let output = store.undo();
    assert_eq!(output.status.code(), Some(5), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("/others stays as it is"), "{said}");
    assert_eq!(fs::read(store.path("f")).unwrap(), b"good\n");
}

/// The whole undo failed with "getxattr: Permission denied".
#[test]
fn attribute_of_unreadable_file_does_not_stop_undo() {
    need_root!("to have files of two users");
    need_tools!("setpriv", "unshare", "setfattr");
    let files = ["f", "others"];
    let store = UserStore::new(&files, "chown 0:0 others; chmod 602 others");
    let script = "echo evil > f; setfattr -n user.one -v 1 others";
    let Some(output) = store.in_home(script, "--xattr") else {
        skip!("user-mounts", "an ordinary user cannot mount here");
    };
    assert!(output.status.success(), "{}", describe(&output));
    let output = store.undo();
    assert_eq!(output.status.code(), Some(5), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("/others"), "{said}");
    assert_eq!(fs::read(store.path("f")).unwrap(), b"good\n");
}

/// An attribute of a file that its user may only write to was recorded as new, and one of a file that the user may only read was
/// not put back: "setxattr: Permission denied".
#[test]
fn attributes_of_closed_files_are_put_back() {
    need_root!("to have an ordinary user");
    need_tools!("setpriv", "unshare", "setfattr", "getfattr");
    let prepare = "setfattr -n user.one -v good written read foreign; chmod 200 written; chown 0:0 foreign; chmod 602 foreign";
    let store = UserStore::new(&["written", "read", "foreign"], prepare);
    let script = r"
        setfattr -n user.one -v evil written read; chmod 400 read
        ! setfattr -n user.one -v evil foreign 2>/dev/null
    ";
    let Some(output) = store.in_home(script, "--xattr") else {
        skip!("user-mounts", "an ordinary user cannot mount here");
    };
    assert!(output.status.success(), "{}", describe(&output));
    let values = || {
        let files = ["written", "read", "foreign"].map(|name| store.path(name));
        let mut command = Command::new("getfattr");
        command.args(["--only-values", "-n", "user.one"]);
        let output = command.args(files).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(values(), "evilevilgood");
    // The change of the mode is not among them, so the files are closed when their attributes come back.
    let list = store.run(&["log", "store", "--json"]);
    let text = String::from_utf8(list.stdout).unwrap();
    let of_attributes = |line: &Value| line["op"] == "xattr";
    let operations: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(of_attributes)
        .map(|line| format!("{}:{}", line["session"].as_str().unwrap(), line["seq"]))
        .collect();
    let words = ["undo", "store"].into_iter();
    let words: Vec<&str> = words.chain(operations.iter().map(String::as_str)).collect();
    let output = store.run(&words);
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(values(), "goodgoodgood");
    assert_eq!([store.mode("written"), store.mode("read")], [0o200, 0o400]);
}

/// A directory was closed again before the one in it had its time.
#[test]
fn what_lies_in_a_directory_that_is_closed_again_is_redone() {
    need_root!("to have an ordinary user");
    need_tools!("setpriv", "unshare");
    let store = UserStore::new(&["c/p/q/f"], "chmod 0 c");
    let script = "chmod 700 c; touch -d 2001-01-01 c/p/q; chmod 0 c/p c";
    let Some(output) = store.in_home(script, "") else {
        skip!("user-mounts", "an ordinary user cannot mount here");
    };
    assert!(output.status.success(), "{}", describe(&output));
    let look = || {
        let year = |name| store.path(name).metadata().unwrap().mtime() < 1_000_000_000;
        (store.mode("c"), store.mode("c/p"), year("c/p/q"))
    };
    let after = look();
    for (verb, expected) in [
        ("undo", (0, 0o755, false)),
        ("redo", after),
        ("undo", (0, 0o755, false)),
    ] {
        let output = if verb == "undo" {
            store.undo()
        } else {
            store.run(&["redo", "store"])
        };
        assert!(output.status.success(), "{verb}: {}", describe(&output));
        assert_eq!(look(), expected, "{verb}");
    }
}

/// A record about a name in a closed directory was taken for done without a look.
#[test]
fn names_in_a_closed_directory_are_settled_after_a_kill() {
    need_root!("to have an ordinary user");
    need_tools!("setpriv", "unshare", "flock");
    let store = UserStore::new(&["d/f"], "");
    let script = format!("rm d/f; echo x > d/n; chmod 0 d; cd ..; {KILL}");
    let Some(output) = store.in_home(&script, "") else {
        skip!("user-mounts", "an ordinary user cannot mount here");
    };
    assert!(output.status.success(), "{}", describe(&output));
    let output = store.run(&["exec", "--root", "store", "--", "ls"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && !said.contains("cannot be settled"),
        "{said}"
    );
    assert_eq!(store.mode("d"), 0);
    let output = store.undo();
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(fs::read(store.path("d/f")).unwrap(), b"good\n");
}

/// The store's own directory is open while the store is mounted. After a kill it was closed again by a line that was at
/// work in it, which failed.
#[test]
fn line_works_in_a_closed_store_after_a_kill() {
    need_root!("to have an ordinary user");
    need_tools!("setpriv", "unshare", "flock");
    let store = UserStore::new(&["f"], "");
    store.line("echo x > g");
    fs::set_permissions(store.path(""), fs::Permissions::from_mode(0o000)).unwrap();
    for line in ["cat f", "echo y > g; cat g"] {
        let script = format!("cd ..; {KILL}; fusermount3 -uz home");
        let Some(output) = store.in_home(&script, "") else {
            skip!("user-mounts", "an ordinary user cannot mount here");
        };
        assert!(output.status.success(), "{}", describe(&output));
        assert_eq!(store.mode(""), 0o700);
        store.line(line);
        assert_eq!(store.mode(""), 0, "{line}");
    }
}

/// chmod(2) drops set-group-id without an error where the caller is not in the file's group, and so does a write.
#[test]
fn lost_set_group_id_is_named() {
    need_root!("to have a file of another group");
    need_tools!("setpriv", "unshare");
    for line in ["chmod 600 f", "echo x > f", "echo x >> f"] {
        let store = UserStore::new(&["f", "g"], "chgrp 4242 f; chmod 2644 f");
        let Some(output) = store.in_home(&format!("{line}; echo x > g"), "") else {
            skip!("user-mounts", "an ordinary user cannot mount here");
        };
        assert!(output.status.success(), "{line}: {}", describe(&output));
        let output = store.undo();
        for file in ["f", "g"] {
            assert_eq!(fs::read(store.path(file)).unwrap(), b"good\n", "{line}");
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_named = said.contains("/f stays as it is: its mode is 644 instead of 2644");
        // Where the inode itself comes back, so does the bit.
        let expected = if store.mode("f") == 0o2644 {
            (false, 0)
        } else {
            (true, 5)
        };
        assert_eq!(
            (is_named, output.status.code()),
            (expected.0, Some(expected.1)),
            "{line}: {}",
            describe(&output)
        );
    }
}

/// An undo opens what is closed while it works. It is killed as soon as that can be seen.
#[test]
fn killed_undo_leaves_nothing_open() {
    need_root!("to have an ordinary user");
    need_tools!("setpriv");
    // On a busy machine the undo can have ended before anybody has looked.
    assert!((0..10).any(|_| kill_undo()), "no undo could be killed");
}

/// Returns whether the undo was killed while something was open.
fn kill_undo() -> bool {
    let mut files: Vec<String> = (0..400).map(|n| format!("d/f{n}")).collect();
    files.extend(["g".to_owned(), "e/f".to_owned()]);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let store = UserStore::new(&files, "");
    store.line("rm -r d/*");
    let closed = [("d", 0o000), ("g", 0o200), ("e", 0o500)];
    for (name, mode) in closed {
        fs::set_permissions(store.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut command = store.command(&["undo", "store", "--session", "all"]);
    let mut undo = command.stdout(Stdio::null()).spawn().unwrap();
    while store.mode("e") == 0o500 && undo.try_wait().unwrap().is_none() {}
    undo.kill().unwrap();
    if undo.wait().unwrap().code().is_some() || store.mode("e") == 0o500 {
        return false;
    }
    // A look is enough, and so is the undo that is asked for once more.
    let output = store.run(&["log", "store"]);
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(closed.map(|(name, _)| (name, store.mode(name))), closed);
    let output = store.undo();
    assert!(output.status.success(), "{}", describe(&output));
    let brought_back = fs::read_dir(store.path("d")).unwrap().count();
    assert_eq!(brought_back, 400, "{}", describe(&output));
    assert_eq!(closed.map(|(name, _)| (name, store.mode(name))), closed);
    true
}

/// A closed directory is opened for the moment in which it moves to the trash.
#[test]
fn killed_removal_leaves_no_directory_open() {
    need_root!("to have an ordinary user");
    need_tools!("setpriv");
    let names: Vec<String> = (0..400).map(|n| format!("d{n}")).collect();
    let make = format!(
        "mkdir {0}; chown 65534:65534 {0}; chmod 0 {0}",
        names.join(" ")
    );
    let mut killed = 0;
    for round in 0..12 {
        let store = UserStore::new(&[], &make);
        let mut remove = store.command(&["exec", "--root", "store", "--", "rm -r d*"]);
        let mut remove = remove.stdout(Stdio::null()).spawn().unwrap();
        while store.path("d0").exists() && remove.try_wait().unwrap().is_none() {}
        std::thread::sleep(Duration::from_millis(round));
        remove.kill().unwrap();
        killed += u32::from(remove.wait().unwrap().code().is_none());
        let output = store.run(&["log", "store"]);
        assert!(output.status.success(), "{}", describe(&output));
        let there = [store.path(""), store.path(".trash")];
        let there = there.iter().flat_map(|dir| fs::read_dir(dir).unwrap());
        let open: Vec<_> = there
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_name().to_string_lossy().contains('d'))
            .filter(|entry| entry.metadata().unwrap().is_dir() && mode(&entry.path()) != 0)
            .collect();
        assert!(open.is_empty(), "{open:?}");
    }
    assert!(killed > 0, "no removal could be killed");
}
