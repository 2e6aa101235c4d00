//! `/tmp` of what runs in a home: one directory for a session, no part of the home, and gone with the session.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::process::Command;

use super::{LIMIT, POLICY, Place, Store, command, good};
use crate::common::{Home, binary, need_mount, need_root, run_limited, tool};

#[test]
fn the_runs_of_a_session_share_it() {
    need_mount!();
    let place = Place::mounted();
    place.sh("echo kept >/tmp/file; mkdir -p /tmp/a/b; [ \"$TMPDIR\" = /tmp ]");
    assert_eq!(place.sh("cat /tmp/file; ls /tmp/a"), "kept\nb\n");
    // Neither recorded nor in the home.
    let records = place.home.journal();
    assert!(records.iter().all(|r| r["op"] == "begin"), "{records:?}");
    assert_eq!(fs::read_dir(place.home.home()).unwrap().count(), 0);
}

#[test]
fn it_is_empty_in_the_next_session() {
    need_mount!();
    let mut place = Place::mounted();
    place.sh("echo kept >/tmp/file");
    place.home.umount();
    assert!(!place.home.store().join(".trumanfs/scratch").exists());
    place.home.mount_again();
    assert_eq!(
        place.sh("ls -A /tmp | grep -vx -e .home -e \"$(echo \"$PWD\" | cut -d/ -f3)\" || true"),
        ""
    );
    // A daemon that was killed has not emptied it.
    place.sh("echo kept >/tmp/file");
    place.home.kill_daemon();
    assert!(place.home.store().join(".trumanfs/scratch/file").exists());
    place.home.mount_again();
    assert_eq!(
        place.sh("ls -A /tmp | grep -vx -e .home -e \"$(echo \"$PWD\" | cut -d/ -f3)\" || true"),
        ""
    );
    // What the killed one has left is deleted by the end of the next.
    place.home.umount();
    let left: Vec<_> = fs::read_dir(place.home.store().join(".trumanfs/purging"))
        .map(|dir| dir.flatten().map(|entry| entry.file_name()).collect())
        .unwrap_or_default();
    assert_eq!(left, Vec::<std::ffi::OsString>::new());
}

#[test]
fn a_store_that_is_mounted_for_a_run_leaves_none() {
    need_mount!();
    let store = Store::new();
    good(&store.run(&[], &["sh", "-c", "echo kept >/tmp/file; echo x >file"]));
    store.is_left_alone();
    assert!(!store.store.join(".trumanfs/scratch").exists());
    assert_eq!(
        good(&store.run(
            &[],
            &[
                "sh",
                "-c",
                "ls -A /tmp | grep -vx -e .home -e \"$(echo \"$PWD\" | cut -d/ -f3)\"; cat file"
            ]
        )),
        "x\n"
    );
}

/// A home may lie below /tmp, which the session's /tmp covers.
#[test]
fn a_home_below_tmp_is_where_it_is() {
    need_mount!();
    let place = Place::mounted();
    assert!(
        place.home.home().starts_with("/tmp"),
        "tests run below /tmp"
    );
    let said =
        place.sh("pwd; echo x >file; cat \"$PWD/file\"; ls /tmp | head -c 100; ls -A \"$PWD/..\"");
    let home = place.home.home().display().to_string();
    assert!(said.starts_with(&format!("{home}\nx\n")), "{said}");
    assert!(
        !said.contains("store") && !said.contains("policy.yaml"),
        "{said}"
    );
}

