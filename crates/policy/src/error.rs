//! Errors in a policy file: [`PolicyError`], with the file, the line and the key.

use std::fmt;

/// Something in a policy file that cannot be used. Prints as `FILE:LINE: KEY: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1; nothing where the file as a whole cannot be read.
    pub line: Option<usize>,
    /// The key, with the keys above it: `git.subcommands.status.flags`.
    pub key: Option<String>,
    /// The mistake and its correction.
    pub message: String,
}

impl PolicyError {
    /// Returns the error of a file that cannot be read at all.
    pub fn whole(file: &str, message: impl Into<String>) -> PolicyError {
        PolicyError {
            file: file.to_owned(),
            line: None,
            key: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for PolicyError {}

/// Something in a policy file that can be used and is hardly meant. Prints as an error does, and says that it is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyWarning(pub PolicyError);

impl fmt::Display for PolicyWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut marked = self.0.clone();
        marked.message.insert_str(0, "warning: ");
        marked.fmt(f)
    }
}
