//! Lines that attack the shell that runs them, and the talk with it: the next line works or says what happened, and no other
//! session notices.

use serde_json::{Value, json};

use super::server::{Era, Server, text};
use super::shell_sessions::ShellBench;
use crate::common::need_mount;

/// Lines after which the shell may be there or not, but the next line works, with a word where it is another one.
const ATTACKS: &[&str] = &[
    "kill -9 $$",
    "kill -TERM $$; sleep 0.1",
    "kill -9 -1",
    "kill -9 0",
    "exec cat /dev/null",
    "exec 1>&- 2>&-",
    "exec 0<&- 1>&- 2>&-; for i in 3 4 5 6 7 8 9 10 11 12 13; do eval \"exec $i>&-\" ; done",
    "for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 255; do echo forged 0 hBs /tmp >&$i; done 2>/dev/null",
    "for f in /run/trumanfs/shell/*; do printf 'n 0 hBs /tmp\\0' >> $f & done; sleep 0.1",
    "rm -rf /run/trumanfs/shell; mv /run/trumanfs/shell /tmp; touch /run/trumanfs/shell/1.end",
    "for i in 1 2 3 4 5 6 7 8 9; do mkfifo /run/trumanfs/shell/$i.end; done; ls /run/trumanfs/shell > seen",
    "trap 'exit 9' EXIT; trap 'kill -9 $$' ERR; false",
    "trap 'echo debug' DEBUG; true",
    "trap '' CHLD PIPE HUP INT TERM USR1; true",
    "set -euo pipefail",
    "set -x; set -v",
    "set -C; set -f; set -a; set -k",
    "set -o posix",
    "PROMPT_COMMAND='exit 3'; PS1='$(kill $$)'; PS4='$(kill $$)'; set -x; true",
    "PATH=; IFS=0123456789; LANG=tr_TR.UTF-8; LC_ALL=xx; unset PWD; PWD='a b'",
    "cd /; PWD=; OLDPWD=",
    "unset -f eval printf; eval() { :; }; printf() { :; }",
    "alias builtin=false eval=false printf=false; shopt -s expand_aliases",
    "enable -n eval printf builtin",
    "LINENO=x; readonly LINENO; declare -r PWD IFS PATH",
    "ulimit -n 4; ulimit -f 0; ulimit -u 1",
    "ulimit -v 1000",
    "umask 777",
    "(sleep 1000 &) ; nohup sleep 1000 >/dev/null 2>&1 & setsid sleep 1000 & disown -a; echo left",
    "yes | head -c 3000000 | cat; yes >&2 | head -c 10",
    "head -c 200000 /dev/zero; head -c 200000 /dev/zero >&2",
    "mkfifo p; (exec 3<>p; yes >&3) & sleep 0.1",
    "shopt -s extdebug; trap 'false' DEBUG",
    "exec {fd}>&1; exec 10>&1 11>&1 12>&1",
    "cat <&10 & sleep 0.1; kill $!",
    "function command { false; }; function true { false; }; set --  a b",
    ":(){ :|:& };:",
    "exit 255 &",
    "hash -p /bin/false cat; hash -r; rm -rf /tmp/.home /tmp/* ~",
    "chmod 0 . ; chmod 0 /tmp",
    "printf '\\0' | cat; printf '\\033]0;x\\007'",
    "exec bash",
    "exec python3 -c 'import os, time\nfor i in range(3, 20):\n  try: os.write(i, b\"x\" * 100)\n  except OSError: pass'",
    "eval 'eval \"eval \\\"exit 5\\\"\"'",
    "suspend -f & kill -STOP $! 2>/dev/null; true",
    "coproc cat; exec 3>&${COPROC[1]}",
    "dd if=/dev/zero of=/dev/shm/x bs=1M count=8 2>/dev/null; rm -f /dev/shm/x",
];

/// Lines that hold their session until the time is up, or until the silence of the shell is found out.
const SILENT: &[&str] = &[
    "set -n",
    "builtin() { :; }; readonly -f builtin",
    "builtin() { while :; do :; done; }",
    "cat <&10",
    "kill -STOP $$",
    "while :; do :; done",
];

fn begins_fresh(result: &Value) -> bool {
    let warnings = result["structuredContent"]["warnings"].as_array();
    let mut warnings = warnings.into_iter().flatten();
    warnings.any(|one| one.as_str().unwrap().starts_with("a new shell"))
}

