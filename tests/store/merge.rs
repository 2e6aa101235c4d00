//! Merging forks: what changed on one side is taken, texts are merged by lines, everything else is named; and all of it
//! is one run that can be undone.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::fork::{run, text};
use crate::common::disk::Disk;
use crate::common::tree::contents as tree;
use crate::common::{Home, need_mount, skip};
use trumanfs::error::Error;
use trumanfs::name::{EscapedBytes, Name};
use trumanfs::operator::Store;
use trumanfs::operator::merge::{MergeRequest, perform as merge};
use trumanfs::operator::undo::{ChangeBackend, OnConflict};
use trumanfs::world::{Caller, Dir, RemovedNode, World};

/// A store and a fork of it, not mounted.
pub(super) struct Pair {
    _dir: tempfile::TempDir,
    pub(super) store: PathBuf,
    pub(super) fork: PathBuf,
}

pub(super) const LINES: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";

impl Pair {
    pub(super) fn new() -> Pair {
        let dir = tempfile::TempDir::with_prefix("trumanfs-").unwrap();
        let store = fs::canonicalize(dir.path()).unwrap().join("store");
        for inner in ["d/e", "old/inner", "gone/deep"] {
            fs::create_dir_all(store.join(inner)).unwrap();
        }
        for file in [
            "text",
            "same",
            "d/f",
            "d/e/g",
            "old/inner/h",
            "gone/deep/i",
            "x",
            "y",
        ] {
            fs::write(store.join(file), format!("{LINES}{file}\n")).unwrap();
        }
        fs::write(store.join("binary"), b"a\0b\n").unwrap();
        symlink("x", store.join("link")).unwrap();
        let pair = Pair {
            fork: store.with_file_name("fork"),
            store,
            _dir: dir,
        };
        pair.ours("touch begun");
        run(0, &["fork", "--copy", text(&pair.store), "fork"]);
        pair
    }

    pub(super) fn ours(&self, line: &str) {
        run(0, &["exec", "--root", text(&self.store), "--", line]);
    }

    pub(super) fn theirs(&self, line: &str) {
        run(0, &["exec", "--root", text(&self.fork), "--", line]);
    }

    /// Merges, and returns the report.
    pub(super) fn merge(&self, code: i32, more: &[&str]) -> Value {
        let words = ["merge", "--json", text(&self.store), text(&self.fork)];
        let said = run(code, &[&words, more].concat());
        serde_json::from_str(&said).unwrap()
    }

    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.store.join(path)).unwrap()
    }
}

/// The paths of the conflicts of a report.
pub(super) fn conflicts(report: &Value) -> Vec<&str> {
    let conflicts = report["conflicts"].as_array().unwrap();
    conflicts
        .iter()
        .map(|one| one["path"].as_str().unwrap())
        .collect()
}

const CHANGES: &str = "echo new >d/new; mkdir -p n/m; echo deep >n/m/deep; rm d/f; rm -r gone; mv old young; \
     echo more >>young/inner/h; mv x z; mv y x; mv z y; echo eight >>text";

#[test]
fn what_changed_only_in_the_fork_comes_and_goes_as_one_run() {
    let pair = Pair::new();
    let was = tree(&pair.store);
    pair.theirs(CHANGES);
    fs::set_permissions(pair.fork.join("same"), fs::Permissions::from_mode(0o600)).unwrap();
    let changed = tree(&pair.fork);
    let dry = pair.merge(0, &["--dry-run"]);
    assert!(
        dry["run"].is_null() && !dry["changes"].as_array().unwrap().is_empty(),
        "{dry}"
    );
    assert_eq!(tree(&pair.store), was, "a dry run has changed something");
    let merged = pair.merge(0, &[]);
    assert_eq!(conflicts(&merged), [""; 0]);
    assert_eq!(tree(&pair.store), changed);
    assert!(
        pair.merge(1, &[])["run"].is_null(),
        "a second merge has something to do"
    );
    run(
        0,
        &[
            "undo",
            text(&pair.store),
            "--run",
            merged["run"].as_str().unwrap(),
        ],
    );
    assert_eq!(
        tree(&pair.store),
        was,
        "undoing the merge has not taken all of it back"
    );
    // Undone, it can be merged anew.
    pair.merge(0, &[]);
    assert_eq!(tree(&pair.store), changed);
    assert!(run(0, &["fsck", text(&pair.store)]).contains("everything agrees"));
}

