//! What a path means to an executor, as somebody types it: from the working directory, or absolute and below the root.
//!
//! Nothing is normalised by its text: each component before `.`, `..` or a slash is looked at, and must be a directory.

use super::home::Home;
use trumanfs_types::error::{Error, Result};
use trumanfs_types::name::{Name, WorldPath};

/// The scratch directory of the session, where requests run programs: the programs have it there.
pub const TMP: &[u8] = b"/tmp";

/// Where paths begin.
pub struct Base<'b> {
    /// What exists.
    pub home: &'b dyn Home,
    /// What the root is called, as [`Place::root`](super::Place::root).
    pub root: &'b [u8],
    /// The working directory.
    pub cwd: &'b WorldPath,
    /// Whether `/tmp` is the session's scratch directory.
    pub has_scratch: bool,
}

impl Base<'_> {
    /// Resolves a path.
    ///
    /// # Errors
    /// `ENOENT` for what is outside, and for the empty path; `ENOTDIR` for `file/`, `file/.` and `file/..`; those of
    /// [`Home::stat`] and [`Name::new`].
    pub fn resolve(&self, typed: &[u8]) -> Result<WorldPath> {
        if typed.is_empty() {
            return Err(Error::NotFound);
        }
        let (mut path, rest) = match typed.first() {
            Some(b'/') => {
                let scratch = || below(TMP, typed).filter(|_| self.has_scratch);
                match below(self.root, typed) {
                    Some(inside) => (WorldPath::root(), inside),
                    None => (WorldPath::scratch(), scratch().ok_or(Error::NotFound)?),
                }
            }
            _ => (self.cwd.clone(), typed),
        };
        // Whether `path` so far is known to be a directory.
        let mut known = true;
        for part in rest.split(|b| *b == b'/') {
            match part {
                b"" | b"." => self.directory(&path, &mut known)?,
                b".." => {
                    self.directory(&path, &mut known)?;
                    let above = path.parent().filter(|_| path != WorldPath::scratch());
                    path = above.ok_or(Error::NotFound)?;
                }
                part => {
                    path.push(Name::new(part)?);
                    known = false;
                }
            }
        }
        Ok(path)
    }

    /// Resolves the path of a file to be created: as [`Base::resolve`], except that a trailing slash is `EISDIR`, as with
    /// open(2) and `O_CREAT`.
    ///
    /// # Errors
    /// As [`Base::resolve`].
    pub fn resolve_to_make(&self, typed: &[u8]) -> Result<WorldPath> {
        match self.resolve(typed) {
            Err(Error::NotFound) if typed.ends_with(b"/") => Err(Error::IsDirectory),
            path => path,
        }
    }

    fn directory(&self, path: &WorldPath, known: &mut bool) -> Result<()> {
        if !*known && !self.home.stat(path)?.is_dir() {
            return Err(Error::NotDirectory);
        }
        *known = true;
        Ok(())
    }
}

/// Returns the part of an absolute path below the root; `None` where it is outside.
fn below<'t>(root: &[u8], typed: &'t [u8]) -> Option<&'t [u8]> {
    let mut rest = typed;
    for part in root.split(|b| *b == b'/').filter(|part| !part.is_empty()) {
        let start = rest.iter().position(|b| *b != b'/')?;
        rest = rest.get(start..)?.strip_prefix(part)?;
        if !matches!(rest.first(), None | Some(b'/')) {
            return None;
        }
    }
    Some(rest)
}
