//! The configuration of an executor: `task.toml`.
//!
//! Owns what is checked before a task is looked at: that the bases are what they seem, and that nothing the executor
//! relies on lies below one of them, in a mounted home, or in the store of one, where an occupant could change it. What
//! lies where is decided by canonical paths and by device and inode, so a bind mount hides nothing.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::absolute_path::AbsolutePath;
use super::host_files::{self, FileIdentity};
use super::strict;
use crate::client::store_behind;
use crate::error::{Error, Result};

/// The maximum length of a configuration file, in bytes.
const MAX_CONFIG_BYTES: usize = 64 << 10;

/// The longest lease that a configuration can allow, in seconds: a year.
const LONGEST_LEASE: u64 = 366 * 86400;

/// The largest skew that a configuration can allow, in seconds.
const LARGEST_SKEW: u64 = 300;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    audience: String,
    bases: Vec<String>,
    state_dir: PathBuf,
    vault_dir: PathBuf,
    key: PathBuf,
    trust: PathBuf,
    revocations: Option<PathBuf>,
    max_lease_s: u64,
    #[serde(default = "default_skew")]
    skew_s: u64,
}

fn default_skew() -> u64 {
    30
}

/// The configuration of an executor, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorConfig {
    /// Whom leases must be for; who signs results.
    pub audience: String,
    /// The directories below which tasks work, canonical, none in another.
    pub bases: Vec<PathBuf>,
    /// The directory of log, clock and lock; of mode 0700.
    pub state_dir: PathBuf,
    /// The directory that keeps the removed files of plain bases; of mode 0700.
    pub vault_dir: PathBuf,
    /// The file of the executor's private key.
    pub key: PathBuf,
    /// The file of trusted keys.
    pub trust: PathBuf,
    /// The list of revoked leases, where there is to be one.
    pub revocations: Option<PathBuf>,
    /// The longest duration of a lease, in seconds.
    pub max_lease_s: u64,
    /// The time by which the clock of a kernel may be ahead, in seconds.
    pub skew_s: u64,
}

/// A configuration while it is checked.
struct ConfigChecker<'a> {
    file: &'a Path,
    bases: Vec<(PathBuf, FileIdentity)>,
    /// The stores of those that lie in a home.
    stores: Vec<(PathBuf, FileIdentity)>,
}

impl ExecutorConfig {
    /// Reads a configuration and checks it. Relative paths count from its directory. Makes `state_dir` and
    /// `vault_dir` where they are absent.
    ///
    /// # Errors
    /// It cannot be read, has an unknown key or a value out of bounds, a base is none, something lies below a base, or
    /// what it names is absent.
    pub fn load(file: &Path) -> Result<ExecutorConfig> {
        let text = host_files::read(file, MAX_CONFIG_BYTES)?;
        let mut checker = ConfigChecker {
            file,
            bases: Vec::new(),
            stores: Vec::new(),
        };
        let wire = checker.parse(&text)?;
        strict::check_id("audience", &wire.audience)
            .map_err(|why| checker.refused(&why.to_string()))?;
        checker.within("max_lease_s", wire.max_lease_s, 1, LONGEST_LEASE)?;
        checker.within("skew_s", wire.skew_s, 0, LARGEST_SKEW)?;
        if wire.bases.is_empty() {
            return Err(checker.refused("bases is empty"));
        }
        for base in &wire.bases {
            checker.base(base)?;
        }
        let home = host_files::canonical(host_files::directory_of(file))?;
        let config = ExecutorConfig {
            audience: wire.audience,
            state_dir: checker.directory("state_dir", &home.join(wire.state_dir))?,
            vault_dir: checker.directory("vault_dir", &home.join(wire.vault_dir))?,
            key: checker.file("key", home.join(wire.key))?,
            trust: checker.file("trust", home.join(wire.trust))?,
            revocations: match wire.revocations {
                Some(list) => Some(checker.file("revocations", home.join(list))?),
                None => None,
            },
            max_lease_s: wire.max_lease_s,
            skew_s: wire.skew_s,
            bases: checker.bases.into_iter().map(|(base, _)| base).collect(),
        };
        Ok(config)
    }
}

