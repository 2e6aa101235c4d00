//! The parts of trumanfs that are installed beside the program, for `doctor`: none is needed to run, each is missed one
//! day.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::Result;
use crate::exec::program::policy::{self, Policy};

/// Something that is installed, or is not.
#[derive(Debug, Serialize)]
pub(super) struct InstalledPart {
    /// The part's name.
    pub(super) name: &'static str,
    /// The path at which the part was found.
    pub(super) found: Option<String>,
    /// What it is for, and how it is had, where it was not found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

/// The profile of AppArmor, where the package and the script install it.
const PROFILE: &str = "etc/apparmor.d/trumanfs";

const INSTALL: &str = "mount-scripts/install and the Debian package bring it";

/// Looks for all of it.
pub(super) fn find_installed_parts() -> Vec<InstalledPart> {
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
    let mut all = vec![
        in_path(exe.as_deref()),
        find_part(
            "fusermount3",
            in_each("fusermount3"),
            "ordinary users mount with it: the package fuse3 brings it",
        ),
        find_part(
            "mount helper",
            paths(&["/sbin/mount.trumanfs", "/usr/sbin/mount.trumanfs"]),
            &format!("mount(8) and /etc/fstab need it: {INSTALL}"),
        ),
        find_part(
            "unit",
            paths(&[
                "/etc/systemd/system/trumanfs@.service",
                "/usr/lib/systemd/system/trumanfs@.service",
                "/lib/systemd/system/trumanfs@.service",
            ]),
            &format!("systemd mounts homes by it: {INSTALL}"),
        ),
        find_part(
            "manual",
            shared(&["man/man1/trumanfs.1", "man/man1/trumanfs.1.gz"]),
            &format!("`man trumanfs-mount` reads it: {INSTALL}, `trumanfs man DIR` writes it"),
        ),
        find_part(
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
    ];
    all.extend(apparmor_part(Path::new("/")));
    all.extend(policy_parts(policy::of_machine()));
    all
}

/// Says whether AppArmor knows this program, where there is AppArmor in the kernel, of a release that can read the
/// profile.
fn apparmor_part(root: &Path) -> Option<InstalledPart> {
    let enabled = std::fs::read(root.join("sys/module/apparmor/parameters/enabled"));
    if enabled.ok()?.first() != Some(&b'Y') || !root.join("etc/apparmor.d/abi/4.0").exists() {
        return None;
    }
    let profile = root.join(PROFILE);
    let shown = || format!("/{PROFILE}");
    // Only root can read the list.
    let loaded = std::fs::read_to_string(root.join("sys/kernel/security/apparmor/profiles"));
    let is_loaded = |list: &String| list.lines().any(|line| line.starts_with("trumanfs ("));
    let load = format!("load it: `apparmor_parser --replace /{PROFILE}`");
    let (found, remedy) = match (profile.exists(), &loaded) {
        (false, Ok(list)) if is_loaded(list) => (Some("loaded, and no file".to_owned()), None),
        (false, _) => {
            let remedy = format!(
                "sandboxes need it where only programs with a profile make user namespaces: {INSTALL}"
            );
            (None, Some(remedy))
        }
        (true, Ok(list)) if is_loaded(list) => (Some(format!("{}, loaded", shown())), None),
        (true, Ok(_)) => (Some(format!("{}, not loaded", shown())), Some(load)),
        (true, Err(_)) => (
            Some(format!("{}; only root sees whether it is loaded", shown())),
            None,
        ),
    };
    Some(InstalledPart {
        name: "AppArmor",
        found,
        remedy,
    })
}

/// Says which policies there are for real programs, and what is wrong with them.
fn policy_parts(found: Vec<(String, Result<Policy>)>) -> Vec<InstalledPart> {
    let one = |found, remedy| InstalledPart {
        name: "policy",
        found,
        remedy,
    };
    if found.is_empty() {
        let remedy = "real programs run by one alone: write /etc/trumanfs/policy.yaml, or name a shipped one, as `--policy default`";
        return vec![one(None, Some(remedy.to_owned()))];
    }
    let mut all = Vec::new();
    for (number, (called, policy)) in found.into_iter().enumerate() {
        let in_force = if number == 0 {
            ""
        } else {
            ", which the one above replaces"
        };
        all.push(match policy {
            Ok(policy) => {
                let programs = policy.programs().count();
                one(
                    Some(format!(
                        "{called}: sound, allows {programs} programs{in_force}"
                    )),
                    None,
                )
            }
            Err(error) => one(Some(format!("{called}{in_force}")), Some(error.to_string())),
        });
    }
    all
}

/// Looks for one thing in several places.
fn find_part(name: &'static str, places: Vec<PathBuf>, missing: &str) -> InstalledPart {
    let found = places.into_iter().find(|place| place.exists());
    InstalledPart {
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
fn in_path(exe: Option<&Path>) -> InstalledPart {
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
    InstalledPart {
        name: "in PATH",
        found: first.map(|place| place.display().to_string()),
        remedy,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs;

    /// The files of the kernel and of the machine, as they are where AppArmor is.
    #[test]
    fn a_profile_of_apparmor_is_missing_there_or_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert!(apparmor_part(dir.path()).is_none(), "there is no AppArmor");
        write("sys/module/apparmor/parameters/enabled", "Y\n");
        assert!(apparmor_part(dir.path()).is_none(), "it is too old");
        write("etc/apparmor.d/abi/4.0", "");
        let missing = apparmor_part(dir.path()).unwrap();
        assert!(missing.found.is_none() && missing.remedy.is_some());
        write(PROFILE, "");
        let unknown = apparmor_part(dir.path()).unwrap();
        assert!(unknown.found.unwrap().contains("only root"));
        let profiles = "sys/kernel/security/apparmor/profiles";
        write(profiles, "trumanfs-other (enforce)\n");
        let unloaded = apparmor_part(dir.path()).unwrap();
        assert!(
            unloaded
                .remedy
                .unwrap()
                .contains("apparmor_parser --replace")
        );
        write(profiles, "other (enforce)\ntrumanfs (unconfined)\n");
        let loaded = apparmor_part(dir.path()).unwrap();
        assert!(loaded.remedy.is_none() && loaded.found.unwrap().ends_with(", loaded"));
        write("sys/module/apparmor/parameters/enabled", "N\n");
        assert!(apparmor_part(dir.path()).is_none(), "it is switched off");
    }
}
