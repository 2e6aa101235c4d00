//! Agents in the world that `world` makes, whose owner answers while they run: what they reach then, and what they do not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::inside::ask_gemini;
use crate::common::{binary, describe, need_mount, need_tools, run_limited, skip};

/// A project of an owner in the world.
struct Project {
    dir: tempfile::TempDir,
    store: PathBuf,
}

impl Project {
    fn new() -> Project {
        let dir = tempfile::TempDir::with_prefix("trumanfs-answers-").unwrap();
        let store = fs::canonicalize(dir.path()).unwrap().join("store");
        fs::create_dir(&store).unwrap();
        Project { dir, store }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.arg("agent").args(words);
        command.env("XDG_STATE_HOME", self.dir.path().join("state"));
        command
    }

    fn agent(&self, options: &[&str], script: &str) -> Command {
        let ca = PathBuf::from(std::env::var_os("WORLD").expect("a world: run network::world"));
        fs::copy(ca.join("ca.pem"), self.store.join("ca.pem")).unwrap();
        let mut command = self.command(options);
        command
            .arg("--store")
            .arg(&self.store)
            .args(["--env", "CURL_CA_BUNDLE=ca.pem"]);
        command.args(["--env", "SSL_CERT_FILE=ca.pem", "--", "bash", "-uc", script]);
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, options: &[&str], script: &str) -> Output {
        run_limited(self.agent(options, script), crate::room::LIMIT)
    }

