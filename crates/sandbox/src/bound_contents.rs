//! The sockets and state in a bound host path, beside its content: sockets of services, which no read-only mount
//! closes, and the state of stores, which shows what was removed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};

use super::error::{LaunchError, Step};
use super::layout::HostMount;
use trumanfs_mounts::table::mounts_of;

/// The most entries of a bound directory that are looked into.
const MAX_ENTRIES: usize = 10_000;

/// The findings in the bound paths.
#[derive(Debug, Default)]
pub(super) struct BoundContents {
    /// Directories that programs see empty.
    pub(super) hidden: Vec<PathBuf>,
    pub(super) warnings: Vec<String>,
}

impl BoundContents {
    /// Looks into what is shown, as far as somebody has listed it: `listed`. State is looked for at the root of each
    /// path, in the directories there, and where it is mounted under another path.
    ///
    /// # Errors
    /// A path lies in the state of a store.
    pub(super) fn look_into(
        shown: &[HostMount],
        listed: &[PathBuf],
        state_name: &[u8],
    ) -> Result<Self, LaunchError> {
        let mut found = Self::default();
        if listed.is_empty() {
            return Ok(found);
        }
        let table = table_of_sockets().unwrap_or_default();
        let mounted = mounts_of(state_name);
        for one in shown {
            let path = one.path.as_path();
            let is_state = path.iter().any(|name| name.as_bytes() == state_name);
            if is_state || mounted.iter().any(|state| path.starts_with(state)) {
                let why = format!(
                    "{}: it would show the state of a store, and what was removed there; list another path",
                    path.display()
                );
                return Err(LaunchError::refused(Step::Plan, why));
            }
            for socket in socket_paths(&table).filter(|socket| socket.starts_with(path)) {
                found.warnings.push(format!(
                    "bind_ro: {}: a service of this machine listens there, and programs can connect to it; list a path without it",
                    socket.display()
                ));
            }
            if one.is_dir {
                found.hide_state(path, state_name);
                let below = mounted.iter().filter(|state| state.starts_with(path));
                below.for_each(|state| found.hide(state.clone()));
            }
        }
        Ok(found)
    }

    fn hide_state(&mut self, path: &Path, state_name: &[u8]) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listing = rustix::fs::openat(CWD, path, flags, Mode::empty()).and_then(Dir::new);
        let below = listing.into_iter().flatten().flatten().take(MAX_ENTRIES);
        let below = below.map(|entry| path.join(OsStr::from_bytes(entry.file_name().to_bytes())));
        // The directory itself is among its entries.
        for state in below.map(|dir| dir.join(OsStr::from_bytes(state_name))) {
            let state: PathBuf = state.components().collect();
            if !state.iter().any(|name| name == "..") {
                self.hide(state);
            }
        }
    }

    /// Has programs see a directory empty, if it is one.
    fn hide(&mut self, state: PathBuf) {
        let stat = rustix::fs::statat(CWD, &state, AtFlags::SYMLINK_NOFOLLOW);
        let is_dir =
            stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
        if is_dir && !self.hidden.contains(&state) {
            self.warnings.push(format!(
                "bind_ro: {}: the state of a store, which programs see as an empty directory",
                state.display()
            ));
            self.hidden.push(state);
        }
    }
}

fn table_of_sockets() -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, "/proc/net/unix", flags, Mode::empty())?;
    let mut table = Vec::new();
    std::fs::File::from(file).read_to_end(&mut table)?;
    Ok(table)
}

/// Returns the paths that sockets of this network namespace have, by /proc/net/unix.
fn socket_paths(table: &[u8]) -> impl Iterator<Item = &Path> {
    table.split(|byte| *byte == b'\n').filter_map(|line| {
        let at = line.windows(2).position(|pair| pair == b" /")?;
        Some(Path::new(OsStr::from_bytes(line.get(at + 1..)?)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_sockets_are_read() {
        let table = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 12345 /run/a b.sock\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 12346\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 12347 @/abstract\n";
        let found: Vec<&Path> = socket_paths(table).collect();
        assert_eq!(found, [Path::new("/run/a b.sock")]);
    }
}
