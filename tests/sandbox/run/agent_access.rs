//! Parts of its user's machine that an agent is let have: the ssh-agent's socket, and devices.
//!
//! What an ssh-agent signs is shown with real servers, in `network/ssh_agent.rs`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use super::{LIMIT, Store, err, good, until};
use crate::common::{binary, describe, need_mount, need_tools, run_limited};

/// A project of a user who has a home directory.
struct AgentUser {
    store: Store,
    home: PathBuf,
}

impl AgentUser {
    fn new() -> AgentUser {
        let store = Store::new();
        let home = store.base.join("user");
        fs::create_dir_all(&home).unwrap();
        AgentUser { store, home }
    }

    fn command(&self, options: &[&str], script: &str) -> Command {
        let mut command = Command::new(binary());
        command.arg("agent").arg("--store").arg(&self.store.store);
        command.args(["--toolchains", "none"]).args(options);
        command.args(["--", "bash", "-c", script]);
        command.env("HOME", &self.home);
        command
            .env_remove("SSH_AUTH_SOCK")
            .env_remove("SSH_ASKPASS");
        command
    }

    fn run(&self, options: &[&str], script: &str) -> Output {
        run_limited(self.command(options, script), LIMIT)
    }
}

fn begin(mut command: Command) -> Child {
    use std::os::unix::process::CommandExt;
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).process_group(0);
    command.spawn().unwrap()
}

/// A device that can be shown, and can be opened outside if possible.
fn some_device() -> Option<&'static str> {
    let mut devices = ["/dev/kvm", "/dev/net/tun", "/dev/hwrng"].into_iter();
    devices.find(|device| Path::new(device).exists())
}

fn can_open(device: &str) -> bool {
    fs::File::options()
        .read(true)
        .write(true)
        .open(device)
        .is_ok()
}

#[test]
fn device_works_as_for_its_user() {
    need_mount!();
    let Some(device) = some_device() else {
        crate::need::skip!("device", "there is neither /dev/kvm nor /dev/net/tun");
    };
    let user = AgentUser::new();
    let script = format!(
        "stat -c '%t %T %u' {device}; (exec 3<>{device}) 2>/dev/null && echo opened; chmod 777 {device} || echo read-only; \
         rm -f {device} || echo stays; ls /dev | wc -l"
    );
    let meta = fs::metadata(device).unwrap();
    let (major, minor) = (
        rustix::fs::major(meta.rdev()),
        rustix::fs::minor(meta.rdev()),
    );
    let is_root = rustix::process::geteuid().is_root();
    // Whoever is not this user is nobody inside.
    let owner = if is_root || meta.uid() == rustix::process::geteuid().as_raw() {
        meta.uid()
    } else {
        65534
    };
    let opened = if can_open(device) { "opened\n" } else { "" };
    let output = user.run(&["--net", "none", "--device", device], &script);
    let wanted = format!("{major:x} {minor:x} {owner}\n{opened}read-only\nstays\n");
    assert!(good(&output).starts_with(&wanted), "{}", describe(&output));
    let without = user.run(&["--net", "none"], &format!("ls {device}"));
    assert!(!without.status.success(), "{}", describe(&without));
    if device == "/dev/kvm" && can_open(device) {
        need_tools!("python3");
        let script = "/usr/bin/python3 -c 'import fcntl, os; print(fcntl.ioctl(os.open(\"/dev/kvm\", os.O_RDWR), 0xae00))'";
        assert_eq!(
            good(&user.run(&["--net", "none", "--device", device], script)),
            "12\n"
        );
    }
}

#[test]
fn device_that_leads_out_of_the_sandbox_is_refused() {
    need_mount!();
    let user = AgentUser::new();
    let disk = fs::read_dir("/dev").unwrap().flatten().find(|entry| {
        use std::os::unix::fs::FileTypeExt;
        entry.file_type().is_ok_and(|kind| kind.is_block_device())
    });
    let disk = disk.map(|entry| entry.path().display().to_string());
    let mut cases: Vec<(&str, &str)> = vec![
        ("/dev/fuse", "mount them over"),
        ("/dev/tty", "a terminal"),
        ("/dev/tty0", "a terminal"),
        ("/dev/ptmx", "a terminal"),
        ("/dev/kmsg", "the memory or the log"),
        ("/dev/mem", "the memory or the log"),
        ("/dev/port", "the memory or the log"),
        ("/dev/loop-control", "of the kind loop-control"),
        ("/dev/null", "the memory"),
        ("/etc/passwd", "no device"),
        ("/dev/shm", "no device lies there"),
        ("kvm", "a path below /dev"),
        ("/dev/no-such-device", "No such file"),
    ];
    cases.extend(disk.as_deref().map(|disk| (disk, "a disk")));
    for (device, part) in cases {
        if device.starts_with('/') && !device.contains("no-such") && !Path::new(device).exists() {
            continue;
        }
        let output = user.run(&["--net", "none", "--device", device], "echo ran");
        assert_eq!(
            output.status.code(),
            Some(123),
            "{device}: {}",
            describe(&output)
        );
        assert!(err(&output).contains(part), "{device}: {}", err(&output));
    }
}

