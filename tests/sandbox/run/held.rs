//! A store that nobody has mounted is mounted for as long as anybody runs something in it.

use std::fs;
use std::path::PathBuf;

use super::{LIMIT, POLICY, Store, audit, begin, command, err, good, until};
use crate::common::watch::{is_mountpoint, mounts};
use crate::common::{Home, describe, need_mount, run_limited, trumanfs};

#[test]
fn it_is_mounted_and_unmounted() {
    need_mount!();
    let store = Store::new();
    let said = good(&store.run(&[], &["sh", "-c", "pwd; echo x >file"]));
    assert_eq!(
        said,
        format!("{}\n", store.store.display()),
        "it is known by the store's name"
    );
    store.is_left_alone();
    assert_eq!(fs::read_to_string(store.store.join("file")).unwrap(), "x\n");
    assert_eq!(store.sessions(), 1);
}

#[test]
fn two_share_one_mount_and_the_last_one_unmounts() {
    need_mount!();
    let store = Store::new();
    let wait = |name: &str| {
        format!("echo x >{name}; while ! [ -e {name}.go ]; do sleep 0.02; done; echo y >>{name}")
    };
    let mut one = begin(store.command(&[], &["sh", "-c", &wait("one")]));
    let mut two = begin(store.command(&[], &["sh", "-c", &wait("two")]));
    until("both run", || {
        store.store.join("one").exists() && store.store.join("two").exists()
    });
    assert_eq!(store.sessions(), 1, "one mount");
    // Who wants it alone hears why that cannot be.
    let home = store.base.join("home");
    fs::create_dir(&home).unwrap();
    let (at, to) = (store.store.to_str().unwrap(), home.to_str().unwrap());
    for words in [
        &["mount", at, to][..],
        &["exec", "--root", at, "--", "touch x"],
    ] {
        let output = trumanfs(words);
        assert_eq!(output.status.code(), Some(6), "{}", describe(&output));
        assert!(
            err(&output).contains("for as long as programs run"),
            "{}",
            err(&output)
        );
    }
    // They see each other.
    assert_eq!(
        good(&store.run(&[], &["sh", "-c", "ls; echo >one.go"])),
        "one\ntwo\n"
    );
    assert!(one.wait().unwrap().success());
    assert!(store.is_mounted(), "the second one still runs");
    assert_eq!(
        good(&store.run(&[], &["sh", "-c", "echo >two.go; cat one"])),
        "x\ny\n"
    );
    assert!(two.wait().unwrap().success());
    store.is_left_alone();
    assert_eq!(store.sessions(), 1);
    assert_eq!(audit(&store.store).len(), 4);
}

#[test]
fn many_at_once_on_an_unmounted_store() {
    need_mount!();
    let store = Store::new();
    let mut all: Vec<_> = (0..8)
        .map(|n| begin(store.command(&[], &["sh", "-c", &format!("echo {n} >f{n}")])))
        .collect();
    let codes: Vec<_> = all
        .iter_mut()
        .map(|one| one.wait().unwrap().code())
        .collect();
    assert_eq!(codes, [Some(0); 8]);
    store.is_left_alone();
    for n in 0..8 {
        assert_eq!(
            fs::read_to_string(store.store.join(format!("f{n}"))).unwrap(),
            format!("{n}\n")
        );
    }
    assert_eq!(audit(&store.store).len(), 8);
}

/// The mount is there a moment before its entry in the registry is, by which others find the store behind a home: who has
/// the store needs no entry.
#[test]
fn a_home_that_is_not_registered_yet_is_held_by_its_store() {
    need_mount!();
    let home = Home::mount();
    let device = rustix::fs::stat(home.home()).unwrap().st_dev;
    let name = format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    );
    let uid = rustix::process::geteuid().as_raw();
    let of_user = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    let places = [
        PathBuf::from("/run/trumanfs"),
        of_user.map_or_else(
            || std::env::temp_dir().join(format!("trumanfs-{uid}")),
            |dir| PathBuf::from(dir).join("trumanfs"),
        ),
    ];
    let mut entry = places.iter().map(|place| place.join(&name));
    let entry = entry.find(|entry| entry.exists()).unwrap();
    let text = fs::read(&entry).unwrap();
    fs::remove_file(&entry).unwrap();
    let policy = home.base().join("policy.yaml");
    fs::write(&policy, POLICY).unwrap();
    let output = run_limited(
        command(home.store(), &policy, &[], &["sh", "-c", "echo x > f; pwd"]),
        LIMIT,
    );
    // So that it can be unmounted by its mountpoint.
    fs::write(&entry, text).unwrap();
    assert_eq!(good(&output), format!("{}\n", home.home().display()));
    assert!(home.path("f").exists());
}

