//! Symbolic links in homes that only sandboxes enter: all exist, the sandbox resolves them, and no path of the host leads
//! into such a home.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};

use super::{LIMIT, Place, Store, begin, err, good, parsed, until};
use crate::common::tree::tree;
use crate::common::watch::is_mountpoint;
use crate::common::{
    binary, describe, need_mount, need_root, need_tools, run_limited, skip, trumanfs,
};

/// The environment in which git can commit, wherever it runs.
const GIT: &str = "export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b\n";

/// Says that it runs, and waits until it is told to go on.
const WAITS: &str = "echo >begun; while ! [ -e go ]; do sleep 0.02; done";

fn agent(store: &Path, script: &str) -> Command {
    let mut command = Command::new(binary());
    command.arg("agent").arg("--store").arg(store);
    command.args(["--", "bash", "-ec"]);
    command.arg(format!("{GIT}{script}"));
    command
}

fn run(store: &Path, script: &str) -> Output {
    run_limited(agent(store, script), LIMIT)
}

/// On the host, in a directory.
#[track_caller]
fn host(dir: &Path, script: &str) -> String {
    let mut command = Command::new("bash");
    command.args(["-ec", &format!("{GIT}{script}")]);
    // A look at the repository changes nothing in it.
    command.current_dir(dir).env("GIT_OPTIONAL_LOCKS", "0");
    good(&run_limited(command, LIMIT))
}

/// A repository of which some links lead out, in a directory that nobody has mounted.
fn repository() -> Store {
    let store = Store::new();
    fs::write(store.store.join("AGENTS.md"), "be kind\n").unwrap();
    fs::create_dir(store.store.join("dir")).unwrap();
    symlink("AGENTS.md", store.store.join("CLAUDE.md")).unwrap();
    symlink("/etc/hosts", store.store.join("hosts")).unwrap();
    symlink("../../outside", store.store.join("dir/up")).unwrap();
    host(
        &store.store,
        "git init -q; git add -A; git commit -qm first",
    );
    store
}

/// The state of the home of a store that programs run in.
fn status(store: &Store) -> serde_json::Value {
    let path = store.store.to_str().unwrap();
    parsed(&trumanfs(&["status", path, "--json"]))
}

/// True if the home is at no path; else says why this machine cannot have that.
fn is_detached(store: &Store) -> bool {
    let mut child = begin(agent(&store.store, WAITS));
    until("it runs", || store.store.join("begun").exists());
    let detached = status(store)["only_in_sandboxes"] == true;
    fs::write(store.store.join("go"), "").unwrap();
    assert!(child.wait().unwrap().success());
    for file in ["begun", "go"] {
        fs::remove_file(store.store.join(file)).unwrap();
    }
    detached
}

macro_rules! need_detached {
    ($store:expr) => {
        if !is_detached($store) {
            skip!("namespaces", "homes are mounted at a path here");
        }
    };
}

#[test]
fn git_commits_no_deletion_of_a_link() {
    need_mount!();
    need_tools!("git");
    let store = repository();
    need_detached!(&store);
    let script = "git add -A; git commit -q --allow-empty -m second; git show --stat --format=; \
        echo x >>AGENTS.md; git stash -q; git stash pop -q; git checkout -q .; git status --short; \
        rm CLAUDE.md hosts; git checkout -q .; git status --short; readlink CLAUDE.md hosts dir/up; cat CLAUDE.md";
    let said = run(&store.store, script);
    assert_eq!(
        good(&said),
        "AGENTS.md\n/etc/hosts\n../../outside\nbe kind\n"
    );
    let tracked = host(
        &store.store,
        "git status --short; git ls-files; git fsck --no-dangling",
    );
    assert_eq!(tracked, "AGENTS.md\nCLAUDE.md\ndir/up\nhosts\n");
    // All of it is taken back.
    let path = store.store.to_str().unwrap();
    let undone = trumanfs(&["undo", path, "--run", "last"]);
    assert!(undone.status.success(), "{}", describe(&undone));
    assert_eq!(
        host(&store.store, "git log --format=%s; git status --short"),
        "first\n"
    );
}

#[test]
fn a_link_shows_what_the_sandbox_has() {
    need_mount!();
    let store = repository();
    need_detached!(&store);
    let said = good(&run(
        &store.store,
        "cat hosts /etc/hosts; ln -s /nowhere any; ln any other; mv any dir/any; readlink dir/any other",
    ));
    let of_sandbox = "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n";
    assert_eq!(
        said,
        format!("{of_sandbox}{of_sandbox}/nowhere\n/nowhere\n")
    );
    let target = fs::read_link(store.store.join("dir/any")).unwrap();
    assert_eq!(target, Path::new("/nowhere"));
    // A program under a policy, in a home of its own, sees the same.
    let script = "readlink hosts; ln -s /etc/shadow s; cat s 2>&1 || true";
    let said = good(&store.run(&[], &["sh", "-c", script]));
    assert_eq!(said, "/etc/hosts\ncat: s: No such file or directory\n");
}

