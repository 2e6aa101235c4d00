//! Answers about hosts while an agent runs: who asks, who answers, what the agent learns of it, and what it cannot reach.
//! No address of the world is needed here: a host that is allowed is one that cannot be resolved.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use super::json::is_as_documented;
use super::{LIMIT, Store, err, good, until};
use crate::common::{binary, describe, need_mount, need_tools, run_limited};

/// A store whose owner answers.
struct Owner {
    store: Store,
    state: PathBuf,
}

impl Owner {
    fn new() -> Owner {
        let store = Store::new();
        let state = store.base.join("state");
        Owner { store, state }
    }

    /// `trumanfs agent` of this owner.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .arg("agent")
            .args(words)
            .env("XDG_STATE_HOME", &self.state);
        command
    }

    fn agent(&self, options: &[&str], script: &str) -> Command {
        let mut command = self.command(&["--store"]);
        command.arg(&self.store.store).args(options);
        command
            .args(["--", "bash", "-c", script])
            .stdin(Stdio::null());
        command
    }

    /// Runs an agent whose output is waited for.
    fn run(&self, options: &[&str], script: &str) -> Output {
        run_limited(self.agent(options, script), LIMIT)
    }

    fn begin(&self, options: &[&str], script: &str) -> Child {
        let mut command = self.agent(options, script);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn say(&self, words: &[&str]) -> Output {
        run_limited(self.command(words), LIMIT)
    }

    /// The state of each agent that runs.
    fn states(&self) -> Vec<Value> {
        let said = good(&self.say(&["asks", "--json"]));
        said.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Waits until a host is asked for; returns the run.
    fn until_asked(&self, host: &str) -> String {
        let mut found = None;
        until(host, || {
            let states = self.states();
            let asks = |state: &&Value| {
                let asks = state["asks"].as_array().unwrap();
                asks.iter().any(|ask| ask["host"] == host)
            };
            found = states
                .iter()
                .find(asks)
                .map(|state| state["run"].as_str().unwrap().to_owned());
            found.is_some()
        });
        found.unwrap()
    }

    /// The lines of the audit log about answers.
    fn answers(&self) -> Vec<Value> {
        let mut lines = Vec::new();
        for place in fs::read_dir(self.state.join("trumanfs")).unwrap() {
            let log = place.unwrap().path().join(".trumanfs/audit.jsonl");
            let text = fs::read_to_string(log).unwrap_or_default();
            lines.extend(
                text.lines()
                    .map(|line| serde_json::from_str::<Value>(line).unwrap()),
            );
        }
        lines.retain(|line| line["kind"] == "answer");
        lines
    }

    fn profile(&self) -> PathBuf {
        self.state.join("trumanfs/profiles/bash.json")
    }
}

/// Waits for an agent's end.
fn end(child: Child) -> Output {
    child.wait_with_output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The reason comes by every way that has words.
#[test]
fn asked_host_waits_and_the_reason_of_a_denial_arrives() {
    need_mount!();
    need_tools!("curl");
    let owner = Owner::new();
    let script = "curl -sS http://a.invalid/; exec 3<>/dev/tcp/b.invalid/22; cat <&3; curl -sS http://b.invalid:8080/";
    let child = owner.begin(&["--net", "ask"], script);
    let run = owner.until_asked("a.invalid");
    let state = owner.states().remove(0);
    is_as_documented("agent asks", &state);
    is_as_documented("held host", &state["asks"][0]);
    let listed = good(&owner.say(&["asks", &run[..6]]));
    let way = format!("trumanfs agent allow {run} a.invalid:80");
    assert!(
        listed.contains(&way) && listed.contains("a.invalid:80 waits for "),
        "{listed}"
    );
    let said = good(&owner.say(&["deny", "last", "a.invalid", "--reason", "use the mirror"]));
    let wanted = format!("run {run}: a.invalid is denied, for which 1 connection waited\n");
    assert!(said.starts_with(&wanted), "{said}");
    assert_eq!(owner.until_asked("b.invalid"), run);
    good(&owner.say(&["deny", &run, "**.invalid", "--reason", "no SSH"]));
    let output = end(child);
    let (text, said) = (out(&output), err(&output));
    let refused = "trumanfs: a.invalid:80 is refused by agent deny a.invalid: use the mirror\n";
    assert!(text.starts_with(refused), "{text}");
    assert!(
        text.contains("b.invalid:22 is refused by agent deny **.invalid: no SSH"),
        "{text}"
    );
    assert!(
        text.ends_with("b.invalid:8080 is refused by agent deny **.invalid: no SSH\n"),
        "{text}"
    );
    // Whoever watches the agent's errors learned of it, and the summary has it.
    assert!(
        said.contains(&format!("the agent waits for a.invalid:80: {way}")),
        "{said}"
    );
    assert!(
        said.contains(&format!("trumanfs agent asks {run} --follow")),
        "{said}"
    );
    assert_eq!(said.matches(refused).count(), 1, "{said}");
    let answers = owner.answers();
    let of = |key: &str| {
        answers
            .iter()
            .map(|line| line[key].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("host"), ["a.invalid", "**.invalid"]);
    assert_eq!(of("verdict"), ["deny", "deny"]);
    assert_eq!(of("reason"), ["use the mirror", "no SSH"]);
    assert!(of("run").iter().all(|of| *of == *run));
    let by = format!("uid {} (pid ", user());
    assert!(
        of("by")
            .iter()
            .all(|of| of.as_str().unwrap().starts_with(&by)),
        "{answers:?}"
    );
}

#[test]
fn host_that_nobody_answers_for_is_refused() {
    need_mount!();
    need_tools!("curl");
    let owner = Owner::new();
    let output = owner.run(
        &["--net=ask", "--ask-timeout=0.3"],
        "curl -sS http://a.invalid/",
    );
    let text = good(&output);
    let start = "trumanfs: a.invalid:80 is refused by --net ask: nobody answered within 0.3 s; ";
    assert!(text.starts_with(start), "{text}");
    assert!(text.contains("allow it: trumanfs agent allow "), "{text}");
    assert!(err(&output).contains(&text), "{}", err(&output));
    let [line] = &owner.answers()[..] else {
        panic!("{:?}", owner.answers())
    };
    assert_eq!(
        (&line["by"], &line["verdict"]),
        (&json!("nobody"), &json!("deny"))
    );
    assert_eq!(line["host"], "a.invalid:80");
    // One that leaves by itself leaves no ask behind.
    let script = "curl -sS -m1 http://a.invalid/; until [ -e go ]; do sleep 0.05; done";
    let child = owner.begin(&["--net=ask", "--ask-timeout=600"], script);
    let run = owner.until_asked("a.invalid");
    until("it is withdrawn", || {
        owner
            .states()
            .iter()
            .all(|state| state["asks"] == json!([]))
    });
    let listed = good(&owner.say(&["asks", &run]));
    assert!(
        listed.contains("the program did not wait for an answer"),
        "{listed}"
    );
    fs::write(owner.store.store.join("go"), "").unwrap();
    end(child);
}

/// An ordinary agent, which asks nobody: its refusal says what allows it, and that is enough to go on.
#[test]
fn refusal_names_the_command_that_lets_the_agent_go_on() {
    need_mount!();
    need_tools!("curl");
    let owner = Owner::new();
    let script = "curl -sS http://b.invalid/ >refused
        until curl -sS http://b.invalid/ | grep 'cannot be resolved'; do sleep 0.05; done
        curl -sS --noproxy '*' http://b.invalid/ | grep 'cannot be resolved'
        touch went_on
        until curl -sS http://b.invalid/ | grep 'agent deny'; do sleep 0.05; done";
    let child = owner.begin(&["--net", "allow=a.invalid"], script);
    let refused = owner.store.store.join("refused");
    until("it is refused", || {
        fs::read_to_string(&refused).is_ok_and(|text| text.ends_with('\n'))
    });
    let text = fs::read_to_string(&refused).unwrap();
    let wanted = "is refused by network.allow: the policy allows a.invalid; whoever started the agent can allow it: trumanfs ";
    let (_, way) = text.split_once(wanted).unwrap_or_else(|| panic!("{text}"));
    let words: Vec<&str> = way.split_whitespace().collect();
    assert_eq!(
        (words[0], words[1], words[3]),
        ("agent", "allow", "b.invalid:80")
    );
    let listed = good(&owner.say(&["asks"]));
    assert!(
        listed.contains("b.invalid:80 was refused by network.allow"),
        "{listed}"
    );
    let said = good(&owner.say(&words[1..]));
    assert!(said.ends_with("b.invalid:80 is allowed\n"), "{said}");
    let run = words[2];
    let audited = || owner.answers().len();
    until("it is allowed", || audited() == 1);
    let mut follow = owner.command(&["asks", run, "--follow", "--json"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut followed = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut next = || {
        followed
            .next()
            .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
    };
    let first = next().unwrap();
    until("the agent has gone on", || {
        owner.store.store.join("went_on").exists()
    });
    // A denial after that counts from then on; a port that nobody listens at is named.
    let said = good(&owner.say(&["allow", run, "b.invalid:8443"]));
    assert!(
        said.contains("port 8443 is reached by the proxies"),
        "{said}"
    );
    let said = good(&owner.say(&["deny", run, "b.invalid"]));
    assert!(said.contains("connections that are open go on"), "{said}");
    let output = end(child);
    assert!(output.status.success(), "{}", describe(&output));
    is_as_documented("agent asks", &first);
    is_as_documented("refused host", &first["refused"][0]);
    assert_eq!(first["run"], run);
    let events: Vec<Value> = std::iter::from_fn(next).collect();
    events
        .iter()
        .for_each(|event| is_as_documented("agent event", event));
    let is_answer = |event: &Value| event["event"] == "answer" && event["host"] == "b.invalid";
    assert!(events.iter().any(is_answer), "{events:?}");
    assert!(follow.wait().unwrap().success());
    // After the end: the run is known, and has ended.
    let said = owner.say(&["allow", run, "b.invalid"]);
    assert_eq!(said.status.code(), Some(3));
    assert!(
        err(&said).contains(&format!("run {run} has ended")),
        "{}",
        err(&said)
    );
    assert!(err(&said).contains("--net allow=HOST"), "{}", err(&said));
}

#[test]
fn command_is_asked_and_its_verdict_counts() {
    need_mount!();
    need_tools!("curl");
    let owner = Owner::new();
    let judge = owner.store.base.join("judge");
    fs::write(
        &judge,
        r#"#!/bin/sh
asked=$(cat)
for part in '"agent":"bash"' '"port":80' '"by":"http"' '"run":"'; do
    case $asked in *"$part"*) ;; *) echo "without $part: $asked" >&2; exit 4 ;; esac
done
host=${asked#*'"host":"'}
host=${host%%'"'*}
echo "asked for $host" >&2
case $host in
fails.invalid) exit 3 ;;
hangs.invalid) sleep 600 ;;
ok.invalid) verdict=allow ;;
yours.invalid) verdict=ask ;;
*) verdict=deny ;;
esac
printf '{"verdict":"%s","reason":"%s is not needed:\\nuse the cache"}' $verdict $host
"#,
    )
    .unwrap();
    fs::set_permissions(&judge, fs::Permissions::from_mode(0o755)).unwrap();
    let options = [
        "--net=ask",
        "--ask-timeout=8",
        "--ask-with",
        judge.to_str().unwrap(),
    ];
    let script = "for name in no ok no fails hangs; do curl -sS http://$name.invalid/; done";
    let output = owner.run(&options, script);
    let (text, said) = (good(&output), err(&output));
    let denied = "trumanfs: no.invalid:80 is refused by agent deny no.invalid:80: no.invalid is not needed:\nuse the cache\n";
    assert!(text.starts_with(denied), "{text}");
    assert_eq!(text.matches(denied).count(), 2, "{text}");
    assert!(text.contains("ok.invalid cannot be resolved"), "{text}");
    assert_eq!(
        text.matches("nobody answered within 8 s").count(),
        2,
        "{text}"
    );
    assert_eq!(said.matches("asked for no.invalid").count(), 1, "{said}");
    assert!(
        said.contains("--ask-with gave no verdict about fails.invalid:80: exit status: 3"),
        "{said}"
    );
    assert!(
        said.contains("about hangs.invalid:80: its time is up"),
        "{said}"
    );
    let by: Vec<_> = owner
        .answers()
        .iter()
        .map(|line| line["by"].clone())
        .collect();
    assert_eq!(by, ["--ask-with", "--ask-with", "nobody", "nobody"]);
    // What it leaves to whoever watches is answered there; what still runs at the end is killed.
    let script = "curl -sS http://yours.invalid/; curl -sS -m1 http://hangs.invalid/";
    let options = ["--net=ask", "--ask-with", judge.to_str().unwrap()];
    let child = owner.begin(&options, script);
    let run = owner.until_asked("yours.invalid");
    good(&owner.say(&["deny", &run, "yours.invalid", "--reason", "by hand"]));
    assert!(out(&end(child)).contains("by hand"));
    let judges = || {
        let listed = Command::new("ps").args(["-eo", "args"]).output().unwrap();
        String::from_utf8_lossy(&listed.stdout)
            .matches(judge.to_str().unwrap())
            .count()
    };
    until("no command is left", || judges() == 0);
    for wrong in [
        &["--ask-with", "true"][..],
        &["--net=learn", "--ask-timeout=3"],
    ] {
        let said = owner.run(wrong, "echo >ran");
        assert_eq!(said.status.code(), Some(123), "{}", describe(&said));
        assert!(err(&said).contains("are for --net ask"), "{}", err(&said));
    }
    for both in ["learn", "all", "none"] {
        let said = owner.run(&["--net=ask", "--net", both], "echo >ran");
        assert_eq!(said.status.code(), Some(123), "{}", describe(&said));
        assert!(err(&said).contains("stands beside"), "{}", err(&said));
    }
    assert!(!owner.store.store.join("ran").exists());
}

