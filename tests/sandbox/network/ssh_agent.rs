//! `agent --ssh-agent`, in the world that `world` makes: real servers of SSH, a real ssh-agent with a real key, and what
//! programs get signed by it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{binary, describe, need_mount, need_tools, run_limited};

const LIMIT: Duration = Duration::from_secs(120);

/// How git and ssh are to behave: never to wait for somebody.
const QUIET: &str =
    "export GIT_SSH_COMMAND='ssh -o BatchMode=yes -o ConnectTimeout=20' GIT_CONFIG_GLOBAL=/dev/null
    ssh() { command ssh -n -o BatchMode=yes -o ConnectTimeout=20 \"$@\"; }";

/// A login that cares for no host key, so that the proxy alone says no.
const CARELESS: &str = "ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o GlobalKnownHostsFile=/dev/null";

fn world() -> PathBuf {
    std::env::var_os("WORLD")
        .expect("a world: run network::world")
        .into()
}

/// A user with an ssh-agent, known hosts and a project.
struct SshUser {
    dir: tempfile::TempDir,
    agent: Child,
}

impl Drop for SshUser {
    fn drop(&mut self) {
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}

impl SshUser {
    fn new(known: &str) -> SshUser {
        let dir = tempfile::TempDir::with_prefix("trumanfs-ssh-").unwrap();
        fs::create_dir_all(dir.path().join("user/.ssh")).unwrap();
        fs::create_dir_all(dir.path().join("project")).unwrap();
        fs::write(dir.path().join("user/.ssh/known_hosts"), known).unwrap();
        fs::copy(
            world().join("ssh/client.pub"),
            dir.path().join("project/client.pub"),
        )
        .unwrap();
        let socket = dir.path().join("agent");
        let mut agent = Command::new("ssh-agent");
        agent.arg("-D").arg("-a").arg(&socket);
        let agent = agent.stdout(Stdio::null()).spawn().unwrap();
        let user = SshUser { dir, agent };
        let until = Instant::now() + LIMIT;
        // It is there before it is listened at.
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < until, "the ssh-agent did not begin");
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut add = Command::new("ssh-add");
        add.arg("-q").arg(world().join("ssh/client"));
        add.env("SSH_AUTH_SOCK", &socket);
        let added = run_limited(add, LIMIT);
        assert!(added.status.success(), "{}", describe(&added));
        user
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, options: &[&str], script: &str) -> Command {
        let mut command = Command::new(binary());
        command
            .arg("agent")
            .arg("--store")
            .arg(self.path("project"));
        command.args(["--toolchains", "none"]);
        command.args(options).args(["--", "bash", "-c"]);
        command.arg(format!("{QUIET}; {script}"));
        command.env("HOME", self.path("user"));
        command.env("SSH_AUTH_SOCK", self.path("agent"));
        command
            .env_remove("GIT_CONFIG_GLOBAL")
            .env_remove("SSH_ASKPASS");
        command
    }

    fn run(&self, options: &[&str], script: &str) -> Output {
        run_limited(self.command(options, script), LIMIT)
    }

    /// The lines of the audit log about signatures.
    fn signatures(&self) -> Vec<serde_json::Value> {
        let mut found = Vec::new();
        let mut dirs = vec![self.dir.path().to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap().flatten() {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    dirs.push(entry.path());
                } else if entry.file_name().to_string_lossy().starts_with("audit") {
                    let text = fs::read_to_string(entry.path()).unwrap();
                    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
                    found.extend(
                        lines.filter(|line: &serde_json::Value| line["kind"] == "signature"),
                    );
                }
            }
        }
        found
    }
}

fn known(file: &str) -> String {
    fs::read_to_string(world().join("ssh").join(file)).unwrap()
}

