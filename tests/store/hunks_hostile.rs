//! Rejecting hunks where everything is against it: an agent that writes meanwhile, two operators at once, purged contents,
//! damaged and old journals, other users' files, and files of many lines and records.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::common::{
    Home, binary, copy_program, describe, need_mount, need_root, run_limited, trumanfs,
};
use crate::review::{done, listed, run};

const HUNKS: usize = 20;

/// A text of 500 lines, in which each 25th is another word.
fn lines(word: &str) -> String {
    lines_but(word, |_| false)
}

/// The same, with some of these lines as they were.
fn lines_but(word: &str, is_back: impl Fn(usize) -> bool) -> String {
    let line = |n: usize| match n % 25 {
        12 if is_back(n / 25 + 1) => format!("was {n}\n"),
        12 => format!("{word} {n}\n"),
        _ => format!("{n}\n"),
    };
    (0..HUNKS * 25).map(line).collect()
}

/// A home in which a run has changed these lines.
fn changed(options: &[&str]) -> (Home, String) {
    let files = |store: &Path| {
        fs::write(store.join("a"), lines("was")).unwrap();
        fs::write(store.join("new"), lines("is")).unwrap();
    };
    let home = Home::prepared(files, options);
    let ours = run(&home, "cat new > a");
    (home, ours)
}

