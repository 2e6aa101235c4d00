//! Each failure that `docs/JSON.md` names, behind each verb that can meet it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::page::Page;
use crate::common::{COMMAND_LIMIT, Home, describe, need_mount, run_limited, trumanfs, watch};

/// Every verb that takes a TARGET, with what it needs beside.
fn verbs(target: &str) -> Vec<Vec<String>> {
    let lines = [
        "undo {} --session last",
        "redo {}",
        "restore {} /file",
        "checkpoint create {} a-point",
        "checkpoint list {}",
        "trash list {}",
        "trash restore {} entry",
        "trash usage {}",
        "trash purge {} --all",
        "session list {}",
        "session show {}",
        "log {}",
        "show {} 2",
        "diff {}",
        "versions {} /file",
        "cat {} /file",
        "report {} --html -",
        "fsck {}",
        "fsck {} --repair",
        "status {}",
        "exec --root {} true",
    ];
    let words = |line: &str| {
        line.split(' ')
            .map(|word| word.replace("{}", target))
            .collect()
    };
    lines.iter().map(|line| words(line)).collect()
}

/// Those that change the store, with an entry of its trash.
fn changing(target: &str, entry: &str) -> Vec<Vec<String>> {
    let lines = [
        "undo {} --session last",
        "restore {} /file",
        "checkpoint create {} a-point",
        "trash restore {} ENTRY --to /elsewhere",
        "trash purge {} --all",
    ];
    let words = |line: &str| {
        let words = line.split(' ');
        words
            .map(|word| word.replace("{}", target).replace("ENTRY", entry))
            .collect()
    };
    lines.iter().map(|line| words(line)).collect()
}

/// The failures of the page, struck off as they are provoked.
struct Table {
    page: Page,
    done: BTreeSet<String>,
}

impl Table {
    /// Expects a failure behind verbs: its exit code, and with `--json` its kind.
    #[track_caller]
    fn expect<V: AsRef<[String]>>(&mut self, failure: &str, verbs: impl IntoIterator<Item = V>) {
        let code = self.page.exit(failure);
        self.done.insert(failure.to_owned());
        let page = &self.page;
        // Several wait for something: they wait together.
        std::thread::scope(|threads| {
            for verb in verbs {
                let verb = verb.as_ref().to_vec();
                threads.spawn(move || fails(page, failure, code, &verb));
            }
        });
    }
}