#[test]
fn answers_that_cannot_count_are_errors_with_a_remedy() {
    need_mount!();
    need_tools!("curl");
    let owner = Owner::new();
    let said = owner.say(&["allow", "last", "a.invalid"]);
    assert_eq!(said.status.code(), Some(3));
    assert!(
        err(&said).contains("no agent of yours that has a network runs"),
        "{}",
        err(&said)
    );
    let wait = "until [ -e go ]; do sleep 0.05; done";
    let child = owner.begin(&["--net", "allow=b.invalid"], wait);
    until("it runs", || owner.states().len() == 1);
    for (words, code, part) in [
        (&["allow", "last", "a b"][..], 2, "\"a b\" is no host"),
        (&["allow", "last", "a.invalid:0"], 2, "the port must be"),
        (&["deny", "uuuu", "a.invalid"], 3, "runs as \"uuuu\""),
        (&["allow", "", "a.invalid"], 3, "runs as \"\""),
        (&["asks", "uuuu", "--follow"], 3, "runs as \"uuuu\""),
        (&["allow", "last"], 2, "required"),
        (
            &["allow", "last", "a.invalid", "--once", "--always"],
            2,
            "cannot be used with",
        ),
    ] {
        let said = owner.say(words);
        assert_eq!(
            said.status.code(),
            Some(code),
            "{words:?}: {}",
            describe(&said)
        );
        assert!(err(&said).contains(part), "{words:?}: {}", err(&said));
    }
    fs::write(owner.store.store.join("go"), "").unwrap();
    end(child);
    // One without a network leaves nothing to be answered, and says how it would.
    fs::remove_file(owner.store.store.join("go")).unwrap();
    let child = owner.begin(&[], "touch begun; until [ -e go ]; do sleep 0.05; done");
    until("it runs", || owner.store.store.join("begun").exists());
    let said = owner.say(&["allow", "last", "a.invalid"]);
    assert_eq!(said.status.code(), Some(3), "{}", describe(&said));
    assert!(
        err(&said).contains("start it with --net ask"),
        "{}",
        err(&said)
    );
    fs::write(owner.store.store.join("go"), "").unwrap();
    end(child);
    // A program may be called so.
    let output = owner.say(&["--store", owner.store.store.to_str().unwrap(), "--", "asks"]);
    assert_eq!(output.status.code(), Some(127), "{}", describe(&output));
}

