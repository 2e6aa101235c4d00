//! System calls: which are refused and how, and that what programs need is not among them.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use trumanfs::exec::program::sandbox::SandboxPlan;

use crate::common::need_tools;
use crate::room::Room;

/// Runs a subject of probe.c in a sandbox and expects exactly these answers.
fn expect(subject: &str, change: impl FnOnce(&mut SandboxPlan), answers: &[(&str, &str)]) {
    let room = Room::new();
    let probe = room.probe();
    let mut plan = room.plan(&[probe.as_os_str(), subject.as_ref()]);
    change(&mut plan);
    let outcome = room.run(plan);
    let said = outcome.good();
    let wanted: Vec<String> = answers
        .iter()
        .map(|(name, answer)| format!("{name}: {answer}"))
        .collect();
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said, wanted, "{subject}");
}

#[test]
fn socket_families() {
    need_tools!("gcc");
    expect(
        "sockets",
        |_| (),
        &[
            ("unix", "ok"),
            ("inet", "ok"),
            ("inet6", "ok"),
            ("route", "ok"),
            ("netlink audit", "EAFNOSUPPORT"),
            ("netlink uevent", "EAFNOSUPPORT"),
            ("packet", "EAFNOSUPPORT"),
            ("vsock", "EAFNOSUPPORT"),
            ("alg", "EAFNOSUPPORT"),
            ("raw", "EPERM"),
            ("pair", "ok"),
            ("tipc pair", "EAFNOSUPPORT"),
        ],
    );
}

#[test]
fn io_uring_is_not_implemented() {
    need_tools!("gcc");
    expect(
        "uring",
        |_| (),
        &[
            ("io_uring_setup", "ENOSYS"),
            ("io_uring_enter", "ENOSYS"),
            ("io_uring_register", "ENOSYS"),
        ],
    );
}

#[test]
fn tracing_is_refused_unless_allowed_and_never_of_the_first_process() {
    need_tools!("gcc");
    let first = [
        ("first process's memory", "EACCES"),
        ("first process's program", "EACCES"),
        ("first process's root", "EACCES"),
    ];
    let refused = [
        ("attach", "EPERM"),
        ("read memory", "EPERM"),
        ("write memory", "EPERM"),
        ("pidfd_open", "ok"),
        ("pidfd_getfd", "EPERM"),
        ("kcmp", "EPERM"),
        ("first process", "EPERM"),
    ];
    expect("tracing", |_| (), &[&refused[..], &first].concat());
    let mut allowed = refused;
    for answer in &mut allowed[..3] {
        answer.1 = "ok";
    }
    expect(
        "tracing",
        |plan| plan.ptrace = true,
        &[&allowed[..], &first].concat(),
    );
}

#[test]
fn keyrings_are_refused() {
    need_tools!("gcc");
    expect(
        "keys",
        |_| (),
        &[
            ("add_key", "EPERM"),
            ("request_key", "EPERM"),
            ("keyctl", "EPERM"),
        ],
    );
}

#[test]
fn doors_into_the_kernel_are_refused() {
    need_tools!("gcc");
    expect(
        "kernel",
        |_| (),
        &[
            ("userfaultfd", "EPERM"),
            ("perf_event_open", "EPERM"),
            ("bpf", "EPERM"),
            ("finit_module", "EPERM"),
            ("kexec_load", "EPERM"),
            ("syslog", "EPERM"),
            ("memfd_create", "ok"),
            ("a call of the future", "ENOSYS"),
        ],
    );
}

#[test]
fn no_namespaces_in_a_sandbox() {
    need_tools!("gcc");
    expect(
        "namespaces",
        |_| (),
        &[
            ("clone user", "EPERM"),
            ("clone net", "EPERM"),
            ("clone", "ok"),
            ("clone3 user", "ENOSYS"),
            ("unshare user", "EPERM"),
            ("unshare time", "EPERM"),
            ("unshare files", "ok"),
            ("setns", "EPERM"),
        ],
    );
}

#[test]
fn mounts_and_handles_are_refused() {
    need_tools!("gcc");
    let refused = [
        "mount",
        "umount2",
        "pivot_root",
        "chroot",
        "fsopen",
        "fsconfig",
        "fsmount",
        "fspick",
        "open_tree",
        "move_mount",
        "mount_setattr",
        "open_tree_attr",
    ];
    let mut answers: Vec<(&str, &str)> = refused.iter().map(|name| (*name, "EPERM")).collect();
    answers.extend([("name_to_handle_at", "ok"), ("open_by_handle_at", "EPERM")]);
    expect("mounts", |_| (), &answers);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn other_architectures_are_the_end_of_a_process() {
    need_tools!("gcc");
    expect(
        "architectures",
        |_| (),
        &[("i386", "SIGSYS"), ("x32", "SIGSYS"), ("x86-64", "ok")],
    );
}

#[test]
fn nothing_is_typed_into_a_terminal() {
    need_tools!("gcc");
    // EPERM is the filter's; a kernel that refuses it (dev.tty.legacy_tiocsti=0) says EIO.
    expect(
        "terminals",
        |_| (),
        &[
            ("TIOCSTI", "EPERM"),
            ("TIOCSTI high", "EPERM"),
            ("TIOCLINUX", "EPERM"),
            ("TIOCGWINSZ", "ok"),
        ],
    );
}

#[test]
fn clock_and_name_stay() {
    need_tools!("gcc");
    expect(
        "clocks",
        |_| (),
        &[
            ("clock_gettime", "ok"),
            ("clock_settime", "EPERM"),
            ("settimeofday", "EPERM"),
            ("sethostname", "EPERM"),
            ("reboot", "EPERM"),
        ],
    );
}

#[test]
fn sockets_of_the_host_are_not_reached() {
    need_tools!("gcc");
    let room = Room::new();
    let probe = room.probe();
    let path = room.outside().join("docker.sock");
    let _by_path = UnixListener::bind(&path).unwrap();
    let name = format!("trumanfs-test-{}", std::process::id());
    let _abstract =
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    // One in the home is the home's.
    let inside = room.home.join("socket");
    let _inside = UnixListener::bind(&inside).unwrap();
    std::fs::set_permissions(&inside, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    for (kind, name, answer) in [
        ("path", path.to_str().unwrap(), "path: ENOENT\n"),
        ("abstract", &name, "abstract: ECONNREFUSED\n"),
        ("path", inside.to_str().unwrap(), "path: ok\n"),
    ] {
        let argv = [probe.to_str().unwrap(), "connect", kind, name];
        assert_eq!(room.run(room.plan(&argv)).good(), answer, "{name}");
    }
}