/// Expects one verb to fail with a code, and with `--json` to say its kind.
fn fails(page: &Page, failure: &str, code: i32, verb: &[String]) {
    let output = trumanfs(verb);
    let told = || format!("{failure}: {verb:?}: {}", describe(&output));
    assert_eq!(output.status.code(), Some(code), "{}", told());
    assert!(!output.stderr.is_empty(), "{}", told());
    if !takes_json(verb) {
        return;
    }
    let mut with = verb.to_vec();
    with.push("--json".to_owned());
    let output = trumanfs(&with);
    let told = || format!("{failure}: {with:?}: {}", describe(&output));
    assert_eq!(output.status.code(), Some(code), "{}", told());
    // A purge that stops half-way has something to tell of: that is its answer.
    let stopped = |answer: Value| answer["stopped"].is_string();
    if serde_json::from_slice(&output.stdout).is_ok_and(stopped) {
        return;
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().last().unwrap_or_default();
    let last: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{}", told()));
    assert_eq!(last["error"]["kind"], page.kinds[&code], "{}", told());
}

fn takes_json(verb: &[String]) -> bool {
    !matches!(&*verb[0], "cat" | "report" | "mount" | "umount")
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn dead_daemon(table: &mut Table) {
    let mut home = Home::mount();
    home.sh("mkdir in; touch in/it");
    home.kill_daemon_only();
    let at = home.home().to_str().unwrap();
    table.expect(
        "the daemon of the home has died",
        [
            words(&format!("log {at}/in/it")),
            words(&format!("exec --root {at} ls")),
        ],
    );
    watch::detach(home.home());
}

#[test]
fn the_same_failure_ends_every_verb_with_the_same_code() {
    need_mount!();
    let mut table = Table {
        page: Page::read(),
        done: BTreeSet::new(),
    };
    let mut home = Home::mount();
    home.sh("echo one >file; echo two >file; echo three >gone; rm gone");
    let entry = home.trash()[0].to_str().unwrap().to_owned();
    let (store, at) = (home.store().to_owned(), home.home().to_owned());
    let (store, at) = (store.to_str().unwrap(), at.to_str().unwrap());
    let base = home.base().to_owned();

    targets(&mut table, &base);
    named(&mut table, at);
    typed(&mut table, at, &base);
    in_the_way(&mut table, at, &entry);
    table.expect(
        "the home is mounted already",
        [words(&format!("mount {store} {at}"))],
    );
    silent_daemon(&mut table, &home, &entry);
    home.umount();
    dead_daemon(&mut table);
    named(&mut table, store);
    typed(&mut table, store, &base);
    in_the_way(&mut table, store, &entry);
    table.expect("nothing is mounted there", [words(&format!("umount {at}"))]);
    copied(&mut table, &base, store);
    read_only(&mut table, &base, store, &entry);
    taken(&mut table, store, &entry);
    damaged(&mut table, store);
    closed(&mut table, store, &base);
    full(&mut table, &base);
    let left: Vec<&str> = table
        .page
        .failures()
        .filter(|f| !table.done.contains(*f))
        .collect();
    assert!(left.is_empty(), "never provoked: {left:?}");
}

fn targets(table: &mut Table, base: &Path) {
    let path = |name: &str| base.join(name).to_str().unwrap().to_owned();
    table.expect("TARGET is not there", verbs(&path("missing")));
    fs::write(base.join("plain-file"), "").unwrap();
    table.expect("TARGET is no directory", verbs(&path("plain-file")));
    fs::create_dir(base.join("plain")).unwrap();
    let reads = verbs(&path("plain"));
    // A directory becomes a store where the shell first changes it.
    let reads = reads.into_iter().filter(|verb| verb[0] != "exec");
    table.expect("TARGET is no store", reads);
    fs::create_dir(base.join("store/inner")).unwrap();
    let inner = path("store/inner");
    table.expect(
        "TARGET lies in another store",
        [
            words(&format!("exec --root {inner} true")),
            words(&format!("mount {inner} {}", path("plain"))),
        ],
    );
    fs::remove_dir(base.join("store/inner")).unwrap();
}

/// What is named in a TARGET and is not there.
fn named(table: &mut Table, target: &str) {
    let lines = [
        "undo {} 999",
        "undo {} --session nope",
        "undo {} --to nope",
        "undo {} --pid 1",
        "restore {} /nope",
        "restore {} /file --at nope",
        "trash restore {} nope",
        "trash purge {} nope",
        "session show {} nope",
        "log {} --session nope",
        "log {} --since nope",
        "show {} 999",
        "diff {} nope..",
        "versions {} /nope",
        "cat {} /nope",
        "cat {} /file --at nope",
        "report {} --html - --session nope",
    ];
    table.expect(
        "a session, operation, point, checkpoint, path or entry of the trash is not there",
        lines.iter().map(|line| words(&line.replace("{}", target))),
    );
    table.expect(
        "the working directory of `exec` is not there",
        [words(&format!("exec --root {target} --cwd nope true"))],
    );
}

/// What has no meaning.
fn typed(table: &mut Table, target: &str, base: &Path) {
    let lines = [
        "undo {} --no-such-option",
        "undo {} word",
        "undo {} 0",
        "undo {} --path a[b",
        "log {} --path a[b",
        "show {} word",
        "diff {} now..last",
        "checkpoint create {} now",
        "trash purge {} --larger-than big",
    ];
    let mut lines: Vec<_> = lines
        .iter()
        .map(|line| words(&line.replace("{}", target)))
        .collect();
    let place = |name: &str| base.join(name).to_str().unwrap().to_owned();
    fs::create_dir_all(base.join("unused")).unwrap();
    for options in [
        "-o nonsense",
        "--hide [z-a]",
        "--cache-ttl=-1",
        "--owner 0 -o allow_other",
    ] {
        lines.push(words(&format!(
            "mount {} {} {options}",
            place("plain"),
            place("unused")
        )));
    }
    table.expect(
        "an option, a size, a pattern, a range or an operation cannot be understood",
        lines,
    );
    table.expect(
        "`undo` or `trash purge` is given no choice",
        [
            words(&format!("undo {target}")),
            words(&format!("trash purge {target}")),
        ],
    );
}

/// What is in the way of something.
fn in_the_way(table: &mut Table, target: &str, entry: &str) {
    let all = ["checkpoint create {} known"].map(|line| words(&line.replace("{}", target)));
    let made = trumanfs(&all[0]);
    assert!(
        matches!(made.status.code(), Some(0 | 4)),
        "{}",
        describe(&made)
    );
    table.expect("a checkpoint has that name already", all);
    table.expect(
        "something later, or something else, is in the way",
        [
            words(&format!("trash restore {target} {entry} --to /file")),
            words(&format!(
                "trash restore {target} {entry} --to /no/such/place"
            )),
            words(&format!("restore {target} /file --to /no/such/place")),
        ],
    );
}

/// A daemon that is not what it should be: none, one that goes away, one that says no in each way there is.
fn silent_daemon(table: &mut Table, home: &Home, entry: &str) {
    let store = home.store().to_str().unwrap();
    let socket = home.store().join(".trumanfs/control.sock");
    let aside = home.base().join("aside");
    fs::rename(&socket, &aside).unwrap();
    let mut asking = changing(store, entry);
    asking.push(words(&format!("status {store}")));
    table.expect("the daemon does not answer", asking);
    // It takes the request, and is gone.
    let listener = UnixListener::bind(&socket).unwrap();
    let changing = changing(store, entry);
    false_daemon(&listener, &socket, None, || {
        table.expect("the daemon goes away while it changes something", &changing);
    });
    for (code, kind) in table.page.kinds.clone() {
        let answer = format!(r#"{{"failed":{{"kind":"{kind}","what":"no","remedy":"try"}}}}"#);
        false_daemon(&listener, &socket, Some(&answer), || {
            for verb in &changing {
                let output = trumanfs(verb);
                assert_eq!(
                    output.status.code(),
                    Some(code),
                    "{kind}: {verb:?}: {}",
                    describe(&output)
                );
            }
        });
    }
    fs::rename(&aside, &socket).unwrap();
}

/// Gives each request this answer, or none, while `meanwhile` runs. Others may ask, too: `status` asks all mounts of the machine.
fn false_daemon(
    listener: &UnixListener,
    socket: &Path,
    answer: Option<&str>,
    meanwhile: impl FnOnce(),
) {
    let serve = || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut line = String::new();
            BufReader::new(&connection).read_line(&mut line).unwrap();
            if line == "stop\n" {
                return;
            }
            if let Some(answer) = answer {
                let _ = writeln!(connection, "{answer}");
            }
        }
    };
    std::thread::scope(|threads| {
        threads.spawn(serve);
        let done = catch_unwind(AssertUnwindSafe(meanwhile));
        let mut stop = UnixStream::connect(socket).unwrap();
        writeln!(stop, "stop").unwrap();
        done.unwrap();
    });
}

fn copied(table: &mut Table, base: &Path, store: &str) {
    let copy = base.join("copy");
    let copied = Command::new("cp").arg("-a").arg(store).arg(&copy).status();
    assert!(copied.unwrap().success());
    let lines = [
        "undo {} --session last",
        "restore {} /file",
        "diff {}",
        "versions {} /file",
        "cat {} /file --at last",
    ];
    let copy = copy.to_str().unwrap();
    table.expect(
        "the store is a copy, and only the original can tell",
        lines.iter().map(|line| words(&line.replace("{}", copy))),
    );
}

fn read_only(table: &mut Table, base: &Path, store: &str, entry: &str) {
    use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};
    let bound = base.join("bound");
    fs::create_dir(&bound).unwrap();
    mount_bind(store, &bound).unwrap();
    mount_remount(&bound, MountFlags::BIND | MountFlags::RDONLY, "").unwrap();
    let verbs = changing(bound.to_str().unwrap(), entry);
    let tried = catch_unwind(AssertUnwindSafe(|| {
        table.expect("the store's file system is read-only", verbs);
    }));
    unmount(&bound, UnmountFlags::DETACH).unwrap();
    tried.unwrap();
}