fn fingerprint(key: &Path) -> String {
    let output = Command::new("ssh-keygen")
        .arg("-lf")
        .arg(key)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split(' ').nth(1).unwrap().to_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

macro_rules! need_ssh {
    () => {
        need_mount!();
        need_tools!("ssh", "ssh-agent", "ssh-add", "ssh-keygen", "git");
        if !world().join("ssh").exists() {
            crate::need::skip!("ssh-server", "there is no /usr/sbin/sshd on this machine");
        }
    };
}

#[test]
#[ignore = "run by network::world"]
fn git_pushes_by_the_agent_of_its_user() {
    need_ssh!();
    // Two lines that nobody may see inside.
    let user = SshUser::new(&(known("known") + &known("known-other")));
    let repository = world().join("www/repo.git").display().to_string();
    let script = format!(
        "set -e; git clone -q ssh://root@ssh.test{repository} one; cd one; echo by-agent >>file
         git -c user.name=a -c user.email=a@b commit -qam agent; git push -q origin HEAD:refs/heads/by-agent
         git ls-remote -q origin refs/heads/by-agent | cut -f2
         cut -d' ' -f1,2 /etc/ssh/ssh_known_hosts; echo >>/etc/ssh/ssh_known_hosts || echo read-only; ls ~/.ssh || echo no keys"
    );
    let output = user.run(&["--net", "allow=ssh.test", "--ssh-agent"], &script);
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", describe(&output));
    let mut lines: Vec<&str> = out.lines().collect();
    lines[1..4].sort_unstable();
    assert_eq!(
        lines,
        [
            "refs/heads/by-agent",
            "ssh.test ecdsa-sha2-nistp256",
            "ssh.test ssh-ed25519",
            "ssh.test ssh-rsa",
            "read-only",
            "no keys"
        ],
        "{}",
        describe(&output)
    );
    assert!(!said(&output).contains("refuse"), "{}", said(&output));
    let signed = user.signatures();
    let key = fingerprint(&world().join("ssh/client.pub"));
    assert!(signed.len() >= 2, "{signed:#?}");
    for line in signed {
        assert_eq!(
            (&line["host"], &line["user"], &line["key"], &line["verdict"]),
            (
                &"ssh.test:22".into(),
                &"root".into(),
                &key.as_str().into(),
                &"allow".into()
            ),
            "{line}"
        );
    }
    // Nothing is left of the socket.
    let base = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let base = base
        .filter(|dir| dir.is_dir())
        .unwrap_or_else(std::env::temp_dir);
    let left = fs::read_dir(base).unwrap().flatten().find(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        // Those of this test are not the product's.
        name.starts_with("trumanfs-ssh-")
            && entry.path().join("agent").exists()
            && !entry.path().join("user").exists()
    });
    assert!(left.is_none(), "{left:?}");
}

/// Each type of a host's key is verified, and names that are hashed are found.
#[test]
#[ignore = "run by network::world"]
fn each_type_of_host_key_proves_a_destination() {
    need_ssh!();
    let user = SshUser::new(&known("known"));
    let file = user.path("user/.ssh/known_hosts");
    let mut hash = Command::new("ssh-keygen");
    hash.arg("-H").arg("-f").arg(&file);
    assert!(run_limited(hash, LIMIT).status.success());
    assert!(!fs::read_to_string(&file).unwrap().contains("ssh.test"));
    let script = "for key in ssh-ed25519 ecdsa-sha2-nistp256 rsa-sha2-512 rsa-sha2-256; do
            ssh -o HostKeyAlgorithms=$key root@ssh.test echo $key; done; grep -c '^|1|' /etc/ssh/ssh_known_hosts";
    let output = user.run(&["--net", "allow=ssh.test", "--ssh-agent"], script);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "ssh-ed25519\necdsa-sha2-nistp256\nrsa-sha2-512\nrsa-sha2-256\n3\n",
        "{}",
        describe(&output)
    );
}

