//! Paths of inputs and leases: absolute and canonical as they are written, and never made so here.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::strict::Malformed;

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
    pub fn parse(text: &str) -> Result<AbsolutePath, Malformed> {
        let bad = |why: &str| Err(Malformed::new(format!("path {text:?} {why}")));
        if text.len() > 4096 {
            return Err(Malformed::new(format!(
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
    type Error = Malformed;

    fn try_from(text: String) -> Result<AbsolutePath, Malformed> {
        AbsolutePath::parse(&text)
    }
}
