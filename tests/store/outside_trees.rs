//! Directories as they were, and differences between points, where an owner has changed files in them beside the home:
//! each file is shown and copied as it was at the point, or is named as unknown.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::common::{Home, describe, need_mount, trumanfs};
use crate::outside_past::{owner, point};

/// The owner's ways to change `/d/c` and `/d/s/e`, and what the home does to them later.
const CHANGES: [&str; 5] = [
    "echo 9 > d/c; echo 9 > d/s/e",
    "echo 9 >> d/c; echo 9 >> d/s/e",
    "for f in d/c d/s/e; do printf 9 | dd of=$f conv=notrunc status=none; done",
    "echo 9 > n; mv n d/c; echo 9 > n; mv n d/s/e",
    "chmod 600 d/c d/s/e",
];

const LATER: [&str; 8] = [
    "",
    "echo 3 >> d/c; echo 3 >> d/s/e",
    "echo 3 > d/c; sed -i s/9/4/ d/s/e",
    "echo 3 > d/c; echo 3 > d/s/e",
    "chmod 640 d/c d/s/e",
    "mv d/c d/b; mv d/s d/r",
    "rm -r d",
    "mv d w",
];

/// Each file at a path, with its content and permission bits.
type Files = BTreeMap<String, (Vec<u8>, u32)>;

/// Returns the files of a store.
fn files(store: &Path) -> Files {
    let mut found = Files::new();
    let mut dirs = vec![store.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(store).unwrap().display().to_string();
            if path.is_dir() {
                if !name.starts_with('.') {
                    dirs.push(path);
                }
            } else {
                use std::os::unix::fs::PermissionsExt;
                let mode = path.metadata().unwrap().permissions().mode() & 0o7777;
                found.insert(format!("/{name}"), (fs::read(&path).unwrap(), mode));
            }
        }
    }
    found
}

fn verb(home: &Home, words: &[&str]) -> Output {
    let store = home.store();
    let mut all = vec![words[0], store.to_str().unwrap()];
    all.extend(&words[1..]);
    trumanfs(&all)
}

fn home() -> Home {
    Home::prepared(
        |store| {
            fs::create_dir_all(store.join("d/s")).unwrap();
            for (name, text) in [
                ("d/c", "1\n"),
                ("d/s/e", "1\n"),
                ("d/u", "1\n"),
                ("z", "z\n"),
            ] {
                fs::write(store.join(name), text).unwrap();
            }
        },
        &[],
    )
}

/// Asserts that a copy of a directory has each file as it was, or names it.
fn assert_restored(home: &Home, truth: &Files, point: &str, case: &str) {
    let restored = verb(home, &["restore", "/d", "--at", point, "--to", "/copy"]);
    let said = describe(&restored);
    let copies = files(home.store());
    let copies = copies.iter().filter(|(path, _)| path.starts_with("/copy/"));
    let copies: Files = copies
        .map(|(path, file)| (path.replacen("/copy", "/d", 1), file.clone()))
        .collect();
    let mut is_whole = true;
    for (path, was) in truth.iter().filter(|(path, _)| path.starts_with("/d/")) {
        let at = path.replacen("/d", "/copy", 1);
        match copies.get(path) {
            Some(copy) => assert_eq!(copy, was, "{case}: {path}: {said}"),
            None => {
                assert!(
                    said.contains(&format!("{at}: the content")),
                    "{case}: {path}: {said}"
                );
                is_whole = false;
            }
        }
    }
    for path in copies.keys() {
        assert!(
            truth.contains_key(path),
            "{case}: {path} is in the copy: {said}"
        );
    }
    let code = if is_whole { 0 } else { 5 };
    assert_eq!(restored.status.code(), Some(code), "{case}: {said}");
    if home.store().join("copy").exists() {
        fs::remove_dir_all(home.store().join("copy")).unwrap();
    }
}

/// Asserts that each side of each difference is as the file was, or unknown.
fn assert_different(
    home: &Home,
    (from, before): (&str, &Files),
    (to, after): (&str, &Files),
    case: &str,
) {
    let range = format!("{from}..{to}");
    let found = verb(home, &["diff", &range, "--json"]);
    let said = describe(&found);
    let mut is_known = true;
    for line in String::from_utf8_lossy(&found.stdout).lines() {
        let change: Value = serde_json::from_str(line).unwrap();
        is_known &= change["unknown"].is_null();
        let path = change["path"].as_str().unwrap();
        let former = change["from"].as_str().unwrap_or(path);
        for (side, path, files) in [("before", former, before), ("after", path, after)] {
            let side = &change[side];
            if change["unknown"].is_null() && side["kind"] == "file" {
                let size = side["size"]
                    .as_u64()
                    .map(|size| usize::try_from(size).unwrap());
                assert_eq!(
                    size,
                    files.get(path).map(|file| file.0.len()),
                    "{case}: {path}: {said}"
                );
            }
        }
    }
    let code = if is_known { 1 } else { 5 };
    let nothing = found.stdout.is_empty() && found.status.success();
    assert!(
        nothing || found.status.code() == Some(code),
        "{case}: {said}"
    );
    let patch = verb(home, &["diff", &range, "--patch"]);
    for (path, lines) in hunks(&String::from_utf8_lossy(&patch.stdout)) {
        let of = |sign| {
            lines
                .iter()
                .filter(move |line| line.starts_with(sign) || line.starts_with(' '))
        };
        let text = |sign| {
            of(sign)
                .map(|line| format!("{}\n", &line[1..]))
                .collect::<String>()
                .into_bytes()
        };
        for (path, text, files) in [(&path.0, text('-'), before), (&path.1, text('+'), after)] {
            let was = files
                .get(path)
                .map(|file| file.0.clone())
                .unwrap_or_default();
            assert_eq!(text, was, "{case}: {path}: {}", describe(&patch));
        }
    }
}

