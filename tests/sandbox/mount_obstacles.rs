//! Why no home can be mounted: each cause is made for real, in a mount namespace of its own, and `doctor` and `mount` name it
//! with its remedy. (What AppArmor and SELinux refuse is in the unit tests: few machines have them.)

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::common::watch;
use crate::common::{
    Home, binary, copy_program, describe, need_mount, need_root, need_tools, repository,
    run_limited,
};

/// Makes a device that everybody may open, prepares the cause, and becomes the user.
const SCRIPT: &str = r#"
    cd "$1"; user=$2 prepare=$3 before=$4; shift 4
    setpriv=$(command -v setpriv) helper=$(command -v fusermount3) python=$(command -v python3) unshare=$(command -v unshare)
    { grep -F ' - fuse.trumanfs ' /proc/self/mountinfo || true; } | cut -d' ' -f5 | while read -r at; do umount --lazy "$at" 2>/dev/null || ! mountpoint -q "$at"; done
    mkdir dev bin home store; mount -t tmpfs none dev; mknod -m 666 dev/fuse c 10 229; mount --bind dev/fuse /dev/fuse
    cp -p /etc/fuse.conf . 2>/dev/null || : >fuse.conf
    chown "$user" tmp home store
    export TMPDIR="$PWD/tmp" HOME="$PWD/tmp"
    unset XDG_RUNTIME_DIR
    eval "$prepare"
    eval exec "$setpriv" --reuid="$user" --regid="$user" --clear-groups "$before" '"$@"'
"#;

/// Runs a command of trumanfs where a cause has been prepared. `before` is put before the command, and begins with options of setpriv.
fn run(user: u32, prepare: &str, before: &str, arguments: &[&str]) -> Output {
    let base = tempfile::TempDir::with_prefix("trumanfs-obstacle-").unwrap();
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(base.path().join("tmp")).unwrap();
    let program = base.path().join("trumanfs");
    copy_program(binary(), &program);
    let filter = base.path().join("filtered.py");
    fs::copy(repository().join("tests/sandbox/filtered.py"), filter).unwrap();
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--propagation",
        "private",
        "bash",
        "-euc",
        SCRIPT,
        "bash",
    ]);
    command
        .arg(base.path())
        .args([&user.to_string(), prepare, before]);
    command.arg(&program).args(arguments);
    run_limited(command, Duration::from_secs(120))
}

/// Returns what doctor says of one step of mounting.
fn doctor(user: u32, prepare: &str, before: &str, step: &str) -> Value {
    let output = run(user, prepare, before, &["doctor", "--json"]);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)));
    let all = report["mounting"].as_array().unwrap();
    let one = all.iter().find(|one| one["name"] == step).unwrap();
    let works = all.iter().all(|one| one["works"] == true);
    assert_eq!(report["mount"], works, "{report}");
    if !works {
        assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    }
    one.clone()
}

#[track_caller]
fn is_named(one: &Value, cause: &str, remedy: &str) {
    assert_eq!(one["works"], false, "{one}");
    let (found, advice) = (
        one["found"].as_str().unwrap(),
        one["remedy"].as_str().unwrap(),
    );
    assert!(found.contains(cause), "{cause} is not in {found}");
    assert!(advice.contains(remedy), "{remedy} is not in {advice}");
    // A remedy for another cause would send its reader the wrong way.
    for other in [
        "needs fusermount3",
        "modprobe",
        "chmod 666",
        "NoNewPrivileges=",
    ] {
        assert!(
            remedy == other || !advice.contains(other),
            "{other} is in {advice}"
        );
    }
}

const USER: u32 = 65534;

#[test]
fn home_is_tried_by_doctor_as_root_and_as_an_ordinary_user() {
    need_root!("to make a device");
    need_tools!("unshare", "setpriv", "fusermount3");
    for user in [0, USER] {
        let one = doctor(user, "", "", "mount");
        assert_eq!(one["works"], true, "{one}");
        assert!(one["remedy"].is_null(), "{one}");
    }
}

/// The trial took the home around for its own, and unmounted it.
#[test]
fn home_around_the_temporary_directory_is_left_alone() {
    need_mount!();
    let home = Home::mount();
    let mut command = Command::new(binary());
    command
        .args(["doctor", "--json"])
        .env("TMPDIR", home.home());
    let output = run_limited(command, Duration::from_secs(60));
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)));
    let mount = report["mounting"].as_array().unwrap().last().unwrap();
    is_named(mount, "lies in a mounted home", "Set TMPDIR");
    assert!(watch::is_mountpoint(home.home()), "it was unmounted");
    assert_eq!(fs::read_dir(home.home()).unwrap().count(), 0);
}

#[test]
fn full_temporary_directory_is_named() {
    need_root!("to fill a disk");
    need_tools!("unshare", "setpriv");
    let prepare = "mount -t tmpfs -o size=40k none tmp";
    let one = doctor(0, prepare, "", "mount");
    is_named(&one, "/tmp/trumanfs-trial-", "Set TMPDIR");
}

