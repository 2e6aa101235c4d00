//! What of trumanfs is installed beside the program, for `doctor`: nothing of it is needed to run, all of it is missed one day.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Something that is installed, or is not.
#[derive(Debug, Serialize)]
pub(super) struct Installed {
    /// What it is called.
    pub(super) name: &'static str,
    /// Where it was found.
    pub(super) found: Option<String>,
    /// What it is for, and how it is had, where it was not found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

const INSTALL: &str = "mount-scripts/install and the Debian package bring it";

/// Looks for all of it.
pub(super) fn look() -> Vec<Installed> {
    let exe = std::env::current_exe().ok();
    // Where it is installed, the program lies in PREFIX/bin.
    let prefix = exe.as_deref().and_then(|exe| exe.parent()?.parent());
    let shared = |files: &[&str]| -> Vec<PathBuf> {
        let places = [
            prefix,
            Some(Path::new("/usr")),
            Some(Path::new("/usr/local")),
        ];
        let places = places.into_iter().flatten();
        places
            .flat_map(|place| files.iter().map(move |file| place.join("share").join(file)))
            .collect()
    };
    let paths = |files: &[&str]| files.iter().map(PathBuf::from).collect::<Vec<_>>();
    vec![
        in_path(exe.as_deref()),
        one(
            "device",
            paths(&["/dev/fuse"]),
            "mounting needs it: `modprobe fuse`; in a container, --device /dev/fuse",
        ),
        one(
            "fusermount3",
            in_each("fusermount3"),
            "ordinary users mount with it: the package fuse3 brings it",
        ),
        one(
            "mount helper",
            paths(&["/sbin/mount.trumanfs", "/usr/sbin/mount.trumanfs"]),
            &format!("mount(8) and /etc/fstab need it: {INSTALL}"),
        ),
        one(
            "unit",
            paths(&[
                "/etc/systemd/system/trumanfs@.service",
                "/usr/lib/systemd/system/trumanfs@.service",
                "/lib/systemd/system/trumanfs@.service",
            ]),
            &format!("systemd mounts homes by it: {INSTALL}"),
        ),
        one(
            "manual",
            shared(&["man/man1/trumanfs.1", "man/man1/trumanfs.1.gz"]),
            &format!("`man trumanfs-mount` reads it: {INSTALL}, `trumanfs man DIR` writes it"),
        ),
        one(
            "completions",
            shared(&[
                "bash-completion/completions/trumanfs",
                "zsh/site-functions/_trumanfs",
                "zsh/vendor-completions/_trumanfs",
                "fish/vendor_completions.d/trumanfs.fish",
            ]),
            &format!(
                "shells complete verbs and paths by them: {INSTALL}, `trumanfs completions SHELL` writes them"
            ),
        ),
    ]
}

/// Looks for one thing in several places.
fn one(name: &'static str, places: Vec<PathBuf>, missing: &str) -> Installed {
    let found = places.into_iter().find(|place| place.exists());
    Installed {
        name,
        remedy: found.is_none().then(|| missing.to_owned()),
        found: found.map(|place| place.display().to_string()),
    }
}

/// Returns where a program may lie.
fn in_each(program: &str) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .collect()
}

/// Says whether who types `trumanfs` gets this program.
fn in_path(exe: Option<&Path>) -> Installed {
    let known = |path: &Path| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    let first = in_each("trumanfs")
        .into_iter()
        .find(|place| place.is_file());
    let is_this = match (&first, exe) {
        (Some(first), Some(exe)) => known(first) == known(exe),
        _ => false,
    };
    let remedy = match &first {
        _ if is_this => None,
        Some(first) => Some(format!(
            "`trumanfs` means {}, another program than this one: mend PATH",
            first.display()
        )),
        None => {
            Some("`trumanfs` is not in PATH, where hooks, units and agents look for it".to_owned())
        }
    };
    Installed {
        name: "in PATH",
        found: first.map(|place| place.display().to_string()),
        remedy,
    }
}
