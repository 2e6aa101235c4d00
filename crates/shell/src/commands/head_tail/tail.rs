//! `tail`: prints the last lines or bytes, or everything from some line or byte on.

use std::io::{BufRead, Seek, SeekFrom, Write};

use super::count::parse_count;
use super::head::is_regular;
use super::window::{TailWindow, start_of_last};
use super::{CountUnit, LONG, for_each_operand, selected_part};
use crate::call::{Call, CommandError, CommandResult, usage_error};
use crate::commands::reading::{OperandError, copy, next_chunk, read_error};
use crate::options::{OptSpec, OptionArg};
use crate::stream::Input;

const OPTIONS: OptSpec = OptSpec {
    short: "c:fFn:qvz",
    long: &{
        let mut long = [("follow", OptionArg::Optional, 'f'); 7];
        let (_, shared) = long.split_at_mut(1);
        shared.copy_from_slice(LONG);
        long
    },
    error_status: 1,
};

/// The part that is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TailPart {
    /// The last so many units.
    Last(u64),
    /// All but the first so many units.
    After(u64),
}

/// Prints the end of each file.
pub(crate) fn tail(call: &mut Call<'_>) -> CommandResult {
    let old = old_style(call.args);
    let args = match &old {
        Some(_) => call.args.get(1..).unwrap_or_default(),
        None => call.args,
    };
    let mut typed = OPTIONS.read(args)?;
    if let Some((letter, value)) = &old {
        typed.options.insert(0, (*letter, Some(value)));
    }
    if typed.has('f') || typed.has('F') {
        return Err(usage_error(
            "-f is not supported: a line ends, and cannot wait for what is written later",
        ));
    }
    let (part, unit) = selected_part(&typed, TailPart::Last(10), parse_part)?;
    // GNU tail does not even open the files then.
    if part == TailPart::Last(0) {
        return Ok(0);
    }
    for_each_operand(call, &typed, |call, input| match part {
        TailPart::After(count) => print_after(call, input, count, unit),
        TailPart::Last(count) => print_last(call, input, count, unit),
    })
}

/// Parses the obsolete `-N` or `+N` with a letter after it, allowed as first argument before at most one file.
/// Returns the option it stands for.
fn old_style(args: &[Vec<u8>]) -> Option<(char, Vec<u8>)> {
    let (first, rest) = args.split_first()?;
    match rest {
        [] => {}
        [file] if !file.starts_with(b"-") || matches!(file.as_slice(), b"-" | b"--") => {}
        [end, _] if end == b"--" => {}
        _ => return None,
    }
    let (sign, typed) = match first.as_slice() {
        [b'+', typed @ ..] => (&b"+"[..], typed),
        // `-c` alone takes a value.
        [b'-', typed @ ..] if !matches!(typed, b"" | b"c") => (&b""[..], typed),
        _ => return None,
    };
    let length = typed
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (digits, letters) = typed.split_at(length);
    let (unit, factor) = match letters.strip_suffix(b"f").unwrap_or(letters) {
        b"" | b"l" => ('n', &b""[..]),
        b"c" => ('c', &b""[..]),
        b"b" => ('c', &b"b"[..]),
        _ => return None,
    };
    if letters.ends_with(b"f") {
        return Some(('f', Vec::new()));
    }
    let digits = if digits.is_empty() { b"10" } else { digits };
    Some((unit, [sign, digits, factor].concat()))
}

fn parse_part(number: &[u8], unit: CountUnit) -> Result<TailPart, CommandError> {
    Ok(match number {
        // Counting starts at 1; 0 means the same.
        [b'+', ..] => TailPart::After(parse_count(number, unit)?.saturating_sub(1)),
        [b'-', number @ ..] | number => TailPart::Last(parse_count(number, unit)?),
    })
}

fn print_after(
    call: &mut Call<'_>,
    input: &mut Input,
    count: u64,
    unit: CountUnit,
) -> Result<(), OperandError> {
    if let Some(mut file) = input.as_file().filter(|file| is_regular(file))
        && unit == CountUnit::Bytes
    {
        let from = file.stream_position().map_err(read_error)?;
        file.seek(SeekFrom::Start(
            from.saturating_add(count).min(i64::MAX as u64),
        ))
        .map_err(read_error)?;
        return copy(call, input);
    }
    let mut left = count;
    while left > 0 {
        let chunk = next_chunk(call, input)?;
        if chunk.is_empty() {
            break;
        }
        let mut length = chunk.len();
        match unit {
            CountUnit::Bytes => {
                length = length.min(usize::try_from(left).unwrap_or(usize::MAX));
                left -= length as u64;
            }
            CountUnit::Lines(delimiter) => {
                for end in memchr::memchr_iter(delimiter, chunk) {
                    left -= 1;
                    if left == 0 {
                        length = end + 1;
                        break;
                    }
                }
            }
        }
        input.consume(length);
    }
    copy(call, input)
}

fn print_last(
    call: &mut Call<'_>,
    input: &mut Input,
    count: u64,
    unit: CountUnit,
) -> Result<(), OperandError> {
    if let Some(mut file) = input.as_file().filter(|file| is_regular(file)) {
        let from = file.stream_position().map_err(read_error)?;
        let start = start_of_last(call, file, from, (count, unit)).map_err(read_error)?;
        file.seek(SeekFrom::Start(start)).map_err(read_error)?;
        return copy(call, input);
    }
    let mut window = TailWindow::new(count, unit);
    loop {
        let chunk = next_chunk(call, input)?;
        if chunk.is_empty() {
            break;
        }
        window.push(chunk);
        let length = chunk.len();
        call.state.deadline.check_memory(window.size)?;
        input.consume(length);
        while window.pop_excess().is_some() {}
    }
    for bytes in window.split().1 {
        call.out.write_all(&bytes)?;
    }
    Ok(())
}