#[test]
fn what_changed_only_here_stays_and_texts_are_merged_by_lines() {
    let pair = Pair::new();
    pair.ours("echo ours >ours; rm x; mv d/e here; echo END >>text");
    fs::write(
        pair.store.join("text"),
        LINES.replace("one", "ONE") + "text\nEND\n",
    )
    .unwrap();
    let theirs = LINES.replace("four", "FOUR") + "text\n";
    pair.theirs(&format!("cat >text <<'E'\n{theirs}E"));
    pair.theirs("echo theirs >theirs; echo same >both");
    pair.ours("echo same >both");
    let merged = pair.merge(0, &[]);
    let changes = merged["changes"].to_string();
    assert!(changes.contains("merge /text line by line"), "{changes}");
    let wanted = LINES.replace("one", "ONE").replace("four", "FOUR") + "text\nEND\n";
    assert_eq!(pair.read("text"), wanted);
    assert_eq!(
        (pair.read("ours"), pair.read("theirs")),
        ("ours\n".into(), "theirs\n".into())
    );
    assert!(!pair.store.join("x").exists() && pair.store.join("here/g").exists());
}

/// One conflict of each kind.
fn clashing() -> Pair {
    let pair = Pair::new();
    pair.theirs(
        "echo theirs >text; rm same; echo theirs >>d/f; mv x moved; rm -r gone; echo theirs >added; \
         echo fine >fine; echo theirs >binary",
    );
    pair.ours(
        "echo ours >text; echo ours >>same; rm d/f; rm x; echo new >gone/new; echo ours >added; \
         echo ours >binary",
    );
    pair
}

const CLASHES: [&str; 7] = ["/added", "/binary", "/d/f", "/gone", "/same", "/text", "/x"];

#[test]
fn conflicts_are_named_and_nothing_is_changed() {
    let pair = clashing();
    let was = tree(&pair.store);
    let stopped = pair.merge(4, &[]);
    let mut named = conflicts(&stopped);
    named.sort_unstable();
    assert_eq!(named, CLASHES, "{stopped}");
    assert_eq!(stopped["stopped"], true);
    assert_eq!(tree(&pair.store), was);
    let said = run(4, &["merge", text(&pair.store), text(&pair.fork)]);
    for path in CLASHES {
        assert!(said.contains(&format!("  {path} ")), "{said}");
    }
    // A path without conflicts can be merged by itself.
    let one = pair.merge(0, &["/fine"]);
    assert_eq!(one["changes"].as_array().unwrap().len(), 1, "{one}");
    assert_eq!(pair.read("fine"), "fine\n");
}

#[test]
fn the_forks_side_of_a_conflict_is_put_beside_or_taken() {
    let pair = clashing();
    let was = tree(&pair.store);
    let both = pair.merge(5, &["--keep-both"]);
    assert_eq!(pair.read("text"), "ours\n");
    assert_eq!(pair.read("text.from-fork"), "theirs\n");
    assert_eq!(pair.read("added.from-fork"), "theirs\n");
    assert_eq!(pair.read("fine"), "fine\n");
    assert!(pair.read("d/f.from-fork").ends_with("theirs\n"));
    assert!(!pair.store.join("d/f").exists() && pair.store.join("gone/new").exists());
    run(
        0,
        &[
            "undo",
            text(&pair.store),
            "--run",
            both["run"].as_str().unwrap(),
        ],
    );
    assert_eq!(tree(&pair.store), was);
    let forced = pair.merge(0, &["--force"]);
    for path in ["text", "added", "binary"] {
        assert_eq!(pair.read(path), "theirs\n", "{path}");
    }
    assert!(!pair.store.join("same").exists() && pair.read("d/f").ends_with("theirs\n"));
    run(
        0,
        &[
            "undo",
            text(&pair.store),
            "--run",
            forced["run"].as_str().unwrap(),
        ],
    );
    assert_eq!(tree(&pair.store), was);
}

