//! Paths in a directory that is there: [`RootPaths`].

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use super::file;
use super::question::{PathPlace, PathResolver, climbs_out};
use trumanfs_types::error::Result;
use trumanfs_types::name::WorldPath;

/// Resolves paths beneath a directory with the kernel, links included. What cannot be resolved counts as outside.
#[derive(Debug)]
pub struct RootPaths {
    root: OwnedFd,
    /// The session's scratch directory; without one, as before the first program of a session, `/tmp` is empty.
    scratch: Option<OwnedFd>,
}

impl RootPaths {
    /// Opens the directory that stands for a home.
    ///
    /// # Errors
    /// There is no such directory, or it cannot be opened.
    pub fn open(path: &Path) -> Result<RootPaths> {
        Ok(RootPaths {
            root: file::directory(path)?,
            scratch: None,
        })
    }
}

impl From<OwnedFd> for RootPaths {
    fn from(root: OwnedFd) -> RootPaths {
        RootPaths {
            root,
            scratch: None,
        }
    }
}

impl RootPaths {
    /// Adds the session's scratch directory, which programs have as `/tmp`.
    pub fn with_scratch(self, scratch: OwnedFd) -> RootPaths {
        RootPaths {
            scratch: Some(scratch),
            ..self
        }
    }
}

/// Returns where a path leads beneath a directory.
fn beneath(dir: &OwnedFd, path: &[u8]) -> PathPlace {
    if path.iter().all(|b| *b == b'/') {
        return PathPlace::Inside;
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match openat2(dir, path, flags, Mode::empty(), resolve) {
        Ok(_) => PathPlace::Inside,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => PathPlace::Absent,
        Err(_) => PathPlace::Outside,
    }
}

impl PathResolver for RootPaths {
    fn resolve(&self, from: &WorldPath, path: &[u8]) -> PathPlace {
        if climbs_out(from, path) {
            return PathPlace::Outside;
        }
        let path = match from.is_root() {
            true => path.to_vec(),
            false => [from.bytes(), path].join(&b'/'),
        };
        beneath(&self.root, &path)
    }

    fn scratch(&self, path: &[u8]) -> PathPlace {
        let place = |path: &[u8]| match &self.scratch {
            Some(scratch) => beneath(scratch, path),
            None if path.is_empty() => PathPlace::Inside,
            None => PathPlace::Absent,
        };
        let above = memchr::memrchr(b'/', path.strip_suffix(b"/").unwrap_or(path)).unwrap_or(0);
        match place(path) {
            // What a host has below its own /tmp is not there: what could be made here has a directory here.
            PathPlace::Absent
                if place(path.get(..above).unwrap_or_default()) != PathPlace::Inside =>
            {
                PathPlace::Outside
            }
            place => place,
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
            ("", PathPlace::Inside),
            (".", PathPlace::Inside),
            ("a/file", PathPlace::Inside),
            ("a/in", PathPlace::Inside),
            ("a/none", PathPlace::Absent),
            ("a/file/x", PathPlace::Absent),
            ("none/../a", PathPlace::Absent),
            ("none/../../x", PathPlace::Outside),
            ("..", PathPlace::Outside),
            ("up", PathPlace::Outside),
            ("up/secret", PathPlace::Outside),
            ("abs/passwd", PathPlace::Outside),
            ("a/dangling", PathPlace::Outside),
            ("loop", PathPlace::Outside),
        ] {
            assert_eq!(paths.resolve(&root, path.as_bytes()), place, "{path}");
        }
        let a = WorldPath::parse(b"a").unwrap();
        assert_eq!(paths.resolve(&a, b"../a/b"), PathPlace::Inside);
        assert_eq!(paths.resolve(&a, b"../../secret"), PathPlace::Outside);
    }

    #[test]
    fn a_scratch_directory_is_tmp() {
        use super::super::within::HomeBounds;
        let dir = tempfile::tempdir().unwrap();
        for name in ["home", "scratch/dir"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("scratch/file"), "").unwrap();
        symlink("/etc", dir.path().join("scratch/link")).unwrap();
        let home = RootPaths::open(&dir.path().join("home")).unwrap();
        let root = WorldPath::root();
        let within = |paths: &dyn PathResolver, word: &str| {
            let within = HomeBounds {
                home: b"/tmp/home",
                cwd: &root,
                paths,
            };
            !within.leads_out(word.as_bytes())
        };
        // Before a session's first program nothing is there, and anything can be made.
        for (word, inside) in [
            ("/tmp", true),
            ("/tmp/", true),
            ("/tmp/file", true),
            ("--out=/tmp/new", true),
            ("/tmp/home/x", true),
            ("/tmp/dir/file", false),
            ("/tmp/../etc", false),
            ("/tmpfile", false),
        ] {
            assert_eq!(within(&home, word), inside, "{word}");
            // By their text alone, any could be there.
            let by_text = within(&super::super::question::TextPaths, word);
            assert_eq!(by_text, inside || word == "/tmp/dir/file", "{word}");
        }
        let both = home.with_scratch(file::directory(&dir.path().join("scratch")).unwrap());
        for word in [
            "/tmp",
            "/tmp/file",
            "/tmp/new",
            "/tmp/dir/new",
            "/tmp//dir/./new",
            "--out=/tmp/new",
            "/tmp/home/x",
        ] {
            assert!(within(&both, word), "{word}");
        }
        for word in [
            "/tmp/none/file",
            "/tmp/link/passwd",
            "/tmp/link",
            "/tmp/../etc",
            "/tmpfile",
            "/tmp/dir/../../etc",
        ] {
            assert!(!within(&both, word), "{word}");
        }
    }
}