#[test]
fn file_of_the_machine_says_what_belongs_to_a_device() {
    need_mount!();
    let Some(device) = some_device() else {
        crate::need::skip!("device", "there is neither /dev/kvm nor /dev/net/tun");
    };
    let user = AgentUser::new();
    let dir = user.store.base.join("cdi");
    fs::create_dir(&dir).unwrap();
    let file = user.store.base.join("library");
    fs::write(&file, "of the driver\n").unwrap();
    let (shown, meta) = (file.display(), fs::metadata(device).unwrap());
    let (major, minor) = (
        rustix::fs::major(meta.rdev()),
        rustix::fs::minor(meta.rdev()),
    );
    let spec = |minor: u32| {
        format!(
            "cdiVersion: \"0.6.0\"\nkind: example.com/gpu\ndevices:\n- name: all\n  containerEdits:\n    deviceNodes:\n    - {{path: /dev/gpu/0, hostPath: {device}, major: {major}, minor: {minor}}}\n    \
             mounts:\n    - {{hostPath: {shown}, containerPath: /opt/driver/library}}\n    - {{hostPath: {shown}, containerPath: {shown}}}\ncontainerEdits:\n  env: [\"GPU=all\", \"OTHER=file\"]\n  \
             hooks:\n  - {{hookName: createContainer, path: /usr/bin/hook, args: [x]}}\n"
        )
    };
    fs::write(dir.join("gpu.yaml"), spec(minor)).unwrap();
    let at = dir.display().to_string();
    let options = [
        "--net",
        "none",
        "--cdi-dir",
        &at,
        "--device",
        "example.com/gpu=all",
        "--env",
        "OTHER=mine",
    ];
    let script = format!(
        "stat -c '%t %T' /dev/gpu/0; cat /opt/driver/library {shown}; echo $GPU $OTHER; echo >>/opt/driver/library || echo read-only"
    );
    let output = user.run(&options, &script);
    let wanted =
        format!("{major:x} {minor:x}\nof the driver\nof the driver\nall mine\nread-only\n");
    assert_eq!(good(&output), wanted, "{}", describe(&output));
    let said = err(&output);
    assert!(
        said.contains("the hook createContainer /usr/bin/hook is not done here"),
        "{said}"
    );
    fs::write(dir.join("gpu.yaml"), spec(minor + 1)).unwrap();
    let output = user.run(&options, "echo ran");
    assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
    assert!(
        err(&output).contains("another device than the file says"),
        "{}",
        err(&output)
    );
}

fn sockets_in(runtime: &Path) -> usize {
    let entries = fs::read_dir(runtime).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name());
    names
        .filter(|name| name.to_string_lossy().starts_with("trumanfs-ssh-"))
        .count()
}

/// The socket is this sandbox's own, without a path on the host; nothing is listed or signed before a host is proven.
#[test]
fn socket_of_the_ssh_agent_is_in_the_sandbox_alone() {
    need_mount!();
    need_tools!("ssh-add", "ssh-keygen");
    let user = AgentUser::new();
    fs::create_dir(user.home.join(".ssh")).unwrap();
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";
    let known = format!("host.test,inner.test {key}\nother.test {key}\n");
    fs::write(user.home.join(".ssh/known_hosts"), known).unwrap();
    let socket = user.store.base.join("agent");
    let listener = UnixListener::bind(&socket).unwrap();
    let runtime = user.store.base.join("runtime");
    fs::create_dir(&runtime).unwrap();
    let script =
        "echo $SSH_AUTH_SOCK; test -S $SSH_AUTH_SOCK && echo socket; cat /etc/ssh/ssh_known_hosts
        ssh-add -L; ssh-add -D; rm -f $SSH_AUTH_SOCK || echo stays; ls /run";
    let mut command = user.command(&["--net", "allow=host.test", "--ssh-agent"], script);
    command
        .env("SSH_AUTH_SOCK", &socket)
        .env("XDG_RUNTIME_DIR", &runtime);
    let output = run_limited(command, LIMIT);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("/run/trumanfs/ssh-agent\nsocket\nhost.test {key}\nstays\ntrumanfs\n"),
        "{}",
        describe(&output)
    );
    let said = err(&output);
    assert!(
        said.contains("--ssh-agent refuses a signature: it is for no session"),
        "{said}"
    );
    assert!(said.contains("only logins to hosts are signed"), "{said}");
    assert_eq!(sockets_in(&runtime), 0);
    // The start looks whether there is an agent; nothing has reached it since.
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_ok() && listener.accept().is_err());
    // Twice at once, and killed: nothing stays on the host.
    let mut command = user.command(
        &["--net", "allow=host.test", "--ssh-agent"],
        "touch ready; sleep 600",
    );
    command
        .env("SSH_AUTH_SOCK", &socket)
        .env("XDG_RUNTIME_DIR", &runtime);
    let mut child = begin(command);
    until("it runs", || user.store.store.join("ready").exists());
    assert_eq!(sockets_in(&runtime), 0);
    child.kill().unwrap();
    child.wait().unwrap();
}
