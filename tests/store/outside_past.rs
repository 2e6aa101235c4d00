//! The past of files that their owner made or changed after a point, and that no record up to it names: what is there
//! now, or was kept since, is not shown as what was there then.

use std::fs;
use std::process::Command;

use crate::common::{Home, describe, need_mount, trumanfs};

/// A file's past after its owner's work and what the home did later.
struct PastCase {
    /// The owner's commands in the store after the first session.
    owner: &'static str,
    /// The home's commands in a session after that; may be empty.
    later: &'static str,
    /// The path to ask for.
    path: &'static str,
    /// The content at the end of the first session.
    truth: Option<&'static str>,
}

/// Returns the point after the last change that was recorded so far.
pub(crate) fn point(home: &Home) -> String {
    let records = home.journal();
    let seq = &records.last().unwrap()["seq"];
    let sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
    let session = sessions.map(|entry| entry.unwrap().file_name()).max();
    format!("{}:{seq}", session.unwrap().display())
}

pub(crate) fn owner(home: &Home, line: &str) {
    let mut shell = Command::new("sh");
    let status = shell.args(["-c", line]).current_dir(home.store()).status();
    assert!(status.unwrap().success(), "{line}");
}

fn cat(home: &Home, path: &str, point: &str) -> std::process::Output {
    trumanfs(&["cat", home.store().to_str().unwrap(), path, "--at", point])
}

/// Returns a home with a file of its owner in a directory, and others, after a session that changed another file.
fn home_before(first: &str) -> (Home, String) {
    let home = Home::prepared(
        |store| {
            fs::create_dir(store.join("d")).unwrap();
            for (name, text) in [("d/c", "1\n"), ("a", "a\n"), ("z", "z\n")] {
                fs::write(store.join(name), text).unwrap();
            }
        },
        &[],
    );
    home.sh(first);
    let point = point(&home);
    (home, point)
}

/// A file that an owner made or wrote after a point is none of the past there, whatever times it has, and whatever the
/// home does to it or to the directory above later.
#[test]
fn what_an_owner_made_or_wrote_after_a_point_is_not_shown_there() {
    need_mount!();
    let case = |owner, later, path, truth| PastCase {
        owner,
        later,
        path,
        truth,
    };
    let cases = [
        // A copy with the times of the original.
        case("cp -p a d/n", "", "/d/n", None),
        case("cp -p a d/n", "mv d e", "/d/n", None),
        case("cp -p a d/n", "mv d/n d/m", "/d/n", None),
        case("cp -p a d/n", "chmod 600 d/n", "/d/n", None),
        case("cp -p a d/n", "echo 3 >> d/n", "/d/n", None),
        // The same over a file, in place.
        case("cp -p a d/c", "", "/d/c", Some("1\n")),
        case("cp -p a d/c", "mv d e", "/d/c", Some("1\n")),
        // What a record found and kept is later than the point as well.
        case("echo 2 >> d/c", "echo 3 >> d/c", "/d/c", Some("1\n")),
        case("echo 2 >> d/c", "sed -i s/1/3/ d/c", "/d/c", Some("1\n")),
        case("echo 2 >> d/c", "echo 3 > d/c", "/d/c", Some("1\n")),
        case("echo 2 >> d/c", "mv d e; echo 3 > e/c", "/d/c", Some("1\n")),
        case("echo 2 >> d/c", "chmod 600 d/c", "/d/c", Some("1\n")),
        case("echo 2 >> d/c", "mv d/c d/b", "/d/c", Some("1\n")),
        case("echo 2 >> d/c", "rm d/c", "/d/c", Some("1\n")),
        // An empty file is not known without a version before a change outside.
        case(": > d/c", "echo 3 >> d/c", "/d/c", Some("1\n")),
        case(": > d/c", "chmod 600 d/c", "/d/c", Some("1\n")),
        case("rm d/c; : > d/c", "echo 3 > d/c", "/d/c", Some("1\n")),
    ];
    for at in cases {
        let (mut home, point) = home_before("echo z >> z");
        home.umount();
        owner(&home, at.owner);
        if !at.later.is_empty() {
            home.mount_again();
            home.sh(at.later);
            home.umount();
        }
        let shown = cat(&home, at.path, &point);
        let is_true = match shown.status.code() {
            Some(0) => at
                .truth
                .is_some_and(|truth| shown.stdout == truth.as_bytes()),
            _ => ["is unknown", "nothing was at"]
                .iter()
                .any(|words| describe(&shown).contains(words)),
        };
        let (owner, later) = (at.owner, at.later);
        assert!(is_true, "{owner}, then {later}: {}", describe(&shown));
    }
}

