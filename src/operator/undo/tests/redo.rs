//! Commands that change nothing record nothing, and `redo` takes back the newest undo or restore that changed
//! something.

use super::*;

fn records(lab: &Lab) -> Vec<String> {
    let store = Store::of(&lab.world).unwrap();
    let words = ReverseRecords::open(&store).unwrap();
    words
        .map(|record| record.unwrap().1.op.word().to_owned())
        .collect()
}

fn last(lab: &Lab) -> Sys<LastUndo> {
    last_undo(&Store::of(&lab.world).unwrap(), &[])
}

pub(super) fn put_back(
    lab: &Lab,
    what: &str,
    at: Option<u64>,
    backend: &dyn ChangeBackend,
) -> Sys<restore::RestoreReport> {
    let wish = restore::RestoreRequest {
        path: path(what),
        at: at.map(|seq| Point::After(lab.op(seq))),
        to: None,
        dry_run: false,
    };
    let store = Store::of(&lab.world).unwrap();
    restore::restore(&store, &wish, Some(backend), Caller::myself())
}

/// With `--xattr`, the sequence setxattr, undo, undo, redo always ended in "nothing to do": the second undo had left
/// a record, because an attribute that was already right counted as different.
#[test]
fn an_undo_of_nothing_leaves_no_record() {
    let lab = Lab::new();
    lab.put("f", "x");
    let located = lab.world.find(&path("f")).unwrap();
    lab.world
        .set_xattr(&located, b"user.note", b"hello", 0, lab.caller())
        .unwrap();
    let (set, after) = (lab.seq(), lab.look());
    let first = lab.undo(&op(&lab, set)).record.unwrap();
    let count = lab.seq();
    let again = lab.undo(&op(&lab, set));
    assert_eq!(again, UndoOutcome::default());
    assert_eq!(lab.seq(), count, "{:?}", records(&lab));
    assert_eq!(last(&lab).unwrap().operation, lab.op(first));
    lab.redo();
    assert_same(&lab.look(), &after, "redone");
}

#[test]
fn a_record_of_an_undo_that_changed_nothing_is_passed_over() {
    let lab = Lab::new();
    lab.put("f", "x");
    let before = lab.look();
    lab.rm("f").unwrap();
    let removal = lab.seq();
    let undo = lab.undo(&op(&lab, removal)).record.unwrap();
    // Records as left by earlier releases for an undo and a redo that did nothing.
    let of = vec![(lab.world.session().to_owned(), undo, undo)];
    for (of, redo) in [(Vec::new(), false), (of, true)] {
        let begun = lab
            .world
            .begin_undo_record("nothing".to_owned(), of, redo, Caller::myself());
        begun.unwrap().done();
    }
    assert_eq!(last(&lab).unwrap().operation, lab.op(undo));
    lab.redo();
    assert!(lab.look().is_empty(), "removed again");
    assert!(last(&lab).is_err(), "there is no other");
    lab.undo(&op(&lab, removal));
    assert_same(&lab.look(), &before, "and again undone");
}

#[test]
fn an_undo_that_stopped_before_its_first_change_did_not_happen() {
    let lab = Lab::new();
    lab.put("f", "x");
    lab.rm("f").unwrap();
    let removal = op(&lab, lab.seq());
    let store = Store::of(&lab.world).unwrap();
    let selection = select(&store, &removal).unwrap();
    let planned = plan(&store, &selection, OnConflict::Stop).unwrap();
    let backend = Failing {
        world: &lab.world,
        left: std::cell::Cell::new(0),
    };
    let failed = apply(
        &planned,
        &selection,
        ("test", &[]),
        &backend,
        Caller::myself(),
    );
    assert!(matches!(failed, Err(Error::Os { .. })), "{failed:?}");
    assert!(!records(&lab).contains(&"undo".to_owned()));
    assert!(matches!(last(&lab), Err(Error::Missing { .. })));
}

#[test]
fn a_restore_of_what_is_the_same_leaves_no_record() {
    let lab = Lab::new();
    lab.mkdir("d").unwrap();
    lab.put("d/f", "one");
    lab.symlink("f", "d/l").unwrap();
    let located = lab.world.find(&path("d/f")).unwrap();
    lab.world
        .set_xattr(&located, b"user.note", b"hello", 0, lab.caller())
        .unwrap();
    let then = lab.seq();
    for what in ["d", "d/f", "d/l"] {
        let restored = put_back(&lab, what, Some(then), &OfflineBackend(&lab.world)).unwrap();
        assert!(restored.same && restored.record.is_none(), "{restored:?}");
    }
    assert_eq!(lab.seq(), then, "{:?}", records(&lab));
    // A difference in any one respect makes it different.
    let located = lab.world.find(&path("d/f")).unwrap();
    lab.world
        .set_xattr(&located, b"user.note", b"later", 0, lab.caller())
        .unwrap();
    let restored = put_back(&lab, "d", Some(then), &OfflineBackend(&lab.world)).unwrap();
    assert!(!restored.same && restored.record.is_some(), "{restored:?}");
}

