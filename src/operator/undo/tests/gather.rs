//! Removals that are gathered later, or never: a daemon that dies leaves entries of their own.

use super::redo::put_back;
use super::*;
use crate::world::trash::trash_entries::EntryName;

#[test]
fn removals_are_gathered_from_the_inside_out() {
    let lab = Lab::without_gathering();
    lab.rm_all("proj").unwrap();
    assert_eq!(lab.trash(), ["a", "b", "c", "d", "deep", "proj", "sub"]);
    assert!(lab.gather_records().is_empty());
    lab.world.gather_now();
    assert_eq!(lab.trash(), ["proj"]);
    assert_eq!(lab.entry("proj"), ["a", "b", "sub"]);
    assert_eq!(
        lab.gather_records(),
        ["/proj/sub/deep 1", "/proj/sub 2", "/proj 3"]
    );
}

#[test]
fn the_end_of_a_session_gathers() {
    let lab = Lab::without_gathering();
    lab.rm_all("proj").unwrap();
    lab.world.close();
    assert_eq!(lab.trash(), ["proj"]);
}

#[test]
fn directories_of_one_name_gather_their_own_entries() {
    let lab = Lab::without_gathering();
    lab.put("proj/a", "second");
    lab.rm("proj/a").unwrap();
    lab.put("proj/a", "third");
    lab.rm_all("proj").unwrap();
    lab.mkdir("proj").unwrap();
    lab.put("proj/a", "fourth");
    lab.rm_all("proj").unwrap();
    lab.mkdir("proj").unwrap();
    lab.put("proj/a", "fifth");
    lab.world.gather_now();
    assert_eq!(lab.trash(), ["a", "proj", "proj"]);
    let contents = lab.in_trash("proj").into_iter();
    let contents: Vec<_> = contents.map(|e| lab.read(&format!("{e}/a"))).collect();
    assert_eq!(contents, ["third", "fourth"]);
    assert_eq!(lab.read("proj/a"), "fifth");
}

#[test]
fn entries_in_use_are_gathered_at_once_inner_ones_first() {
    let lab = Lab::without_gathering();
    for path in ["proj/sub/deep/d", "proj/sub/deep", "proj/sub/c", "proj/sub"] {
        lab.rm(path).unwrap();
    }
    lab.rm("proj/a").unwrap();
    lab.rm("proj/b").unwrap();
    let at = path("proj");
    let (dir, name) = lab.world.parent(&at).unwrap();
    let is_sub = |entry: &EntryName| entry.bytes().ends_with(b"_sub");
    let removed = lab
        .world
        .rmdir_gathering(&dir, name, lab.caller(), &is_sub)
        .unwrap();
    let gathered: Vec<_> = removed.gathered.iter().map(|r| &r.name[..]).collect();
    assert_eq!(gathered, [b"sub"]);
    assert_eq!(lab.trash(), ["a", "b", "proj"]);
    assert_eq!(lab.entry("proj"), ["sub"]);
    lab.world.gather_now();
    assert_eq!(lab.trash(), ["proj"]);
}

/// As many as may wait, and no more: then whoever removes a directory gathers.
#[test]
fn gathering_queue_is_bounded() {
    let lab = Lab::without_gathering();
    let step = |n: usize| {
        lab.mkdir("d").unwrap();
        // Behind the journal, for speed; 500 may wait in a test.
        for i in 0..n {
            lab.put_behind(&format!("d/{i}"));
        }
        lab.rm_all("d").unwrap();
        lab.world.gather_overdue();
    };
    step(3);
    assert_eq!(lab.trash().len(), 4);
    step(500);
    assert_eq!(lab.trash(), ["d", "d"]);
}

/// A directory that is gone and a name that is taken stop nothing: what cannot be gathered stays where it is.
#[test]
fn removal_that_cannot_be_gathered_stays_an_entry() {
    let lab = Lab::without_gathering();
    lab.rm_all("proj").unwrap();
    let [proj, sub] = ["proj", "sub"].map(|name| lab.in_trash(name).remove(0));
    lab.put_behind(&format!("{proj}/a"));
    lab.rmdir_behind(&sub);
    lab.world.gather_now();
    assert_eq!(lab.trash(), ["a", "c", "deep", "proj"]);
    assert_eq!(lab.entry("deep"), ["d"]);
    assert_eq!(lab.entry("proj"), ["a", "b"]);
    assert_eq!(lab.read(&lab.in_trash("a")[0]), "proj/a");
}

