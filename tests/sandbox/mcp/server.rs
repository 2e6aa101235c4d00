//! A server and its one client, which speaks JSON-RPC a line at a time.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::common::{binary, describe, trumanfs};

/// How long an answer may take before the test fails.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// How a client says who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// Once, with `initialize`.
    Sessions,
    /// With each request (revision 2026-07-28).
    Stateless,
}

pub(super) const ERAS: [Era; 2] = [Era::Sessions, Era::Stateless];

/// The tools that need no policy. Not all of them are offered where nobody chooses.
pub(super) const TOOLS: &str = "bash,read_text_file,write_file,edit_file,list_directory,search_files,grep,move_file,copy_file,\
     remove,history,undo,bash_output,bash_kill";

pub(super) struct Server {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    waiting: HashMap<u64, Value>,
    /// What came without an id.
    pub(super) notifications: Vec<Value>,
    pub(super) era: Era,
    /// The answer to `initialize`.
    pub(super) opened: Option<Value>,
    next: u64,
}

impl Server {
    /// Starts a server in a store, and opens the protocol. It offers [`TOOLS`], unless `more` chooses others.
    pub(super) fn start(era: Era, root: &Path, more: &[&str]) -> Server {
        Server::start_by(&[], era, root, more)
    }

    /// As [`Server::start`], with the tools that are offered where nobody chooses.
    pub(super) fn start_usual(era: Era, root: &Path, more: &[&str]) -> Server {
        Server::open(Server::spawn(&[], era, root, more))
    }

    /// As [`Server::start`], by another program, which is to execute what follows its own words.
    pub(super) fn start_by(by: &[&str], era: Era, root: &Path, more: &[&str]) -> Server {
        let mut more = more.to_vec();
        if !more.contains(&"--tools") {
            more.extend(["--tools", TOOLS]);
        }
        Server::open(Server::spawn(by, era, root, &more))
    }

