//! Large, deep and removed trees: listings, `rm -rf`, the resulting trash, and its restoration.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;

use crate::common::{Home, describe, need_mount, need_tools};
use crate::programs::script::{NO_PASSTHROUGH, PLAIN, bash, in_home, mount, python, same};

#[test]
fn a_hundred_thousand_entries_are_listed_once_each() {
    need_mount!();
    need_tools!("python3");
    let home = mount(PLAIN);
    let big = home.store().join("big");
    fs::create_dir(&big).unwrap();
    // Names are what is listed; a file of its own for each would take ten times as long to make. (ext4 allows 65,000 names.)
    let file = |n: usize| big.join(format!("entry-{n:06}"));
    for n in 0..100_000 {
        let first = n / 50_000 * 50_000;
        if n == first {
            fs::File::create(file(n)).unwrap();
        } else {
            fs::hard_link(file(first), file(n)).unwrap();
        }
    }
    let seen: Vec<OsString> = fs::read_dir(home.path("big"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(seen.len(), 100_000);
    assert_eq!(seen.iter().collect::<HashSet<_>>().len(), 100_000);
    assert_eq!(
        in_home(
            &home,
            "ls -f big | wc -l; find big -type f | wc -l; ls big | tail -1"
        ),
        "100002\n100000\nentry-099999\n"
    );
    // What is there from start to end of a listing is listed exactly once, whatever is removed and made meanwhile.
    assert_eq!(python(&home, "listing.py", &["big"]), "ok\n");
}

#[test]
fn deep_trees_are_made_walked_and_removed() {
    need_mount!();
    need_tools!("python3");
    let home = mount(PLAIN);
    // Far beyond PATH_MAX, which only tools that walk by descriptors can handle.
    let said = same(
        &home,
        r#"
        python3 - <<'END'
import os
for n in range(60):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
with open("bottom", "w") as file:
    file.write("deep")
END
        find . -name bottom | wc -c; find . -type d | wc -l; du -a . | wc -l
        cp -r ddd* copy 2>/dev/null && echo copied; find copy -name bottom | wc -l
        mv ddd* moved; find moved -type f -execdir cat {} \;
        rm -rf moved; ls
        mkdir -p $(printf 'x/%.0s' $(seq 500)); find x | wc -l; rm -r x; ls
        "#,
    );
    assert!(said.contains("deep"), "{said}");
    // The trash has the whole of it.
    assert_eq!(home.trashed("moved").len(), 1);
    let bottom = bash(
        &home.trashed("moved")[0],
        home.base(),
        "find . -type f -name bottom -execdir cat {} +",
    );
    assert_eq!(bottom, "deep");
}

/// A checkout with everything a tree can have: modes, times, hard links, FIFOs, odd names.
const CHECKOUT: &str = r#"
    git init -q -b main "$BASE/origin"; cp -r "$SCRIPTS" "$BASE/origin/programs"
    git -C "$BASE/origin" add -A; git -C "$BASE/origin" commit -qm first
    git clone -q --no-local "$BASE/origin" tree
    mkdir -p tree/a/b/c tree/empty; echo 1 >tree/a/b/c/one; ln tree/a/b/c/one tree/a/hard; mkfifo tree/a/fifo
    chmod 640 tree/a/b/c/one; chmod 700 tree/a/b; printf x >$'tree/odd \x80 name\n'; : >tree/empty/.hidden
    touch -d '2001-01-01 UTC' tree/a/b/c tree/a/b; truncate -s 1M tree/sparse
    list() { (cd "$1"; find . -mindepth 1 \( -type d -printf '%P %y %m\n' \) -o -printf '%P %y %m %s %T@ %n\n' | LC_ALL=C sort); }
    mkdir "$BASE/kept"; tar c --format=posix tree | tar xp -C "$BASE/kept"; list "$BASE/kept/tree" >"$BASE/list"
"#;

#[test]
fn rm_of_a_tree_is_one_entry_that_holds_the_tree() {
    need_mount!();
    need_tools!("git", "perl");
    one_entry_holds_the_tree(&mount(PLAIN));
}

/// Here the kernel writes times back, of what has been removed too.
#[test]
fn rm_of_a_tree_is_one_entry_that_holds_the_tree_without_passthrough() {
    need_mount!();
    need_tools!("git", "perl");
    one_entry_holds_the_tree(&mount(NO_PASSTHROUGH));
}

fn one_entry_holds_the_tree(home: &Home) {
    in_home(home, CHECKOUT);
    let list = CHECKOUT
        .lines()
        .find(|line| line.contains("list()"))
        .unwrap();
    for remove in [
        "rm -rf tree",
        "find tree -delete",
        "python3 -c 'import shutil; shutil.rmtree(\"tree\")'",
        "perl -MFile::Path=rmtree -e 'rmtree(\"tree\")'",
    ] {
        in_home(home, &format!("{remove}; [ ! -e tree ]"));
        let entries = home.trashed("tree");
        assert_eq!(entries.len(), 1, "{remove}: {:?}", home.trash());
        bash(
            &entries[0],
            home.base(),
            &format!(
                r#"rmdir tmp; {list}
                diff -r --no-dereference -x fifo . "$BASE/kept/tree"; # (A file's names in the trash are not counted for the occupant; here in the store they are.)
                diff <(list . | sed '/ f /s/ [0-9]*$//') <(sed '/ f /s/ [0-9]*$//' "$BASE/list")"#
            ),
        );
        // Nothing of the tree lies anywhere else.
        let strays: Vec<_> = home
            .trash()
            .into_iter()
            .filter(|name| !name.to_string_lossy().ends_with("_tree"))
            .filter(|name| {
                ["_a", "_b", "_c", "_one", "_hard", "_.git", "_programs"]
                    .iter()
                    .any(|end| name.to_string_lossy().ends_with(end))
            })
            .collect();
        assert!(strays.is_empty(), "{remove}: {strays:?}");
        // `mv` out of the trash is the occupant's way back.
        in_home(
            home,
            &format!(
                r#"{list}
            mv .trash/*_tree tree; ! ls .trash | grep _tree$
            diff -r --no-dereference -x fifo tree "$BASE/kept/tree"; list tree | diff - "$BASE/list"; git --no-optional-locks -C tree status --porcelain >/dev/null; git -C tree fsck
            "#
            ),
        );
    }
}

#[test]
fn the_trash_gives_back_what_the_operator_asks_for() {
    need_mount!();
    let mut home = mount(PLAIN);
    in_home(
        &home,
        "mkdir -p d/e; echo 1 >d/e/f; echo 2 >g; echo 3 >h; rm -r d; rm g; rm h",
    );
    for daemon in [true, false] {
        if !daemon {
            home.umount();
        }
        let store = home.store().to_str().unwrap().to_owned();
        let target = if daemon {
            home.home().to_str().unwrap().to_owned()
        } else {
            store.clone()
        };
        let list = || -> Vec<serde_json::Value> {
            let output = home.trumanfs(&["trash", "list", &target, "--json"]);
            String::from_utf8(output.stdout)
                .unwrap()
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect()
        };
        let entry = |path: &str| -> String {
            let listed = list();
            let found = listed.iter().find(|listed| listed["path"] == path);
            found.unwrap_or_else(|| panic!("{path} is not in {listed:?}"))["entry"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let restore = |args: &[&str]| {
            let mut all = vec!["trash", "restore", &target];
            all.extend(args);
            home.trumanfs(&all)
        };
        let read = |name: &str| {
            let dir = if daemon { home.home() } else { home.store() };
            fs::read_to_string(dir.join(name))
        };
        let d = list()
            .into_iter()
            .find(|listed| listed["path"] == "/d")
            .unwrap();
        assert_eq!(d["directory"], true);
        assert_eq!(d["size"], 2);
        assert!(daemon || d["actor"]["comm"] == "rm", "{d}");

        let output = restore(&[&entry("/d")]);
        assert!(output.status.success(), "{}", describe(&output));
        assert_eq!(read("d/e/f").unwrap(), "1\n");
        // Something else is there now: nothing is changed.
        let dir = if daemon { home.home() } else { home.store() };
        fs::write(dir.join("g"), "new").unwrap();
        let output = restore(&[&entry("/g")]);
        assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
        assert_eq!(read("g").unwrap(), "new");
        let output = restore(&[&entry("/g"), "--to", "/d/old"]);
        assert!(output.status.success(), "{}", describe(&output));
        assert_eq!(read("d/old").unwrap(), "2\n");
        let output = restore(&["20260101T000000.000000Z_no"]);
        assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
        let output = restore(&[&entry("/h"), "--to", "/missing/h"]);
        assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
        if daemon {
            in_home(&home, "rm g; mv d/old g; rm g; rm -r d");
            // What replaced `g` is in the trash too, and would be found first.
            let first = home.trashed("g").remove(0);
            fs::remove_file(first).unwrap();
        }
    }
}
