//! The traces of the bundled shell in an unmounted store: its records and sessions.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trumanfs::error::Error;
use trumanfs::exec::home::WriteMode;
use trumanfs::exec::offline_home::OfflineHome;
use trumanfs::exec::shell::Shell;
use trumanfs::exec::{Home, Limits};
use trumanfs::name::WorldPath;
use trumanfs::world::ViewOptions;

use crate::common::{describe, trumanfs};

/// The word of each record of all sessions, in order, without the seals between them.
fn words(store: &Path) -> Vec<String> {
    let mut sessions: Vec<_> = fs::read_dir(store.join(".trumanfs/sessions"))
        .unwrap()
        .map(|session| session.unwrap().path().join("journal.jsonl"))
        .collect();
    sessions.sort();
    let lines = sessions
        .iter()
        .map(|file| fs::read_to_string(file).unwrap());
    let lines: String = lines.collect();
    let word = |line: &str| {
        let (_, rest) = line.split_once("\"op\":\"").unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let words = lines.lines().map(word);
    words.filter(|word| word != "seal").collect()
}

/// A file that is there is not tried to be made first, which would leave a record of something that did not happen.
#[test]
fn writing_to_what_is_there_leaves_one_record() {
    let store = tempfile::tempdir().unwrap();
    let home = OfflineHome::open(store.path()).unwrap();
    let path = WorldPath::parse(b"f").unwrap();
    for how in [
        WriteMode::Truncate,
        WriteMode::Truncate,
        WriteMode::Append,
        WriteMode::Truncate,
    ] {
        let mut file = home.open_write(&path, how, 0o644).unwrap();
        file.write_all(b"x\n").unwrap();
    }
    assert_eq!(fs::read(store.path().join("f")).unwrap(), b"x\n");
    drop(home);
    let wanted = ["begin", "create", "truncate", "write", "truncate", "end"];
    assert_eq!(words(store.path()), wanted);
}

/// Somebody outside makes and removes the file all the time: each write still finds it or makes it.
#[test]
fn writing_to_what_comes_and_goes_never_says_that_it_is_absent() {
    let store = tempfile::tempdir().unwrap();
    let home = OfflineHome::open(store.path()).unwrap();
    let path = WorldPath::parse(b"f").unwrap();
    let (file, over) = (store.path().join("f"), AtomicBool::new(false));
    let mut answers = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = fs::write(&file, "outside");
                // Without a pause the two fall into step, and each look comes at the wrong moment.
                std::thread::sleep(Duration::from_micros(50));
                let _ = fs::remove_file(&file);
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        for _ in 0..2000 {
            for how in [WriteMode::Truncate, WriteMode::Append] {
                let opened = home.open_write(&path, how, 0o644);
                answers.extend(opened.err().as_ref().map(Error::errno));
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let first = answers.first();
    assert!(answers.is_empty(), "{} times, {first:?}", answers.len());
}

/// Everything below a directory, with what would show that it was written to.
fn snapshot(top: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, u64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut pending = vec![top.to_owned()];
    while let Some(path) = pending.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let content = match meta.is_dir() {
            true => Vec::new(),
            false => fs::read(&path).unwrap(),
        };
        if meta.is_dir() {
            pending.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        }
        let times = (meta.ctime(), meta.ctime_nsec());
        found.insert(path, (meta.ino(), times.0, times.1, meta.len(), content));
    }
    found
}

/// Runs a line in a store, as a session of its own if it needs one. Returns its status and what it wrote.
fn exec(store: &Path, line: &str) -> (u8, String) {
    let home = Arc::new(OfflineHome::open(store).unwrap());
    let mut shell = Shell::new(home, store.as_os_str().as_bytes(), Limits::default());
    let outcome = shell.run(line.as_bytes());
    (
        outcome.return_code,
        String::from_utf8([outcome.stdout, outcome.stderr].concat()).unwrap(),
    )
}

const READS: &[&str] = &[
    "true",
    "ls -la; ls -lR src; find . -type f; echo src/*",
    "cat src/f | grep -c hello | wc -l; head -1 < src/f; (cd src && pwd)",
    "cat missing; grep x nowhere; cd nowhere; which ls; date +%Y",
    "rm -f missing; rm missing; mv missing x; cp missing x; rmdir x; touch -c missing",
    "mkdir src; mkdir -p src; echo x > src; echo x > nowhere/f",
];

#[test]
fn a_line_that_only_reads_writes_nothing_in_the_store() {
    let store = tempfile::tempdir().unwrap();
    fs::create_dir(store.path().join("src")).unwrap();
    fs::write(store.path().join("src/f"), "hello\n").unwrap();
    let before = snapshot(store.path());
    for line in READS {
        exec(store.path(), line);
        assert_eq!(snapshot(store.path()), before, "never a store: {line}");
    }
    // With sessions, something in the trash, and a former content.
    exec(store.path(), "echo 1 > g; echo 2 > g; cp g h; rm h");
    let before = snapshot(store.path());
    for line in READS {
        exec(store.path(), line);
        assert_eq!(snapshot(store.path()), before, "{line}");
    }
    assert_eq!(exec(store.path(), "cat g; ls .trash | wc -l").1, "2\n1\n");
}

#[test]
fn a_session_begins_with_the_first_change() {
    let store = tempfile::tempdir().unwrap();
    let home = Arc::new(OfflineHome::open(store.path()).unwrap());
    let mut shell = Shell::new(home, store.path().as_os_str().as_bytes(), Limits::default());
    assert_eq!(shell.run(b"ls -a").stdout, b".\n..\n");
    assert!(!store.path().join(".trumanfs").exists());
    // Stages of a pipe that change something at the same time begin one session.
    let outcome = shell.run(b"touch a | touch b | touch c; ls -a; cat missing; ls .trash");
    assert_eq!(outcome.stdout, b".\n..\na\nb\nc\n", "{outcome:?}");
    drop(shell);
    let wanted = ["begin", "run", "create", "create", "create", "end"];
    assert_eq!(words(store.path()), wanted);
}

/// The links and the hidden things that a store knows of are those of a line that only reads, too.
#[test]
fn what_is_shown_does_not_depend_on_a_session() {
    let store = tempfile::tempdir().unwrap();
    fs::write(store.path().join("f"), "x").unwrap();
    fs::hard_link(store.path().join("f"), store.path().join("g")).unwrap();
    fs::create_dir_all(store.path().join("d/e")).unwrap();
    fs::write(store.path().join("d/e/secret"), "x").unwrap();
    let view = || ViewOptions {
        hide: vec!["/d/e".to_owned()],
        ..ViewOptions::default()
    };
    let path = |path: &str| WorldPath::parse(path.as_bytes()).unwrap();
    let home = OfflineHome::with(store.path(), view(), Duration::from_secs(2)).unwrap();
    home.remove(&path("g")).unwrap();
    home.rename(&path("d"), &path("moved"), true).unwrap();
    drop(home);
    let home = OfflineHome::with(store.path(), view(), Duration::from_secs(2)).unwrap();
    let looked = |home: &OfflineHome| {
        let hidden = home.stat(&path("moved/e/secret")).unwrap_err();
        let entries = home.list(&path("moved")).unwrap();
        let root = home.stat(&WorldPath::root()).unwrap();
        (
            home.stat(&path("f")).unwrap().nlink,
            root.nlink,
            hidden,
            entries,
        )
    };
    let reading = looked(&home);
    assert_eq!((reading.0, &reading.2), (1, &Error::NotFound));
    assert_eq!(words(store.path()).len(), 4, "no session has begun");
    home.open_write(&path("new"), WriteMode::New, 0o644)
        .unwrap();
    assert_eq!(looked(&home), reading);
}

/// Cuts the last record and its seal off the newest session's journal, as if whoever wrote it had died before.
fn unend(store: &Path) -> PathBuf {
    let sessions = fs::read_dir(store.join(".trumanfs/sessions")).unwrap();
    let newest = sessions.map(|entry| entry.unwrap().path()).max().unwrap();
    let journal = newest.join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let seal = text.trim_end().rfind('\n').unwrap();
    let end = text[..seal].rfind('\n').unwrap() + 1;
    assert!(text[end..].contains("\"op\":\"end\""), "{text}");
    fs::write(&journal, &text[..end]).unwrap();
    journal
}

#[test]
fn a_session_that_was_cut_off_is_settled_by_a_line_that_only_reads() {
    let store = tempfile::tempdir().unwrap();
    exec(store.path(), "mkdir d && touch d/f");
    unend(store.path());
    assert_eq!(exec(store.path(), "ls").1, "d\n");
    assert_eq!(
        words(store.path()),
        ["begin", "run", "mkdir", "create", "end"]
    );
    // And once only.
    let before = snapshot(store.path());
    exec(store.path(), "ls d");
    assert_eq!(snapshot(store.path()), before);
    // The next session is the newest for whoever comes after it.
    exec(store.path(), "rm -r d");
    assert_eq!(words(store.path()).len(), 9);
}

/// The lock names the newest session, so the others are not listed, however many there are.
#[test]
fn opening_looks_at_the_session_that_the_lock_names() {
    let store = tempfile::tempdir().unwrap();
    exec(store.path(), "touch f");
    let other = store
        .path()
        .join(".trumanfs/sessions/99990101T000000.000000Z-0000");
    // Long enough for a file system's clock to go on.
    std::thread::sleep(Duration::from_millis(50));
    fs::create_dir(&other).unwrap();
    fs::write(other.join("journal.jsonl"), "rubbish\n").unwrap();
    // Somebody has put it there since, which shows.
    let error = OfflineHome::open(store.path()).unwrap_err().to_string();
    assert!(error.contains("99990101T000000.000000Z-0000"), "{error}");
    let sessions = fs::File::open(store.path().join(".trumanfs/sessions")).unwrap();
    sessions.set_modified(std::time::UNIX_EPOCH).unwrap();
    exec(store.path(), "cat f");
    exec(store.path(), "touch g");
    exec(store.path(), "cat g");
    // Where it names none that is there, all are listed.
    fs::write(store.path().join(".trumanfs/lock"), "").unwrap();
    let error = OfflineHome::open(store.path()).unwrap_err().to_string();
    assert!(error.contains("99990101T000000.000000Z-0000"), "{error}");
    fs::remove_dir_all(&other).unwrap();
    let journal = unend(store.path());
    assert_eq!(exec(store.path(), "ls").1, "f\ng\n");
    let text = fs::read_to_string(journal).unwrap();
    assert!(text.contains("\"op\":\"end\""), "{text}");
}

#[test]
fn who_only_reads_shares_the_store_and_who_changes_it_waits() {
    let store = tempfile::tempdir().unwrap();
    exec(store.path(), "touch f");
    let path = WorldPath::parse(b"d").unwrap();
    let reader = OfflineHome::open(store.path()).unwrap();
    let other = OfflineHome::open(store.path()).unwrap();
    assert_eq!(other.list(&WorldPath::root()).unwrap().len(), 1);
    let gone = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(reader);
    });
    other.mkdir(&path, 0o755).unwrap();
    gone.join().unwrap();
    // From now on the store is the other's alone, and says so.
    let error = OfflineHome::open(store.path()).unwrap_err().to_string();
    assert!(error.contains("is working on the store"), "{error}");
    assert!(error.contains(&std::process::id().to_string()), "{error}");
}

