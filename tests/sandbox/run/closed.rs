//! Files that an agent closes to the user that it runs as, by `chmod 0`, are no obstacle for that user's undo, nor for
//! other verbs. As root nothing is closed; the run of these tests as an ordinary user is the one that
//! shows it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use super::{LIMIT, Store, err, good};
use crate::common::tree::tree;
use crate::common::{binary, describe, need_mount, run_limited, trumanfs};

/// Scripts of agents, each for a store of its own.
const ATTACKS: [&str; 9] = [
    "echo EVIL >a; mkdir n; chmod 0 n",
    "echo EVIL >a; echo x >n; chmod 0 a n",
    "echo EVIL >dir/b; mkdir -p n/m; echo x >n/m/f; chmod 0 n/m n dir",
    "echo EVIL >dir/deep/c; echo x >dir/new; chmod 0 dir/deep/c dir/deep dir",
    "rm dir/b; rm -r dir/deep; mkdir dir/deep; chmod 0 dir/deep; chmod 500 dir",
    "mkdir -p x/y/z; echo x >x/y/z/f; chmod 0 x/y; mv x q; mv dir q/e; chmod 0 q",
    "echo EVIL >a; mkdir n m; echo x >n/f; chmod 0 n m; rmdir m; rm -f a; mkdir a; chmod 0 a",
    "echo EVIL >a; chmod 0 dir; chmod 0 .",
    "for n in $(seq 600); do mkdir n$n; chmod 0 n$n; done; echo EVIL >dir/b; chmod 0 dir",
];

fn agent(store: &Path, options: &[&str], script: &str) -> Output {
    let mut command = Command::new(binary());
    command.arg("agent").arg("--store").arg(store);
    command.args(options).args(["--", "sh", "-ec", script]);
    run_limited(command, LIMIT)
}

fn filled() -> Store {
    let store = Store::new();
    fs::create_dir_all(store.store.join("dir/deep")).unwrap();
    for name in ["a", "dir/b", "dir/deep/c"] {
        fs::write(store.store.join(name), "GOOD\n").unwrap();
    }
    store
}

/// Lists each path with its mode, through what is closed.
fn modes(path: &Path, into: &mut Vec<(String, u32)>) {
    let mode = path.symlink_metadata().unwrap().permissions().mode();
    into.push((path.display().to_string(), mode));
    if path.is_dir() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
        let entries = fs::read_dir(path).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.retain(|name| name != ".trash" && name != ".trumanfs");
        names.sort();
        for name in names {
            modes(&path.join(name), into);
        }
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn all_modes(store: &Store) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    modes(&store.store, &mut found);
    found
}

/// Makes everything accessible, so that the store can be deleted.
fn open_again(store: &Store) {
    let mut command = Command::new("chmod");
    command.args(["-R", "u+rwx"]).arg(&store.store);
    good(&run_limited(command, LIMIT));
}

#[test]
fn discard_takes_back_what_is_behind_closed_directories() {
    need_mount!();
    for attack in ATTACKS {
        let store = filled();
        let before = tree(&store.store);
        let output = agent(&store.store, &["--discard"], attack);
        assert!(output.status.success(), "{attack}: {}", describe(&output));
        assert_eq!(tree(&store.store), before, "{attack}: {}", err(&output));
        assert!(
            err(&output).contains(" --run "),
            "{attack}: {}",
            err(&output)
        );
    }
}

#[test]
fn undo_and_redo_restore_the_modes_of_closed_directories() {
    need_mount!();
    for attack in ATTACKS {
        let store = filled();
        let before = (tree(&store.store), all_modes(&store));
        let output = agent(&store.store, &[], attack);
        assert!(output.status.success(), "{attack}: {}", describe(&output));
        assert!(
            err(&output).contains(" --run "),
            "{attack}: {}",
            err(&output)
        );
        let after = all_modes(&store);
        let at = store.store.to_str().unwrap();
        let dry = trumanfs(&["undo", at, "--run", "last", "--dry-run"]);
        assert!(dry.status.success(), "{attack}: {}", describe(&dry));
        assert_eq!(all_modes(&store), after, "{attack}: a dry run");
        for _ in 0..2 {
            let undone = trumanfs(&["undo", at, "--run", "last"]);
            assert!(undone.status.success(), "{attack}: {}", describe(&undone));
            let now = (tree(&store.store), all_modes(&store));
            assert_eq!(now, before, "{attack}: {}", describe(&undone));
            let redone = trumanfs(&["redo", at]);
            assert!(redone.status.success(), "{attack}: {}", describe(&redone));
            assert_eq!(all_modes(&store), after, "{attack}: {}", describe(&redone));
        }
        open_again(&store);
    }
}

