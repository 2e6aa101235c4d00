//! Nothing leaks: no descriptor or table entry while a daemon runs, and after its end no mount, process,
//! registration, or connection in the kernel.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::calls::*;
use crate::common::{Home, describe, need_mount, need_root, skip, trumanfs, watch};

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).unwrap().count()
}

/// A bit of everything, with nothing left open.
fn work(home: &Home) {
    for round in 0..10 {
        let dir = home.path(format!("d{round}"));
        mkdir(&dir, 0o755).unwrap();
        let mut held = Vec::new();
        for n in 0..20 {
            let file = dir.join(format!("f{n}"));
            held.push(open(&file, O_CREAT | O_RDWR, 0o644).unwrap());
            write(held.last().unwrap(), b"content").unwrap();
            held.push(open(&file, O_RDONLY, 0).unwrap());
            link(&file, dir.join(format!("l{n}"))).unwrap();
            rename(&file, dir.join(format!("m{n}"))).unwrap();
            let _ = open(&file, O_CREAT | O_EXCL | O_WRONLY, 0o644).map(close);
            let _ = open(dir.join("missing"), O_RDONLY, 0);
            let _ = open(&dir, O_WRONLY, 0);
            let _ = rmdir(&dir);
        }
        let map = Map::new(&held[0], 4096, 0, true, true).unwrap();
        map.put(0, b"x");
        readdir(&dir).unwrap();
        home.sh(&format!("rm -r d{round}; ls -lR .trash >/dev/null"));
        drop(held);
    }
}

fn inode(path: &str) -> Option<u64> {
    Some(fs::metadata(path).ok()?.ino())
}

