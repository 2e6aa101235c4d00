//! Parts of its user's machine that an agent is let have: the ssh-agent's socket, devices, a login, instructions.
//!
//! What an ssh-agent signs is shown with real servers, in `network/ssh_agent.rs`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
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
        fs::create_dir_all(home.join(".claude")).unwrap();
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

    /// Starts an agent that is waited for later, or killed.
    fn begin(&self, options: &[&str], script: &str) -> Child {
        begin(self.command(options, script))
    }

    fn credentials(&self) -> PathBuf {
        self.home.join(".claude/.credentials.json")
    }

    /// Writes the user's login.
    fn log_in(&self, text: &str) {
        fs::write(self.credentials(), text).unwrap();
        fs::set_permissions(self.credentials(), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn login(&self) -> String {
        fs::read_to_string(self.credentials()).unwrap()
    }
}

fn begin(mut command: Command) -> Child {
    use std::os::unix::process::CommandExt;
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).process_group(0);
    command.spawn().unwrap()
}

const CLAUDE: [&str; 4] = ["--profile", "claude", "--net", "none"];
const LOGIN: [&str; 5] = ["--profile", "claude", "--net", "none", "--login"];

const READ: &str = "cat ~/.claude/.credentials.json 2>/dev/null || echo none";
const REFRESH: &str = "cd ~/.claude; printf '{\"token\":\"new\"}' >new; mv new .credentials.json";