/// Runs a line with the real program. Returns what it wrote, what it said, and its status.
fn program(args: &[&str], store: &Path, line: &str) -> (String, String, Option<i32>) {
    let output = Command::new(crate::common::binary())
        .arg("exec")
        .args(args)
        .arg("--root")
        .arg(store)
        .args(["--", line])
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        text(output.stdout),
        text(output.stderr),
        output.status.code(),
    )
}

/// Nothing may meet `EBUSY` in mid-line: what the line has done until then would be half of what was meant.
#[test]
fn a_line_that_may_change_something_waits_before_it_starts_and_not_in_the_middle() {
    let store = tempfile::tempdir().unwrap();
    exec(store.path(), "touch f");
    let reader = OfflineHome::open(store.path()).unwrap();
    let line = "echo read; cat f; touch x; mkdir y";
    let (out, err, status) = program(&["--wait", "0.3"], store.path(), line);
    assert_eq!((&out[..], status), ("", Some(6)), "{err}");
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(
        lines[0],
        "bash: Device or resource busy; nothing of the line has run"
    );
    let who = format!("trumanfs: another command (process {})", std::process::id());
    assert!(lines[1].starts_with(&who), "{err}");
    assert!(lines[2].contains("--wait SECONDS"), "{err}");
    // Who only reads goes on.
    let read = program(
        &["--wait", "0"],
        store.path(),
        "cat f; echo x > /dev/null; find . -name 'f'",
    );
    assert_eq!(read, ("./f\n".to_owned(), String::new(), Some(0)));
    drop(reader);
    assert_eq!(program(&[], store.path(), line).2, Some(0));
}