#[test]
fn no_path_of_the_host_leads_into_it() {
    need_mount!();
    let store = repository();
    need_detached!(&store);
    let mut child = begin(agent(&store.store, WAITS));
    until("it runs", || store.store.join("begun").exists());
    let status = status(&store);
    let home = PathBuf::from(status["home"].as_str().unwrap());
    assert!(!is_mountpoint(&home));
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
    let daemon = status["pid"].as_u64().unwrap();
    let keeper = children(daemon);
    let [keeper] = keeper.as_slice() else {
        panic!("{keeper:?}");
    };
    // The keeper has nothing of the host in use, and its owner does not get in by it.
    let mounts = fs::read_to_string(format!("/proc/{keeper}/mountinfo")).unwrap();
    assert_eq!(mounts.lines().count(), 2, "{mounts}");
    if !rustix::process::geteuid().is_root() {
        assert!(fs::read_dir(format!("/proc/{keeper}/root")).is_err());
        assert!(fs::read_dir(format!("/proc/{keeper}/cwd")).is_err());
    }
    // Another program joins, and what was written is seen before it is asked for.
    assert_eq!(
        good(&store.run(&[], &["sh", "-c", "readlink hosts; echo >go"])),
        "/etc/hosts\n"
    );
    assert!(child.wait().unwrap().success());
    store.is_left_alone();
    until("its keeper ends", || {
        !Path::new(&format!("/proc/{keeper}")).exists()
    });
    assert!(!home.exists());
}

/// Links that lead out of the project on the host are what its owner looks at first.
#[test]
fn links_that_lead_out_are_flagged() {
    need_mount!();
    let store = repository();
    need_detached!(&store);
    for dir in ["deep/dir", "kept/dir"] {
        fs::create_dir_all(store.store.join(dir)).unwrap();
    }
    symlink("../../AGENTS.md", store.store.join("deep/dir/reaimed")).unwrap();
    symlink("/etc/hosts", store.store.join("deep/dir/as-before")).unwrap();
    symlink("/etc/hosts", store.store.join("kept/dir/as-before")).unwrap();
    symlink("../beside", store.store.join("kept/dir/inside")).unwrap();
    let script = r#"
        echo text >a-file; ln -s AGENTS.md a-in; ln -s /etc/passwd out; ln -s ../.. dir/climbs
        ln -s dir/climbs/x via; ln -s "$PWD/dir" absolute; ln -s .trumanfs/lock state; ln -s loop loop
        ln -sfn /etc/shadow CLAUDE.md; rm hosts; mv deep/dir moved; mv kept/dir dir/moved
    "#;
    let output = run(&store.store, script);
    assert!(output.status.success(), "{}", describe(&output));
    let flagged = [
        "/CLAUDE.md",
        "/dir/climbs",
        "/moved",
        "/out",
        "/state",
        "/via",
    ];
    // At the end of the agent, in the review, and on the page.
    let said = err(&output);
    let words = "leads out of the project";
    let first: Vec<&str> = said.lines().take(flagged.len()).collect();
    assert!(first.iter().all(|line| line.contains(words)), "{said}");
    assert_eq!(said.matches(words).count(), flagged.len(), "{said}");
    let path = store.store.to_str().unwrap();
    let review = trumanfs(&["review", path, "--run", "last", "--json"]);
    let listed = String::from_utf8_lossy(&review.stdout).into_owned();
    let listed = listed.lines().map(|line| {
        let change: serde_json::Value = serde_json::from_str(line).unwrap();
        let flag = change["flag"].as_str().map(str::to_owned);
        (change["path"].as_str().unwrap().to_owned(), flag)
    });
    let listed: Vec<_> = listed.collect();
    let (first, others) = listed.split_at(flagged.len());
    let is_flagged = |(path, flag): &(String, Option<String>)| {
        flag.as_deref() == Some("leads-out") && flagged.contains(&path.as_str())
    };
    assert!(first.iter().all(is_flagged), "{listed:?}");
    assert!(others.iter().all(|(_, flag)| flag.is_none()), "{listed:?}");
    let page = store.base.join("page.html");
    let page_path = page.to_str().unwrap();
    let report = trumanfs(&["report", path, "--run", "last", "--html", page_path]);
    assert!(report.status.success(), "{}", describe(&report));
    let html = fs::read_to_string(&page).unwrap();
    let list = html.split("Look at these first").nth(1).unwrap();
    let list = list.split("</ul>").next().unwrap();
    assert_eq!(list.matches(words).count(), flagged.len(), "{list}");
}

