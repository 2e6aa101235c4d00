//! In a container: a sandbox can be made or it says why not, with the option of the container that mends it.
//!
//! The containers are real ones, made by runc as Docker and podman start them: with Docker's capabilities and what its
//! filter of system calls refuses, and with those parts of `/proc` covered that runc covers by default.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};

use trumanfs::mounts::obstacle::CONTAINER_OPTIONS;

use crate::common::{binary, describe, need_root, need_tools, run_limited, skip};

const LIMIT: Duration = Duration::from_secs(60);

/// What a container is started with, beyond Docker's defaults.
#[derive(Clone, Copy, Default)]
struct Options {
    /// `--security-opt seccomp=unconfined`.
    unfiltered: bool,
    /// `--security-opt systempaths=unconfined`.
    uncovered: bool,
    /// `--cap-add SYS_ADMIN`, which lifts the filter, but for pivot_root(2).
    admin: bool,
    /// `--device /dev/fuse`.
    fuse: bool,
    /// The whole filter, as a package has it, in place of what it refuses of what is tried here.
    whole_filter: bool,
    /// As a pod of Kubernetes under its restricted profile: user 1000, no capabilities, no new privileges, a root that
    /// cannot be changed.
    restricted: bool,
}

/// The filter of system calls of Docker and podman, as the package golang-github-containers-common has it.
const PROFILE: &str = "/usr/share/containers/seccomp.json";

/// Returns that filter for a container with these capabilities, as runc takes it.
fn whole_filter(capabilities: &[&str]) -> Value {
    let profile: Value = serde_json::from_slice(&fs::read(PROFILE).unwrap()).unwrap();
    let has_any = |wanted: &Value, list: &str, known: &[&str]| {
        let names = wanted[list].as_array().into_iter().flatten();
        names
            .filter_map(Value::as_str)
            .any(|name| known.contains(&name))
    };
    let arches = [if cfg!(target_arch = "x86_64") {
        "amd64"
    } else {
        "arm64"
    }];
    let is_in_force = |rule: &&Value| {
        let (with, without) = (&rule["includes"], &rule["excludes"]);
        (with["caps"].as_array().is_none_or(Vec::is_empty) || has_any(with, "caps", capabilities))
            && (with["arches"].as_array().is_none_or(Vec::is_empty)
                || has_any(with, "arches", &arches))
            && !has_any(without, "caps", capabilities)
            && !has_any(without, "arches", &arches)
    };
    let rules = profile["syscalls"]
        .as_array()
        .unwrap()
        .iter()
        .filter(is_in_force);
    let rules: Vec<Value> = rules
        .map(|rule| {
            let mut rule = rule.clone();
            let rule_fields = rule.as_object_mut().unwrap();
            rule_fields
                .retain(|key, _| ["names", "action", "args", "errnoRet"].contains(&key.as_str()));
            rule_fields.retain(|_, value| !value.is_null());
            rule
        })
        .collect();
    json!({
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile["defaultErrnoRet"].as_u64().unwrap_or(1),
        "syscalls": rules,
    })
}

impl Options {
    /// Reads options as they are typed behind `docker run`.
    fn parse(line: &str) -> Options {
        let mut options = Options::default();
        let mut words = line.split_whitespace();
        while let (Some(option), Some(value)) = (words.next(), words.next()) {
            match (option, value) {
                ("--device", "/dev/fuse") => options.fuse = true,
                ("--cap-add", "SYS_ADMIN") => options.admin = true,
                ("--security-opt", "seccomp=unconfined") => options.unfiltered = true,
                ("--security-opt", "systempaths=unconfined") => options.uncovered = true,
                // These containers have no profile of AppArmor's.
                ("--security-opt", "apparmor=unconfined") => {}
                other => panic!("{other:?} is no option of these containers"),
            }
        }
        options
    }
}

/// The capabilities of a container of Docker's.
const CAPABILITIES: [&str; 14] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FSETID",
    "CAP_FOWNER",
    "CAP_MKNOD",
    "CAP_NET_RAW",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETFCAP",
    "CAP_SETPCAP",
    "CAP_NET_BIND_SERVICE",
    "CAP_SYS_CHROOT",
    "CAP_KILL",
    "CAP_AUDIT_WRITE",
];