/// A store is mounted again with what it was last mounted with.
#[test]
fn a_hidden_file_stays_hidden() {
    need_mount!();
    let store = Store::new();
    fs::write(store.store.join("secret.key"), "x").unwrap();
    let home = store.base.join("home");
    fs::create_dir(&home).unwrap();
    let (at, to) = (store.store.to_str().unwrap(), home.to_str().unwrap());
    assert!(
        trumanfs(&["mount", at, to, "--hide", "*.key"])
            .status
            .success()
    );
    assert!(trumanfs(&["umount", to]).status.success());
    assert_eq!(good(&store.run(&[], &["sh", "-c", "ls"])), "");
}

#[test]
fn a_store_named_by_a_relative_path_or_a_link() {
    need_mount!();
    let store = Store::new();
    let mut command = std::process::Command::new(crate::common::binary());
    command.current_dir(&store.base);
    command.args([
        "run",
        "--root",
        "store",
        "--policy",
        "policy.yaml",
        "--",
        "pwd",
    ]);
    let said = good(&run_limited(command, LIMIT));
    assert_eq!(said, format!("{}\n", store.store.display()));
    store.is_left_alone();
    let link = store.base.join("link");
    std::os::unix::fs::symlink(&store.store, &link).unwrap();
    let command = super::command(&link, &store.base.join("policy.yaml"), &[], &["pwd"]);
    assert_eq!(good(&run_limited(command, LIMIT)), said);
}

#[test]
fn what_cannot_be_mounted_is_named() {
    need_mount!();
    let store = Store::new();
    let policy = store.base.join("policy.yaml");
    for (target, words) in [("missing", "missing"), ("policy.yaml", "policy.yaml")] {
        let command = super::command(&store.base.join(target), &policy, &[], &["true"]);
        let output = run_limited(command, LIMIT);
        assert_eq!(output.status.code(), Some(125), "{}", describe(&output));
        assert!(err(&output).contains(words), "{}", err(&output));
    }
    assert!(
        mounts()
            .iter()
            .all(|mount| !mount.point.starts_with(&store.base))
    );
    assert!(!is_mountpoint(&store.store));
}

/// The session was no mount of anybody's: nobody who reads the log knows the directory that it was mounted at.
#[test]
fn a_session_for_a_run_says_so() {
    need_mount!();
    let store = Store::new();
    good(&store.run(&[], &["sh", "-c", "echo x >file"]));
    store.is_left_alone();
    let at = store.store.to_str().unwrap();
    for verb in [
        &["log", at][..],
        &["session", "list", at],
        &["session", "show", at],
    ] {
        let output = trumanfs(verb);
        let said = good(&output);
        assert!(
            said.contains("for as long as") && !said.contains("trumanfs/homes"),
            "{verb:?}: {said}"
        );
    }
}

/// One ends as the next begins, again and again: each finds a home, whoever mounts it, and a sandbox of its own.
#[test]
fn one_comes_as_the_other_goes() {
    need_mount!();
    let stores: Vec<Store> = (0..4).map(|_| Store::new()).collect();
    std::thread::scope(|scope| {
        for store in &stores {
            scope.spawn(|| {
                for round in 0..12 {
                    let start = |name| begin(store.command(&[], &["sh", "-c", name]));
                    let mut both = ["echo x >one", "echo y >two"].map(start);
                    let codes = both.each_mut().map(|one| one.wait().unwrap().code());
                    assert_eq!(codes, [Some(0); 2], "round {round}");
                }
            });
        }
    });
}
