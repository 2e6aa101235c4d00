//! Stores on file systems that promise less than those of this machine: names that fold, numbers that do not last, no time of
//! birth, locks that others do not see. The stand-in for them is a file system in user space (`stand_in/stand_in.py`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::UnmountFlags;

use crate::common::{Home, describe, need_mount, need_tools, repository, trumanfs};
use crate::need::skip;

/// A directory that is shown at another one as such a file system would.
struct StandIn {
    at: PathBuf,
    child: Child,
}

impl StandIn {
    fn show(dir: &Path, at: &Path, options: &[&str]) -> StandIn {
        let child = Command::new("/usr/bin/python3")
            .arg(repository().join("tests/store/stand_in/stand_in.py"))
            .args([dir, at])
            .args(options)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let stand_in = StandIn {
            at: at.to_owned(),
            child,
        };
        let is_there = || rustix::fs::statfs(at).is_ok_and(|fs| fs.f_type == 0x6573_5546);
        until("the stand-in is mounted", is_there);
        stand_in
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.at, UnmountFlags::DETACH);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn has_pyfuse3() -> bool {
    let asked = Command::new("/usr/bin/python3")
        .args(["-c", "import pyfuse3"])
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

/// Returns from the test where there can be no stand-in.
macro_rules! need_stand_in {
    () => {
        need_mount!();
        if !rustix::process::geteuid().is_root() {
            skip!("root", "the stand-in is mounted by root");
        }
        if !has_pyfuse3() {
            skip!("stand-in", "/usr/bin/python3 has no pyfuse3");
        }
    };
}

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A real directory, where it is shown, and homes.
struct Lab {
    _dir: tempfile::TempDir,
    base: PathBuf,
}

impl Lab {
    fn new() -> Lab {
        let dir = tempfile::TempDir::with_prefix("trumanfs-weak-").unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        for name in ["real", "real/s", "at", "at2", "home", "home2"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        Lab { _dir: dir, base }
    }

    fn show(&self, at: &str, options: &[&str]) -> StandIn {
        StandIn::show(&self.base.join("real"), &self.base.join(at), options)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    fn mount(&self, store: &str, home: &str, options: &[&str]) -> Output {
        let (store, home) = (self.path(store), self.path(home));
        let mut words = vec!["mount", store.to_str().unwrap(), home.to_str().unwrap()];
        words.extend(options);
        trumanfs(&words)
    }

    #[track_caller]
    fn umount(&self, home: &str) {
        let output = trumanfs(&["umount", self.path(home).to_str().unwrap()]);
        assert!(output.status.success(), "{}", describe(&output));
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for home in ["home", "home2"] {
            let _ = rustix::mount::unmount(self.path(home), UnmountFlags::DETACH);
        }
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn store_whose_names_fold_is_refused() {
    need_stand_in!();
    for (option, difference) in [
        ("fold", "upper and lower case"),
        ("normalize", "form of a letter"),
    ] {
        let lab = Lab::new();
        fs::create_dir(lab.path("real/s/secrets")).unwrap();
        let stand_in = lab.show("at", &[option]);
        let store = lab.path("at/s");
        let line = ["exec", "--root", store.to_str().unwrap(), "--", "echo 1 >x"];
        for refused in [
            lab.mount("at/s", "home", &["--hide", "secrets/"]),
            lab.mount("at/s", "home", &[]),
            trumanfs(&line),
        ] {
            assert!(!refused.status.success(), "{}", describe(&refused));
            assert!(said(&refused).contains(difference), "{}", said(&refused));
        }
        assert!(!lab.path("real/s/.trumanfs").exists(), "nothing is left");
        drop(stand_in);
        // The same store where names are apart, and then not any more.
        let output = lab.mount("real/s", "home", &["--hide", "secrets/"]);
        assert!(output.status.success(), "{}", describe(&output));
        lab.umount("home");
        let _stand_in = lab.show("at", &[option]);
        let refused = lab.mount("at/s", "home", &[]);
        assert!(said(&refused).contains(difference), "{}", said(&refused));
        assert!(lab.path("real/s/.trumanfs").exists());
    }
}

#[test]
fn numbers_that_do_not_last_are_told_of() {
    need_stand_in!();
    let lab = Lab::new();
    let stand_in = lab.show("at", &["renumber"]);
    let output = lab.mount("at/s", "home", &[]);
    assert!(output.status.success(), "{}", describe(&output));
    assert!(said(&output).contains("use_ino"), "{}", said(&output));
    fs::write(lab.path("home/f"), "1").unwrap();
    let status = trumanfs(&["status", lab.path("home").to_str().unwrap(), "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert!(
        status["notices"].to_string().contains("use_ino"),
        "{status}"
    );
    lab.umount("home");
    drop(stand_in);
    let _stand_in = lab.show("at", &["renumber"]);
    let output = lab.mount("at/s", "home", &[]);
    assert!(output.status.success(), "{}", describe(&output));
    assert!(
        said(&output).contains("gives files other numbers each time"),
        "{}",
        said(&output)
    );
    lab.umount("home");
}

#[test]
fn removed_file_without_time_of_birth_has_a_digest() {
    need_stand_in!();
    let lab = Lab::new();
    let _stand_in = lab.show("at", &[]);
    let output = lab.mount("at/s", "home", &[]);
    assert!(output.status.success(), "{}", describe(&output));
    for name in ["f", "g", "h"] {
        fs::write(lab.path("home").join(name), "content").unwrap();
        fs::remove_file(lab.path("home").join(name)).unwrap();
    }
    lab.umount("home");
    let store = lab.path("at/s");
    let check = || trumanfs(&["fsck", store.to_str().unwrap()]);
    let whole = check();
    assert!(whole.status.success(), "{}", describe(&whole));
    let printed = String::from_utf8_lossy(&whole.stdout);
    assert!(!printed.contains("without a digest"), "{printed}");
    let entry = |name: &str| {
        let mut entries = fs::read_dir(lab.path("real/s/.trash")).unwrap();
        let found = entries.find(|e| {
            let entry = e.as_ref().unwrap().file_name();
            entry.to_str().unwrap().ends_with(name)
        });
        found.unwrap().unwrap()
    };
    // What is purged says nothing about the others.
    let purged = entry("_g").file_name();
    let purge = [
        "trash",
        "purge",
        store.to_str().unwrap(),
        purged.to_str().unwrap(),
    ];
    let purge = trumanfs(&purge);
    assert!(purge.status.success(), "{}", describe(&purge));
    fs::write(entry("_f").path(), "cOntent").unwrap();
    let damaged = check();
    assert!(!damaged.status.success(), "{}", describe(&damaged));
    assert!(describe(&damaged).contains("_f"), "{}", describe(&damaged));
}

#[test]
fn second_daemon_is_refused_where_locks_are_not_shared() {
    need_stand_in!();
    let lab = Lab::new();
    let (_one, _other) = (lab.show("at", &[]), lab.show("at2", &[]));
    let first = lab.mount("at/s", "home", &[]);
    assert!(first.status.success(), "{}", describe(&first));
    let second = lab.mount("at2/s", "home2", &[]);
    assert!(!second.status.success(), "{}", describe(&second));
    assert!(
        said(&second).contains("whose lock does not show here"),
        "{}",
        said(&second)
    );
    fs::write(lab.path("home/f"), "1").unwrap();
    lab.umount("home");
    let second = lab.mount("at2/s", "home2", &[]);
    assert!(second.status.success(), "{}", describe(&second));
    assert!(lab.path("home2/f").exists());
    lab.umount("home2");
}

#[test]
fn daemon_whose_lock_is_lost_stops() {
    need_stand_in!();
    let lab = Lab::new();
    let _stand_in = lab.show("at", &[]);
    let output = lab.mount("at/s", "home", &[]);
    assert!(output.status.success(), "{}", describe(&output));
    fs::write(lab.path("home/f"), "1").unwrap();
    // As another machine does that has got the lock meanwhile.
    let lock = lab.path("real/s/.trumanfs/lock");
    let mut holder: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&lock).unwrap()).unwrap();
    let session = holder["session"].as_str().unwrap().to_owned();
    holder["session"] = "20990101T000000.000000Z-0000".into();
    holder["host"] = "elsewhere".into();
    fs::write(&lock, holder.to_string()).unwrap();
    until("changes fail with EIO", || {
        let failed = fs::write(lab.path("home/g"), "2").err();
        failed.is_some_and(|error| error.raw_os_error() == Some(5))
    });
    let journal = lab.path("real/s/.trumanfs/sessions").join(session);
    let length = || fs::metadata(journal.join("journal.jsonl")).unwrap().len();
    let before = length();
    let gone = fs::remove_file(lab.path("home/f")).unwrap_err();
    assert_eq!(gone.raw_os_error(), Some(5));
    assert_eq!(fs::read_to_string(lab.path("real/s/f")).unwrap(), "1");
    let status = trumanfs(&["status", lab.path("at/s").to_str().unwrap()]);
    let printed = describe(&status);
    assert!(printed.contains("lock was lost to process"), "{printed}");
    assert!(printed.contains("on elsewhere"), "{printed}");
    lab.umount("home");
    assert_eq!(length(), before, "no record after the loss");
}

/// A file system in user space is told of O_APPEND at the open alone, and may append whatever it gets: pages that were
/// written back made a file twice as long.
#[test]
fn lines_that_are_appended_come_once() {
    need_stand_in!();
    for options in [&["--no-passthrough"][..], &[]] {
        for open in ["open('f', 'a')", "open('f', 'a+')", "open('new', 'a')"] {
            let lab = Lab::new();
            let _stand_in = lab.show("at", &[]);
            fs::write(lab.path("real/s/f"), "1\n2\n").unwrap();
            let mounted = lab.mount("at/s", "home", options);
            assert!(mounted.status.success(), "{}", describe(&mounted));
            let script = format!("f = {open}; f.write('3\\n'); f.flush(); f.write('4\\n')");
            let python = Command::new("/usr/bin/python3")
                .args(["-c", &script])
                .current_dir(lab.path("home"))
                .status();
            assert!(python.unwrap().success());
            lab.umount("home");
            let name = if open.contains("new") { "new" } else { "f" };
            let is = fs::read_to_string(lab.path("real/s").join(name)).unwrap();
            let before = if name == "f" { "1\n2\n" } else { "" };
            assert_eq!(is, format!("{before}3\n4\n"), "{options:?} {open}");
        }
    }
}

/// Of a file that may only be appended to (chattr +a), O_APPEND cannot be cleared after the open either.
#[test]
fn lines_that_are_appended_to_an_append_only_file_come_once() {
    need_mount!();
    need_tools!("chattr");
    for options in [&["--no-passthrough"][..], &[]] {
        let mut home = Home::prepared(|store| fs::write(store.join("f"), "1\n").unwrap(), options);
        let file = home.store().join("f");
        let flag = |flag: &str| Command::new("chattr").arg(flag).arg(&file).status();
        if !flag("+a").unwrap().success() {
            skip!("append-only files", "chattr +a does not work here");
        }
        home.sh("echo 2 >> f; if (echo 3 > f) 2>/dev/null; then exit 1; fi; echo 4 >> f");
        home.umount();
        assert!(flag("-a").unwrap().success());
        let is = fs::read_to_string(&file).unwrap();
        assert_eq!(is, "1\n2\n4\n", "{options:?}");
    }
}