/// What Docker's filter refuses without CAP_SYS_ADMIN, of what a sandbox is made with.
const REFUSED: [&str; 12] = [
    "unshare",
    "setns",
    "mount",
    "umount2",
    "pivot_root",
    "open_tree",
    "move_mount",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
];

/// A container that is not left behind.
struct Container {
    dir: tempfile::TempDir,
    id: String,
}

impl Container {
    fn runc(&self) -> Command {
        let mut runc = Command::new("runc");
        runc.arg("--root").arg(self.dir.path().join("state"));
        runc.current_dir(self.dir.path());
        runc
    }

    /// Makes a container for a shell script. It has the host's software, read-only.
    fn new(options: Options, script: &str) -> Container {
        let dir = tempfile::TempDir::with_prefix("trumanfs-container-").unwrap();
        let id = dir.path().file_name().unwrap().to_str().unwrap().to_owned();
        let container = Container { dir, id };
        let root = container.dir.path().join("rootfs");
        for place in ["usr", "etc", "proc", "dev", "sys", "tmp", "opt", "run"] {
            fs::create_dir_all(root.join(place)).unwrap();
        }
        // What is mounted there gets the mode of the place.
        fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
        for name in ["bin", "sbin", "lib", "lib64"] {
            std::os::unix::fs::symlink(Path::new("usr").join(name), root.join(name)).unwrap();
        }
        let mut spec = container.runc();
        spec.arg("spec");
        let output = run_limited(spec, LIMIT);
        assert!(output.status.success(), "{}", describe(&output));
        let path = container.dir.path().join("config.json");
        let mut config = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        fill(&mut config, options, script);
        fs::write(&path, config.to_string()).unwrap();
        container
    }

    /// Starts it; returns what it printed, and its end.
    fn run(&self) -> Output {
        let mut run = self.runc();
        run.args(["run", &self.id]);
        run_limited(run, LIMIT)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let mut delete = self.runc();
        delete.args(["delete", "--force", &self.id]);
        let _ = run_limited(delete, LIMIT);
    }
}

