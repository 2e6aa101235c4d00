//! The state and its frames, without a store and without a terminal.

mod folded;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::draw::{draw, pane_heights};
use super::keys::Key;
use super::state::{FocusedPane, OpenPrompt, ScreenEffect, ScreenState};
use super::style::ScreenStyles;
use super::worker_messages::{
    ActionOutcome, ActionTarget, AuthorLabel, DescribedPath, DifferenceHunk, DifferenceLine,
    LineKind, ListedPath, ReviewAction, ReviewListing, ShownDifference, UndoableAction,
    WorkerEvent, WorkerRequest,
};
use crate::journal::RunId;
use crate::name::WorldPath;
use crate::operator::diff::{ChangeStatus, PathFlag};
use crate::operator::review::{EditableText, PathClass};

const RUN: &str = "4k2m9x0c7d1f";
/// 2026-01-16 10:15:30.
const TIME: i64 = 1_768_558_530_000_000;

fn path(text: &str) -> WorldPath {
    WorldPath::parse(text.as_bytes()).unwrap()
}

fn run() -> RunId {
    RUN.parse().unwrap()
}

fn listing(number: u64, paths: &[&str]) -> WorkerEvent {
    let items = paths.iter().enumerate().map(|(at, name)| ListedPath {
        path: path(name),
        status: ChangeStatus::Modified,
        flag: None,
        class: PathClass::Ordinary,
        who: at % 2,
        time: TIME + i64::try_from(at).unwrap() * 60_000_000,
    });
    WorkerEvent::Listed(ReviewListing {
        number,
        items: items.collect(),
        who: vec![
            AuthorLabel {
                run: Some(run()),
                program: "npm".to_owned(),
                command: Some("npm install".to_owned()),
            },
            AuthorLabel {
                run: None,
                program: "vim".to_owned(),
                command: None,
            },
        ],
        at: None,
    })
}

fn done(outcome: ActionOutcome) -> WorkerEvent {
    WorkerEvent::Done(outcome, None)
}

fn shown(name: &str, hunks: usize) -> WorkerEvent {
    let line = |kind, text: String| DifferenceLine { kind, text };
    let mut lines = Vec::new();
    for hunk in 0..hunks {
        let number = hunk + 1;
        lines.push(line(
            LineKind::Hunk,
            format!("@@ -{hunk} +{hunk} @@ hunk {number}"),
        ));
        lines.push(line(LineKind::Removed, format!("-old {hunk}")));
        lines.push(line(LineKind::Added, format!("+new {hunk}")));
    }
    WorkerEvent::Shown(Box::new(ShownDifference {
        path: path(name),
        head: vec![name.to_owned(), "last changed then".to_owned()],
        lines,
        hunks: (0..hunks)
            .map(|hunk| DifferenceHunk {
                line: hunk * 3,
                number: hunk + 1,
                digest: Some(format!("digest {hunk}")),
            })
            .collect(),
    }))
}

fn state(paths: &[&str]) -> ScreenState {
    let mut state = ScreenState::new("review /s: everything".to_owned());
    state.handle_event(listing(1, paths));
    frame(&mut state, 80, 24);
    state
}

/// Draws a frame; returns its rows.
fn frame(state: &mut ScreenState, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    let drawn = terminal.draw(|frame| {
        state.fit(pane_heights(state, frame.area()));
        draw(state, ScreenStyles { colour: false }, frame.buffer_mut());
    });
    let buffer = drawn.unwrap().buffer;
    let row = |y| -> String {
        let mut cells = (0..columns).map(|x| buffer[(x, y)].symbol());
        let mut text = String::new();
        while let Some(symbol) = cells.next() {
            text.push_str(symbol);
            // What is two columns wide has the next cell as well.
            if ratatui::text::Span::raw(symbol).width() == 2 {
                cells.next();
            }
        }
        text.trim_end().to_owned()
    };
    (0..rows).map(row).collect::<Vec<_>>().join("\n")
}

fn keys(state: &mut ScreenState, text: &str) -> Vec<ScreenEffect> {
    text.chars()
        .flat_map(|c| state.handle_key(Key::Char(c)))
        .collect()
}

