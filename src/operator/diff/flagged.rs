//! Changed paths that their owner should look at before anything else, because something outside the home acts on them.
//!
//! Owns what is flagged and why. By path, in any directory that git takes for a repository (`.git`, or one with `HEAD`
//! beside): hooks, those of `core.hooksPath` included, configuration, attributes with drivers, what leads git to
//! another directory; and links that lead out (`outward_links`). Git runs programs that these name, fsmonitor and filters among them, as the owner who types
//! `git status`. What was removed is not flagged.

use std::collections::{BTreeMap, BTreeSet};

use super::{ChangeStatus, Diff, NodeBytes, TextPair};
use crate::error::Result;
use crate::name::{Name, WorldPath};

/// The largest configuration that is read for `core.hooksPath`.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Why a changed path is flagged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathFlag {
    /// Git runs it, or programs that it names, on the host.
    RunsOnHost,
    /// A link leads out of the project there, or one below a directory that was moved.
    LeadsOut,
}

impl PathFlag {
    /// Returns the flag in words.
    pub fn words(self) -> &'static str {
        match self {
            PathFlag::RunsOnHost => "runs on your machine",
            PathFlag::LeadsOut => "leads out of the project",
        }
    }
}

impl Diff<'_> {
    /// Finds the flagged differences, by their place in the order.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub fn flags(&self) -> Result<BTreeMap<usize, PathFlag>> {
        let hook_dirs = self.hook_dirs()?;
        let mut flags = BTreeMap::new();
        for (number, status) in self.statuses().enumerate() {
            let Some((_, path)) = self.nth_path(number) else {
                continue;
            };
            if status == ChangeStatus::Removed {
                continue;
            }
            let is_hook = hook_dirs.iter().any(|dir| dir.contains(&path));
            if is_hook || self.runs_on_host(number, status, &path)? {
                flags.insert(number, PathFlag::RunsOnHost);
            } else if self.leads_out(number, &path)? {
                flags.insert(number, PathFlag::LeadsOut);
            }
        }
        Ok(flags)
    }

    fn runs_on_host(&self, number: usize, status: ChangeStatus, path: &WorldPath) -> Result<bool> {
        let Some(name) = path.name().map(Name::bytes) else {
            return Ok(false);
        };
        match name {
            b".git" => {
                // A file or link leads git to another directory. A repository that moved brings what it had.
                let is_dir = self
                    .nth(number)?
                    .and_then(|change| change.after)
                    .is_some_and(|side| side.is_dir());
                Ok(!is_dir || status == ChangeStatus::Renamed)
            }
            b".gitattributes" => self.has_new_driver(number),
            _ => {
                let is_moved = status == ChangeStatus::Renamed;
                let Some(at) = git_dir_of(path, is_moved) else {
                    return Ok(false);
                };
                Ok(is_named_git(&at) || self.is_git_dir(&at)?)
            }
        }
    }

    /// Returns whether a directory has what git looks for in a repository.
    fn is_git_dir(&self, at: &WorldPath) -> Result<bool> {
        let mut head = at.clone();
        head.push(Name::new(b"HEAD")?);
        Ok(self.after.resolve(&head)?.is_some())
    }

    /// Returns whether an attributes file names a driver in a line that it did not have.
    fn has_new_driver(&self, number: usize) -> Result<bool> {
        let Some(change) = self.nth(number)? else {
            return Ok(false);
        };
        let Ok(TextPair::Text(before, after)) = self.texts(&change) else {
            return Ok(true);
        };
        let drivers = |text: &[u8]| -> BTreeSet<Vec<u8>> {
            let lines = text.split(|byte| *byte == b'\n');
            let has_driver = |line: &&[u8]| {
                [&b"filter="[..], b"diff=", b"merge="]
                    .iter()
                    .any(|word| memchr::memmem::find(line, word).is_some())
            };
            lines.filter(has_driver).map(<[u8]>::to_vec).collect()
        };
        Ok(!drivers(&after).is_subset(&drivers(&before)))
    }

    /// Finds the directories of hooks that repositories' configurations name: of the store's own one, and of those that
    /// changed.
    fn hook_dirs(&self) -> Result<Vec<WorldPath>> {
        let mut configs = BTreeSet::from([WorldPath::parse(b"/.git/config")?]);
        let changed = self.paths().map(|(_, path)| path);
        configs.extend(changed.filter(|path| path.bytes().ends_with(b"/.git/config")));
        let mut dirs = Vec::new();
        for config in configs {
            let top = config.parent().and_then(|git| git.parent());
            let text = NodeBytes::read_small(&self.after, &config, MAX_CONFIG_BYTES)?;
            for path in hooks_paths(&text) {
                let top = top.as_ref().map_or(&b""[..], WorldPath::bytes);
                // One outside the store cannot be changed from the home.
                dirs.extend(WorldPath::parse(&[top, b"/", &path].concat()).ok());
            }
        }
        Ok(dirs)
    }
}

