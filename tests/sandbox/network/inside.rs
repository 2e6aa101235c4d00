//! Programs, in the world that `world` makes: what they reach, and what they do not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType};
use trumanfs::exec::program::policy::NetworkRule;
use trumanfs::exec::program::sandbox::SandboxPlan;

use super::net::{Reached, allow, run};
use crate::common::{need_mount, need_tools};
use crate::room::Room;

fn world() -> PathBuf {
    std::env::var_os("WORLD")
        .expect("a world: run network::world")
        .into()
}

/// A room that trusts the world's certificates.
fn room() -> Room {
    let room = Room::new();
    fs::copy(world().join("ca.pem"), room.home.join("ca.pem")).unwrap();
    room
}

/// A plan for a script, in which the tools find the certificates.
fn plan(room: &Room, script: &str) -> SandboxPlan {
    let mut plan = room.plan(&["bash", "-uc", script]);
    let ca = room.home.join("ca.pem");
    for name in [
        "CURL_CA_BUNDLE",
        "GIT_SSL_CAINFO",
        "NODE_EXTRA_CA_CERTS",
        "SSL_CERT_FILE",
        "CARGO_HTTP_CAINFO",
        "PIP_CERT",
    ] {
        plan.env.push((name.into(), ca.clone().into()));
    }
    plan
}

fn sh(rule: &NetworkRule, script: &str) -> Reached {
    let room = room();
    let plan = plan(&room, script);
    run(&room, rule, plan)
}

/// Runs a script that reaches what it wants; returns what it printed.
fn good(rule: &NetworkRule, script: &str) -> String {
    let reached = sh(rule, script);
    assert!(reached.report.refusals.is_empty(), "{reached:#?}");
    reached.outcome.good()
}

/// What the servers note while something is done.
fn noted(file: &str, act: impl FnOnce()) -> String {
    let path = world().join(file);
    let before = fs::read_to_string(&path).unwrap().len();
    act();
    fs::read_to_string(&path).unwrap().split_off(before)
}

#[test]
#[ignore = "run by network::world"]
fn an_allowed_host_is_reached_each_way() {
    let rule = allow(&["good.test"]);
    let big = "b8e5c3d4";
    for (by, options) in [
        ("the proxy", ""),
        ("SOCKS", "-x socks5h://127.0.0.1:1080"),
        ("its address", "--noproxy '*'"),
    ] {
        let script = format!(
            "set -e; curl() {{ command curl -sS -m30 {options} \"$@\"; }}
             curl http://good.test/x; curl https://good.test/x; curl http://GOOD.test./x
             curl http://good.test/big https://good.test/big | wc -c
             head -c 300000 /dev/zero >zeros
             curl --data-binary @zeros http://good.test/post; echo
             curl -H 'Transfer-Encoding: chunked' --data-binary @zeros http://good.test/post; echo
             curl --data-binary @zeros https://good.test/post; echo; rm zeros
             curl http://good.test/x http://good.test/x"
        );
        let said = good(&rule, &script);
        let got = said
            .lines()
            .find(|line| line.starts_with("got"))
            .unwrap_or(big);
        let x = "content of x\n";
        assert_eq!(
            said,
            format!("{x}{x}{x}10240000\n{got}\n{got}\n{got}\n{x}{x}"),
            "by {by}"
        );
        assert!(got.starts_with("got 300000 "), "{got}");
    }
    let reached = sh(&rule, "curl -sS https://good.test/x");
    let line = &reached.lines[0];
    assert_eq!(
        (&*line.host, line.port, line.by, line.verdict, &*line.rule),
        ("good.test", 443, "connect", "allow", "good.test")
    );
    assert_eq!(line.address.unwrap().to_string(), "93.184.216.34");
    assert!(
        line.bytes_sent > 100 && line.bytes_received > 500,
        "{line:?}"
    );
}

