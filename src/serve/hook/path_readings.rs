//! The readings of a path: where it may lead by what agents make of it before they use it. Pure, but for `HOME`.
//!
//! Claude Code takes blanks from both ends (`String.prototype.trim`), then a leading `~` for the user's home directory, and
//! takes `.` and `..` away by the text. Codex' tools differ from each other. So every reading counts: a path is allowed only
//! where all of them stay in the home.

use std::path::{Path, PathBuf};

/// Returns a text without the blanks that an agent may take from its ends: those of JavaScript, and those of Rust.
pub(super) fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}')
}

/// Returns all readings of a path in a working directory. None where one of them cannot be computed: there is no `HOME`.
pub(super) fn readings(cwd: &Path, typed: &str) -> Option<Vec<PathBuf>> {
    let plain = trimmed(typed);
    let mut readings = vec![cwd.join(typed)];
    if plain != typed {
        readings.push(cwd.join(plain));
    }
    if let Some(rest) = plain.strip_prefix('~')
        && (rest.is_empty() || rest.starts_with('/'))
    {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
        readings.push(Path::new(&home).join(rest.trim_start_matches('/')));
    }
    Some(readings)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_with_and_without_its_blanks() {
        let home = std::env::var("HOME").unwrap();
        let below_home = |rest: &str| Path::new(&home).join(rest);
        for (typed, expected) in [
            ("a", vec!["/c/a".into()]),
            ("", vec!["/c/".into()]),
            ("/etc", vec!["/etc".into()]),
            (" /etc", vec!["/c/ /etc".into(), "/etc".into()]),
            (
                "\u{feff}/etc\u{2029}",
                vec!["/c/\u{feff}/etc\u{2029}".into(), "/etc".into()],
            ),
            (".. ", vec!["/c/.. ".into(), "/c/..".into()]),
            ("\n", vec!["/c/\n".into(), "/c/".into()]),
            ("~", vec!["/c/~".into(), below_home("")]),
            (
                "\t~//x",
                vec!["/c/\t~//x".into(), "/c/~//x".into(), below_home("x")],
            ),
            ("~root/x", vec!["/c/~root/x".into()]),
            ("a b", vec!["/c/a b".into()]),
        ] {
            assert_eq!(
                readings(Path::new("/c"), typed).unwrap(),
                expected,
                "{typed:?}"
            );
        }
    }

    #[test]
    fn blanks_are_those_of_javascript_and_rust() {
        let javascript = "\t\n\u{b}\u{c}\r \u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\u{2007}\
                          \u{2008}\u{2009}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}";
        for blank in javascript.chars().chain(['\u{85}']) {
            for typed in [
                format!("{blank}/x"),
                format!("/x{blank}"),
                format!(" {blank}/x{blank}\n"),
            ] {
                assert_eq!(trimmed(&typed), "/x", "{typed:?}");
            }
        }
        for kept in ["\u{200b}x", "\u{180e}x", "\0x", "x\u{2060}"] {
            assert_eq!(trimmed(kept), kept, "{kept:?}");
        }
    }
}
