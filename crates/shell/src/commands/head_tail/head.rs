//! `head`: prints the first lines or bytes, or all but the last.

use std::io::{BufRead, Seek, Write};

use super::count::count;
use super::window::{Window, start_of_last};
use super::{LONG, Unit, each, wanted};
use crate::call::{Call, Ended, Stop, usage};
use crate::commands::reading::{Trouble, chunk, copy, copy_some, of_reading};
use crate::options::OptSpec;
use crate::stream::Input;

const OPTIONS: OptSpec = OptSpec {
    short: "c:n:qvz",
    long: LONG,
    wrong: 1,
};

/// Which part is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    First(u64),
    AllBut(u64),
}

/// Prints the beginning of each file.
pub(crate) fn head(call: &mut Call<'_>) -> Ended {
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
    let (part, unit) = wanted(&typed, Part::First(10), part)?;
    each(call, &typed, |call, input| match (part, unit) {
        (Part::First(count), Unit::Bytes) => copy_some(call, input, count),
        (Part::First(count), Unit::Lines(delimiter)) => lines(call, input, count, delimiter),
        (Part::AllBut(0), _) => copy(call, input),
        (Part::AllBut(count), unit) => all_but(call, input, count, unit),
    })
}

type Options = Vec<(char, Option<Vec<u8>>)>;

/// Parses the obsolete `-N` with letters after it, allowed as first argument. Returns the options it stands for.
fn old_style(args: &[Vec<u8>]) -> Result<Option<Options>, Stop> {
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
    let (mut unit, mut factor, mut options) = ('n', None, Options::new());
    for letter in letters {
        match letter {
            b'c' => (unit, factor) = ('c', None),
            b'b' | b'k' | b'm' => (unit, factor) = ('c', Some(*letter)),
            b'l' => unit = 'n',
            b'q' | b'v' | b'z' => options.push((char::from(*letter), None)),
            other => {
                return Err(usage(
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

fn part(number: &[u8], unit: Unit) -> Result<Part, Stop> {
    Ok(match number {
        [b'-', number @ ..] => Part::AllBut(count(number, unit)?),
        number => Part::First(count(number, unit)?),
    })
}

/// Prints so many lines, and leaves the rest in the input.
fn lines(call: &mut Call<'_>, input: &mut Input, count: u64, delimiter: u8) -> Result<(), Trouble> {
    let mut left = count;
    while left > 0 {
        let chunk = chunk(call, input)?;
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

fn all_but(call: &mut Call<'_>, input: &mut Input, count: u64, unit: Unit) -> Result<(), Trouble> {
    if let Some(mut file) = input.as_file().filter(|file| is_regular(file)) {
        let from = file.stream_position().map_err(of_reading)?;
        let end = start_of_last(call, file, from, (count, unit)).map_err(of_reading)?;
        return copy_some(call, input, end - from);
    }
    let mut window = Window::new(count, unit);
    loop {
        let chunk = chunk(call, input)?;
        if chunk.is_empty() {
            break;
        }
        window.push(chunk);
        let length = chunk.len();
        call.state.deadline.fits(window.size)?;
        input.consume(length);
        while let Some(bytes) = window.leaving() {
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
