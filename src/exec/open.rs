//! [`open`]: the place behind a path. Front ends do not choose between a mounted home and a store that nobody has mounted.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::home::Home;
use super::mounted_home::MountedHome;
use super::offline_home::OfflineHome;
use super::place::Place;
use crate::client::{self, Site};
use crate::error::{Error, Result};
use crate::world::ViewOptions;

/// How long other commands that work on a store are waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// What of a store exists and may be changed, where nobody has mounted it; a mounted home has its own say.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Patterns of what does not exist (gitignore syntax).
    pub hide: Vec<String>,
    /// Patterns of what cannot be changed.
    pub read_only: Vec<String>,
    /// How long other commands that work on the store are waited for.
    pub wait: Option<Duration>,
}

/// Opens a directory in a mounted home, or a store that nobody has mounted, as the root of what exists for an executor.
///
/// # Errors
/// As [`client::site`]; those of opening; [`Error::Refused`] where a mounted home is to be given another view than its own.
pub fn open(root: &Path, access: &Access) -> Result<Place> {
    let root = std::path::absolute(root).map_err(|error| Error::io("getcwd", &error))?;
    let home: Arc<dyn Home> = match client::site(&root)? {
        Site::Store => {
            let view = ViewOptions {
                hide: access.hide.clone(),
                read_only: access.read_only.clone(),
                ..ViewOptions::default()
            };
            let patience = access.wait.unwrap_or(PATIENCE);
            Arc::new(OfflineHome::with(&root, view, patience)?)
        }
        Site::Home => {
            if !access.hide.is_empty() || !access.read_only.is_empty() || access.wait.is_some() {
                return Err(Error::refused(
                    format!("{} lies in a mounted home", root.display()),
                    "What it hides and protects was said when it was mounted, and nobody has it alone: leave --hide, --read-only and --wait out.",
                ));
            }
            Arc::new(MountedHome::open(&root)?)
        }
    };
    Ok(Place::new(home, root.as_os_str().as_bytes(), None))
}
