//! Reading of operands, one after another: files, and standard input for `-`. An operand that cannot be
//! read is reported, and the others are still read.

use std::io::{self, BufRead, Write};
use std::mem;

use crate::call::{Call, CommandError, from_io_error};
use crate::stream::Input;
use trumanfs_types::error::Error;

/// The operand that stands for standard input.
pub(super) const STDIN_OPERAND: &[u8] = b"-";

/// The reason for which an operand is not read to its end.
#[derive(Debug)]
pub(super) enum OperandError {
    /// This operand cannot be read; the command goes on with the next.
    Operand(Error),
    /// The whole command ends.
    Command(CommandError),
}

impl From<io::Error> for OperandError {
    fn from(error: io::Error) -> OperandError {
        OperandError::Command(error.into())
    }
}

/// Returns the operands, or standard input if there are none.
pub(super) fn or_standard_input(operands: Vec<&[u8]>) -> Vec<&[u8]> {
    if operands.is_empty() {
        vec![STDIN_OPERAND]
    } else {
        operands
    }
}

/// Opens an operand, calls `opened`, then `work` to read it, and reports errors. A directory can be opened but not
/// read. Returns whether all of it succeeded.
///
/// # Errors
/// Errors that end the command.
pub(super) fn read(
    call: &mut Call<'_>,
    typed: &[u8],
    opened: impl FnOnce(&mut Call<'_>) -> io::Result<()>,
    work: impl FnOnce(&mut Call<'_>, &mut Input) -> Result<(), OperandError>,
) -> Result<bool, CommandError> {
    call.check()?;
    let ended = if typed == STDIN_OPERAND {
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
            // `head -n 0` does not read the directory and so must not fail.
            Err(Error::IsDirectory) => {
                opened(call)?;
                work(call, &mut Input::directory())
            }
            Err(error) => Err(OperandError::Operand(error)),
        }
    };
    match ended {
        Ok(()) => Ok(true),
        Err(OperandError::Command(stop)) => Err(stop),
        Err(OperandError::Operand(error)) => {
            call.report_path_error(typed, &error)?;
            Ok(false)
        }
    }
}

/// Returns the next bytes, none at the end. The caller consumes them.
///
/// # Errors
/// Read errors; the line's time limit has passed.
pub(super) fn next_chunk<'i>(
    call: &Call<'_>,
    input: &'i mut Input,
) -> Result<&'i [u8], OperandError> {
    call.check()?;
    input.fill_buf().map_err(read_error)
}

/// Turns a read error into the operand's, unless the line's time limit has passed.
pub(super) fn read_error(error: io::Error) -> OperandError {
    match error.kind() {
        io::ErrorKind::TimedOut => error.into(),
        _ => OperandError::Operand(from_io_error(&error)),
    }
}

/// Copies the rest of the input to standard output.
pub(super) fn copy(call: &mut Call<'_>, input: &mut Input) -> Result<(), OperandError> {
    copy_bytes(call, input, u64::MAX)
}

/// Copies at most so many bytes to standard output.
pub(super) fn copy_bytes(
    call: &mut Call<'_>,
    input: &mut Input,
    bytes: u64,
) -> Result<(), OperandError> {
    let mut left = bytes;
    while left > 0 {
        let chunk = next_chunk(call, input)?;
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
