//! The caches of agents: directories that the next agent of the same name finds as they were left, in whatever project,
//! and that are neither recorded nor undone.
//!
//! Owns where they lie: below the cache home of the agent's user, in directories of trumanfs's own. The user's own caches
//! are never among them, since what an agent writes must not be what its owner builds from.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use super::agents::{AgentPlace, directory};
use super::target::Client;
use crate::error::{Error, Result};
use crate::world::root::stat_fd;
use crate::world::store::place;

/// Caches by the name of the tool that has them: paths from the agent's own directory.
const NAMED: [(&str, &[&str]); 5] = [
    ("cargo", &[".cargo/registry", ".cargo/git"]),
    ("go", &["go/pkg/mod", ".cache/go-build"]),
    ("npm", &[".npm"]),
    ("pip", &[".cache/pip"]),
    ("uv", &[".cache/uv"]),
];

/// Returns the paths of a tool's caches from the agent's own directory, if the tool is known.
#[must_use]
pub fn caches_of_tool(name: &str) -> Option<&'static [&'static str]> {
    let mut named = NAMED.into_iter();
    named
        .find(|(tool, _)| *tool == name)
        .map(|(_, paths)| paths)
}

/// Returns the names of the tools whose caches are known.
pub fn tools_with_caches() -> impl Iterator<Item = &'static str> {
    NAMED.into_iter().map(|(tool, _)| tool)
}

impl Client {
    /// Opens the cache at a path from an agent's own directory, and makes that path there. `path` has plain names only;
    /// `stores` are those that the agent works in.
    ///
    /// # Errors
    /// [`Error::Refused`] where there is no cache home outside the stores; errors of making the directories.
    pub fn agent_cache(
        &self,
        agent: &AgentPlace,
        path: &Path,
        stores: &[&Path],
    ) -> Result<OwnedFd> {
        let store = stat_fd(self.root()?.as_fd())?;
        let cache = place::agent_cache((&store, stores), agent.name(), &key_of(path));
        let cache = cache.map_err(|error| {
            let why = error.full_message();
            let remedy =
                "Set XDG_CACHE_HOME to a directory of the agent's user, outside the stores.";
            Error::refused(
                format!(
                    "~/{}: there is no place for this cache: {why}",
                    path.display()
                ),
                remedy,
            )
        })?;
        let mut at =
            rustix::io::fcntl_dupfd_cloexec(agent.home(), 0).map_err(Error::os("fcntl"))?;
        for part in path.components() {
            if let Component::Normal(name) = part {
                at = directory(at.as_fd(), &name.to_string_lossy(), Some(agent.owner()))?;
            }
        }
        Ok(cache)
    }
}

/// Returns the name of the directory of a cache. One below another is a cache of its own.
fn key_of(path: &Path) -> String {
    let mut key = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => key.push(char::from(*byte)),
            b'.' if !key.is_empty() => key.push('.'),
            byte => key.push_str(&format!("%{byte:02X}")),
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_a_key_of_its_own() {
        let keys: Vec<String> = [".npm", "npm", "a/b", "a%2Fb", "..", "a.b"]
            .map(|path| key_of(Path::new(path)))
            .into();
        assert_eq!(keys, ["%2Enpm", "npm", "a%2Fb", "a%252Fb", "%2E.", "a.b"]);
    }
}