#[test]
fn verbs_look_into_closed_directories_and_leave_their_modes() {
    need_mount!();
    let store = filled();
    let script = "echo EVIL >dir/b; rm dir/deep/c; mkdir -p n/m t; echo x >n/m/f; echo EVIL >a; rmdir t; \
                  chmod 0 a n/m n dir/deep dir; chmod 0 .";
    let output = agent(&store.store, &[], script);
    assert!(output.status.success(), "{}", describe(&output));
    let modes = all_modes(&store);
    let at = store.store.to_str().unwrap();
    let page = store.base.join("page.html");
    let fork = store.base.join("fork");
    let (page, fork) = (page.to_str().unwrap(), fork.to_str().unwrap());
    let verbs: [(&[&str], &[&str]); 14] = [
        (&["log", at], &["wrote 2 files"]),
        (
            &["diff", at],
            &["/n/m/f", "/dir/b", "/dir/deep/c", "mode 755 → 0"],
        ),
        (&["diff", at, "--patch"], &["+EVIL", "-GOOD", "+x"]),
        (&["diff", at, "--stat"], &["4 files differ"]),
        (&["review", at], &["/n/m/f", "/dir/b", "/dir/deep/c"]),
        (&["versions", at, "/dir/b"], &["5 bytes now", "kept"]),
        (&["cat", at, "/dir/b"], &["EVIL"]),
        (&["cat", at, "/dir/b", "--at", "last"], &["GOOD"]),
        (&["cat", at, "/a", "--at", "last"], &["GOOD"]),
        (&["report", at, "--html", page], &[]),
        (&["trash", "list", at], &["was /dir/deep/c"]),
        (&["fsck", at], &["everything agrees"]),
        (&["restore", at, "/dir/b", "--dry-run"], &["would restore"]),
        (
            &["fork", at, fork, "--copy"],
            &["3 files and 4 directories"],
        ),
    ];
    for (words, wanted) in verbs {
        let output = trumanfs(words);
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 1)), "{}", describe(&output));
        let said = String::from_utf8_lossy(&output.stdout);
        for text in wanted {
            assert!(said.contains(text), "{words:?}: {text} is not in {said}");
        }
        assert_eq!(all_modes(&store), modes, "{words:?}");
    }
    // The restored file is the only difference.
    for words in [
        &["restore", at, "/dir/b", "--at", "last"][..],
        &["reject", at, "--session", "last", "/dir/deep/c"],
    ] {
        good(&trumanfs(words));
    }
    assert_eq!(all_modes(&store).len(), modes.len() + 1, "c is back");
    open_again(&store);
    let read = |name: &str| fs::read_to_string(store.store.join(name)).unwrap();
    assert_eq!(
        (read("dir/b"), read("dir/deep/c")),
        ("GOOD\n".into(), "GOOD\n".into()),
        "{}",
        describe(&trumanfs(&["log", at, "--all"]))
    );
    let mut command = Command::new("chmod");
    command.args(["-R", "u+rwx", fork]);
    good(&run_limited(command, LIMIT));
}

/// The look back at a run that was killed, and the agent that begins afterwards.
#[test]
fn agent_starts_in_a_project_that_was_closed() {
    need_mount!();
    let store = filled();
    good(&agent(
        &store.store,
        &[],
        "echo EVIL >a; chmod 0 dir; chmod 0 .",
    ));
    let mut command = Command::new(binary());
    command.current_dir("/");
    command.arg("agent").arg("--store").arg(&store.store);
    command.args(["--", "sh", "-ec", "cat a; echo x >later"]);
    let output = run_limited(command, LIMIT);
    assert_eq!(good(&output), "EVIL\n");
    assert!(err(&output).contains("/later "), "{}", err(&output));
    let mode = store.store.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0, "the project is closed again");
    open_again(&store);
}

