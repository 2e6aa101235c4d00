//! Paths in a directory that is there: [`RootPaths`].

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use super::file;
use super::question::{Paths, Place, climbs_out};
use crate::error::Result;
use crate::name::WorldPath;

/// Resolves paths beneath a directory with the kernel, links included. What cannot be resolved counts as outside.
#[derive(Debug)]
pub struct RootPaths {
    root: OwnedFd,
}

impl RootPaths {
    /// Opens the directory that stands for a home.
    ///
    /// # Errors
    /// There is no such directory, or it cannot be opened.
    pub fn open(path: &Path) -> Result<RootPaths> {
        Ok(RootPaths {
            root: file::directory(path)?,
        })
    }
}

impl From<OwnedFd> for RootPaths {
    fn from(root: OwnedFd) -> RootPaths {
        RootPaths { root }
    }
}

impl Paths for RootPaths {
    fn resolve(&self, from: &WorldPath, path: &[u8]) -> Place {
        if climbs_out(from, path) {
            return Place::Outside;
        }
        let path = match from.is_root() {
            true => path.to_vec(),
            false => [from.bytes(), path].join(&b'/'),
        };
        if path.iter().all(|b| *b == b'/') {
            return Place::Inside;
        }
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match openat2(&self.root, path, flags, Mode::empty(), resolve) {
            Ok(_) => Place::Inside,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => Place::Absent,
            Err(_) => Place::Outside,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_and_may_not_lead_out() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        std::fs::create_dir_all(home.join("a/b")).unwrap();
        std::fs::write(home.join("a/file"), "").unwrap();
        std::fs::write(dir.path().join("secret"), "").unwrap();
        for (link, target) in [
            ("up", ".."),
            ("abs", "/etc"),
            ("a/in", "b"),
            ("a/dangling", "../../nothing"),
            ("loop", "loop"),
        ] {
            symlink(target, home.join(link)).unwrap();
        }
        let paths = RootPaths::open(&home).unwrap();
        let root = WorldPath::root();
        for (path, place) in [
            ("", Place::Inside),
            (".", Place::Inside),
            ("a/file", Place::Inside),
            ("a/in", Place::Inside),
            ("a/none", Place::Absent),
            ("a/file/x", Place::Absent),
            ("none/../a", Place::Absent),
            ("none/../../x", Place::Outside),
            ("..", Place::Outside),
            ("up", Place::Outside),
            ("up/secret", Place::Outside),
            ("abs/passwd", Place::Outside),
            ("a/dangling", Place::Outside),
            ("loop", Place::Outside),
        ] {
            assert_eq!(paths.resolve(&root, path.as_bytes()), place, "{path}");
        }
        let a = WorldPath::parse(b"a").unwrap();
        assert_eq!(paths.resolve(&a, b"../a/b"), Place::Inside);
        assert_eq!(paths.resolve(&a, b"../../secret"), Place::Outside);
    }
}
