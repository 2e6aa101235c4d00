//! A host that plans for an agent: it has the kernel's key, issues leases, and starts the executor.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use serde_json::{Value, json};
use trumanfs::exec::task::absolute_path::AbsolutePath;
use trumanfs::exec::task::key::PrivateKey;
use trumanfs::exec::task::lease::Lease;
use trumanfs::exec::task::quota::TaskQuota;
use trumanfs::exec::task::result::{TaskOutcome, TaskResult};
use trumanfs::exec::task::trust::SignerRole;
use trumanfs::exec::task::{strict, trust};

use crate::common::{COMMAND_LIMIT, binary, run_limited};

/// A host with an executor of its own.
pub(super) struct Host {
    _dir: tempfile::TempDir,
    pub(super) dir: PathBuf,
    /// A plain directory that is a base.
    pub(super) base: PathBuf,
    bases: Vec<PathBuf>,
    pub(super) kernel: PrivateKey,
    executor: PrivateKey,
}

/// A result as the host reads it.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) text: String,
    pub(super) result: TaskResult,
    pub(super) output: Output,
}

impl Told {
    /// Returns the code of the failure; "SUCCESS" where there is none.
    pub(super) fn code(&self) -> &'static str {
        match &self.result.ending {
            TaskOutcome::Success(_) => "SUCCESS",
            TaskOutcome::Failed(failure) => failure.code.as_str(),
        }
    }

    /// Returns why it failed.
    pub(super) fn why(&self) -> &str {
        match &self.result.ending {
            TaskOutcome::Success(_) => "",
            TaskOutcome::Failed(failure) => &failure.message,
        }
    }

    /// Returns the reason of the failure, for programs; "" where there is none.
    pub(super) fn reason(&self) -> &'static str {
        match &self.result.ending {
            TaskOutcome::Success(_) => "",
            TaskOutcome::Failed(failure) => failure.reason.map_or("", |reason| reason.as_str()),
        }
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.result.to_payload().unwrap()).unwrap()
    }
}

impl Host {
    /// Makes one whose base is a directory on this file system.
    pub(super) fn new() -> Host {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap().join("base");
        fs::create_dir(&base).unwrap();
        Host::of(dir, vec![base])
    }

    /// Makes one with other bases; the first is `base`.
    pub(super) fn with_bases(bases: &[&Path]) -> Host {
        let dir = tempfile::tempdir().unwrap();
        let bases = bases.iter().map(|base| base.canonicalize().unwrap());
        let bases = bases.collect();
        Host::of(dir, bases)
    }

    fn of(temporary: tempfile::TempDir, bases: Vec<PathBuf>) -> Host {
        let dir = temporary.path().canonicalize().unwrap();
        let host = Host {
            _dir: temporary,
            base: bases[0].clone(),
            bases,
            kernel: PrivateKey::generate().unwrap(),
            executor: PrivateKey::generate().unwrap(),
            dir,
        };
        host.executor.save(&host.dir.join("executor.key")).unwrap();
        let entry = |key: &PrivateKey, role| {
            serde_json::to_value(trust::TrustEntry::new(key.public(), role, 0, 1 << 40)).unwrap()
        };
        let trust = json!({"v": 1, "keys": [
            entry(&host.kernel, SignerRole::Kernel), entry(&host.executor, SignerRole::Executor),
        ]});
        fs::write(host.dir.join("trust.json"), trust.to_string()).unwrap();
        host.configure("");
        host
    }

    /// Writes the configuration, with another state directory.
    pub(super) fn configure_state(&self, state: &Path) {
        self.configure("");
        let text = fs::read_to_string(self.config()).unwrap();
        let line = format!("state_dir = {:?}", state.to_str().unwrap());
        fs::write(self.config(), text.replace("state_dir = \"state\"", &line)).unwrap();
    }

    /// Writes the configuration, with more lines.
    pub(super) fn configure(&self, more: &str) {
        let bases: Vec<_> = self
            .bases
            .iter()
            .map(|base| base.to_str().unwrap())
            .collect();
        let text = format!(
            "audience = \"files\"\nbases = {bases:?}\nstate_dir = \"state\"\nvault_dir = \"vault\"\nkey = \"executor.key\"\n\
             trust = \"trust.json\"\nmax_lease_s = 3600\n{more}"
        );
        fs::write(self.config(), text).unwrap();
    }

    pub(super) fn config(&self) -> PathBuf {
        self.dir.join("task.toml")
    }