#[test]
#[ignore = "run by network::world"]
fn a_name_that_is_not_ascii_is_the_one_of_its_xn_form() {
    let ask = "
import socket, sys
def say(port, first, host):
    to = socket.create_connection(('127.0.0.1', port))
    to.sendall(first)
    if first.startswith(b'CONNECT') and not to.recv(999).startswith(b'HTTP/1.1 200'): return
    if port == 3128 and first.startswith(b'GET'): pass
    else: to.sendall(f'GET /x HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n'.encode())
    print(to.makefile('rb').read().decode().split('\\r\\n\\r\\n')[1], end='')
for host in ['bücher.test', 'BÜCHER。test.', 'xn--bcher-kva.test']:
    say(3128, f'CONNECT {host}:80 HTTP/1.1\\r\\n\\r\\n'.encode(), host)
    say(3128, f'GET http://{host}/x HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n'.encode(), host)
print(len({socket.getaddrinfo(host, 80)[0][4] for host in [b'xn--bcher-kva.test', 'bücher.test']}))
";
    for written in ["bücher.test", "xn--bcher-kva.test"] {
        let rule = allow(&[written]);
        let room = room();
        fs::write(room.home.join("ask.py"), ask).unwrap();
        let plan = plan(&room, "/usr/bin/python3 -X utf8 ask.py");
        let reached = run(&room, &rule, plan);
        assert_eq!(
            reached.outcome.out,
            format!("{}1\n", "content of x\n".repeat(6)),
            "{written}: {reached:#?}"
        );
        for line in &reached.lines {
            assert_eq!(
                (&*line.host, line.verdict, &*line.rule),
                ("xn--bcher-kva.test", "allow", written)
            );
        }
    }
    let denied = NetworkRule {
        deny: vec!["bücher.test".to_owned()],
        ..allow(&["**.test"])
    };
    sh(&denied, "curl -sS http://xn--bcher-kva.test/x")
        .refused("xn--bcher-kva.test:80 is refused by network.deny: bücher.test");
}

#[test]
#[ignore = "run by network::world"]
fn ports_and_addresses_are_reached_as_listed() {
    let rule = allow(&["good.test:9000", "93.184.216.34:443"]);
    let said = good(
        &rule,
        "set -e; cat </dev/tcp/good.test/9000; curl -sS https://93.184.216.34/x; curl -sS --noproxy '*' https://93.184.216.34/x",
    );
    assert_eq!(said, "raw\ncontent of x\ncontent of x\n");
    let reached = sh(
        &rule,
        "curl -sS http://good.test/x; curl -sS http://93.184.216.34/x",
    );
    reached.refused("good.test:80 is refused by network.allow");
    reached.refused("93.184.216.34:80 is refused by network.allow");
}

#[test]
#[ignore = "run by network::world"]
fn languages_and_git_reach_it() {
    need_tools!("wget", "node", "java", "ssh");
    let rule = allow(&["good.test"]);
    let java = "import java.net.URI; import java.net.http.*; class F { public static void main(String[] a) throws Exception { \
        var r = HttpRequest.newBuilder(URI.create(\\\"http://good.test/x\\\")).build(); \
        System.out.print(HttpClient.newHttpClient().send(r, HttpResponse.BodyHandlers.ofString()).body()); } }";
    for (name, script) in [
        ("wget", "wget -q --ca-certificate=ca.pem -O- https://good.test/x".to_owned()),
        ("urllib", "/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen(\"https://good.test/x\").read().decode(), end=\"\")'".to_owned()),
        ("node", "node -e 'fetch(\"https://good.test/x\").then(r => r.text()).then(t => process.stdout.write(t))'".to_owned()),
        ("java", format!("echo \"{java}\" >F.java; java -Xint F.java")),
    ] {
        assert_eq!(good(&rule, &script), "content of x\n", "{name}");
    }
    let said = good(
        &rule,
        "git clone -q https://good.test/repo.git && cat repo/file && git -C repo ls-remote -q origin HEAD | cut -f2",
    );
    assert_eq!(said, "hello\nHEAD\n");
    // That git's transport reaches the host's port 22; what is said there, to a real server, is `git_over_ssh`.
    let reached = sh(
        &rule,
        "git -c core.sshCommand='ssh -v -o BatchMode=yes' ls-remote ssh://git@good.test/repo.git 2>&1",
    );
    assert!(
        reached.outcome.out.contains("remote software version good"),
        "{reached:#?}"
    );
}

