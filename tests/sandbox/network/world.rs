//! Runs the tests of `inside` and `agents` in a world: a network namespace with servers at public addresses and no way out.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::{self, need_root, need_tools};

/// How many tests there must be in the world.
const AT_LEAST: usize = 19;

#[test]
fn programs_reach_the_world_as_far_as_they_may() {
    need_root!("to make a network namespace with addresses of its own");
    need_tools!("unshare", "ip", "openssl", "git", "curl");
    if !Path::new("/usr/bin/python3").exists() {
        crate::need::skip!("system-python", "there is no /usr/bin/python3");
    }
    let base = tempfile::TempDir::with_prefix("trumanfs-world-").unwrap();
    install_agent(&base.path().join("agent"));
    let mut run = Command::new("unshare");
    run.args(["--net", "--mount", "--propagation", "private", "bash"]);
    run.arg(common::repository().join("tests/sandbox/network/world.sh"));
    run.arg(base.path()).arg(std::env::current_exe().unwrap());
    // One after the other: they look at what the servers and the namespace have seen.
    run.args([
        "network::inside::",
        "network::agents::",
        "network::ssh_agent::",
    ]);
    run.args(["--ignored", "--test-threads", "1"]);
    let output = common::run_limited(run, Duration::from_secs(300));
    let said = String::from_utf8_lossy(&output.stdout);
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        // What was skipped there was skipped here.
        if line.starts_with("SKIPPED ") {
            let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
        }
    }
    assert!(output.status.success(), "{}", common::describe(&output));
    let passed = said.lines().filter(|line| line.ends_with("... ok")).count();
    assert!(passed >= AT_LEAST, "{}", common::describe(&output));
}

/// Installs a real agent from npm's registry, while there still is a network. The test that needs it says where it
/// cannot be had.
fn install_agent(prefix: &Path) {
    let mut install = Command::new("timeout");
    install.args(["60", "npm", "install", "--no-audit", "--no-fund"]);
    // A registry that does not answer soon is none.
    install.args(["--fetch-retries", "0", "--fetch-timeout", "10000"]);
    install.args(["--ignore-scripts", "--prefix"]).arg(prefix);
    install.arg("@google/gemini-cli@0.61.0");
    let installed = common::run_limited(install, Duration::from_secs(150));
    println!("{}", common::describe(&installed));
}