#[test]
fn beside_each_other_or_below_each_other() {
    let mut state = state(&["src/main.rs", "src/lib.rs"]);
    state.handle_event(shown("src/main.rs", 2));
    assert_eq!(
        frame(&mut state, 100, 12),
        " review /s: everything  2 paths by path
>M /src/main.rs          npm      4k2m 10:15 │ src/main.rs
 M /src/lib.rs           vim           10:16 │ last changed then
                                             │ @@ -0 +0 @@ hunk 1
                                             │ -old 0
                                             │ +new 0
                                             │ @@ -1 +1 @@ hunk 2
                                             │ -old 1
                                             │ +new 1
                                             │

 ? help  q quit  a accept  r take back  u undo  Enter open  m mark  z fold  e edit  b group"
    );
    assert_eq!(
        frame(&mut state, 60, 15),
        " review /s: everything  2 paths by path
>M /src/main.rs                         npm      4k2m 10:15
 M /src/lib.rs                          vim           10:16


────────────────────────────────────────────────────────────
 src/main.rs
 last changed then
 @@ -0 +0 @@ hunk 1
 -old 0
 +new 0
 @@ -1 +1 @@ hunk 2
 -old 1

 ? help  q quit  a accept  r take back  u undo  Enter open"
    );
    assert_eq!(
        frame(&mut state, 39, 15).trim_end(),
        "Too small: 40x10 at least. q quits."
    );
    frame(&mut state, 1, 1);
}

/// Keys are named once they count.
#[test]
fn screen_that_takes_no_keys_yet_names_none() {
    let mut state = state(&["a"]);
    state.is_answerable = false;
    let seen = frame(&mut state, 80, 12);
    assert!(seen.contains(">M /a") && !seen.contains("help"), "{seen}");
    state.is_answerable = true;
    assert!(frame(&mut state, 80, 12).contains("? help"));
}

#[test]
fn names_are_cut_where_they_begin_and_wide_ones_count_their_width() {
    let mut state = state(&[
        "src/a/very/long/path/of/which/the/end/says/most.rs",
        "日本語/テスト/ファイル/長い名前/文書/もっと.txt",
    ]);
    let frame = frame(&mut state, 60, 10);
    let rows: Vec<&str> = frame.lines().collect();
    assert_eq!(
        rows[1],
        ">M …/path/of/which/the/end/says/most.rs npm      4k2m 10:15"
    );
    assert_eq!(
        rows[2],
        " M …/ファイル/長い名前/文書/もっと.txt  vim           10:16"
    );
}

#[test]
fn a_hostile_name_is_written_out() {
    let mut state = state(&["\u{1b}]0;owned\u{7}\u{1b}[2J", "a\u{202e}b"]);
    let frame = frame(&mut state, 80, 12);
    assert!(frame.contains("/\\x1b]0;owned\\x07\\x1b[2J"), "{frame}");
    assert!(frame.contains("/a\\xe2\\x80\\xaeb"), "{frame}");
}

#[test]
fn nothing_is_done_without_a_yes() {
    let mut state = state(&["a", "d", "d/f"]);
    assert_eq!(keys(&mut state, "r"), []);
    assert!(frame(&mut state, 80, 12).contains("take back the changes of /a? [y/n]"));
    assert_eq!(keys(&mut state, "xn"), []);
    assert_eq!(state.message, "nothing was changed");
    let show = |name: &str| ScreenEffect::Request(WorkerRequest::Show(path(name)));
    assert_eq!(keys(&mut state, "ja"), [show("d")]);
    assert!(
        frame(&mut state, 80, 12)
            .contains("accept the changes of /d and what is below it (1 path)?")
    );
    let action = ReviewAction::Accept(ActionTarget::Paths(vec![path("d")]));
    assert_eq!(
        keys(&mut state, "y"),
        [ScreenEffect::Request(WorkerRequest::Do(action, 1))]
    );
    // One thing after the other.
    assert_eq!(keys(&mut state, "r"), []);
    assert_eq!(state.asked, OpenPrompt::Nothing);
    assert_eq!(state.quit(), []);
    assert_eq!(
        state.handle_event(done(ActionOutcome::default())),
        [ScreenEffect::Quit]
    );
}

