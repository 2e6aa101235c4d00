//! Headings, marks, flags, edits and moving sideways: the state and its frames where there is much to review.

use super::*;

/// Names of two hundred paths in ten directories.
fn many() -> Vec<String> {
    let names = (0..200).map(|at| format!("d{}/f{:03}", at / 20, at));
    names.collect()
}

fn state_of_many() -> ScreenState {
    let names = many();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    state(&names)
}

#[test]
fn directories_are_folded_with_counts_and_decided_on_as_a_whole() {
    let mut state = state_of_many();
    let seen = frame(&mut state, 110, 24);
    assert!(seen.contains(">+ /d0/ (20)"), "{seen}");
    assert!(seen.contains(" + /d9/ (20)"), "{seen}");
    assert!(seen.contains("│ 20 paths: 20 modified"), "{seen}");
    keys(&mut state, "jr");
    let seen = frame(&mut state, 110, 24);
    assert!(
        seen.contains("take back all changes of 20 listed paths: /d1/? [y/n]"),
        "{seen}"
    );
    let paths = (20..40).map(|at| path(&format!("d1/f{at:03}"))).collect();
    let action = ReviewAction::Reject(ActionTarget::Paths(paths));
    assert_eq!(
        keys(&mut state, "y"),
        [ScreenEffect::Request(WorkerRequest::Do(action, 1))]
    );
    state.handle_event(done(ActionOutcome::default()));
    state.handle_key(Key::Enter);
    let seen = frame(&mut state, 110, 24);
    assert!(seen.contains(">- /d1/ (20)"), "{seen}");
    assert!(seen.contains("   M /d1/f020"), "{seen}");
    keys(&mut state, "jj");
    assert_eq!(state.selected_item().unwrap().path, path("d1/f021"));
    // To the heading, and folded.
    state.handle_key(Key::Left);
    assert!(frame(&mut state, 110, 24).contains(">- /d1/ (20)"));
    state.handle_key(Key::Left);
    assert_eq!(state.rows.len(), 10);
    keys(&mut state, "z");
    assert_eq!(state.rows.len(), 210);
    keys(&mut state, "Gz");
    assert_eq!(state.rows.len(), 10);
    assert!(frame(&mut state, 110, 24).contains(">+ /d9/ (20)"));
}

#[test]
fn classes_and_nested_directories_have_headings() {
    let mut names = many();
    names.extend((0..12).map(|at| format!("d0/deep/er/f{at}")));
    names.extend((0..3).map(|at| format!("target/{at}")));
    names.extend(
        [
            "Cargo.lock",
            "yarn.lock",
            ".git/index",
            ".git/HEAD",
            ".git/hooks/x",
        ]
        .map(str::to_owned),
    );
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut list = listing(1, &names);
    if let WorkerEvent::Listed(list) = &mut list {
        for item in &mut list.items {
            item.class = match item.path.to_string() {
                path if path.starts_with("/.git") => PathClass::Git,
                path if path.ends_with(".lock") => PathClass::Generated,
                path if path.starts_with("/target") => PathClass::Ignored,
                _ => PathClass::Ordinary,
            };
            if item.path == path(".git/hooks/x") {
                item.flag = Some(PathFlag::RunsOnHost);
            }
        }
    }
    let mut state = ScreenState::new("review".to_owned());
    state.handle_event(list);
    state.handle_event(WorkerEvent::Described(vec![DescribedPath {
        of: state.item(219).unwrap().seen(),
        tags: vec!["runs", "exec"],
    }]));
    let seen = frame(&mut state, 80, 45);
    for row in [
        ">M ! /.git/hooks/x runs exec ",
        " + /d0/ (32)",
        " + lock files and generated files (2)",
        " + ignored by git (3)",
        " + git's own files (2)",
    ] {
        assert!(seen.contains(row), "{row:?}: {seen}");
    }
    keys(&mut state, "j");
    state.handle_key(Key::Enter);
    let seen = frame(&mut state, 80, 45);
    assert!(seen.contains("   + /d0/deep/er/ (12)"), "{seen}");
    assert!(seen.contains("   M /d0/f000"), "{seen}");
}

#[test]
fn search_looks_below_headings_and_unfolds_them() {
    let mut state = state_of_many();
    keys(&mut state, "/f133");
    let show = |name: &str| ScreenEffect::Request(WorkerRequest::Show(path(name)));
    assert_eq!(state.handle_key(Key::Enter), [show("d6/f133")]);
    let seen = frame(&mut state, 110, 24);
    assert!(seen.contains("> "), "{seen}");
    assert_eq!(state.selected_item().unwrap().path, path("d6/f133"));
    keys(&mut state, "/f13");
    state.handle_key(Key::Enter);
    assert_eq!(state.selected_item().unwrap().path, path("d6/f134"));
    keys(&mut state, "/nowhere");
    assert_eq!(state.handle_key(Key::Enter), []);
    assert_eq!(state.message, "no listed path has \"nowhere\" in it");
}