/// Returns the lines of each file in a patch, by the paths before and after.
fn hunks(patch: &str) -> Vec<((String, String), Vec<String>)> {
    let mut found: Vec<((String, String), Vec<String>)> = Vec::new();
    let mut inside = false;
    for line in patch.lines() {
        if let Some(paths) = line.strip_prefix("diff --git a") {
            let (from, to) = paths.split_once(" b").unwrap();
            found.push(((from.to_owned(), to.to_owned()), Vec::new()));
            inside = false;
        } else if line.starts_with("@@") {
            inside = true;
        } else if inside && !line.starts_with('\\') {
            found.last_mut().unwrap().1.push(line.to_owned());
        }
    }
    found.retain(|(_, lines)| !lines.is_empty());
    found
}

/// An owner's changes after a point are none of the past there, in a copy of the directory or in a difference, whatever
/// the home does to the files later.
#[test]
fn directory_is_restored_without_what_its_owner_wrote_later() {
    need_mount!();
    for first in [
        "echo 2 >> d/c; echo 2 >> d/s/e",
        "printf '7\\n8\\n' > d/c; sed -i s/1/3/ d/s/e",
    ] {
        for change in CHANGES {
            for later in LATER {
                let case = format!("{first}; {change}; {later}");
                let mut home = home();
                home.sh(first);
                let (at, then) = (point(&home), files(home.store()));
                home.umount();
                owner(&home, change);
                if !later.is_empty() {
                    home.mount_again();
                    home.sh(&format!("{later}; echo z >> z"));
                    let (at_later, later) = (point(&home), files(home.store()));
                    home.umount();
                    assert_different(&home, (&at, &then), (&at_later, &later), &case);
                }
                let now = files(home.store());
                assert_different(&home, (&at, &then), ("now", &now), &case);
                assert_restored(&home, &then, &at, &case);
            }
        }
    }
}

/// The later point of a difference is compared with what the home left, too.
#[test]
fn difference_does_not_end_with_what_its_owner_wrote_later() {
    need_mount!();
    for change in &CHANGES[..4] {
        for later in &LATER[..4] {
            let case = format!("{change}; {later}");
            let mut home = home();
            let (from, before) = (point(&home), files(home.store()));
            home.sh("echo 2 >> d/c; echo 2 >> d/s/e");
            let (to, after) = (point(&home), files(home.store()));
            home.umount();
            owner(&home, change);
            if !later.is_empty() {
                home.mount_again();
                home.sh(later);
                home.umount();
            }
            assert_different(&home, (&from, &before), (&to, &after), &case);
        }
    }
}

/// The start of a session is when it was mounted: what its owner wrote before is what its changes are compared with.
#[test]
fn difference_since_the_start_of_a_session_begins_with_what_its_owner_had_written() {
    need_mount!();
    for change in CHANGES {
        let mut home = home();
        home.sh("echo 2 >> d/c; echo 2 >> d/s/e");
        home.umount();
        owner(&home, change);
        owner(&home, "echo 9 >> d/u; sleep 0.1");
        let before = files(home.store());
        home.mount_again();
        home.sh("echo 3 >> d/c; echo 3 >> d/s/e; echo 3 > d/u");
        home.umount();
        let after = files(home.store());
        assert_different(&home, ("last", &before), ("now", &after), change);
        let found = verb(&home, &["diff", "--name-only"]);
        assert_eq!(
            found.status.code(),
            Some(1),
            "{change}: {}",
            describe(&found)
        );
        assert_eq!(found.stdout, b"/d/c\n/d/s/e\n/d/u\n", "{change}");
    }
}

/// A file that only its owner changed is not copied as it is now, and neither is one that is new.
#[test]
fn directory_is_restored_without_files_that_no_record_knows() {
    need_mount!();
    let mut home = home();
    home.sh("echo 2 >> d/c");
    let (at, then) = (point(&home), files(home.store()));
    home.umount();
    owner(&home, "sleep 0.1; echo 9 >> d/u; echo 9 > d/s/new");
    assert_restored(&home, &then, &at, "unmounted");
    home.mount_again();
    home.sh("echo z >> z");
    home.umount();
    assert_restored(&home, &then, &at, "later session");
}

/// A removed directory comes back as the removal found it, whoever wrote that.
#[test]
fn removed_directory_comes_back_with_what_its_owner_wrote() {
    need_mount!();
    let mut home = home();
    home.sh("echo 2 >> d/c");
    home.umount();
    owner(&home, "echo 9 >> d/c; echo 9 >> d/u");
    let then = files(home.store());
    home.mount_again();
    home.sh("rm -r d");
    home.umount();
    let restored = verb(&home, &["restore", "/d"]);
    assert!(restored.status.success(), "{}", describe(&restored));
    assert_eq!(files(home.store()), then);
}
