//! `trumanfs doctor`: what works is named, what does not as well, with what to do about it.

use std::process::Command;
use std::time::Duration;

use crate::common::{binary, describe, need_mount, need_root, need_tools, run_limited, trumanfs};

#[test]
fn a_machine_that_can_says_so() {
    need_mount!();
    let output = trumanfs(&["doctor"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    for name in [
        "kernel",
        "device",
        "mount",
        "namespaces",
        "mounts",
        "proc",
        "loopback",
        "filter",
        "program",
    ] {
        assert!(
            said.contains(&format!("ok      {name}")),
            "{name} in {said}"
        );
    }
    assert!(
        said.ends_with("\nHomes can be mounted. Programs can be run in a sandbox.\n"),
        "{said}"
    );
}

#[test]
fn what_is_installed_is_named_with_what_to_do_about_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let look = |path: &std::path::Path| -> serde_json::Value {
        let mut command = Command::new(binary());
        command.args(["doctor", "--json"]).env("PATH", path);
        command.env_remove("TRUMANFS_POLICY");
        let output = run_limited(command, Duration::from_secs(60));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let all = report["installed"].as_array().unwrap();
        assert!(all.len() >= 7, "{report}");
        let one = |name: &str| all.iter().find(|one| one["name"] == name).unwrap().clone();
        assert!(
            one("fusermount3")["remedy"]
                .as_str()
                .unwrap()
                .contains("fuse3")
        );
        one("in PATH")
    };
    let none = look(dir.path());
    assert!(
        none["remedy"].as_str().unwrap().contains("not in PATH"),
        "{none}"
    );
    let there = dir.path().join("trumanfs");
    std::os::unix::fs::symlink(binary(), &there).unwrap();
    let this = look(dir.path());
    assert!(
        this["remedy"].is_null() && this["found"].is_string(),
        "{this}"
    );
    std::fs::remove_file(&there).unwrap();
    std::fs::write(&there, "").unwrap();
    let other = look(dir.path());
    assert!(
        other["remedy"]
            .as_str()
            .unwrap()
            .contains("another program"),
        "{other}"
    );
}

#[test]
fn policies_are_named_with_what_is_wrong_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let policy = dir.path().join("policy.yaml");
    let look = || -> serde_json::Value {
        let mut command = Command::new(binary());
        command.args(["doctor", "--json"]);
        command.env("TRUMANFS_POLICY", &policy);
        let output = run_limited(command, Duration::from_secs(60));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let all = report["installed"].as_array().unwrap();
        all.iter()
            .find(|one| one["name"] == "policy")
            .unwrap()
            .clone()
    };
    let name = policy.display().to_string();
    std::fs::write(&policy, "ls: {flags: [-l]}\ncat: {}\n").unwrap();
    let sound = look();
    let found = sound["found"].as_str().unwrap();
    assert!(
        found.starts_with(&name) && found.ends_with("sound, allows 2 programs"),
        "{sound}"
    );
    assert!(sound["remedy"].is_null(), "{sound}");
    std::fs::write(&policy, "ls: {flogs: [-l]}\n").unwrap();
    let broken = look();
    assert!(
        broken["remedy"].as_str().unwrap().contains("flogs"),
        "{broken}"
    );
    std::fs::remove_file(&policy).unwrap();
    let missing = look();
    assert!(
        missing["remedy"].as_str().unwrap().contains(&name),
        "{missing}"
    );
}

/// Runs doctor behind a command that takes something away, and returns what it says in JSON.
fn doctor(before: &[&str], has_sandbox: bool) -> serde_json::Value {
    let (program, arguments) = before.split_first().unwrap();
    let mut command = Command::new(program);
    command
        .args(arguments)
        .arg(binary())
        .args(["doctor", "--json"]);
    let output = run_limited(command, Duration::from_secs(60));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["sandbox"], has_sandbox, "{report}");
    let code = i32::from(report["mount"] != true || !has_sandbox);
    assert_eq!(output.status.code(), Some(code), "{}", describe(&output));
    report
}

fn capability<'a>(report: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let all = report["capabilities"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).unwrap()
}

#[test]
fn a_system_without_user_namespaces_is_told_what_forbids_them() {
    need_root!("to forbid user namespaces");
    need_tools!("unshare");
    // In a user namespace of its own, so that the limit is nobody else's.
    let script = "echo 0 >/proc/sys/user/max_user_namespaces; exec \"$@\"";
    let report = doctor(
        &[
            "unshare",
            "--user",
            "--map-root-user",
            "sh",
            "-c",
            script,
            "sh",
        ],
        false,
    );
    let namespaces = capability(&report, "namespaces");
    assert_eq!(namespaces["works"], false);
    let remedy = namespaces["remedy"].as_str().unwrap();
    assert!(remedy.contains("max_user_namespaces"), "{remedy}");
    assert!(capability(&report, "proc")["works"].is_null());
}

#[test]
fn bwrap_is_tried_and_taken_where_own_namespaces_are_refused() {
    need_tools!("bwrap", "python3");
    let filter = crate::common::repository().join("tests/sandbox/filtered.py");
    // open_tree(2), which bwrap does without. (999 is no system call.)
    let is_root = rustix::process::geteuid().is_root();
    // Bubblewrap's sandboxes are for no home that is root's.
    let second = (!is_root).then_some("bwrap");
    // Refused with EPERM, and with ENOSYS, as by a kernel that does not know it.
    for (refused, own, taken) in [
        ("999", true, Some("namespaces")),
        ("428", false, second),
        ("428=38", false, second),
    ] {
        let report = doctor(
            &["python3", filter.to_str().unwrap(), refused],
            taken.is_some(),
        );
        assert_eq!(report["backend"].as_str(), taken, "{report}");
        assert_eq!(capability(&report, "mounts")["works"], own, "{report}");
        let bwrap = capability(&report, "bwrap");
        assert_eq!(
            (&bwrap["works"], &bwrap["needed"]),
            (&true.into(), &false.into())
        );
        assert!(bwrap["remedy"].is_null(), "{report}");
    }
}

