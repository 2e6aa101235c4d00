//! Users' whole home directories. A store that one of them is, and that nobody serves, does not keep projects below it
//! from being stores.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::mounts::nesting;
use crate::sys::users;
use crate::world::store::layout::STATE;

/// Returns the home directories of this process's user and of `owner`, without links.
pub fn user_homes(owner: Option<u32>) -> Vec<PathBuf> {
    let of_process = std::env::var_os("HOME").map(PathBuf::from);
    let own = rustix::process::geteuid().as_raw();
    let users = [Some(own), owner].into_iter().flatten();
    let known = users.filter_map(users::home);
    let all = of_process.into_iter().chain(known);
    all.filter(|home| home.is_absolute() && home.parent().is_some())
        .map(|home| std::fs::canonicalize(&home).unwrap_or(home))
        .collect()
}

/// Checks that a directory, which is or is to become a store, is fit to be one.
///
/// # Errors
/// As [`nesting::check`].
pub fn expect_not_nested(store: &Path) -> Result<()> {
    let looked = std::fs::metadata(store);
    let owner = looked.ok().map(|meta| meta.uid());
    nesting::check(store, STATE, &user_homes(owner))
}
