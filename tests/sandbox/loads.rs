//! Real programs: what sandboxes tend to break works.

use crate::common::need_tools;
use crate::room::Room;

/// Runs a subject of python.py in a sandbox.
fn python(subject: &str) -> String {
    let room = Room::new();
    let script = crate::common::repository().join("tests/sandbox/python.py");
    std::fs::copy(script, room.home.join("python.py")).unwrap();
    let outcome = room.run(room.plan(&["python3", "python.py", subject]));
    assert_eq!(outcome.err, "");
    outcome.good()
}

/// Skips the test where the system has no Python: one below somebody's home is not in the sandbox.
macro_rules! need_system_python {
    () => {
        if !std::path::Path::new("/usr/bin/python3").exists() {
            crate::need::skip!("system-python", "there is no /usr/bin/python3");
        }
    };
}

#[test]
fn python_s_pools_of_processes() {
    need_system_python!();
    assert_eq!(python("pools"), "fork 30\nspawn 30\nforkserver 30\n");
}

#[test]
fn shared_memory_and_semaphores() {
    need_system_python!();
    assert_eq!(python("shared"), "shared 7\nsemaphore True\n");
}

#[test]
fn asyncio_with_servers_of_its_own() {
    need_system_python!();
    assert_eq!(
        python("asyncio"),
        "asyncio HELLO\nasyncio HELLO\nsubprocess child\n"
    );
}

#[test]
fn terminals_of_its_own() {
    need_system_python!();
    assert_eq!(python("terminal"), "tty /dev/pts/0\njob control\n");
}

#[test]
fn git_commits_and_clones() {
    need_tools!("git");
    let room = Room::new();
    let said = room.sh(
        "export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
         git init -q one; cd one; echo x >x; git add x; git commit -qm x; git gc -q; cd ..
         git clone -q one two; git -C two log --format=%s",
    );
    assert_eq!(said, "x\n");
}

#[test]
fn a_server_in_node_answers() {
    need_tools!("node");
    let room = Room::new();
    let script = "const http = require('http');
        const server = http.createServer((_, answer) => answer.end('served'));
        server.listen(0, '127.0.0.1', async () => {
            console.log(await (await fetch('http://127.0.0.1:' + server.address().port)).text());
            server.close();
        });";
    assert_eq!(
        room.run(room.plan(&["node", "-e", script])).good(),
        "served\n"
    );
}

#[test]
fn a_program_is_compiled_and_run() {
    need_tools!("gcc");
    let room = Room::new();
    let said = room.sh(
        "echo 'int puts(const char *); int main(void) { return puts(\"built\") < 0; }' >a.c; gcc -o a a.c; ./a",
    );
    assert_eq!(said, "built\n");
}
