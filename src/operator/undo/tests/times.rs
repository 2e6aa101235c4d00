//! The times of directories after an undo of a part of what was done in them.
//!
//! Where the last change in a directory is not undone, no record says which time the directory shall have, and the
//! undo's own moves left theirs. So the first repetition of the undo found that to undo, and only the second had
//! nothing to do. Whether an `rm -r` showed that depended on the order in which the disk lists a directory.

use rustix::time::ClockId;

use super::*;
use crate::journal::{Origin, OriginKind, RunId};

/// The changes of certain paths.
fn of(lab: &Lab, paths: &[&str]) -> UndoScope {
    UndoScope::Matching {
        from: Point::After(lab.op(1)),
        session: None,
        run: None,
        turns: None,
        pid: None,
        program: None,
        paths: paths.iter().map(|&path| path.to_owned()).collect(),
    }
}

fn now(clock: ClockId) -> (i64, i64) {
    let now = rustix::time::clock_gettime(clock);
    (now.tv_sec, now.tv_nsec)
}

/// Undoes; then the same undo again has nothing to do, no time is the undo's own, and a redo takes all of it back.
fn once_is_twice(lab: &Lab, wanted: &UndoScope, choice: OnConflict, what: &str) -> Snapshot {
    let before = lab.look();
    // The clock that files are stamped by is some milliseconds behind.
    let start = now(ClockId::Realtime);
    while now(ClockId::RealtimeCoarse) <= start {
        std::thread::yield_now();
    }
    let (first, conflicts) = lab.undo_as(wanted, choice);
    assert!(first.record.is_some(), "{what}: {conflicts:#?}");
    let after = lab.look();
    for (path, seen) in &after {
        assert!(
            seen.mtime <= start,
            "{what}: {path} has the undo's own time"
        );
    }
    let (second, _) = lab.undo_as(wanted, choice);
    assert_eq!(second, UndoOutcome::default(), "{what}: undone again");
    assert_same(&lab.look(), &after, what);
    lab.redo();
    assert_same(&lab.look(), &before, what);
    lab.undo_as(wanted, choice);
    assert_same(&lab.look(), &after, what);
    after
}

/// The removals of a tree, in an order.
fn remove(lab: &Lab, order: &[&str]) {
    for path in order {
        match *path {
            "sub" => {
                for path in ["sub/deep/d", "sub/c", "sub/deep", "sub"] {
                    lab.rm(&format!("proj/{path}")).unwrap();
                }
            }
            path => lab.rm(&format!("proj/{path}")).unwrap(),
        }
    }
    lab.rm("proj").unwrap();
}

