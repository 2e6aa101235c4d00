//! The library, used by a crate of its own: each of `examples/` is compiled and run outside this package, without its features,
//! its dependencies for tests and its profile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use crate::common::{describe, need_mount, repository, run_limited};

/// The directory with the examples as programs, built once. (A debug build of the library takes its time.)
fn examples() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let from = repository();
        let mut manifest = format!(
            "[package]\nname = \"uses-trumanfs\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
             [workspace]\n\
             [dependencies]\ntrumanfs = {{ path = {from:?}, default-features = false }}\n\
             [profile.dev]\ndebug = false\n"
        );
        for entry in fs::read_dir(from.join("examples")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let name = path.file_stem().unwrap().to_str().unwrap();
            manifest += &format!("[[bin]]\nname = {name:?}\npath = {path:?}\n");
        }
        fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
        // The versions that this repository is tested with; what the other crate does not need is left out of it.
        fs::copy(from.join("Cargo.lock"), dir.path().join("Cargo.lock")).unwrap();
        let target = from.join("target");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--offline", "--quiet", "--target-dir"]);
        cargo.arg(&target).current_dir(dir.path());
        let output = run_limited(cargo, Duration::from_secs(900));
        assert!(output.status.success(), "{}", describe(&output));
        target.join("debug")
    })
}

fn example(name: &str, words: &[&std::ffi::OsStr]) -> Output {
    let mut command = Command::new(examples().join(name));
    command.args(words);
    run_limited(command, Duration::from_secs(60))
}

/// A store with two files in it, and the directory around it.
fn store() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir_all(store.join("src")).unwrap();
    fs::write(store.join("notes.txt"), "what matters\n").unwrap();
    fs::write(store.join("src/main.rs"), "fn main() {}\n").unwrap();
    (dir, store)
}

fn is_whole(store: &Path) {
    let notes = fs::read_to_string(store.join("notes.txt")).unwrap();
    assert_eq!(notes, "what matters\n");
    assert!(store.join("src/main.rs").exists());
}

#[test]
fn a_line_is_run_and_taken_back() {
    let (_dir, store) = store();
    let line = "echo gone > notes.txt; rm -r src; ls";
    let output = example("undo_a_line", &[store.as_os_str(), line.as_ref()]);
    assert!(output.status.success(), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.starts_with("notes.txt\nthe line has ended: Success\n"),
        "{said}"
    );
    assert!(said.contains("changed: rmdir\n"), "{said}");
    is_whole(&store);
    let output = example("undo_a_line", &[store.as_os_str(), "ls".as_ref()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.ends_with("it has changed nothing\n"), "{said}");
}

#[test]
fn a_store_is_mounted_for_a_program_by_a_program_of_somebody_else() {
    need_mount!();
    let (_dir, store) = store();
    let script = "echo gone > notes.txt && rm -r src && ls && ! ls -a | grep trumanfs";
    let words = [
        store.as_os_str(),
        "sh".as_ref(),
        "-c".as_ref(),
        script.as_ref(),
    ];
    let output = example("mounted_home", &words);
    assert!(output.status.success(), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.starts_with("notes.txt\nthe program has ended: exit status: 0\n"),
        "{said}"
    );
    is_whole(&store);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(store.to_str().unwrap()), "{mounts}");
}

#[test]
fn the_fork_that_succeeds_is_merged() {
    let (dir, store) = store();
    let lines = ["rm -r src; cat missing", "wc -l notes.txt > result"];
    let output = example(
        "fork_and_merge",
        &[store.as_os_str(), lines[0].as_ref(), lines[1].as_ref()],
    );
    assert!(output.status.success(), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("try 0 has failed: cat: missing: No such file or directory\n"),
        "{said}"
    );
    assert!(
        said.contains("try 1 has succeeded, and 1 paths are brought in\n"),
        "{said}"
    );
    is_whole(&store);
    assert!(
        fs::read_to_string(store.join("result"))
            .unwrap()
            .contains("1 notes.txt")
    );
    assert!(!dir.path().join("store.try-0/src").exists());
}