/// Writes into runc's own configuration what this container is to be.
fn fill(config: &mut Value, options: Options, script: &str) {
    let mut capabilities = CAPABILITIES.to_vec();
    if options.admin {
        capabilities.push("CAP_SYS_ADMIN");
    }
    config["process"]["terminal"] = false.into();
    config["process"]["noNewPrivileges"] = false.into();
    config["process"]["args"] = json!(["sh", "-c", script]);
    if options.restricted {
        capabilities.clear();
        config["process"]["user"] = json!({"uid": 1000, "gid": 1000});
        config["process"]["noNewPrivileges"] = true.into();
        config["root"]["readonly"] = true.into();
    }
    config["process"]["capabilities"] =
        json!({"bounding": capabilities, "effective": capabilities, "permitted": capabilities});
    let bind = |from: &Path, to: &str| json!({"destination": to, "type": "bind", "source": from, "options": ["rbind", "ro"]});
    let memory = |to: &str| json!({"destination": to, "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]});
    let mounts = config["mounts"].as_array_mut().unwrap();
    mounts.extend([
        bind(Path::new("/usr"), "/usr"),
        bind(Path::new("/etc"), "/etc"),
        bind(Path::new(binary()).parent().unwrap(), "/opt"),
        memory("/tmp"),
        memory("/run"),
    ]);
    if options.uncovered {
        config["linux"]["maskedPaths"] = json!([]);
        config["linux"]["readonlyPaths"] = json!([]);
    }
    if options.whole_filter {
        config["linux"]["seccomp"] = whole_filter(&capabilities);
    } else if !options.unfiltered && options.admin {
        config["linux"]["seccomp"] = json!({
            "defaultAction": "SCMP_ACT_ALLOW",
            "syscalls": [{"names": ["pivot_root"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}],
        });
    } else if !options.unfiltered {
        config["linux"]["seccomp"] = json!({
            "defaultAction": "SCMP_ACT_ALLOW",
            "syscalls": [
                {"names": REFUSED, "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
                {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
                {"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1,
                 "args": [{"index": 0, "value": 0x1000_0000, "valueTwo": 0x1000_0000, "op": "SCMP_CMP_MASKED_EQ"}]},
            ],
        });
    }
    if options.fuse {
        config["linux"]["devices"] = json!([{"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229, "fileMode": 0o666, "uid": 0, "gid": 0}]);
        let devices = config["linux"]["resources"]["devices"]
            .as_array_mut()
            .unwrap();
        devices
            .push(json!({"allow": true, "type": "c", "major": 10, "minor": 229, "access": "rwm"}));
    }
}

/// Skips the test where no container can be started.
macro_rules! need_containers {
    () => {
        need_root!("to start a container");
        need_tools!("runc");
        let tried = Container::new(Options::default(), "exit 42").run();
        if tried.status.code() != Some(42) {
            skip!("containers", "runc starts none: {}", describe(&tried));
        }
    };
}

/// What doctor says in a container: whether there is a sandbox, and what to do about what fails.
fn doctor(options: Options) -> (bool, String) {
    let output = Container::new(options, "exec /opt/trumanfs doctor --json").run();
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)));
    let all = report["capabilities"].as_array().unwrap().iter();
    let mut failed = all.filter(|one| one["works"] == false && one["needed"] == true);
    let remedy = failed
        .next()
        .map(|one| one["remedy"].as_str().unwrap().to_owned());
    (report["sandbox"] == true, remedy.unwrap_or_default())
}

#[test]
fn each_option_that_a_container_lacks_is_named() {
    need_containers!();
    let (works, remedy) = doctor(Options::default());
    assert!(!works && remedy.contains("--cap-add SYS_ADMIN"), "{remedy}");
    let unfiltered = Options {
        unfiltered: true,
        ..Options::default()
    };
    // The container's /proc is shown.
    assert_eq!(doctor(unfiltered), (true, String::new()));
    let with_both = Options {
        uncovered: true,
        ..unfiltered
    };
    assert_eq!(doctor(with_both), (true, String::new()));
}

#[test]
fn a_program_runs_in_a_container_or_what_is_missing_is_named() {
    need_containers!();
    let script = "mkdir /tmp/store; echo hello >/tmp/store/file; echo 'cat: {arguments: path}' >/tmp/policy.yaml
        exec /opt/trumanfs run --root /tmp/store --policy /tmp/policy.yaml -- cat file";
    let run = |options| Container::new(options, script).run();
    let refused = |options, remedy: &str| {
        let output = run(options);
        assert_eq!(output.status.code(), Some(125), "{}", describe(&output));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(remedy), "{}", describe(&output));
        assert!(output.stdout.is_empty(), "{}", describe(&output));
    };
    refused(Options::default(), "--device /dev/fuse");
    let fuse = Options {
        fuse: true,
        ..Options::default()
    };
    refused(fuse, "--cap-add SYS_ADMIN");
    let admin = Options {
        admin: true,
        ..fuse
    };
    let ran = |options, warning: &str| {
        let output = run(options);
        assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
        assert_eq!(output.stdout, b"hello\n", "{}", describe(&output));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(warning), "{}", describe(&output));
    };
    // Docker's filter still refuses pivot_root(2), and parts of /proc are covered.
    ran(admin, "the program sees the container's");
    let uncovered = Options {
        uncovered: true,
        ..admin
    };
    ran(uncovered, "");
}

#[test]
fn doctor_says_whose_proc_a_sandbox_shows() {
    need_containers!();
    let unfiltered = Options {
        unfiltered: true,
        ..Options::default()
    };
    let output = Container::new(unfiltered, "exec /opt/trumanfs doctor --json").run();
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)));
    let all = report["capabilities"].as_array().unwrap();
    let proc = all.iter().find(|one| one["name"] == "proc").unwrap();
    let found = proc["found"].as_str().unwrap();
    assert!(found.contains("the container's"), "{proc}");
}