#[test]
#[ignore = "run by network::world"]
fn git_clones_and_pushes_over_ssh() {
    need_tools!("ssh", "git");
    let keys = world().join("ssh");
    if !keys.exists() {
        crate::need::skip!("ssh-server", "there is no /usr/sbin/sshd on this machine");
    }
    let repository = world().join("www/repo.git").display().to_string();
    let ssh = |rule: &NetworkRule, script: &str| {
        let room = room();
        for (name, mode) in [("client", 0o600), ("known", 0o644)] {
            let file = room.home.join(name);
            fs::copy(keys.join(name), &file).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            std::os::unix::fs::chown(&file, Some(room.uid), Some(room.uid)).unwrap();
        }
        let script = format!(
            "export GIT_SSH_COMMAND=\"ssh -F none -i $HOME/client -o UserKnownHostsFile=$HOME/known -o BatchMode=yes -o ConnectTimeout=20\"
            export GIT_CONFIG_GLOBAL=/dev/null; r={repository}; {script}"
        );
        let plan = plan(&room, &script);
        run(&room, rule, plan)
    };
    let reached = ssh(
        &allow(&["ssh.test"]),
        "set -e; git clone -q ssh://root@ssh.test$r one; cat one/file; cd one; echo more >>file
         git -c user.name=a -c user.email=a@b commit -qam two; git push -q origin HEAD:refs/heads/two
         git ls-remote -q origin refs/heads/two | cut -f2; head -c 2000000 /dev/urandom >big; git add big
         git -c user.name=a -c user.email=a@b commit -qm big; git push -q origin HEAD:refs/heads/big && echo pushed",
    );
    assert_eq!(
        reached.outcome.out, "hello\nrefs/heads/two\npushed\n",
        "{reached:#?}"
    );
    let line = &reached.lines[0];
    assert_eq!(
        (&*line.host, line.port, line.by, line.verdict),
        ("ssh.test", 22, "captured", "allow")
    );
    assert_eq!(line.address.unwrap().to_string(), "93.184.216.36");
    assert!(reached.lines.iter().any(|line| line.bytes_sent > 2_000_000));
    // The same server by its address, which is not listed; at another port; and where its name is not listed.
    let by_address = "ssh -F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes root@93.184.216.36 true 2>&1";
    let reached = ssh(&allow(&["ssh.test"]), by_address);
    assert!(
        reached
            .outcome
            .out
            .contains("93.184.216.36:22 is refused by network.allow"),
        "{reached:#?}"
    );
    let clone = "git clone -q ssh://root@ssh.test$r one 2>&1; ls";
    ssh(&allow(&["ssh.test:443"]), clone).refused("ssh.test:22 is refused by network.allow");
    let reached = ssh(&allow(&["good.test"]), clone);
    reached.refused("ssh.test:53 is refused by network.allow");
    assert!(
        reached.outcome.out.contains("Could not resolve hostname"),
        "{reached:#?}"
    );
}

