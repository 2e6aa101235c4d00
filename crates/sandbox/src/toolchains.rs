//! The toolchains of whoever starts an agent: the directories of their PATH that lie in their home directory, where
//! version managers install, and what the programs there need besides.
//!
//! Owns what of a home directory is shown for that: directories of programs, and the parts of a version manager's own
//! directory that are known. All of it read-only, nothing beside it, and no directory in which something looks like a
//! secret.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::install_tree::tree_of_directory;
use super::layout::{check_home, is_shown};

/// The most paths that are shown.
const MAX_SHOWN: usize = 100;

/// The most entries of a directory of programs that are looked at for secrets.
const MAX_ENTRIES: usize = 10_000;

/// Parts of the names of files with secrets, in lower case. A program may be called so.
const SECRET_NAMES: [&str; 6] = [
    "credential",
    "passw",
    "secret",
    "token",
    "id_rsa",
    "id_ed25519",
];

/// Ends of the names of such files.
const SECRET_ENDS: [&str; 6] = [".env", ".key", ".netrc", ".npmrc", ".p12", ".pem"];

/// A version manager, or what else installs programs in a home directory.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionManager {
    /// The name, for people.
    pub name: String,
    /// The variable that says where its own directory is, which the agent gets.
    pub variable: String,
    /// The usual place of that directory, from the home directory.
    pub usual: PathBuf,
    /// Its programs: it is in use where a directory of PATH has one of these, or lies in its own directory.
    #[serde(default)]
    pub programs: Vec<String>,
    /// A directory, from the home directory: it is in use where PATH has that.
    pub programs_in: Option<PathBuf>,
    /// The parts of its own directory that are shown. A name of `*` stands for each directory there.
    pub shown: Vec<PathBuf>,
}

/// The toolchains of a user, as an agent gets them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Toolchains {
    /// The directories that come first in PATH.
    pub path: Vec<PathBuf>,
    /// The paths that are shown, read-only.
    pub shown: Vec<PathBuf>,
    /// Variables.
    pub env: Vec<(OsString, OsString)>,
    /// The directories of PATH that are not shown, and the file in each that looks like a secret.
    pub withheld: Vec<(PathBuf, PathBuf)>,
}

impl Toolchains {
    /// Finds those of a home directory by a PATH. `homes`: the homes of the agent, which have theirs already.
    #[must_use]
    pub fn of_user(
        managers: &[VersionManager],
        home: &Path,
        path: &OsStr,
        homes: &[&Path],
    ) -> Toolchains {
        let mut found = Toolchains::default();
        // In a home that is the root, or no path, everything would lie.
        if !home.is_absolute() || home.parent().is_none() {
            return found;
        }
        let is_homes = |dir: &Path| homes.iter().any(|home| dir.starts_with(home));
        let is_around = |dir: &Path| homes.iter().any(|home| home.starts_with(dir));
        let dirs = path.as_bytes().split(|byte| *byte == b':');
        let mut dirs: Vec<PathBuf> = dirs.map(|dir| OsStr::from_bytes(dir).into()).collect();
        dirs.retain(|dir| dir.starts_with(home) && !home.starts_with(dir) && !is_around(dir));
        let mut own_dirs = Vec::new();
        for manager in managers {
            let Some(own) = manager.directory_in_use(home, &dirs) else {
                continue;
            };
            let parts = manager.shown.iter().flat_map(|part| expand(&own, part));
            // In a home it is there already.
            let is_wanted =
                |part: &PathBuf| !is_homes(part) && !is_around(part) && can_be_shown(part);
            found
                .shown
                .extend(parts.filter(|part| is_wanted(part) && part.exists()));
            found
                .env
                .push(((&manager.variable).into(), own.clone().into()));
            own_dirs.push(own);
        }
        for dir in dirs {
            if is_homes(&dir) || found.shown.iter().any(|shown| dir.starts_with(shown)) {
                found.path.push(dir);
                continue;
            }
            // Of a version manager's directory nothing else is shown.
            let is_own = own_dirs.iter().any(|own| dir.starts_with(own));
            let real = std::fs::canonicalize(&dir)
                .ok()
                .filter(|real| !is_own && real.is_dir());
            let Some(real) = real.filter(|real| !is_homes(real) && !is_around(real)) else {
                continue;
            };
            if is_shown(&real) {
                found.path.push(real);
                continue;
            }
            let tree = Some(tree_of_directory(&real)).filter(|tree| !is_around(tree));
            let tree = tree.unwrap_or_else(|| real.clone());
            match find_secret(&real) {
                Some(secret) => found.withheld.push((dir, secret)),
                None if can_be_shown(&tree) && found.shown.len() < MAX_SHOWN => {
                    found.shown.push(tree);
                    found.path.push(real);
                }
                None => {}
            }
        }
        found.shown.sort();
        found
            .shown
            .dedup_by(|inner, outer| inner.starts_with(outer));
        found.path.dedup();
        found
    }
}

impl VersionManager {
    /// Returns its own directory, if one of these directories of programs needs it.
    fn directory_in_use(&self, home: &Path, dirs: &[PathBuf]) -> Option<PathBuf> {
        let set = std::env::var_os(&self.variable).map(PathBuf::from);
        let own = set.filter(|dir| dir.is_absolute());
        let own = own.unwrap_or_else(|| home.join(&self.usual));
        let has_program = |dir: &PathBuf| self.programs.iter().any(|name| dir.join(name).exists());
        let is_named = |dir: &PathBuf| {
            let named = self.programs_in.as_ref();
            named.is_some_and(|named| home.join(named) == *dir)
        };
        let is_used = |dir: &PathBuf| dir.starts_with(&own) || has_program(dir) || is_named(dir);
        (own.is_dir() && own != home && dirs.iter().any(is_used)).then_some(own)
    }
}