/// npm's cache and what else tools leave in their `HOME` lay in the project.
#[test]
fn what_tools_leave_in_their_home_directory_is_not_in_the_home() {
    need_mount!();
    let place = Place::mounted();
    let left =
        "echo $HOME $XDG_CACHE_HOME; mkdir -p ~/.tool $XDG_CACHE_HOME/tool; echo x >~/.tool/x";
    let said = "/tmp/.home /tmp/.home/.cache\n";
    assert_eq!(place.sh(left), said);
    // So it is in lines of the bundled shell, and the session's programs find it again.
    let policy = place.policy();
    let mut line = Command::new(binary());
    line.args(["exec", "--root"]).arg(place.home.home());
    line.arg("--policy").arg(&policy);
    line.arg("sh -c 'cat ~/.tool/x; echo $HOME $XDG_CACHE_HOME'");
    assert_eq!(good(&run_limited(line, LIMIT)), format!("x\n{said}"));
    if tool("npm").is_some() {
        let npm = "npm: {subcommands: {ls: {}, config: {get_only: true}}}\n";
        fs::write(&policy, npm).unwrap();
        fs::write(place.home.path("package.json"), "{\"name\": \"app\"}\n").unwrap();
        good(&place.run(&[], &["npm", "ls"]));
        let said = good(&place.run(&[], &["npm", "config", "get", "cache"]));
        assert_eq!(said, "/tmp/.home/.cache/npm\n");
        fs::remove_file(place.home.path("package.json")).unwrap();
    }
    assert_eq!(fs::read_dir(place.home.home()).unwrap().count(), 0);
    // What somebody keeps in a home that is a user's own is read as before.
    fs::write(place.home.path(".gitconfig"), "[user]\n\tname = kept\n").unwrap();
    let git = "git: {subcommands: {config: {arguments: text}}}\n";
    fs::write(&policy, format!("{git}sh: {{flags: {{-c: text}}}}\n")).unwrap();
    let name = good(&place.run(&[], &["git", "config", "user.name"]));
    assert_eq!(name, "kept\n");
    // And a policy may say where it is.
    let own = format!(
        "sh: {{flags: {{-c: text}}, safe_env: {{HOME: {}}}}}\n",
        place.home.home().display()
    );
    fs::write(&policy, own).unwrap();
    good(&place.run(&[], &["sh", "-c", "echo x >~/kept"]));
    assert!(place.home.path("kept").exists());
}

#[test]
fn what_stands_for_the_directory_of_tools_keeps_no_program_from_running() {
    need_mount!();
    need_root!("to mount for another user");
    let user = 12345;
    let home = Home::plan()
        .prepare(|store| chown(store, Some(user), Some(user)).unwrap())
        .options(&["--owner", &user.to_string()])
        .mount();
    let policy = home.base().join("policy.yaml");
    fs::write(&policy, POLICY).unwrap();
    let sh = |script: &str| {
        let words = ["sh", "-c", script];
        good(&run_limited(
            command(home.home(), &policy, &[], &words),
            LIMIT,
        ))
    };
    sh("true");
    let own = home.store().join(".trumanfs/scratch/.home");
    // Whoever made it was killed before they gave it away.
    chown(&own, Some(0), Some(0)).unwrap();
    assert_eq!(sh("echo x >~/x; cat ~/x"), "x\n");
    // What the occupant puts there instead is theirs, and nothing elsewhere is given to them.
    let elsewhere = home.base().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::remove_dir_all(&own).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &own).unwrap();
    assert_eq!(sh("echo x"), "x\n");
    assert_eq!(fs::metadata(&elsewhere).unwrap().uid(), 0);
    fs::remove_file(&own).unwrap();
    fs::write(&own, "a file").unwrap();
    assert_eq!(sh("echo x"), "x\n");
}

#[test]
fn the_state_directory_is_out_of_reach() {
    need_mount!();
    let place = Place::mounted();
    let said = place.sh(
        "ls -A; for p in .trumanfs ./.trumanfs .trash/../.trumanfs .trumanfs/audit.jsonl /tmp/../.trumanfs /tmp/.. /proc/1/cwd/.trumanfs; do
           [ -e $p/audit.jsonl ] && echo $p; done; mkdir .trumanfs 2>&1 | sed 's/.*: //'; cat /proc/self/mountinfo | grep -c -e store -e '[.]trumanfs/scratch' || true",
    );
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.first(), Some(&"No such file or directory"), "{said}");
}