/// A directory that its owner may not look into stops no review.
#[test]
fn closed_directories_are_reviewed() {
    need_mount!();
    let store = Store::new();
    fs::create_dir_all(store.store.join("moved/closed")).unwrap();
    fs::create_dir(store.store.join("closed")).unwrap();
    let script = "chmod 0 moved/closed closed; mv moved elsewhere; ln -s closed/x l";
    let output = run(&store.store, script);
    let path = store.store.to_str().unwrap();
    let review = trumanfs(&["review", path, "--run", "last", "--json"]);
    let listed = String::from_utf8_lossy(&review.stdout).into_owned();
    for dir in ["elsewhere/closed", "closed"] {
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(store.store.join(dir), open).unwrap();
    }
    assert!(listed.contains("/elsewhere"), "{}", describe(&review));
    let said = err(&output);
    assert!(said.contains("what is different: "), "{said}");
    assert!(!said.contains("cannot be told"), "{said}");
}

/// The processes that a process has started.
fn children(parent: u64) -> Vec<u64> {
    let path = format!("/proc/{parent}/task");
    let tasks = fs::read_dir(path).unwrap().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let lists: Vec<String> = lists.collect();
    let pids = lists.iter().flat_map(|list| list.split_whitespace());
    pids.map(|pid| pid.parse().unwrap()).collect()
}

/// Kept by nobody, a home takes no more programs; those that run there go on, and the next one begins as ever.
#[test]
fn a_keeper_that_is_killed_leaves_nothing() {
    need_mount!();
    let store = repository();
    need_detached!(&store);
    let mut child = begin(agent(&store.store, &format!("{WAITS}; echo >end")));
    until("it runs", || store.store.join("begun").exists());
    let home = status(&store)["home"].as_str().unwrap().to_owned();
    for keeper in children(status(&store)["pid"].as_u64().unwrap()) {
        let keeper = Pid::from_raw(i32::try_from(keeper).unwrap()).unwrap();
        kill_process(keeper, Signal::KILL).unwrap();
    }
    until("it is noticed", || {
        let joined = store.run(&[], &["true"]);
        !joined.status.success() && err(&joined).contains("keeps this home")
    });
    fs::write(store.store.join("go"), "").unwrap();
    assert!(child.wait().unwrap().success());
    assert!(store.store.join("end").exists());
    store.is_left_alone();
    assert!(!Path::new(&home).exists());
    assert!(good(&run(&store.store, "readlink hosts")).contains("/etc/hosts"));
}

/// Tracked links that a mounted home hides are named, as git would commit their deletion.
#[test]
fn links_that_a_mounted_home_hides_are_counted() {
    need_mount!();
    need_tools!("git");
    let store = repository();
    let (path, home) = (store.store.to_str().unwrap(), store.base.join("home"));
    fs::create_dir(&home).unwrap();
    let home = home.to_str().unwrap();
    for (options, wanted) in [
        (&[][..], "git tracks 3 links that"),
        (&["--symlinks", "inside"], "git tracks 2 links that"),
        (
            &["--hide", "AGENTS.md"],
            "git tracks 3 links and 1 file of --hide that",
        ),
    ] {
        let output = trumanfs(&[&["mount", path, home], options].concat());
        let unmounted = trumanfs(&["umount", home]);
        assert!(unmounted.status.success(), "{}", describe(&unmounted));
        assert_eq!(err(&output).lines().count(), 1, "{}", err(&output));
        assert!(err(&output).contains(wanted), "{}", err(&output));
    }
    let mut doctor = Command::new(binary());
    doctor.arg("doctor").current_dir(store.store.join("dir"));
    let said = run_limited(doctor, LIMIT);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("3 links of the repository here"), "{said}");
}

/// A mounted home is at a path of the host: whoever joins has its links.
#[test]
fn a_mounted_home_keeps_its_links() {
    need_mount!();
    for (options, expected) in [
        (&[][..], "Operation not permitted"),
        (&["--symlinks", "inside"], "f\n"),
    ] {
        let place = Place::with(options);
        symlink("/etc/hosts", place.home.store().join("hosts")).unwrap();
        let said = place.sh("ls; echo x >f; ln -s f l 2>&1 || true; readlink l || true; ln -s /etc/hosts h 2>&1 || true");
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("hosts\n"), "{said}");
        assert!(!place.home.store().join("h").is_symlink());
    }
}

