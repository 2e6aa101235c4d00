//! `head`: prints the first lines or bytes, or all but the last.

use std::io::{BufRead, Seek, Write};

use super::count::parse_count;
use super::window::{TailWindow, start_of_last};
use super::{CountUnit, LONG, for_each_operand, selected_part};
use crate::call::{Call, CommandError, CommandResult, usage_error};
use crate::commands::reading::{OperandError, copy, copy_bytes, next_chunk, read_error};
use crate::options::OptSpec;
use crate::stream::Input;

const OPTIONS: OptSpec = OptSpec {
    short: "c:n:qvz",
    long: LONG,
    error_status: 1,
};

/// The part that is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeadPart {
    /// The first so many units.
    First(u64),
    /// All but the last so many units.
    AllBut(u64),
}

/// Prints the beginning of each file.
pub(crate) fn head(call: &mut Call<'_>) -> CommandResult {
    let old = old_style(call.args)?;
    let args = match &old {
        Some(_) => call.args.get(1..).unwrap_or_default(),
        None => call.args,
    };
    let mut typed = OPTIONS.read(args)?;
    if let Some(old) = &old {
        let options = old
            .iter()
            .map(|(letter, value)| (*letter, value.as_deref()));
        typed.options = options.chain(typed.options).collect();
    }
    let (part, unit) = selected_part(&typed, HeadPart::First(10), parse_part)?;
    for_each_operand(call, &typed, |call, input| match (part, unit) {
        (HeadPart::First(count), CountUnit::Bytes) => copy_bytes(call, input, count),
        (HeadPart::First(count), CountUnit::Lines(delimiter)) => {
            print_lines(call, input, count, delimiter)
        }
        (HeadPart::AllBut(0), _) => copy(call, input),
        (HeadPart::AllBut(count), unit) => print_all_but(call, input, count, unit),
    })
}

type OptionList = Vec<(char, Option<Vec<u8>>)>;

/// Parses the obsolete `-N` with letters after it, allowed as first argument. Returns the options it stands for.
fn old_style(args: &[Vec<u8>]) -> Result<Option<OptionList>, CommandError> {
    let Some([b'-', typed @ ..]) = args.first().map(Vec::as_slice) else {
        return Ok(None);
    };
    let length = typed
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (digits, letters) = typed.split_at(length);
    if digits.is_empty() {
        return Ok(None);
    }
    let (mut unit, mut factor, mut options) = ('n', None, OptionList::new());
    for letter in letters {
        match letter {
            b'c' => (unit, factor) = ('c', None),
            b'b' | b'k' | b'm' => (unit, factor) = ('c', Some(*letter)),
            b'l' => unit = 'n',
            b'q' | b'v' | b'z' => options.push((char::from(*letter), None)),
            other => {
                return Err(usage_error(
                    [b"invalid trailing option -- ", &[*other][..]].concat(),
                ));
            }
        }
    }
    let mut value = digits.to_vec();
    value.extend(factor);
    options.push((unit, Some(value)));
    Ok(Some(options))
}

fn parse_part(number: &[u8], unit: CountUnit) -> Result<HeadPart, CommandError> {
    Ok(match number {
        [b'-', number @ ..] => HeadPart::AllBut(parse_count(number, unit)?),
        number => HeadPart::First(parse_count(number, unit)?),
    })
}

/// Prints so many lines, and leaves the rest in the input.
fn print_lines(
    call: &mut Call<'_>,
    input: &mut Input,
    count: u64,
    delimiter: u8,
) -> Result<(), OperandError> {
    let mut left = count;
    while left > 0 {
        let chunk = next_chunk(call, input)?;
        if chunk.is_empty() {
            break;
        }
        let mut length = chunk.len();
        for end in memchr::memchr_iter(delimiter, chunk) {
            left -= 1;
            if left == 0 {
                length = end + 1;
                break;
            }
        }
        call.out.write_all(chunk.get(..length).unwrap_or(chunk))?;
        input.consume(length);
    }
    Ok(())
}

fn print_all_but(
    call: &mut Call<'_>,
    input: &mut Input,
    count: u64,
    unit: CountUnit,
) -> Result<(), OperandError> {
    if let Some(mut file) = input.as_file().filter(|file| is_regular(file)) {
        let from = file.stream_position().map_err(read_error)?;
        let end = start_of_last(call, file, from, (count, unit)).map_err(read_error)?;
        return copy_bytes(call, input, end - from);
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
        while let Some(bytes) = window.pop_excess() {
            call.out.write_all(&bytes)?;
        }
    }
    for bytes in window.split().0 {
        call.out.write_all(&bytes)?;
    }
    Ok(())
}

/// Returns whether a file has an end that can be sought. Standard input may be one without.
pub(super) fn is_regular(file: &std::fs::File) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file())
}
