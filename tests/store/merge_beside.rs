//! Edits of a fork's directory beside its home: they come along where what they were made of is certain, else they are
//! conflicts; neither side's is ever lost.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::fork::{run, text};
use super::merge::{LINES, Pair, conflicts};
use crate::common::tree::contents as tree;
use crate::common::{describe, trumanfs};

/// As an editor that saves by replacing the file.
fn replace(path: &Path, content: &str) {
    let new = path.with_extension("new");
    fs::write(&new, content).unwrap();
    fs::rename(&new, path).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// They were not seen at all.
#[test]
fn edits_beside_the_forks_home_come_along() {
    let pair = Pair::new();
    let was = tree(&pair.store);
    let at = |path: &str| pair.fork.join(path);
    fs::write(at("same"), "in place\n").unwrap();
    replace(&at("d/f"), "replaced\n");
    fs::write(at("d/new"), "new\n").unwrap();
    fs::create_dir_all(at("made/inner")).unwrap();
    fs::write(at("made/inner/file"), "inner\n").unwrap();
    fs::set_permissions(at("text"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(at("link")).unwrap();
    symlink("y", at("link")).unwrap();
    // What came in with `cp -p` or an archive has an old time.
    fs::write(at("y"), "old time\n").unwrap();
    let file = fs::File::options().write(true).open(at("y")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    // The home moves a directory in which the person has edited a file, and the origin has moved another one.
    fs::write(at("old/inner/h"), "edited\n").unwrap();
    pair.theirs("mv old young; echo theirs >theirs");
    pair.ours("mv gone went; echo ours >ours");
    fs::write(at("gone/deep/i"), "edited, too\n").unwrap();
    let dry = pair.merge(0, &["--dry-run"]);
    assert_eq!(pair.read("same"), format!("{LINES}same\n"), "{dry}");
    let merged = pair.merge(0, &[]);
    for (path, wanted) in [
        ("same", "in place\n"),
        ("d/f", "replaced\n"),
        ("d/new", "new\n"),
        ("made/inner/file", "inner\n"),
        ("y", "old time\n"),
        ("young/inner/h", "edited\n"),
        ("went/deep/i", "edited, too\n"),
        ("theirs", "theirs\n"),
        ("ours", "ours\n"),
    ] {
        assert_eq!(pair.read(path), wanted, "{path}");
    }
    assert_eq!(mode(&pair.store.join("text")), 0o600);
    assert_eq!(
        fs::read_link(pair.store.join("link")).unwrap(),
        Path::new("y")
    );
    assert!(pair.merge(1, &[])["run"].is_null());
    let merge = merged["run"].as_str().unwrap();
    run(0, &["undo", text(&pair.store), "--run", merge]);
    // Undone, it can be made again.
    let again = pair.merge(0, &[]);
    assert_eq!(again["changes"], merged["changes"]);
    let merge = again["run"].as_str().unwrap();
    run(0, &["undo", text(&pair.store), "--run", merge]);
    pair.ours("mv went gone; rm ours");
    assert_eq!(tree(&pair.store), was);
}

/// The origin has another content, by its home or beside it; or the file has gone there.
#[test]
fn an_edit_beside_the_home_of_what_changed_here_is_a_conflict() {
    let pair = Pair::new();
    for path in ["text", "d/f", "same", "x", "y"] {
        fs::write(pair.fork.join(path), "theirs\n").unwrap();
    }
    fs::write(pair.fork.join("added"), "theirs\n").unwrap();
    pair.ours("echo ours >text; rm x; echo theirs >y; echo ours >added");
    fs::write(pair.store.join("d/f"), "ours\n").unwrap();
    let was = tree(&pair.store);
    let stopped = pair.merge(4, &[]);
    let mut named = conflicts(&stopped);
    named.sort_unstable();
    assert_eq!(named, ["/added", "/d/f", "/text", "/x"], "{stopped}");
    assert!(stopped.to_string().contains("edited beside its home"));
    assert_eq!(tree(&pair.store), was);
    pair.merge(5, &["--keep-both"]);
    for path in ["text", "d/f", "added"] {
        assert_eq!(pair.read(path), "ours\n", "{path}");
        assert_eq!(pair.read(&format!("{path}.from-fork")), "theirs\n");
    }
    assert_eq!(
        (pair.read("same"), pair.read("y")),
        ("theirs\n".into(), "theirs\n".into())
    );
    assert_eq!(pair.read("x.from-fork"), "theirs\n");
}

/// The home went on with a content that a person had edited, so the kept former content is not what was forked: a merge
/// by lines would have dropped the edit without a word.
#[test]
fn what_the_home_made_of_an_edit_is_not_merged_as_if_the_edit_had_been_forked() {
    let pair = Pair::new();
    for path in ["text", "d/f"] {
        let edited = LINES.replace("two", "TWO") + path.rsplit('/').next().unwrap() + "\n";
        fs::write(pair.fork.join(path), edited).unwrap();
        pair.theirs(&format!("echo theirs >>{path}"));
    }
    pair.ours("echo ours >>text");
    let stopped = pair.merge(4, &[]);
    assert_eq!(conflicts(&stopped), ["/text"], "{stopped}");
    pair.merge(0, &["d"]);
    assert_eq!(
        pair.read("d/f"),
        LINES.replace("two", "TWO") + "f\ntheirs\n"
    );
    pair.merge(0, &["--force"]);
    assert!(pair.read("text").contains("TWO"));
}

#[test]
fn what_was_removed_beside_the_home_is_named_and_stays() {
    let pair = Pair::new();
    fs::remove_file(pair.fork.join("x")).unwrap();
    fs::rename(pair.fork.join("d"), pair.fork.join("moved")).unwrap();
    fs::remove_dir_all(pair.fork.join("gone")).unwrap();
    pair.theirs("rm y; echo new >new");
    let merged = pair.merge(5, &[]);
    let notes: Vec<&str> = merged["notes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|note| note.as_str().unwrap().split(' ').next().unwrap())
        .collect();
    assert_eq!(notes, ["/d", "/gone", "/x"], "{merged}");
    assert!(pair.store.join("gone/deep/i").exists() && !pair.store.join("y").exists());
    assert_eq!(pair.read("moved/e/g"), pair.read("d/e/g"));
    let said = run(5, &["merge", text(&pair.store), text(&pair.fork)]);
    assert!(said.contains("/x was removed or moved beside"), "{said}");
    pair.ours("rm -r x d gone");
    pair.merge(1, &[]);
}

#[test]
fn a_name_given_in_the_origin_since_is_not_named_as_removed_from_the_fork() {
    let pair = Pair::new();
    fs::hard_link(pair.store.join("x"), pair.store.join("d/other")).unwrap();
    fs::rename(pair.store.join("y"), pair.store.join("d/moved")).unwrap();
    pair.theirs("mv x moved; echo new >x; touch d/n");
    let merged = pair.merge(0, &[]);
    assert_eq!(merged["notes"].as_array().unwrap().len(), 0, "{merged}");
    assert_eq!(pair.read("x"), "new\n");
}

/// A directory that was removed here without a record, and in which the fork has only moved or changed something, does not
/// come back with all that was in it.
#[test]
fn what_was_removed_beside_the_home_does_not_come_back() {
    for line in [
        "mv d/f elsewhere",
        "mv d/f elsewhere; mv same elsewhere",
        "echo more >>d/f",
        "touch d/f; mkdir d/made",
    ] {
        for how in [&[][..], &["--keep-both"]] {
            let pair = Pair::new();
            pair.theirs(line);
            fs::remove_dir_all(pair.store.join("d")).unwrap();
            let output = trumanfs(&[&["merge", text(&pair.store), text(&pair.fork)], how].concat());
            let said = describe(&output);
            assert!(!pair.store.join("d").exists(), "{line} {how:?}: {said}");
        }
    }
}