/// A file whose inode moved aside when its content was restored was reported as "not in the store any more", after
/// its content had come back and before its attributes had.
#[test]
fn restore_in_place_is_whole_and_counts_as_a_single_change() {
    let lab = Lab::new();
    lab.put("f", "one");
    let change = SetAttrs {
        mode: Some(0o640),
        ..SetAttrs::default()
    };
    lab.attr("f", change).unwrap();
    let (then, one) = (lab.seq(), lab.look());
    lab.put("f", "two");
    let change = SetAttrs {
        mode: Some(0o600),
        ..SetAttrs::default()
    };
    lab.attr("f", change).unwrap();
    let two = lab.look();
    let backend = OfflineBackend(&lab.world);
    let restored = put_back(&lab, "f", Some(then), &backend).unwrap();
    assert_eq!((&restored.failed, restored.made), (&None, 1));
    assert_same(&lab.look(), &one, "content, mode and time");
    put_back(&lab, "f", None, &backend).unwrap();
    assert_same(&lab.look(), &two, "as before the restore, all of it");
    lab.redo();
    assert_same(&lab.look(), &one, "a redo takes the restore back");
    let failing = Failing {
        world: &lab.world,
        left: std::cell::Cell::new(0),
    };
    let (first, count) = (last(&lab).unwrap(), records(&lab).len());
    let failed = put_back(&lab, "f", None, &failing);
    assert!(matches!(failed, Err(Error::Os { .. })), "{failed:?}");
    assert_eq!(last(&lab).unwrap(), first);
    assert_eq!(records(&lab).len(), count);
}

/// Makes a directory with a file, moves another file into it, and restores the directory as it was before that: the
/// file goes to the trash with the directory. Returns the number of the move, and what was there before the restore.
fn restored_directory(lab: &Lab, dir: &str) -> (u64, Snapshot) {
    lab.mkdir("d").unwrap();
    if dir != "d" {
        lab.mkdir(dir).unwrap();
    }
    lab.put("d/k", "keep");
    lab.put("f", "x");
    let then = lab.seq();
    lab.mv("f", &format!("{dir}/g"), RenameMode::NoReplace)
        .unwrap();
    let (moved, before) = (lab.seq(), lab.look());
    put_back(lab, "d", Some(then), &OfflineBackend(&lab.world)).unwrap();
    (moved, before)
}

/// The undo takes the file out of the removed directory, and its redo puts it into an entry of its own: the redo of the
/// restore brought the directory back without it, and ended well.
#[test]
fn redo_of_a_restore_returns_files_an_undo_took_from_the_trash() {
    for dir in ["d", "d/sub"] {
        let lab = Lab::new();
        let (moved, before) = restored_directory(&lab, dir);
        lab.undo(&op(&lab, moved));
        assert_eq!(lab.read("f"), "x");
        lab.redo();
        lab.redo();
        assert_same(&lab.look(), &before, dir);
        // Once more, by way of an undo of the redo.
        lab.undo(&op(&lab, moved));
        lab.redo();
        assert_same(&lab.look(), &before, "again");
    }
}

/// A name that the undo had used in between may mean something else by now.
#[test]
fn redo_of_a_restore_ignores_names_used_in_between() {
    let lab = Lab::new();
    let (moved, before) = restored_directory(&lab, "d");
    lab.undo(&op(&lab, moved));
    lab.redo();
    lab.put("f", "later");
    lab.redo();
    assert_eq!(lab.read("f"), "later");
    lab.rm("f").unwrap();
    assert_eq!(
        lab.look().keys().collect::<Vec<_>>(),
        before.keys().collect::<Vec<_>>()
    );
    assert_eq!(lab.read("d/g"), "x");
}

/// Entries purged meanwhile are reported by name.
#[test]
fn redo_of_a_restore_names_entries_purged_in_between() {
    let lab = Lab::new();
    let (moved, _) = restored_directory(&lab, "d");
    lab.undo(&op(&lab, moved));
    lab.redo();
    purged::purge(&lab, "_f");
    let last = last(&lab).unwrap().operation;
    let (_, conflicts) = lab.undo_as(&UndoScope::Operations(vec![last]), OnConflict::Stop);
    assert!(
        conflicts
            .iter()
            .any(|one| one.what.contains("not in the store any more")),
        "{conflicts:?}"
    );
}