#[test]
fn hunks_are_chosen_in_the_difference() {
    let mut state = state(&["a", "b"]);
    // Also before it is there.
    state.handle_key(Key::Enter);
    state.handle_event(shown("a", 3));
    assert_eq!(state.focus, FocusedPane::Difference);
    frame(&mut state, 60, 15);
    keys(&mut state, "jr");
    assert!(frame(&mut state, 60, 15).contains("take back hunk 2 of /a? [y/n]"));
    let action = ReviewAction::Reject(ActionTarget::Hunk(path("a"), 2, "digest 1".to_owned()));
    assert_eq!(
        keys(&mut state, "y"),
        [ScreenEffect::Request(WorkerRequest::Do(action, 1))]
    );
    state.handle_event(done(ActionOutcome::default()));
    // The file has one hunk less.
    state.handle_event(shown("a", 2));
    assert_eq!((state.hunk, state.focus), (1, FocusedPane::Difference));
    state.handle_key(Key::Left);
    keys(&mut state, "j");
    assert_eq!(state.difference(), None);
    // What is read of another path comes too late.
    state.handle_event(shown("a", 1));
    assert_eq!(state.difference(), None);
}

#[test]
fn a_group_of_a_run_is_the_run() {
    let mut state = state(&["a", "b", "c"]);
    keys(&mut state, "b");
    let first = frame(&mut state, 80, 14);
    assert!(
        first.contains(" run 4k2m9x0c7d1f (2) npm install"),
        "{first}"
    );
    assert!(first.contains(">  M /a"), "{first}");
    keys(&mut state, "gr");
    let action = ReviewAction::Reject(ActionTarget::Run(run()));
    assert_eq!(
        keys(&mut state, "y"),
        [ScreenEffect::Request(WorkerRequest::Do(action, 1))]
    );
    state.handle_event(done(ActionOutcome::default()));
    keys(&mut state, "Gkr");
    assert!(frame(&mut state, 80, 14).contains("all changes of 1 listed path: in no run? [y/n]"));
    let action = ReviewAction::Reject(ActionTarget::Paths(vec![path("b")]));
    assert_eq!(
        keys(&mut state, "y"),
        [ScreenEffect::Request(WorkerRequest::Do(action, 1))]
    );
    state.handle_event(done(ActionOutcome::default()));
    // By program, by time, by path; the selection stays where it was.
    for title in [" vim (1)", " 2026-01-16 10:17 (1)", "3 paths by path"] {
        keys(&mut state, "b");
        let seen = frame(&mut state, 80, 24);
        assert!(seen.contains(title) && seen.contains("M /b"), "{seen}");
        assert_eq!(state.selected_item().unwrap().path, path("b"));
    }
}

#[test]
fn of_a_long_path_the_end_is_seen_and_how_many_there_are() {
    let mut state = ScreenState::new(format!("review {}/home: run {RUN}", "/long".repeat(30)));
    state.handle_event(listing(1, &["a", "b"]));
    let seen = frame(&mut state, 70, 15);
    let title = seen.lines().next().unwrap();
    assert!(title.starts_with(" …ong/long/long"), "{title}");
    assert!(
        title.contains("/home: run 4k2m9x0c7d1f  2 paths by path"),
        "{title}"
    );
}

#[test]
fn the_selection_stays_on_its_path() {
    let mut state = state(&["a", "c", "d"]);
    keys(&mut state, "j");
    state.handle_event(listing(2, &["a", "b", "c", "d"]));
    assert_eq!(state.selected_item().unwrap().path, path("c"));
    // It has gone: the next one is there.
    state.handle_event(listing(3, &["a", "b", "d"]));
    assert_eq!(state.selected_item().unwrap().path, path("d"));
    state.handle_event(listing(4, &[]));
    assert_eq!(state.selected_item(), None);
    assert!(frame(&mut state, 80, 12).contains("Nothing is left to be reviewed."));
    assert_eq!(keys(&mut state, "rajkGgn"), []);
    assert_eq!(state.message, "");
}

