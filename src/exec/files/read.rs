//! Reading lines of a text: from the start, around a line, or from the end. A file of any size takes a few chunks of memory.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};

use super::work::{FileContext, FileError, at, of_io};
use crate::name::escape;

/// The number of bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// The number of bytes at the start of a file that are searched for bytes that no text has.
const SAMPLE_BYTES: usize = 8 << 10;

/// The lines of a file to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineWindow {
    /// All of them.
    All,
    /// So many, from this one on, counted from 1.
    From(u64, u64),
    /// The last ones.
    Last(u64),
}

/// Writes lines of a file to `out`. Returns the number of the first one, where it is known, and the size of the file.
pub(super) fn read(
    work: &FileContext<'_>,
    typed: &[u8],
    window: &LineWindow,
    out: &mut dyn Write,
) -> Result<(Option<u64>, u64), FileError> {
    let path = work.path(typed)?;
    let mut file = work.home.open(&path).map_err(|error| at(typed, &error))?;
    let failed = |error: std::io::Error| at(typed, &of_io(&error));
    let size = file.metadata().map_err(failed)?.len();
    let mut reader = BufReader::with_capacity(CHUNK, &file);
    let start = reader.fill_buf().map_err(failed)?;
    if start
        .get(..SAMPLE_BYTES.min(start.len()))
        .is_some_and(|start| start.contains(&0))
    {
        let name = escape(typed);
        return Err(
            format!("{name}: no text, {size} bytes; `wc -c`, `cp` and programs take it")
                .into_bytes(),
        );
    }
    let first = match window {
        LineWindow::All => {
            lines(work, &mut reader, u64::MAX, out).map_err(failed)?;
            Some(1)
        }
        LineWindow::From(first, most) => {
            skip(work, &mut reader, first.saturating_sub(1)).map_err(failed)?;
            lines(work, &mut reader, *most, out).map_err(failed)?;
            Some(*first)
        }
        LineWindow::Last(most) => {
            drop(reader);
            let from = start_of_last(work, &mut file, size, *most).map_err(failed)?;
            file.seek(SeekFrom::Start(from)).map_err(failed)?;
            let mut reader = BufReader::with_capacity(CHUNK, &file);
            lines(work, &mut reader, u64::MAX, out).map_err(failed)?;
            None
        }
    };
    work.check()?;
    Ok((first, size))
}

/// Writes so many lines. What cannot be written is noted by whoever takes it.
fn lines(
    work: &FileContext<'_>,
    reader: &mut impl BufRead,
    most: u64,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let mut left = most;
    while left > 0 && work.goes_on() {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            break;
        }
        let mut end = chunk.len();
        for newline in memchr::memchr_iter(b'\n', chunk) {
            left -= 1;
            if left == 0 {
                end = newline + 1;
                break;
            }
        }
        if out.write_all(chunk.get(..end).unwrap_or_default()).is_err() {
            break;
        }
        reader.consume(end);
    }
    Ok(())
}

/// Goes past so many lines.
fn skip(work: &FileContext<'_>, reader: &mut impl BufRead, lines: u64) -> std::io::Result<()> {
    self::lines(work, reader, lines, &mut std::io::sink())
}

/// Returns where the last lines of a file begin.
fn start_of_last(
    work: &FileContext<'_>,
    file: &mut File,
    size: u64,
    lines: u64,
) -> std::io::Result<u64> {
    use std::os::unix::fs::FileExt;
    let mut chunk = vec![0; CHUNK];
    let (mut end, mut found) = (size, 0);
    if lines == 0 {
        return Ok(size);
    }
    while end > 0 && work.goes_on() {
        let start = end.saturating_sub(CHUNK as u64);
        let length = usize::try_from(end - start).unwrap_or(CHUNK);
        let part = chunk.get_mut(..length).unwrap_or_default();
        file.read_exact_at(part, start)?;
        for newline in memchr::memrchr_iter(b'\n', part) {
            let behind = start + newline as u64 + 1;
            // The newline at the very end ends the last line.
            if behind == size {
                continue;
            }
            found += 1;
            if found == lines {
                return Ok(behind);
            }
        }
        end = start;
    }
    Ok(0)
}