#[test]
fn login_is_lent_for_one_run_and_comes_back_refreshed() {
    need_mount!();
    let user = AgentUser::new();
    let none = user.run(&LOGIN, "echo ran");
    assert_eq!(none.status.code(), Some(123), "{}", describe(&none));
    assert!(
        err(&none).contains("there is no ~/.claude/.credentials.json"),
        "{}",
        err(&none)
    );
    let unknown = user.run(&["--login"], "echo ran");
    assert!(
        err(&unknown).contains("no file is known"),
        "{}",
        err(&unknown)
    );
    user.log_in("{\"token\":\"old\"}");
    let inode = fs::metadata(user.credentials()).unwrap().ino();
    assert_eq!(good(&user.run(&CLAUDE, READ)), "none\n");
    let said = user.run(
        &LOGIN,
        &format!("{READ}; stat -c %a ~/.claude/.credentials.json"),
    );
    assert_eq!(good(&said), "{\"token\":\"old\"}600\n");
    assert!(!err(&said).contains("login"), "{}", err(&said));
    // It is not there for the next run, though the directory stays, and the user's is the same file.
    assert_eq!(good(&user.run(&CLAUDE, READ)), "none\n");
    assert_eq!(fs::metadata(user.credentials()).unwrap().ino(), inode);
    let said = user.run(&LOGIN, REFRESH);
    assert!(
        err(&said).contains("has refreshed your login"),
        "{}",
        err(&said)
    );
    assert_eq!(user.login(), "{\"token\":\"new\"}");
    let meta = fs::metadata(user.credentials()).unwrap();
    assert_eq!(meta.mode() & 0o7777, 0o600);
    assert_eq!(good(&user.run(&CLAUDE, READ)), "none\n");
    let entries: Vec<_> = fs::read_dir(user.home.join(".claude")).unwrap().collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    // Without the option, nothing comes back.
    good(&user.run(
        &CLAUDE,
        "echo '{\"token\":\"else\"}' >~/.claude/.credentials.json",
    ));
    assert_eq!(user.login(), "{\"token\":\"new\"}");
    // A login of the agent's own is left alone.
    let said = user.run(&LOGIN, READ);
    assert_eq!(good(&said), "{\"token\":\"else\"}\n");
    assert!(err(&said).contains("a login of its own"), "{}", err(&said));
    assert_eq!(user.login(), "{\"token\":\"new\"}");
    good(&user.run(&CLAUDE, "rm ~/.claude/.credentials.json"));
    // What is no login, a link to one, and a directory that leads elsewhere.
    let outside = user.store.base.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join(".credentials.json"), "{\"token\":\"outside\"}").unwrap();
    let link = format!(
        "ln -sf {}/.credentials.json ~/.claude/.credentials.json",
        outside.display()
    );
    for script in [
        "echo '{' >~/.claude/.credentials.json",
        "echo '[]' >~/.claude/.credentials.json",
    ] {
        let said = user.run(&LOGIN, script);
        assert!(err(&said).contains("no JSON object"), "{}", err(&said));
    }
    for script in [
        &*link,
        "rm ~/.claude/.credentials.json",
        "rm -r ~/.claude",
        "chmod 0 ~/.claude ~",
    ] {
        good(&user.run(&LOGIN, script));
        assert_eq!(user.login(), "{\"token\":\"new\"}", "{script}");
        assert_eq!(good(&user.run(&CLAUDE, READ)), "none\n", "{script}");
    }
    let script = format!("rm -r ~/.claude; ln -s {} ~/.claude", outside.display());
    good(&user.run(&CLAUDE, &script));
    let said = user.run(&LOGIN, "true");
    assert!(err(&said).contains("--login: ~/.claude"), "{}", err(&said));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn login_that_changed_meanwhile_stays() {
    need_mount!();
    let user = AgentUser::new();
    user.log_in("{\"token\":\"old\"}");
    let script = format!("({REFRESH}); touch ready; until [ -e go ]; do sleep 0.05; done");
    let child = user.begin(&LOGIN, &script);
    until("it is there", || user.store.store.join("ready").exists());
    user.log_in("{\"token\":\"mine\"}");
    fs::write(user.store.store.join("go"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        err(&output).contains("changed meanwhile"),
        "{}",
        describe(&output)
    );
    assert_eq!(user.login(), "{\"token\":\"mine\"}");
    assert_eq!(good(&user.run(&CLAUDE, READ)), "none\n");
}

/// Two of one agent have one login; it goes with the last of them.
#[test]
fn login_of_two_runs_goes_with_the_last() {
    need_mount!();
    let user = AgentUser::new();
    user.log_in("{\"token\":\"old\"}");
    let wait = "touch first; until [ -e go ]; do sleep 0.05; done";
    let first = user.begin(&LOGIN, wait);
    until("the first is there", || {
        user.store.store.join("first").exists()
    });
    let script =
        format!("{READ}; touch second; until [ -e go2 ]; do sleep 0.05; done; {READ}; {REFRESH}");
    let second = user.begin(&LOGIN, &script);
    until("the second is there", || {
        user.store.store.join("second").exists()
    });
    fs::write(user.store.store.join("go"), "").unwrap();
    let output = first.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
    fs::write(user.store.store.join("go2"), "").unwrap();
    let output = second.wait_with_output().unwrap();
    assert_eq!(
        good(&output),
        "{\"token\":\"old\"}{\"token\":\"old\"}",
        "{}",
        describe(&output)
    );
    assert_eq!(user.login(), "{\"token\":\"new\"}");
    assert_eq!(good(&user.run(&CLAUDE, READ)), "none\n");
}

/// A run that was killed leaves no login behind for the next one, and what it has refreshed is not lost.
#[test]
fn login_of_a_killed_run_is_taken_back() {
    need_mount!();
    let user = AgentUser::new();
    user.log_in("{\"token\":\"old\"}");
    let script = format!("({REFRESH}); touch ready; sleep 600");
    let mut child = user.begin(&LOGIN, &script);
    until("it is there", || user.store.store.join("ready").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let said = user.run(&CLAUDE, READ);
    assert_eq!(good(&said), "none\n", "{}", err(&said));
    assert!(err(&said).contains("was killed"), "{}", err(&said));
    assert_eq!(user.login(), "{\"token\":\"new\"}");
}

#[test]
fn instructions_of_its_user_are_read_and_not_changed() {
    need_mount!();
    let user = AgentUser::new();
    let file = user.home.join(".claude/CLAUDE.md");
    fs::write(&file, "be kind\n").unwrap();
    fs::write(user.home.join(".claude/settings.json"), "{}").unwrap();
    let script = "cd ~/.claude; cat CLAUDE.md; ls; echo x >>CLAUDE.md; echo x >new; mv new CLAUDE.md; rm -f CLAUDE.md new; cat CLAUDE.md";
    let output = user.run(&CLAUDE, script);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "be kind\nCLAUDE.md\nbe kind\n",
        "{}",
        describe(&output)
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "be kind\n");
    // Another agent has none, and nothing stays of its place.
    assert_eq!(good(&user.run(&["--net", "none"], "ls -A ~")), "");
    fs::remove_file(&file).unwrap();
    assert_eq!(good(&user.run(&CLAUDE, "ls ~/.claude")), "");
    // What the agent has there itself is covered, a link is left as it is.
    good(&user.run(&CLAUDE, "echo own >~/.claude/CLAUDE.md"));
    fs::write(&file, "be kind\n").unwrap();
    assert_eq!(
        good(&user.run(&CLAUDE, "cat ~/.claude/CLAUDE.md")),
        "be kind\n"
    );
    fs::remove_file(&file).unwrap();
    assert_eq!(good(&user.run(&CLAUDE, "cat ~/.claude/CLAUDE.md")), "own\n");
    fs::write(&file, "be kind\n").unwrap();
    good(&user.run(&["--profile", "claude", "--net", "none"], "true"));
    fs::remove_file(&file).unwrap();
    good(&user.run(&CLAUDE, "ln -sf /etc/passwd ~/.claude/CLAUDE.md"));
    fs::write(&file, "be kind\n").unwrap();
    let said = user.run(&CLAUDE, "readlink ~/.claude/CLAUDE.md");
    assert_eq!(good(&said), "/etc/passwd\n", "{}", err(&said));
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

/// Without namespaces, nothing can be shown at a path of its own: that is refused, and not left out.
#[test]
fn agent_without_namespaces_gets_none_of_this() {
    let user = AgentUser::new();
    for option in ["--device=/dev/kvm", "--ssh-agent=always"] {
        let options = ["--home", "fork", "--sandbox", "none", option];
        let output = user.run(&options, "echo ran");
        assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
        let named = format!("{} cannot be used with", option.split('=').next().unwrap());
        assert!(err(&output).contains(&named), "{}", err(&output));
        assert!(output.stdout.is_empty());
    }
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
    // The launcher removes it once the sandbox has it, while the program may begin already.
    until("its socket has no path", || sockets_in(&runtime) == 0);
    child.kill().unwrap();
    child.wait().unwrap();
}
