//! Writing, moving, copying and removing.

use std::io::{Read, Write};

use rustix::fs::FileType;

use super::work::{FileContext, FileError, at, of_io};
use crate::error::Error;
use crate::exec::home::WriteMode;
use crate::name::{WorldPath, escape};

/// The number of bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// Writes a file, and makes it and the directories above it where they are absent. Returns whether it was made.
pub(super) fn write(
    work: &FileContext<'_>,
    typed: &[u8],
    content: &[u8],
) -> Result<bool, FileError> {
    let path = work.path_to_make(typed)?;
    let is_new = match work.home.stat(&path) {
        Ok(_) => false,
        Err(Error::NotFound) => true,
        Err(error) => return Err(at(typed, &error)),
    };
    if is_new {
        make_above(work, &path).map_err(|error| at(typed, &error))?;
    }
    let how = match is_new {
        true => WriteMode::New,
        false => WriteMode::Truncate,
    };
    put(work, (typed, &path), how, content)?;
    Ok(is_new)
}

/// Writes a content to a file. Where that stops half-way, what stood there before is among its versions.
pub(super) fn put(
    work: &FileContext<'_>,
    (typed, path): (&[u8], &WorldPath),
    how: WriteMode,
    content: &[u8],
) -> Result<(), FileError> {
    let file = work.home.open_write(path, how, 0o666);
    let mut file = file.map_err(|error| at(typed, &error))?;
    for part in content.chunks(CHUNK) {
        work.check()?;
        let written = file.write_all(part);
        written.map_err(|error| half(typed, &of_io(&error), how))?;
    }
    Ok(())
}

fn half(typed: &[u8], error: &Error, how: WriteMode) -> FileError {
    let mut failed = at(typed, error);
    failed.extend_from_slice(match how {
        WriteMode::New => b"; the file is there, not whole",
        WriteMode::Truncate | WriteMode::Append => {
            b"; the file is not whole: what it held before is kept, and `undo` brings it back"
        }
    });
    failed
}

fn make_above(work: &FileContext<'_>, path: &WorldPath) -> crate::error::Result<()> {
    let Some(above) = path.parent().filter(|above| !above.is_root()) else {
        return Ok(());
    };
    match work.home.stat(&above) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(Error::NotDirectory),
        Err(Error::NotFound) => {
            make_above(work, &above)?;
            match work.home.mkdir(&above, 0o777) {
                // Somebody else was as fast.
                Err(Error::Exists) => Ok(()),
                made => made,
            }
        }
        Err(error) => Err(error),
    }
}

/// Moves what is there to a path where nothing is.
pub(super) fn rename(work: &FileContext<'_>, from: &[u8], to: &[u8]) -> Result<(), FileError> {
    let source = work.path(from)?;
    work.home.stat(&source).map_err(|error| at(from, &error))?;
    let destination = work.path(to)?;
    let moved = work.home.rename(&source, &destination, false);
    moved.map_err(|error| at(to, &error))
}

/// Copies a regular file to a path where nothing is; the copy has its mode.
pub(super) fn copy(work: &FileContext<'_>, from: &[u8], to: &[u8]) -> Result<(), FileError> {
    let source = work.path(from)?;
    let meta = work.home.stat(&source).map_err(|error| at(from, &error))?;
    if meta.kind != FileType::RegularFile {
        let name = escape(from);
        return Err(
            format!("{name}: only regular files are copied; `cp -r` copies trees").into_bytes(),
        );
    }
    let mut file = work.home.open(&source).map_err(|error| at(from, &error))?;
    let destination = work.path_to_make(to)?;
    let copy = work
        .home
        .open_write(&destination, WriteMode::New, meta.permissions() & 0o777);
    let mut copy = copy.map_err(|error| at(to, &error))?;
    let mut chunk = vec![0; CHUNK];
    loop {
        work.check()?;
        let read = match file.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(at(from, &of_io(&error))),
        };
        let written = copy.write_all(chunk.get(..read).unwrap_or_default());
        written.map_err(|error| half(to, &of_io(&error), WriteMode::New))?;
    }
}

/// Moves a file or a tree into the trash.
pub(super) fn remove(work: &FileContext<'_>, typed: &[u8]) -> Result<(), FileError> {
    let path = work.path(typed)?;
    if path.is_root() {
        let name = escape(typed);
        return Err(format!("{name}: the home itself is not removed").into_bytes());
    }
    let is_dir = work
        .home
        .stat(&path)
        .map_err(|error| at(typed, &error))?
        .is_dir();
    let removed = match is_dir {
        true => work.home.remove_tree(&path, &|| work.goes_on()),
        false => work.home.remove(&path),
    };
    removed.map_err(|error| at(typed, &error))
}