impl ConfigChecker<'_> {
    fn refused(&self, why: &str) -> Error {
        Error::refused(
            format!("{}: {why}", self.file.display()),
            "docs/TASKS.md has every key of the configuration.",
        )
    }

    /// Returns an error that names the key it is about.
    fn about(&self, key: &str, error: Error) -> Error {
        let kind = error.kind();
        let (what, remedy) = error.into_words();
        kind.error(format!("{}: {key}: {what}", self.file.display()), remedy)
    }

    fn parse(&self, text: &[u8]) -> Result<ConfigFile> {
        let text = std::str::from_utf8(text).map_err(|_| self.refused("not UTF-8"))?;
        toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map_or(1, |before| before.matches('\n').count() + 1);
            self.refused(&format!("line {line}: {}", error.message()))
        })
    }

    fn within(&self, key: &str, value: u64, lowest: u64, highest: u64) -> Result<()> {
        match (lowest..=highest).contains(&value) {
            true => Ok(()),
            false => Err(self.refused(&format!("{key} is {value}, not {lowest} to {highest}"))),
        }
    }

    /// Takes one base, after those before it.
    fn base(&mut self, text: &str) -> Result<()> {
        let wrong = |why: String| self.refused(&format!("bases: {why}"));
        let base = AbsolutePath::parse(text).map_err(|why| wrong(why.to_string()))?;
        let canonical =
            host_files::canonical(base.as_path()).map_err(|error| self.about("bases", error))?;
        if canonical != base.as_path() {
            let own = canonical.display();
            return Err(wrong(format!(
                "{text} leads through a link; its own path is {own}"
            )));
        }
        let (identity, is_directory) =
            host_files::identity(&canonical).map_err(|error| self.about("bases", error))?;
        if !is_directory {
            return Err(wrong(format!("{text} is not a directory")));
        }
        let chain = chain(&canonical)?;
        for (other, known) in &self.bases {
            let inside = chain.contains(known)
                || chain_has(other, identity)?
                || canonical.starts_with(other)
                || other.starts_with(&canonical);
            if inside {
                let other = other.display();
                return Err(wrong(format!(
                    "one of {text} and {other} lies in the other"
                )));
            }
        }
        let about = |error| self.about("bases", error);
        if let Some(store) = store_behind(&canonical).map_err(about)? {
            let store = host_files::canonical(&store).map_err(about)?;
            let (identity, _) = host_files::identity(&store).map_err(about)?;
            self.stores.push((store, identity));
        }
        self.bases.push((canonical, identity));
        Ok(())
    }

    /// Makes a directory of the executor's own, or checks it. Returns its canonical path.
    fn directory(&self, key: &str, path: &Path) -> Result<PathBuf> {
        let about = |error| self.about(key, error);
        // Before it is made: nothing is to be made below a base.
        let parent = path.parent().unwrap_or(path);
        let parent = host_files::canonical(parent).map_err(about)?;
        self.outside(key, &parent)?;
        host_files::private_directory(path).map_err(about)?;
        let path = host_files::canonical(path).map_err(about)?;
        self.outside(key, &path)?;
        for (base, _) in &self.bases {
            let (own, _) = host_files::identity(&path).map_err(about)?;
            if base.starts_with(&path) || chain_has(base, own)? {
                let (path, base) = (path.display(), base.display());
                return Err(self.refused(&format!("{key}: the base {base} lies in {path}")));
            }
        }
        Ok(path)
    }

    /// Checks a file that the executor relies on. Returns its path as it was given: a link is refused by who reads it.
    fn file(&self, key: &str, path: PathBuf) -> Result<PathBuf> {
        let canonical = host_files::canonical(&path).map_err(|error| self.about(key, error))?;
        self.outside(key, &canonical)?;
        // A link in a base that leads out of it would be an occupant's to change.
        let parent = path.parent().unwrap_or(&path);
        let parent = host_files::canonical(parent).map_err(|error| self.about(key, error))?;
        self.outside(key, &parent)?;
        Ok(path)
    }

    fn outside(&self, key: &str, path: &Path) -> Result<()> {
        let home = store_behind(path).map_err(|error| self.about(key, error))?;
        if home.is_some() {
            return Err(self.refused(&format!(
                "{key}: {} lies in a mounted home, where an occupant could change it",
                path.display()
            )));
        }
        let chain = chain(path)?;
        let bases = self.bases.iter().map(|place| ("the base", place));
        let stores = self
            .stores
            .iter()
            .map(|place| ("the store of a home,", place));
        for (what, (place, identity)) in bases.chain(stores) {
            if path.starts_with(place) || chain.contains(identity) {
                let (path, place) = (path.display(), place.display());
                return Err(self.refused(&format!(
                    "{key}: {path} lies in {what} {place}, where an occupant could change it"
                )));
            }
        }
        Ok(())
    }
}

/// Returns what a path and all directories above it are.
fn chain(path: &Path) -> Result<Vec<FileIdentity>> {
    path.ancestors()
        .map(|above| host_files::identity(above).map(|(identity, _)| identity))
        .collect()
}

