//! `head` and `tail`: the first or the last part of a file. Owns what both share: units, counts and headings.

mod count;
mod head;
mod tail;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
mod window;

use std::io::{self, Write};

pub(crate) use head::head;
pub(crate) use tail::tail;

use super::reading::{OperandError, STDIN_OPERAND, or_standard_input, read};
use crate::call::{Call, CommandError, CommandResult};
use crate::options::{OptionArg, ParsedArgs};
use crate::stream::Input;

/// The long options of both.
const LONG: &[(&str, OptionArg, char)] = &[
    ("bytes", OptionArg::Required, 'c'),
    ("lines", OptionArg::Required, 'n'),
    ("quiet", OptionArg::None, 'q'),
    ("silent", OptionArg::None, 'q'),
    ("verbose", OptionArg::None, 'v'),
    ("zero-terminated", OptionArg::None, 'z'),
];

/// The unit that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountUnit {
    Bytes,
    /// Lines, with the byte that ends them.
    Lines(u8),
}

/// Calls `work` for each operand, with headings where there are several operands or `-v` asks for them.
fn for_each_operand(
    call: &mut Call<'_>,
    typed: &ParsedArgs<'_>,
    mut work: impl FnMut(&mut Call<'_>, &mut Input) -> Result<(), OperandError>,
) -> CommandResult {
    let asked = typed.options.iter().rev();
    let asked = asked
        .map(|(letter, _)| *letter)
        .find(|letter| "qv".contains(*letter));
    let headings = asked.map_or(typed.operands.len() > 1, |letter| letter == 'v');
    let mut first = true;
    let mut status = 0;
    for operand in or_standard_input(typed.operands.clone()) {
        let opened = |call: &mut Call<'_>| {
            if headings {
                print_heading(operand, std::mem::take(&mut first), &mut call.out)
            } else {
                Ok(())
            }
        };
        if !read(call, operand, opened, &mut work)? {
            status = 1;
        }
    }
    Ok(status)
}

/// Returns the part that the last of the options `-c` and `-n` selects, in bytes or in lines.
fn selected_part<P>(
    typed: &ParsedArgs<'_>,
    usual: P,
    part: impl Fn(&[u8], CountUnit) -> Result<P, CommandError>,
) -> Result<(P, CountUnit), CommandError> {
    let line = CountUnit::Lines(if typed.has('z') { 0 } else { b'\n' });
    let mut wanted = (usual, line);
    for (letter, value) in &typed.options {
        let unit = match letter {
            'c' => CountUnit::Bytes,
            'n' => line,
            _ => continue,
        };
        wanted = (part(value.unwrap_or_default(), unit)?, unit);
    }
    Ok(wanted)
}

fn print_heading(operand: &[u8], first: bool, out: &mut dyn Write) -> io::Result<()> {
    let name = match operand {
        STDIN_OPERAND => b"standard input",
        operand => operand,
    };
    let begin: &[u8] = if first { b"==> " } else { b"\n==> " };
    out.write_all(&[begin, name, b" <==\n"].concat())
}