    /// Returns a path in the base.
    pub(super) fn path(&self, name: &str) -> String {
        self.base.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file in the base.
    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.base.join(name), content).unwrap();
        self.path(name)
    }

    /// Returns the manifest of a task.
    pub(super) fn manifest(&self, id: &str, capability: &str, paths: &[&str]) -> Vec<u8> {
        let mut inputs = json!({"source_path": paths[0]});
        if let Some(destination) = paths.get(1) {
            inputs["destination_path"] = json!(destination);
        }
        let manifest = json!({
            "task_id": id, "capability_id": capability, "inputs": inputs,
            "constraints": {"reversible": true}, "provenance": {"plan": "test"},
        });
        manifest.to_string().into_bytes()
    }

    /// Returns a lease for some bytes, before it is signed.
    pub(super) fn lease(&self, id: &str, bytes: &[u8]) -> Lease {
        let now = trumanfs::exec::task::clock::now();
        Lease {
            v: 1,
            lease_id: Lease::new_id().unwrap(),
            iss: "host".to_owned(),
            aud: "files".to_owned(),
            task_id: id.to_owned(),
            manifest_sha256: strict::sha256(bytes),
            capabilities: ["FILE_MOVE", "FILE_COPY", "FILE_DELETE"]
                .map(str::to_owned)
                .to_vec(),
            bases: self
                .bases
                .iter()
                .map(|base| AbsolutePath::parse(base.to_str().unwrap()).unwrap())
                .collect(),
            iat: now,
            nbf: now,
            exp: now + 600,
            max_uses: 10,
            quota: TaskQuota::default(),
        }
    }

    pub(super) fn sign(&self, lease: &Lease) -> Vec<u8> {
        lease.issue(&self.kernel).unwrap().to_text().into_bytes()
    }

    /// Returns the command that runs a task, with its files written.
    pub(super) fn command(&self, manifest: &[u8], lease: &[u8]) -> Command {
        let (m, l) = (self.dir.join("m.json"), self.dir.join("l.json"));
        fs::write(&m, manifest).unwrap();
        fs::write(&l, lease).unwrap();
        let mut command = Command::new(binary());
        command.args(["task", "run", "--manifest"]).arg(m);
        command
            .arg("--lease")
            .arg(l)
            .arg("--config")
            .arg(self.config());
        command
    }

    /// Runs a task.
    pub(super) fn run(&self, manifest: &[u8], lease: &[u8]) -> Told {
        self.told(run_limited(self.command(manifest, lease), COMMAND_LIMIT))
    }

    /// Runs a task with a lease that fits.
    pub(super) fn does(&self, id: &str, capability: &str, paths: &[&str]) -> Told {
        let manifest = self.manifest(id, capability, paths);
        let lease = self.sign(&self.lease(id, &manifest));
        self.run(&manifest, &lease)
    }

    /// Takes a task back.
    pub(super) fn undo(&self, id: &str, result: &str) -> Told {
        let lease = self.sign(&self.lease(id, result.as_bytes()));
        let (r, l) = (self.dir.join("r.json"), self.dir.join("l2.json"));
        fs::write(&r, result).unwrap();
        fs::write(&l, lease).unwrap();
        let mut command = Command::new(binary());
        command.args(["task", "undo", "--result"]).arg(r);
        command
            .arg("--lease")
            .arg(l)
            .arg("--config")
            .arg(self.config());
        self.told(run_limited(command, COMMAND_LIMIT))
    }

    /// Reads what the executor said: it is signed, and its status tells what it says.
    pub(super) fn told(&self, output: Output) -> Told {
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(text.ends_with('\n'), "{}", crate::common::describe(&output));
        let text = text.trim_end().to_owned();
        let verified = TaskResult::verify(text.as_bytes(), [self.executor.public()]);
        let (result, _) = verified.unwrap_or_else(|why| panic!("{why}: {text}"));
        let told = Told {
            text,
            result,
            output,
        };
        let status = i32::from(told.code() != "SUCCESS");
        assert_eq!(told.output.status.code(), Some(status), "{told:?}");
        told
    }

    /// Checks the log. Returns what was said of it.
    pub(super) fn log(&self) -> Value {
        let mut command = Command::new(binary());
        command.args(["task", "log", "verify", "--json", "--config"]);
        command.arg(self.config());
        let output = run_limited(command, COMMAND_LIMIT);
        assert!(
            output.status.success(),
            "{}",
            crate::common::describe(&output)
        );
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Starts one executor for many tasks.
    pub(super) fn stream(&self) -> Stream {
        let mut command = Command::new(binary());
        command
            .args(["task", "run", "-", "--config"])
            .arg(self.config());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        Stream {
            input: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// Returns a line of a stream.
    pub(super) fn line(&self, manifest: &[u8], lease: &[u8]) -> String {
        let lease: Value = serde_json::from_slice(lease).unwrap();
        let manifest = std::str::from_utf8(manifest).unwrap();
        json!({"manifest": manifest, "lease": lease}).to_string()
    }

    /// Returns a line of a stream that takes a task back.
    pub(super) fn undo_line(&self, id: &str, result: &str) -> String {
        let lease = self.sign(&self.lease(id, result.as_bytes()));
        let lease: Value = serde_json::from_slice(&lease).unwrap();
        json!({"undo": result, "lease": lease}).to_string()
    }

    /// Reads one result.
    pub(super) fn read(&self, text: &str) -> TaskResult {
        let verified = TaskResult::verify(text.trim_end().as_bytes(), [self.executor.public()]);
        verified.unwrap_or_else(|why| panic!("{why}: {text}")).0
    }

    /// Returns how many files the vault keeps.
    pub(super) fn vault(&self) -> usize {
        let names = fs::read_dir(self.dir.join("vault")).into_iter().flatten();
        let names = names.map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| !name.to_string_lossy().starts_with(".log-head-"))
            .count()
    }
}

/// An executor that reads line by line.
pub(super) struct Stream {
    child: Child,
    input: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Stream {
    pub(super) fn ask(&mut self, line: &str) -> String {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
        self.read()
    }

    /// Reads a line that answers one that was sent, or says that the stream waits.
    pub(super) fn read(&mut self) -> String {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer
    }

    /// Returns the worker that waits for the next task.
    pub(super) fn worker(&self) -> rustix::process::Pid {
        let executor = self.child.id();
        let children = format!("/proc/{executor}/task/{executor}/children");
        // One that has done its task may still be there.
        loop {
            let children = std::fs::read_to_string(&children).unwrap();
            let mut numbers = children.split_whitespace().map(|pid| pid.parse().unwrap());
            if let (Some(pid), None) = (numbers.next(), numbers.next()) {
                return rustix::process::Pid::from_raw(pid).unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    pub(super) fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
