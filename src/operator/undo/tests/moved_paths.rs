//! Records with the path of a moment before: a file is found and opened, then a directory above it moves, under a
//! record of its own, and then the record of the change is written.

use super::*;

impl Lab {
    /// Truncates a file that was located before `meanwhile`.
    fn cut_after(&self, at: &str, meanwhile: impl FnOnce()) {
        let located = self.world.find(&path(at)).unwrap();
        meanwhile();
        let cut = SetAttrs {
            size: Some(2),
            mode: Some(0o600),
            ..SetAttrs::default()
        };
        self.world
            .set_attr(&located, cut, None, &NoOpenState, self.caller())
            .unwrap();
    }

    /// Undoes all after the first records, through a store that knows nothing yet.
    fn undo_and_redo(&self, from: u64, before: &Snapshot) {
        let after = self.look();
        self.undo_after(from);
        assert_same(&self.look(), before, "undone");
        self.redo();
        assert_same(&self.look(), &after, "redone");
    }
}

#[test]
fn change_in_a_directory_that_moved_meanwhile_is_undone() {
    let lab = Lab::with_files();
    let (from, before) = (lab.seq(), lab.look());
    lab.cut_after("proj/sub/deep/d", || {
        lab.mv("proj/sub", "away/sub", RenameMode::Replace).unwrap();
        lab.mv("away", "elsewhere", RenameMode::Replace).unwrap();
        lab.mkdir("proj/sub").unwrap();
        lab.mkdir("proj/sub/deep").unwrap();
        lab.put("proj/sub/deep/d", "another");
    });
    lab.undo_and_redo(from, &before);
}

#[test]
fn change_in_an_exchanged_directory_is_undone() {
    let lab = Lab::with_files();
    let (from, before) = (lab.seq(), lab.look());
    lab.cut_after("proj/sub/c", || {
        lab.mv("proj/sub", "away", RenameMode::Exchange).unwrap();
    });
    lab.undo_and_redo(from, &before);
}

#[test]
fn change_of_a_file_that_was_gathered_meanwhile_is_undone() {
    let lab = Lab::with_files();
    let (from, before) = (lab.seq(), lab.look());
    lab.cut_after("proj/sub/deep/d", || lab.rm_all("proj/sub").unwrap());
    lab.undo_and_redo(from, &before);
}

#[test]
fn former_content_of_a_file_in_a_moved_directory_is_found() {
    let lab = Lab::with_files();
    let from = lab.op(lab.seq());
    lab.cut_after("proj/sub/c", || {
        lab.mv("proj/sub", "away/sub", RenameMode::Replace).unwrap();
    });
    let store = Store::of(&lab.world).unwrap();
    for at in ["away/sub/c", "proj/sub/c"] {
        let mut past = crate::operator::past::Past::about_path(&store, &path(at), None).unwrap();
        past.back_to(&Point::After(from.clone())).unwrap();
        let node = past.tree().resolve(&path("proj/sub/c")).unwrap().unwrap();
        let mut text = String::new();
        let content = past.tree().content(node).unwrap();
        std::io::Read::read_to_string(&mut content.reader(), &mut text).unwrap();
        assert_eq!(text, "proj/sub/c", "asked about {at}");
    }
}

/// A record was passed over in silence where its file was nowhere.
#[test]
fn change_of_a_file_that_no_record_removed_is_named() {
    let lab = Lab::with_files();
    let from = lab.op(lab.seq());
    lab.put("proj/a", "new");
    lab.put("proj/b", "new");
    let at = path("proj/a");
    let (dir, name) = lab.world.parent(&at).unwrap();
    rustix::fs::unlinkat(&dir, name.bytes(), rustix::fs::AtFlags::empty()).unwrap();
    let store = Store::of(&lab.world).unwrap();
    let selection = select(&store, &since(Point::After(from))).unwrap();
    let plan = plan(&store, &selection, OnConflict::Stop).unwrap();
    assert!(plan.conflicts.is_empty(), "{:?}", plan.conflicts);
    assert_eq!(plan.notes.len(), 1, "{:?}", plan.notes);
    assert!(
        plan.notes[0].contains("/proj/a is not in the store"),
        "{:?}",
        plan.notes
    );
}
