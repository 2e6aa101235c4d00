//! `usage`: what takes space in a store, and what the kept part of it belongs to.
//!
//! The sizes are held against du(1), the shares against the sizes: each list has all of what is kept, but for what no
//! record names.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use trumanfs::journal::ChainLink;

use crate::common::{
    Home, binary, copy_program, describe, need_mount, need_root, run_limited, trumanfs,
};

#[track_caller]
fn usage(target: &Path, more: &[&str], code: i32) -> Output {
    let target = target.to_str().unwrap();
    let output = trumanfs(&[&["usage", target], more].concat());
    assert_eq!(output.status.code(), Some(code), "{}", describe(&output));
    output
}

#[track_caller]
fn object(target: &Path, more: &[&str]) -> Value {
    let output = usage(target, &[more, &["--json"]].concat(), 0);
    let usage = serde_json::from_slice(&output.stdout).unwrap();
    sums_are_whole(&usage);
    usage
}

#[track_caller]
fn text(target: &Path, more: &[&str]) -> String {
    String::from_utf8(usage(target, more, 0).stdout).unwrap()
}

/// Each list makes up the trash and the former contents, with what no record names; the largest come first.
#[track_caller]
fn sums_are_whole(usage: &Value) {
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap();
    for list in ["directories", "programs", "runs", "ages"] {
        let rows = usage[list].as_array().unwrap();
        for part in ["trash", "versions"] {
            let sum: u64 = rows.iter().map(|row| number(row, part)).sum();
            let rest = number(&usage["unrecorded"], part);
            let whole = number(&usage[part], "disk");
            assert_eq!(sum + rest, whole, "{part} by {list}: {usage}");
        }
        let size = |row: &Value| number(row, "trash") + number(row, "versions");
        let is_sorted = rows.windows(2).all(|two| size(&two[0]) >= size(&two[1]));
        assert!(is_sorted || list == "ages", "{list}: {usage}");
    }
    let parts = ["live", "trash", "versions", "journals", "other"];
    let sum: u64 = parts.iter().map(|part| number(&usage[part], "disk")).sum();
    assert_eq!(sum, number(usage, "total"));
    let file_system = &usage["file_system"];
    assert!(number(file_system, "size") >= number(file_system, "free"));
}

#[track_caller]
fn du(paths: &[&Path]) -> u64 {
    let mut command = Command::new("du");
    command.args(["-s", "-c", "--block-size=1", "--"]);
    let output = command.args(paths).output().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let total = text.lines().last().unwrap().split('\t').next().unwrap();
    total.parse().unwrap()
}

#[track_caller]
fn versions_du(store: &Path) -> u64 {
    let sessions = fs::read_dir(store.join(".trumanfs/sessions")).unwrap();
    let dirs = sessions.map(|session| session.unwrap().path().join("versions"));
    let dirs: Vec<_> = dirs.filter(|dir| dir.exists()).collect();
    du(&dirs
        .iter()
        .map(std::path::PathBuf::as_path)
        .collect::<Vec<_>>())
}

/// Waits until no former content changes any more.
fn settle(home: &Home) {
    for _ in 0..1200 {
        if home.status().unwrap()["not_final"] == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("versions do not become final");
}

/// Returns the row of a list that has this value.
#[track_caller]
fn row<'u>(usage: &'u Value, list: &str, field: &str, value: &str) -> &'u Value {
    let rows = usage[list].as_array().unwrap();
    let found = rows.iter().find(|row| row[field] == value);
    found.unwrap_or_else(|| panic!("no {field} {value:?} in {rows:?}"))
}

