//! `cp`: copies files and trees. Hard links between copied files are not preserved, because a home offers no way to create
//! them here; nor are extended attributes, but of files that `mv` moves between file systems. Special files cannot be created either and are reported.

mod content;
mod keep;
mod tree;
mod xattr;

use std::collections::HashSet;
use std::io;

use super::target::{blame, just_made, pairs, place, source};
use crate::call::{Call, Ended, NULL};
use crate::options::{OptSpec, Takes};
use crate::quote::quoted;
use keep::Keep;
use tree::{Copy, How};
use trumanfs_executor::home::Writing;
use trumanfs_types::meta::Id;
use trumanfs_types::name::WorldPath;

const CP: OptSpec = OptSpec {
    // There are no symlinks, so -H, -L and -P make no difference.
    short: "afHLnpPRrt:Tuv",
    long: &[
        ("archive", Takes::Nothing, 'a'),
        ("dereference", Takes::Nothing, 'L'),
        ("force", Takes::Nothing, 'f'),
        ("no-clobber", Takes::Nothing, 'n'),
        ("no-dereference", Takes::Nothing, 'P'),
        ("no-target-directory", Takes::Nothing, 'T'),
        ("preserve", Takes::Maybe, 'p'),
        ("recursive", Takes::Nothing, 'r'),
        ("target-directory", Takes::Value, 't'),
        ("update", Takes::Nothing, 'u'),
        ("verbose", Takes::Nothing, 'v'),
    ],
    wrong: 1,
};

/// The mode of a new file, before the umask.
const PLAIN: u32 = 0o666;

#[derive(Default)]
struct Copies {
    recursive: bool,
    how: How,
    /// The operands so far, as typed, with their inodes.
    seen: HashSet<(Vec<u8>, Id)>,
    /// The destinations that this call has written.
    made: HashSet<WorldPath>,
}

/// `cp [-afHLnpPRrTuv] [--preserve=LIST] [-t DIRECTORY] SOURCE... [DESTINATION]`
pub(super) fn cp(call: &mut Call<'_>) -> Ended {
    let typed = CP.read(call.args)?;
    let mut copies = Copies {
        recursive: ['a', 'R', 'r'].into_iter().any(|letter| typed.has(letter)),
        how: How {
            keep: Keep::read(&typed)?,
            force: typed.has('f'),
            no_clobber: typed.has('n'),
            update: typed.has('u'),
            verbose: typed.has('v'),
            moves: false,
        },
        ..Copies::default()
    };
    let Some(pairs) = pairs(call, &typed)? else {
        return Ok(1);
    };
    let mut status = 0;
    for (from, to) in pairs {
        call.check()?;
        let copied = match from {
            NULL => copies.nothing(call, &to)?,
            from => copies.operand(call, from, &to)?,
        };
        if !copied {
            status = 1;
        }
    }
    Ok(status)
}

/// Copies what `mv` cannot rename, with all attributes that can be preserved, to a place where nothing is. Returns
/// whether all of it was copied.
pub(super) fn copy_to_move(
    call: &mut Call<'_>,
    from: (WorldPath, Vec<u8>),
    to: (WorldPath, Vec<u8>),
    verbose: bool,
) -> io::Result<bool> {
    let how = How {
        keep: Keep::all(),
        verbose,
        moves: true,
        ..How::default()
    };
    how.tree(call, Copy { from, to })
}

impl Copies {
    /// Copies `/dev/null`: the destination becomes an empty file.
    fn nothing(&mut self, call: &mut Call<'_>, to: &[u8]) -> io::Result<bool> {
        let home = call.home();
        let made = call.path(to).and_then(|path| {
            if self.how.no_clobber && home.stat(&path).is_ok() {
                return Ok(());
            }
            home.open_write(&path, Writing::Truncate, PLAIN).map(drop)
        });
        match made {
            Ok(()) => Ok(true),
            Err(error) => blame(call, NULL, to, &error).map(|()| false),
        }
    }

    /// Copies an operand and everything below it. Returns whether all of it was copied.
    fn operand(&mut self, call: &mut Call<'_>, typed: &[u8], to: &[u8]) -> io::Result<bool> {
        let Some((path, meta)) = source(call, typed)? else {
            return Ok(false);
        };
        if meta.is_dir() && !self.recursive {
            call.say(&[b"-r not specified; omitting directory ", &quoted(typed)[..]].concat())?;
            return Ok(false);
        }
        let first = self.seen.insert((typed.to_vec(), meta.id));
        if !first {
            let what: &[u8] = if meta.is_dir() {
                b"directory "
            } else {
                b"file "
            };
            let typed = quoted(typed);
            call.say(
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
        let Some((new, there)) = place(call, (typed, &meta), to)? else {
            return Ok(false);
        };
        if there.is_some() && !meta.is_dir() && self.made.contains(&new) {
            if self.how.no_clobber {
                return Ok(true);
            }
            call.say(&just_made(typed, to))?;
            return Ok(false);
        }
        let copy = Copy {
            from: (path, typed.to_vec()),
            to: (new.clone(), to.to_vec()),
        };
        let copied = self.how.tree(call, copy)?;
        self.made.insert(new);
        Ok(copied)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
