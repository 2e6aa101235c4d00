//! Resolution of paths as typed: relative to the working directory, or absolute and below the root.
//!
//! No path is normalised by its text alone: each component before `.`, `..` or a slash must exist and be a directory.

use super::home::Home;
use trumanfs_types::error::{Error, Result};
use trumanfs_types::name::{Name, WorldPath};

/// The path of the session's scratch directory, as programs and, where requests run programs, the shell see it.
pub const TMP: &[u8] = b"/tmp";

/// The starting points of paths: home, root and working directory.
pub struct PathResolver<'b> {
    /// The home.
    pub home: &'b dyn Home,
    /// The path shown for the root, as [`HomeContext::root`](super::HomeContext::root).
    pub root: &'b [u8],
    /// The working directory.
    pub cwd: &'b WorldPath,
    /// True if `/tmp` is the session's scratch directory.
    pub has_scratch: bool,
}

impl PathResolver<'_> {
    /// Resolves a path.
    ///
    /// # Errors
    /// `ENOENT` for a path outside, and for the empty path; `ENOTDIR` for `file/`, `file/.` and `file/..`; those of
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
        // True while `path` so far is known to be a directory.
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

    /// Resolves the path of a file to be created: as [`PathResolver::resolve`], except that a trailing slash is
    /// `EISDIR`, as with open(2) and `O_CREAT`.
    ///
    /// # Errors
    /// As [`PathResolver::resolve`].
    pub fn resolve_new_file(&self, typed: &[u8]) -> Result<WorldPath> {
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
