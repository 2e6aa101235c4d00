//! The name that git gives to its user's commits, and what it ignores everywhere: an agent that works for the user
//! commits by the same name.
//!
//! Owns what of the user's configuration an agent gets, which is this alone: credential helpers, hooks and aliases are
//! programs of the user's. It is asked of git itself, which knows what includes what.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::agents::{AgentPlace, directory};
use crate::error::{Error, Result};

/// The largest file of patterns that is passed on, in bytes.
const MAX_IGNORE_BYTES: u64 = 1 << 20;

/// The keys that are asked for, as git writes them.
const WANTED: &str = r"^(user\.(name|email)|core\.excludesfile)$";

/// The file with patterns that git ignores everywhere, from `/etc`.
const IGNORE_FILE: &str = "gitignore";

/// The identity of the user that runs this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitIdentity {
    name: Option<String>,
    email: Option<String>,
    /// The content of the file of patterns that git ignores in all repositories.
    ignored: Option<Vec<u8>>,
}

impl GitIdentity {
    /// Asks git for the identity in a project: the user's configuration may depend on where that lies. What the project
    /// itself says is not asked for. Without git, or where it says nothing, there is none.
    #[must_use]
    pub fn of_user(project: &Path) -> GitIdentity {
        let Some(git) = find_git(project) else {
            return GitIdentity::default();
        };
        let output = Command::new(git)
            .args(["config", "--global", "--includes", "--null", "--get-regexp"])
            .arg(WANTED)
            .current_dir(project)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        let (mut identity, mut file) = (GitIdentity::default(), None);
        for (key, value) in pairs(&output.map(|output| output.stdout).unwrap_or_default()) {
            match key {
                "user.name" => identity.name = Some(value.to_owned()),
                "user.email" => identity.email = Some(value.to_owned()),
                _ => file = Some(value.to_owned()),
            }
        }
        identity.ignored = file
            .map_or_else(usual_ignore_file, |file| in_home(&file))
            .and_then(|file| read_patterns(&file));
        identity
    }

    /// Returns the text of a configuration file with it; `None` if git has no name for the user.
    fn config(&self) -> Option<String> {
        let mut text = String::from("[user]\n");
        for (key, value) in [("name", &self.name), ("email", &self.email)] {
            if let Some(value) = value {
                text.push_str(&format!("\t{key} = \"{}\"\n", quoted(value)));
            }
        }
        (self.name.is_some() || self.email.is_some()).then_some(text)
    }
}

impl GitIdentity {
    /// The variable by which git finds its configuration of the system, and its value for [`GitIdentity::etc_files`]: a git
    /// that was not packaged looks elsewhere.
    pub const SYSTEM_VARIABLE: (&str, &str) = ("GIT_CONFIG_SYSTEM", "/etc/gitconfig");

    /// Returns it as files of `/etc`, by their paths from there: git's configuration of the system, which that of a user and
    /// that of a repository come after.
    #[must_use]
    pub fn etc_files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut config = self.config().unwrap_or_default();
        let mut files = Vec::new();
        if let Some(ignored) = &self.ignored {
            config.push_str(&format!("[core]\n\texcludesFile = /etc/{IGNORE_FILE}\n"));
            files.push((PathBuf::from(IGNORE_FILE), ignored.clone()));
        }
        if !config.is_empty() {
            files.push((PathBuf::from("gitconfig"), config.into_bytes()));
        }
        files
    }
}

impl AgentPlace {
    /// Gives the agent a git configuration with an identity, in its own directory. What stayed there from an earlier run
    /// is left.
    ///
    /// # Errors
    /// Errors of `mkdir(2)`, `open(2)` and `write(2)`.
    pub fn give_git_identity(&self, identity: &GitIdentity) -> Result<()> {
        let config = identity.config().map(String::into_bytes);
        if config.is_none() && identity.ignored.is_none() {
            return Ok(());
        }
        // Of git's two places the one that what the agent itself configures, in ~/.gitconfig, comes after.
        let dir = directory(self.home().as_fd(), ".config", None)?;
        let dir = directory(dir.as_fd(), "git", None)?;
        for (name, content) in [("config", config), ("ignore", identity.ignored.clone())] {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mode = Mode::RUSR | Mode::WUSR;
            match content.map(|content| (rustix::fs::openat(&dir, name, flags, mode), content)) {
                None | Some((Err(Errno::EXIST), _)) => {}
                Some((Err(errno), _)) => return Err(Error::os("openat")(errno)),
                Some((Ok(file), content)) => File::from(file)
                    .write_all(&content)
                    .map_err(|error| Error::io("write", &error))?,
            }
        }
        Ok(())
    }
}

/// Finds git by PATH, but not in the project, where an agent may have put one.
fn find_git(project: &Path) -> Option<PathBuf> {
    let project = std::fs::canonicalize(project).ok()?;
    let path = std::env::var_os("PATH")?;
    let is_outside = |file: &PathBuf| {
        let real = file
            .parent()
            .and_then(|dir| std::fs::canonicalize(dir).ok());
        let real = real.zip(std::fs::canonicalize(file).ok());
        file.is_absolute()
            && real.is_some_and(|(dir, file)| {
                !dir.starts_with(&project) && !file.starts_with(&project)
            })
    };
    let mut files = std::env::split_paths(&path).map(|dir| dir.join("git"));
    files.find(|file| file.is_file() && is_outside(file))
}

/// Returns the keys and values in what `git config --null --get-regexp` prints.
fn pairs(printed: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let entries = printed.split(|byte| *byte == 0);
    entries.filter_map(|entry| std::str::from_utf8(entry).ok()?.split_once('\n'))
}

/// Writes a value for between double quotes (git-config(1), "Syntax").
fn quoted(value: &str) -> String {
    let mut text = String::new();
    for c in value.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            c if c.is_control() => {}
            c => text.push(c),
        }
    }
    text
}

/// Returns where the user's patterns are if no configuration says so (gitignore(5)).
fn usual_ignore_file() -> Option<PathBuf> {
    let config = std::env::var_os("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty());
    let config = config.map(PathBuf::from).or_else(|| in_home("~/.config"));
    config.map(|config| config.join("git/ignore"))
}

/// Returns the path that a value of git's stands for: `~/` is the user's home.
fn in_home(value: &str) -> Option<PathBuf> {
    match value.strip_prefix("~/") {
        Some(below) => std::env::home_dir().map(|home| home.join(below)),
        None => Path::new(value).is_absolute().then(|| value.into()),
    }
}

fn read_patterns(file: &Path) -> Option<Vec<u8>> {
    let file = File::open(file).ok()?;
    let is_small = file
        .metadata()
        .is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_IGNORE_BYTES);
    let mut content = Vec::new();
    let read = is_small.then(|| file.take(MAX_IGNORE_BYTES).read_to_end(&mut content))?;
    read.ok().map(|_| content)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Git reads what is written.
    #[test]
    fn a_name_with_odd_characters_is_read_as_it_is() {
        for name in ["Ada", "A \"B\" \\ C", " # ; ", "tab\there\nline", "Zoë ∂"] {
            let identity = GitIdentity {
                name: Some(name.to_owned()),
                ..GitIdentity::default()
            };
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("config");
            std::fs::write(&file, identity.config().unwrap()).unwrap();
            let mut git = Command::new("git");
            git.args(["config", "--null", "--file"]).arg(&file);
            let Ok(output) = git.arg("user.name").output() else {
                return;
            };
            let said = String::from_utf8(output.stdout).unwrap();
            assert_eq!(said.trim_end_matches('\0'), name);
        }
        assert_eq!(GitIdentity::default().config(), None);
    }
}