fn chain_has(path: &Path, wanted: FileIdentity) -> Result<bool> {
    Ok(chain(path)?.contains(&wanted))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        /// A directory with bases `a` and `b`, and the files that a configuration names.
        fn new() -> Place {
            let dir = tempfile::tempdir().unwrap();
            for base in ["a", "b", "c"] {
                fs::create_dir(dir.path().join(base)).unwrap();
            }
            for file in ["key", "trust.json", "revoked.json"] {
                fs::write(dir.path().join(file), "").unwrap();
            }
            Place { dir }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().canonicalize().unwrap().join(name)
        }

        fn text(&self) -> String {
            format!(
                "audience = \"files\"\nbases = [\"{}\", \"{}\"]\nstate_dir = \"state\"\nvault_dir = \"vault\"\nkey = \"key\"\n\
                 trust = \"trust.json\"\nrevocations = \"revoked.json\"\nmax_lease_s = 3600\nskew_s = 5\n",
                self.path("a").display(),
                self.path("b").display()
            )
        }

        fn load(&self, text: &str) -> Result<ExecutorConfig> {
            fs::write(self.path("task.toml"), text).unwrap();
            ExecutorConfig::load(&self.path("task.toml"))
        }
    }

    #[test]
    fn a_configuration_is_read_and_its_directories_are_made() {
        let place = Place::new();
        let config = place.load(&place.text()).unwrap();
        assert_eq!(config.bases, [place.path("a"), place.path("b")]);
        assert_eq!((config.max_lease_s, config.skew_s), (3600, 5));
        assert_eq!(config.key, place.path("key"));
        assert_eq!(config.revocations, Some(place.path("revoked.json")));
        for dir in [&config.state_dir, &config.vault_dir] {
            assert_eq!(
                fs::metadata(dir).unwrap().permissions().mode() & 0o7777,
                0o700
            );
        }
        let less = place
            .text()
            .replace("skew_s = 5\n", "")
            .replace("revocations = \"revoked.json\"\n", "");
        let config = place.load(&less).unwrap();
        assert_eq!((config.skew_s, config.revocations), (30, None));
    }

    #[test]
    fn a_mistake_is_told_with_file_and_key() {
        let place = Place::new();
        symlink(place.path("a"), place.path("link")).unwrap();
        fs::create_dir(place.path("a/deep")).unwrap();
        fs::create_dir(place.path("open")).unwrap();
        fs::set_permissions(place.path("open"), fs::Permissions::from_mode(0o750)).unwrap();
        fs::create_dir(place.path("around")).unwrap();
        fs::create_dir(place.path("around/base")).unwrap();
        fs::set_permissions(place.path("around"), fs::Permissions::from_mode(0o700)).unwrap();
        let (a, b) = (
            place.path("a").display().to_string(),
            place.path("b").display().to_string(),
        );
        let at = |name: &str| place.path(name).display().to_string();
        for (from, to, why) in [
            ("audience", "audiense", "unknown field `audiense`"),
            (
                "skew_s = 5",
                "skew_s = 5\nskew_s = 5",
                "line 10: duplicate key",
            ),
            ("skew_s = 5", "skew_s = \"5\"", "line 9: invalid type"),
            ("skew_s = 5", "skew_s = 301", "skew_s is 301, not 0 to 300"),
            ("max_lease_s = 3600\n", "", "missing field `max_lease_s`"),
            ("max_lease_s = 3600", "max_lease_s = 0", "max_lease_s is 0"),
            ("max_lease_s = 3600", "max_lease_s = -1", "line 8"),
            ("\"files\"", "\"my files\"", "audience is not"),
            (&b, "relative", "bases: a path is not absolute"),
            (&b, &format!("{b}/"), "ends with a slash"),
            (&b, &format!("{b}/../c"), "`..`"),
            (&b, &at("link"), "leads through a link"),
            (&b, &at("none"), "bases: "),
            (&b, &at("key"), "is not a directory"),
            (&b, &a, "lies in the other"),
            (&b, &at("a/deep"), "lies in the other"),
            (&a, &at("b"), "lies in the other"),
            (&format!("\"{a}\", \"{b}\""), "", "bases is empty"),
            ("\"state\"", "\"a/state\"", "state_dir: "),
            ("\"vault\"", "\"b/vault\"", "vault_dir: "),
            ("\"vault\"", "\"link/vault\"", "vault_dir: "),
            ("\"vault\"", "\"no/vault\"", "vault_dir: "),
            ("\"vault\"", "\"open\"", "with mode 0750"),
            ("\"vault\"", "\"key\"", "vault_dir: "),
            ("\"key\"", "\"none\"", "key: "),
            ("\"key\"", "\"a/key\"", "key: "),
            ("\"trust.json\"", "\"a/out\"", "trust: "),
            ("\"trust.json\"", "\"inward\"", "trust: "),
            ("\"revoked.json\"", "\"none.json\"", "revocations: "),
        ] {
            fs::write(place.path("a/key"), "").unwrap();
            let _ = symlink(place.path("trust.json"), place.path("a/out"));
            let _ = symlink(place.path("a/key"), place.path("inward"));
            let changed = place.text().replacen(from, to, 1);
            assert_ne!(changed, place.text());
            let told = place.load(&changed).unwrap_err().full_message();
            assert!(
                told.contains(why) && told.contains("task.toml"),
                "{from} → {to}: {told}"
            );
        }
        assert!(!place.path("a/state").exists() && !place.path("b/vault").exists());
        let around = place
            .text()
            .replace(&b, &at("around/base"))
            .replace("\"vault\"", "\"around\"");
        let told = place.load(&around).unwrap_err().full_message();
        assert!(told.contains("vault_dir: the base"), "{told}");
        // The tree is as it was, and the configuration is sound.
        place.load(&place.text()).unwrap();
    }
}