#[test]
fn several_paths_are_marked_and_decided_on() {
    let mut state = state(&["a", "b", "c", "d", "d/x"]);
    keys(&mut state, "mjm");
    let seen = frame(&mut state, 80, 24);
    assert!(seen.contains(" *M /a") || seen.contains("*M /a"), "{seen}");
    keys(&mut state, "r");
    assert!(
        frame(&mut state, 80, 24).contains("take back all changes of 2 marked paths? [y/n]"),
        "{seen}"
    );
    let action = ReviewAction::Reject(ActionTarget::Paths(vec![path("a"), path("c")]));
    assert_eq!(
        keys(&mut state, "y"),
        [ScreenEffect::Request(WorkerRequest::Do(action, 1))]
    );
    state.handle_event(done(ActionOutcome::default()));
    // What is below a marked directory is meant as well, and said.
    keys(&mut state, "Mgjjjma");
    let seen = frame(&mut state, 80, 24);
    assert!(
        seen.contains("1 marked path and what is below (1 more)?"),
        "{seen}"
    );
    keys(&mut state, "n");
    // A path that changes is unmarked.
    let mut changed = listing(2, &["a", "b", "c", "d", "d/x"]);
    if let WorkerEvent::Listed(listing) = &mut changed {
        listing.items[3].time += 1;
    }
    state.handle_event(changed);
    assert_eq!(state.message, "1 path changed meanwhile: unmarked");
    assert!(state.marked.is_empty());
    // All of a group, and back.
    let mut state = state_of_many();
    keys(&mut state, "mm");
    assert_eq!(state.marked.len(), 40);
    assert!(frame(&mut state, 80, 24).contains("/d1/ (20) *20"));
    keys(&mut state, "gm");
    assert_eq!(state.marked.len(), 20);
}

#[test]
fn a_difference_moves_sideways_by_columns() {
    let mut state = state(&["a"]);
    state.handle_event(WorkerEvent::Shown(Box::new(ShownDifference {
        path: path("a"),
        head: Vec::new(),
        lines: vec![
            DifferenceLine {
                kind: LineKind::Added,
                text: "+0123456789日本語e\u{301}x".to_owned(),
            },
            DifferenceLine {
                kind: LineKind::Removed,
                text: "-0123456日本語".to_owned(),
            },
        ],
        hunks: Vec::new(),
    })));
    keys(&mut state, ">");
    let seen = frame(&mut state, 80, 14);
    assert!(seen.contains("+89日本語e\u{301}x"), "{seen}");
    // The first of two columns is gone: the second is empty.
    assert!(seen.contains("- 本語"), "{seen}");
    keys(&mut state, "<");
    assert!(frame(&mut state, 80, 14).contains("+0123456789日本語e\u{301}x"));
    // In the difference the arrows do the same, and the last one leaves it.
    for key in [Key::Enter, Key::Right, Key::Left] {
        state.handle_key(key);
        assert_eq!(state.focus, FocusedPane::Difference);
    }
    state.handle_key(Key::Left);
    assert_eq!(state.focus, FocusedPane::List);
}

#[test]
fn an_edit_is_of_a_path_that_is_there() {
    let mut state = state(&["a"]);
    let read = ScreenEffect::Request(WorkerRequest::ReadToEdit(path("a")));
    assert_eq!(keys(&mut state, "e"), [read]);
    assert_eq!(keys(&mut state, "e"), []);
    let text = Box::new(EditableText::of(path("a")));
    let effect = ScreenEffect::Edit(text.clone());
    assert_eq!(state.handle_event(WorkerEvent::Editable(text)), [effect]);
    assert_eq!(state.note_edited(Ok(None)), None);
    assert_eq!(state.message, "the text is as it was; nothing was recorded");
}

#[test]
fn a_group_of_flagged_paths_is_not_accepted_as_a_whole() {
    let mut flagged = listing(1, &["a", "b", "c"]);
    if let WorkerEvent::Listed(listing) = &mut flagged {
        listing.items[1].flag = Some(PathFlag::LeadsOut);
    }
    let mut state = ScreenState::new("review".to_owned());
    state.handle_event(flagged);
    frame(&mut state, 80, 24);
    // By program: vim has the flagged one alone.
    keys(&mut state, "bb/b");
    state.handle_key(Key::Enter);
    state.handle_key(Key::Left);
    assert_eq!(state.selected_group().unwrap().title, "vim");
    keys(&mut state, "a");
    assert_eq!(state.asked, OpenPrompt::Nothing);
    assert!(state.message.contains("by itself"), "{}", state.message);
    keys(&mut state, "r");
    assert!(matches!(state.asked, OpenPrompt::Sure { .. }));
}
