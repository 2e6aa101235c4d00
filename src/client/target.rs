//! The meaning of TARGET and PATH: the store behind a home, and a path as somebody types it.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::enclosing::named_directory;
use crate::daemon::expect_not_nested;
use crate::error::{Error, Result};
use crate::mounts::{registry, table};
use crate::name::WorldPath;
use crate::operator::Store;
use crate::world::Root;
use crate::world::store::unused_store;

/// A store, by the TARGET that stands for it.
#[derive(Debug)]
pub struct Client {
    /// As it was given.
    target: PathBuf,
    /// The store's directory.
    pub(super) path: PathBuf,
    pub(super) store: Store,
}

impl Client {
    /// Finds the store that a TARGET stands for: the store itself, a home, or anything in a home. `.` is the store that
    /// encloses the working directory.
    ///
    /// # Errors
    /// [`Error::Missing`] where nothing is there; [`Error::Refused`] for what is no store, and for the home of a mount
    /// that only another user knows.
    pub fn open(target: &Path) -> Result<Client> {
        let path = store_of(&named_directory(target)?)?;
        let store = Store::open(&path).map_err(|error| match error {
            Error::NotFound => missing_error(&path),
            Error::NotDirectory => Error::refused(
                format!("{} is not a directory", path.display()),
                "Give a store or a home.",
            ),
            error => error,
        })?;
        Ok(Client {
            target: target.to_owned(),
            path,
            store,
        })
    }

    /// Opens the same store anew, without its path.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub fn reopen(&self) -> Result<Client> {
        Ok(Client {
            target: self.target.clone(),
            path: self.path.clone(),
            store: self.store.reopen()?,
        })
    }

    /// Returns TARGET as it was given.
    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    /// Returns the store's directory, open.
    ///
    /// # Errors
    /// As [`Root::duplicate_for_changes`].
    pub fn root(&self) -> Result<Root> {
        self.store.root().duplicate_for_changes()
    }

    /// Returns where the store is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A directory whose path was looked up once. What is done by it reaches that directory, also where somebody has given
/// its path to another one since.
#[derive(Debug)]
pub struct PinnedDir {
    path: PathBuf,
    root: Root,
}

impl PinnedDir {
    /// Looks a directory up.
    ///
    /// # Errors
    /// As [`Root::open`].
    pub fn open(path: &Path) -> Result<PinnedDir> {
        let root = Root::open_store(path)?;
        let path = path.to_owned();
        Ok(PinnedDir { path, root })
    }

    /// Returns the path that was looked up.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether it is a store, or was one.
    ///
    /// # Errors
    /// As [`unused_store::is_store`].
    pub fn is_store(&self) -> Result<bool> {
        unused_store::is_store(&self.root)
    }

    /// Gives a directory that is to become a store a place for its own directories in the state home of its owner, where
    /// it can have one there, or in the directory `named`. A store, and a home, stays as it is.
    ///
    /// # Errors
    /// As [`site`] and [`Root::with_new_place`].
    pub fn with_new_place(self, named: Option<&Path>) -> Result<PinnedDir> {
        if site(&self.path)? == DirectorySite::Home {
            return Ok(self);
        }
        let root = self.root.with_new_place(&self.path, named)?;
        Ok(PinnedDir { root, ..self })
    }

    /// Makes it a directory like any other again, as [`unused_store::unmake`].
    ///
    /// # Errors
    /// As [`unused_store::unmake`].
    pub fn unmake_store(&self) -> Result<()> {
        unused_store::unmake(&self.root)
    }

    /// Opens it as a store, as [`Client::open`].
    ///
    /// # Errors
    /// As [`Client::open`].
    pub(super) fn client(&self) -> Result<Client> {
        Ok(Client {
            target: self.path.clone(),
            path: self.path.clone(),
            store: Store::from_root(self.root.duplicate()?, &self.path)?,
        })
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }
}

/// The kind of place that a working directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectorySite {
    /// The directory lies in a mounted home.
    Home,
    /// The directory is an unmounted store, or may become one.
    Store,
}

/// Finds out whether a directory lies in a mounted home. One that does not must be fit to be a store.
///
/// # Errors
/// [`Error::Missing`] where nothing is there; [`Error::Refused`] for what is no directory, and for one in another store
/// or around one ([`expect_not_nested`]).
pub fn site(root: &Path) -> Result<DirectorySite> {
    let root = &*findable(root);
    let is_denied = std::fs::metadata(root)
        .is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
    // Nobody but its owner may look at a home, not even root.
    if is_denied && table::find(root).is_some() {
        return Ok(DirectorySite::Home);
    }
    let meta = stat_target(root)?;
    if !meta.is_dir() {
        return Err(Error::refused(
            format!("{}: not a directory", root.display()),
            "Give a mounted home, or a store that nobody has mounted.",
        ));
    }
    if table::holds(&meta) {
        Ok(DirectorySite::Home)
    } else {
        expect_not_nested(root).map(|()| DirectorySite::Store)
    }
}

/// Returns the store behind a directory in a mounted home; `None` for one that lies in no home.
///
/// # Errors
/// As [`Client::open`].
pub fn store_behind(directory: &Path) -> Result<Option<PathBuf>> {
    let store = store_of(directory)?;
    Ok((store != directory).then_some(store))
}