/// A disk on which not even what is kept in reserve is free.
fn full(table: &mut Table, base: &Path) {
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    let small = base.join("small");
    fs::create_dir(&small).unwrap();
    mount("tmpfs", &small, "tmpfs", MountFlags::empty(), c"size=1m").unwrap();
    let tried = catch_unwind(AssertUnwindSafe(|| {
        let store = small.join("store");
        fs::create_dir(&store).unwrap();
        let line = "echo one > file; echo two > file; echo three > gone; rm gone";
        let made = trumanfs(&["exec", "--root", store.to_str().unwrap(), line]);
        assert!(made.status.success(), "{}", describe(&made));
        let entries = fs::read_dir(store.join(".trash")).unwrap();
        let mut entries = entries.map(|entry| entry.unwrap().file_name());
        let entry = entries.find(|name| name != ".gitignore").unwrap();
        fs::remove_dir_all(store.join(".trumanfs/reserve")).unwrap();
        let mut filler = fs::File::create(small.join("filler")).unwrap();
        while filler.write_all(&[1; 4096]).is_ok() {}
        let verbs = changing(store.to_str().unwrap(), entry.to_str().unwrap());
        table.expect("the store's disk is full", verbs);
    }));
    unmount(&small, UnmountFlags::DETACH).unwrap();
    tried.unwrap();
}