/// Where parts of /proc are covered, the program sees the container's: names and arguments of its processes, and nothing
/// that these have open, where they work, what they were given, or their memory.
#[test]
fn other_processes_of_a_container_are_closed_to_a_program() {
    need_containers!();
    need_tools!("python3");
    let look = r#"
import os
own = os.readlink("/proc/self")
others = [p for p in os.listdir("/proc") if p.isdigit() and p != own and int(p) < 10]
assert "1" in others, others
for p in others:
    for part in ["root", "cwd", "exe"]:
        try: print("open", p, part, os.readlink(f"/proc/{p}/{part}"))
        except OSError: pass
    for part in ["environ", "mem", "maps", "auxv", "syscall", "stack", "io"]:
        try: print("open", p, part, open(f"/proc/{p}/{part}", "rb").read(1))
        except OSError: pass
    try:
        for fd in os.listdir(f"/proc/{p}/fd"):
            print("open", p, "fd", os.readlink(f"/proc/{p}/fd/{fd}"))
    except OSError: pass
    for part in ["cmdline", "comm"]: open(f"/proc/{p}/{part}").read()
try: open("/proc/sys/kernel/hostname", "w"); print("open: writable")
except OSError: pass
assert not os.path.exists("/proc/keys") or not open("/proc/keys").read()
for way in ["/..", "/../..", "/proc/self/root/.."]:
    names = os.listdir(way)
    # Of its own, the sandbox has one directory in /run.
    run = os.listdir(way + "/run") if "run" in names else []
    assert "opt" not in names and run in ([], ["trumanfs"]), (way, names, run)
mounts = open("/proc/self/mountinfo").read()
assert " /opt " not in mounts and " /run " not in mounts, mounts
print("looked")
"#;
    let script = format!(
        "mkdir /tmp/store; cat >/tmp/store/look.py <<'E'\n{look}\nE\nexport SECRET=1; /opt/trumanfs agent --store /tmp/store -- python3 look.py"
    );
    for options in [
        "--device /dev/fuse --cap-add SYS_ADMIN",
        "--device /dev/fuse --cap-add SYS_ADMIN --security-opt seccomp=unconfined",
    ] {
        let output = Container::new(Options::parse(options), &script).run();
        assert_eq!(output.stdout, b"looked\n", "{}", describe(&output));
        assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    }
}

/// The limits of a program are its own, though the container's processes are in its /proc.
#[test]
fn limits_count_the_programs_own_processes_in_a_container() {
    need_containers!();
    need_tools!("python3");
    let script = r#"mkdir /tmp/store; cd /tmp
        echo 'python3: {allow_script_paths: true}' >policy.yaml
        echo 'import subprocess, sys, time
if "big" in sys.argv: held = bytearray(150 << 20)
several = [subprocess.Popen(["sleep", "3"]) for _ in range(12 if "many" in sys.argv else 2)]
time.sleep(1.5)
print("whole")' >store/work.py
        python3 -c 'import time; held = bytearray(300 << 20); time.sleep(30)' &
        for n in 1 2 3 4 5 6 7 8 9 10; do sleep 30 & done; sleep 0.5
        run() { /opt/trumanfs run --root store --policy policy.yaml --max-memory 100 --max-processes 9 -- python3 work.py $1; }
        run none; run big; run many"#;
    for options in [
        "--device /dev/fuse --cap-add SYS_ADMIN",
        "--device /dev/fuse --cap-add SYS_ADMIN --security-opt systempaths=unconfined",
    ] {
        let output = Container::new(Options::parse(options), script).run();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.stdout,
            b"whole
",
            "{}",
            describe(&output)
        );
        for limit in ["memory", "processes"] {
            assert!(said.contains(limit), "{}", describe(&output));
        }
    }
}

