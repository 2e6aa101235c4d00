//! Paths of inputs and leases: absolute and canonical as they are written, and never made so here.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::strict::FormatError;

/// An absolute path in UTF-8: at most 4096 bytes, components of at most 255, without `//`, `.`, `..`, NUL, or a slash
/// at its end. It is no claim that anything is there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct AbsolutePath(String);

impl AbsolutePath {
    /// Reads a path.
    ///
    /// # Errors
    /// It is not as the type says.
    pub fn parse(text: &str) -> Result<AbsolutePath, FormatError> {
        let bad = |why: &str| Err(FormatError::new(format!("a path {why}: {text:?}")));
        if text.len() > 4096 {
            return Err(FormatError::new(format!(
                "a path of {} bytes, more than 4096",
                text.len()
            )));
        }
        let Some(below) = text.strip_prefix('/') else {
            return bad("is not absolute");
        };
        if text.contains('\0') {
            return bad("has a NUL");
        }
        for component in below.split('/') {
            match component {
                "" if below.ends_with('/') || below.is_empty() => return bad("ends with a slash"),
                "" => return bad("has two slashes in a row"),
                "." => return bad("has the component `.`"),
                ".." => return bad("has the component `..`"),
                long if long.len() > 255 => return bad("has a component of more than 255 bytes"),
                _ => {}
            }
        }
        Ok(AbsolutePath(text.to_owned()))
    }

    /// Returns the path as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the path for system calls.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// Returns what follows `base` and a slash, where the path lies below it; the base itself does not.
    pub fn below(&self, base: &Path) -> Option<&str> {
        let rest = self.0.strip_prefix(base.to_str()?)?;
        rest.strip_prefix('/').filter(|rest| !rest.is_empty())
    }
}

impl From<AbsolutePath> for String {
    fn from(path: AbsolutePath) -> String {
        path.0
    }
}

impl TryFrom<String> for AbsolutePath {
    type Error = FormatError;

    fn try_from(text: String) -> Result<AbsolutePath, FormatError> {
        AbsolutePath::parse(&text)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_canonical_as_they_are_written() {
        for path in [
            "/a",
            "/a/b c/ä",
            "/...",
            "/a/..b/.c",
            &format!("/{}", "x".repeat(255)),
        ] {
            assert_eq!(AbsolutePath::parse(path).unwrap().as_str(), path);
        }
        let long = format!("/{}", "x/".repeat(2050)) + "y";
        for (path, why) in [
            ("", "not absolute"),
            ("a/b", "not absolute"),
            ("./a", "not absolute"),
            ("/", "ends with a slash"),
            ("/a/", "ends with a slash"),
            ("//a", "two slashes"),
            ("/a//b", "two slashes"),
            ("/a/./b", "`.`"),
            ("/a/.", "`.`"),
            ("/../a", "`..`"),
            ("/a/..", "`..`"),
            ("/a/../b", "`..`"),
            ("/a\0b", "NUL"),
            (&format!("/{}", "x".repeat(256)), "255"),
            (&long, "4096"),
        ] {
            let told = AbsolutePath::parse(path).unwrap_err().to_string();
            assert!(told.contains(why), "{path}: {told}");
        }
    }

    #[test]
    fn below_counts_components() {
        let path = AbsolutePath::parse("/work/home/a/b").unwrap();
        for (base, rest) in [
            ("/work/home", Some("a/b")),
            ("/work", Some("home/a/b")),
            ("/work/ho", None),
            ("/work/home/a/b", None),
            ("/work/home/a/b/c", None),
            ("/other", None),
        ] {
            assert_eq!(path.below(Path::new(base)), rest, "{base}");
        }
    }
}