/// Another command has the store alone.
fn taken(table: &mut Table, store: &str, entry: &str) {
    let lock = fs::File::open(Path::new(store).join(".trumanfs/lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let mut verbs = changing(store, entry);
    verbs.push(words(&format!("exec --wait 0.1 --root {store} true")));
    table.expect("another command has the store", verbs);
}

fn damaged(table: &mut Table, store: &str) {
    let second = trumanfs(&["exec", "--root", store, "touch another"]);
    assert!(second.status.success(), "{}", describe(&second));
    let sessions = Path::new(store).join(".trumanfs/sessions");
    let mut sessions: Vec<_> = fs::read_dir(sessions)
        .unwrap()
        .map(|s| s.unwrap().path())
        .collect();
    sessions.sort();
    let first = sessions[0]
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let same_start = &first[..4];
    table.expect(
        "a session's beginning could mean several",
        [
            words(&format!("undo {store} --session {same_start}")),
            words(&format!("session show {store} {same_start}")),
            words(&format!("log {store} --session {same_start}")),
        ],
    );
    let journal = sessions[0].join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("\"create\"", "\"crate\"", 1)).unwrap();
    let lines = [
        &format!("undo {} --session {first}", "{}")[..],
        "restore {} /file --at FIRST:1",
        "diff {} FIRST..",
        "versions {} /file",
        "cat {} /file --at FIRST:1",
        "show {} FIRST:3",
        "checkpoint list {}",
    ];
    let line = |line: &&str| words(&line.replace("{}", store).replace("FIRST", &first));
    table.expect("a journal cannot be read", lines.iter().map(line));
    fs::write(&journal, text).unwrap();
}

/// An ordinary user who may go through the store's directory, and not into what is root's.
fn closed(table: &mut Table, store: &str, base: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(base, fs::Permissions::from_mode(0o755)).unwrap();
    let code = table.page.exit("the store may not be read");
    table.done.insert("the store may not be read".to_owned());
    for verb in verbs(store) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trumanfs"));
        command.args(&verb).uid(12345).gid(12345);
        let output = run_limited(command, COMMAND_LIMIT);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{verb:?}: {}",
            describe(&output)
        );
    }
}
