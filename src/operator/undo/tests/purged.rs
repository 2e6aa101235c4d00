//! Purged entries of the trash block an undo only where they were there at the point.

use super::*;

/// Purges the entries of the trash whose name ends so.
pub(super) fn purge(lab: &Lab, end: &str) {
    let names = lab.entries().into_iter();
    let entries: Vec<_> = names
        .filter(|name| name.ends_with(end))
        .map(|name| crate::name::EscapedBytes(name.into_bytes()))
        .collect();
    assert!(!entries.is_empty(), "nothing like {end}");
    let (world, caller) = (&lab.world, Caller::myself());
    crate::operator::purge::purge_items(world, &entries, &[], caller, &mut |_| {}).unwrap();
}

#[test]
fn file_made_after_the_point_and_purged_is_not_missed() {
    let lab = Lab::new();
    lab.put("a", "one");
    let (start, before) = (lab.seq(), lab.look());
    lab.put("f", "x");
    lab.put("f", "y");
    lab.mv("f", "g", RenameMode::NoReplace).unwrap();
    lab.rm("g").unwrap();
    lab.mkdir("d").unwrap();
    lab.put("d/h", "x");
    lab.rm_all("d").unwrap();
    lab.put("a", "changed");
    purge(&lab, "");
    lab.undo_after(start);
    assert_same(&lab.look(), &before, "undone");
}

/// As on a full disk: an undo stops, what it has put into the trash is purged, and the same undo goes on.
#[test]
fn half_undo_goes_on_after_a_purge_of_its_removals() {
    let lab = Lab::new();
    lab.put("a", "one");
    let (start, before) = (lab.seq(), lab.look());
    lab.put("a", "changed");
    lab.put("fill", "x");
    let store = Store::of(&lab.world).unwrap();
    let selection = select(&store, &since(Point::After(lab.op(start)))).unwrap();
    let planned = plan(&store, &selection, OnConflict::Stop).unwrap();
    let failing = Failing {
        world: &lab.world,
        left: std::cell::Cell::new(1),
    };
    let _ = apply(
        &planned,
        &selection,
        ("test", &[]),
        &failing,
        Caller::myself(),
    );
    assert!(!lab.dir.path().join("fill").exists());
    assert_eq!(lab.read("a"), "changed");
    purge(&lab, "fill");
    lab.undo_after(start);
    assert_same(&lab.look(), &before, "undone");
}

#[test]
fn purge_of_a_file_present_at_the_point_is_a_conflict() {
    let lab = Lab::new();
    lab.put("gone", "x");
    lab.put("over", "x");
    lab.put("new", "y");
    let start = lab.seq();
    lab.rm("gone").unwrap();
    lab.mv("new", "over", RenameMode::Replace).unwrap();
    purge(&lab, "");
    let (last, after) = (lab.seq(), lab.look());
    let all = since(Point::After(lab.op(start)));
    let (_, conflicts) = lab.undo_as(&all, OnConflict::Stop);
    assert_eq!(conflicts.len(), 2, "{conflicts:#?}");
    for conflict in &conflicts {
        assert!(conflict.what.contains("not in the store any more"));
        assert!(!conflict.can_be_forced);
        assert_eq!(conflict.by, Some(lab.op(last)), "{conflicts:#?}");
    }
    assert_same(&lab.look(), &after, "nothing was changed");
}