/// Runs lines until one works in a shell that is in order; each of them must end within its time.
fn comes_round(server: &mut Server, session: &Value, attack: &str) {
    let mut last = Value::Null;
    for _ in 0..4 {
        let line =
            "builtin cd \"$HOME/..\" 2>/dev/null; command printf '%s\\n' 'all' 'well' || exit 1";
        let call = json!({"command": line, "session": session, "timeout": 20});
        last = server.call("bash", call);
        let out = last["structuredContent"]["stdout"]
            .as_str()
            .unwrap_or_default();
        if out.ends_with("all\nwell\n") || begins_fresh(&last) && out.contains("all\nwell\n") {
            return;
        }
        // What the attack has done to its own shell stays there: the way out is to end it.
        server.call(
            "bash",
            json!({"command": "exit", "session": session, "timeout": 20}),
        );
        server.call(
            "bash",
            json!({"command": "kill -9 $$", "session": session, "timeout": 20}),
        );
    }
    panic!("{attack}: {last}");
}

#[test]
fn attacks_on_the_shell_cost_their_own_session_alone() {
    need_mount!();
    let mut bench = ShellBench::new();
    let victim = bench.server.does("bash", json!({"command": "v=1; n=0"})).1["session"].clone();
    for attack in ATTACKS {
        // The server goes on after each, and a new session is as new.
        let store = tempfile::tempdir().unwrap();
        let mut server = Server::start(Era::Stateless, store.path(), &["--shell", "bash"]);
        let (_, other) = server.does("bash", json!({"command": "other=1"}));
        let result = server.call("bash", json!({"command": attack, "timeout": 20}));
        let session = &result["structuredContent"]["session"];
        assert!(session.is_string(), "{attack}: {result}");
        comes_round(&mut server, session, attack);
        let line = json!({"command": "echo $other", "session": other["session"]});
        assert_eq!(server.does("bash", line).0, "1\n", "{attack}");
        // Nothing of it is left.
        let _ = std::fs::set_permissions(
            store.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        );
        server.finish();
    }
    let line = json!({"command": "echo $v; n=$((n + 1))", "session": victim});
    assert_eq!(bench.server.does("bash", line).0, "1\n");
    bench.server.finish();
}

#[test]
fn shell_that_says_nothing_any_more_is_ended() {
    need_mount!();
    let mut bench = ShellBench::new();
    for attack in SILENT {
        let result = bench
            .server
            .call("bash", json!({"command": attack, "timeout": 7}));
        let data = &result["structuredContent"];
        let ended = ["timeout", "error"]
            .map(Value::from)
            .contains(&data["status"]);
        // What is found out at the next line is as good.
        if !ended {
            assert_eq!(data["return_code"], 0, "{attack}: {result}");
            let next = bench
                .server
                .call("bash", json!({"command": "echo on", "timeout": 7}));
            let status = &next["structuredContent"]["status"];
            assert!(
                ["timeout", "error"].map(Value::from).contains(status),
                "{attack}: {next}"
            );
        }
        bench.in_new_shell("echo on", "on\n");
    }
    bench.server.finish();
}

/// A line that forges its own end, with all that it can know: only its own session is told something untrue.
#[test]
fn forged_end_is_the_sessions_own_loss() {
    need_mount!();
    let mut bench = ShellBench::new();
    // The order to report can be read from the shell's own pipe, nonce and all.
    let forge = "exec 3<&10; read -r -u 3 a; read -r -t 1 -u 3 b; \
                 set -- $b; nonce=${b#*' '}; nonce=${nonce#*0\\'' '}; nonce=${nonce%% *}; \
                 f=$(echo /run/trumanfs/shell/*.end); printf '%s 7 hBs /nowhere\\0' \"$nonce\" > $f; sleep 0.2; touch after";
    let result = bench
        .server
        .call("bash", json!({"command": forge, "timeout": 10}));
    let data = &result["structuredContent"];
    assert!(data["status"].is_string(), "{result}");
    let mut well = false;
    for _ in 0..3 {
        let result = bench
            .server
            .call("bash", json!({"command": "echo well", "timeout": 10}));
        well |= text(&result).contains("well\n");
    }
    assert!(well);
    let (_, other) = bench.server.does("history", json!({}));
    assert!(other["runs"].is_array());
    bench.server.finish();
}
