//! Merging what has become something else at its name: a file that is a directory, a directory that is a file, a name
//! that another file has taken; and the home's own directory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::fork::{run, text};
use super::merge::{Pair, conflicts};
use crate::common::tree::contents as tree;
use trumanfs::name::WorldPath;
use trumanfs::world::{Caller, LocatedNode, NoOpenState, SetAttrs, World};

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

/// A second merge conflicted, and with `--force` it removed what the first one had brought.
#[test]
fn what_replaced_a_file_is_merged_again() {
    let pair = comes_and_goes(
        "rm x; mkdir x; echo 1 >x/n; rm same; mv text same; rm y; mv old y; mv d/f binary; mv d/e/g d/f",
    );
    // What only the origin changes is its own.
    pair.ours("echo ours >x/ours; echo ours >>same; echo ours >>y/inner/h");
    let here = tree(&pair.store);
    for more in [&[][..], &["--force"], &["--keep-both"]] {
        pair.merge(1, more);
        assert_eq!(tree(&pair.store), here, "{more:?}");
    }
    pair.theirs("echo 2 >x/n; echo theirs >>binary; echo theirs >>d/f; echo theirs >y/theirs");
    pair.merge(0, &[]);
    assert_eq!(pair.read("x/n"), "2\n");
    for (path, end) in [("binary", "f\n"), ("d/f", "g\n"), ("y/theirs", "")] {
        let end = format!("{end}theirs\n");
        assert!(pair.read(path).ends_with(&end), "{path}");
    }
    assert!(pair.read("same").ends_with("text\nours\n") && pair.read("x/ours") == "ours\n");
}

/// The fork's side of something that it has replaced is what it has there, and not nothing.
#[test]
fn what_replaced_a_file_takes_its_place_by_force() {
    let pair = Pair::new();
    let was = tree(&pair.store);
    pair.theirs("rm x; mkdir x; echo 1 >x/n; rm same; mv text same; rm d/f");
    pair.ours("echo ours >>x; echo ours >>same; echo ours >>d/f");
    let ours = tree(&pair.store);
    assert!(conflicts(&pair.merge(4, &[])).contains(&"/x"));
    assert_eq!(tree(&pair.store), ours);
    let forced = pair.merge(0, &["--force"]);
    assert_eq!(tree(&pair.store), tree(&pair.fork), "{forced}");
    let undo = ["undo", text(&pair.store), "--run"];
    let id = forced["run"].as_str().unwrap();
    run(0, &[&undo[..], &[id]].concat());
    assert_eq!(tree(&pair.store), ours);
    assert_ne!(ours, was);
    // Where what moved there in the fork is not here any more, nothing takes the place, and what is here stays.
    pair.ours("rm text");
    assert_eq!(conflicts(&pair.merge(1, &["--force", "/same"])), ["/same"]);
    assert!(pair.read("same").ends_with("ours\n"));
}

/// The root was looked for in its directory, and nothing was merged.
#[test]
fn the_attributes_of_the_root_come() {
    let pair = Pair::new();
    let mode = |dir: &Path| fs::metadata(dir).unwrap().permissions().mode() & 0o7777;
    let was = mode(&pair.store);
    pair.theirs("echo z >>x");
    // No program of an unmounted store may change its root; in a mounted one, `chmod 711 .` does.
    let (world, _) = World::open_offline(&pair.fork).unwrap();
    set(&world, 0o711);
    world.close();
    assert_eq!(mode(&pair.fork), 0o711);
    pair.merge(0, &["--dry-run"]);
    let merged = pair.merge(0, &[]);
    assert!(merged["failed"].is_null(), "{merged}");
    assert!(pair.read("x").ends_with("z\n"));
    assert_eq!(mode(&pair.store), 0o711);
    pair.merge(1, &[]);
    let undo = ["undo", text(&pair.store), "--run"];
    let id = merged["run"].as_str().unwrap();
    run(0, &[&undo[..], &[id]].concat());
    assert_eq!(mode(&pair.store), was);
}

/// Sets the permission bits of a store's root as a home does.
fn set(world: &World, mode: u32) {
    let root = LocatedNode {
        node: world.root().node(&WorldPath::root()).unwrap(),
        path: WorldPath::root(),
        removed: false,
    };
    let change = SetAttrs {
        mode: Some(mode),
        ..SetAttrs::default()
    };
    world
        .set_attr(&root, change, None, &NoOpenState, Caller::myself())
        .unwrap();
}

/// The directory would have moved into itself, after other steps were taken.
#[test]
fn a_directory_that_moved_into_its_successor_is_a_conflict() {
    let pair = Pair::new();
    let was = tree(&pair.store);
    pair.theirs("echo z >>x; mv d d2; mkdir d; mv d2 d/d");
    for more in [&[][..], &["--dry-run"]] {
        assert_eq!(conflicts(&pair.merge(4, more)), ["/d"]);
        assert_eq!(tree(&pair.store), was);
    }
    let forced = pair.merge(0, &["--force"]);
    assert_eq!(conflicts(&forced), ["/d"]);
    assert!(pair.read("x").ends_with("z\n") && pair.store.join("d/e/g").exists());
    let pair = Pair::new();
    pair.theirs("echo z >>x; mv d d2; mkdir d; mv d2 d/d");
    pair.merge(5, &["--keep-both"]);
    assert!(pair.read("x").ends_with("z\n") && pair.store.join("d/e/g").exists());
    // Done here in the same way, it is no conflict any more.
    pair.ours("mv d d2; mkdir d; mv d2 d/d");
    pair.merge(1, &[]);
    assert_eq!(tree(&pair.store), tree(&pair.fork));
}
