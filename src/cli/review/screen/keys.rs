//! Which key does what: one table, which is also the footer and the help.

/// A key, as far as this screen knows keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// A character.
    Char(char),
    /// A letter with Ctrl.
    Ctrl(char),
    Enter,
    Escape,
    Tab,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
}

/// The action of a key while no prompt is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyAction {
    Down,
    Up,
    PageDown,
    PageUp,
    First,
    Last,
    Into,
    Right,
    Left,
    Back,
    MoveRight,
    MoveLeft,
    FoldAll,
    Mark,
    Unmark,
    Edit,
    Split,
    Accept,
    Reject,
    Search,
    Next,
    Previous,
    Group,
    Point,
    Restore,
    Undo,
    Help,
    Quit,
    Suspend,
    Redraw,
}

/// A line of the table.
#[derive(Debug)]
pub(super) struct KeyBinding {
    keys: &'static [Key],
    pub(super) action: KeyAction,
    /// The keys in words.
    pub(super) named: &'static str,
    /// The keys' effect, for the help.
    pub(super) does: &'static str,
    /// The footer's words for these keys; empty if the footer leaves them out.
    pub(super) brief: &'static str,
}

const fn binding(
    keys: &'static [Key],
    action: KeyAction,
    named: &'static str,
    does: &'static str,
    brief: &'static str,
) -> KeyBinding {
    KeyBinding {
        keys,
        action,
        named,
        does,
        brief,
    }
}

use Key::{Char, Ctrl};

/// Every key, in the order of the help. What the footer names comes in this order, as far as there is room.
pub(super) const KEY_BINDINGS: [KeyBinding; 30] = [
    binding(&[Char('?')], KeyAction::Help, "?", "this help", "help"),
    binding(
        &[Char('q'), Ctrl('c'), Ctrl('d')],
        KeyAction::Quit,
        "q",
        "leave; what is listed stays as it is",
        "quit",
    ),
    binding(
        &[Char('a')],
        KeyAction::Accept,
        "a",
        "accept: what is marked, else the path, the group, or in the difference the hunk",
        "accept",
    ),
    binding(
        &[Char('r')],
        KeyAction::Reject,
        "r",
        "take back: what is marked, else the path, the group, or the hunk",
        "take back",
    ),
    binding(
        &[Char('u')],
        KeyAction::Undo,
        "u",
        "undo the last thing that was done here",
        "undo",
    ),
    binding(
        &[Key::Enter, Key::Tab],
        KeyAction::Into,
        "Enter",
        "into the difference, hunk by hunk; on a heading: fold or unfold",
        "open",
    ),
    binding(
        &[Char('m')],
        KeyAction::Mark,
        "m",
        "mark or unmark the path, or all paths of the group",
        "mark",
    ),
    binding(&[Char('M')], KeyAction::Unmark, "M", "unmark all", ""),
    binding(
        &[Char('z')],
        KeyAction::FoldAll,
        "z",
        "fold everything, or unfold everything",
        "fold",
    ),
    binding(
        &[Char('e')],
        KeyAction::Edit,
        "e",
        "edit the file as it is now with $VISUAL or $EDITOR, and record that as yours",
        "edit",
    ),
    binding(
        &[Char('s')],
        KeyAction::Split,
        "s",
        "in the difference: split the hunk between its changes",
        "",
    ),
    binding(
        &[Char('b')],
        KeyAction::Group,
        "b",
        "group by path, run, program or time",
        "group",
    ),
    binding(
        &[Char('/')],
        KeyAction::Search,
        "/",
        "search the paths",
        "search",
    ),
    binding(
        &[Char('p')],
        KeyAction::Point,
        "p",
        "show the review as of a point in time",
        "point",
    ),
    binding(
        &[Char('R')],
        KeyAction::Restore,
        "R",
        "at such a point: put the path back as it was then",
        "",
    ),
    binding(
        &[Key::Right, Char('l')],
        KeyAction::Right,
        "→ l",
        "unfold, or into the difference; there, to its right",
        "",
    ),
    binding(
        &[Key::Left, Char('h')],
        KeyAction::Left,
        "← h",
        "fold, or to the heading above; in the difference, to its left, then back",
        "",
    ),
    binding(
        &[Char('>')],
        KeyAction::MoveRight,
        ">",
        "move the difference, to see what is right of it",
        "",
    ),
    binding(&[Char('<')], KeyAction::MoveLeft, "<", "move it back", ""),
    binding(
        &[Key::Escape],
        KeyAction::Back,
        "Esc",
        "back to the list",
        "",
    ),
    binding(
        &[Char('j'), Key::Down],
        KeyAction::Down,
        "j ↓",
        "down; in the difference to the next hunk",
        "",
    ),
    binding(
        &[Char('k'), Key::Up],
        KeyAction::Up,
        "k ↑",
        "up; in the difference to the hunk before",
        "",
    ),
    binding(
        &[Key::PageDown, Char(' '), Ctrl('f')],
        KeyAction::PageDown,
        "PgDn Space",
        "a page down",
        "",
    ),
    binding(
        &[Key::PageUp, Ctrl('b')],
        KeyAction::PageUp,
        "PgUp",
        "a page up",
        "",
    ),
    binding(
        &[Char('g'), Key::Home],
        KeyAction::First,
        "g Home",
        "to the first",
        "",
    ),
    binding(
        &[Char('G'), Key::End],
        KeyAction::Last,
        "G End",
        "to the last",
        "",
    ),
    binding(
        &[Char('n')],
        KeyAction::Next,
        "n",
        "the next path that was searched for",
        "",
    ),
    binding(&[Char('N')], KeyAction::Previous, "N", "the one before", ""),
    binding(&[Ctrl('l')], KeyAction::Redraw, "^L", "draw anew", ""),
    binding(
        &[Ctrl('z')],
        KeyAction::Suspend,
        "^Z",
        "back to the shell; `fg` comes back here",
        "",
    ),
];

/// The signs of a row, for the help.
pub(super) const ROW_SIGNS: [(&str, &str); 11] = [
    ("", ""),
    ("A M R D", "added, modified, renamed, removed"),
    (
        "+ -",
        "a heading that is folded, or not, with its number of paths",
    ),
    ("*", "marked"),
    ("!", "to be looked at first; accepted only by itself"),
    (
        "runs",
        "runs on your machine: git runs it, or programs that it names",
    ),
    ("out", "a link leads out of the project there"),
    (
        "exec setid",
        "a program that is new, or has become one; one with its owner's rights",
    ),
    ("mode owner", "permissions, or owner and group, differ"),
    ("bin", "a binary content"),
    (
        "link special",
        "a symbolic link; no file, directory or link",
    ),
];

/// Returns what a key does.
pub(super) fn action(key: Key) -> Option<KeyAction> {
    let found = KEY_BINDINGS
        .iter()
        .find(|binding| binding.keys.contains(&key));
    found.map(|binding| binding.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_does_two_things_and_every_action_has_one_line() {
        for (at, one) in KEY_BINDINGS.iter().enumerate() {
            for other in KEY_BINDINGS.iter().skip(at + 1) {
                assert!(one.keys.iter().all(|key| !other.keys.contains(key)));
                assert_ne!(one.action, other.action);
            }
        }
    }
}
