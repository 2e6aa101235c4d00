//! The summary, in a record, of what was deleted for good because it was volatile.

use serde::{Deserialize, Serialize};

use crate::name::WorldPath;

/// The volatile things in one directory that a record names as gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolatileLoss {
    /// The uppermost directory, or the file itself, that a pattern names.
    pub dir: WorldPath,
    /// The number of files and directories, or of former contents.
    pub files: u64,
    /// Their bytes: of files in the trash on disk, of former contents by their size.
    pub bytes: u64,
}

impl VolatileLoss {
    /// Adds one thing to the summaries.
    pub fn add(losses: &mut Vec<VolatileLoss>, dir: WorldPath, bytes: u64) {
        match losses.iter_mut().find(|loss| loss.dir == dir) {
            Some(loss) => {
                loss.files += 1;
                loss.bytes += bytes;
            }
            None => losses.push(VolatileLoss {
                dir,
                files: 1,
                bytes,
            }),
        }
    }
}