/// Finds the store behind a TARGET.
pub(super) fn store_of(target: &Path) -> Result<PathBuf> {
    let target = &*findable(target);
    if let Some(mounted) = table::find(target) {
        return of_device(target, &mounted.device);
    }
    let device = table::device(&stat_target(target)?);
    if table::mounted().iter().any(|home| home.device == device) {
        of_device(target, &device)
    } else {
        Ok(target.to_owned())
    }
}

/// Returns a path that can be looked up: a relative one leads nowhere from a working directory that its own user has
/// closed to itself, and its whole path still does.
pub(super) fn findable(target: &Path) -> Cow<'_, Path> {
    let is_denied = |path: &Path| {
        let looked = std::fs::metadata(path);
        looked.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    };
    match target.is_relative().then(|| std::path::absolute(target)) {
        Some(Ok(whole)) if is_denied(target) && !is_denied(&whole) => Cow::Owned(whole),
        _ => Cow::Borrowed(target),
    }
}

fn of_device(target: &Path, device: &str) -> Result<PathBuf> {
    let entry = registry::find(device).ok_or_else(|| {
        Error::refused(
            format!(
                "{} is a home, but its store is known only to the user who mounted it",
                target.display()
            ),
            "Run this as that user or as root, or give the store instead of the home. A program of `trumanfs run` cannot: no sandbox can be made in a sandbox, and what runs there is in one already.",
        )
    })?;
    Ok(entry.store())
}

fn stat_target(target: &Path) -> Result<std::fs::Metadata> {
    std::fs::metadata(target).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => missing_error(target),
        _ if table::is_dead(&error) => table::dead(target),
        _ => Error::refused(
            format!("{}: {}", target.display(), Error::io("stat", &error)),
            "Give a store, or the home it is mounted at.",
        ),
    })
}

pub(super) fn missing_error(target: &Path) -> Error {
    Error::Missing {
        what: format!("{}: No such file or directory", target.display()),
        remedy: "Give a store, or the home it is mounted at.".to_owned(),
    }
}

impl Client {
    /// Understands a path as it is typed. With a slash before it, it counts from the root of the store; where it leads
    /// through the home or the store by its path on this machine, from there. Without, from TARGET: the root of a store
    /// or a home, or a directory in a home, or the working directory if TARGET is `.`; `..` at the beginning leads
    /// upwards. `home/f`, with `home` as TARGET, is `f`, unless the home has a `home` of
    /// its own.
    ///
    /// # Errors
    /// [`Error::Missing`] for what cannot be a path in a home.
    pub fn in_home(&self, path: &OsStr) -> Result<WorldPath> {
        let at = Path::new(path);
        // The home's own path is not resolved: it may be dead, and is as the daemon resolved it.
        let tops: Vec<PathBuf> = self
            .home()
            .into_iter()
            .chain(std::fs::canonicalize(&self.path))
            .collect();
        let in_tops = |path: &Path| tops.iter().find_map(|top| below(path, top));
        if at.is_absolute() {
            let inside = in_tops(at);
            return parse(inside.as_deref().unwrap_or(at));
        }
        // A directory in a home is where its paths count from.
        let resolved = std::fs::canonicalize(&self.target).unwrap_or_else(|_| self.target.clone());
        let mut from = in_tops(&resolved).unwrap_or_default();
        let mut at = at;
        while let Ok(rest) = at.strip_prefix("..")
            && from.pop()
        {
            at = rest;
        }
        let as_typed = parse(&from.join(at))?;
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let typed = absolute(at);
        let inside = below(&typed, &resolved).or_else(|| below(&typed, &absolute(&self.target)));
        let first = at.components().next().map(|first| from.join(first));
        let first = first.as_deref().map(parse).transpose()?;
        match inside {
            Some(inside) if !first.is_some_and(|first| is_there(&self.store, &first)) => {
                parse(&from.join(inside))
            }
            _ => Ok(as_typed),
        }
    }

    /// Returns where the store is mounted, as far as it is.
    pub(super) fn home(&self) -> Option<PathBuf> {
        let home = self.store.served_by().ok()??.home?;
        let home = crate::name::unescape(&home)?;
        Some(PathBuf::from(std::ffi::OsString::from_vec(home)))
    }
}

fn is_there(store: &Store, path: &WorldPath) -> bool {
    let parent = path.parent().and_then(|dir| store.root().dir(&dir).ok());
    matches!((parent, path.name()), (Some(dir), Some(name)) if dir.stat(name).is_ok())
}

/// Returns the rest of a path below another path: empty for that path itself, `None` for a path that is not below it.
fn below(path: &Path, top: &Path) -> Option<PathBuf> {
    path.strip_prefix(top).ok().map(Path::to_owned)
}

fn parse(path: &Path) -> Result<WorldPath> {
    WorldPath::parse(path.as_os_str().as_bytes()).map_err(|_| Error::Missing {
        what: format!("{}: not a path in a home", path.display()),
        remedy: "Give it as it is seen in the home, such as /src/main.rs, without `..`.".to_owned(),
    })
}