    fn begin(&self, options: &[&str], script: &str) -> Child {
        let mut command = self.agent(options, script);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn say(&self, words: &[&str]) -> String {
        let output = run_limited(self.command(words), crate::room::LIMIT);
        assert!(output.status.success(), "{}", describe(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until the list of asks and refusals has this.
    fn until_listed(&self, part: &str) {
        let end = Instant::now() + Duration::from_secs(30);
        while !self.say(&["asks"]).contains(part) {
            assert!(
                Instant::now() < end,
                "never: {part}: {}",
                self.say(&["asks"])
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Each way in turn is held, is allowed from elsewhere, and goes on.
#[test]
#[ignore = "run by network::world"]
fn held_connection_reaches_its_host_once_it_is_allowed() {
    need_mount!();
    need_tools!("curl");
    if !Path::new("/usr/bin/python3").exists() {
        crate::need::skip!("system-python", "there is no /usr/bin/python3");
    }
    let project = Project::new();
    let script = "curl -sS https://good.test/x
        curl -sS --noproxy '*' http://www.good.test/x
        /usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen(\"https://good.test/x\").read().decode(), end=\"\")'
        curl -sS -x socks5h://127.0.0.1:1080 telnet://good.test:9000 </dev/null
        curl -sS http://private.test/; curl -sS http://moved.test/; curl -sS http://10.1.2.3/; curl -sS http://169.254.169.254/
        curl -sS http://good.test/x";
    let child = project.begin(&["--net", "ask"], script);
    for asked in ["good.test:443", "www.good.test:80"] {
        project.until_listed(&format!("{asked} waits for"));
        assert!(
            project
                .say(&["allow", "last", asked])
                .contains("1 connection waited")
        );
    }
    project.until_listed("good.test:9000 waits for");
    project.say(&["allow", "last", "good.test:9000", "--once"]);
    // An allowed name leads to no private address, nor to one that is denied.
    project.until_listed("private.test:80 waits for");
    project.say(&["allow", "last", "private.test"]);
    project.until_listed("moved.test:80 waits for");
    project.say(&["deny", "last", "93.184.216.35"]);
    project.say(&["allow", "last", "moved.test"]);
    // Of this name, one port was allowed.
    project.until_listed("good.test:80 waits for");
    project.say(&["deny", "last", "good.test:80", "--reason", "by TLS"]);
    let output = child.wait_with_output().unwrap();
    let text = out(&output);
    assert!(
        text.starts_with(&format!("{}raw\n", "content of x\n".repeat(3))),
        "{}",
        describe(&output)
    );
    assert!(
        text.contains("private.test:80 is refused by network: addresses: it resolves to 10.1.2.3"),
        "{text}"
    );
    assert!(
        text.contains("moved.test:80 is refused by agent deny 93.184.216.35"),
        "{text}"
    );
    for private in ["10.1.2.3", "169.254.169.254"] {
        assert!(
            text.contains(&format!("{private}:80 is refused by network.allow")),
            "{text}"
        );
    }
    assert!(
        text.contains("good.test:80 is refused by agent deny good.test:80: by TLS"),
        "{text}"
    );
    assert!(!text.contains("SECRET"), "{text}");
}

/// An agent that asks nobody is refused, is allowed in mid-run, and goes on: by the proxy and by the name's address.
#[test]
#[ignore = "run by network::world"]
fn refused_agent_goes_on_once_its_host_is_allowed() {
    need_mount!();
    need_tools!("curl");
    let project = Project::new();
    let script = "until curl -sS -f https://good.test/x; do sleep 0.05; done
        curl -sS --noproxy '*' https://good.test/x; curl -sS http://evil.test/";
    let child = project.begin(&["--net", "allow=www.good.test"], script);
    project.until_listed("good.test:443 was refused by network.allow");
    project.say(&["allow", "last", "good.test"]);
    let output = child.wait_with_output().unwrap();
    let text = out(&output);
    assert!(
        text.starts_with(&"content of x\n".repeat(2)),
        "{}",
        describe(&output)
    );
    assert!(
        text.contains("evil.test:80 is refused by network.allow"),
        "{text}"
    );
}

/// The list that was learned is enough, as an option and as a profile, and no more than was needed.
#[test]
#[ignore = "run by network::world"]
fn learned_list_suffices_the_next_time() {
    need_mount!();
    need_tools!("curl");
    let project = Project::new();
    let reach =
        "set -e; curl -sS https://good.test/x; curl -sS --noproxy '*' http://www.good.test/x
        curl -sS -x socks5h://127.0.0.1:1080 telnet://good.test:9000 </dev/null
        curl -sS --noproxy '*' http://93.184.216.34/x";
    let script = format!(
        "{reach}; curl -sS http://private.test/; curl -sS http://nobody.test/; curl -sS http://10.1.2.3/"
    );
    let output = project.run(&["--net", "learn"], &script);
    let wanted = "content of x\ncontent of x\nraw\ncontent of x\n";
    assert!(out(&output).starts_with(wanted), "{}", describe(&output));
    assert!(
        out(&output).contains("private.test:80 is refused by network: addresses"),
        "{}",
        describe(&output)
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let list = "93.184.216.34:80,good.test:443,good.test:9000,www.good.test:80";
    let line = format!("these hosts would have sufficed: --net allow={list}\n");
    assert!(said.contains(&line), "{said}");
    let (_, rest) = said.split_once("without --net, these in ").unwrap();
    let (path, rest) = rest.split_once(":\n").unwrap();
    let (profile, _) = rest.split_once("}\n").unwrap();
    let more = format!("{reach}; curl -sS http://good.test/x");
    let refused = "good.test:80 is refused by network.allow";
    let output = project.run(&[&format!("--net=allow={list}")], &more);
    assert!(
        out(&output).starts_with(wanted) && out(&output).contains(refused),
        "{}",
        describe(&output)
    );
    fs::create_dir(Path::new(path).parent().unwrap()).unwrap();
    fs::write(path, format!("{profile}}}\n")).unwrap();
    let output = project.run(&[], &more);
    assert!(
        out(&output).starts_with(wanted) && out(&output).contains(refused),
        "{}",
        describe(&output)
    );
    let output = project.run(&["--net", "learn"], "true");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("no host was reached: --net none would have sufficed"),
        "{said}"
    );
}

/// An agent that is not ours, as npm installs it, whose model is at a host that no list has: it waits there, is allowed
/// from elsewhere, and does its work. With `learn`, the end names that host.
#[test]
#[ignore = "run by network::world"]
fn real_agent_goes_on_once_its_model_is_allowed() {
    need_mount!();
    let world = PathBuf::from(std::env::var_os("WORLD").expect("a world: run network::world"));
    if !world.join("agent/node_modules/.bin/gemini").exists() {
        skip!("registry", "an agent cannot be had from npm's registry");
    }
    const MODEL: &str = "generativelanguage.googleapis.com";
    for options in [
        &["--net", "ask", "--net", "allow=good.test"][..],
        &["--net", "learn"],
    ] {
        let project = Project::new();
        let mut command = project.command(options);
        let made = ask_gemini(&mut command, &project.store);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        if options.contains(&"ask") {
            project.until_listed(&format!("{MODEL}:443 waits for"));
            assert!(!made.exists());
            project.say(&["allow", "last", MODEL]);
        }
        let output = child.wait_with_output().unwrap();
        let told = describe(&output);
        let written = fs::read_to_string(&made).unwrap_or_default();
        assert_eq!(written, "written by an agent\n", "{told}");
        let learned = String::from_utf8_lossy(&output.stderr).contains(&format!("allow={MODEL}"));
        assert_eq!(learned, options.contains(&"learn"), "{told}");
    }
}