/// Rejects one hunk after the other, each as often as it takes, while a program works in the home.
fn one_by_one(home: &Home, ours: &str, program: &[&str]) -> String {
    let at = home.home().to_str().unwrap();
    let mut child = Command::new(program[0])
        .args(&program[1..])
        .current_dir(home.home())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let limit = Duration::from_secs(90);
    let begun = Instant::now();
    for number in (1..HUNKS).map(|number| number.to_string()) {
        loop {
            let output = trumanfs(&["reject", at, ours, "a", "--hunk", &number]);
            let said = describe(&output);
            match output.status.code() {
                Some(0) => break,
                Some(4) => assert!(said.contains("looked at"), "{said}"),
                _ => panic!("{said}"),
            }
            if begun.elapsed() > limit || child.try_wait().unwrap().is_some() {
                let _ = child.kill();
                panic!("{}: {said}", describe(&child.wait_with_output().unwrap()));
            }
        }
    }
    fs::write(home.path("stop"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Lines that were added between the look at a file and its edit were in the version only.
#[test]
fn what_an_agent_adds_meanwhile_stays() {
    need_mount!();
    need_root!(
        "for passthrough: without it the kernel has a size of its own of what is being opened"
    );
    let (home, ours) = changed(&[]);
    let script =
        "i=0; while [ ! -e stop ]; do i=$((i+1)); echo added $i >> a; sleep 0.01; done; echo $i";
    let count = one_by_one(&home, &ours, &["sh", "-euc", script]);
    let count: usize = count.trim().parse().unwrap();
    let now = fs::read_to_string(home.path("a")).unwrap();
    let is_added = |line: &&str| line.starts_with("added");
    let added: Vec<_> = now.lines().filter(is_added).collect();
    let wanted: Vec<_> = (1..=count).map(|n| format!("added {n}")).collect();
    let number = added.len();
    assert!(
        added == wanted,
        "{count} lines were added, and {number} are there"
    );
    let text = lines_but("is", |hunk| hunk < HUNKS);
    assert_eq!(now.split("added").next().unwrap(), text);
}

/// An agent that saves as editors do never finds a line of its own gone.
#[test]
fn what_an_agent_saves_meanwhile_stays() {
    need_mount!();
    let script = r#"
import os
last = 0
while not os.path.exists("stop"):
    text = open("a").read()
    at = text.rfind("counter ")
    seen = int(text[at + 8:]) if at >= 0 else 0
    assert seen == last, f"{last} was saved, and {seen} is there"
    last += 1
    with open("b", "w") as new:
        new.write((text[:at] if at >= 0 else text) + f"counter {last}\n")
    os.rename("b", "a")
    # Time for an operator to look and to edit.
    for _ in range(20):
        open("a").read(1)
"#;
    for options in [&[][..], &["--no-passthrough"]] {
        let (home, ours) = changed(options);
        let at = home.home().to_str().unwrap();
        let mut child = Command::new("python3")
            .args(["-c", script])
            .current_dir(home.home())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut ends, begun) = ([0, 0], Instant::now());
        while begun.elapsed() < Duration::from_secs(4) {
            let number = (ends[0] % (HUNKS - 1) + 1).to_string();
            let output = trumanfs(&["reject", at, &ours, "a", "--hunk", &number]);
            match output.status.code() {
                Some(0) => ends[0] += 1,
                // Saved over by the agent, which had read the file before; or in the middle of that.
                Some(3 | 6) => ends[0] += 1,
                Some(4) => ends[1] += 1,
                _ => panic!("{}", describe(&output)),
            }
            if child.try_wait().unwrap().is_some() {
                break;
            }
        }
        fs::write(home.path("stop"), "").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{options:?}: {}",
            describe(&output)
        );
        assert!(ends[0] + ends[1] > 0, "{ends:?}");
    }
}

/// Of several rejections at once, each is done or is a conflict, and each that is done holds.
#[test]
fn several_rejections_at_once_are_all_or_nothing_each() {
    need_mount!();
    for is_mounted in [true, false] {
        let (mut home, ours) = changed(&[]);
        if !is_mounted {
            home.umount();
        }
        let target = home.store().to_str().unwrap().to_owned();
        let numbers = [2_usize, 5, 9, 14];
        let start = |number: &usize| {
            Command::new(binary())
                .args([
                    "reject",
                    &target,
                    &ours,
                    "/a",
                    "--hunk",
                    &number.to_string(),
                ])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let children: Vec<_> = numbers.iter().map(start).collect();
        let ends = children.into_iter().map(|child| {
            let output = child.wait_with_output().unwrap();
            let code = output.status.code();
            assert!(matches!(code, Some(0 | 4)), "{}", describe(&output));
            code == Some(0)
        });
        let ends: Vec<bool> = ends.collect();
        assert!(ends.contains(&true), "{ends:?}");
        let is_back = |hunk| numbers.iter().zip(&ends).any(|(n, end)| *n == hunk && *end);
        let now = fs::read_to_string(home.store().join("a")).unwrap();
        assert_eq!(now, lines_but("is", is_back), "{is_mounted} {ends:?}");
        done(0, &["fsck", &target]);
    }
}

/// What was purged cannot be compared or put back: that is said, and nothing is changed.
#[test]
fn without_the_former_content_nothing_is_taken_back() {
    need_mount!();
    let (mut home, ours) = changed(&[]);
    home.umount();
    let store = home.store().to_str().unwrap();
    done(0, &["trash", "purge", store, "--all", "--versions=only"]);
    let before = home.journal().len();
    let output = trumanfs(&["reject", store, &ours, "/a", "--hunk", "1"]);
    let said = describe(&output);
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("/a: ") && said.contains("was purged"),
        "{said}"
    );
    assert_eq!(home.journal().len(), before, "{said}");
    assert_eq!(
        fs::read_to_string(home.store().join("a")).unwrap(),
        lines("is")
    );
}

/// The journal of a store's only session.
fn journal(store: &Path) -> PathBuf {
    let mut sessions = fs::read_dir(store.join(".trumanfs/sessions")).unwrap();
    sessions
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("journal.jsonl")
}

#[test]
fn a_damaged_journal_is_said_and_nothing_is_changed() {
    need_mount!();
    let (mut home, ours) = changed(&[]);
    home.umount();
    let store = home.store().to_str().unwrap();
    let journal = journal(home.store());
    let text = fs::read_to_string(&journal).unwrap();
    let content = text
        .lines()
        .find(|line| line.contains(r#""kept""#))
        .unwrap();
    for (what, damaged) in [
        (
            "a record is gone",
            text.replace(&format!("{content}\n"), ""),
        ),
        ("a line is no record", text.replace(content, "{\"v\":4,")),
        (
            "a record is another",
            text.replace(content, &content.replace("\"kept\"", "\"left\"")),
        ),
        ("zeros", text.replace(content, &"\0".repeat(content.len()))),
    ] {
        assert_ne!(damaged, text, "{what}");
        fs::write(&journal, &damaged).unwrap();
        let output = trumanfs(&["reject", store, &ours, "/a", "--hunk", "1"]);
        let said = describe(&output);
        assert!(!output.status.success(), "{what}: {said}");
        assert!(!said.contains("panicked"), "{what}: {said}");
        let now = fs::read_to_string(home.store().join("a")).unwrap();
        assert_eq!(now, lines("is"), "{what}: {said}");
        assert_eq!(fs::read_to_string(&journal).unwrap(), damaged, "{what}");
    }
    fs::write(&journal, text).unwrap();
    done(0, &["reject", store, &ours, "/a", "--hunk", "1"]);
}

/// A journal of the release before, without seals.
fn of_the_third_schema(journal: &Path) {
    let text = fs::read_to_string(journal).unwrap();
    let (mut whole, mut prev) = (String::new(), "0".repeat(64));
    for line in text
        .lines()
        .filter(|line| !line.contains("\"op\":\"seal\""))
    {
        let (record, _) = line.rsplit_once("\"prev\":\"").unwrap();
        let record = record.replacen("\"v\":6", "\"v\":3", 1);
        let line = format!("{record}\"prev\":\"{prev}\"}}");
        let hash = Sha256::digest(&line);
        prev = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        whole.push_str(&line);
        whole.push('\n');
    }
    assert!(!whole.contains("\"v\":6"));
    fs::write(journal, whole).unwrap();
}

#[test]
fn hunks_of_a_journal_of_schema_3_are_taken_back_and_accepted() {
    need_mount!();
    let (mut home, ours) = changed(&[]);
    home.umount();
    let store = home.store().to_str().unwrap().to_owned();
    of_the_third_schema(&journal(home.store()));
    done(0, &["reject", &store, &ours, "/a", "--hunk", "3"]);
    let now = || fs::read_to_string(home.store().join("a")).unwrap();
    assert_eq!(now(), lines_but("is", |hunk| hunk == 3));
    done(0, &["accept", &store, &ours, "/a", "--hunk", "4"]);
    done(3, &["reject", &store, &ours, "/a", "--hunk", "4"]);
    done(0, &["redo", &store]);
    assert_eq!(now(), lines("is"));
    home.mount_again();
    done(0, &["reject", &store, &ours, "/a", "--hunk", "20"]);
    assert_eq!(
        fs::read_to_string(home.path("a")).unwrap(),
        lines_but("is", |hunk| hunk == 20)
    );
}

/// A store of an ordinary user, a file with two names and modes that forbid writing and reading.
#[test]
fn an_ordinary_user_rejects_hunks_of_a_file_with_two_names() {
    need_mount!();
    need_root!("to become another user");
    let (mut home, ours) = changed(&[]);
    fs::hard_link(home.path("a"), home.path("second")).unwrap();
    home.umount();
    let (store, program) = (home.store().to_str().unwrap(), home.base().join("trumanfs"));
    copy_program(binary(), &program);
    let owner = |path: &str| {
        let mut chown = Command::new("chown");
        chown.args(["-R", "65534:65534", path]);
        assert!(chown.status().unwrap().success());
    };
    owner(home.base().to_str().unwrap());
    let by = |user: &str, number: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
        command.arg(&program);
        command.args(["reject", store, &ours, "/a", "--hunk", number]);
        command.current_dir("/");
        run_limited(command, Duration::from_secs(60))
    };
    for (mode, number) in [(0o644, 1), (0o400, 2), (0o000, 3)] {
        let file = home.store().join("a");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let output = by("65534", &number.to_string());
        let said = describe(&output);
        assert!(output.status.success(), "{mode:o}: {said}");
        let now = fs::read_to_string(home.store().join("second")).unwrap();
        assert_eq!(now, lines_but("is", |hunk| hunk <= number), "{said}");
        let meta = fs::metadata(&file).unwrap();
        assert_eq!(meta.permissions().mode() & 0o7777, mode);
        assert_eq!((meta.uid(), meta.nlink()), (65534, 2));
    }
    let output = by("65533", "4");
    let said = describe(&output);
    assert!(
        !output.status.success() && !said.contains("panicked"),
        "{said}"
    );
}

/// Lines end with a newline alone: what stands before it, or that there is none, is part of a line.
#[test]
fn ends_of_lines_come_back_as_they_were() {
    need_mount!();
    let cases: [(&str, &[u8], &[u8]); 6] = [
        ("crlf", b"one\r\ntwo\r\n", b"one\ntwo\n"),
        ("no end", b"one\ntwo", b"one\ntwo\n"),
        ("an end", b"one\ntwo\n", b"one\ntwo"),
        ("cr", b"one\rtwo\r", b"one\rthree\r"),
        ("latin", b"\xff\xfe\r\n", b"\xff\r\n"),
        ("emptied", b"one\ntwo", b""),
    ];
    let files = |store: &Path| {
        for (name, was, is) in cases {
            fs::write(store.join(name), was).unwrap();
            fs::write(store.join(format!("{name}.new")), is).unwrap();
        }
    };
    let home = Home::prepared(files, &[]);
    let at = home.home().to_str().unwrap();
    for (name, was, is) in cases {
        let ours = run(&home, &format!("cat '{name}.new' > '{name}'"));
        assert_eq!(fs::read(home.path(name)).unwrap(), is, "{name}");
        done(0, &["reject", at, &ours, name, "--hunk", "1"]);
        assert_eq!(fs::read(home.path(name)).unwrap(), was, "{name}");
        done(0, &["redo", at]);
        assert_eq!(fs::read(home.path(name)).unwrap(), is, "{name}");
    }
}

/// A file of more than 16 MiB, or with a zero byte at its beginning, has no hunks. One of a little less has.
#[test]
fn large_files_have_hunks_up_to_16_mib() {
    need_mount!();
    let text = |length: usize| -> Vec<u8> {
        let mut text = format!("{}\n", "x".repeat(4095)).repeat(length / 4096);
        text.push_str("last\n");
        text.into_bytes()
    };
    let files = |store: &Path| {
        fs::write(store.join("long"), text(16 << 20)).unwrap();
        fs::write(store.join("fits"), text((16 << 20) - 4096)).unwrap();
        fs::write(store.join("zero"), b"one\0\ntwo\n").unwrap();
        // Behind the first 8000 bytes it makes no difference.
        fs::write(store.join("late"), [text(8192), b"\0\n".to_vec()].concat()).unwrap();
    };
    let home = Home::prepared(files, &[]);
    let at = home.home().to_str().unwrap();
    let before = |name: &str| fs::read(home.store().join(name)).unwrap();
    let [long, fits, late] = ["long", "fits", "late"].map(before);
    let line = "echo more >> long; echo more >> fits; echo more >> zero; echo more >> late";
    let ours = &run(&home, line);
    for name in ["long", "zero"] {
        let (_, said) = done(6, &["reject", at, ours, name, "--hunk", "1"]);
        assert!(said.contains("is no text, or a very long one"), "{said}");
    }
    for (name, was) in [("fits", fits), ("late", late)] {
        done(0, &["reject", at, ours, name, "--hunk", "1"]);
        assert!(fs::read(home.path(name)).unwrap() == was, "{name}");
    }
    assert!(fs::read(home.path("long")).unwrap() == [long, b"more\n".to_vec()].concat());
}

/// So many numbers do not make a record of as many words.
#[test]
fn a_record_names_few_of_many_hunks() {
    need_mount!();
    let (home, ours) = changed(&[]);
    let at = home.home().to_str().unwrap();
    let all: Vec<String> = (1..=HUNKS).map(|number| number.to_string()).collect();
    // The same ones over and over.
    let numbers = vec![all.join(","); 500].join(",");
    done(0, &["reject", at, &ours, "a", "--hunk", &numbers]);
    assert_eq!(fs::read_to_string(home.path("a")).unwrap(), lines("was"));
    let journal = home.journal();
    let undo = journal
        .iter()
        .rfind(|record| record["op"] == "undo")
        .unwrap();
    let what = undo["what"].as_str().unwrap();
    assert!(
        what.len() < 1000 && what.ends_with("and 9980 more"),
        "{what}"
    );
    assert!(listed(at, &[]).is_empty());
}

/// Many records of others, and many of the file itself: a hunk of the first goes, all else stays.
#[test]
fn among_many_records_a_hunk_is_found() {
    need_mount!();
    let (home, ours) = changed(&[]);
    let at = home.home().to_str().unwrap();
    let script = r#"
import os
for n in range(4000):
    os.rename("new", "x"); os.rename("x", "new")
for n in range(1000):
    with open("a", "a") as file: file.write(f"more {n}\n")
"#;
    let output = home.run_within(Duration::from_secs(100), "python3", &["-c", script]);
    assert!(output.status.success(), "{}", describe(&output));
    assert!(home.journal().len() > 8000);
    done(0, &["reject", at, &ours, "a", "--hunk", "7"]);
    let more: String = (0..1000).map(|n| format!("more {n}\n")).collect();
    let wanted = lines_but("is", |hunk| hunk == 7) + &more;
    assert!(fs::read_to_string(home.path("a")).unwrap() == wanted);
}

/// A file that its owner saved anew where the run's has a further name is the owner's alone: a hunk of it took the owner's
/// lines away.
#[test]
fn file_that_the_owner_put_beside_the_runs_has_no_hunks() {
    need_mount!();
    let prepare = |store: &Path| {
        fs::write(store.join("a"), "1\n2\n3\n").unwrap();
        fs::write(store.join("new"), "agent\n1\n2\n3\n").unwrap();
    };
    let home = Home::prepared(prepare, &[]);
    let ours = run(&home, "cat new > n; mv n a");
    let store = home.store();
    home.sh("ln a further");
    let saved = "agent\n1\nowner\n2\n3\n";
    fs::write(store.join("saved"), saved).unwrap();
    fs::rename(store.join("saved"), store.join("a")).unwrap();
    let words = ["reject", store.to_str().unwrap(), &ours, "a", "--hunk", "1"];
    let output = trumanfs(&words);
    let said = describe(&output);
    assert!(
        !output.status.success() && said.contains("outside the home"),
        "{said}"
    );
    assert_eq!(
        fs::read_to_string(store.join("a")).unwrap(),
        saved,
        "{said}"
    );
}
