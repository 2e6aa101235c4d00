//! `echo`, as in bash: a word that looks like an option but is not one is printed.

use std::io::{self, Write};

use crate::call::{Call, CommandResult};
use crate::escape::{self, low_byte, number};

/// Prints its arguments, separated by spaces.
pub(super) fn echo(call: &mut Call<'_>) -> CommandResult {
    let (mut newline, mut escapes) = (true, false);
    let mut args = call.args;
    while let Some(([b'-', letters @ ..], rest)) = split(args)
        && !letters.is_empty()
        && letters.iter().all(|letter| b"neE".contains(letter))
    {
        for letter in letters {
            match letter {
                b'n' => newline = false,
                letter => escapes = *letter == b'e',
            }
        }
        args = rest;
    }
    for (at, arg) in args.iter().enumerate() {
        if at > 0 {
            call.out.write_all(b" ")?;
        }
        if !escapes {
            call.out.write_all(arg)?;
        } else if !unescape(arg, &mut call.out)? {
            return Ok(0);
        }
    }
    if newline {
        call.out.write_all(b"\n")?;
    }
    Ok(0)
}

fn split(args: &[Vec<u8>]) -> Option<(&[u8], &[Vec<u8>])> {
    let (first, rest) = args.split_first()?;
    Some((first, rest))
}

/// Writes a text with its escapes replaced. Returns whether printing goes on: `\c` ends all output.
fn unescape(text: &[u8], out: &mut dyn Write) -> io::Result<bool> {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (plain, escaped) = rest.split_at(at);
        out.write_all(plain)?;
        rest = escaped;
        let [_, letter, after @ ..] = escaped else {
            break;
        };
        let (meant, after) = match letter {
            b'c' => return Ok(false),
            b'0' => {
                let (value, after) = number(after, 8, 3).unwrap_or((0, after));
                (vec![low_byte(value)], after)
            }
            letter => escape::decode_escape(*letter, after)
                .unwrap_or_else(|| (vec![b'\\', *letter], after)),
        };
        out.write_all(&meant)?;
        rest = after;
    }
    out.write_all(rest)?;
    Ok(true)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::super::tests::Bench;

    fn echo(args: &[&str]) -> String {
        let words: Vec<Vec<u8>> = ["echo"]
            .iter()
            .chain(args)
            .map(|word| word.as_bytes().to_vec())
            .collect();
        let (out, err, status) = Bench::new().call(&words, "");
        assert_eq!((err.as_str(), status), ("", 0));
        out
    }

    #[test]
    fn words_that_are_not_options_are_printed() {
        assert_eq!(echo(&[]), "\n");
        assert_eq!(echo(&["a", "", "b"]), "a  b\n");
        assert_eq!(echo(&["-n", "a"]), "a");
        assert_eq!(echo(&["-ne", "a\\t"]), "a\t");
        assert_eq!(echo(&["-nx", "a"]), "-nx a\n");
        assert_eq!(echo(&["-", "a"]), "- a\n");
        assert_eq!(echo(&["--", "-n"]), "-- -n\n");
        assert_eq!(echo(&["a", "-n"]), "a -n\n");
        assert_eq!(echo(&["-e", "-E", "\\t"]), "\\t\n");
        assert_eq!(echo(&["-E", "-e", "\\t"]), "\t\n");
    }

    #[test]
    fn escapes() {
        for (typed, meant) in [
            (
                "\\a\\b\\e\\E\\f\\n\\r\\t\\v\\\\",
                "\x07\x08\x1b\x1b\x0c\n\r\t\x0b\\\n",
            ),
            ("a\\cb", "a"),
            ("\\0101\\08\\0\\00101", "A\x008\0\x081\n"),
            ("\\101\\q\\\"\\", "\\101\\q\\\"\\\n"),
            ("\\x41\\x414\\xZ\\x", "AA4\\xZ\\x\n"),
            (
                "\\u41\\u2713\\U1F600\\U41x\\uZ",
                "A\u{2713}\u{1f600}Ax\\uZ\n",
            ),
        ] {
            assert_eq!(echo(&["-e", typed]), meant, "{typed}");
        }
        assert_eq!(echo(&["-e", "a\\c", "b"]), "a");
        assert_eq!(echo(&["\\t"]), "\\t\n");
    }
}