/// Returns the git directory in which a path would have git run something.
fn git_dir_of(path: &WorldPath, is_moved: bool) -> Option<WorldPath> {
    let dir = path.parent()?;
    let name = path.name()?.bytes();
    match name {
        b"config" | b"config.worktree" | b"commondir" => return Some(dir),
        // A moved directory is listed alone.
        b"hooks" | b"info" if is_moved => return Some(dir),
        b"modules" | b"worktrees" if is_moved && is_named_git(&dir) => return Some(dir),
        b"attributes" if dir.name().map(Name::bytes) == Some(b"info") => return dir.parent(),
        _ if name.ends_with(b".sample") => return None,
        _ => {}
    }
    let mut at = dir;
    while !at.is_root() {
        let above = at.parent()?;
        if at.name().map(Name::bytes) == Some(b"hooks") {
            return Some(above);
        }
        at = above;
    }
    None
}

/// Returns whether a directory is `.git`, or the one of a submodule or a linked worktree in it; branches and objects
/// are not.
fn is_named_git(dir: &WorldPath) -> bool {
    let mut parts = dir.components().map(Name::bytes);
    let is_git = parts.by_ref().any(|part| part == b".git");
    is_git && matches!(parts.next(), None | Some(b"modules" | b"worktrees"))
}

/// Returns the values of `core.hooksPath` in a configuration (`git-config(1)`), of any section: one too many is only
/// looked at.
fn hooks_paths(config: &[u8]) -> Vec<Vec<u8>> {
    const KEY: &[u8] = b"hookspath";
    let lower = config.to_ascii_lowercase();
    let found = memchr::memmem::find_iter(&lower, KEY);
    let values = found.filter_map(|at| {
        let rest = config.get(at + KEY.len()..)?.trim_ascii_start();
        let value = rest.strip_prefix(b"=")?;
        let line = value.split(|byte| *byte == b'\n').next()?.trim_ascii();
        let value = line.strip_prefix(b"\"").unwrap_or(line);
        let value = value
            .split(|byte| matches!(byte, b'"' | b'#' | b';'))
            .next();
        let value = value?.trim_ascii();
        let is_below = !value.is_empty() && !value.starts_with(b"/") && !value.starts_with(b"~");
        is_below.then(|| value.strip_prefix(b"./").unwrap_or(value).to_vec())
    });
    values.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn is_flagged(path: &str, is_moved: bool) -> bool {
        let path = WorldPath::parse(path.as_bytes()).unwrap();
        git_dir_of(&path, is_moved).is_some_and(|dir| is_named_git(&dir))
    }

    #[test]
    fn paths_that_git_runs() {
        for path in [
            "/.git/config",
            "/.git/hooks/pre-commit",
            "/.git/hooks/dir/helper",
            "/.git/info/attributes",
            "/.git/commondir",
            "/a/.git/hooks/post-checkout",
            "/.git/modules/lib/config",
            "/.git/modules/a/b/hooks/pre-push",
            "/.git/worktrees/w/config.worktree",
            "/.git/worktrees/w/commondir",
        ] {
            assert!(is_flagged(path, false), "{path}");
        }
        for path in [
            "/.git/hooks/pre-commit.sample",
            "/.git/refs/heads/hooks/mine",
            "/.git/refs/heads/config",
            "/.git/logs/refs/heads/hooks/mine",
            "/.git/index",
            "/.git/info/exclude",
            "/.git/HEAD",
            "/src/config",
            "/src/hooks/use.ts",
        ] {
            assert!(!is_flagged(path, false), "{path}");
        }
        assert!(is_flagged("/.git/hooks", true));
        assert!(!is_flagged("/.git/hooks", false));
    }

    #[test]
    fn hooks_paths_of_configurations() {
        let of = |text: &str| -> Vec<String> {
            let found = hooks_paths(text.as_bytes());
            let texts = found
                .into_iter()
                .map(|path| String::from_utf8(path).unwrap());
            texts.collect()
        };
        assert_eq!(of("[core]\n\thooksPath = .husky\n"), [".husky"]);
        assert_eq!(of("[core] HOOKSPATH=\"./a b\" # x\n"), ["a b"]);
        assert_eq!(of("[core]\n\thooksPath = /usr/share\n"), [""; 0]);
        assert_eq!(of("[core]\n\thooksPathology\n"), [""; 0]);
    }
}