/// What is always allowed is in a file of the owner's, which the next agent of the profile gets, and which no occupant
/// reaches.
#[test]
fn always_counts_for_the_next_agent_of_the_profile() {
    need_mount!();
    need_tools!("curl");
    let owner = Owner::new();
    let script = "curl -sS http://a.invalid/; curl -sS http://b.invalid/";
    let child = owner.begin(&["--net", "ask"], script);
    let run = owner.until_asked("a.invalid");
    let said = good(&owner.say(&["allow", &run, "A.invalid.:80", "--always"]));
    let profile = owner.profile();
    assert!(said.contains(&profile.display().to_string()), "{said}");
    owner.until_asked("b.invalid");
    good(&owner.say(&["deny", &run, "b.invalid", "--always"]));
    end(child);
    let written = fs::read_to_string(&profile).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(
        written,
        json!({"hosts": ["a.invalid:80"], "deny": ["b.invalid"]})
    );
    let other = Owner {
        store: Store::new(),
        state: owner.state.clone(),
    };
    let output = other.run(&[], script);
    assert!(
        out(&output).contains("a.invalid cannot be resolved"),
        "{}",
        describe(&output)
    );
    assert!(
        out(&output).contains("is refused by network.deny: b.invalid"),
        "{}",
        describe(&output)
    );
    // A list that was typed is meant as it is; what is denied stays so.
    let output = other.run(&["--net", "allow=c.invalid,b.invalid"], script);
    assert!(
        out(&output).contains("a.invalid:80 is refused by network.allow"),
        "{}",
        describe(&output)
    );
    assert!(
        out(&output).contains("is refused by network.deny: b.invalid"),
        "{}",
        describe(&output)
    );
    // The list comes first; the next run has what is said always.
    let wait = "until [ -e go ]; do sleep 0.05; done";
    let child = other.begin(&[], wait);
    until("it runs", || !other.states().is_empty());
    let refused = other.say(&["allow", "last", "b.invalid:443"]);
    assert_eq!(refused.status.code(), Some(6), "{}", describe(&refused));
    assert!(
        err(&refused).contains("b.invalid --always"),
        "{}",
        err(&refused)
    );
    let said = good(&other.say(&["allow", "last", "b.invalid", "--always"]));
    assert!(said.contains("still refuses it"), "{said}");
    fs::write(other.store.store.join("go"), "").unwrap();
    end(child);
    assert!(out(&other.run(&[], script)).contains("b.invalid cannot be resolved"));
    // Another profile has nothing of that.
    let output = other.run(&["--profile", "claude"], script);
    assert!(
        out(&output).contains("a.invalid:80 is refused by network.allow"),
        "{}",
        describe(&output)
    );
    fs::write(&profile, "{\"hosts\": [\"a b\"]}").unwrap();
    for text in ["{\"hosts\": [\"a b\"]}", "{", "{\"host\": []}"] {
        fs::write(&profile, text).unwrap();
        let output = other.run(&[], "echo >ran");
        assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
        assert!(
            err(&output).contains("profiles/bash.json"),
            "{}",
            err(&output)
        );
    }
    assert!(!other.store.store.join("ran").exists());
}

