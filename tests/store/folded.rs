//! `diff` counts what lies in `.git` and what git ignores, unless something outside the home acts on it.

use std::fs;
use std::path::Path;

use crate::common::{Home, describe, need_mount, trumanfs};

/// A repository with ignored files, one of which git tracks.
fn repository(store: &Path) {
    let git = |words: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]);
        git.args(words).current_dir(store);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"GIT_") {
                git.env_remove(name);
            }
        }
        git.env("GIT_CONFIG_GLOBAL", "/dev/null");
        assert!(git.output().unwrap().status.success(), "{words:?}");
    };
    git(&["init", "-q"]);
    for dir in ["src", "keep", "build"] {
        fs::create_dir_all(store.join(dir)).unwrap();
    }
    for (file, text) in [
        (".gitignore", "build/\n*.log\n"),
        ("keep/.gitignore", "!kept.log\n"),
        ("src/a", "one\n"),
        ("tracked.log", "one\n"),
        ("build/old", "one\n"),
    ] {
        fs::write(store.join(file), text).unwrap();
    }
    git(&["add", "--force", "tracked.log"]);
    git(&["add", "--all"]);
    git(&["commit", "-q", "-m", "first"]);
}

#[track_caller]
fn diff(store: &str, options: &[&str]) -> (String, String) {
    let output = trumanfs(&[&["diff", store], options].concat());
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

#[test]
fn git_and_ignored_files_are_counted() {
    need_mount!();
    let mut home = Home::prepared(repository, &[]);
    let at = home.home();
    fs::create_dir_all(at.join("build/deep")).unwrap();
    for file in [
        "build/deep/new",
        "build/old",
        "a.log",
        "keep/lost.log",
        "keep/kept.log",
        "tracked.log",
        "src/a",
        ".git/description",
        ".git/MERGE_MSG",
    ] {
        fs::write(at.join(file), "two\n").unwrap();
    }
    // An occupant who writes the rules hides nothing.
    fs::write(at.join(".gitignore"), "*\n").unwrap();
    fs::write(at.join(".git/info/exclude"), "*\n").unwrap();
    fs::write(at.join("src/hidden"), "two\n").unwrap();
    fs::create_dir(at.join("fresh")).unwrap();
    fs::write(at.join("fresh/.gitignore"), "*\n").unwrap();
    // What git runs is listed, wherever it lies.
    fs::write(at.join(".git/hooks/pre-commit"), "two\n").unwrap();
    fs::create_dir_all(at.join("build/lib/.git/hooks")).unwrap();
    fs::write(at.join("build/lib/.git/hooks/update"), "two\n").unwrap();
    home.umount();
    let store = home.store().to_str().unwrap();
    let (list, _) = diff(store, &[]);
    let paths: Vec<&str> = list
        .lines()
        .take_while(|line| !line.contains("--all"))
        .map(|line| line.split_whitespace().nth(1).unwrap())
        .collect();
    let listed = [
        "/.git/hooks/pre-commit",
        "/.gitignore",
        "/build/lib/.git/hooks/update",
        "/fresh/",
        "/fresh/.gitignore",
        "/keep/kept.log",
        "/src/a",
        "/src/hidden",
        "/tracked.log",
    ];
    assert_eq!(paths, listed, "{list}");
    let counted = [
        ".git: 3 files differ (--all lists them)",
        "/build/lib/.git: 2 directories differ (--all lists them)",
        "ignored by git: 4 files (--all lists them)",
    ];
    let end: Vec<&str> = list.lines().skip(listed.len()).collect();
    assert_eq!(end, counted, "{list}");
    let (stat, _) = diff(store, &["--stat"]);
    assert!(stat.contains(" .git: 3 files differ"), "{stat}");
    assert!(!stat.contains("MERGE_MSG"), "{stat}");
    let (patch, said) = diff(store, &["--patch"]);
    assert!(!patch.contains("MERGE_MSG") && patch.contains("/pre-commit"));
    assert!(said.contains("not in the patch, but with --all: ignored by git: 4 files"));
    for whole in ["--all", "--name-only", "--json"] {
        let (whole, _) = diff(store, &[whole]);
        assert!(whole.contains("/.git/MERGE_MSG"), "{whole}");
        assert!(whole.contains("/build/deep/new"), "{whole}");
    }
    // What is asked for by its path is listed.
    let (build, _) = diff(store, &["build"]);
    assert!(
        build.contains("/build/deep/new") && !build.contains("ignored"),
        "{build}"
    );
    let (git, _) = diff(store, &[".git"]);
    assert!(
        git.contains("/.git/MERGE_MSG") && !git.contains("differ"),
        "{git}"
    );
}

#[test]
fn nothing_is_ignored_where_the_index_cannot_be_read() {
    need_mount!();
    let prepare = |store: &Path| {
        repository(store);
        fs::write(store.join(".git/index"), "no index\n").unwrap();
    };
    let mut home = Home::prepared(prepare, &[]);
    fs::write(home.home().join("tracked.log"), "two\n").unwrap();
    fs::write(home.home().join("other.log"), "two\n").unwrap();
    home.umount();
    let (list, _) = diff(home.store().to_str().unwrap(), &[]);
    assert!(
        list.contains("/tracked.log") && list.contains("/other.log"),
        "{list}"
    );
}