/// Returns the paths of a part of a directory.
fn expand(dir: &Path, part: &Path) -> Vec<PathBuf> {
    part.iter().fold(vec![dir.to_owned()], |found, name| {
        if name != "*" {
            return found.iter().map(|dir| dir.join(name)).collect();
        }
        let listed = found.iter().flat_map(std::fs::read_dir).flatten().flatten();
        // What a link leads to is another directory's.
        let dirs = listed.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        dirs.map(|entry| entry.path()).collect()
    })
}

/// Returns whether a path has no place of the sandbox's own, and nothing that every sandbox shows.
fn can_be_shown(path: &Path) -> bool {
    !is_shown(path) && check_home(path).is_ok()
}

/// Returns a file of a directory of programs that looks like a secret: by its name, and because it is no program.
fn find_secret(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.flatten().take(MAX_ENTRIES);
    let mut files = entries.map(|entry| entry.path());
    files.find(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_lowercase();
        let is_named = SECRET_NAMES.iter().any(|part| name.contains(part))
            || SECRET_ENDS.iter().any(|end| name.ends_with(end));
        let is_program = |meta: std::fs::Metadata| meta.permissions().mode() & 0o111 != 0;
        is_named && !std::fs::metadata(file).is_ok_and(is_program)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn directories_of_programs_are_shown_and_nothing_beside_them() {
        let dir = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(dir.path()).unwrap().join("user");
        let put = |path: &str| {
            let file = home.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        };
        for path in [
            ".bashrc",
            ".ssh/id_rsa",
            ".sdkman/candidates/java/17/bin/java",
            ".sdkman/etc/config",
            "node-20/bin/node",
            "node-20/lib/x",
            "bin/mine",
            "keys/api.token",
            "project/bin/own",
        ] {
            put(path);
        }
        std::os::unix::fs::symlink("17", home.join(".sdkman/candidates/java/current")).unwrap();
        std::os::unix::fs::symlink("node-20", home.join("node")).unwrap();
        let at = |path: &str| home.join(path);
        let dirs = [
            ".sdkman/candidates/java/current/bin",
            "node/bin",
            "bin",
            "keys",
            "project/bin",
            "absent",
            ".sdkman/etc",
            ".",
        ];
        let mut path: Vec<_> = dirs.map(|dir| at(dir).into_os_string()).into();
        path.extend([
            home.clone().into(),
            OsString::from("/usr/bin"),
            OsString::new(),
        ]);
        let path = path.join(OsStr::new(":"));
        let manager = VersionManager {
            name: "sdkman".to_owned(),
            variable: "SDKMAN_DIR".to_owned(),
            usual: ".sdkman".into(),
            programs: Vec::new(),
            programs_in: None,
            shown: vec!["candidates".into()],
        };
        let of = |homes: &[&Path]| {
            Toolchains::of_user(std::slice::from_ref(&manager), &home, &path, homes)
        };
        let found = of(&[&at("project")]);
        let wanted = Toolchains {
            path: [
                ".sdkman/candidates/java/current/bin",
                "node-20/bin",
                "bin",
                "project/bin",
            ]
            .map(at)
            .into(),
            shown: [".sdkman/candidates", "bin", "node-20"].map(at).into(),
            env: vec![("SDKMAN_DIR".into(), at(".sdkman").into())],
            withheld: vec![(at("keys"), at("keys/api.token"))],
        };
        assert_eq!(found, wanted);
        // A project around them all has them.
        let found = of(&[&home]);
        assert_eq!((found.shown, found.env), (Vec::new(), wanted.env));
    }

    #[test]
    fn star_is_each_directory_and_no_link() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["sets/1/bin", "sets/2"] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        fs::write(dir.path().join("sets/file"), "").unwrap();
        std::os::unix::fs::symlink("1", dir.path().join("sets/link")).unwrap();
        let mut found = expand(dir.path(), Path::new("sets/*/bin"));
        found.sort();
        assert_eq!(
            found,
            ["sets/1/bin", "sets/2/bin"].map(|path| dir.path().join(path))
        );
        assert!(expand(dir.path(), Path::new("absent/*/bin")).is_empty());
    }

    #[test]
    fn odd_homes_and_links_out_of_them_show_nothing() {
        for home in ["/", "", "x"] {
            let path = OsStr::new("/usr/bin:/etc:/:x:");
            let found = Toolchains::of_user(&[], Path::new(home), path, &[]);
            assert_eq!(found, Toolchains::default(), "{home}");
        }
        let dir = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(dir.path()).unwrap();
        let links = [("etc", "/etc"), ("usr", "/usr/bin")].map(|(name, to)| {
            std::os::unix::fs::symlink(to, home.join(name)).unwrap();
            home.join(name).into_os_string()
        });
        let found = Toolchains::of_user(&[], &home, &links.join(OsStr::new(":")), &[]);
        assert_eq!((found.shown, found.path), (vec![], vec!["/usr/bin".into()]));
    }
}
