//! A sandbox inside ours: there is none, and what a program says names what to do.
//!
//! Codex starts bwrap, of which it brings a copy, so what bwrap says is what Codex says.

use std::process::Command;
use std::time::Duration;

use trumanfs::exec::program::sandbox::ProgramEnd;

use crate::common::{binary, copy_program, describe, need_mount, need_tools, run_limited, tool};
use crate::room::Room;

#[test]
fn bubblewrap_starts_nothing_and_says_so() {
    need_tools!("bwrap");
    // Outside it works: a machine that refuses bwrap anywhere would pass for a sandbox that does.
    let mut outside = Command::new("bwrap");
    outside.args(["--unshare-all", "--dev-bind", "/", "/", "true"]);
    let outside = run_limited(outside, Duration::from_secs(20));
    if !outside.status.success() {
        let why = describe(&outside);
        crate::need::skip!("namespaces", "bwrap starts nothing here: {why}");
    }
    let room = Room::new();
    let words = ["bwrap", "--unshare-all", "--ro-bind", "/", "/"];
    let with = |more: &[&'static str]| room.run(room.plan(&[&words[..], more].concat()));
    let outcome = with(&["touch", "made"]);
    assert_eq!(outcome.ended.end, ProgramEnd::Exited(1), "{outcome:?}");
    assert!(
        outcome
            .err
            .contains("No permissions to create new namespace"),
        "{outcome:?}"
    );
    assert!(!room.home.join("made").exists());
    // What needs no namespace works.
    assert!(with(&["--version"]).good().starts_with("bubblewrap "));
}

#[test]
fn ours_in_ours_is_refused_with_what_to_do() {
    need_mount!();
    let place = super::run::Place::mounted();
    let program = place.home().join("trumanfs");
    copy_program(binary(), &program);
    // By its home, and by a store in the scratch directory, which only a mount could serve.
    for (root, said) in [
        (".", "no sandbox can be made in a sandbox"),
        ("/tmp/store", "/dev/fuse cannot be opened"),
    ] {
        let script = format!(
            "mkdir -p /tmp/store; echo '\"true\": {{}}' >/tmp/inner.yaml
            ./trumanfs run --root {root} --policy /tmp/inner.yaml -- true 2>&1 || echo $?"
        );
        let output = place.sh(&script);
        assert!(output.ends_with("\n125\n"), "{root}: {output}");
        assert!(output.contains(said), "{root}: {output}");
    }
    // What needs neither mount nor sandbox works.
    assert!(place.sh("./trumanfs --version").starts_with("trumanfs "));
}

/// What keeps Chromium from asking its maker's servers.
const ALONE: [&str; 7] = [
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

#[test]
fn chromium_runs_without_its_own_sandbox_and_else_names_the_switch() {
    if tool("chromium").is_none() {
        crate::need::skip!("browser", "there is no chromium on this machine");
    }
    let room = Room::new();
    std::fs::write(
        room.home.join("page.html"),
        "<p>one</p><script>document.write('<i>' + 6 * 7 + '</i>')</script>",
    )
    .unwrap();
    let page = format!("file://{}/page.html", room.home.display());
    let run = |more: &[&str]| {
        let dump = ["--user-data-dir=/tmp/profile", "--dump-dom", &page];
        // Debian's script would find the switch among its settings.
        let program = "/usr/lib/chromium/chromium";
        let program = match std::path::Path::new(program).exists() {
            true => program,
            false => "chromium",
        };
        let words = [&[program][..], &ALONE, more, &dump].concat();
        room.run(room.plan(&words))
    };
    let outcome = run(&[]);
    assert!(
        matches!(outcome.ended.end, ProgramEnd::Exited(code) if code != 0)
            || matches!(outcome.ended.end, ProgramEnd::Signalled(_)),
        "{outcome:?}"
    );
    assert!(outcome.err.contains("No usable sandbox!"), "{outcome:?}");
    assert!(outcome.err.contains("--no-sandbox"), "{outcome:?}");
    assert!(outcome.out.is_empty(), "{outcome:?}");
    let outcome = run(&["--no-sandbox"]);
    assert!(outcome.out.contains("<i>42</i>"), "{outcome:?}");
}
