//! How commands read their operands one after another: files, and standard input for `-`. What is wrong with one is told
//! and the others are read all the same.

use std::io::{self, BufRead, Write};
use std::mem;

use crate::error::Error;
use crate::exec::shell::call::{Call, Stop, of_io};
use crate::exec::shell::stream::Input;

/// Standard input, as an operand.
pub(super) const STANDARD: &[u8] = b"-";

/// Why an operand is not read to its end.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The operand cannot be read: its own trouble.
    Operand(Error),
    /// The whole command ends.
    Command(Stop),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Command(error.into())
    }
}

/// Returns the operands, or standard input where there is none.
pub(super) fn or_standard(operands: Vec<&[u8]>) -> Vec<&[u8]> {
    match operands.is_empty() {
        true => vec![STANDARD],
        false => operands,
    }
}

/// Opens an operand, says `opened`, has it read by `work`, and tells what is wrong with it. A directory can be opened, but
/// not read. Returns whether all went well.
///
/// # Errors
/// What ends the command.
pub(super) fn read(
    call: &mut Call<'_>,
    typed: &[u8],
    opened: impl FnOnce(&mut Call<'_>) -> io::Result<()>,
    work: impl FnOnce(&mut Call<'_>, &mut Input) -> Result<(), Trouble>,
) -> Result<bool, Stop> {
    call.check()?;
    let ended = if typed == STANDARD {
        opened(call)?;
        let mut input = mem::replace(call.stdin, Input::empty());
        let ended = work(call, &mut input);
        *call.stdin = input;
        ended
    } else {
        match call.open(typed) {
            Ok(file) => {
                opened(call)?;
                let mut input = Input::file(file, &call.state.deadline);
                work(call, &mut input)
            }
            // `head -n 0` does not read it.
            Err(Error::IsDirectory) => {
                opened(call)?;
                work(call, &mut Input::directory())
            }
            Err(error) => Err(Trouble::Operand(error)),
        }
    };
    match ended {
        Ok(()) => Ok(true),
        Err(Trouble::Command(stop)) => Err(stop),
        Err(Trouble::Operand(error)) => {
            call.complain(typed, &error)?;
            Ok(false)
        }
    }
}

/// Returns what comes next, empty at the end. To be consumed.
///
/// # Errors
/// That of reading, or the line's time is up.
pub(super) fn chunk<'i>(call: &Call<'_>, input: &'i mut Input) -> Result<&'i [u8], Trouble> {
    call.check()?;
    input.fill_buf().map_err(of_reading)
}

/// Turns an error of reading into the operand's, unless it is that the line's time is up.
pub(super) fn of_reading(error: io::Error) -> Trouble {
    match error.kind() {
        io::ErrorKind::TimedOut => error.into(),
        _ => Trouble::Operand(of_io(&error)),
    }
}

/// Copies all that comes to standard output.
pub(super) fn copy(call: &mut Call<'_>, input: &mut Input) -> Result<(), Trouble> {
    copy_some(call, input, u64::MAX)
}

/// Copies so many bytes to standard output, or as many as there are.
pub(super) fn copy_some(call: &mut Call<'_>, input: &mut Input, bytes: u64) -> Result<(), Trouble> {
    let mut left = bytes;
    while left > 0 {
        let chunk = chunk(call, input)?;
        if chunk.is_empty() {
            break;
        }
        let length = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        call.out.write_all(chunk.get(..length).unwrap_or(chunk))?;
        input.consume(length);
        left -= length as u64;
    }
    Ok(())
}
