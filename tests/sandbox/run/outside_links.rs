//! Files in a store that have another name outside: what an agent or a program of an executor changes is the store's alone.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{LIMIT, Place, Store, err, good, until};
use crate::common::tree::tree;
use crate::common::{binary, describe, need_mount, need_tools, run_limited, trumanfs};

/// Every way to change a file, by the name of the file.
const CHANGES: &[(&str, &str)] = &[
    ("append", "open('append', 'a').write('EVIL')"),
    ("empty", "open('empty', 'w').write('EVIL')"),
    ("overwrite", "open('overwrite', 'r+').write('EVIL')"),
    ("cut", "os.truncate('cut', 1)"),
    ("fcut", "os.ftruncate(os.open('fcut', os.O_RDWR), 1)"),
    ("rdonly", "os.open('rdonly', os.O_RDONLY | os.O_TRUNC)"),
    ("mode", "os.chmod('mode', 0o600)"),
    ("owner", "os.chown('owner', os.getuid(), os.getgid())"),
    ("times", "os.utime('times', (1, 1))"),
    (
        "map",
        "m = mmap.mmap(os.open('map', os.O_RDWR), 4); m[0:4] = b'EVIL'; m.flush()",
    ),
    (
        "space",
        "os.posix_fallocate(os.open('space', os.O_RDWR), 0, 100000)",
    ),
    (
        "range",
        "os.copy_file_range(os.open('word', 0), os.open('range', os.O_WRONLY), 4)",
    ),
    (
        "seen",
        "r = os.open('seen', 0); open('seen', 'w').write('EVIL'); assert os.read(r, 9) == b'lib seen\\n'",
    ),
    (
        "moved",
        "os.rename('moved', 'moved2'); open('moved2', 'a').write('EVIL')",
    ),
    (
        "dir/a",
        "os.rename('dir', 'dir2'); open('dir2/a', 'a').write('EVIL')",
    ),
    ("gone", "os.unlink('gone')"),
];

/// Puts files into a store that are links to files outside. Returns the directory outside.
fn link_in(base: &Path, store: &Path) -> PathBuf {
    let outside = base.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::create_dir(store.join("dir")).unwrap();
    for (name, _) in CHANGES {
        let file = outside.join(name.replace('/', "_"));
        fs::write(&file, format!("lib {name}\n")).unwrap();
        fs::hard_link(&file, store.join(name)).unwrap();
    }
    fs::write(store.join("word"), "EVIL").unwrap();
    outside
}

/// Which inode each file is.
fn inodes(dir: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let (name, meta) = (entry.file_name(), entry.metadata().unwrap());
        let name = name.into_string().unwrap();
        if name.starts_with(".tr") {
            continue;
        }
        if meta.is_dir() {
            found.extend(inodes(&entry.path()));
        } else {
            found.push((name, meta.ino()));
        }
    }
    found.sort();
    found
}

fn agent(store: &Store, options: &[&str], script: &str) -> Output {
    let mut command = Command::new(binary());
    command.arg("agent").arg("--store").arg(&store.store);
    command
        .args(options)
        .arg("--")
        .args(["bash", "-ec", script]);
    run_limited(command, LIMIT)
}

#[test]
fn agent_changes_no_file_outside() {
    need_mount!();
    need_tools!("python3");
    let store = Store::new();
    let outside = link_in(&store.base, &store.store);
    let before = (tree(&outside), tree(&store.store), inodes(&store.store));
    let lines: Vec<&str> = CHANGES.iter().map(|(_, line)| *line).collect();
    let script = format!("import os, mmap\n{}\n", lines.join("\n"));
    fs::write(store.base.join("script"), &script).unwrap();
    let output = agent(&store, &[], &format!("python3 -c \"{script}\""));
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(tree(&outside), before.0);
    for (name, _) in CHANGES {
        let name = name.replace("moved", "moved2").replace("dir/", "dir2/");
        let Ok(meta) = fs::metadata(store.store.join(&name)) else {
            assert_eq!(name, "gone");
            continue;
        };
        assert_eq!(meta.nlink(), 1, "{name}");
    }
    assert_eq!(
        fs::read_to_string(store.store.join("map")).unwrap(),
        "EVILmap\n"
    );
    assert_eq!(
        fs::read_to_string(store.store.join("range")).unwrap(),
        "EVILrange\n"
    );
    let said = err(&output);
    assert!(said.contains("had a name outside the store"), "{said}");
    // An undo makes them the same files again.
    let target = store.store.to_str().unwrap();
    let undone = trumanfs(&["undo", target, "--run", "last"]);
    assert!(undone.status.success(), "{}", describe(&undone));
    assert_eq!(inodes(&store.store), before.2);
    assert_eq!(tree(&store.store), before.1);
    assert_eq!(tree(&outside), before.0);
    let redone = trumanfs(&["redo", target]);
    assert!(redone.status.success(), "{}", describe(&redone));
    assert_eq!(tree(&outside), before.0);
    assert_eq!(
        fs::read_to_string(store.store.join("map")).unwrap(),
        "EVILmap\n"
    );
    let checked = trumanfs(&["fsck", target]);
    assert!(checked.status.success(), "{}", describe(&checked));
}