/// The first record after a point may tell that a file was somewhere else then: its owner has moved it over another since.
#[test]
fn a_file_that_its_owner_moved_over_another_is_not_shown_before() {
    need_mount!();
    for (first, change, later) in [
        ("echo 2 >> d/c", "mv d/c a", ""),
        ("mv d/c d/b", "mv d/b a", ""),
        ("ln d/c d/b", "mv d/c a", ""),
        ("chmod 600 d/c", "mv d/c a", ""),
        ("touch -d 2001-01-01 d/c", "mv d/c a", ""),
        ("echo 2 >> d/c", "mv d/c a", "echo 3 >> a"),
        ("echo 2 > d/c", "mv d/c a", "echo 3 > a"),
        ("mv d/c d/b", "mv d/b a", "rm a"),
        ("mv d/c d/b", "mv d/b a", "mv a b"),
    ] {
        let (mut home, point) = home_before("echo z >> z");
        home.sh(first);
        home.umount();
        owner(&home, change);
        if !later.is_empty() {
            home.mount_again();
            home.sh(later);
            home.umount();
        }
        let shown = cat(&home, "/a", &point);
        let is_true = shown.stdout == b"a\n" || describe(&shown).contains("is unknown");
        assert!(is_true, "{first}, {change}, {later}: {}", describe(&shown));
    }
}

/// The same of a file that has a further name, which stays: a record of a change may have that one, and tells the other
/// one no more.
#[test]
fn a_linked_file_that_its_owner_moved_over_another_is_not_shown_before() {
    need_mount!();
    for (before, first, change, later) in [
        (
            "",
            "ln a b; echo 2 >> a; echo 2 >> d/c",
            "mv a d/c",
            "echo 3 >> d/c",
        ),
        (
            "",
            "ln a b; echo 2 >> a; echo 2 >> d/c",
            "mv a d/c; ln d/c e",
            "echo 3 >> d/c",
        ),
        (
            "",
            "ln a b; echo 2 >> a; echo 2 >> a",
            "mv a d/c",
            "echo 3 > d/c",
        ),
        ("", "ln a b; echo 2 >> a", "mv a d/c", ""),
        (
            "ln a b",
            "echo 2 >> a; echo 2 >> d/c",
            "mv a d/c",
            "echo 3 >> d/c",
        ),
        ("ln a b", "echo 2 >> a", "mv a d/c", ""),
        ("ln a b", "chmod 600 a", "mv a d/c", "chmod 644 d/c"),
    ] {
        let (mut home, start) = home_before("echo z >> z");
        owner(&home, before);
        let mut points = vec![start];
        for line in first.split("; ") {
            home.sh(line);
            points.push(point(&home));
        }
        home.umount();
        owner(&home, change);
        if !later.is_empty() {
            home.mount_again();
            home.sh(later);
            home.umount();
        }
        for point in points {
            let shown = cat(&home, "/d/c", &point);
            let is_true =
                shown.stdout.starts_with(b"1\n") || describe(&shown).contains("is unknown");
            assert!(
                is_true,
                "{before}, {first}, {change}, {later} at {point}: {}",
                describe(&shown)
            );
        }
    }
}

