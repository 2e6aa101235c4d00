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
    Back,
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
pub(super) const KEY_BINDINGS: [KeyBinding; 21] = [
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
        "accept: the path, the group, or in the difference the hunk",
        "accept",
    ),
    binding(
        &[Char('r')],
        KeyAction::Reject,
        "r",
        "take back: the path, the group, or the hunk",
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
        &[Key::Enter, Key::Right, Key::Tab, Char('l')],
        KeyAction::Into,
        "Enter →",
        "into the difference, hunk by hunk",
        "hunks",
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
        &[Key::Escape, Key::Left, Char('h')],
        KeyAction::Back,
        "Esc ←",
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