/// The home of an agent leaves no mode behind: a shell in the store has the links of the last mount.
#[test]
fn the_next_session_has_the_links_of_the_last_mount() {
    need_mount!();
    let store = repository();
    let (path, home) = (store.store.to_str().unwrap(), store.base.join("home"));
    fs::create_dir(&home).unwrap();
    let home = home.to_str().unwrap();
    for words in [&["mount", path, home][..], &["umount", home]] {
        let output = trumanfs(words);
        assert!(output.status.success(), "{}", describe(&output));
    }
    good(&run(&store.store, "echo x >f"));
    let settings = |session: &str| {
        let journal = store.store.join(".trumanfs/sessions").join(session);
        let text = fs::read_to_string(journal.join("journal.jsonl")).unwrap();
        let begin = text.lines().next().unwrap().to_owned();
        begin[begin.find("\"symlinks_inside\"").unwrap()..].to_owned()
    };
    let mut sessions: Vec<String> = fs::read_dir(store.store.join(".trumanfs/sessions"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    sessions.sort();
    let words = "\"symlinks_inside\":false";
    assert!(
        sessions
            .iter()
            .all(|session| settings(session).starts_with(words))
    );
}

/// An owner whose home root mounts has all links as well.
#[test]
fn root_mounts_for_the_owner_of_the_store() {
    need_mount!();
    need_root!("to give the store to another user");
    let store = repository();
    host(&store.base, "chown -hR 12345:12345 store");
    let said = good(&run(
        &store.store,
        "id -u; readlink hosts; ln -s /etc/shadow s; git status --short",
    ));
    assert_eq!(said, "12345\n/etc/hosts\n?? s\n");
}

/// Puts links to outside where a directory and a file of a project are, and keeps those beside it.
fn swap(store: &Store, outside: &Path) {
    for (name, target) in [("d", outside.to_owned()), ("g", outside.join("f"))] {
        let at = store.store.join(name);
        if !at.is_symlink() {
            let kept = (0..).map(|n| store.base.join(format!("{name}-{n}")));
            let kept = { kept }.find(|kept| !kept.exists()).unwrap();
            let _ = fs::rename(&at, kept);
            symlink(target, at).unwrap();
        }
    }
}

/// Every verb of an operator, in a project in which somebody has put links to outside where a directory and a file were.
#[test]
fn operators_follow_no_link_that_was_swapped_in() {
    need_mount!();
    for mounted in [false, true] {
        let store = Store::new();
        let (outside, home) = (store.base.join("outside"), store.base.join("home"));
        for dir in [&outside, &home, &store.store.join("d")] {
            fs::create_dir(dir).unwrap();
        }
        for (path, text) in [
            (outside.join("f"), "SECRET\n"),
            (store.store.join("d/f"), "one\n"),
            (store.store.join("d/gone"), "gone\n"),
            (store.store.join("g"), "one\n"),
        ] {
            fs::write(path, text).unwrap();
        }
        let (at, home) = (store.store.to_str().unwrap(), home.to_str().unwrap());
        let fork = store.base.join("fork");
        let fork = fork.to_str().unwrap();
        let done = |words: &[&str]| {
            let output = trumanfs(words);
            assert!(output.status.success(), "{words:?}: {}", describe(&output));
        };
        done(&["fork", "--copy", at, "fork"]);
        for line in ["echo fork >d/f", "echo fork >g", "echo fork >d/other"] {
            done(&["exec", "--root", fork, "--", line]);
        }
        let script = "echo two >>d/f; echo two >>g; rm d/gone; chmod 600 d/f g; mkdir d/new";
        good(&run(&store.store, script));
        if mounted {
            done(&["mount", at, home]);
        }
        let trash = trumanfs(&["trash", "list", at, "--json"]);
        let trash: Vec<serde_json::Value> = String::from_utf8_lossy(&trash.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let gone = trash.iter().find(|entry| entry["path"] == "/d/gone");
        let entry = gone.unwrap()["entry"].as_str().unwrap();
        let before = tree(&outside);
        for words in [
            &["review", at, "--run", "last", "--patch"][..],
            &["diff", at, "--run", "last", "--patch"],
            &["diff", at, "--patch"],
            &["report", at, "--run", "last", "--html", "-"],
            &["cat", at, "d/f"],
            &["cat", at, "g"],
            &["versions", at, "d/f"],
            &["undo", at, "--run", "last", "--dry-run"],
            &["undo", at, "--run", "last"],
            &["reject", at, "last"],
            &["trash", "restore", at, entry],
            &["trash", "restore", at, entry, "--to", "d/f2"],
            &["restore", at, "d/f"],
            &["restore", at, "g"],
            &["restore", at, "d"],
            &["merge", at, fork],
            &["merge", "--keep-both", at, fork],
            &["merge", "--force", at, fork],
            &["undo", at, "--run", "last", "--force"],
            &["redo", at],
            &["fsck", at],
        ] {
            swap(&store, &outside);
            let output = trumanfs(words);
            let said = describe(&output);
            assert_ne!(output.status.code(), Some(2), "{words:?}: {said}");
            assert!(!said.contains("SECRET"), "{words:?}: {said}");
            assert!(!said.contains("panicked"), "{words:?}: {said}");
            assert_eq!(tree(&outside), before, "{words:?}: {said}");
        }
        if mounted {
            done(&["umount", home]);
        }
    }
}