/// A file that its owner saved anew is the successor of one that is gone. Where that has a further name still, which a
/// record tells of later on the way back, each name shows what the file held.
#[test]
fn past_of_a_linked_file_is_not_that_of_its_successor() {
    need_mount!();
    let anew = "mv $0 $0~; sed 's/^/9/' $0~ > $0; rm $0~";
    for (lines, owners) in [
        (
            ": > a; ln a d/e/b; ln d/e/b d/n; echo 2 >> a; mv a f",
            "d/n f",
        ),
        (
            ": > a; ln a d/e/b; ln a d/n; echo 2 >> d/e/b; mv a f",
            "d/n f",
        ),
        (": > a; ln a d/e/b; ln a d/n; echo 2 >> d/n", "d/n f; rm a"),
        ("ln a d/e/b; echo 2 >> a; echo 3 > d/e/b; mv a f", "f f"),
        ("ln a d/e/b; mv a f; echo 2 >> d/e/b; mv f a", "a a"),
    ] {
        let (mut home, _) = home_before("mkdir d/e");
        let names = ["a", "d/e/b", "d/n", "f"];
        let look = |home: &Home| names.map(|name| fs::read(home.store().join(name)).ok());
        let mut seen = Vec::new();
        for line in lines.split("; ") {
            home.sh(line);
            seen.push((point(&home), look(&home)));
        }
        home.umount();
        let (names_of_save, then) = owners.split_once("; ").unwrap_or((owners, "true"));
        let (saved, to) = names_of_save.split_once(' ').unwrap();
        owner(&home, &anew.replace("$0", saved));
        if saved != to {
            owner(&home, &format!("mv {saved} {to}"));
        }
        owner(&home, then);
        for (point, held) in &seen {
            for (name, held) in names.iter().zip(held) {
                let shown = cat(&home, &format!("/{name}"), point);
                let is_true = match (shown.status.code(), held) {
                    (Some(0), held) => held.as_ref() == Some(&shown.stdout),
                    _ => ["is unknown", "nothing was at"]
                        .iter()
                        .any(|words| describe(&shown).contains(words)),
                };
                let case = format!("{lines}, {owners}: {name} at {point}");
                assert!(is_true, "{case}: {}", describe(&shown));
            }
        }
    }
}

/// A further name that the owner gave to a file shows its past, which records have at the other one.
#[test]
fn past_of_a_further_name_that_its_owner_gave_is_known() {
    need_mount!();
    let (mut home, _) = home_before("echo z >> z");
    owner(&home, "ln a b");
    home.sh("echo 2 >> a");
    let first = point(&home);
    home.sh("echo 3 >> a");
    home.umount();
    let shown = cat(&home, "/b", &first);
    assert_eq!(shown.stdout, b"a\n2\n", "{}", describe(&shown));
}

/// A file that the home moved is known at both names, and by the name that it was opened by before.
#[test]
fn past_of_a_file_that_the_home_moved_and_changed_is_known() {
    need_mount!();
    for (first, later, path) in [
        ("mv d/c d/b", "echo 2 >> d/b", "/d/b"),
        ("true", "mv d/c d/b; echo 2 >> d/b", "/d/c"),
        (
            "exec 3>> d/c; mv d/c d/b; echo z >> z",
            "echo 2 >> d/b",
            "/d/b",
        ),
        (
            "mv d/c d/b; mv a d/c; echo z >> z",
            "mv d/c a; mv d/b d/c",
            "/d/b",
        ),
    ] {
        let (mut home, _) = home_before("echo z >> z");
        home.sh(first);
        let point = point(&home);
        home.sh(later);
        home.umount();
        let shown = cat(&home, path, &point);
        assert_eq!(
            shown.stdout,
            b"1\n",
            "{first}, {later}: {}",
            describe(&shown)
        );
    }
}

/// A copy is made and gets its attributes within the grain of the file system's times.
#[test]
fn past_of_a_file_that_the_home_has_just_made_is_known() {
    need_mount!();
    let (mut home, _) = home_before("echo z >> z");
    home.sh("cp -p a n");
    let after = point(&home);
    home.umount();
    let shown = cat(&home, "/n", &after);
    assert_eq!(shown.stdout, b"a\n", "{}", describe(&shown));
}

