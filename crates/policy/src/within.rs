//! The check that the files that a word names lie in the home: [`HomeBounds`].
//!
//! A word may name a file in more than one way (`--output=../x`, `HEAD:../x`, `file:///x`, `@/x`), and which one a
//! program takes is its affair. So all of them are looked at, and one that leads out is enough. This says what is
//! meant; what a program can reach is the sandbox's business.

use super::question::{PathPlace, PathResolver, climbs_out};
use super::verdict::{CommandRefusal, RefusalClass};
use super::words::shown;
use trumanfs_types::name::WorldPath;

/// The one file outside the home that every program may name: it holds nothing.
const NOTHING: &[u8] = b"/dev/null";

/// The directory of a session that lies outside its home, as a program sees it.
const SCRATCH: &[u8] = b"/tmp";

/// Resolves what words name.
#[derive(Clone, Copy)]
pub(super) struct HomeBounds<'q> {
    pub(super) home: &'q [u8],
    pub(super) cwd: &'q WorldPath,
    pub(super) paths: &'q dyn PathResolver,
}

impl HomeBounds<'_> {
    /// Returns where a path leads.
    pub(super) fn place(&self, path: &[u8]) -> PathPlace {
        if path == NOTHING {
            return PathPlace::Inside;
        }
        if path.starts_with(b"/") {
            let root = WorldPath::root();
            return match (self.below_home(path), below(SCRATCH, path)) {
                (Some(rest), _) => self.resolve(&root, &rest),
                (None, Some(rest)) if !climbs_out(&root, &rest) => self.paths.scratch(&rest),
                _ => PathPlace::Outside,
            };
        }
        self.resolve(self.cwd, path)
    }

    fn resolve(&self, from: &WorldPath, path: &[u8]) -> PathPlace {
        match climbs_out(from, path) {
            true => PathPlace::Outside,
            false => self.paths.resolve(from, path),
        }
    }

    /// Returns the rest of an absolute path that begins with the home's.
    pub(super) fn below_home(&self, path: &[u8]) -> Option<Vec<u8>> {
        below(self.home, path)
    }

    /// Checks a word that may name a file.
    ///
    /// # Errors
    /// The path that it names lies outside the home.
    pub(super) fn check(&self, word: &[u8]) -> Result<(), CommandRefusal> {
        match self.leads_out(word) {
            false => Ok(()),
            true => Err(self.outside(word)),
        }
    }

    /// Checks a word for a program whose flags nobody here knows: a value may follow a flag's letter directly, as in
    /// `-o../x`.
    ///
    /// # Errors
    /// The path that it names lies outside the home.
    pub(super) fn check_unknown(&self, word: &[u8]) -> Result<(), CommandRefusal> {
        self.check(word)?;
        match word {
            [b'-', letter, value @ ..] if letter.is_ascii_alphanumeric() => self.check(value),
            _ => Ok(()),
        }
    }

    /// Returns the refusal of a word that names something outside.
    pub(super) fn outside(&self, word: &[u8]) -> CommandRefusal {
        let home = trumanfs_types::name::escape(self.home);
        let reason = format!(
            "{} names something outside the home; name what lies in {home}, relative to the working directory or by its absolute path",
            shown(word)
        );
        CommandRefusal::new(RefusalClass::Path, "paths.outside", reason)
    }

    /// Returns whether anything that a word may name lies outside the home.
    pub(super) fn leads_out(&self, word: &[u8]) -> bool {
        let mut rest = word;
        loop {
            let separators: &[u8] = match url(rest) {
                Some((scheme, path)) if is_of_files(scheme) => {
                    return self.file_url_leads_out(path);
                }
                // Whatever stands in a URL is the host's affair; another word may follow in a list.
                Some(_) => b",",
                None if self.path_leads_out(rest) => return true,
                None => b"=:,@",
            };
            let Some(at) = rest.iter().position(|b| separators.contains(b)) else {
                return false;
            };
            rest = rest.get(at + 1..).unwrap_or_default();
        }
    }

    fn path_leads_out(&self, path: &[u8]) -> bool {
        self.tilde_leads_out(path) || self.place(path) == PathPlace::Outside
    }

    /// Programs that expand `~` themselves find the home there; `~user` is the home of somebody else.
    fn tilde_leads_out(&self, path: &[u8]) -> bool {
        let Some(rest) = path.strip_prefix(b"~") else {
            return false;
        };
        match rest.first() {
            Some(b'/') => {
                self.resolve(&WorldPath::root(), rest.get(1..).unwrap_or_default())
                    == PathPlace::Outside
            }
            Some(first) => first.is_ascii_alphabetic() || *first == b'_' || *first == b'+',
            None => false,
        }
    }

    /// `rest` is what follows `file://`: a host, mostly empty, and a path.
    fn file_url_leads_out(&self, rest: &[u8]) -> bool {
        let path = rest.iter().position(|b| *b == b'/');
        let path = path.and_then(|at| rest.get(at..)).unwrap_or_default();
        // Written with percent signs, a path can name anything.
        path.is_empty() || path.contains(&b'%') || self.place(path) == PathPlace::Outside
    }
}