/// An agent whose project is around the owner's state home neither sees nor makes what its owner's agents are allowed.
#[test]
fn occupant_writes_no_profile_of_its_owner() {
    need_mount!();
    let store = Store::new();
    let state = store.store.join(".local/state");
    let owner = Owner { store, state };
    let script = "mkdir -p .local/state/trumanfs/profiles
        echo '{\"hosts\": [\"**.invalid\"]}' >.local/state/trumanfs/profiles/bash.json
        mkdir -p .local/state/trumanfs; ls -a .local/state; find . -name 'running.*' -o -name '*.json'";
    let output = owner.run(&[], script);
    assert_eq!(out(&output), ".\n..\n", "{}", describe(&output));
    assert!(!owner.profile().exists());
    // Nor one of a home that is mounted, before there is a state home.
    let store = Store::new();
    let state = store.store.join(".local/state");
    let home = store.base.join("home");
    let trumanfs = |words: &[&Path]| {
        let mut command = Command::new(binary());
        command.args(words).env("XDG_STATE_HOME", &state);
        run_limited(command, LIMIT)
    };
    fs::create_dir(&home).unwrap();
    good(&trumanfs(&[Path::new("mount"), &store.store, &home]));
    let made = fs::create_dir_all(home.join(".local/state/trumanfs/profiles"));
    good(&trumanfs(&[Path::new("umount"), &home]));
    assert!(made.is_err() && !state.join("trumanfs/profiles").exists());
}