#[test]
fn device_that_cannot_be_opened_has_its_cause_named() {
    need_root!("to make a device");
    need_tools!("unshare", "setpriv", "fusermount3");
    let other = "umount /dev/fuse; mkdir other; mount -t tmpfs";
    for (prepare, cause, remedy) in [
        ("chmod 600 dev/fuse", "mode 0600", "chmod 666"),
        (
            &format!(
                "{other} -o nodev none other; mknod -m 666 other/fuse c 10 229; mount --bind other/fuse /dev/fuse"
            ),
            "nodev",
            "--device /dev/fuse",
        ),
        (
            &format!(
                "{other} none other; mknod -m 666 other/fuse c 10 254; mount --bind other/fuse /dev/fuse"
            ),
            "No such device",
            "modprobe",
        ),
        (
            &format!("{other} none other; mknod -m 666 other/null c 1 3; mount --bind other /dev"),
            "No such file",
            "--device /dev/fuse",
        ),
    ] {
        let one = doctor(USER, prepare, "", "device");
        is_named(&one, cause, remedy);
    }
    // Root opens whatever the mode is.
    let one = doctor(0, "chmod 600 dev/fuse", "", "device");
    assert_eq!(one["works"], true, "{one}");
}

#[test]
fn fusermount3_that_cannot_mount_has_its_cause_named() {
    need_root!("to make a device");
    need_tools!("unshare", "setpriv", "fusermount3");
    let copied = r#"cp "$helper" bin; PATH="$PWD/bin:$PATH""#;
    for (prepare, before, cause, remedy) in [
        (r#"PATH="$PWD/bin""#, "", "fusermount3", "needs fusermount3"),
        (copied, "", "is not set-uid root", "chmod u+s"),
        (
            &format!("mount -t tmpfs -o nosuid,mode=755 none bin; {copied}; chmod 4755 bin/*"),
            "",
            "nosuid",
            "set-uid programs work",
        ),
        ("", "--no-new-privs", "no_new_privs", "NoNewPrivileges="),
        (
            "",
            "--bounding-set=-sys_admin",
            "cannot have CAP_SYS_ADMIN",
            "--cap-add SYS_ADMIN",
        ),
        (
            "echo mount_max = 0 >>fuse.conf; mount --bind fuse.conf /etc/fuse.conf",
            "",
            "mount_max",
            "raise mount_max",
        ),
        (
            NO_MTAB,
            "",
            "/etc/mtab",
            "ln -s /proc/self/mounts /etc/mtab",
        ),
    ] {
        let one = doctor(USER, prepare, before, "mount");
        is_named(&one, cause, remedy);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn root_that_cannot_mount_has_its_cause_named() {
    need_root!("to make a device");
    need_tools!("unshare", "setpriv", "python3");
    let namespaces = "chmod 755 tmp; mkdir -p run/user; export XDG_RUNTIME_DIR=$PWD/run/user";
    for (prepare, before, step, cause, remedy) in [
        (
            "",
            "--bounding-set=-sys_admin",
            "mount",
            "cannot have CAP_SYS_ADMIN",
            "--cap-add SYS_ADMIN",
        ),
        // mount(2).
        (
            "",
            "\"$python\" filtered.py 165",
            "mount",
            "filter of system calls",
            "--cap-add SYS_ADMIN",
        ),
        (
            namespaces,
            "\"$unshare\" --user --map-root-user",
            "mount",
            "user namespace",
            "unshare --user",
        ),
        // openat2(2), as before Linux 5.6.
        (
            "",
            "\"$python\" filtered.py 437=38",
            "kernel",
            "openat2(2)",
            "Linux 5.6",
        ),
    ] {
        let one = doctor(0, prepare, before, step);
        is_named(&one, cause, remedy);
    }
}

/// A home for sandboxes alone is mounted in a user namespace of its own then.
#[test]
fn agent_works_where_nothing_can_be_mounted_on_the_host() {
    need_root!("to make a device");
    need_tools!("unshare", "setpriv");
    let script = r#"/bin/sh -ec 'mkdir -m 700 state; export XDG_STATE_HOME=$PWD/state
        "$0" agent --store store -- /bin/sh -ec "echo new >f; mv f g; cat g; ln -s /etc/passwd l; grep -c root l || true"
        "$0" undo store --run last; ls -A store'"#;
    for (user, prepare, before) in [
        (USER, r#"ln -s /bin/mkdir /bin/ls bin; PATH="$PWD/bin""#, ""),
        (USER, "", "--no-new-privs"),
        (USER, "", "--bounding-set=-sys_admin"),
        (0, "", "--bounding-set=-sys_admin"),
    ] {
        let prepare = format!("chown {user} .; {prepare}");
        let output = run(user, &prepare, &format!("{before} {script}"), &[]);
        let (said, told) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{}", describe(&output));
        assert!(said.starts_with("new\n"), "{}", describe(&output));
        assert!(told.contains("in a user namespace of its own"), "{told}");
        assert!(said.contains("undone"), "{said}");
        let left = said.lines().skip_while(|line| !line.contains("undone"));
        assert!(
            !left.skip(1).any(|line| ["f", "g", "l"].contains(&line)),
            "{said}"
        );
        let one = doctor(user, &prepare, before, "home of sandboxes");
        assert_eq!(one["works"], true, "{one}");
    }
    // Both reasons are named where that is refused as well.
    let forbidden = "echo 0 >/proc/sys/user/max_mnt_namespaces";
    let before =
        format!("\"$unshare\" --user --map-root-user bash -c '{forbidden}; exec \"$@\"' bash");
    let output = run(0, "", &before, &["agent", "--store", "store", "--", "true"]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(123), "{told}");
    assert!(told.contains("in a user namespace of its own: "), "{told}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What only the command line of `mount` can bring about.
#[test]
fn refused_mount_has_its_cause_named() {
    need_root!("to make a device");
    need_tools!("unshare", "setpriv", "fusermount3");
    let no_conf = ": >fuse.conf; mount --bind fuse.conf /etc/fuse.conf";
    for (prepare, arguments, remedy) in [
        (
            no_conf,
            &["mount", "store", "home", "--allow-other"][..],
            "user_allow_other",
        ),
        (
            "chown root home",
            &["mount", "store", "home"],
            "a home directory that is yours",
        ),
        (
            "chmod 600 dev/fuse",
            &["mount", "store", "home"],
            "chmod 666",
        ),
    ] {
        let output = run(USER, prepare, "", arguments);
        assert_eq!(output.status.code(), Some(6), "{}", describe(&output));
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(complaint.contains(remedy), "{remedy} is not in {complaint}");
        assert!(!complaint.contains("install the package"), "{complaint}");
    }
}

const NO_MTAB: &str =
    "mkdir etc; cp -p /etc/passwd /etc/group /etc/fuse.conf etc; mount --bind etc /etc";

/// fusermount3 was tried 48 times, and each time it complained.
#[test]
fn unmount_that_fails_is_explained_once() {
    need_root!("to make a device");
    need_tools!("unshare", "setpriv", "fusermount3", "python3");
    let script = r#"sh -c '"$0" mount store home; "$0" umount home; code=$?
        kill $("$0" status home --json | "$1" -c "import json, sys; print(json.load(sys.stdin)[\"pid\"])"); exit $code'"#;
    let output = run(USER, NO_MTAB, script, &["/usr/bin/python3"]);
    assert_eq!(output.status.code(), Some(6), "{}", describe(&output));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        complaint.matches("failed to open").count(),
        1,
        "{complaint}"
    );
    assert!(
        complaint.contains("ln -s /proc/self/mounts /etc/mtab"),
        "{complaint}"
    );
    assert!(!complaint.contains("in use"), "{complaint}");
}

/// Where the usual directory of the notes about homes cannot be had, the next one is taken.
#[test]
fn home_is_found_where_the_usual_directory_of_notes_cannot_be_written() {
    need_root!("to make a device");
    need_tools!("unshare", "setpriv", "fusermount3", "python3");
    let script = r#"sh -ec '"$0" mount store home; "$0" checkpoint create home c; test -d "$1"; "$0" umount home'"#;
    let read_only =
        "mkdir run; chown $user run; mount --bind run run; mount -o remount,bind,ro run";
    for (user, prepare, place) in [
        (0, "mount --bind run /run", "tmp/trumanfs-0"),
        (
            0,
            "mount --bind run /run; mkdir mine; export XDG_RUNTIME_DIR=$PWD/mine",
            "mine/trumanfs",
        ),
        (
            USER,
            "export XDG_RUNTIME_DIR=$PWD/run",
            "tmp/trumanfs-65534",
        ),
        (
            USER,
            "export XDG_RUNTIME_DIR=$PWD/missing",
            "tmp/trumanfs-65534",
        ),
    ] {
        let output = run(user, &format!("{read_only}; {prepare}"), script, &[place]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{prepare}: {}",
            describe(&output)
        );
    }
}

/// What another user has put where notes are looked for would lead an operator to another store.
#[test]
fn note_of_another_user_is_not_believed() {
    need_root!("to make a device");
    need_tools!("unshare", "setpriv", "fusermount3");
    // The real note is moved away, and a copy of it belongs to somebody else.
    let script = r#"sh -c '"$0" mount store home; cd tmp; mv trumanfs-0 mine; cp -r mine trumanfs-0; chown -R 65534 trumanfs-0; cd ..
        "$0" checkpoint create home c; code=$?; mv tmp/trumanfs-0 other; mv tmp/mine tmp/trumanfs-0; "$0" umount home; exit $code'"#;
    let read_only =
        "mkdir run; mount --bind run run; mount -o remount,bind,ro run; mount --bind run /run";
    let output = run(0, read_only, script, &[]);
    assert_eq!(output.status.code(), Some(6), "{}", describe(&output));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        complaint.contains("its store is known only to"),
        "{complaint}"
    );
}