#[test]
fn names_of_a_copied_file_stay_links_of_each_other() {
    need_mount!();
    let store = Store::new();
    let outside = store.base.join("outside");
    fs::write(&outside, "lib\n").unwrap();
    fs::create_dir(store.store.join("d")).unwrap();
    for name in ["a", "d/b", "c", "inner"] {
        match name {
            "inner" => fs::write(store.store.join(name), "own\n").unwrap(),
            name => fs::hard_link(&outside, store.store.join(name)).unwrap(),
        }
    }
    fs::hard_link(store.store.join("inner"), store.store.join("inner2")).unwrap();
    let before = inodes(&store.store);
    let script = "cat a d/b >/dev/null; mv d e; ln e/b f; rm c; echo 1 >>a; cat e/b; stat -c %h f; echo 2 >>f; cat a; \
                  echo x >>inner; cat inner2; ls";
    let output = agent(&store, &[], script);
    assert_eq!(
        good(&output),
        "lib\n1\n3\nlib\n1\n2\nown\nx\na\ne\nf\ninner\ninner2\n"
    );
    assert_eq!(fs::read_to_string(&outside).unwrap(), "lib\n");
    // What has all its names in the store is no copy.
    let inode = |path: &str| fs::metadata(store.store.join(path)).unwrap().ino();
    assert!(
        before
            .iter()
            .any(|(name, ino)| name == "inner" && *ino == inode("inner"))
    );
    assert_eq!(inode("inner"), inode("inner2"));
    assert_eq!((inode("a"), inode("a")), (inode("e/b"), inode("f")));
    let undone = trumanfs(&["undo", store.store.to_str().unwrap(), "--run", "last"]);
    assert!(undone.status.success(), "{}", describe(&undone));
    assert_eq!(inodes(&store.store), before);
}

#[test]
fn directory_that_its_owner_closed_keeps_no_file_from_being_copied() {
    need_mount!();
    let store = Store::new();
    let outside = store.base.join("outside");
    fs::write(&outside, "lib\n").unwrap();
    fs::create_dir(store.store.join("closed")).unwrap();
    fs::hard_link(&outside, store.store.join("f")).unwrap();
    fs::write(store.store.join("inner"), "own\n").unwrap();
    fs::hard_link(store.store.join("inner"), store.store.join("closed/inner")).unwrap();
    let close = |mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(store.store.join("closed"), mode).unwrap();
    };
    let before = inodes(&store.store);
    close(0);
    let output = agent(
        &store,
        &["--discard"],
        "echo 1 >>f; echo 2 >>inner; cat f inner",
    );
    assert_eq!(good(&output), "lib\n1\nown\n2\n");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "lib\n");
    let mode = fs::metadata(store.store.join("closed")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0);
    close(0o755);
    assert_eq!(inodes(&store.store), before);
}

#[test]
fn discard_makes_the_names_links_again() {
    need_mount!();
    let store = Store::new();
    let outside = link_in(&store.base, &store.store);
    let before = (tree(&outside), inodes(&store.store));
    let output = agent(
        &store,
        &["--discard"],
        "for f in append empty cut; do echo EVIL >>$f; done",
    );
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!((tree(&outside), inodes(&store.store)), before);
}

#[test]
fn programs_and_lines_change_no_file_outside_in_any_home() {
    need_mount!();
    let place = Place::mounted();
    let outside = place.home.base().join("outside");
    fs::write(&outside, "lib\n").unwrap();
    fs::hard_link(&outside, place.home.store().join("f")).unwrap();
    assert_eq!(place.sh("echo EVIL >>f; cat f"), "lib\nEVIL\n");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "lib\n");
    fs::hard_link(&outside, place.home.store().join("g")).unwrap();
    let line = |root: &Path| {
        trumanfs(&[
            "exec",
            "--root",
            root.to_str().unwrap(),
            "--",
            "echo EVIL >>g; touch g; cat g",
        ])
    };
    assert_eq!(good(&line(place.home())), "lib\nEVIL\n");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "lib\n");
    // And where nothing is mounted.
    let store = Store::new();
    fs::hard_link(&outside, store.store.join("g")).unwrap();
    assert_eq!(good(&line(&store.store)), "lib\nEVIL\n");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "lib\n");
}

#[test]
fn plain_mount_says_that_a_file_outside_is_changed() {
    need_mount!();
    let place = Place::mounted();
    let outside = place.home.base().join("outside");
    fs::write(&outside, "lib\n").unwrap();
    fs::hard_link(&outside, place.home.store().join("f")).unwrap();
    fs::write(place.home().join("f"), "mine\n").unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "mine\n");
    until("it is said", || {
        let said = trumanfs(&["status", place.home().to_str().unwrap()]);
        good(&said).contains("/f was opened to be changed, and has a name outside the store")
    });
}

/// A backup by hard links while an agent works: a second writer must not go on with another file than the first.
#[test]
fn file_that_is_being_written_stays_one_file() {
    need_mount!();
    let store = Store::new();
    let script = "exec 3>>f; echo 1 >&3; echo >ready; until [ -e go ]; do sleep 0.05; done; \
                  echo 2 >>f; chmod 600 f; echo 3 >&3; cat f; exec 3>&-; echo 4 >>f; cat f";
    let outside = store.base.join("outside");
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            until("it writes", || store.store.join("ready").exists());
            fs::hard_link(store.store.join("f"), &outside).unwrap();
            fs::write(store.store.join("go"), "").unwrap();
        });
        agent(&store, &[], script)
    });
    assert_eq!(good(&output), "1\n2\n3\n1\n2\n3\n4\n");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "1\n2\n3\n");
}

#[test]
fn unreadable_file_with_a_name_outside_is_not_changed() {
    need_mount!();
    let store = Store::new();
    let outside = store.base.join("outside");
    fs::write(&outside, "lib\n").unwrap();
    fs::hard_link(&outside, store.store.join("f")).unwrap();
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o200)).unwrap();
    // What can be read by whoever the agent works for is copied all the same.
    let output = agent(&store, &[], "echo EVIL >>f || echo refused");
    assert!(output.status.success(), "{}", describe(&output));
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "lib\n");
}