#[test]
fn sizes_are_those_of_du() {
    need_mount!();
    let mut home = Home::mount();
    home.sh(
        "mkdir -p d/e m; head -c 300000 /dev/urandom >d/e/big; echo 1 >d/f; rm -r d
         head -c 70000 /dev/urandom >m/a; ln m/a m/b; rm m/a m/b
         for i in 1 2 3; do head -c 50000 /dev/urandom >m/f; done; echo more >>m/f
         truncate -s 1M m/sparse",
    );
    settle(&home);
    for target in [home.home(), home.store()] {
        let usage = object(target, &[]);
        let disk = |part: &str| usage[part]["disk"].as_u64().unwrap();
        assert_eq!(
            disk("trash"),
            du(&[&home.store().join(".trash")]),
            "{usage}"
        );
        assert_eq!(disk("versions"), versions_du(home.store()), "{usage}");
        // The link beside it is no other file; the list for git is one.
        assert_eq!(usage["trash"]["files"], 4, "{usage}");
        assert!(
            usage["live"]["size"].as_u64().unwrap() >= 1 << 20,
            "{usage}"
        );
        assert!(disk("live") < 1 << 20, "{usage}");
    }
    // What is still there under another name takes no space in the trash.
    let before = object(home.store(), &[]);
    home.sh("head -c 500000 /dev/urandom >m/there; ln m/there m/gone; rm m/gone");
    home.umount();
    let usage = object(home.store(), &[]);
    let grown = |part: &str| {
        let disk = |usage: &Value| usage[part]["disk"].as_u64().unwrap();
        disk(&usage) - disk(&before)
    };
    assert!(
        grown("live") >= 500_000 && grown("trash") < 100_000,
        "{usage}"
    );
    assert_eq!(usage["total"], du(&[home.store()]), "{usage}");
}

#[test]
fn kept_things_belong_to_directory_program_run_and_day() {
    need_mount!();
    let mut home = Home::mount();
    home.sh(
        "mkdir -p target/debug src; head -c 400000 /dev/urandom >target/debug/lib
         rm -r target; head -c 90000 /dev/urandom >top; rm top
         head -c 60000 /dev/urandom >src/f; head -c 60000 /dev/urandom >src/f",
    );
    let at = home.home().to_str().unwrap();
    let line = "mkdir out; cp src/f out/f; rm -r out";
    let done = trumanfs(&["exec", "--root", at, line]);
    assert!(done.status.success(), "{}", describe(&done));
    settle(&home);
    for mounted in [true, false] {
        let target = match mounted {
            true => home.home().to_owned(),
            false => {
                home.umount();
                home.store().to_owned()
            }
        };
        let usage = object(&target, &[]);
        let trash = |row: &Value| row["trash"].as_u64().unwrap();
        assert_eq!(usage["directories"][0]["path"], "/target");
        let of_dir = |path: &str| row(&usage, "directories", "path", path);
        assert!(trash(of_dir("/target")) >= 400_000);
        assert!((90_000..200_000).contains(&trash(of_dir("/"))));
        assert!(of_dir("/src")["versions"].as_u64().unwrap() >= 60_000);
        let rm = row(&usage, "programs", "comm", "rm");
        assert!(trash(rm) >= 490_000 && rm["exe"].as_str().unwrap().starts_with('/'));
        let run = row(&usage, "runs", "command", line);
        assert_eq!(run["kind"], "shell");
        assert!((60_000..120_000).contains(&trash(run)), "{run}");
        assert!(trash(&usage["ages"][0]) >= 490_000, "{usage}");
        assert_eq!(usage["ages"][3]["age"], "older");
        let shown = text(&target, &[]);
        let id = run["run"].as_str().unwrap();
        assert!(shown.contains(&format!("shell {id}  {line}")), "{shown}");
        assert!(
            shown.contains("  today\n") && !shown.contains("older"),
            "{shown}"
        );
        let deeper = object(&target, &["--depth", "2"]);
        row(&deeper, "directories", "path", "/out");
        assert_eq!(deeper["depth"], 2);
    }
    // A store that nobody has mounted, and a run that nobody has mounted it for.
    let store = home.store().to_str().unwrap();
    let line = "mkdir -p a/b/c; cp src/f a/b/c/f; rm a/b/c/f";
    let done = trumanfs(&["exec", "--root", store, line]);
    assert!(done.status.success(), "{}", describe(&done));
    let usage = object(home.store(), &["--depth", "2"]);
    row(&usage, "runs", "command", line);
    assert!(row(&usage, "directories", "path", "/a/b")["trash"].as_u64() >= Some(60_000));
}

