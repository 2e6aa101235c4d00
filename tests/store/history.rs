//! The read-only commands: `session`, `log`, `show`, `diff`, `versions`, `cat`. Each on a mounted home, on an
//! unmounted store, and on one whose daemon was killed; each with `--json`; and on a damaged store.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::common::{Home, describe, need_mount, need_tools, run_limited, trumanfs};
use serde_json::Value;

fn run(target: &Path, verb: &[&str], args: &[&str]) -> Output {
    let mut words: Vec<&std::ffi::OsStr> = verb.iter().map(|word| word.as_ref()).collect();
    words.push(target.as_os_str());
    words.extend(args.iter().map(|word| std::ffi::OsStr::new(*word)));
    trumanfs(&words)
}

/// Runs a verb, expects an exit code, and returns what it printed.
#[track_caller]
fn expect(code: i32, target: &Path, verb: &[&str], args: &[&str]) -> String {
    let output = run(target, verb, args);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{verb:?} {args:?}: {}",
        describe(&output)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn ok(target: &Path, verb: &[&str], args: &[&str]) -> String {
    expect(0, target, verb, args)
}

/// The objects that a verb prints with `--json`, one a line.
#[track_caller]
fn objects(target: &Path, verb: &[&str], args: &[&str]) -> Vec<Value> {
    let text = ok(target, verb, &[args, &["--json"]].concat());
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Asks the same of the mounted home, of its store, of the store after its daemon was killed, and of it after unmounting.
fn everywhere(mut home: Home, question: impl Fn(&Path)) {
    question(home.home());
    question(home.store());
    home.kill_daemon();
    question(home.store());
    home.mount_again();
    home.umount();
    question(home.store());
}

fn journals(store: &Path) -> Vec<PathBuf> {
    let sessions = fs::read_dir(store.join(".trumanfs/sessions")).unwrap();
    let mut found: Vec<_> = sessions
        .map(|s| s.unwrap().path().join("journal.jsonl"))
        .collect();
    found.sort();
    found
}

/// The number of the first record that fits.
fn seq_of(home: &Home, fits: impl Fn(&Value) -> bool) -> String {
    let record = home.journal().into_iter().find(|record| fits(record));
    record.expect("a record")["seq"].to_string()
}

fn is(record: &Value, op: &str, path: &str) -> bool {
    record["op"] == op && record["path"] == path
}

// ── log ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn what_one_process_did_is_one_line() {
    need_mount!();
    let home = Home::mount();
    home.sh("python3 -c 'import os
os.makedirs(\"src/deep\")
for i in range(40): open(f\"src/deep/f{i}\", \"w\").write(\"x\")
'; rm -r src/deep; echo 1 >note");
    everywhere(home, |target| {
        let text = ok(target, &["log"], &[]);
        let lines: Vec<&str> = text.lines().collect();
        let of = |program: &str| lines.iter().filter(|line| line.contains(program)).count();
        assert!(lines[0].starts_with("── session "), "{text}");
        assert_eq!((of("python3["), of("rm[")), (1, 1), "{text}");
        assert!(
            text.contains("created 40 files, 2 directories under /src"),
            "{text}"
        );
        assert!(
            text.contains("removed 40 files, 1 directory under /src/deep"),
            "{text}"
        );
        // What is little is told as it is, and no colour is in it where nobody looks.
        assert!(
            text.contains("create /note\n") && !text.contains('\u{1b}'),
            "{text}"
        );
        let all = ok(target, &["log"], &["--all", "--program", "rm"]);
        assert_eq!(
            all.lines()
                .filter(|line| line.contains("unlink /src/deep/f"))
                .count(),
            40
        );
    });
}

#[test]
fn the_log_can_be_filtered() {
    need_mount!();
    let mut home = Home::mount();
    home.sh("mkdir -p a/b; echo 1 >a/b/x.rs; echo 2 >a/y.c; mv a/y.c a/z.c; rm a/b/x.rs; chmod 600 a/z.c");
    home.remount();
    home.sh("echo 3 >second; mv second \"$(printf 'odd\\377\\nname')\"");
    let pid = home
        .journal()
        .iter()
        .find(|r| is(r, "unlink", "/a/b/x.rs"))
        .unwrap()["actor"]["pid"]
        .to_string();
    let sessions: Vec<String> = objects(home.store(), &["session", "list"], &[])
        .iter()
        .map(|s| s["session"].as_str().unwrap().to_owned())
        .collect();
    let middle = format!("{}:3", sessions[0]);
    let count = |args: &[&str]| {
        let output = run(home.home(), &["log"], &[args, &["--json"]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let records: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert!(records.iter().all(|r| r["session"].is_string()), "{text}");
        assert_eq!(
            output.status.code(),
            Some(i32::from(records.is_empty())),
            "{args:?}"
        );
        records.len()
    };
    assert_eq!(count(&["--pid", &pid]), 1);
    assert_eq!(count(&["--program", "mv"]), 2);
    assert_eq!(count(&["--program", "mv", "--session", "last"]), 1);
    assert_eq!(count(&["--program", "mkdir"]), 2);
    assert_eq!(count(&["--path", "*.rs"]), 2);
    assert_eq!(count(&["--path", "/a/b"]), 3);
    assert_eq!(count(&["--path", "z.c"]), 2);
    assert_eq!(count(&["--path", "odd*"]), 1);
    assert_eq!(count(&["--op", "rename,unlink"]), 3);
    assert_eq!(count(&["--session", &sessions[0], "--until", &middle]), 3);
    assert_eq!(
        count(&["--since", &middle, "--until", "last"]),
        home.journal().iter().filter(|r| r["op"] == "end").count() + 5
    );
    assert_eq!(count(&["--since", "-1h", "--op", "begin"]), 2);
    assert_eq!(count(&["--since", "now"]), 0);
    assert_eq!(count(&["--until", "2001-01-01"]), 0);
    for args in [&["--op", "destroy"][..], &["--pid", "x"]] {
        expect(2, home.home(), &["log"], args);
    }
    expect(3, home.home(), &["log"], &["--since", "someday"]);
    expect(3, home.home(), &["log"], &["--session", "x"]);
    expect(2, home.home(), &["log"], &["--path", "a[b"]);
}

/// Several stores at once: each under its own heading, those in which nothing was found left out.
#[test]
fn log_of_several_stores() {
    need_mount!();
    let mut homes = [Home::mount(), Home::mount(), Home::mount()];
    homes[0].sh("echo 1 >x; rm x");
    homes[1].sh("echo 1 >y; rm y");
    homes[2].sh("echo 1 >x; rm x; echo 2 >x; rm x");
    homes[0].umount();
    let stores = [homes[0].store(), homes[1].home(), homes[2].store()];
    let also: Vec<&str> = stores[1..]
        .iter()
        .map(|store| store.to_str().unwrap())
        .collect();
    let wanted = [
        "--also", also[0], "--also", also[1], "--op", "unlink", "--path", "x",
    ];
    let text = ok(stores[0], &["log"], &[&wanted[..], &["--all"]].concat());
    let headings: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("══ "))
        .collect();
    let heading = |store: &Path| format!("══ {}", store.display());
    assert_eq!(
        headings,
        [heading(homes[0].store()), heading(homes[2].store())],
        "{text}"
    );
    assert_eq!(text.matches("unlink /x").count(), 3, "{text}");
    let records = objects(stores[0], &["log"], &wanted);
    let of: Vec<_> = records
        .iter()
        .map(|record| record["store_path"].as_str().unwrap())
        .collect();
    let path = |n: usize| homes[n].store().to_str().unwrap();
    assert_eq!(of, [path(0), path(2), path(2)]);
    assert!(records.iter().all(|record| record["session"].is_string()));
    // One that is none, and a run that none of them has.
    let base = tempfile::tempdir().unwrap();
    let none = base.path().to_str().unwrap();
    let output = run(stores[0], &["log"], &["--also", none, "--op", "unlink"]);
    assert_eq!(output.status.code(), Some(5), "{}", describe(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains(none));
    expect(
        1,
        stores[0],
        &["log"],
        &["--also", also[0], "--run", "zzzzzzzzzzzz"],
    );
    // Where a reader stopped, the next one goes on.
    let seen = objects(stores[2], &["log"], &[]);
    let at = seen
        .iter()
        .rposition(|record| record["op"] == "create")
        .unwrap();
    let place = format!(
        "{}:{}",
        seen[at]["session"].as_str().unwrap(),
        seen[at]["seq"]
    );
    let rest = objects(stores[2], &["log"], &["--since", &place]);
    assert_eq!(rest[..], seen[at + 1..]);
}

#[test]
fn a_damaged_session_is_reported_and_the_others_are_read() {
    need_mount!();
    let mut home = Home::mount();
    home.sh("echo 1 >a; echo 2 >b; rm a");
    home.remount();
    home.sh("echo 3 >c");
    home.umount();
    let journal = &journals(home.store())[0];
    let whole = fs::read_to_string(journal).unwrap();
    for (damage, complaint) in [
        (whole.replacen("\"/a\"", "\"/x\"", 1), "does not follow"),
        (whole.replacen("create", "crea\"e", 1), "not a record"),
        // The last record, for which the seal vouches, and the seal itself.
        (
            whole.replacen("\"op\":\"end\"", "\"op\":\"emd\"", 1),
            "not a record",
        ),
        (
            whole.replacen("\"from\":1", "\"from\":2", 1),
            "the seal was changed",
        ),
        (
            whole.replacen("{\"v\":6,\"seq\":3", "{\"v\":9,\"seq\":3", 1),
            "newer release",
        ),
    ] {
        assert_ne!(damage, whole);
        fs::write(journal, &damage).unwrap();
        for args in [&["--json"][..], &[], &["--all"]] {
            let output = run(home.store(), &["log"], args);
            let (out, err) = (
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr),
            );
            assert_eq!(output.status.code(), Some(5), "{}", describe(&output));
            assert!(
                err.contains(complaint) || err.contains("does not follow"),
                "{err}"
            );
            assert!(
                err.contains(
                    journal
                        .parent()
                        .unwrap()
                        .file_name()
                        .unwrap()
                        .to_str()
                        .unwrap()
                ),
                "{err}"
            );
            assert!(out.contains("/c"), "the next session is missing: {out}");
            assert!(!out.contains("emd") && !out.contains("/x"), "{out}");
        }
        let output = run(home.store(), &["session", "list"], &["--json"]);
        assert_eq!(output.status.code(), Some(5), "{}", describe(&output));
        let sessions = String::from_utf8(output.stdout).unwrap();
        let sessions: Vec<Value> = sessions
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        assert!(sessions[0]["damage"].is_string() && sessions[1].get("damage").is_none());
    }
}

#[test]
fn colours_are_for_terminals_only() {
    need_mount!();
    let home = Home::mount();
    home.sh("echo 1 >a");
    // script(1) gives the command a terminal.
    let with = |environment: &[(&str, &str)]| {
        let mut script = Command::new("script");
        let line = format!("{} log {}", crate::common::binary(), home.store().display());
        script
            .args(["-qec", &line, "/dev/null"])
            .env_remove("NO_COLOR")
            .env("TRUMANFS_PAGER", "")
            .env("TERM", "xterm");
        script.envs(environment.iter().copied());
        let output = run_limited(script, Duration::from_secs(60));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    need_tools!("script");
    assert!(with(&[]).contains('\u{1b}'));
    assert!(!with(&[("NO_COLOR", "1")]).contains('\u{1b}'));
    assert!(!with(&[("TERM", "dumb")]).contains('\u{1b}'));
}

// ── session ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_session_says_when_where_and_how_much() {
    need_mount!();
    let mut home = Home::mount();
    home.sh("mkdir d; echo 1 >d/a; rm -r d");
    home.umount();
    home.mount_again();
    home.sh("echo 2 >b");
    let list = |home: &Home| objects(home.store(), &["session", "list"], &[]);
    let sessions = list(&home);
    assert_eq!(sessions.len(), 2);
    assert_eq!(
        (&sessions[0]["end"], &sessions[1]["end"]),
        (&"clean".into(), &"running".into())
    );
    assert_eq!(
        (&sessions[0]["changes"], &sessions[1]["changes"]),
        (&4.into(), &1.into())
    );
    assert_eq!(sessions[0]["home"], home.home().to_str().unwrap());
    let programs: Vec<&str> = sessions[0]["programs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p[0].as_str().unwrap())
        .collect();
    assert_eq!(programs, ["rm", "mkdir", "sh"]);
    let text = ok(home.home(), &["session", "list"], &[]);
    assert!(
        text.contains("still running") && text.contains("4 changes by rm, mkdir, sh"),
        "{text}"
    );

    home.kill_daemon();
    assert_eq!(list(&home)[1]["end"], "abrupt");
    assert!(ok(home.store(), &["session", "list"], &[]).contains("ended without unmounting"));
    // A session that was killed before it wrote anything.
    fs::create_dir(
        home.store()
            .join(".trumanfs/sessions/20991231T000000.000000Z-0000"),
    )
    .unwrap();
    assert_eq!(list(&home)[2]["end"], "absent");

    let first = sessions[0]["session"].as_str().unwrap();
    let shown = ok(home.store(), &["session", "show"], &[first]);
    for word in [
        first,
        "rm: 2 changes",
        "create 1, mkdir 1, rmdir 1, unlink 1",
        "undo",
    ] {
        assert!(shown.contains(word), "no {word} in {shown}");
    }
    assert_eq!(
        objects(home.store(), &["session", "show"], &[first])[0]["session"],
        first
    );
    expect(3, home.store(), &["session", "show"], &["nosuch"]);
    let ambiguous = run(home.store(), &["session", "show"], &["20"]);
    assert_eq!(ambiguous.status.code(), Some(6));
    assert!(
        String::from_utf8_lossy(&ambiguous.stderr).contains(first),
        "{}",
        describe(&ambiguous)
    );
}

// ── show ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

/// Runs the command that `show` gives after these words, as a shell would.
fn follow_advice(home: &Home, shown: &str, word: &str) -> Output {
    let line = shown
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(word))
        .unwrap_or_else(|| panic!("no {word:?} in {shown}"));
    let mut shell = Command::new("bash");
    let path = Path::new(crate::common::binary())
        .parent()
        .unwrap()
        .display();
    shell
        .args(["-c", line])
        .env("PATH", format!("{path}:{}", std::env::var("PATH").unwrap()))
        .current_dir(home.base());
    run_limited(shell, Duration::from_secs(60))
}

#[test]
fn show_says_how_to_get_a_removed_file_back() {
    need_mount!();
    let home = Home::mount();
    home.sh("mkdir d; echo hello >'d/a b'; rm -r d; echo 1 >kept; echo 2 >new; mv new kept");
    let removed = seq_of(&home, |r| is(r, "unlink", "/d/a b"));
    let replaced = seq_of(&home, |r| r["op"] == "rename");
    let made = seq_of(&home, |r| is(r, "mkdir", "/d"));
    for target in [home.home(), home.store()] {
        let shown = ok(target, &["show"], &[&removed]);
        for word in [
            "rm",
            "/usr/",
            "unlink /d/a b",
            "in the trash as",
            "_d/a b, 6 bytes",
            "trumanfs undo",
        ] {
            assert!(shown.contains(word), "no {word} in {shown}");
        }
        let json = &objects(target, &["show"], &[&format!("last:{removed}")])[0];
        assert_eq!(
            (&json["record"]["path"], &json["trash"]["size"]),
            (&"/d/a b".into(), &6.into())
        );
        let shown = ok(target, &["show"], &[&replaced]);
        assert!(
            shown.contains("rename /new → /kept, replaced") && shown.contains("2 bytes"),
            "{shown}"
        );
        assert!(!ok(target, &["show"], &[&made]).contains("to get it"));
    }
    let shown = ok(home.home(), &["show"], &[&removed]);
    // Its directory is gone, so the command must say where to: a conflict, and nothing is changed.
    let output = follow_advice(&home, &shown, "to get it");
    assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
    let directory = seq_of(&home, |r| is(r, "rmdir", "/d"));
    let output = follow_advice(
        &home,
        &ok(home.home(), &["show"], &[&directory]),
        "to get it",
    );
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(fs::read(home.path("d/a b")).unwrap(), b"hello\n");
    assert!(ok(home.store(), &["show"], &[&directory]).contains("brought back to /d by"));
    assert!(ok(home.store(), &["show"], &[&removed]).contains("brought back to /d by"));
    expect(3, home.store(), &["show"], &["4711"]);
    expect(2, home.store(), &["show"], &["last"]);
}

#[test]
fn show_says_what_did_not_happen() {
    need_mount!();
    let mut home = Home::mount();
    home.sh("mkdir d; echo 1 >d/f");
    home.kill_daemon();
    // A record whose act was never done: settled at the next mount.
    let journal = journals(home.store()).pop().unwrap();
    let text = fs::read_to_string(&journal).unwrap();
    let last = text.lines().next_back().unwrap();
    let hash = trumanfs::journal::ChainLink::of(last.as_bytes());
    let seq = serde_json::from_str::<Value>(last).unwrap()["seq"]
        .as_u64()
        .unwrap()
        + 1;
    let line = format!(
        "{{\"v\":1,\"seq\":{seq},\"time\":\"2026-01-16T10:15:30.000000Z\",\"op\":\"mkdir\",\"path\":\"/never\",\"mode\":493,\"prev\":\"{hash}\"}}\n"
    );
    fs::write(&journal, text + &line).unwrap();
    home.mount_again();
    let first = journal
        .parent()
        .unwrap()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap();
    let shown = ok(home.home(), &["show"], &[&format!("{first}:{seq}")]);
    assert!(
        shown.contains("it did not happen: the daemon ended before it was done"),
        "{shown}"
    );
    assert!(!shown.contains("to undo"), "{shown}");
}

// ── diff ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

/// A home with something in it before the session begins, and a bit of everything done to it.
fn busy() -> Home {
    let home = Home::prepared(
        |store| {
            fs::write(store.join("text"), "one\ntwo\nthree\n").unwrap();
            fs::write(store.join("bin"), vec![7; 5000]).unwrap();
            fs::write(store.join("mode"), "m").unwrap();
            fs::write(store.join("moved"), "r").unwrap();
            fs::write(store.join("same"), "s").unwrap();
            fs::create_dir_all(store.join("old/sub")).unwrap();
            fs::write(store.join("old/sub/f"), "x\n").unwrap();
            fs::create_dir(store.join("dir")).unwrap();
            fs::write(store.join("dir/in it"), "y\n").unwrap();
        },
        &[],
    );
    home.sh("sed -i s/two/2/ text; printf '\\0abc' | dd of=bin conv=notrunc bs=1 seek=50 status=none; chmod 755 mode
mv moved renamed; rm -r old; mv dir other; echo more >>'other/in it'; mkdir new; echo a >new/a; printf 'no newline' >new/b
echo t >tmp; rm tmp; chmod 600 same; chmod 644 same; touch same; echo z >z; rm z; mkdir z");
    home
}

const BUSY: &str = "M  /bin  4.9 KiB, other content
M  /mode  mode 644 → 755
A  /new/
A  /new/a  2 bytes
A  /new/b  10 bytes
D  /old/
D  /old/sub/
D  /old/sub/f  2 bytes
R  /dir/ → /other/
M  /other/in it  2 bytes → 7 bytes
R  /moved → /renamed
M  /text  14 bytes → 12 bytes
A  /z/
";

#[test]
fn a_session_is_told_by_what_differs() {
    need_mount!();
    everywhere(busy(), |target| {
        let first = objects(target, &["session", "list"], &[])[0]["session"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(expect(1, target, &["diff"], &[&format!("{first}..")]), BUSY);
        let names = expect(
            1,
            target,
            &["diff"],
            &["--name-only", &format!("{first}..now"), "/new"],
        );
        assert_eq!(names, "/new\n/new/a\n/new/b\n");
        // What was moved out of a path differs there too.
        let moved = expect(1, target, &["diff"], &[&format!("{first}.."), "moved"]);
        assert_eq!(moved, "R  /moved → /renamed\n");
        let output = run(target, &["diff"], &[&format!("{first}.."), "--json"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let changes: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(changes.len(), BUSY.lines().count());
        assert_eq!(
            (&changes[0]["status"], &changes[0]["content"]),
            (&"modified".into(), &true.into())
        );
        assert_eq!(
            (&changes[1]["before"]["mode"], &changes[1]["after"]["mode"]),
            (&0o644.into(), &0o755.into())
        );
        assert_eq!(
            (&changes[8]["from"], &changes[8]["path"]),
            (&"/dir".into(), &"/other".into())
        );
        let stat = expect(1, target, &["diff"], &["--stat", &format!("{first}..")]);
        for line in [
            " /text             |     2 +-\n",
            " /bin              | binary",
            " 8 files differ, 4 lines added, 2 lines removed",
        ] {
            assert!(stat.contains(line), "no {line:?} in {stat}");
        }
        assert_eq!(ok(target, &["diff"], &[&format!("{first}..{first}")]), "");
    });
}

#[test]
fn a_patch_taken_back_gives_the_start() {
    need_mount!();
    let home = Home::prepared(
        |store| {
            fs::write(store.join("a"), "1\r2\n\n3\n".repeat(20)).unwrap();
            fs::write(store.join("gone \"x\"\tñ"), "no newline").unwrap();
            fs::write(store.join("empty"), "").unwrap();
            fs::write(store.join("mode"), "m\n").unwrap();
            fs::write(store.join("moved"), "a\nb\nc\nd\n").unwrap();
        },
        &[],
    );
    let copy = |name: &str| {
        let at = home.base().join(name);
        home.sh(&format!("cp -r . {}", at.display()));
        at
    };
    let (start, end) = (copy("start"), String::from("end"));
    home.sh("sed -i '7s/.*/seven/; 30d' a; rm gone*; rm empty; chmod 755 mode; mv moved 'to here'; echo e >>'to here'; printf n >\"$(printf 'odd\\377\\nname')\"; : >'new empty'");
    let end = copy(&end);
    let patch = expect(1, home.home(), &["diff"], &["--patch"]);
    let file = home.base().join("patch");
    fs::write(&file, patch).unwrap();
    let git = |args: &[&str], at: &Path| {
        let mut git = Command::new("git");
        git.args(args)
            .arg(&file)
            .current_dir(at)
            .env("GIT_CEILING_DIRECTORIES", home.base());
        let output = run_limited(git, Duration::from_secs(60));
        assert!(output.status.success(), "{args:?}: {}", describe(&output));
    };
    let same = |one: &Path, other: &Path| {
        let mut diff = Command::new("diff");
        diff.args(["-r", "--no-dereference"]).args([one, other]);
        let output = run_limited(diff, Duration::from_secs(60));
        assert!(output.status.success(), "{}", describe(&output));
    };
    let third = copy("third");
    git(&["apply", "-R"], &end);
    same(&end, &start);
    git(&["apply"], &start);
    same(&start, &third);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(
        fs::metadata(start.join("mode"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o755
    );
}

#[test]
fn points_in_the_middle_are_compared() {
    need_mount!();
    let home = Home::mount();
    home.sh("echo 1 >a");
    let first = home.journal().last().unwrap()["seq"].to_string();
    home.sh("echo 22 >a; mkdir d; echo x >d/f");
    let second = home.journal().last().unwrap()["seq"].to_string();
    home.sh("rm -r d; echo 333 >a");
    let diff = |range: &str| expect(1, home.store(), &["diff"], &[range]);
    assert_eq!(
        diff(&format!("{first}..{second}")),
        "M  /a  2 bytes → 3 bytes\nA  /d/\nA  /d/f  2 bytes\n"
    );
    assert_eq!(
        diff(&format!("{second}..")),
        "M  /a  3 bytes → 4 bytes\nD  /d/\nD  /d/f  2 bytes\n"
    );
    assert_eq!(diff(&format!("..{first}")), "A  /a  2 bytes\n");
    assert_eq!(diff("-1h.."), "A  /a  4 bytes\n");
    assert_eq!(
        expect(
            1,
            home.store(),
            &["diff"],
            &["-1h..now", "/a", "--name-only"]
        ),
        "/a\n"
    );
    expect(2, home.store(), &["diff"], &[&format!("{second}..{first}")]);
    expect(3, home.store(), &["diff"], &["nosuch.."]);
    expect(2, home.store(), &["diff"], &["--stat", "--patch"]);
}

#[test]
fn a_terminal_does_not_obey_what_a_file_says() {
    need_mount!();
    need_tools!("script");
    let home = Home::mount();
    fs::write(home.path("evil"), "\u{1b}]0;owned\u{7}\tx\\n\n").unwrap();
    let mut script = Command::new("script");
    let line = format!(
        "{} diff --patch {}",
        crate::common::binary(),
        home.store().display()
    );
    script
        .args(["-qec", &line, "/dev/null"])
        .env("TRUMANFS_PAGER", "")
        .env("NO_COLOR", "1");
    let output = run_limited(script, Duration::from_secs(60));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("+\\x1b]0;owned\\x07\tx\\n"), "{text:?}");
    assert!(!text.contains("\u{1b}]0"), "{text:?}");
    // Whatever else reads gets the bytes.
    assert!(expect(1, home.store(), &["diff"], &["--patch"]).contains("\u{1b}]0;owned"));
}

// ── versions and cat ────────────────────────────────────────────────────────────────────────────────────────────────────────

/// Without passthrough an open that empties is recorded as an open and a cut, with one copy for both: one content, told once.
#[test]
fn what_was_emptied_is_one_former_content() {
    need_mount!();
    for options in [&[][..], &["--no-passthrough"]] {
        let home = Home::with(options);
        home.sh("echo one > f; echo three > f");
        let found = objects(home.store(), &["versions"], &["/f"]);
        assert_eq!(found.len(), 1, "{options:?}: {found:?}");
        assert_eq!(found[0]["size"], 4);
        assert_eq!(found[0]["op"], "truncate");
        let before = found[0]["until"].as_str().unwrap().to_owned();
        let undone = trumanfs(&["undo".as_ref(), home.home().as_os_str(), before.as_ref()]);
        assert!(undone.status.success(), "{}", describe(&undone));
        assert_eq!(fs::read(home.path("f")).unwrap(), b"one\n");
    }
}

#[test]
fn each_former_content_is_listed_and_its_command_gives_it() {
    need_mount!();
    let home = Home::prepared(|store| fs::write(store.join("f"), "zero\n").unwrap(), &[]);
    let contents = ["zero\n", "one\n", "one\nmore\n", "by rename\n", "over it\n"];
    home.sh("echo one >f; echo more >>f; echo yet >>f; echo by rename >g; mv g f; python3 -c 'open(\"f\",\"r+\").write(\"over it\\n\")'; truncate -s 8 f; rm f; mkdir f; rmdir f; echo last >f");

    everywhere(home, |target| {
        let found = objects(target, &["versions"], &["/f"]);
        let mut former: Vec<String> = Vec::new();
        for version in &found {
            let at = version["at"].as_str().unwrap();
            let content = ok(target, &["cat"], &["/f", "--at", at]);
            assert_eq!(version["size"], content.len(), "{version}");
            former.push(content);
        }
        former.reverse();
        for content in contents {
            assert!(
                former.iter().any(|f| f == content),
                "no {content:?} in {former:?}"
            );
        }
        assert_eq!(ok(target, &["cat"], &["f"]), "last\n");
        let text = ok(target, &["versions"], &["/f"]);
        assert!(text.starts_with("/f  5 bytes now\n"), "{text}");
        assert_eq!(text.lines().count(), 1 + 2 * found.len());
        for word in [
            "kept: the file itself",
            "kept: its length",
            "in the trash: ",
            "by rm[",
        ] {
            assert!(text.contains(word), "no {word:?} in {text}");
        }
    });
}

#[test]
fn what_cannot_be_had_is_said_so() {
    need_mount!();
    let mut home = Home::prepared(|store| fs::write(store.join("f"), "zero\n").unwrap(), &[]);
    home.sh("echo one >f; mkdir d; echo n >never-changed; echo r >r; rm r");
    expect(3, home.store(), &["cat"], &["/nosuch"]);
    expect(3, home.store(), &["cat"], &["/r"]);
    expect(3, home.store(), &["versions"], &["/nosuch"]);
    expect(1, home.store(), &["versions"], &["/never-changed"]);
    expect(6, home.store(), &["versions"], &["/d"]);
    expect(6, home.store(), &["cat"], &["/d"]);
    assert_eq!(
        ok(home.store(), &["cat"], &["/f", "--at", "last"]),
        "zero\n"
    );
    home.umount();
    // A version that somebody deleted is told, by each verb, and nothing is made up.
    let versions = journals(home.store())[0].with_file_name("versions");
    fs::remove_dir_all(&versions).unwrap();
    let output = run(home.store(), &["cat"], &["/f", "--at", "last"]);
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(3), 0),
        "{}",
        describe(&output)
    );
    let lost = objects(home.store(), &["versions"], &["/f"]);
    assert!(lost[0]["lost"].is_string(), "{lost:?}");
    assert!(ok(home.store(), &["versions"], &["/f"]).contains("lost: "));
    let output = run(home.store(), &["diff"], &["--patch"]);
    assert_eq!(output.status.code(), Some(5), "{}", describe(&output));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("/f: "),
        "{}",
        describe(&output)
    );
    let seq = seq_of(&home, |r| r["kept"].is_object());
    assert!(ok(home.store(), &["show"], &[&seq]).contains("not there any more"));
}

#[test]
fn a_damaged_journal_gives_no_past() {
    need_mount!();
    let mut home = Home::prepared(|store| fs::write(store.join("f"), "zero\n").unwrap(), &[]);
    home.sh("echo one >f; echo a >a; echo two >f; echo b >b");
    home.umount();
    let journal = &journals(home.store())[0];
    let whole = fs::read_to_string(journal).unwrap();
    // Another name, as long as the true one, so that the line is a record all the same.
    let damage = whole.replacen("\"path\":\"/a\"", "\"path\":\"/x\"", 1);
    assert_ne!(damage, whole);
    fs::write(journal, damage).unwrap();
    for (verb, args) in [
        ("diff", &[][..]),
        ("versions", &["/f"]),
        ("cat", &["/f", "--at", "last"]),
    ] {
        let output = run(home.store(), &[verb], args);
        assert_eq!(
            output.status.code(),
            Some(7),
            "{verb}: {}",
            describe(&output)
        );
        assert!(output.stdout.is_empty(), "{verb}: {}", describe(&output));
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("does not follow"),
            "{verb}: {}",
            describe(&output)
        );
    }
    // What came after the damage can be had.
    let last = serde_json::from_str::<Value>(whole.lines().next_back().unwrap()).unwrap()["seq"]
        .as_u64()
        .unwrap();
    assert_eq!(
        ok(home.store(), &["cat"], &["/f", "--at", &last.to_string()]),
        "two\n"
    );
}

/// Sessions are told in the order of their ids, and those begin with the time. A clock that was put back must not make a
/// new session an old one: an undo would go through them in the wrong order, and a crash would not be settled.
#[test]
fn a_clock_that_was_put_back_changes_no_order() {
    need_mount!();
    let mut home = Home::mount();
    home.sh("echo first >f");
    home.umount();
    // As if the first session had begun under a clock that was far ahead.
    let sessions = home.store().join(".trumanfs/sessions");
    let name = fs::read_dir(&sessions).unwrap().next().unwrap().unwrap();
    let old = name.file_name().into_string().unwrap();
    let ahead = format!("2999{}", &old[4..]);
    fs::rename(sessions.join(&old), sessions.join(&ahead)).unwrap();
    let lock = home.store().join(".trumanfs/lock");
    let text = fs::read_to_string(&lock).unwrap();
    assert!(text.contains(&old));
    fs::write(&lock, text.replace(&old, &ahead)).unwrap();

    home.mount_again();
    home.sh("echo second >>f; rm f");
    home.kill_daemon();
    let said = home.mount_again();
    home.umount();
    let mut listed: Vec<_> = fs::read_dir(&sessions)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    listed.sort();
    assert_eq!((listed.len(), &listed[0]), (3, &ahead), "{said:?}");
    let ended = |session: &str| {
        let journal = fs::read_to_string(sessions.join(session).join("journal.jsonl")).unwrap();
        let mut last = journal.lines().rev();
        last.next().unwrap().contains("\"op\":\"seal\"")
            && last.next().unwrap().contains("\"op\":\"end\"")
    };
    assert!(
        listed.iter().all(|session| ended(session)),
        "one was not settled"
    );
    let undone = trumanfs(&[
        OsStr::new("undo"),
        home.store().as_os_str(),
        OsStr::new("--session"),
        OsStr::new(&listed[1]),
    ]);
    assert!(undone.status.success(), "{}", describe(&undone));
    assert_eq!(
        fs::read_to_string(home.store().join("f")).unwrap(),
        "first\n"
    );
}

#[test]
fn a_redo_by_the_run_of_an_undo() {
    let store = tempfile::tempdir().unwrap();
    let store = store.path();
    let exec = |line: &str| {
        let root = store.to_str().unwrap();
        let output = trumanfs(&["exec", "--json", "--root", root, "--", line]);
        assert!(output.status.success(), "{}", describe(&output));
        let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
        outcome["run"].as_str().unwrap().to_owned()
    };
    let undo = |run: &str| {
        let done = objects(store, &["undo"], &["--run", run]);
        done[0]["run"].as_str().unwrap().to_owned()
    };
    let (one, two) = (exec("touch one"), exec("touch two"));
    let (of_one, of_two) = (undo(&one), undo(&two));
    let there = |name: &str| store.join(name).exists();
    assert!(!there("one") && !there("two"));
    // Not the last undo but the one before.
    ok(store, &["redo"], &["--run", &of_one]);
    assert!(there("one") && !there("two"));
    // Once more is the same.
    run(store, &["redo"], &["--run", &of_one]);
    assert!(there("one") && !there("two"));
    ok(store, &["redo"], &["--run", "last"]);
    assert!(there("one") && there("two"));
    for no_undo in [&one, &two] {
        expect(6, store, &["redo"], &["--run", no_undo]);
    }
    expect(3, store, &["redo"], &["--run", "00000000none"]);
    expect(3, store, &["redo"], &["--run", &of_two.to_uppercase()]);
    assert!(there("one") && there("two"));
}

/// Two runs at once, one of which changes what the other changes: their differences are the same, and said to be.
#[test]
fn a_diff_of_a_run_says_where_others_had_a_hand_in_it() {
    use trumanfs::exec::shell::Shell;
    use trumanfs::exec::{Limits, StoreAccess, open, pipeline};
    let store = tempfile::tempdir().unwrap();
    let place = open(store.path(), &StoreAccess::default()).unwrap();
    let mut first = Shell::at(place.clone(), Limits::default());
    let mut second = Shell::at(place.clone(), Limits::default());
    assert_eq!(first.run(b"mkdir d; echo 0 > f").return_code, 0);
    let (reader, writer) = std::io::pipe().unwrap();
    let around = std::thread::scope(|scope| {
        let around = scope.spawn(|| {
            let request = first.request(b"touch d/a; echo 1 > f; cat; touch d/b");
            pipeline::execute_gathering(&mut first, &request, Some(reader.into()))
        });
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while fs::read(store.path().join("f")).unwrap() != b"1\n" {
            assert!(
                std::time::Instant::now() < end,
                "the first line does not begin"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(second.run(b"touch d/c").return_code, 0);
        assert_eq!(second.run(b"echo 2 > f").return_code, 0);
        drop(writer);
        around.join().unwrap().0
    });
    let alone = first.run(b"touch e");
    drop((first, second, place));
    let said = |run: String| {
        let output = run_diff(store.path(), &run);
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said(around.run.to_string()).contains("others changed"));
    assert_eq!(said(alone.run.to_string()), "");
}

fn run_diff(store: &Path, of: &str) -> Output {
    let output = run(store, &["diff"], &["--run", of]);
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    output
}