#[test]
fn what_changes_while_it_is_asked_about_is_looked_at_again() {
    let mut state = state(&["a", "b"]);
    keys(&mut state, "r");
    // Another path: the question stays, and the answer is about the new list.
    state.handle_event(listing(2, &["a", "b", "c"]));
    let action = ReviewAction::Reject(ActionTarget::Paths(vec![path("a")]));
    assert_eq!(
        keys(&mut state, "y"),
        [ScreenEffect::Request(WorkerRequest::Do(action, 2))]
    );
    state.handle_event(done(ActionOutcome::default()));
    keys(&mut state, "r");
    let mut changed = listing(3, &["a", "b"]);
    if let WorkerEvent::Listed(listing) = &mut changed {
        listing.items[0].time += 1;
    }
    state.handle_event(changed);
    assert_eq!(state.asked, OpenPrompt::Nothing);
    assert_eq!(state.message, "it has changed meanwhile: look again");
}

#[test]
fn a_question_about_a_group_stays_while_others_change() {
    let listing = |number, paths: &[&str]| match listing(number, paths) {
        WorkerEvent::Listed(listing) => listing,
        _ => ReviewListing::default(),
    };
    let mut state = state(&["a", "b", "c"]);
    keys(&mut state, "bgr");
    assert!(matches!(state.asked, OpenPrompt::Sure { .. }));
    // Another program changes a path that is listed before: its group is the first one, and every place is another.
    let mut changed = listing(2, &["0", "a", "b", "c"]);
    let nobody = AuthorLabel::default();
    changed.who.insert(0, nobody);
    let times = [9, 0, 1, 2].map(|at| TIME + at * 60_000_000);
    for (item, (who, time)) in changed
        .items
        .iter_mut()
        .zip([0, 1, 2, 1].into_iter().zip(times))
    {
        (item.who, item.time) = (who, time);
    }
    state.handle_event(WorkerEvent::Listed(changed));
    assert!(state.selected > 0);
    let action = ReviewAction::Reject(ActionTarget::Run(run()));
    assert_eq!(
        keys(&mut state, "y"),
        [ScreenEffect::Request(WorkerRequest::Do(action, 2))]
    );
    // One of its own paths is not.
    state.handle_event(WorkerEvent::Done(
        ActionOutcome::default(),
        Some(listing(3, &["a", "b", "c"])),
    ));
    keys(&mut state, "r");
    let mut changed = listing(4, &["a", "b", "c"]);
    changed.items[2].time += 1;
    state.handle_event(WorkerEvent::Listed(changed));
    assert_eq!(state.message, "it has changed meanwhile: look again");
    // What was done here is what it was, whatever is selected.
    state.handle_event(done(ActionOutcome {
        undoable: Some(UndoableAction::Undone(run())),
        ..ActionOutcome::default()
    }));
    keys(&mut state, "u");
    state.handle_event(WorkerEvent::Listed(listing(5, &["b"])));
    assert!(matches!(state.asked, OpenPrompt::Sure { .. }));
}

#[test]
fn what_lies_below_a_path_is_asked_about_as_well() {
    let mut state = state(&["d", "d/x"]);
    keys(&mut state, "r");
    state.handle_event(listing(2, &["d", "d/x", "d/y"]));
    assert_eq!(state.message, "it has changed meanwhile: look again");
}

#[test]
fn paths_are_searched() {
    let mut state = state(&["src/Main.rs", "b", "src/main.rs"]);
    let show = |name: &str| ScreenEffect::Request(WorkerRequest::Show(path(name)));
    keys(&mut state, "/main");
    assert_eq!(state.handle_key(Key::Enter), [show("src/main.rs")]);
    assert_eq!(keys(&mut state, "n"), [show("src/Main.rs")]);
    assert_eq!(keys(&mut state, "N"), [show("src/main.rs")]);
    keys(&mut state, "/Mai");
    assert_eq!(state.handle_key(Key::Enter), [show("src/Main.rs")]);
    keys(&mut state, "/nowhere");
    assert_eq!(state.handle_key(Key::Enter), []);
    assert_eq!(state.message, "no listed path has \"nowhere\" in it");
}