#[test]
fn tables_have_ten_rows_unless_all_are_asked_for() {
    need_mount!();
    let home = Home::mount();
    home.sh("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do mkdir d$i; head -c ${i}000 /dev/urandom >d$i/f; rm d$i/f; done");
    let rows = |text: &str| text.lines().filter(|line| line.contains("  /d")).count();
    let short = text(home.home(), &[]);
    assert_eq!(rows(&short), 10, "{short}");
    assert!(short.contains("… and 2 more (--all lists them)"), "{short}");
    let long = text(home.home(), &["--all"]);
    assert_eq!(rows(&long), 12, "{long}");
    assert!(!long.contains("more"), "{long}");
    let usage = object(home.home(), &[]);
    assert_eq!(usage["directories"].as_array().unwrap().len(), 12);
    let output = trumanfs(&["usage", home.home().to_str().unwrap(), "--depth", "0"]);
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
}

#[test]
fn hostile_names_and_commands_are_escaped() {
    need_mount!();
    let home = Home::mount();
    home.sh("d=$(printf 'a\\nb\\033[2J\\377'); mkdir \"$d\"; head -c 9000 /dev/urandom >\"$d/f\"; rm \"$d/f\"");
    let line = "mkdir x; echo y >x/f; rm x/f; echo '\x1b[2J\u{202e}'";
    let done = trumanfs(&["exec", "--root", home.home().to_str().unwrap(), line]);
    assert!(done.status.success(), "{}", describe(&done));
    let shown = text(home.home(), &["--all"]);
    assert!(shown.contains("  /a\\x0ab\\x1b[2J\\xff\n"), "{shown}");
    assert!(
        shown.contains("rm x/f; echo '\\u{1b}[2J\\u{202e}'\n"),
        "{shown}"
    );
    let is_plain = |c: char| c == '\n' || !c.is_control() && c != '\u{202e}';
    assert!(shown.chars().all(is_plain), "{shown:?}");
    let usage = object(home.home(), &[]);
    row(&usage, "directories", "path", "/a\\x0ab\\x1b[2J\\xff");
}

#[test]
fn nothing_kept_is_an_answer_too() {
    need_mount!();
    let mut home = Home::prepared(|store| fs::write(store.join("f"), "here").unwrap(), &[]);
    for mounted in [true, false] {
        if !mounted {
            home.umount();
        }
        let usage = object(home.store(), &[]);
        assert_eq!(
            (&usage["live"]["files"], &usage["live"]["size"]),
            (&1.into(), &4.into())
        );
        for list in ["directories", "programs", "runs"] {
            assert_eq!(usage[list], Value::Array(Vec::new()), "{usage}");
        }
        let shown = text(home.store(), &[]);
        assert!(
            shown.contains("live files") && shown.contains("1 file, 4 bytes long"),
            "{shown}"
        );
        assert!(!shown.contains("by directory"), "{shown}");
    }
}

#[test]
fn damaged_journal_is_named_and_the_rest_shown() {
    need_mount!();
    let mut home = Home::mount();
    home.sh("mkdir d; head -c 50000 /dev/urandom >d/f; rm d/f");
    home.remount();
    home.sh("mkdir e; head -c 70000 /dev/urandom >e/f; rm e/f");
    home.umount();
    let sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
    let mut sessions: Vec<_> = sessions.map(|session| session.unwrap().path()).collect();
    sessions.sort();
    let journal = sessions[0].join("journal.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    fs::write(
        &journal,
        whole.replacen("\"path\":\"/d\"", "\"path\":\"/x\"", 1),
    )
    .unwrap();
    let output = usage(home.store(), &["--json"], 5);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    sums_are_whole(&found);
    assert!(
        found["problems"][0]
            .as_str()
            .unwrap()
            .contains("does not follow")
    );
    assert!(row(&found, "directories", "path", "/e")["trash"].as_u64() >= Some(70_000));
    assert!(
        found["unrecorded"]["trash"].as_u64() >= Some(50_000),
        "{found}"
    );
    let output = usage(home.store(), &[], 5);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("does not follow"), "{said}");
}

/// Puts the records of a session so many days back, as of another boot, so that their chain holds. The seals go.
fn put_back(session: &Path, days: i64) {
    let then = chrono::Utc::now() - chrono::TimeDelta::days(days);
    let then = then.format("\"time\":\"%Y-%m-%dT").to_string();
    let journal = session.join("journal.jsonl");
    let (mut whole, mut prev) = (String::new(), "0".repeat(16));
    let text = fs::read_to_string(&journal).unwrap();
    let is_record = |line: &&str| !line.contains("\"op\":\"seal\"");
    for line in text.lines().filter(is_record) {
        let at = line.find("\"time\":\"").unwrap();
        let line = line.replacen(&line[at..at + then.len()], &then, 1);
        let line = line.replacen("\"boot\":\"", "\"boot\":\"before-", 1);
        let (record, rest) = line.rsplit_once("\"prev\":\"").unwrap();
        let line = format!("{record}\"prev\":\"{prev}{}", &rest[16..]);
        prev = ChainLink::of(line.as_bytes()).to_string();
        whole.push_str(&line);
        whole.push('\n');
    }
    fs::write(journal, whole).unwrap();
}