/// Returns the rest of an absolute path that begins with a directory's.
fn below(dir: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    let parts = |path: &[u8]| -> Vec<Vec<u8>> {
        let named = path.split(|b| *b == b'/');
        let named = named.filter(|part| !matches!(*part, b"" | b"."));
        named.map(<[u8]>::to_vec).collect()
    };
    let (path, dir) = (parts(path), parts(dir));
    Some(path.strip_prefix(dir.as_slice())?.join(&b'/'))
}

/// Returns whether URLs of a scheme name files of this machine: `file`, and pip's and npm's `git+file`.
fn is_of_files(scheme: &[u8]) -> bool {
    let last = scheme.rsplit(|b| *b == b'+').next();
    last.is_some_and(|last| last.eq_ignore_ascii_case(b"file"))
}

/// Returns the scheme of a URL and what follows `://`.
pub(super) fn url(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = word.windows(3).position(|three| three == b"://")?;
    let (scheme, rest) = (word.get(..at)?, word.get(at + 3..)?);
    let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    is_scheme.then_some((scheme, rest))
}

#[cfg(test)]
mod tests {
    use super::super::question::TextPaths;
    use super::*;

    fn in_home(cwd: &WorldPath) -> HomeBounds<'_> {
        HomeBounds {
            home: b"/home/agent",
            cwd,
            paths: &TextPaths,
        }
    }

    /// Schemes that name files of this machine, and what follows a URL in a list.
    #[test]
    fn urls_of_files_are_paths() {
        let cwd = WorldPath::parse(b"src/app").unwrap_or_default();
        let within = in_home(&cwd);
        for word in [
            "git+file:///etc/x",
            "hg+FILE://localhost/etc",
            "x@git+file:///etc/x",
            "x @ git+file:///etc/x",
            "x=git+file:///etc",
            "https://example.org,file:///etc",
            "https://example.org,/etc",
            "git+file:/etc",
        ] {
            assert!(within.leads_out(word.as_bytes()), "{word}");
        }
        for word in [
            "git+https://example.org/../x",
            "git+file:///home/agent/x",
            "https://example.org:443/etc?x=/etc",
            "https://example.org,x",
        ] {
            assert!(!within.leads_out(word.as_bytes()), "{word}");
        }
    }

    #[test]
    fn a_value_may_follow_the_letter_of_an_unknown_flag() {
        let cwd = WorldPath::parse(b"src/app").unwrap_or_default();
        let within = in_home(&cwd);
        for word in [
            "-r/etc/x",
            "-o../../../x",
            "-o/home/agent/../x",
            "-o=/etc/x",
            "-ffile:///etc",
            "-c~root/x",
            "/etc/x",
        ] {
            assert!(within.check_unknown(word.as_bytes()).is_err(), "{word}");
        }
        for word in [
            "-",
            "--",
            "-o",
            "-vv",
            "-O2",
            "-osrc/x",
            "-o/home/agent/x",
            "-o/tmp/x",
            "-o../x",
            "--o/etc",
            // A value that begins with `o`, though it may be two flags: docs/POLICY.md says so.
            "-xo/etc",
        ] {
            assert!(within.check_unknown(word.as_bytes()).is_ok(), "{word}");
        }
    }

    #[test]
    fn what_leads_out_is_seen_in_every_spelling() {
        let cwd = WorldPath::parse(b"src/app").unwrap_or_default();
        let within = in_home(&cwd);
        for word in [
            "/etc/passwd",
            "../../../x",
            "..//../..",
            "a/../../../../x",
            "missing/../../../../etc",
            "/home/agent/../other",
            "/home/agents",
            "/home",
            "/",
            "//etc",
            "~root/x",
            "~root",
            "~/../x",
            "file:///etc/passwd",
            "file://localhost/etc",
            "FILE:///etc",
            "file://%2fetc",
            "x=/etc",
            "-I/etc",
            "KEY=../../../x",
            "a,/etc",
            "@/etc/passwd",
            "HEAD:../../../x",
            "a:b:/etc",
            "url=file:///etc",
            "/dev/null/..",
            "/dev/sda",
            "./../../../x",
            "a=./../../..",
        ] {
            // `-I/etc` is taken apart by whoever knows the flag; as a word it is a relative name.
            let expected = word != "-I/etc";
            assert_eq!(within.leads_out(word.as_bytes()), expected, "{word}");
        }
        for word in [
            "",
            ".",
            "..",
            "../..",
            "a/b",
            "/home/agent",
            "/home/agent/x",
            "/home//agent/./x",
            "~",
            "~/x",
            "HEAD~3",
            "@{-1}",
            "main..dev",
            "..HEAD",
            "a...b",
            "https://example.org/../x",
            "git@example.org:a/b.git",
            "@types/node",
            "--x=https://a/b",
            "a.py::t[x]",
            "/dev/null",
            "file:///home/agent/x",
            "12:30",
            "~3",
            "*.rs",
            "HEAD:../x",
        ] {
            assert!(!within.leads_out(word.as_bytes()), "{word}");
        }
    }
}