/// Nothing else that Docker's filter refuses is in the way.
#[test]
fn agent_works_under_the_whole_filter_of_a_container() {
    need_containers!();
    if !Path::new(PROFILE).exists() {
        skip!(
            "container-filter",
            "no {PROFILE} (package golang-github-containers-common)"
        );
    }
    let script = "mkdir /tmp/store; echo one >/tmp/store/f; cd /tmp/store
        /opt/trumanfs agent -- sh -c 'echo two >>f; mv f g; ln -s /etc/passwd l; cat g; python3 -c \"import ssl\"' || exit 1
        /opt/trumanfs undo . --run last >&2 && cat f && ls";
    let options = Options {
        admin: true,
        fuse: true,
        whole_filter: true,
        ..Options::default()
    };
    let output = Container::new(options, script).run();
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    assert_eq!(
        output.stdout,
        b"one\ntwo\none\nf\n",
        "{}",
        describe(&output)
    );
    // Without the capability nothing starts, and the options are named.
    let bare = Options {
        whole_filter: true,
        ..Options::default()
    };
    let output = Container::new(bare, script).run();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    assert!(said.contains(CONTAINER_OPTIONS), "{}", describe(&output));
}

/// The line of options that every remedy has, and the documents: with it all works, for root and for an ordinary user.
#[test]
fn documented_line_of_options_is_enough() {
    need_containers!();
    need_tools!("setpriv", "fusermount3");
    let documents = fs::read_to_string(crate::common::repository().join("docs/OPERATORS.md"));
    assert!(documents.unwrap().contains(CONTAINER_OPTIONS));
    let options = Options::parse(CONTAINER_OPTIONS);
    let script =
        "cp /opt/trumanfs /tmp/trumanfs; chmod 755 /tmp/trumanfs; chmod 1777 /tmp; cd /tmp; BECOME
        set -e; /tmp/trumanfs doctor >/tmp/doctor || { cat /tmp/doctor; exit 1; }
        mkdir store; echo hello >store/file; echo 'cat: {arguments: path}' >policy.yaml
        exec /tmp/trumanfs run --root store --policy policy.yaml -- cat file";
    for become_user in [
        "",
        "mkdir user; chown 65534 user; cd user; exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c '",
    ] {
        // The user of the second runs the rest of the script.
        let mut script = script.replace("'cat: {arguments: path}'", "\"cat: {arguments: path}\"");
        script = script
            .replace("/tmp/doctor", "doctor")
            .replace("BECOME", become_user);
        if !become_user.is_empty() {
            script.push('\'');
        }
        let output = Container::new(options, &script).run();
        assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
        assert_eq!(output.stdout, b"hello\n", "{}", describe(&output));
    }
}

/// A device file that is made in the container is not on its list of devices.
#[test]
fn device_that_the_container_may_not_use_is_named() {
    need_containers!();
    let script = "mknod -m 666 /dev/fuse c 10 229; exec /opt/trumanfs doctor --json";
    let output = Container::new(Options::default(), script).run();
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)));
    let mounting = report["mounting"].as_array().unwrap();
    let device = mounting.iter().find(|one| one["name"] == "device").unwrap();
    let found = device["found"].as_str().unwrap();
    assert!(found.contains("list of permitted devices"), "{report}");
    let remedy = device["remedy"].as_str().unwrap();
    assert!(remedy.contains(CONTAINER_OPTIONS), "{report}");
}

/// Where nothing can be mounted and no namespace made, the error prints the options with which an agent starts, and with
/// them it works: what it changes is recorded and can be taken back.
#[test]
fn agent_starts_with_the_options_that_the_error_names() {
    need_containers!();
    let restricted = Options {
        restricted: true,
        ..Options::default()
    };
    let filtered = Options {
        whole_filter: true,
        ..Options::default()
    };
    for options in [Options::default(), filtered, restricted] {
        let script = r#"export HOME=/tmp/user; mkdir -p /tmp/user /tmp/project; cd /tmp/project; echo before >file
            /opt/trumanfs agent -- true 2>/tmp/said; echo "ended with $?"
            set -- $(grep -o 'trumanfs agent --home .* --' /tmp/said); shift; echo "$*"
            /opt/trumanfs "$@" bash -c 'echo after >file; echo bad >/tmp/project/file; cat /etc/passwd >/dev/null && ls /tmp' 2>/tmp/said
            cat file; /opt/trumanfs undo . --run last; cat file; grep -c 'only rules about files' /tmp/said; cat /tmp/said >&2"#;
        let output = Container::new(options, script).run();
        let said = String::from_utf8_lossy(&output.stdout);
        let wanted = "ended with 123\nagent --home fork --sandbox weak --\nafter\n";
        assert!(said.starts_with(wanted), "{}", describe(&output));
        assert!(said.ends_with("\nbefore\n2\n"), "{}", describe(&output));
    }
}

