//! The destinations of `cp` and `mv`: a single one, or a directory for all preceding operands.

use std::io;

use rustix::io::Errno;

use crate::call::{Call, CommandError, usage_error};
use crate::options::ParsedArgs;
use crate::quote::quoted;
use trumanfs_types::error::Error;
use trumanfs_types::meta::Meta;
use trumanfs_types::name::WorldPath;

/// A source as typed, and its destination as typed.
pub(super) type SourceTarget<'a> = (&'a [u8], Vec<u8>);

/// A path, and its name for messages.
#[derive(Debug)]
pub(super) struct NamedPath {
    pub(super) path: WorldPath,
    pub(super) shown: Vec<u8>,
}

/// A destination's path, and the attributes of the file that is there now, if any.
#[derive(Debug)]
pub(super) struct DestinationEntry {
    pub(super) path: WorldPath,
    pub(super) meta: Option<Meta>,
}

/// Pairs sources with destinations, by `-t` and `-T`; `None`, after reporting it, where that is impossible.
///
/// # Errors
/// [`CommandError::Usage`] in GNU's words.
pub(super) fn pair_operands<'a>(
    call: &mut Call<'_>,
    typed: &ParsedArgs<'a>,
) -> Result<Option<Vec<SourceTarget<'a>>>, CommandError> {
    let mut targets = typed.options.iter().filter(|(letter, _)| *letter == 't');
    let target = targets.next().map(|(_, value)| value.unwrap_or_default());
    if targets.next().is_some() {
        return Err(usage_error("multiple target directories specified"));
    }
    let operands = typed.operands.as_slice();
    let (directory, sources) = match (operands, target) {
        ([], _) => return Err(usage_error("missing file operand")),
        ([_], None) => return Err(usage_error("missing destination file operand")),
        (_, Some(_)) if typed.has('T') => {
            return Err(usage_error(
                "cannot combine --target-directory (-t) and --no-target-directory (-T)",
            ));
        }
        ([_, _, extra, ..], None) if typed.has('T') => {
            return Err(usage_error(
                [b"extra operand ", &quoted(extra)[..]].concat(),
            ));
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
            let within = |source: &&'a [u8]| (*source, path_in_directory(directory, source));
            Ok(Some(sources.iter().map(within).collect()))
        }
        (Some(_), [source]) if target.is_none() => Ok(Some(vec![(source, directory.to_vec())])),
        (Some(error), _) => {
            call.report_path_error(directory, &error)?;
            Ok(None)
        }
    }
}

/// Returns the destination of a source in a directory. A source that ends in `..` is copied onto the directory
/// itself.
fn path_in_directory(directory: &[u8], source: &[u8]) -> Vec<u8> {
    match last_part(source) {
        b".." => directory.to_vec(),
        name => join_path(directory, name),
    }
}

/// Returns the last component of a path as typed, without trailing slashes.
pub(super) fn last_part(typed: &[u8]) -> &[u8] {
    let mut parts = typed.rsplit(|b| *b == b'/');
    parts.find(|part| !part.is_empty()).unwrap_or_default()
}

/// Returns the path of an entry of a directory as typed.
pub(super) fn join_path(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
    [directory, slash, name].concat()
}

/// Looks an operand up; `None`, after reporting it, where that fails.
pub(super) fn look_up_source(
    call: &mut Call<'_>,
    typed: &[u8],
) -> io::Result<Option<(WorldPath, Meta)>> {
    let home = call.home();
    match call
        .path(typed)
        .and_then(|path| Ok((home.stat(&path)?, path)))
    {
        Ok((meta, path)) => Ok(Some((path, meta))),
        Err(error) => {
            call.report_path_error(typed, &error)?;
            Ok(None)
        }
    }
}

/// Looks a destination up; `None`, after reporting it, where nothing can be put there. A directory's name may end in
/// a slash.
pub(super) fn look_up_destination(
    call: &mut Call<'_>,
    (source, meta): (&[u8], &Meta),
    to: &[u8],
) -> io::Result<Option<DestinationEntry>> {
    let trimmed = to.iter().rposition(|b| *b != b'/');
    let trimmed = trimmed.and_then(|last| to.get(..=last)).unwrap_or(to);
    let path = match call.path(to) {
        Err(Error::NotFound) if meta.is_dir() => call.path(trimmed),
        path => path,
    };
    let there = path.and_then(|path| match call.home().stat(&path) {
        Ok(meta) => Ok(DestinationEntry {
            path,
            meta: Some(meta),
        }),
        Err(Error::NotFound) => Ok(DestinationEntry { path, meta: None }),
        Err(error) => Err(error),
    });
    match there {
        Ok(place) => Ok(Some(place)),
        Err(error) => {
            report_transfer_error(call, source, to, &error)?;
            Ok(None)
        }
    }
}

/// Reports that a source could not be put at a destination. For a missing destination, the message names the source.
pub(super) fn report_transfer_error(
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
    if at_the_place.contains(&error.errno()) {
        call.report_path_error(to, error)
    } else {
        call.report_path_error(source, error)
    }
}

/// Returns the message that a source cannot replace a destination of another type, if so.
pub(super) fn type_conflict(source: (&[u8], &Meta), to: (&[u8], &Meta)) -> Option<Vec<u8>> {
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

/// Returns the message that two operands are the same file.
pub(super) fn same_file_message(from: &[u8], to: &[u8]) -> Vec<u8> {
    [
        &quoted(from)[..],
        b" and ",
        &quoted(to),
        b" are the same file",
    ]
    .concat()
}

/// Returns the message that a directory cannot be copied into itself.
pub(super) fn into_itself_message(from: &[u8], to: &[u8]) -> Vec<u8> {
    let (from, to) = (quoted(from), quoted(to));
    [
        b"cannot copy a directory, ",
        &from[..],
        b", into itself, ",
        &to,
    ]
    .concat()
}

/// Returns whether `-u` keeps the destination: it is not older than the source.
pub(super) fn is_recent(there: &Meta, source: &Meta) -> bool {
    !source.is_dir() && there.mtime >= source.mtime
}

/// Returns the message that two operands have the same destination.
pub(super) fn just_created_message(from: &[u8], to: &[u8]) -> Vec<u8> {
    let (from, to) = (quoted(from), quoted(to));
    [
        b"will not overwrite just-created ",
        &to[..],
        b" with ",
        &from,
    ]
    .concat()
}