/// The kernel tells late of the times of a file that was written, which may be in the trash by then.
#[test]
fn past_of_a_file_whose_times_were_set_in_the_trash_is_known() {
    need_mount!();
    for removal in ["echo 2 > n; mv n d/c", "rm d/c; echo 2 > d/c"] {
        let (mut home, before) = home_before("echo z >> z");
        home.sh(&format!(
            "exec 3< d/c; {removal}; touch -d 2001-01-01 /dev/fd/3"
        ));
        home.umount();
        let is_there = |record: &serde_json::Value| record["op"] == "attr";
        assert!(home.journal().iter().any(is_there));
        let shown = cat(&home, "/d/c", &before);
        assert_eq!(shown.stdout, b"1\n", "{removal}: {}", describe(&shown));
    }
}

/// The path that a file had in between, of a directory that was moved and moved back, is the file's at that point.
#[test]
fn what_an_owner_wrote_after_a_directory_was_moved_back_is_not_shown_before() {
    need_mount!();
    for (change, later) in [
        ("echo 2 >> d/c", "echo 3 > d/c"),
        ("cp -p a d/c", ""),
        ("cp -p a d/n && mv d/n d/c", ""),
    ] {
        let (mut home, point) = home_before("mv d e");
        home.umount();
        let undone = trumanfs(&["undo", home.store().to_str().unwrap(), "--session", "last"]);
        assert!(undone.status.success(), "{}", describe(&undone));
        owner(&home, change);
        if !later.is_empty() {
            home.mount_again();
            home.sh(later);
            home.umount();
        }
        let shown = cat(&home, "/e/c", &point);
        let is_true = shown.stdout == b"1\n" || describe(&shown).contains("is unknown");
        assert!(is_true, "{change}, then {later}: {}", describe(&shown));
    }
}

/// A directory that the home moves takes files along of which no record tells: what their owner had written to them before
/// is there after the move, and not what an earlier session left.
#[test]
fn what_an_owner_wrote_before_a_directory_was_moved_is_not_older_after_it() {
    need_mount!();
    let exchange = r#"mkdir e; python3 -c '
import ctypes
assert not ctypes.CDLL(None).renameat2(-100, b"d", -100, b"e", 2)'"#;
    for (moves, is_undone, later, path) in [
        ("mv d e", false, "", "/e/c"),
        ("mkdir x; mv d x/d; mv x y", false, "", "/y/d/c"),
        ("mv d e; mv e d", false, "", "/d/c"),
        ("mv d e; mv a e/a", false, "", "/e/c"),
        (exchange, false, "", "/e/c"),
        ("rm -r d; mv .trash/*_d d", false, "", "/d/c"),
        ("mv d e", true, "", "/d/c"),
        ("rm -r d", true, "", "/d/c"),
        ("rm d/c", true, "", "/d/c"),
        // What a later record found and kept, not right after the point, may be later.
        ("mv d e", false, "echo 3 > e/c", "/e/c"),
        ("mv d e", false, "echo 3 >> e/c", "/e/c"),
        ("mv d e", false, "chmod 600 e/c", "/e/c"),
        ("mv d e", false, "mv e/c e/b", "/e/c"),
        ("mv d e", false, "rm -r e", "/e/c"),
        ("mv d e", true, "echo 3 > d/c", "/d/c"),
        ("rm -r d", true, "echo 3 > d/c", "/d/c"),
        ("rm d/c", true, "echo 3 > d/c", "/d/c"),
        ("mv d/c d/b; mv d/b d/c", true, "echo 3 > d/c", "/d/c"),
    ] {
        let (mut home, _) = home_before("echo 2 >> d/c");
        home.umount();
        owner(&home, "printf 9 | dd of=d/c conv=notrunc status=none");
        home.mount_again();
        home.sh(moves);
        if is_undone {
            home.umount();
            let undone = trumanfs(&["undo", home.store().to_str().unwrap(), "--session", "last"]);
            assert!(undone.status.success(), "{}", describe(&undone));
            home.mount_again();
            home.sh("echo z >> z");
        }
        let point = point(&home);
        home.sh(&format!("echo z >> z; {later}"));
        home.umount();
        let shown = cat(&home, path, &point);
        let is_true = shown.stdout == b"9\n2\n" || describe(&shown).contains("is unknown");
        let case = format!("{moves}, undone: {is_undone}, then {later}");
        assert!(is_true, "{case}: {}", describe(&shown));
    }
}