#[test]
#[ignore = "run by network::world"]
fn package_managers_reach_it() {
    let rule = allow(&["good.test"]);
    let mut shown = Vec::new();
    if crate::common::tool("npm").is_some() {
        let said = good(
            &rule,
            "npm install --silent --no-audit --no-fund --no-update-notifier --cafile ca.pem --registry https://good.test/npm/ hello && node -p 'require(\"hello\")'",
        );
        assert!(said.ends_with("hello from npm\n"), "{said}");
        shown.push("npm");
    }
    let python = std::process::Command::new("python3")
        .args(["-c", "import pip, sys; print(sys.base_prefix)"])
        .output();
    let prefix = python
        .ok()
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8(output.stdout).unwrap());
    if let Some(prefix) = prefix.as_deref().map(str::trim) {
        let room = room();
        let script = format!(
            "{prefix}/bin/python3 -m pip install -q --disable-pip-version-check --root-user-action ignore --target t --index-url https://good.test/simple hello && {prefix}/bin/python3 -c 'import sys; sys.path.append(\"t\"); import hello; print(hello.WORD)'"
        );
        let mut plan = plan(&room, &script);
        if !prefix.starts_with("/usr") {
            plan.bind_ro.push(prefix.into());
        }
        let reached = run(&room, &rule, plan);
        assert_eq!(reached.outcome.out, "hello from pip\n", "{reached:#?}");
        shown.push("pip");
    }
    if let Some(cargo) = std::env::var_os("CARGO").map(PathBuf::from) {
        let room = room();
        let script = format!(
            "set -e; mkdir -p p/src c; touch p/src/lib.rs; export CARGO_HOME=$PWD/c PATH={}:$PATH; cd p
             printf '[package]\\nname = \"p\"\\nversion = \"1.0.0\"\\nedition = \"2021\"\\n[dependencies]\\nhello = \"1\"\\n' >Cargo.toml
             printf '[source.crates-io]\\nreplace-with = \"w\"\\n[source.w]\\nregistry = \"sparse+https://good.test/index/\"\\n' >../c/config.toml
             cargo fetch -q; ls ../c/registry/src/*", cargo.parent().unwrap().display());
        let mut plan = plan(&room, &script);
        plan.bind_ro
            .push(cargo.parent().and_then(Path::parent).unwrap().to_owned());
        let reached = run(&room, &rule, plan);
        assert_eq!(reached.outcome.out, "hello-1.0.0\n", "{reached:#?}");
        shown.push("cargo");
    }
    if shown.len() < 3 {
        crate::need::skip!("tools", "of npm, pip and cargo there are only {shown:?}");
    }
}

#[test]
#[ignore = "run by network::world"]
fn names_that_lead_inside_are_refused() {
    let names = [
        "private.test",
        "mixed.test",
        "loop.test",
        "metadata.test",
        "zero.test",
        "mapped.test",
        "local6.test",
    ];
    let requests = noted("requests", || {
        for name in names {
            let rule = allow(&[name]);
            for options in ["", "-x socks5h://127.0.0.1:1080", "--noproxy '*'"] {
                let reached = sh(
                    &rule,
                    &format!(
                        "curl -sS -m30 {options} http://{name}/x; curl -sS -m30 {options} https://{name}/x"
                    ),
                );
                reached.refused(&format!(
                    "{name}:80 is refused by network: addresses: it resolves to "
                ));
                reached.refused(&format!(
                    "{name}:443 is refused by network: addresses: it resolves to "
                ));
                assert!(!reached.outcome.out.contains("SECRET"), "{reached:#?}");
            }
        }
        // Nor does it help that the address to which a name leads is listed at another port, or that another one is.
        for other in ["10.1.2.3:9000", "10.1.2.4"] {
            let rule = allow(&["private.test", other]);
            sh(&rule, "curl -sS http://private.test/x").refused(
                "private.test:80 is refused by network: addresses: it resolves to 10.1.2.3",
            );
        }
        // An address that is refused by name of another one.
        let rule = NetworkRule {
            deny: vec!["93.184.216.35".to_owned()],
            ..allow(&["moved.test"])
        };
        sh(&rule, "curl -sS http://moved.test/x")
            .refused("moved.test:80 is refused by network.deny: 93.184.216.35");
    });
    assert_eq!(requests, "", "nobody was asked for anything");
}

#[test]
#[ignore = "run by network::world"]
fn an_address_that_is_listed_is_reached_though_it_is_private() {
    // The server there says SECRET to everybody.
    for options in ["", "-x socks5h://127.0.0.1:1080", "--noproxy '*'"] {
        let script = format!("curl -sS -m30 {options} http://10.1.2.3/x");
        let reached = sh(&allow(&["10.1.2.3:80"]), &script);
        assert_eq!(reached.outcome.out, "SECRET", "{options}: {reached:#?}");
        let line = &reached.lines[0];
        assert_eq!(
            (&*line.host, line.port, line.verdict, &*line.rule),
            ("10.1.2.3", 80, "allow", "10.1.2.3:80")
        );
        // By a name, too, as that of a registry inside a company's network.
        let script = format!("curl -sS -m30 {options} http://private.test/x");
        let reached = sh(&allow(&["private.test", "10.1.2.3:80"]), &script);
        assert_eq!(reached.outcome.out, "SECRET", "{options}: {reached:#?}");
        assert_eq!(reached.lines[0].rule, "private.test");
    }
    let loopback = "curl -sS -m30 --noproxy '' -x http://127.0.0.1:3128 http://127.0.0.1/x";
    assert_eq!(sh(&allow(&["127.0.0.1"]), loopback).outcome.out, "SECRET");
    // Nothing else is: another port, another address, the same one in IPv6, one that the policy denies.
    let requests = noted("requests", || {
        let by_proxy =
            |url: &str| format!("curl -sS -g -m30 --noproxy '' -x http://127.0.0.1:3128 {url}");
        for url in [
            "http://10.1.2.3:9000/",
            "http://127.0.0.1/",
            "http://169.254.169.254/",
            "http://[::ffff:10.1.2.3]/",
        ] {
            let reached = sh(&allow(&["10.1.2.3:80"]), &by_proxy(url));
            reached.refused("is refused by network.allow: an address has to be listed as such");
        }
        let rule = NetworkRule {
            deny: vec!["10.1.2.3".to_owned()],
            ..allow(&["10.1.2.3"])
        };
        sh(&rule, &by_proxy("http://10.1.2.3/")).refused("is refused by network.deny: 10.1.2.3");
    });
    assert_eq!(requests, "", "nobody was asked for anything");
}

#[test]
#[ignore = "run by network::world"]
fn a_name_that_moves_is_looked_at_each_time() {
    let reached = sh(
        &allow(&["rebind.test"]),
        "curl -sS http://rebind.test/x; echo; curl -sS http://rebind.test/x",
    );
    // The first answer was public, and the connection went there (where nobody has this name).
    assert!(reached.outcome.out.starts_with("SECRET\n"), "{reached:#?}");
    assert_eq!(
        reached.lines[0].address.unwrap().to_string(),
        "93.184.216.34"
    );
    let refusals = &reached.report.refusals;
    assert!(
        refusals
            .iter()
            .any(|text| text.contains("it resolves to 127.0.0.1")),
        "{reached:#?}"
    );
}

#[test]
#[ignore = "run by network::world"]
fn no_bypass_reaches_another_host() {
    let room = room();
    fs::write(room.home.join("bypass.py"), include_str!("bypass.py")).unwrap();
    let rule = NetworkRule {
        deny: vec!["www.good.test".to_owned()],
        ..allow(&["good.test"])
    };
    let mut reached = None;
    let queries = noted("queries", || {
        let requests = noted("requests", || {
            reached = Some(run(&room, &rule, plan(&room, "/usr/bin/python3 bypass.py")));
        });
        for line in requests.lines() {
            assert!(line.starts_with("93.184.216.34 good.test GET /x"), "{line}");
        }
    });
    let reached = reached.unwrap();
    assert!(
        !reached.outcome.out.contains("SECRET"),
        "{}",
        reached.outcome.out
    );
    assert_eq!(reached.outcome.err, "");
    let failed: Vec<&str> = reached
        .outcome
        .out
        .lines()
        .filter(|line| !line.starts_with("ok "))
        .collect();
    assert_eq!(failed, [""; 0], "{:#?}", reached.report.refusals);
    assert!(
        reached.outcome.out.lines().count() >= 40,
        "{}",
        reached.outcome.out
    );
    // Only the allowed name was ever asked for outside.
    for name in queries.lines() {
        assert_eq!(name, "good.test");
    }
}

/// Counts the packets that this network namespace sees while something is done.
fn packets(act: impl FnOnce()) -> usize {
    let every = Protocol::from_raw(std::num::NonZero::new(u32::from(3u16.to_be())).unwrap());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, Some(every))
            .unwrap();
    act();
    let mut count = 0;
    while rustix::net::recv(&socket, &mut [0; 2048], RecvFlags::empty()).is_ok() {
        count += 1;
    }
    count
}

#[test]
#[ignore = "run by network::world"]
fn without_an_allowed_host_no_packet_leaves() {
    const TRY: &str = "
        curl -sS -m5 http://evil.test/; curl -sS -m5 https://evil.test/; curl -sS -m5 --noproxy '*' http://evil.test/
        curl -sS -m5 --noproxy '*' http://93.184.216.35/; curl -sS -m5 http://93.184.216.35/; curl -sS -m5 -x socks5h://127.0.0.1:1080 http://evil.test/
        getent ahosts secret.evil.test; getent ahosts evil.test
        echo x >/dev/udp/93.184.216.53/53; echo x >/dev/udp/93.184.216.35/443; echo x >/dev/tcp/93.184.216.35/9000
        echo x >/dev/tcp/10.1.2.3/80; echo x >/dev/tcp/127.0.0.1/80; git ls-remote https://evil.test/x; true";
    // A capture that sees nothing shows nothing.
    assert!(packets(|| drop(good(&allow(&["good.test"]), "curl -sS http://good.test/x"))) > 10);
    let none = packets(|| {
        let reached = sh(&NetworkRule::default(), TRY);
        assert!(!reached.outcome.out.contains("SECRET"), "{reached:#?}");
        assert!(reached.lines.is_empty());
    });
    assert_eq!(none, 0, "without a network");
    let other = packets(|| {
        sh(&allow(&["good.test"]), TRY).refused("secret.evil.test:53 is refused by network.allow")
    });
    assert_eq!(other, 0, "with a list that has another host");
}

#[test]
#[ignore = "run by network::world"]
fn a_policy_says_so_and_a_command_narrows_it() {
    need_mount!();
    let dir = tempfile::TempDir::with_prefix("trumanfs-net-").unwrap();
    let (store, policy) = (dir.path().join("store"), dir.path().join("policy.yaml"));
    fs::create_dir(&store).unwrap();
    fs::write(
        &policy,
        "curl:\n  flags: [-s, -S]\n  network:\n    allow: [good.test, '*.good.test']\n",
    )
    .unwrap();
    let run = |more: &[&str], url: &str| {
        let mut run = std::process::Command::new(crate::common::binary());
        run.args(["run", "--json", "--root"])
            .arg(&store)
            .arg("--policy")
            .arg(&policy);
        run.args(more).args(["--", "curl", "-sS", url]);
        let output = crate::common::run_limited(run, crate::room::LIMIT);
        serde_json::from_slice::<serde_json::Value>(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", crate::common::describe(&output)))
    };
    let outcome = run(&[], "http://good.test/x");
    assert_eq!(
        (&outcome["stdout"], &outcome["network_refusals"]),
        (&"content of x\n".into(), &serde_json::Value::Null)
    );
    let outcome = run(&[], "http://evil.test/x");
    let text = "trumanfs: evil.test:80 is refused by network.allow: the policy allows good.test *.good.test";
    assert_eq!(
        (&outcome["stdout"], &outcome["network_refusals"][0]),
        (&format!("{text}\n").into(), &text.into())
    );
    let outcome = run(&["--net", "allow=www.good.test"], "http://good.test/x");
    assert_eq!(
        outcome["network_refusals"][0],
        "trumanfs: good.test:80 is refused by --net: this command may reach www.good.test"
    );
    let outcome = run(&["--net", "none"], "http://good.test/x");
    assert_eq!(
        (&outcome["return_code"], &outcome["stdout"]),
        (&6.into(), &"".into())
    );
    let outcome = run(&["--net", "allow=evil.test"], "http://good.test/x");
    assert_eq!(
        (&outcome["status"], &outcome["return_code"]),
        (&"blocked".into(), &125.into())
    );
    let audit = fs::read_to_string(store.join(".trumanfs/audit.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = audit
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let connections: Vec<_> = lines
        .iter()
        .filter(|line| line["kind"] == "connection")
        .collect();
    let said: Vec<_> = connections
        .iter()
        .map(|line| {
            (
                line["host"].as_str().unwrap(),
                line["verdict"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            ("good.test", "allow"),
            ("evil.test", "deny"),
            ("good.test", "deny")
        ],
        "{audit}"
    );
    assert_eq!(
        (&connections[0]["run"], &connections[1]["event"]),
        (&lines[1]["run"], &"connection_refused".into())
    );
}

#[test]
#[ignore = "run by network::world"]
fn programs_of_a_line_reach_what_each_of_them_may() {
    need_mount!();
    let dir = tempfile::TempDir::with_prefix("trumanfs-net-").unwrap();
    let (store, policy) = (dir.path().join("store"), dir.path().join("policy.yaml"));
    fs::create_dir(&store).unwrap();
    let entries = "curl:\n  flags: [-s, -S]\n  network: {allow: [good.test]}\n\
        dash: {flags: {-c: text}, arguments: text}\n";
    fs::write(&policy, entries).unwrap();
    let mut exec = std::process::Command::new(crate::common::binary());
    exec.args(["exec", "--json", "--root"]).arg(&store);
    exec.arg("--policy").arg(&policy).args(["--", "curl -sS http://good.test/x | dash -c 'cat; curl -sS http://good.test/x || echo none'; curl -sS http://evil.test/x > refusal"]);
    let output = crate::common::run_limited(exec, crate::room::LIMIT);
    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", crate::common::describe(&output)));
    assert_eq!(outcome["stdout"], "content of x\nnone\n", "{outcome:#}");
    let refused = "trumanfs: evil.test:80 is refused by network.allow: the policy allows good.test";
    assert_eq!(
        outcome["network_refusals"],
        serde_json::json!([refused]),
        "{outcome:#}"
    );
    let said = fs::read_to_string(store.join("refusal")).unwrap();
    assert_eq!(said, format!("{refused}\n"));
}

/// An agent that is not ours, as npm installs it: the server that stands in for its model gets the key, and the agent has
/// none.
#[test]
#[ignore = "run by network::world"]
fn a_real_agent_uses_a_key_that_it_does_not_have() {
    need_mount!();
    let bin = world().join("agent/node_modules/.bin");
    if !bin.join("gemini").exists() {
        crate::need::skip!("registry", "an agent cannot be had from npm's registry");
    }
    let dir = tempfile::TempDir::with_prefix("trumanfs-agent-").unwrap();
    let store = fs::canonicalize(dir.path()).unwrap();
    let made = store.join("made");
    let key = "AIza-the-key-of-a-real-agent";
    // With a base URL of its user's, it wants to be told that it has a key.
    let settings = r#"{"security": {"auth": {"selectedType": "gemini-api-key"}}}"#;
    fs::create_dir(store.join(".gemini")).unwrap();
    fs::write(store.join(".gemini/settings.json"), settings).unwrap();
    let mut command = std::process::Command::new(crate::common::binary());
    command.args(["agent", "--secret", "gemini", "--store"]);
    command.arg(&store);
    command.args(["--env", "GEMINI_CLI_TRUST_WORKSPACE=true"]);
    command.args(["--timeout", "100", "--", "gemini", "--yolo"]);
    command.args(["-m", "gemini-2.5-flash", "-p"]);
    command.arg(format!("please write {} now", made.display()));
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", bin.display()));
    command.env("GEMINI_API_KEY", key);
    command.env("SSL_CERT_FILE", world().join("ca.pem"));
    let mut output = None;
    let limit = std::time::Duration::from_secs(120);
    let keys = noted("keys", || {
        output = Some(crate::common::run_limited(command, limit))
    });
    let output = output.unwrap();
    let told = crate::common::describe(&output);
    assert!(output.status.success(), "{told}");
    let written = fs::read_to_string(&made).unwrap_or_default();
    assert_eq!(written, "written by an agent\n", "{told}");
    assert!(
        !keys.is_empty() && keys.lines().all(|asked| asked == key),
        "{keys}"
    );
    assert!(!told.contains(key), "{told}");
}

/// Adds to a command of `agent` that Gemini CLI makes a file in a store, whose model is a server of the world. Returns the
/// file's path.
pub(super) fn ask_gemini(agent: &mut std::process::Command, store: &Path) -> PathBuf {
    let (ca, made) = (world().join("ca.pem"), store.join("made"));
    agent.arg("--store").arg(store).arg("--bind-ro").arg(&ca);
    agent.args(["--env", "GEMINI_API_KEY=none"]);
    agent.args(["--env", "GEMINI_CLI_TRUST_WORKSPACE=true", "--env"]);
    agent.arg(format!("NODE_EXTRA_CA_CERTS={}", ca.display()));
    agent.args(["--timeout", "100", "--", "gemini", "--yolo", "-p"]);
    agent.arg(format!("please write {} now", made.display()));
    let bin = world().join("agent/node_modules/.bin");
    let path = std::env::var("PATH").unwrap();
    agent.env("PATH", format!("{}:{path}", bin.display()));
    made
}

/// An agent that is not ours, as npm installs it, with a server that stands in for its model: it is asked for a file, has
/// the model say how, and writes it. Of the hosts that it wants besides, none is reached.
#[test]
#[ignore = "run by network::world"]
fn a_real_agent_works_in_a_home() {
    need_mount!();
    let bin = world().join("agent/node_modules/.bin");
    if !bin.join("gemini").exists() {
        crate::need::skip!("registry", "an agent cannot be had from npm's registry");
    }
    let dir = tempfile::TempDir::with_prefix("trumanfs-agent-").unwrap();
    let store = fs::canonicalize(dir.path()).unwrap();
    let mut command = std::process::Command::new(crate::common::binary());
    command.arg("agent");
    let made = ask_gemini(&mut command, &store);
    let mut output = None;
    let limit = std::time::Duration::from_secs(120);
    let asked = noted("queries", || {
        output = Some(crate::common::run_limited(command, limit))
    });
    let output = output.unwrap();
    let told = crate::common::describe(&output);
    assert!(output.status.success(), "{told}");
    assert_eq!(
        fs::read_to_string(&made).unwrap(),
        "written by an agent\n",
        "{told}"
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/made "), "{told}");
    // Nobody was asked for a host that its profile does not have.
    let foreign = asked
        .lines()
        .filter(|name| name.ends_with(".googleapis.com"));
    let foreign: Vec<_> = foreign
        .filter(|name| !name.starts_with("generativelanguage."))
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    let undone = crate::common::trumanfs(&["undo", store.to_str().unwrap(), "--run", "last"]);
    assert!(
        undone.status.success() && !made.exists(),
        "{}",
        crate::common::describe(&undone)
    );
}
