//! The subject of a decision ([`CommandRequest`]), and the resolution of its paths ([`PathResolver`]).

use std::time::Duration;

use trumanfs_types::name::WorldPath;

/// A command that somebody wants to run.
#[derive(Clone, Copy)]
pub struct CommandRequest<'a> {
    /// Its words; the first is the program.
    pub argv: &'a [Vec<u8>],
    /// The working directory: relative to the home, or an absolute path below it.
    pub cwd: &'a [u8],
    /// The absolute path of the home, as the program sees it.
    pub home: &'a [u8],
    /// The variables that the caller asks for.
    pub env: &'a [(Vec<u8>, Vec<u8>)],
    /// The time limit that the caller asks for.
    pub timeout: Option<Duration>,
    /// Resolves paths in the home.
    pub paths: &'a dyn PathResolver,
}

/// The place to which a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathPlace {
    /// To something in the home.
    Inside,
    /// To nothing, at a place in the home.
    Absent,
    /// Out of the home.
    Outside,
}

/// Resolves paths in a home.
pub trait PathResolver {
    /// Returns where a relative path leads from a directory of the home, links resolved as a program would.
    fn resolve(&self, from: &WorldPath, path: &[u8]) -> PathPlace;

    /// Returns where a path below `/tmp` leads, which is given from there. A program always has a `/tmp`, the session's
    /// scratch directory: what is in it or could be made in it does not lie outside.
    fn scratch(&self, path: &[u8]) -> PathPlace;
}

/// Judges paths by their text alone: for examples in a policy, and where no home is named. Everything that does not
/// climb out is absent.
#[derive(Debug, Clone, Copy, Default)]
pub struct TextPaths;

impl PathResolver for TextPaths {
    fn resolve(&self, from: &WorldPath, path: &[u8]) -> PathPlace {
        match climbs_out(from, path) {
            true => PathPlace::Outside,
            false => PathPlace::Absent,
        }
    }

    fn scratch(&self, path: &[u8]) -> PathPlace {
        self.resolve(&WorldPath::root(), path)
    }
}

/// Returns whether the text of a relative path leads above the home, at any step of it: many programs shorten
/// `missing/../..` before they look.
pub(super) fn climbs_out(from: &WorldPath, path: &[u8]) -> bool {
    let mut depth = from.components().count();
    for part in path.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(above) => depth = above,
                None => return true,
            },
            _ => depth += 1,
        }
    }
    false
}