/// What has been merged before is no conflict when the fork goes on, also where both have changed a file since.
#[test]
fn a_fork_can_be_merged_again_and_again() {
    let pair = Pair::new();
    for round in 1..4 {
        pair.theirs(&format!(
            "echo {round} >text; echo {round} >added; echo {round} >>d/f"
        ));
        pair.merge(0, &[]);
        assert_eq!(pair.read("text"), format!("{round}\n"));
        assert_eq!(pair.read("added"), format!("{round}\n"));
    }
    pair.theirs("rm text; mv d/f d/moved; echo last >>d/moved");
    pair.merge(0, &[]);
    assert!(!pair.store.join("text").exists());
    assert!(pair.read("d/moved").ends_with("1\n2\n3\nlast\n"));
    pair.theirs("echo theirs >added");
    pair.ours("echo ours >added");
    assert_eq!(conflicts(&pair.merge(4, &[])), ["/added"]);
}

#[test]
fn only_a_fork_is_merged() {
    let (pair, other) = (Pair::new(), Pair::new());
    let refused = run(6, &["merge", text(&pair.store), text(&other.fork)]);
    assert!(refused.contains("is no fork of this store"), "{refused}");
    let refused = run(6, &["merge", text(&pair.fork), text(&pair.store)]);
    assert!(refused.contains("is no fork of this store"), "{refused}");
    run(3, &["merge", text(&pair.store), "/no/such/fork"]);
}

#[test]
fn mounted_homes_are_merged() {
    need_mount!();
    let home = Home::prepared(|store| fs::write(store.join("f"), LINES).unwrap(), &[]);
    run(0, &["fork", "--copy", text(home.store()), "fork"]);
    let (fork, mount) = (
        home.store().with_file_name("fork"),
        home.store().with_file_name("mount"),
    );
    fs::create_dir(&mount).unwrap();
    run(0, &["mount", text(&fork), text(&mount)]);
    home.sh("sed -i s/one/ONE/ f; cat f >/dev/null; ls >/dev/null");
    let changed = Command::new("sh")
        .args(["-ec", "sed -i s/six/SIX/ f; mkdir d; echo new >d/new"])
        .current_dir(&mount)
        .status();
    assert!(changed.unwrap().success());
    run(0, &["merge", text(home.home()), text(&mount)]);
    let merged = fs::read_to_string(home.path("f")).unwrap();
    assert_eq!(merged, LINES.replace("one", "ONE").replace("six", "SIX"));
    assert_eq!(fs::read_to_string(home.path("d/new")).unwrap(), "new\n");
    run(0, &["umount", text(&mount)]);
    run(0, &["redo", text(home.home())]);
    assert_eq!(
        fs::read_to_string(home.path("f")).unwrap(),
        LINES.replace("one", "ONE")
    );
    assert!(!home.path("d").exists());
}

/// A copy gets its size before its bytes: killed between the two, it made every later merge a conflict.
#[test]
fn a_new_file_that_a_killed_merge_left_half_written_is_made_whole() {
    let pair = Pair::new();
    pair.theirs(
        "echo 12345678 >sized; echo 12345678 >partly; echo 12345678 >short; echo 12345678 >other",
    );
    for (name, half) in [
        ("sized", &b"\0\0\0\0\0\0\0\0\0"[..]),
        ("partly", b"1234\0\0\0\0\0"),
        ("short", b"123"),
    ] {
        fs::write(pair.store.join(name), half).unwrap();
    }
    fs::write(pair.store.join("other"), b"12\x0034567\n").unwrap();
    let refused = run(4, &["merge", text(&pair.store), text(&pair.fork)]);
    assert!(
        refused.contains("1 conflict") && refused.contains("/other was made on both sides"),
        "{refused}"
    );
    fs::remove_file(pair.store.join("other")).unwrap();
    run(0, &["merge", text(&pair.store), text(&pair.fork)]);
    for name in ["sized", "partly", "short", "other"] {
        assert_eq!(fs::read(pair.store.join(name)).unwrap(), b"12345678\n");
    }
    run(0, &["redo", text(&pair.store)]);
    assert_eq!(
        fs::read(pair.store.join("partly")).unwrap(),
        b"1234\0\0\0\0\0"
    );
}

