//! The facts about version managers: the file `agents/toolchains.json`.

use super::data_file;
use super::sandbox::VersionManager;
use crate::error::Result;

const FILE: &str = include_str!("../../../agents/toolchains.json");

/// Returns the version managers that are known.
///
/// # Errors
/// [`Error::Damaged`](crate::error::Error::Damaged) for a file that is not understood, which a test sees to.
pub fn version_managers() -> Result<Vec<VersionManager>> {
    data_file::parse("toolchains.json", FILE)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Component;

    use super::*;

    #[test]
    fn every_version_manager_shows_parts_of_its_directory() {
        for manager in version_managers().unwrap() {
            let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
            assert!(!manager.shown.is_empty(), "{}", manager.name);
            for path in manager.shown.iter().chain([&manager.usual]) {
                assert!(path.components().all(plain), "{}", manager.name);
            }
        }
    }
}
