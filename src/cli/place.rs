//! A path as an operator types it: in the home, or on this machine below the home or the store.
//!
//! With a slash before it, it counts from the root of the store; where it leads through the home or the store by its path on this
//! machine, from there. Without, from TARGET: the root of a store or a home, or a directory in a home. `home/f`, with `home` as
//! TARGET, is `f`, unless the home has a `home` of its own.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::name::WorldPath;
use crate::operator::Store;

/// Understands a path in the home that TARGET stands for.
///
/// # Errors
/// [`Error::Missing`] for what cannot be one.
pub(super) fn in_home(
    target: &Path,
    store_path: &Path,
    store: &Store,
    path: &OsStr,
) -> Result<WorldPath> {
    let at = Path::new(path);
    let home = home_of(store);
    // The home's own path is not resolved: it may be dead, and is as the daemon resolved it.
    let tops: Vec<PathBuf> = home
        .into_iter()
        .chain(std::fs::canonicalize(store_path))
        .collect();
    let in_tops = |path: &Path| tops.iter().find_map(|top| below(path, top));
    if at.is_absolute() {
        let inside = in_tops(at);
        return parse(inside.as_deref().unwrap_or(at));
    }
    // A directory in a home is where its paths count from.
    let resolved = std::fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
    let from = in_tops(&resolved).unwrap_or_default();
    let as_typed = parse(&from.join(at))?;
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let typed = absolute(at);
    let inside = below(&typed, &resolved).or_else(|| below(&typed, &absolute(target)));
    let first = at.components().next().map(|first| from.join(first));
    let first = first.as_deref().map(parse).transpose()?;
    let is_there = |path: &WorldPath| {
        let parent = path.parent().and_then(|dir| store.root().dir(&dir).ok());
        matches!((parent, path.name()), (Some(dir), Some(name)) if dir.stat(name).is_ok())
    };
    match inside {
        Some(inside) if !first.as_ref().is_some_and(is_there) => parse(&from.join(inside)),
        _ => Ok(as_typed),
    }
}

/// Where the store is mounted, as far as it is.
fn home_of(store: &Store) -> Option<PathBuf> {
    let home = store.holder().ok()??.home?;
    let home = crate::name::unescape(&home)?;
    store
        .is_served()
        .ok()?
        .then(|| PathBuf::from(std::ffi::OsString::from_vec(home)))
}

/// What is left of a path below another one; nothing for that path itself.
fn below(path: &Path, top: &Path) -> Option<PathBuf> {
    path.strip_prefix(top).ok().map(Path::to_owned)
}

fn parse(path: &Path) -> Result<WorldPath> {
    WorldPath::parse(path.as_os_str().as_bytes()).map_err(|_| Error::Missing {
        what: format!("{}: not a path in a home", path.display()),
        remedy: "Give it as it is seen in the home, such as /src/main.rs, without `..`.".to_owned(),
    })
}