/// An agent closed its own `/tmp` and `HOME` for good: none could start in the project any more.
#[test]
fn agent_directories_are_usable_again_for_the_next_run() {
    need_mount!();
    let store = filled();
    let keep = ["--keep-state", "kept"];
    let script = "mkdir -p ~/kept/in ~/gone/deep /tmp/t; echo 1 >~/kept/in/f; echo 2 >~/gone/deep/f; \
                  chmod 0 ~/kept/in/f ~/kept/in ~/kept ~/gone/deep ~/gone /tmp/t; chmod 0 /tmp; chmod 0 ~";
    for _ in 0..2 {
        let output = agent(&store.store, &keep, script);
        assert!(
            !err(&output).contains("could not be removed"),
            "{}",
            err(&output)
        );
        good(&output);
        let said = good(&agent(
            &store.store,
            &keep,
            "cd; find . | sort; cat kept/in/f; echo x >/tmp/x; ls /tmp/x",
        ));
        assert_eq!(said, ".\n./kept\n./kept/in\n./kept/in/f\n1\n/tmp/x\n");
        // In a session that goes on, too.
        let both = format!("{script}; exit 3");
        assert_eq!(agent(&store.store, &[], &both).status.code(), Some(3));
    }
    let purging = store.store.join(".trumanfs/purging");
    let left = purging.read_dir().map_or(0, Iterator::count);
    assert_eq!(left, 0, "the scratch directories are deleted");
}

/// Times and link counts, which `diff` does not show, are taken back, too.
#[test]
fn discard_takes_back_times_and_link_counts() {
    need_mount!();
    let store = filled();
    fs::hard_link(store.store.join("a"), store.store.join("same")).unwrap();
    let look = || {
        use std::os::unix::fs::MetadataExt;
        let meta = store.store.join("a").metadata().unwrap();
        (meta.ino(), meta.nlink(), meta.mtime(), meta.mtime_nsec())
    };
    let before = look();
    for script in [
        "touch -d 1980-01-01 a",
        "cp -p a t; mv t a",
        "chmod 600 a; chmod 644 a",
    ] {
        let output = agent(&store.store, &["--discard"], script);
        assert!(output.status.success(), "{script}: {}", describe(&output));
        assert_eq!(look(), before, "{script}: {}", err(&output));
    }
}

/// A project in which no agent could start was a store from then on, and the next agent heard that one was killed.
#[test]
fn agent_that_cannot_start_leaves_no_trace() {
    need_mount!();
    let store = filled();
    let before = tree(&store.store);
    let at = store.store.to_str().unwrap();
    let attempts: [&[&str]; 2] = [
        &[
            "agent",
            "--store",
            at,
            "--env",
            "NOT_SET_ANYWHERE",
            "--",
            "sh",
        ],
        &["agent", "--store", at, "--", "no-such-program-anywhere"],
    ];
    for attempt in attempts {
        let output = trumanfs(attempt);
        assert!(
            matches!(output.status.code(), Some(123 | 127)),
            "{}",
            describe(&output)
        );
        assert_eq!(tree(&store.store), before);
        assert!(!store.store.join(".trumanfs").exists(), "{attempt:?}");
        assert!(!store.store.join(".trash").exists(), "{attempt:?}");
    }
    // One that has run makes it a store, whatever its status.
    assert_eq!(
        agent(&store.store, &[], "exit 127").status.code(),
        Some(127)
    );
    assert!(store.store.join(".trumanfs").exists());
    for attempt in attempts {
        trumanfs(attempt);
        let said = err(&agent(&store.store, &[], "true"));
        assert!(!said.contains("was killed"), "{said}");
        assert!(store.store.join(".trumanfs").exists());
    }
}
