//! Where `cp` and `mv` put things: one destination, or a directory for all that come before it.

use std::io;

use rustix::io::Errno;

use crate::error::Error;
use crate::exec::shell::call::{Call, Stop, usage};
use crate::exec::shell::options::ParsedArgs;
use crate::exec::shell::quote::quoted;
use crate::name::WorldPath;
use crate::world::Meta;

/// A thing, and what it is to be called, both as typed.
pub(super) type Pair<'a> = (&'a [u8], Vec<u8>);

/// A place to put something at, and what is there now.
pub(super) type Destination = (WorldPath, Option<Meta>);

/// Returns which operand goes where, by `-t` and `-T`; nothing where it was told why none can.
///
/// # Errors
/// [`Stop::Usage`] in GNU's words.
pub(super) fn pairs<'a>(
    call: &mut Call<'_>,
    typed: &ParsedArgs<'a>,
) -> Result<Option<Vec<Pair<'a>>>, Stop> {
    let mut targets = typed.options.iter().filter(|(letter, _)| *letter == 't');
    let target = targets.next().map(|(_, value)| value.unwrap_or_default());
    if targets.next().is_some() {
        return Err(usage("multiple target directories specified"));
    }
    let operands = typed.operands.as_slice();
    let (directory, sources) = match (operands, target) {
        ([], _) => return Err(usage("missing file operand")),
        ([_], None) => return Err(usage("missing destination file operand")),
        (_, Some(_)) if typed.has('T') => {
            return Err(usage(
                "cannot combine --target-directory (-t) and --no-target-directory (-T)",
            ));
        }
        ([_, _, extra, ..], None) if typed.has('T') => {
            return Err(usage([b"extra operand ", &quoted(extra)[..]].concat()));
        }
        ([source, to], None) if typed.has('T') => return Ok(Some(vec![(source, to.to_vec())])),
        (sources, Some(directory)) => (directory, sources),
        ([sources @ .., last], None) => (*last, sources),
    };
    let found = call
        .path(directory)
        .and_then(|path| call.home().stat(&path));
    let error = match found {
        Ok(meta) if meta.is_dir() => None,
        Ok(_) => Some(Error::NotDirectory),
        Err(error) => Some(error),
    };
    match (error, sources) {
        (None, sources) => {
            let within = |source: &&'a [u8]| (*source, named_in(directory, source));
            Ok(Some(sources.iter().map(within).collect()))
        }
        (Some(_), [source]) if target.is_none() => Ok(Some(vec![(source, directory.to_vec())])),
        (Some(error), _) => {
            call.complain(directory, &error)?;
            Ok(None)
        }
    }
}

/// Returns what a thing is called in a directory. The parent of a directory goes by the directory itself.
fn named_in(directory: &[u8], source: &[u8]) -> Vec<u8> {
    match last_part(source) {
        b".." => directory.to_vec(),
        name => joined(directory, name),
    }
}

/// Returns the last part of a path as typed, without slashes after it.
pub(super) fn last_part(typed: &[u8]) -> &[u8] {
    let mut parts = typed.rsplit(|b| *b == b'/');
    parts.find(|part| !part.is_empty()).unwrap_or_default()
}

/// Returns the path of an entry of a directory as typed.
pub(super) fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
    [directory, slash, name].concat()
}

/// Looks an operand up; nothing where it was told why it cannot be.
pub(super) fn source(call: &mut Call<'_>, typed: &[u8]) -> io::Result<Option<(WorldPath, Meta)>> {
    let home = call.home();
    match call
        .path(typed)
        .and_then(|path| Ok((home.stat(&path)?, path)))
    {
        Ok((meta, path)) => Ok(Some((path, meta))),
        Err(error) => {
            call.complain(typed, &error)?;
            Ok(None)
        }
    }
}

/// Finds out what is at a destination; nothing where it was told why nothing can be put there. A directory may be meant
/// with a slash at the end.
pub(super) fn place(
    call: &mut Call<'_>,
    (source, meta): (&[u8], &Meta),
    to: &[u8],
) -> io::Result<Option<Destination>> {
    let trimmed = to.iter().rposition(|b| *b != b'/');
    let trimmed = trimmed.and_then(|last| to.get(..=last)).unwrap_or(to);
    let path = match call.path(to) {
        Err(Error::NotFound) if meta.is_dir() => call.path(trimmed),
        path => path,
    };
    let there = path.and_then(|path| match call.home().stat(&path) {
        Ok(meta) => Ok((path, Some(meta))),
        Err(Error::NotFound) => Ok((path, None)),
        Err(error) => Err(error),
    });
    match there {
        Ok(place) => Ok(Some(place)),
        Err(error) => {
            blame(call, source, to, &error)?;
            Ok(None)
        }
    }
}

/// Says that a thing could not be put somewhere. Where the place is missing it is the thing that is named.
pub(super) fn blame(
    call: &mut Call<'_>,
    source: &[u8],
    to: &[u8],
    error: &Error,
) -> io::Result<()> {
    let at_the_place = [
        Errno::EXIST,
        Errno::NOTEMPTY,
        Errno::ISDIR,
        Errno::NOTDIR,
        Errno::NAMETOOLONG,
        Errno::NOSPC,
        Errno::DQUOT,
    ];
    match at_the_place.contains(&error.errno()) {
        true => call.complain(to, error),
        false => call.complain(source, error),
    }
}

/// Returns why one thing cannot be put in the place of another, if it cannot.
pub(super) fn clash(source: (&[u8], &Meta), to: (&[u8], &Meta)) -> Option<Vec<u8>> {
    let (from, there) = (quoted(source.0), quoted(to.0));
    match (source.1.is_dir(), to.1.is_dir()) {
        (true, false) => Some(
            [
                b"cannot overwrite non-directory ",
                &there[..],
                b" with directory ",
                &from,
            ]
            .concat(),
        ),
        (false, true) => Some(
            [
                b"cannot overwrite directory ",
                &there[..],
                b" with non-directory",
            ]
            .concat(),
        ),
        _ => None,
    }
}

/// Says that two operands are one thing.
pub(super) fn same(from: &[u8], to: &[u8]) -> Vec<u8> {
    [
        &quoted(from)[..],
        b" and ",
        &quoted(to),
        b" are the same file",
    ]
    .concat()
}

/// Says that a directory cannot be copied to where the copy would be part of it.
pub(super) fn into_itself(from: &[u8], to: &[u8]) -> Vec<u8> {
    let (from, to) = (quoted(from), quoted(to));
    [
        b"cannot copy a directory, ",
        &from[..],
        b", into itself, ",
        &to,
    ]
    .concat()
}

/// Returns whether `-u` leaves what is there: it is not older.
pub(super) fn is_recent(there: &Meta, source: &Meta) -> bool {
    !source.is_dir() && there.mtime >= source.mtime
}

/// Says that two operands of one call would become one.
pub(super) fn just_made(from: &[u8], to: &[u8]) -> Vec<u8> {
    let (from, to) = (quoted(from), quoted(to));
    [
        b"will not overwrite just-created ",
        &to[..],
        b" with ",
        &from,
    ]
    .concat()
}