#[test]
fn a_point_is_asked_for_and_only_restores() {
    let mut state = state(&["a"]);
    keys(&mut state, "R");
    assert!(
        state.message.contains("choose one with p"),
        "{}",
        state.message
    );
    keys(&mut state, "p-30m");
    let read = ScreenEffect::Request(WorkerRequest::Read(Some("-30m".to_owned())));
    assert_eq!(state.handle_key(Key::Enter), [read]);
    let mut past = listing(2, &["a"]);
    if let WorkerEvent::Listed(listing) = &mut past {
        listing.at = Some("-30m (s:3)".to_owned());
    }
    state.handle_event(past);
    assert!(frame(&mut state, 80, 12).contains("1 path by path  as of -30m (s:3)"));
    keys(&mut state, "r");
    assert_eq!(state.asked, OpenPrompt::Nothing);
    keys(&mut state, "R");
    let action = ReviewAction::Restore(path("a"));
    assert_eq!(
        keys(&mut state, "y"),
        [ScreenEffect::Request(WorkerRequest::Do(action, 2))]
    );
    state.handle_event(done(ActionOutcome::default()));
    keys(&mut state, "p");
    assert_eq!(
        state.handle_key(Key::Enter),
        [ScreenEffect::Request(WorkerRequest::Read(None))]
    );
}

#[test]
fn what_was_done_here_can_be_undone_one_after_the_other() {
    let mut state = state(&["a"]);
    keys(&mut state, "u");
    assert_eq!(state.message, "nothing was changed here yet");
    state.handle_event(done(ActionOutcome {
        undoable: Some(UndoableAction::Undone(run())),
        ..ActionOutcome::default()
    }));
    keys(&mut state, "u");
    let action = ReviewAction::Undo(UndoableAction::Undone(run()));
    assert_eq!(
        keys(&mut state, "y"),
        [ScreenEffect::Request(WorkerRequest::Do(action, 1))]
    );
    state.handle_event(done(ActionOutcome {
        undid: true,
        ..ActionOutcome::default()
    }));
    keys(&mut state, "u");
    assert_eq!(state.message, "nothing was changed here yet");
    state.handle_event(done(ActionOutcome {
        accepted: true,
        ..ActionOutcome::default()
    }));
    keys(&mut state, "u");
    assert!(state.message.starts_with("accepting cannot be taken back"));
}

#[test]
fn a_conflict_is_read_before_one_goes_on() {
    let mut state = state(&["a"]);
    state.handle_event(done(ActionOutcome {
        message: "1 conflict in the way; nothing was changed".to_owned(),
        more: vec!["s:3 write: /a: it was changed later: operation s:4, write by vim".to_owned()],
        ..ActionOutcome::default()
    }));
    let seen = frame(&mut state, 60, 15);
    assert!(seen.contains("operation s:4"), "{seen}");
    assert!(seen.contains("1 conflict in the way"), "{seen}");
    assert_eq!(keys(&mut state, "r"), []);
    assert!(!frame(&mut state, 60, 15).contains("operation s:4"));
    keys(&mut state, "?");
    let help = frame(&mut state, 60, 15);
    assert!(
        help.contains("accept: what is marked, else the path"),
        "{help}"
    );
    for _ in 0..40 {
        if frame(&mut state, 60, 15).contains("back to the shell") {
            return;
        }
        keys(&mut state, "j");
    }
    panic!("{}", frame(&mut state, 60, 15));
}

#[test]
fn a_long_list_scrolls_with_the_selection() {
    let names: Vec<String> = (0..100).map(|at| format!("f{at:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut state = state(&names);
    keys(&mut state, "G");
    assert!(frame(&mut state, 60, 15).contains(">M /f099"));
    state.handle_key(Key::PageUp);
    assert!(frame(&mut state, 60, 15).contains(">M /f096"));
    keys(&mut state, "g");
    assert!(frame(&mut state, 60, 15).contains(">M /f000"));
    state.handle_key(Key::PageDown);
    let frame = frame(&mut state, 60, 15);
    assert!(
        frame.contains(">M /f003") && frame.contains(" M /f000"),
        "{frame}"
    );
}