fn settles(what: &str, limit: Duration, test: impl Fn() -> Result<(), String>) {
    let until = Instant::now() + limit;
    loop {
        match test() {
            Ok(()) => return,
            Err(problem) => assert!(Instant::now() < until, "{what}: {problem}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_daemon_that_goes_on_holds_on_to_nothing() {
    need_mount!();
    need_root!("to look at the descriptors of the daemon");
    for options in [&[][..], &["--no-passthrough", "--allow-other"]] {
        let home = Home::with(options);
        let pid = home.daemon_pid();
        work(&home);
        // After the first round all that is made once is there: workers' descriptors, the journal's space.
        settles("files are closed", Duration::from_secs(30), || {
            match home.status()?["open"].as_u64() {
                Some(0) => Ok(()),
                other => Err(format!("{other:?} still open")),
            }
        });
        let before = (descriptors(pid), threads(pid));
        work(&home);
        settles("descriptors", Duration::from_secs(30), || {
            let now = (descriptors(pid), threads(pid));
            if now.0 <= before.0 && now.1 <= before.1 {
                Ok(())
            } else {
                Err(format!("descriptors and threads: {before:?}, now {now:?}"))
            }
        });
        // The kernel forgets when it is asked to; the table shrinks with it.
        fs::write("/proc/sys/vm/drop_caches", "2").ok();
        settles("the table", Duration::from_secs(30), || {
            let known = home.status()?["known"].as_u64().unwrap_or(u64::MAX);
            if known < 50 {
                Ok(())
            } else {
                fs::write("/proc/sys/vm/drop_caches", "2").ok();
                Err(format!("{known} files and directories are still known"))
            }
        });
        // Asking does not cost either.
        for _ in 0..20 {
            home.status().unwrap();
        }
        settles("after asking", Duration::from_secs(30), || {
            let now = descriptors(pid);
            if now <= before.0 {
                Ok(())
            } else {
                Err(format!("{} descriptors, now {now}", before.0))
            }
        });
    }
}

#[test]
fn of_a_daemon_that_has_ended_nothing_is_left() {
    need_mount!();
    need_root!("to register in /run");
    let mut home = Home::mount();
    let pid = home.daemon_pid();
    let mount = watch::mount_at(home.home()).unwrap();
    let registration = format!("/run/trumanfs/0:{}", mount.minor);
    let connection = format!("/sys/fs/fuse/connections/{}", mount.minor);
    watch::show_connections();
    let served = inode(&connection);
    let names_us = || {
        let text = fs::read_to_string(&registration).unwrap_or_default();
        text.contains(home.store().to_str().unwrap())
    };
    assert!(names_us(), "a mount is registered at {registration}");
    work(&home);
    let check = || {
        assert!(!names_us(), "the registration is left");
        assert!(watch::mounts_below(home.base()).is_empty());
        let status = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!status.contains("trumanfs"), "the daemon is left: {status}");
        // Its number may be another home's by now, in whatever mount namespace: that one is another directory of fusectl.
        settles("the connection", Duration::from_secs(30), || {
            match inode(&connection) {
                Some(now) if Some(now) == served => Err(format!("{connection} is left")),
                _ => Ok(()),
            }
        });
    };
    assert!(served.is_some(), "{connection}");
    let output = trumanfs(&["umount".as_ref(), home.home().as_os_str()]);
    assert!(output.status.success(), "{}", describe(&output));
    check();
    // The store can be served again at once, and the home is an ordinary directory.
    assert!(fs::read_dir(home.home()).unwrap().next().is_none());
    home.mount_again();
}

/// Which processors a thread may use, and its policy (field 41 of `stat`); nothing of a thread that has ended.
fn scheduling(task: &Path) -> Option<(String, String)> {
    let status = fs::read_to_string(task.join("status")).ok()?;
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let stat = fs::read_to_string(task.join("stat")).ok()?;
    let policy = stat.rsplit(") ").next().unwrap().split(' ').nth(38);
    Some((allowed.unwrap().trim().to_owned(), policy.unwrap().into()))
}

#[test]
fn workers_that_followed_a_caller_are_as_they_were() {
    need_mount!();
    let home = Home::mount();
    if home.status().unwrap()["mechanisms"]["follow"] != true {
        skip!(
            "processors",
            "following needs several processors and CAP_SYS_NICE"
        );
    }
    let tasks = fs::read_dir(format!("/proc/{}/task", home.daemon_pid())).unwrap();
    let tasks: Vec<_> = tasks.map(|task| task.unwrap().path()).collect();
    // The daemon also has threads for a single piece of work (the room of the journal); those end meanwhile.
    let state = || {
        let states = tasks
            .iter()
            .filter_map(|task| Some((task.clone(), scheduling(task)?)));
        states.collect::<BTreeMap<_, _>>()
    };
    let differs = |before: &BTreeMap<PathBuf, _>, now: &BTreeMap<PathBuf, _>| {
        now.iter()
            .any(|(task, state)| before.get(task) != Some(state))
    };
    let before = state();
    let file = home.path("f");
    fs::write(&file, "f").unwrap();
    // On a machine with much else to do, requests may never come closely enough.
    let until = Instant::now() + Duration::from_secs(10);
    let mut followed = false;
    while !followed && Instant::now() < until {
        for _ in 0..1000 {
            let _ = access(&file, R_OK);
        }
        followed = differs(&before, &state());
    }
    if !followed {
        skip!(
            "chance",
            "the machine is too busy for any worker to follow its caller"
        );
    }
    settles("as before", Duration::from_secs(30), || {
        let now = state();
        assert!(!now.is_empty(), "all threads of the daemon have ended");
        if differs(&before, &now) {
            Err(format!("{before:?}, now {now:?}"))
        } else {
            Ok(())
        }
    });
}

#[test]
fn a_termination_signal_unmounts() {
    need_mount!();
    let mut home = Home::mount();
    fs::write(home.path("f"), "f").unwrap();
    let pid = rustix::process::Pid::from_raw(home.daemon_pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    settles(
        "unmounted",
        Duration::from_secs(30),
        || match watch::is_mountpoint(home.home()) {
            false => Ok(()),
            true => Err("still mounted".into()),
        },
    );
    home.umount();
    // A clean end: nothing to settle.
    let output = home.mount_again();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_socket_of_the_occupants_is_no_control_socket() {
    need_mount!();
    let home = Home::mount();
    let path = home.path("control.sock");
    // Where the path is short enough for a socket at all.
    if let Ok(listener) = UnixListener::bind(&path) {
        assert_eq!(stat(&path).unwrap().kind, S_IFSOCK);
        drop(listener);
    }
    assert!(Path::new(&home.store().join(".trumanfs/control.sock")).exists());
    assert!(home.status().is_ok());
}