/// What a session left is known after its own move of the directory, whatever the owner writes later: the copy was made
/// after the move. So is what nobody else has changed.
#[test]
fn past_of_a_file_in_a_directory_that_the_home_moved_is_known() {
    need_mount!();
    for (first, second, change, path) in [
        ("echo 2 >> d/c; mv d e; mv e d", "", "echo 9 > d/c", "/d/c"),
        ("echo 2 >> d/c", "", "echo 9 > d/c", "/d/c"),
        ("echo 2 >> d/c", "mv d e", "", "/e/c"),
        ("echo 2 >> d/c; mv d e", "mv e d", "", "/d/c"),
    ] {
        let (mut home, _) = home_before(first);
        let mut at = point(&home);
        home.umount();
        if !second.is_empty() {
            home.mount_again();
            home.sh(second);
            at = point(&home);
            home.umount();
        }
        owner(&home, change);
        let shown = cat(&home, path, &at);
        let case = format!("{first}, {second}, {change}");
        assert_eq!(shown.stdout, b"1\n2\n", "{case}: {}", describe(&shown));
    }
}

/// A directory that the home moves takes along what the owner did to a file in it. What the home left there before is not
/// shown after that, also where the owner has changed the file again since.
#[test]
fn what_an_owner_wrote_before_a_directory_was_moved_is_not_undone_in_the_past() {
    need_mount!();
    let left = "for i in 1 2 3; do echo $i; done > d/c";
    for (moves, path) in [
        ("mv d e", "/e/c"),
        ("mv d e; mv e d", "/d/c"),
        ("mkdir f; mv d f/e", "/f/e/c"),
    ] {
        for again in ["", "echo 5 >> $0", "chmod 600 $0", "echo 5 > n; mv n $0"] {
            let (mut home, _) = home_before(left);
            home.umount();
            owner(&home, "echo 4 >> d/c");
            home.mount_again();
            home.sh(moves);
            let point = point(&home);
            home.umount();
            owner(&home, &again.replace("$0", &path[1..]));
            let shown = cat(&home, path, &point);
            let is_true =
                shown.stdout == b"1\n2\n3\n4\n" || describe(&shown).contains("is unknown");
            assert!(is_true, "{moves}, {again}: {}", describe(&shown));
        }
    }
}

/// Changes by the home alone leave the past of an owner's file known: at the point before, and at that of the record.
#[test]
fn past_of_a_file_that_only_the_home_changed_is_known() {
    need_mount!();
    for (later, path) in [
        ("true", "/d/c"),
        ("mv d e", "/e/c"),
        ("mv d/c d/b", "/d/b"),
        ("ln d/c d/b", "/d/b"),
        ("ln d/c d/b; rm d/b", "/d/c"),
        ("rm d/c; mv .trash/*_c d/c", "/d/c"),
        ("chmod 600 d/c", "/d/c"),
        ("touch -d 2001-01-01 d/c", "/d/c"),
    ] {
        let (mut home, before) = home_before("echo z >> z");
        home.umount();
        home.mount_again();
        home.sh(later);
        let after = point(&home);
        home.umount();
        for (path, point) in [("/d/c", before), (path, after)] {
            let shown = cat(&home, path, &point);
            assert_eq!(shown.stdout, b"1\n", "{later}: {}", describe(&shown));
        }
    }
}