    fn open(mut server: Server) -> Server {
        if server.era == Era::Sessions {
            let params = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            });
            let answer = server.ask("initialize", params);
            assert_eq!(
                answer["result"]["serverInfo"]["name"], "trumanfs",
                "{answer}"
            );
            server.opened = Some(answer);
            server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
        server
    }

    /// Starts a server in a store, and says nothing.
    pub(super) fn start_silent(era: Era, root: &Path, more: &[&str]) -> Server {
        Server::spawn(&[], era, root, more)
    }

    fn spawn(by: &[&str], era: Era, root: &Path, more: &[&str]) -> Server {
        let mut command = match by {
            [] => Command::new(binary()),
            [program, words @ ..] => {
                let mut command = Command::new(program);
                command.args(words).arg(binary());
                command
            }
        };
        let mut child = command
            .args(["serve", "mcp", "--root"])
            .arg(root)
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        Server {
            input: child.stdin.take(),
            child,
            lines,
            waiting: HashMap::new(),
            notifications: Vec::new(),
            era,
            opened: None,
            next: 0,
        }
    }

    /// Sends bytes as they are, and a newline.
    pub(super) fn send_line(&mut self, line: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    pub(super) fn send(&mut self, message: &Value) {
        self.send_line(message.to_string().as_bytes());
    }

    /// Sends a request. Returns its id.
    pub(super) fn request(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        let mut params = params;
        if self.era == Era::Stateless {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientInfo"] =
                json!({"name": "test", "version": "1"});
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Waits for the answer to a request.
    pub(super) fn answer(&mut self, id: u64) -> Value {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(answer) = self.waiting.remove(&id) {
                return answer;
            }
            let message = self.message(end.saturating_duration_since(Instant::now()));
            let message = message.unwrap_or_else(|| panic!("no answer to request {id}"));
            match message["id"].as_u64() {
                Some(id) => drop(self.waiting.insert(id, message)),
                None => self.notifications.push(message),
            }
        }
    }

    /// Returns the next message, whatever it is about.
    pub(super) fn message(&mut self, wait: Duration) -> Option<Value> {
        let line = self.lines.recv_timeout(wait).ok()?;
        // Standard output carries the protocol alone.
        let message: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        Some(message)
    }

    pub(super) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer(id)
    }

    /// Sends a call of a tool. Returns its id.
    pub(super) fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool. Returns its result.
    pub(super) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments);
        let answer = self.answer(id);
        assert!(answer["result"].is_object(), "{tool}: {answer}");
        answer["result"].clone()
    }

    /// Calls a tool that must do what it is asked for. Returns its text and its data.
    pub(super) fn does(&mut self, tool: &str, arguments: Value) -> (String, Value) {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{tool}: {result}");
        (text(&result), result["structuredContent"].clone())
    }

    /// Calls a tool that must not. Returns its text.
    pub(super) fn fails(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{tool}: {result}");
        text(&result)
    }

    /// Takes a request back.
    pub(super) fn cancel(&mut self, id: u64) {
        let params = json!({"requestId": id});
        self.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
        );
    }

    /// Sends the server a signal.
    pub(super) fn signal(&self, signal: Signal) {
        let process = Pid::from_child(&self.child);
        rustix::process::kill_process(process, signal).unwrap();
    }

    /// Returns a field of `/proc/PID/status`.
    pub(super) fn status_field(&self, name: &str) -> u64 {
        let file = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(file).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let value = line.and_then(|line| line.trim_matches([':', '\t', ' ']).split(' ').next());
        value.unwrap().parse().unwrap()
    }

    /// Returns how much the server has read so far, of anything, in bytes.
    pub(super) fn has_read(&self) -> u64 {
        let file = format!("/proc/{}/io", self.child.id());
        let io = std::fs::read_to_string(file).unwrap();
        let read = io.lines().find_map(|line| line.strip_prefix("rchar: "));
        read.unwrap().parse().unwrap()
    }

    /// Says nothing more.
    pub(super) fn close_input(&mut self) {
        drop(self.input.take());
    }

    /// Waits for the server's end.
    pub(super) fn ends_within(&mut self, limit: Duration) -> ExitStatus {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server did not end within {limit:?}");
    }

    /// Says nothing more, and waits for the server's end.
    pub(super) fn finish(mut self) {
        self.close_input();
        let status = self.ends_within(LIMIT);
        assert!(status.success(), "{status}");
    }
}

/// The home of a store that a server has mounted: what is left of it can be asked later.
pub(super) struct Mounted {
    store: PathBuf,
    home: String,
    daemon: i32,
}

impl Mounted {
    pub(super) fn of(store: &Path) -> Mounted {
        let status = trumanfs(&["status".as_ref(), store.as_os_str(), "--json".as_ref()]);
        assert!(status.status.success(), "{}", describe(&status));
        let status: Value = serde_json::from_slice(&status.stdout).unwrap();
        Mounted {
            store: store.to_owned(),
            home: status["home"].as_str().unwrap().to_owned(),
            daemon: i32::try_from(status["pid"].as_i64().unwrap()).unwrap(),
        }
    }

    /// Kills the daemon.
    pub(super) fn kill(&self) {
        let daemon = Pid::from_raw(self.daemon).unwrap();
        rustix::process::kill_process(daemon, Signal::KILL).unwrap();
    }

    /// Returns whether anything of it is still mounted.
    pub(super) fn is_there(&self) -> bool {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        mounts.lines().any(|line| line.contains(&self.home))
    }

    /// Fails unless it is gone within this time, and its daemon with it.
    pub(super) fn is_gone_within(&self, limit: Duration) {
        let end = Instant::now() + limit;
        let is_served = || {
            let status = trumanfs(&["status".as_ref(), self.store.as_os_str()]);
            status.status.success()
        };
        while self.is_there() || is_served() {
            assert!(Instant::now() < end, "{} is still mounted", self.home);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.input.take());
        let end = Instant::now() + Duration::from_secs(15);
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap().to_owned()
}