#[test]
#[ignore = "run by network::world"]
fn nothing_else_is_signed() {
    need_ssh!();
    let user = SshUser::new(&known("known"));
    // Allowed, and not known.
    let options = ["--net", "allow=ssh.test,other.test", "--ssh-agent"];
    let output = user.run(&options, &format!("{CARELESS} root@other.test echo in"));
    assert!(output.stdout.is_empty(), "{}", describe(&output));
    assert!(
        said(&output).contains("for no host that --net allows"),
        "{}",
        said(&output)
    );
    // Known, and allowed by another name only.
    let user = SshUser::new(&(known("known") + &known("known-other")));
    let options = ["--net", "allow=ssh.test,93.184.216.37", "--ssh-agent"];
    let output = user.run(&options, &format!("{CARELESS} root@93.184.216.37 echo in"));
    assert!(output.stdout.is_empty(), "{}", describe(&output));
    assert!(
        said(&output).contains("known as that of other.test:22"),
        "{}",
        said(&output)
    );
    // Revoked.
    let ed25519 = known("known");
    let revoked: Vec<String> = ed25519
        .lines()
        .map(|line| format!("@revoked {line}\n"))
        .collect();
    let user = SshUser::new(&(known("known") + &revoked.concat()));
    let options = ["--net", "allow=ssh.test", "--ssh-agent"];
    let output = user.run(&options, &format!("{CARELESS} root@ssh.test echo in"));
    assert!(output.stdout.is_empty(), "{}", describe(&output));
    assert!(said(&output).contains("as revoked"), "{}", said(&output));
    // Signatures of files, the list of keys, and changes of the agent.
    let user = SshUser::new(&known("known"));
    let script = "echo text >text; ssh-keygen -q -Y sign -f client.pub -n git text && echo signed
        for option in -L -l -D -x -X '-d client.pub' '-e /usr/lib/x.so'; do
            SSH_ASKPASS_REQUIRE=never ssh-add $option </dev/null && echo \"did $option\"; done
        ssh-keygen -q -t ed25519 -N '' -f new; ssh-add -q new && echo added
        ssh root@ssh.test echo in";
    let output = user.run(&options, script);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "in\n",
        "{}",
        describe(&output)
    );
    let mut list = Command::new("ssh-add");
    list.arg("-L").env("SSH_AUTH_SOCK", user.path("agent"));
    let keys = String::from_utf8(run_limited(list, LIMIT).stdout).unwrap();
    assert_eq!(keys.lines().count(), 1, "{keys}");
    let refused = user.signatures();
    let events: Vec<_> = refused.iter().map(|line| line["event"].as_str()).collect();
    assert!(events.contains(&Some("signature_refused")), "{refused:#?}");
    // Without the option there is no agent.
    let output = user.run(
        &["--net", "allow=ssh.test"],
        "echo ${SSH_AUTH_SOCK-none}; ls /run",
    );
    assert!(
        String::from_utf8_lossy(&output.stdout).starts_with("none\n"),
        "{}",
        describe(&output)
    );
}

#[test]
#[ignore = "run by network::world"]
fn its_user_is_asked_for_each_signature() {
    use std::os::unix::fs::PermissionsExt;
    need_ssh!();
    let user = SshUser::new(&known("known"));
    let options = ["--net", "allow=ssh.test", "--ssh-agent", "ask"];
    let asked = user.path("asked");
    let askpass = user.path("askpass");
    for (status, wanted) in [(0, "in\n"), (1, "")] {
        let text = format!(
            "#!/bin/sh\necho \"$SSH_ASKPASS_PROMPT: $1\" >>{}\nexit {status}\n",
            asked.display()
        );
        fs::write(&askpass, text).unwrap();
        fs::set_permissions(&askpass, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = user.command(&options, "ssh root@ssh.test echo in");
        command.env("SSH_ASKPASS", &askpass);
        let output = run_limited(command, LIMIT);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            wanted,
            "{}",
            describe(&output)
        );
        assert_eq!(
            said(&output).contains("the user has not allowed it"),
            status == 1,
            "{}",
            said(&output)
        );
    }
    let question = fs::read_to_string(&asked).unwrap();
    let key = fingerprint(&world().join("ssh/client.pub"));
    let wanted =
        format!("confirm: Allow bash to log in to ssh.test:22 as root with the key {key}?");
    assert_eq!(question.lines().collect::<Vec<_>>(), [&*wanted, &*wanted]);
    // A question that nobody answers ends with the agent.
    fs::write(&askpass, "#!/bin/sh\nexec sleep 600\n").unwrap();
    let script =
        "ssh root@ssh.test echo in & until ls /proc/[0-9]*/comm >/dev/null; do :; done; echo begun";
    let mut command = user.command(&options, script);
    command.env("SSH_ASKPASS", &askpass);
    let began = Instant::now();
    let output = run_limited(command, LIMIT);
    assert!(output.status.success(), "{}", describe(&output));
    assert!(began.elapsed() < Duration::from_secs(60));
    // Without somebody to ask, nothing runs.
    for (variable, named) in [
        (None, "names no program"),
        (Some("askpass"), "no path of a program"),
    ] {
        let mut command = user.command(&options, "echo ran");
        command.envs(variable.map(|value| ("SSH_ASKPASS", value)));
        let output = run_limited(command, LIMIT);
        assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
        assert!(said(&output).contains(named), "{}", said(&output));
    }
    // Nor without an agent, or a host.
    for (net, socket, named) in [
        ("allow=ssh.test", Some("none"), "No such file"),
        ("allow=ssh.test", None, "SSH_AUTH_SOCK is not set"),
        ("none", Some("agent"), "may reach no host"),
    ] {
        let mut command = user.command(&["--net", net, "--ssh-agent"], "echo ran");
        command.env_remove("SSH_AUTH_SOCK");
        command.envs(socket.map(|name| ("SSH_AUTH_SOCK", user.path(name))));
        let output = run_limited(command, LIMIT);
        assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
        assert!(said(&output).contains(named), "{}", said(&output));
    }
}