#[test]
fn a_merge_that_is_killed_goes_on_and_can_be_undone() {
    let pair = Pair::new();
    for n in 0..20 {
        pair.theirs(&format!(
            "mkdir t{n}; echo 1 >t{n}/1; echo 2 >t{n}/2; echo 3 >t{n}/3; echo 4 >t{n}/4; echo 5 >t{n}/5"
        ));
    }
    pair.theirs(CHANGES);
    run(0, &["checkpoint", "create", text(&pair.store), "before"]);
    let (was, theirs) = (tree(&pair.store), tree(&pair.fork));
    let mut wait = Duration::from_millis(10);
    let mut dead = 0;
    loop {
        let mut merge = Command::new(crate::common::binary())
            .args(["merge", text(&pair.store), text(&pair.fork)])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(wait);
        let _ = merge.kill();
        let ended = merge.wait_with_output().unwrap();
        if ended.status.success() || tree(&pair.store) == theirs {
            break;
        }
        assert_eq!(ended.status.code(), None, "{ended:?}");
        dead += 1;
        wait += Duration::from_millis(10);
        assert!(wait < Duration::from_secs(2), "never whole");
    }
    if dead == 0 {
        skip!("chance", "the merge was done before it was killed");
    }
    assert_eq!(tree(&pair.store), theirs);
    run(0, &["undo", text(&pair.store), "--to", "before"]);
    assert_eq!(tree(&pair.store), was);
}

/// Two agents on two forks of one store, both merged; what they both changed is named, and all of it can be undone.
#[test]
fn two_storms_on_two_forks_are_merged_and_undone() {
    let disk = match Disk::new(&["mkfs.xfs", "-q", "-m", "reflink=1"], 512) {
        Ok(disk) => disk,
        Err(why) => skip!("xfs", "no xfs: {why} (package xfsprogs)"),
    };
    let store = disk.at("mnt/store");
    for n in 0..40 {
        fs::write(store.join(format!("f{n}")), format!("{LINES}{n}\n")).unwrap();
    }
    run(0, &["exec", "--root", text(&store), "--", "mkdir d"]);
    run(0, &["checkpoint", "create", text(&store), "start"]);
    let was = tree(&store);
    let storms: Vec<PathBuf> = ["one", "two"]
        .iter()
        .enumerate()
        .map(|(who, name)| {
            run(0, &["fork", text(&store), name]);
            let fork = store.with_file_name(name);
            let mut line =
                format!("mkdir d/{name}; echo {name} >d/{name}/log; mv f{who} d/{name}/moved; ");
            for n in (2..40).filter(|n| n % 2 == who || n % 9 == 0) {
                line += &match n % 3 {
                    0 => format!("echo {name} >f{n}; "),
                    1 => format!("rm f{n}; "),
                    _ => format!("echo {name} >>f{n}; cp f{n} d/{name}/copy{n}; "),
                };
            }
            run(0, &["exec", "--root", text(&fork), "--", &line]);
            fork
        })
        .collect();
    run(0, &["merge", text(&store), text(&storms[0])]);
    let first = tree(&store);
    let said = run(4, &["merge", "--json", text(&store), text(&storms[1])]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(conflicts(&said), ["/f18", "/f27", "/f36", "/f9"]);
    assert_eq!(tree(&store), first);
    let said = run(
        5,
        &[
            "merge",
            "--json",
            "--keep-both",
            text(&store),
            text(&storms[1]),
        ],
    );
    let said: Value = serde_json::from_str(&said).unwrap();
    let (both, one, two) = (tree(&store), tree(&storms[0]), tree(&storms[1]));
    for n in [9, 18, 27, 36] {
        let at = |name: String| PathBuf::from(name);
        assert_eq!(both[&at(format!("f{n}"))], one[&at(format!("f{n}"))]);
        assert_eq!(
            both[&at(format!("f{n}.from-two"))],
            two[&at(format!("f{n}"))]
        );
    }
    for (path, what) in two.iter().filter(|(path, _)| path.starts_with("d/two")) {
        assert_eq!(both.get(path), Some(what));
    }
    run(
        0,
        &["undo", text(&store), "--run", said["run"].as_str().unwrap()],
    );
    assert_eq!(tree(&store), first);
    run(0, &["undo", text(&store), "--to", "start"]);
    assert_eq!(tree(&store), was);
    assert!(run(0, &["fsck", text(&store)]).contains("everything agrees"));
}

/// Somebody who saves a file of the origin at the moment that the merge takes its first step.
struct Busy<'w> {
    world: &'w World,
    file: PathBuf,
}

