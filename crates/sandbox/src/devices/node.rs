//! The nodes of devices that may be shown: those of which the kernel says that they are a processor for graphics,
//! computing or machines, a camera, sound, or the like.
//!
//! A list of what is harmless, not of what is harmful: most devices are a way to disks, memory, terminals or networks of
//! the machine, and new ones come with each kernel.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, major, minor};

/// The names of drivers in `/proc/devices` whose devices may be shown.
const DRIVERS: [&str; 17] = [
    "accel",
    "alsa",
    "dma_heap",
    "drm",
    "kfd",
    "media",
    "nvidia",
    "nvidia-caps",
    "nvidia-caps-imex-channels",
    "nvidia-frontend",
    "nvidia-modeset",
    "nvidia-nvlink",
    "nvidia-nvswitch",
    "nvidia-uvm",
    "ttyACM",
    "ttyUSB",
    "video4linux",
];

/// The names in `/proc/misc` of devices that may be shown.
const MISC_DEVICES: [&str; 5] = ["hw_random", "kvm", "nvidia-modeset", "sgx_enclave", "tun"];

/// The driver whose devices have names of their own in `/proc/misc`.
const MISC: u32 = 10;

/// The most nodes of a directory.
const MAX_NODES: usize = 256;

/// A node of a device.
#[derive(Debug)]
pub(super) struct DeviceNode {
    pub(super) fd: OwnedFd,
    pub(super) numbers: (u32, u32),
}

/// Opens a node, for its place alone.
///
/// # Errors
/// In words: it is not there, it is no device, or it may not be shown.
pub(super) fn open_node(path: &Path) -> Result<DeviceNode, String> {
    let failed = |errno| format!("{}: {errno}", path.display());
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(failed)?;
    let stat = rustix::fs::fstat(&fd).map_err(failed)?;
    let refuse = |why: &str| Err(format!("{}: {why}", path.display()));
    let numbers = (major(stat.st_rdev), minor(stat.st_rdev));
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice => {}
        FileType::BlockDevice => {
            return refuse(
                "a disk: who writes to it writes to its files, and nothing of that is recorded",
            );
        }
        _ => return refuse("it is no device"),
    }
    match refusal(numbers) {
        Some(why) => refuse(&why),
        None => Ok(DeviceNode { fd, numbers }),
    }
}

/// Returns the paths of the nodes that a path stands for: itself, or those in a directory.
///
/// # Errors
/// In words, why the directory cannot be read.
pub(super) fn node_paths(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |errno| format!("{}: {errno}", path.display());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(failed)?;
    let entries = Dir::new(dir).map_err(failed)?.flatten();
    let is_node = |kind| matches!(kind, FileType::CharacterDevice | FileType::BlockDevice);
    let nodes = entries.filter(|entry| is_node(entry.file_type()));
    let name = |bytes: &[u8]| {
        path.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes))
    };
    let mut paths: Vec<PathBuf> = nodes
        .map(|entry| name(entry.file_name().to_bytes()))
        .take(MAX_NODES)
        .collect();
    paths.sort();
    match paths.is_empty() {
        true => Err(format!("{}: no device lies there", path.display())),
        false => Ok(paths),
    }
}

/// Returns why a character device may not be shown.
fn refusal((major, minor): (u32, u32)) -> Option<String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let (names, known): (Vec<String>, &[&str]) = if major == MISC {
        (names_of(&read("/proc/misc"), minor), &MISC_DEVICES)
    } else {
        (drivers_of(&read("/proc/devices"), major), &DRIVERS)
    };
    let is_known = |name: &String| known.contains(&name.as_str());
    if !names.is_empty() && names.iter().all(is_known) {
        return None;
    }
    let name = names.first().map_or("unknown", String::as_str);
    let why = match name {
        "mem" => "the memory or the log of the machine".to_owned(),
        "fuse" | "autofs" => {
            "what mounts file systems would mount them over the sandbox's".to_owned()
        }
        "tty" | "ttyS" | "ptm" | "pts" | "vcs" => "a terminal of the machine".to_owned(),
        name if name.starts_with("/dev/") => "a terminal of the machine".to_owned(),
        "input" | "hidraw" | "uinput" | "uhid" => "what people type on this machine".to_owned(),
        _ => {
            let known: Vec<&str> = DRIVERS.into_iter().chain(MISC_DEVICES).collect();
            let known = known.join(", ");
            format!("devices of the kind {name} are not shown; those of {known} are")
        }
    };
    Some(why)
}

/// Returns the names of a major number among the character devices of `/proc/devices`.
fn drivers_of(text: &str, major: u32) -> Vec<String> {
    let characters = text.split("Block devices:").next().unwrap_or_default();
    names_of(characters, major)
}

/// Returns the names behind a number at the front of lines.
fn names_of(text: &str, number: u32) -> Vec<String> {
    let lines = text.lines().filter_map(|line| {
        let (first, name) = line.trim().split_once(' ')?;
        (first.parse() == Ok(number)).then(|| name.trim().to_owned())
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drivers_are_those_of_character_devices() {
        let text = "Character devices:\n  1 mem\n  4 /dev/vc/0\n  4 tty\n226 drm\n\nBlock devices:\n  7 loop\n226 sd\n";
        assert_eq!(drivers_of(text, 226), ["drm"]);
        assert_eq!(drivers_of(text, 4), ["/dev/vc/0", "tty"]);
        assert!(drivers_of(text, 7).is_empty());
    }

    #[test]
    fn devices_of_memory_and_terminals_are_refused() {
        for numbers in [
            (1, 1),
            (1, 3),
            (5, 0),
            (4, 64),
            (10, 229),
            (136, 0),
            (999, 1),
        ] {
            assert!(refusal(numbers).is_some(), "{numbers:?}");
        }
    }
}