#[test]
fn two_agents_are_answered_one_by_one() {
    need_mount!();
    need_tools!("curl");
    let (one, two) = (Owner::new(), Store::new());
    let two = Owner {
        store: two,
        state: one.state.clone(),
    };
    let first = one.begin(&["--net", "ask"], "curl -sS http://one.invalid/");
    let first_run = one.until_asked("one.invalid");
    let second = two.begin(&["--net", "ask"], "curl -sS http://two.invalid/");
    let second_run = one.until_asked("two.invalid");
    assert_ne!(first_run, second_run);
    assert_eq!(good(&one.say(&["asks"])).matches("waits for").count(), 2);
    let said = good(&one.say(&["deny", "last", "**.invalid"]));
    assert!(said.starts_with(&format!("run {second_run}: ")), "{said}");
    assert!(out(&end(second)).contains("is refused by agent deny **.invalid"));
    assert_eq!(one.until_asked("one.invalid"), first_run);
    // The newer one has ended: the last that runs is the first.
    let said = good(&one.say(&["allow", "last", "one.invalid", "--once"]));
    assert!(
        said.starts_with(&format!("run {first_run}: one.invalid is allowed once")),
        "{said}"
    );
    assert!(out(&end(first)).contains("one.invalid cannot be resolved"));
}