impl ChangeBackend for Busy<'_> {
    fn world(&self) -> &World {
        self.world
    }

    fn discard(&self, dir: &Dir, name: Name<'_>, caller: Caller) -> Result<RemovedNode, Error> {
        fs::write(&self.file, "just saved\n").unwrap();
        self.world.discard(dir, name, caller)
    }
}

/// What is saved after it was looked at, and before it would be replaced, stays; the next merge sees it.
#[test]
fn what_is_saved_while_a_merge_is_made_stays() {
    let pair = Pair::new();
    pair.theirs("rm x; echo theirs > text; echo theirs > same");
    let request = MergeRequest {
        fork: EscapedBytes(pair.fork.as_os_str().as_encoded_bytes().to_vec()),
        paths: Vec::new(),
        choice: OnConflict::Stop,
        dry_run: false,
        run: None,
    };
    let (world, _) = World::open_offline(&pair.store).unwrap();
    let busy = Busy {
        world: &world,
        file: pair.store.join("text"),
    };
    let store = Store::of(&world).unwrap();
    let report = merge(&store, &request, Some(&busy), Caller::myself()).unwrap();
    world.close();
    let failed = report.failed.unwrap();
    assert!(failed.contains("/text: it was changed while"), "{failed}");
    let saved = fs::read_to_string(pair.store.join("text")).unwrap();
    assert_eq!(saved, "just saved\n");
    let again = run(4, &["merge", text(&pair.store), text(&pair.fork)]);
    assert!(again.contains("/text"), "{again}");
}

/// It took back the run before the merge, and the log called the merge an undo.
#[test]
fn last_run_may_be_a_merge() {
    let pair = Pair::new();
    pair.theirs("echo theirs >>x; mkdir made; echo 1 >made/f");
    pair.ours("echo ours >mine");
    let before = tree(&pair.store);
    let merged = pair.merge(0, &[]);
    let merge = merged["run"].as_str().unwrap();
    for flags in [&[][..], &["--all"]] {
        let log = run(0, &[&["log", text(&pair.store)], flags].concat());
        assert!(log.contains(&format!("merge {merge} ")), "{log}");
        assert!(!log.contains(&format!("undo {merge} ")), "{log}");
    }
    assert_ne!(tree(&pair.store), before);
    run(0, &["undo", text(&pair.store), "--run", "last"]);
    assert_eq!(tree(&pair.store), before);
    // The undo is not the last run: that is still the merge.
    let shown = run(0, &["log", text(&pair.store), "--run", "last"]);
    assert!(shown.contains(merge), "{shown}");
    assert_eq!(pair.read("mine"), "ours\n");
}
