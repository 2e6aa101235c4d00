//! Merging what has become something else at its name: a file that is a directory, a directory that is a file, a name
//! that another file has taken; and the home's own directory.

use super::fork::{run, text};
use super::merge::{Pair, conflicts};
use crate::common::tree::contents as tree;

/// Merges what the fork did, checks that the origin is as the fork is and that the merge is one run that can be undone,
/// and leaves it merged.
fn comes_and_goes(line: &str) -> Pair {
    let pair = Pair::new();
    let was = tree(&pair.store);
    pair.theirs(line);
    pair.merge(0, &["--dry-run"]);
    let merged = pair.merge(0, &[]);
    assert!(merged["failed"].is_null(), "{merged}");
    assert_eq!(tree(&pair.store), tree(&pair.fork), "{merged}");
    let undo = ["undo", text(&pair.store), "--run"];
    run(0, &[&undo[..], &[merged["run"].as_str().unwrap()]].concat());
    assert_eq!(tree(&pair.store), was);
    pair.merge(0, &[]);
    assert_eq!(tree(&pair.store), tree(&pair.fork));
    pair
}

/// The old file was taken for the one that moves to its name, and the merge always stopped.
#[test]
fn a_file_that_moves_over_another_and_is_changed_comes() {
    let pair = comes_and_goes("mv y x; echo more >>x");
    assert!(pair.read("x").ends_with("y\nmore\n"));
}

/// The merge stopped half-way, since the directory went after the file came, and could not be repeated.
#[test]
fn a_directory_that_became_a_file_comes() {
    let pair = comes_and_goes("rm -r gone; echo file >gone; rm -r d; echo d >d");
    pair.merge(1, &[]);
    pair.theirs("echo more >>gone");
    pair.merge(0, &[]);
    assert_eq!(pair.read("gone"), "file\nmore\n");
    pair.ours("echo ours >gone");
    pair.theirs("echo theirs >gone");
    assert_eq!(conflicts(&pair.merge(4, &[])), ["/gone"]);
}
