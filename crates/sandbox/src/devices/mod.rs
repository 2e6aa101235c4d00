//! Devices of the machine for an agent: nodes by their paths, and what files of the Container Device Interface say of
//! them.
//!
//! A device works as for the agent's user outside: the node is the host's, with its owner and mode.

mod cdi;
mod node;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};

use super::layout::is_shown;
use super::plan::{PlacedKind, PlacedMount};
use cdi::{CdiEdits, CdiMount};
use node::{node_paths, open_node};

/// The directories of the machine's files of the Container Device Interface.
pub const CDI_DIRS: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// Some devices, and what belongs to them.
#[derive(Debug, Default)]
pub struct DeviceAccess {
    /// The nodes and files that are shown at paths of their own.
    pub placed: Vec<PlacedMount>,
    /// Files and directories that are shown at their own paths.
    pub bind_ro: Vec<PathBuf>,
    /// Variables.
    pub env: Vec<(OsString, OsString)>,
    /// The parts of files that are not done, in words.
    pub left_out: Vec<String>,
}

impl DeviceAccess {
    /// Finds devices: paths, and names as `vendor.com/class=name`.
    ///
    /// # Errors
    /// In words: one that is not there, or may not be shown.
    pub fn find(asked: &[OsString], cdi_dirs: &[PathBuf]) -> Result<DeviceAccess, String> {
        let mut access = DeviceAccess::default();
        for device in asked {
            let path = Path::new(device);
            if path.is_absolute() {
                for path in node_paths(path)? {
                    access.add_node(&path, &path, None)?;
                }
                continue;
            }
            let name = device.to_str().filter(|name| name.contains('='));
            let name = name.ok_or_else(|| {
                let device = device.display();
                format!("{device}: give a path below /dev, or a name like vendor.com/class=name")
            })?;
            access.add_edits(name, cdi::find(name, cdi_dirs)?)?;
        }
        Ok(access)
    }

    fn add_node(
        &mut self,
        host: &Path,
        path: &Path,
        numbers: Option<(u32, u32)>,
    ) -> Result<(), String> {
        let node = open_node(host)?;
        if numbers.is_some_and(|numbers| numbers != node.numbers) {
            return Err(format!(
                "{}: it is another device than the file says",
                host.display()
            ));
        }
        if !self.placed.iter().any(|placed| placed.path == path) {
            self.placed.push(PlacedMount {
                source: node.fd,
                path: path.to_owned(),
                kind: PlacedKind::Device,
            });
        }
        Ok(())
    }

    fn add_edits(&mut self, name: &str, edits: CdiEdits) -> Result<(), String> {
        for node in &edits.nodes {
            self.add_node(&node.host, &node.path, node.numbers)?;
        }
        let mut left_out = edits.left_out;
        for mount in edits.mounts {
            left_out.extend(self.add_mount(mount));
        }
        for (name, value) in edits.env {
            self.env.retain(|(known, _)| *known != *name);
            self.env.push((name.into(), value.into()));
        }
        left_out.dedup();
        let left_out = left_out.into_iter();
        self.left_out
            .extend(left_out.map(|what| format!("{name}: {what}")));
        Ok(())
    }

    /// Shows a file or directory. Returns what it is, if it is not shown.
    fn add_mount(&mut self, CdiMount { host, path }: CdiMount) -> Option<String> {
        let meta = match std::fs::metadata(&host) {
            Ok(meta) => meta,
            Err(error) => return Some(format!("{}: {error}", host.display())),
        };
        let is_plain = !path
            .components()
            .any(|part| part.as_os_str() == OsStr::new(".."));
        if host == path && is_plain && (meta.is_file() || meta.is_dir()) {
            if !is_shown(&path) {
                self.bind_ro.push(path);
            }
            return None;
        }
        // In system software there is a place only where the host has something.
        if !meta.is_file() || !is_plain || is_shown(&path) && !path.is_file() {
            return Some(format!(
                "the mount of {} at {}",
                host.display(),
                path.display()
            ));
        }
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        match rustix::fs::openat(CWD, &host, flags, Mode::empty()) {
            Ok(source) => {
                let kind = PlacedKind::ReadOnly;
                self.placed.push(PlacedMount { source, path, kind });
                None
            }
            Err(errno) => Some(format!("{}: {errno}", host.display())),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn file_says_what_belongs_to_a_device() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("lib");
        std::fs::write(&file, "").unwrap();
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let (file, socket) = (file.display(), socket.display());
        let spec = format!(
            "---\ncdiVersion: 0.6.0\nkind: example.com/gpu\ncontainerEdits:\n  env: [ALL=1]\ndevices:\n- name: \"0\"\n- name: all\n  containerEdits:\n    env:\n    - ONE=2=3\n    additionalGids: [44]\n    mounts:\n    - {{hostPath: {file}, containerPath: {file}, options: [ro]}}\n    - {{hostPath: {file}, containerPath: /opt/lib}}\n    - {{hostPath: {socket}, containerPath: {socket}}}\n    - {{hostPath: {file}, containerPath: /usr/lib/no-such-file}}\n    hooks:\n    - {{hookName: createContainer, path: /usr/bin/hook}}\n"
        );
        std::fs::write(dir.path().join("x.yaml"), spec).unwrap();
        let dirs = [dir.path().join("none"), dir.path().to_owned()];
        let find = |name: &str| DeviceAccess::find(&[name.into()], &dirs);
        let access = find("example.com/gpu=all").unwrap();
        let env: Vec<_> = access
            .env
            .iter()
            .map(|(name, value)| (name.to_str(), value.to_str()))
            .collect();
        assert_eq!(env, [(Some("ALL"), Some("1")), (Some("ONE"), Some("2=3"))]);
        assert_eq!(access.bind_ro, [PathBuf::from(file.to_string())]);
        let placed: Vec<_> = access.placed.iter().map(|one| one.path.to_str()).collect();
        assert_eq!(placed, [Some("/opt/lib")]);
        let left_out = access.left_out.join("\n");
        for part in [
            "the hook createContainer /usr/bin/hook",
            "`additionalGids`",
            "socket",
            "no-such-file",
        ] {
            assert!(left_out.contains(part), "{part}: {left_out}");
        }
        assert_eq!(access.left_out.len(), 4, "{left_out}");
        assert!(
            find("example.com/gpu=1")
                .unwrap_err()
                .contains("example.com/gpu=all")
        );
        assert!(
            find("example.com/other=1")
                .unwrap_err()
                .contains("no file in")
        );
        assert!(
            find("example.com/gpu")
                .unwrap_err()
                .contains("a path below /dev")
        );
        std::fs::write(dir.path().join("w.json"), "{").unwrap();
        assert!(find("example.com/gpu=all").unwrap_err().contains("w.json"));
    }

    #[test]
    fn disks_and_files_are_no_devices_to_show() {
        for (path, part) in [
            ("/etc/passwd", "no device"),
            ("/dev/null", "memory"),
            ("/none", "No such file"),
        ] {
            let why = DeviceAccess::find(&[path.into()], &[]).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