/// A launcher that is killed takes all asks along, and is in nobody's way.
#[test]
fn killed_launcher_leaves_no_ask() {
    need_mount!();
    need_tools!("curl");
    let owner = Owner::new();
    let mut child = owner.begin(&["--net", "ask"], "curl -sS http://a.invalid/ >got");
    let run = owner.until_asked("a.invalid");
    let mut follow = owner.command(&["asks", &run, "--follow"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut followed = BufReader::new(follow.stdout.take().unwrap()).lines();
    assert!(followed.next().unwrap().unwrap().contains(&run));
    let asked = followed.next().unwrap().unwrap();
    assert!(asked.contains("a.invalid:80 waits for"), "{asked}");
    child.kill().unwrap();
    child.wait().unwrap();
    // Whoever watches learns of the end.
    assert!(followed.next().is_none());
    assert!(follow.wait().unwrap().success());
    assert_eq!(owner.states(), Vec::<Value>::new());
    let said = owner.say(&["allow", &run, "a.invalid"]);
    assert!(err(&said).contains("has ended"), "{}", err(&said));
    let output = owner.run(
        &["--net=ask", "--ask-timeout=0.1"],
        "curl -sS http://b.invalid/",
    );
    assert!(
        out(&output).contains("b.invalid:80 is refused by --net ask"),
        "{}",
        describe(&output)
    );
}

/// A program that asks for very much is refused for what is too much, and reaches meanwhile what it may.
#[test]
fn thousand_asks_at_once_are_bounded() {
    need_mount!();
    need_tools!("curl", "python3");
    let owner = Owner::new();
    let script = "cat >flood.py <<'END'
import selectors, socket
waiting = selectors.DefaultSelector()
def request(host):
    s = socket.create_connection(('127.0.0.1', 3128))
    s.sendall(b'GET http://%s/ HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % (host, host))
    waiting.register(s, selectors.EVENT_READ, host)
texts = {}
def answers():
    for key, _ in waiting.select():
        part = key.fileobj.recv(4096)
        texts[key.data] = texts.get(key.data, b'') + part
        if not part:
            waiting.unregister(key.fileobj)
            key.fileobj.close()
            if key.data == b'ok.invalid': open('reached', 'w')
for n in range(1000): request(b'n%d.invalid' % n)
request(b'ok.invalid')
while len(waiting.get_map()) > 64: answers()
open('flooded', 'w')
while waiting.get_map(): answers()
print(b'ok.invalid cannot be resolved' in texts.pop(b'ok.invalid'))
print(len(texts), all(b' 403 ' in text for text in texts.values()))
print(sum(b'64 connections wait for an answer already' in text for text in texts.values()))
print(sum(b'denied in bulk' in text for text in texts.values()))
END
python3 flood.py";
    let child = owner.begin(
        &["--net=allow=ok.invalid", "--net=ask", "--ask-timeout=600"],
        script,
    );
    let held = || {
        owner
            .states()
            .first()
            .map_or(0, |state| state["asks"].as_array().unwrap().len())
    };
    until("they wait", || {
        held() == 64
            && ["reached", "flooded"]
                .iter()
                .all(|file| owner.store.store.join(file).exists())
    });
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let number = |key: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    assert!(number("Threads:") < 160, "{status}");
    assert!(number("VmRSS:") < 200 << 10, "{status}");
    let said = good(&owner.say(&["deny", "last", "**.invalid", "--reason", "denied in bulk"]));
    assert!(said.contains("64 connections waited"), "{said}");
    let output = end(child);
    let text = good(&output);
    assert_eq!(text, "True\n1000 True\n936\n64\n", "{}", err(&output).len());
}

/// Nothing in the sandbox leads to the socket, and a program in a sandbox that gets there is refused.
#[test]
fn agent_neither_finds_nor_answers_its_asks() {
    need_mount!();
    need_tools!("curl", "python3");
    let owner = Owner::new();
    let state = owner.state.display().to_string();
    let script = format!(
        "ls -d {state} /run/user /proc/*/root{state} 2>/dev/null
         cat /proc/net/unix | grep -c trumanfs
         find / -xdev -type s 2>/dev/null
         env | grep -i -e state -e ask
         curl -sS http://a.invalid/ >/dev/null"
    );
    let child = owner.begin(&["--net=ask"], &script);
    let run = owner.until_asked("a.invalid");
    // It has another PID namespace, as every sandbox has.
    let mut inside = Command::new("unshare");
    inside
        .args(["--user", "--map-current-user", "--pid", "--fork"])
        .arg(binary());
    inside
        .args(["agent", "allow", &run, "a.invalid"])
        .env("XDG_STATE_HOME", &owner.state);
    let inside = run_limited(inside, LIMIT);
    let is_refused = err(&inside).contains("a program in a sandbox may not answer");
    assert!(!inside.status.success(), "{}", describe(&inside));
    if !is_refused {
        assert!(err(&inside).contains("unshare"), "{}", describe(&inside));
    }
    assert_eq!(owner.until_asked("a.invalid"), run);
    good(&owner.say(&["deny", &run, "a.invalid"]));
    let output = end(child);
    assert_eq!(out(&output), "0\n", "{}", describe(&output));
    // No option shows it.
    for shown in [owner.state.clone(), owner.state.join("trumanfs")] {
        let shown = ["--bind-ro", shown.to_str().unwrap()];
        let output = owner.run(&[&shown[..], &["--net=ask"]].concat(), "echo >ran");
        assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
        assert!(
            err(&output).contains("at which it is answered"),
            "{}",
            err(&output)
        );
        let output = owner.run(&shown, "echo >ran");
        assert!(
            err(&output).contains("could purge and undo"),
            "{}",
            err(&output)
        );
    }
    assert!(!owner.store.store.join("ran").exists());
    // Without a place for it, an agent that asks does not begin; others go on as ever.
    let mut command = owner.agent(&["--net=ask"], "echo >ran");
    command.env("XDG_STATE_HOME", "/dev/null/none");
    let output = run_limited(command, LIMIT);
    assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
    assert!(err(&output).contains("XDG_STATE_HOME"), "{}", err(&output));
    let mut command = owner.agent(&["--net=allow=a.invalid"], "curl -sS http://b.invalid/");
    command.env("XDG_STATE_HOME", "/dev/null/none");
    let text = good(&run_limited(command, LIMIT));
    assert!(text.ends_with("the policy allows a.invalid\n"), "{text}");
}