#[test]
fn kept_things_are_as_old_as_their_records() {
    let store = tempfile::tempdir().unwrap();
    for name in ["4", "3", "2", "1"] {
        let size: usize = name.parse().unwrap();
        fs::write(store.path().join(name), vec![b'x'; size * 100_000]).unwrap();
        let at = store.path().to_str().unwrap();
        let done = trumanfs(&["exec", "--root", at, &format!("rm {name}")]);
        assert!(done.status.success(), "{}", describe(&done));
    }
    let sessions = fs::read_dir(store.path().join(".trumanfs/sessions")).unwrap();
    let mut sessions: Vec<_> = sessions.map(|session| session.unwrap().path()).collect();
    sessions.sort();
    for (session, days) in sessions.iter().zip([40, 10, 3]) {
        put_back(session, days);
    }
    let usage = object(store.path(), &[]);
    let ages = usage["ages"].as_array().unwrap();
    for ((row, age), size) in ages
        .iter()
        .zip(["today", "week", "month", "older"])
        .zip([1, 2, 3, 4])
    {
        assert_eq!(row["age"], age, "{usage}");
        let trash = row["trash"].as_u64().unwrap();
        assert!(
            (size * 100_000..size * 100_000 + 9000).contains(&trash),
            "{age}: {usage}"
        );
    }
    let shown = text(store.path(), &[]);
    for age in [
        "  today\n",
        "  last 7 days\n",
        "  last 30 days\n",
        "  older\n",
    ] {
        assert!(shown.contains(age), "{shown}");
    }
}

#[test]
fn directory_of_another_user_is_named_and_the_rest_shown() {
    need_root!("to make another user's directory");
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("trumanfs");
    copy_program(binary(), &program);
    for path in [dir.path(), &program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    std::os::unix::fs::chown(&store, Some(65534), Some(65534)).unwrap();
    let ask = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        command.arg(&program).args(words).current_dir("/");
        run_limited(command, Duration::from_secs(20))
    };
    let at = store.to_str().unwrap();
    let done = ask(&[
        "exec",
        "--root",
        at,
        "mkdir own; echo 12345 >own/f; echo x >g; rm g",
    ]);
    assert!(done.status.success(), "{}", describe(&done));
    // One's own directory that one has closed to oneself is read.
    fs::set_permissions(store.join("own"), fs::Permissions::from_mode(0o0)).unwrap();
    fs::create_dir(store.join("closed")).unwrap();
    fs::set_permissions(store.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    let output = ask(&["usage", at, "--json"]);
    assert_eq!(output.status.code(), Some(5), "{}", describe(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    sums_are_whole(&found);
    assert_eq!(found["live"]["size"], 6, "{found}");
    let problems = found["problems"].as_array().unwrap();
    let only = problems[0].as_str().unwrap();
    assert!(
        problems.len() == 1 && only.starts_with("what is in /closed is not counted"),
        "{only}"
    );
    let mode = fs::metadata(store.join("own"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0);
}

/// What lies in directories that are made again by their makers counts by their names, too.
#[test]
fn directories_of_what_can_be_made_again() {
    need_mount!();
    let mut home = Home::mount();
    home.sh(
        "mkdir -p a/target/x b/target src; head -c 50000 /dev/urandom >a/target/x/f
         head -c 9000 /dev/urandom >b/target/f; head -c 9000 /dev/urandom >src/f
         rm -r a/target; rm b/target/f src/f",
    );
    home.umount();
    let usage = object(home.store(), &[]);
    let target = row(&usage, "made_again", "name", "target");
    let all = usage["trash"]["disk"].as_u64().unwrap();
    let there = target["trash"].as_u64().unwrap();
    assert!(there > 59_000 && there < all - 9000, "{usage}");
    assert!(text(home.store(), &[]).contains("target/"));
}