/// With a user namespace but without FUSE, the sandbox is whole, and the agent works in a fork.
#[test]
fn agent_without_fuse_works_in_a_fork_in_a_whole_sandbox() {
    need_containers!();
    let options = Options::parse("--cap-add SYS_ADMIN");
    let script = r#"export HOME=/tmp/user; mkdir -p /tmp/user /tmp/project; cd /tmp/project; echo before >file
        for options in "" "--sandbox none"; do
            /opt/trumanfs agent $options -- true 2>/tmp/said; echo "ended with $?"; grep -o 'agent --home .* --' /tmp/said
        done
        /opt/trumanfs agent --home fork -- sh -c 'pwd; echo after >file; ls /opt'; cat file"#;
    let output = Container::new(options, script).run();
    let wanted = "ended with 123\nagent --home fork --\n\
        ended with 123\nagent --home fork --sandbox none --\n/tmp/project\nafter\n";
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        wanted,
        "{}",
        describe(&output)
    );
}

/// The examples' options are those that the tests above start containers with, and the pod's command works in one like it.
#[test]
fn documented_examples_have_the_options_that_are_enough() {
    need_containers!();
    let examples = crate::common::repository().join("examples/containers");
    let read = |name: &str| fs::read_to_string(examples.join(name)).unwrap();
    assert!(read("docker-run").contains(CONTAINER_OPTIONS));
    let devcontainer: Value = serde_json::from_str(&read("devcontainer.json")).unwrap();
    let words = devcontainer["runArgs"].as_array().unwrap().iter();
    let words: Vec<&str> = words.map(|word| word.as_str().unwrap()).collect();
    assert_eq!(words.join(" "), CONTAINER_OPTIONS);
    let pod = read("pod.yaml");
    let command = pod
        .lines()
        .find_map(|line| line.trim().strip_prefix("command: ["));
    let command = command.unwrap().trim_end_matches(']').replace(", ", " ");
    let command = command.replace("my-agent", "sh -c 'echo after >file'");
    let script = format!(
        "mkdir /tmp/state /tmp/project; export XDG_STATE_HOME=/tmp/state PATH=/opt:$PATH; cd /tmp/project
         echo before >file; {command} && cat file"
    );
    let restricted = Options {
        restricted: true,
        ..Options::default()
    };
    let output = Container::new(restricted, &script).run();
    assert_eq!(output.stdout, b"after\n", "{}", describe(&output));
}

/// Where a container is the wall and has FUSE, the agent works in a mounted home: what it changes there is recorded, and what
/// it changes directly is by an unknown writer; with rules about files it does not get there.
#[test]
fn agent_without_namespaces_works_in_a_mounted_home() {
    need_containers!();
    let options = Options::parse("--device /dev/fuse --cap-add SYS_ADMIN");
    let script = r#"export HOME=/tmp/user; mkdir -p /tmp/user /tmp/project; cd /tmp/project; echo before >file; echo before >other
        for wall in none weak; do
            /opt/trumanfs agent --sandbox $wall -- bash -c 'echo after >file; echo bad >>/tmp/project/other' 2>/tmp/said
            cat file other; grep -o 'unknown writer, which may be the agent: .*' /tmp/said
            /opt/trumanfs undo . --run last >&2; cat file; cat /tmp/said >&2
        done"#;
    let output = Container::new(options, script).run();
    let wanted = "after\nbefore\nbad\nunknown writer, which may be the agent: /other\nbefore\nafter\nbefore\nbad\nbefore\n";
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        wanted,
        "{}",
        describe(&output)
    );
}