/// The numbers of system calls that are younger than a release of Linux, as far as one may use them: this kernel answers
/// them as that release would.
#[cfg(target_arch = "x86_64")]
#[test]
fn kernels_of_the_documented_age_are_enough() {
    need_root!("to mount a home with no_new_privs");
    need_mount!();
    need_tools!("python3");
    let filter = crate::common::repository().join("tests/sandbox/filtered.py");
    let without = |first: u32, more: &str| -> serde_json::Value {
        let young: Vec<String> = (first..=469).map(|number| format!("{number}=38")).collect();
        let mut command = Command::new("python3");
        command
            .arg(&filter)
            .arg(format!("{}{more}", young.join(",")));
        command.arg(binary()).args(["doctor", "--json"]);
        let output = run_limited(command, Duration::from_secs(60));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)))
    };
    // quotactl_fd(2) is of 5.13, faccessat2(2) of 5.8, close_range(2) (436) of 5.9.
    let for_sandboxes = without(443, "");
    assert_eq!(for_sandboxes["mount"], true, "{for_sandboxes}");
    assert_eq!(for_sandboxes["sandbox"], true, "{for_sandboxes}");
    let for_homes = without(439, ",436=38");
    assert_eq!(for_homes["mount"], true, "{for_homes}");
    let too_old = without(437, "");
    assert_eq!(too_old["mount"], false, "{too_old}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn where_neither_can_be_made_both_say_why() {
    need_tools!("bwrap", "python3");
    let filter = crate::common::repository().join("tests/sandbox/filtered.py");
    // open_tree(2) and mount(2).
    let report = doctor(&["python3", filter.to_str().unwrap(), "428,165"], false);
    assert!(report["backend"].is_null(), "{report}");
    let bwrap = capability(&report, "bwrap");
    assert_eq!(bwrap["works"], false, "{report}");
    let found = bwrap["found"].as_str().unwrap();
    assert!(found.contains("bwrap: "), "{found}");
    assert!(
        bwrap["remedy"].as_str().unwrap().contains("bubblewrap"),
        "{report}"
    );
}

/// `doctor` is where others send their readers, so it cannot send them to itself.
#[test]
fn a_remedy_of_doctor_is_not_doctor() {
    need_tools!("unshare", "bwrap");
    let report = doctor(&["unshare", "--user", "--map-root-user"], true);
    let bwrap = capability(&report, "bwrap");
    assert_eq!(bwrap["works"], false, "{report}");
    let remedy = bwrap["remedy"].as_str().unwrap();
    assert!(remedy.contains("CAP_SETUID"), "{remedy}");
    for one in report["capabilities"].as_array().unwrap() {
        let remedy = one["remedy"].as_str().unwrap_or_default();
        assert!(!remedy.contains("doctor"), "{one}");
    }
}

#[test]
fn a_container_that_covers_parts_of_proc_is_told_apart() {
    need_root!("to cover parts of /proc");
    need_tools!("unshare");
    let script =
        "mount -t tmpfs none /proc/scsi 2>/dev/null || mount -t tmpfs none /proc/irq; exec \"$@\"";
    let report = doctor(
        &[
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "sh",
        ],
        false,
    );
    assert_eq!(capability(&report, "namespaces")["works"], true);
    let proc = capability(&report, "proc");
    assert_eq!(proc["works"], false);
    assert!(
        proc["remedy"]
            .as_str()
            .unwrap()
            .contains("systempaths=unconfined")
    );
}

#[test]
fn root_without_rights_still_has_a_sandbox() {
    need_root!("to give rights up");
    need_tools!("setpriv");
    // As in a container: no CAP_SYS_ADMIN, but what changes identities, and what enters root into a user namespace.
    let keep = "--bounding-set=-all,+setuid,+setgid,+setfcap";
    doctor(&["setpriv", keep, "--inh-caps=-all"], true);
    let keep = "--bounding-set=-all,+setuid,+setgid";
    let report = doctor(&["setpriv", keep, "--inh-caps=-all"], false);
    let remedy = capability(&report, "namespaces")["remedy"]
        .as_str()
        .unwrap();
    assert!(remedy.contains("CAP_SETFCAP"), "{remedy}");
}

#[test]
fn in_a_sandbox_there_is_none_and_it_says_why() {
    let room = crate::room::Room::new();
    let program = room.home.join("trumanfs");
    crate::common::copy_program(binary(), &program);
    let outcome = room.run(room.plan(&[program.as_os_str(), "doctor".as_ref()]));
    use trumanfs::exec::program::sandbox::ProgramEnd;
    assert_eq!(outcome.ended.end, ProgramEnd::Exited(1), "{outcome:?}");
    assert!(outcome.out.contains("FAILED  namespaces"), "{outcome:?}");
    assert!(
        outcome
            .out
            .contains("In a sandbox of trumanfs none can be made"),
        "{outcome:?}"
    );
}

#[test]
fn in_bubblewrap_it_works_or_says_why() {
    need_tools!("bwrap");
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--dev-bind", "/", "/", "--proc", "/proc"]);
    command.arg(binary()).args(["doctor", "--json"]);
    let output = run_limited(command, Duration::from_secs(60));
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)));
    if report["sandbox"] != true {
        let all = report["capabilities"].as_array().unwrap();
        let failed = all
            .iter()
            .find(|one| one["works"] == false && one["needed"] == true);
        assert!(failed.unwrap()["remedy"].is_string(), "{report}");
    }
}