/// A killed daemon leaves all, some or none of the removals gathered. Each can be taken back whole, by the next session
/// too.
#[test]
fn removals_never_gathered_are_undone_as_well() {
    let what_was_done = |lab: &Lab, done: usize| {
        lab.rm_all("proj/sub").unwrap();
        if done > 0 {
            lab.world.gather_now();
        }
        lab.rm_all("proj").unwrap();
        lab.mkdir("proj").unwrap();
        lab.put("proj/a", "new");
        lab.mv("proj", "away/proj", RenameMode::NoReplace).unwrap();
        if done > 1 {
            lab.world.gather_now();
        }
    };
    for done in 0..3 {
        let lab = Lab::without_gathering();
        let start = lab.look();
        what_was_done(&lab, done);
        lab.undo_after(1);
        assert_same(&lab.look(), &start, &format!("{done} gathered"));
        // The redo gathers, the undo of that finds it.
        lab.redo();
        lab.undo_after(1);
        assert_same(&lab.look(), &start, &format!("{done} gathered, once more"));

        let lab = Lab::without_gathering();
        let start = lab.look();
        what_was_done(&lab, done);
        let first = lab.world.session().to_owned();
        let Lab { dir, world, .. } = lab;
        drop(world);
        let lab = Lab::in_dir(dir);
        assert!(!lab.gather_records().is_empty() || done == 0);
        lab.undo(&since(Point::After(Operation {
            session: first,
            seq: 1,
        })));
        assert_same(
            &lab.look(),
            &start,
            &format!("{done} gathered before the kill"),
        );
    }
}

/// Late gathering comes after later changes: a restore still goes back to before the last removal, and no further.
#[test]
fn a_restore_goes_back_to_before_the_last_removal_of_a_name() {
    let restored = |then: &dyn Fn(&Lab), what: &str| {
        let lab = Lab::without_gathering();
        lab.rm_all("proj").unwrap();
        then(&lab);
        lab.world.gather_now();
        let restored = put_back(&lab, what, None, &OfflineBackend(&lab.world)).unwrap();
        assert_eq!(restored.failed, None);
        lab
    };
    let second = |lab: &Lab| {
        lab.mkdir("proj").unwrap();
        lab.mkdir("proj/sub").unwrap();
        lab.put("proj/sub/new", "second");
        lab.put("proj/a", "second");
    };
    let lab = restored(
        &|lab| {
            second(lab);
            lab.rm_all("proj").unwrap();
        },
        "proj",
    );
    assert_eq!(lab.listed("proj"), ["a", "sub"]);
    assert_eq!(lab.listed("proj/sub"), ["new"]);
    assert_eq!(lab.read("proj/a"), "second");
    let lab = restored(
        &|lab| {
            second(lab);
            lab.mv("proj", "away/proj", RenameMode::NoReplace).unwrap();
        },
        "proj",
    );
    assert_eq!(lab.read("proj/sub/new"), "second");
    let lab = restored(&|_| (), "proj");
    assert_eq!(lab.listed("proj"), ["a", "b", "sub"]);
    assert_eq!(lab.listed("proj/sub/deep"), ["d"]);
    let lab = restored(
        &|lab| {
            second(lab);
            lab.rm_all("proj/sub").unwrap();
        },
        "proj/sub",
    );
    assert_eq!(lab.listed("proj/sub"), ["new"]);
}

#[test]
fn histories_that_are_gathered_now_and_then_are_undone() {
    for seed in 0..40 {
        let lab = Lab::without_gathering();
        let start = lab.look();
        let mut random = Random(seed);
        for _ in 0..40 {
            lab.step(&mut random);
            if random.below(8) == 0 {
                lab.world.gather_now();
            }
        }
        if seed % 2 == 0 {
            lab.world.gather_now();
        }
        let end = lab.look();
        lab.undo_after(1);
        assert_same(&lab.look(), &start, &format!("seed {seed}, undone"));
        lab.redo();
        assert_same(&lab.look(), &end, &format!("seed {seed}, redone"));
    }
}
