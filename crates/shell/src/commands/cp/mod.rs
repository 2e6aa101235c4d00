//! `cp`: copies files and trees. Hard links between copied files are not preserved, because a home offers no way to
//! create them here; nor are extended attributes, except for files that `mv` moves between file systems. Special files
//! cannot be created either and are reported.

mod content;
mod preserve;
mod tree;
mod xattr;

use std::collections::HashSet;
use std::io;

use super::target::{
    DestinationEntry, NamedPath, just_created_message, look_up_destination, look_up_source,
    pair_operands, report_transfer_error,
};
use crate::call::{Call, CommandError, CommandResult, DEV_NULL, usage_error};
use crate::options::{OptSpec, OptionArg, ParsedArgs};
use crate::quote::quoted;
use preserve::PreservedAttrs;
use tree::{CopyOptions, CopyPair};
use trumanfs_executor::home::WriteMode;
use trumanfs_types::meta::Id;
use trumanfs_types::name::WorldPath;

const CP: OptSpec = OptSpec {
    // There are no symlinks and no other file systems, so -d, -H, -L, -P and -x make no difference.
    short: "adfHLnpPRrt:Tuvx",
    long: &[
        ("archive", OptionArg::None, 'a'),
        ("dereference", OptionArg::None, 'L'),
        ("force", OptionArg::None, 'f'),
        ("no-clobber", OptionArg::None, 'n'),
        ("no-dereference", OptionArg::None, 'P'),
        ("no-target-directory", OptionArg::None, 'T'),
        ("one-file-system", OptionArg::None, 'x'),
        ("preserve", OptionArg::Optional, 'p'),
        ("recursive", OptionArg::None, 'r'),
        ("reflink", OptionArg::Optional, REFLINK),
        ("sparse", OptionArg::Required, SPARSE),
        ("target-directory", OptionArg::Required, 't'),
        ("update", OptionArg::None, 'u'),
        ("verbose", OptionArg::None, 'v'),
    ],
    error_status: 1,
};

// Options that have a long name only.
const REFLINK: char = '\u{1}';
const SPARSE: char = '\u{2}';

/// The mode of a new file, before the umask.
const NEW_FILE_MODE: u32 = 0o666;

/// A call of `cp`.
#[derive(Default)]
struct CopyRun {
    recursive: bool,
    options: CopyOptions,
    /// The operands so far, as typed, with their inodes.
    sources: HashSet<(Vec<u8>, Id)>,
    /// The destinations that this call has written.
    written: HashSet<WorldPath>,
}

/// Runs `cp [-afHLnpPRrTuv] [--preserve=LIST] [-t DIRECTORY] SOURCE... [DESTINATION]`.
pub(super) fn cp(call: &mut Call<'_>) -> CommandResult {
    let typed = CP.read(call.args)?;
    check_hints(&typed)?;
    let mut copies = CopyRun {
        recursive: ['a', 'R', 'r'].into_iter().any(|letter| typed.has(letter)),
        options: CopyOptions {
            keep: PreservedAttrs::read(&typed)?,
            force: typed.has('f'),
            no_clobber: typed.has('n'),
            update: typed.has('u'),
            verbose: typed.has('v'),
            moves: false,
        },
        ..CopyRun::default()
    };
    let Some(pairs) = pair_operands(call, &typed)? else {
        return Ok(1);
    };
    let mut status = 0;
    for (from, to) in pairs {
        call.check()?;
        let copied = match from {
            DEV_NULL => copies.copy_null(call, &to)?,
            from => copies.copy_operand(call, from, &to)?,
        };
        if !copied {
            status = 1;
        }
    }
    Ok(status)
}

/// Accepts the values of `--reflink` and `--sparse` that leave the copies' content and success as they are.
fn check_hints(typed: &ParsedArgs<'_>) -> Result<(), CommandError> {
    for (letter, value) in &typed.options {
        let value = value.unwrap_or(b"always");
        let name: &[u8] = match (*letter, value) {
            (REFLINK, b"auto" | b"never") | (SPARSE, b"auto" | b"always" | b"never") => continue,
            (REFLINK, b"always") => return Err(usage_error("--reflink=always is not supported")),
            (REFLINK, _) => b"reflink",
            (SPARSE, _) => b"sparse",
            _ => continue,
        };
        let message = [b"invalid argument '", value, b"' for '--", name, b"'"];
        return Err(usage_error(message.concat()));
    }
    Ok(())
}

/// Copies a source that `mv` cannot rename, with all attributes that can be preserved, to a path where nothing is.
/// Returns whether the whole tree was copied.
pub(super) fn copy_to_move(
    call: &mut Call<'_>,
    from: NamedPath,
    to: NamedPath,
    verbose: bool,
) -> io::Result<bool> {
    let options = CopyOptions {
        keep: PreservedAttrs::all(),
        verbose,
        moves: true,
        ..CopyOptions::default()
    };
    options.copy_tree(call, CopyPair { from, to })
}

impl CopyRun {
    /// Copies `/dev/null`: the destination becomes an empty file.
    fn copy_null(&mut self, call: &mut Call<'_>, to: &[u8]) -> io::Result<bool> {
        let home = call.home();
        let made = call.path(to).and_then(|path| {
            if self.options.no_clobber && home.stat(&path).is_ok() {
                return Ok(());
            }
            home.open_write(&path, WriteMode::Truncate, NEW_FILE_MODE)
                .map(drop)
        });
        match made {
            Ok(()) => Ok(true),
            Err(error) => report_transfer_error(call, DEV_NULL, to, &error).map(|()| false),
        }
    }

    /// Copies an operand and everything below it. Returns whether all of it was copied.
    fn copy_operand(&mut self, call: &mut Call<'_>, typed: &[u8], to: &[u8]) -> io::Result<bool> {
        let Some((path, meta)) = look_up_source(call, typed)? else {
            return Ok(false);
        };
        if meta.is_dir() && !self.recursive {
            call.report(&[b"-r not specified; omitting directory ", &quoted(typed)[..]].concat())?;
            return Ok(false);
        }
        let first = self.sources.insert((typed.to_vec(), meta.id));
        if !first {
            let what: &[u8] = if meta.is_dir() {
                b"directory "
            } else {
                b"file "
            };
            let typed = quoted(typed);
            call.report(
                &[
                    b"warning: source ",
                    what,
                    &typed,
                    b" specified more than once",
                ]
                .concat(),
            )?;
            return Ok(true);
        }
        let Some(DestinationEntry {
            path: new,
            meta: there,
        }) = look_up_destination(call, (typed, &meta), to)?
        else {
            return Ok(false);
        };
        if there.is_some() && !meta.is_dir() && self.written.contains(&new) {
            if self.options.no_clobber {
                return Ok(true);
            }
            call.report(&just_created_message(typed, to))?;
            return Ok(false);
        }
        let copy = CopyPair {
            from: NamedPath {
                path,
                shown: typed.to_vec(),
            },
            to: NamedPath {
                path: new.clone(),
                shown: to.to_vec(),
            },
        };
        let copied = self.options.copy_tree(call, copy)?;
        self.written.insert(new);
        Ok(copied)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