/// Makes a random undo or restore; `None` where that is refused or changes nothing.
fn act(lab: &Lab, random: &mut Random, changes: &[u64]) -> Option<String> {
    let seq = *one(random, changes);
    if random.below(2) == 0 {
        // Gathering belongs to a removal.
        select(&Store::of(&lab.world).unwrap(), &op(lab, seq)).ok()?;
        let (outcome, conflicts) = lab.undo_as(&op(lab, seq), OnConflict::Stop);
        return (conflicts.is_empty() && outcome.record.is_some()).then(|| format!("undo {seq}"));
    }
    let all: Vec<String> = lab.look().into_keys().collect();
    let what = one(random, &all);
    let restored = put_back(lab, what, Some(seq), &OfflineBackend(&lab.world)).ok()?;
    (restored.record.is_some() && restored.failed.is_none())
        .then(|| format!("restore {what} at {seq}"))
}

/// Random undos and restores, one after the other: as many redos go back through all of them.
#[test]
fn redos_go_back_through_undos_and_restores() {
    // 50 and 171 once left the time of a directory behind that had come back from the trash.
    for seed in (0..20).chain([50, 171]) {
        let (lab, mut random) = (Lab::with_files(), Random(seed));
        let mut changes = Vec::new();
        while changes.len() < 6 {
            if lab.step(&mut random).is_some() {
                changes.push(lab.seq());
            }
        }
        let mut done = Vec::new();
        for _ in 0..12 {
            if lab.look().is_empty() {
                break;
            }
            let before = lab.look();
            if let Some(what) = act(&lab, &mut random, &changes) {
                done.push((what, before));
            }
        }
        let words: Vec<String> = done.iter().map(|(what, _)| what.clone()).collect();
        while let Some((what, before)) = done.pop() {
            let last = last(&lab).unwrap().operation;
            let wanted = UndoScope::Operations(vec![last]);
            let (_, conflicts) = lab.undo_as(&wanted, OnConflict::Stop);
            assert!(
                conflicts.is_empty(),
                "seed {seed}: redo of {what} of {words:?}: {conflicts:#?}"
            );
            assert_same(
                &lab.look(),
                &before,
                &format!("seed {seed}: redo of {what} of {words:?}"),
            );
        }
    }
}

/// The record of a redo of an undo with very many ranges names that undo, or the next redo would find it again.
#[test]
fn redo_of_many_ranges_is_known_by_the_undo_it_took_back() {
    let lab = Lab::new();
    lab.put("f", "x");
    lab.rm("f").unwrap();
    let undo = lab.undo(&op(&lab, lab.seq())).record.unwrap();
    let store = Store::of(&lab.world).unwrap();
    let selection = select(&store, &op(&lab, undo)).unwrap();
    assert_eq!(
        selection.named_up_to(0),
        [(lab.world.session().to_owned(), undo, undo)]
    );
    assert!(
        selection.named_ranges().len() == 1,
        "{:?}",
        selection.named_ranges()
    );
}

#[test]
fn purge_of_missing_entries_leaves_no_record() {
    let lab = Lab::new();
    lab.put("f", "x");
    let count = lab.seq();
    let entries = [crate::name::EscapedBytes(b"nothing".to_vec())];
    let versions = [(lab.world.session().to_owned(), 77)];
    let purged = crate::operator::purge::purge_items(
        &lab.world,
        &entries,
        &versions,
        Caller::myself(),
        &mut |_| {},
    );
    assert_eq!(purged.unwrap().missing.len(), 2);
    assert_eq!(lab.seq(), count, "{:?}", records(&lab));
}

/// An operator's command that changed nothing in an unmounted store used to leave an empty session.
#[test]
fn session_without_changes_leaves_no_journal() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = || {
        let store = Store::open(dir.path()).unwrap();
        crate::world::store::settle::sessions(store.state()).unwrap()
    };
    let open = |home: Option<Vec<u8>>| {
        let options = WorldOptions {
            session: new_session_id(),
            home,
            ..WorldOptions::default()
        };
        World::open(dir.path(), options).unwrap().0
    };
    open(None).close();
    assert!(sessions().is_empty(), "{:?}", sessions());
    open(Some(b"/home".to_vec())).close();
    assert_eq!(sessions().len(), 1, "that it was mounted is worth knowing");
    let world = open(None);
    world.note_checkpoint("here", Caller::myself()).unwrap();
    world.close();
    open(None).close();
    open(None).close();
    assert_eq!(sessions().len(), 2);
}
