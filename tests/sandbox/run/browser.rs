//! A browser in an agent: Debian's Chromium without a screen, by itself, by its protocol, and by Playwright.
//!
//! Chromium is too large for `mount-scripts/setup`: 124 MB to fetch. Where it is not installed, nothing is shown here.

use std::fs;
use std::process::Command;

use super::{LIMIT, Store};
use crate::common::{binary, describe, need_mount, need_tools, repository, run_limited, tool};

const PAGE: &str =
    "<title>page</title><p>one</p><script>document.write('<i>' + 6 * 7 + '</i>')</script>";

/// What keeps Chromium from asking its maker's servers.
const ALONE: &str =
    "--no-first-run --disable-background-networking --disable-component-update --disable-sync";

/// Drives Chromium by the protocol of its developer tools, over pipes: numbers 3 and 4 are its own.
const DRIVER: &str = r#"
import json, os, subprocess, sys
ours, theirs = os.pipe(), os.pipe()
def ends():
    os.dup2(os.dup(ours[0]), 60); os.dup2(os.dup(theirs[1]), 61)
    os.dup2(60, 3); os.dup2(61, 4)
    os.set_inheritable(3, True); os.set_inheritable(4, True)
browser = subprocess.Popen(['chromium', '--headless', '--remote-debugging-pipe', *sys.argv[2:]],
                           close_fds=False, preexec_fn=ends, stderr=subprocess.DEVNULL)
rest = b''
def call(number, method, session=None, **parameters):
    global rest
    message = {'id': number, 'method': method, 'params': parameters}
    if session: message['sessionId'] = session
    os.write(ours[1], json.dumps(message).encode() + b'\0')
    while True:
        while b'\0' not in rest:
            more = os.read(theirs[0], 65536)
            if not more: sys.exit('the browser has ended')
            rest += more
        one, rest = rest.split(b'\0', 1)
        answer = json.loads(one)
        if answer.get('id') == number: return answer['result']
target = call(1, 'Target.createTarget', url=sys.argv[1])['targetId']
session = call(2, 'Target.attachToTarget', targetId=target, flatten=True)['sessionId']
number = 3
while True:
    found = call(number, 'Runtime.evaluate', session, expression="document.querySelector('i') ? document.title + document.querySelector('i').innerText : ''")
    number += 1
    if found['result'].get('value'): break
print(found['result']['value'])
call(number, 'Browser.close')
browser.wait()
"#;

const PLAYWRIGHT: &str = "
import sys
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path='/usr/bin/chromium')
    page = browser.new_page()
    page.goto(sys.argv[1])
    print(page.title(), page.inner_text('i'))
    page.screenshot(path='shot.png')
    browser.close()
";

/// A project with a page, and an agent there.
fn run(store: &Store, options: &[&str], script: &str) -> String {
    fs::write(store.store.join("page.html"), PAGE).unwrap();
    fs::write(store.store.join("driver.py"), DRIVER).unwrap();
    fs::write(store.store.join("playwright_test.py"), PLAYWRIGHT).unwrap();
    let mut command = Command::new(binary());
    command.arg("agent").arg("--store").arg(&store.store);
    command.args(["--net", "none", "--toolchains", "none"]);
    command.args(options).args(["--", "bash", "-ec"]);
    command.arg(format!(
        "page=file://$PWD/page.html; alone='{ALONE}'; {script}"
    ));
    let output = run_limited(command, LIMIT);
    assert!(output.status.success(), "{}", describe(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

macro_rules! need_chromium {
    () => {
        need_mount!();
        need_tools!("python3");
        if tool("chromium").is_none() || !std::path::Path::new("/etc/chromium.d").exists() {
            crate::need::skip!("browser", "Debian's chromium is not installed");
        }
    };
}

#[test]
fn chromium_starts_without_a_screen_by_itself() {
    need_chromium!();
    let store = Store::new();
    let said = run(&store, &[], "chromium --headless $alone --dump-dom $page");
    assert!(said.contains("<i>42</i>"), "{said}");
    // Its settings are the machine's, with one of the sandbox's own, and nobody can change them.
    let said = run(
        &store,
        &[],
        "cat /etc/chromium.d/trumanfs; ls /etc/chromium.d | grep -v trumanfs; echo >/etc/chromium.d/x || echo read-only",
    );
    let mut lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines.remove(0),
        "export CHROMIUM_FLAGS=\"$CHROMIUM_FLAGS --no-sandbox\""
    );
    assert_eq!(lines.pop(), Some("read-only"));
    let mut of_machine: Vec<String> = fs::read_dir("/etc/chromium.d")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    of_machine.sort();
    lines.sort_unstable();
    assert_eq!(lines, of_machine);
}

#[test]
fn chromium_is_driven_by_its_protocol() {
    need_chromium!();
    let store = Store::new();
    let said = run(&store, &[], "/usr/bin/python3 driver.py $page $alone");
    assert_eq!(said, "page42\n");
}

#[test]
fn chromium_is_driven_by_playwright() {
    need_chromium!();
    let packages = repository().join("target/package-tools/playwright");
    if !packages.exists() {
        crate::need::skip!(
            "playwright",
            "`tests/sandbox/run/get_tools target/package-tools` has not been run, or without a chromium"
        );
    }
    let store = Store::new();
    let packages = packages.canonicalize().unwrap().display().to_string();
    let path = format!("PYTHONPATH={packages}");
    let options = ["--bind-ro", &packages, "--env", &path];
    let said = run(
        &store,
        &options,
        "/usr/bin/python3 playwright_test.py $page",
    );
    assert_eq!(said, "page 42\n");
    let shot = fs::read(store.store.join("shot.png")).unwrap();
    assert!(shot.starts_with(b"\x89PNG"));
}