#[test]
fn partly_restored_tree_has_its_times_in_each_removal_order() {
    let orders = [
        ["a", "b", "sub"],
        ["a", "sub", "b"],
        ["b", "a", "sub"],
        ["b", "sub", "a"],
        ["sub", "a", "b"],
        ["sub", "b", "a"],
    ];
    type Part<'p> = (&'p [&'p str], &'p [&'p str]);
    let parts: [Part<'_>; 4] = [
        (&["proj/a"], &["proj", "proj/a"]),
        (&["proj/a", "proj/b"], &["proj", "proj/a", "proj/b"]),
        (
            &["proj/sub/deep/d"],
            &["proj", "proj/sub", "proj/sub/deep", "proj/sub/deep/d"],
        ),
        (
            &["proj/b", "proj/sub/c"],
            &["proj", "proj/b", "proj/sub", "proj/sub/c"],
        ),
    ];
    for order in orders {
        for (paths, there) in parts {
            let what = format!("{paths:?} of {order:?}");
            let lab = Lab::with_files();
            let start = lab.look();
            lab.put("proj/a", "new");
            lab.put("proj/b", "new");
            remove(&lab, &order);
            let wanted = of(&lab, paths);
            let after = once_is_twice(&lab, &wanted, OnConflict::Stop, &what);
            let names: Vec<&String> = after.keys().filter(|path| *path != "away").collect();
            assert_eq!(names, there, "{what}");
            // The rest comes back to the very times of the start.
            lab.undo(&of(&lab, &["proj"]));
            assert_same(&lab.look(), &start, &what);
        }
    }
}

#[test]
fn directory_keeps_the_time_of_changes_not_undone() {
    type History<'h> = (&'h str, &'h dyn Fn(&Lab));
    let histories: [History<'_>; 5] = [
        ("removed", &|lab| lab.rm("proj/a").unwrap()),
        ("made", &|lab| {
            lab.rm("proj/a").unwrap();
            lab.put("proj/a", "made again");
        }),
        ("moved", &|lab| {
            lab.mv("proj/a", "away/x", RenameMode::NoReplace).unwrap();
        }),
        ("replaced", &|lab| {
            lab.mv("proj/sub/c", "proj/a", RenameMode::Replace).unwrap();
        }),
        ("exchanged", &|lab| {
            lab.mv("proj/sub", "proj/a", RenameMode::Exchange).unwrap();
        }),
    ];
    for (what, history) in histories {
        let lab = Lab::with_files();
        history(&lab);
        for later in ["proj/later", "away/later", "later"] {
            lab.put(later, "not undone");
        }
        once_is_twice(&lab, &of(&lab, &["proj/a"]), OnConflict::Stop, what);
    }
}

#[test]
fn a_run_a_process_and_a_conflict_leave_no_time_of_the_undo() {
    for choice in [OnConflict::Force, OnConflict::KeepBoth] {
        let mut lab = Lab::with_files();
        lab.pid = 1;
        lab.rm("proj/a").unwrap();
        lab.pid = 2;
        lab.put("proj/a", "in the way");
        once_is_twice(&lab, &by(1), choice, &format!("{choice:?}"));
    }
    // A forced content has its own time, and a time that was set later stays.
    let lab = Lab::with_files();
    let start = lab.look();
    lab.put("proj/a", "new");
    let written = lab.seq();
    lab.put("proj/a", "newer");
    let what = "a content by force";
    let after = once_is_twice(&lab, &op(&lab, written), OnConflict::Force, what);
    assert_same(&after, &start, what);
    // A file that is put beside it is new, and leaves no trace in the time of their directory.
    lab.undo_as(&op(&lab, written), OnConflict::KeepBoth);
    let beside = format!("proj/a.before-{written}");
    assert_eq!(lab.read(&beside), "proj/a");
    assert_eq!(lab.look()["proj"].mtime, start["proj"].mtime);
    lab.put("proj/b", "new");
    let written = lab.seq();
    let mtime = SetTime::To(Time { sec: 1, nsec: 2 });
    let touched = SetAttrs {
        mtime,
        ..SetAttrs::default()
    };
    lab.attr("proj/b", touched).unwrap();
    let what = "a time that was set";
    let after = once_is_twice(&lab, &op(&lab, written), OnConflict::Stop, what);
    assert_eq!(after["proj/b"].mtime, (1, 2));
    assert_eq!(after["proj/b"].content, start["proj/b"].content);
    let lab = Lab::with_files();
    let run = RunId::random();
    let of_run = Caller {
        origin: Origin::of_run(OriginKind::Shell, run),
        ..lab.caller()
    };
    let at = path("proj/a");
    let (dir, name) = lab.world.parent(&at).unwrap();
    lab.world.unlink(&dir, name, of_run).unwrap();
    lab.put("proj/later", "not undone");
    let wanted = UndoScope::Matching {
        from: Point::After(lab.op(1)),
        session: None,
        run: Some(run),
        turns: None,
        pid: None,
        program: None,
        paths: Vec::new(),
    };
    once_is_twice(&lab, &wanted, OnConflict::Stop, "a run");
}

#[test]
fn an_undo_after_a_restore_has_nothing_to_do_the_second_time() {
    let lab = Lab::with_files();
    lab.put("proj/a", "new");
    remove(&lab, &["a", "b", "sub"]);
    let request = restore::RestoreRequest {
        path: path("proj"),
        at: Some(Point::After(lab.op(1))),
        to: None,
        dry_run: false,
    };
    let store = Store::of(&lab.world).unwrap();
    let backend = OfflineBackend(&lab.world);
    let again = || restore::restore(&store, &request, Some(&backend), Caller::myself()).unwrap();
    assert!(!again().same);
    assert!(again().same);
    assert_eq!(lab.read("proj/a"), "proj/a");
    lab.rm("proj/b").unwrap();
    let removal = lab.seq();
    lab.put("proj/later", "not undone");
    once_is_twice(&lab, &op(&lab, removal), OnConflict::Stop, "restored");
}

/// xfs gives directories that get another parent the time of that; a kill can come before they get their own back.
#[test]
fn directory_gets_its_time_back_after_a_killed_exchange() {
    for onto_empty in [true, false] {
        let lab = Lab::new();
        for dir in ["a", "a/moved", "b", "b/other"] {
            lab.mkdir(dir).unwrap();
        }
        lab.put("a/moved/f", "x");
        let start = (lab.seq(), lab.look());
        let how = if onto_empty {
            RenameMode::Replace
        } else {
            RenameMode::Exchange
        };
        lab.mv("a/moved", "b/other", how).unwrap();
        lab.touch_behind("b/other");
        if onto_empty {
            lab.touch_behind(&lab.in_trash("other")[0])
        } else {
            lab.touch_behind("a/moved")
        }
        lab.undo_after(start.0);
        assert_same(&lab.look(), &start.1, "undone");
    }
}