/// A line that is the first to change a directory waits in mid-line for one that found the new store's lock first.
#[test]
fn who_makes_a_store_waits_for_whoever_has_its_lock_first() {
    let store = tempfile::tempdir().unwrap();
    let mut making = Command::new(crate::common::binary())
        .args(["exec", "--wait", "100", "--root"])
        .arg(store.path())
        .args(["--", "echo begun; cat; echo x > f"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut begun = String::new();
    let mut shown = BufReader::new(making.stdout.take().unwrap());
    shown.read_line(&mut begun).unwrap();
    assert_eq!(begun, "begun\n");
    let state = store.path().join(".trumanfs");
    fs::DirBuilder::new().mode(0o700).create(&state).unwrap();
    let mut options = fs::OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    let lock = options.open(state.join("lock")).unwrap();
    lock.lock().unwrap();
    drop(making.stdin.take());
    // Longer than a mount waits.
    std::thread::sleep(Duration::from_secs(3));
    assert!(!store.path().join("f").exists());
    drop(lock);
    assert!(making.wait().unwrap().success());
    assert_eq!(fs::read_to_string(store.path().join("f")).unwrap(), "x\n");
}

/// 36 of 40 such lines failed at once, and the advice was to unmount.
#[test]
fn many_lines_at_once_all_succeed() {
    let store = tempfile::tempdir().unwrap();
    let line =
        |number| format!("ls -A; echo {number} >> f; cat f > copy; mkdir d{number}; rm copy");
    // The first of them make the directory a store.
    for round in 0..2 {
        let running: Vec<_> = (0..20)
            .map(|number| {
                Command::new(crate::common::binary())
                    .args(["exec", "--wait", "100", "--root"])
                    .arg(store.path())
                    .args(["--", &line(round * 20 + number)])
                    .stdout(Stdio::null())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for child in running {
            let output = child.wait_with_output().unwrap();
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{err}");
        }
    }
    let text = fs::read_to_string(store.path().join("f")).unwrap();
    let mut numbers: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..40).collect::<Vec<_>>());
    let directories = exec(store.path(), "ls | grep -c d").1;
    assert_eq!(directories, "40\n");
}

/// A second shell that only looked was in the way of the first one's changes, which failed in mid-line; and what it knew was old
/// when it changed something itself.
#[test]
fn shells_side_by_side_know_of_each_others_changes() {
    let store = tempfile::tempdir().unwrap();
    exec(store.path(), "mkdir d; touch d/f");
    let open = || {
        let home = Arc::new(OfflineHome::open(store.path()).unwrap());
        Shell::new(home, store.path().as_os_str().as_bytes(), Limits::default())
    };
    let mut first = open();
    assert_eq!(first.run(b"ls").return_code, 0);
    // A line that might have changed something, and has not.
    assert_eq!(first.run(b"rm -f nothing").return_code, 0);
    assert_eq!(exec(store.path(), "ls d").1, "f\n");
    let busy = exec(store.path(), "touch x");
    assert_eq!(busy.0, 1, "{}", busy.1);
    assert!(!store.path().join("x").exists());
    assert_eq!(first.run(b"touch x").return_code, 0);
    drop(first);
    assert_eq!(exec(store.path(), "touch y; ls").1, "d\nx\ny\n");
}

/// A session in a part of a store was unrecorded there, and its `.trumanfs` and `.trash` showed in the home.
#[test]
fn a_part_of_a_store_is_no_store() {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    fs::create_dir_all(store.join("sub/deep")).unwrap();
    exec(&store, "touch f");
    let home = base.path().join("home");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::symlink(store.join("sub"), base.path().join("way")).unwrap();
    for root in [
        store.join("sub"),
        store.join("sub/deep"),
        store.join(".trash"),
        store.join(".trumanfs/sessions"),
        store.join("sub/../sub"),
        base.path().join("way"),
    ] {
        let (out, err, status) = program(&[], &root, "touch made; ls");
        assert_eq!((&out[..], status), ("", Some(6)), "{root:?}: {err}");
        let wanted = format!(
            "lies in the store {}\n",
            store.canonicalize().unwrap().display()
        );
        assert!(err.contains(&wanted), "{root:?}: {err}");
        let mounted = Command::new(crate::common::binary())
            .arg("mount")
            .args([&root, &home])
            .output()
            .unwrap();
        assert_eq!(mounted.status.code(), Some(6), "{root:?}: {mounted:?}");
    }
    assert!(!store.join("sub/.trumanfs").exists());
    let (_, err, status) = program(&[], Path::new("/"), "ls");
    assert_eq!(status, Some(6));
    assert!(err.contains("the whole machine"), "{err}");
}

/// What an operator asks meanwhile is answered as for a store that nobody has mounted.
#[test]
fn a_store_that_is_read_is_not_being_served() {
    let store = tempfile::tempdir().unwrap();
    exec(store.path(), "touch f; echo x > f; rm f");
    let reader = OfflineHome::open(store.path()).unwrap();
    for args in [&["fsck"][..], &["session", "list"], &["log"]] {
        let output = Command::new(crate::common::binary())
            .args(args)
            .arg(store.path())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(output.status.success(), "{args:?}: {text}");
        assert!(!text.contains("running"), "{args:?}: {text}");
    }
    drop(reader);
}

/// Runs a line in bash and in an unmounted store, in equal directories, and returns these; the outputs must be equal.
#[track_caller]
fn as_in_bash(line: &str, prepare: fn(&Path)) -> [tempfile::TempDir; 2] {
    let [native, store] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for dir in [&native, &store] {
        prepare(dir.path());
    }
    let bash = Command::new("bash")
        .args(["-c", line])
        .current_dir(native.path())
        .output()
        .unwrap();
    let root = store.path().to_str().unwrap();
    let ours = trumanfs(&["exec", "--root", root, "--", line]);
    let [wanted, got] = [&bash, &ours].map(|output| String::from_utf8_lossy(&output.stdout));
    assert_eq!(got, wanted, "{line}: {}", describe(&ours));
    [native, store]
}

/// What a line has open is emptied in place, as by any shell: what is written through the other descriptor goes into the file, and
/// not into what is kept of it.
#[test]
fn what_a_line_has_open_is_emptied_in_place() {
    let lines = [
        "{ echo hello > q; echo t; } >> q; cat q",
        "{ echo A; cp c q; echo B; } > q; cat q",
        "cat <q >q; cat q",
        "grep o <q >q; cat q",
        "{ echo b > q; cat; } < q; cat q",
        "{ { echo one > q; echo two; } >> q; echo three; } >> q; cat q",
        "echo plain > q; cat q",
    ];
    for line in lines {
        let [_, store] = as_in_bash(line, |dir| {
            fs::write(dir.join("q"), "old\n").unwrap();
            fs::write(dir.join("c"), "copied\n").unwrap();
        });
        let root = store.path().to_str().unwrap();
        let checked = trumanfs(&["fsck", root]);
        assert!(checked.status.success(), "{line}: {}", describe(&checked));
        let undone = trumanfs(&["undo", root, "--session", "last"]);
        assert!(undone.status.success(), "{line}: {}", describe(&undone));
        assert_eq!(
            fs::read(store.path().join("q")).unwrap(),
            b"old\n",
            "{line}"
        );
    }
}

/// A line of a here-document that goes on is one with the next before its end is looked for: what is text to bash is no command.
#[test]
fn a_here_document_ends_where_bash_ends_it() {
    let lines = [
        "cat > notes <<E\nto clean up: \\\nE\nrm -r keep\n",
        "cat <<echo\necho\\\n\necho\necho after\n",
        "cat <<A\na\\\\\nA\necho after\n",
        "cat <<'A'\na\\\nA\necho after\n",
        "cat <<-A\n\ta\\\n\tA\n\tA\necho after\n",
        "x=1; cat <<A\n$\\\nx ${x}\\\n.\nA\n",
    ];
    for line in lines {
        let [native, store] = as_in_bash(line, |dir| fs::create_dir(dir.join("keep")).unwrap());
        for name in ["keep", "notes"] {
            let [wanted, got] = [&native, &store].map(|dir| {
                let path = dir.path().join(name);
                (path.exists(), fs::read(path).ok())
            });
            assert_eq!(got, wanted, "{line}: {name}");
        }
    }
}
