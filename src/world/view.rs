//! The view: the entries of a store that exist for the occupant.
//!
//! Owns every decision on visibility: reserved names, symlinks, special files, `--hide`, `--read-only`. No operation
//! starts from a bare name: [`View::admit`] returns a [`VisibleEntry`], [`View::admit_vacant`] a [`VacantName`], and a
//! hidden entry is [`Error::NotFound`], the same value as an absent one.
//!
//! Lock: a read-write lock over the set of pinned inodes, never held over a system call.

use std::collections::HashSet;
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use parking_lot::RwLock;
use rustix::fs::FileType;

use super::root::{Dir, HiddenDir, Root};
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::store::layout::{SESSIONS, STATE, TRASH};
use crate::world::store::state_files;
use trumanfs_types::meta::{Id, Meta};

/// The treatment of symlinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SymlinkPolicy {
    /// Symlinks do not exist, and none can be made.
    #[default]
    Hidden,
    /// Symlinks that cannot lead out of the store exist.
    Inside,
}

/// The options of a view.
#[derive(Debug, Clone, Default)]
pub struct ViewOptions {
    /// Patterns of hidden paths, in gitignore syntax, relative to the root of the store.
    pub hide: Vec<String>,
    /// Patterns of read-only paths.
    pub read_only: Vec<String>,
    /// True if everything is read-only.
    pub all_read_only: bool,
    /// The treatment of symlinks.
    pub symlinks: SymlinkPolicy,
    /// True if all symlinks exist and any can be made, whatever [`ViewOptions::symlinks`] says: only sandboxes enter this
    /// home, so a link is text that the sandbox's kernel resolves in the sandbox's own tree.
    pub all_symlinks: bool,
    /// True if `.trash` is listed in the root.
    pub list_trash: bool,
}

/// The rules of visibility for one world.
#[derive(Debug)]
pub struct View {
    hide: PathPatterns,
    read_only: PathPatterns,
    options: ViewOptions,
    /// The state directory; absent if the store had none when this view was made.
    state: Option<Id>,
    /// True if the state directory lies outside the store: then nothing of its name exists in the root.
    is_state_elsewhere: bool,
    /// The directory of states of stores, if that lies in the store.
    hidden: Option<Arc<HiddenDir>>,
    /// Nodes that a pattern with a slash hid and whose directory has moved since: they stay hidden.
    pinned: RwLock<HashSet<Id>>,
}

/// An entry that exists for the occupant.
#[derive(Debug)]
pub struct VisibleEntry<'a> {
    /// The directory it is in.
    pub dir: &'a Dir,
    /// Its name in that directory.
    pub name: Name<'a>,
    /// Its attributes.
    pub meta: Meta,
}

/// A name at which something may be created.
#[derive(Debug)]
pub struct VacantName<'a> {
    /// The directory.
    pub dir: &'a Dir,
    /// The name.
    pub name: Name<'a>,
}

impl VisibleEntry<'_> {
    /// Returns the entry's path.
    pub fn path(&self) -> WorldPath {
        self.dir.path().join(self.name)
    }
}

impl VacantName<'_> {
    /// Returns the path that a new entry would have.
    pub fn path(&self) -> WorldPath {
        self.dir.path().join(self.name)
    }
}

impl View {
    /// Creates a view. `state` is the directory that never exists for the occupant; without it, nothing of that name
    /// exists in the root.
    ///
    /// # Errors
    /// [`Error::Usage`] naming the pattern that cannot be parsed.
    pub fn new(options: ViewOptions, state: Option<Id>, pinned: HashSet<Id>) -> Result<View> {
        Ok(View {
            hide: PathPatterns::new("--hide", &options.hide)?,
            read_only: PathPatterns::new("--read-only", &options.read_only)?,
            options,
            state,
            is_state_elsewhere: false,
            hidden: None,
            pinned: RwLock::new(pinned),
        })
    }

    /// Returns the view of a store with its own directories where this root has them.
    #[must_use]
    pub(super) fn of_root(self, root: &Root) -> View {
        View {
            is_state_elsewhere: root.has_state_elsewhere(),
            hidden: root.hidden.clone(),
            ..self
        }
    }

    /// Returns whether a directory, or one in it, is hidden as the place of stores' states: it stays where it is.
    pub(super) fn holds_hidden_dir(&self, path: &WorldPath) -> bool {
        let hidden = self.hidden.as_ref();
        hidden.is_some_and(|hidden| path.contains(&hidden.path))
    }

    /// Returns the directory of states that lies in the store.
    pub(super) fn hidden_dir(&self) -> Option<&HiddenDir> {
        self.hidden.as_deref()
    }

    /// Returns an entry that exists for the occupant.
    ///
    /// # Errors
    /// `ENOENT` if it is absent or hidden, which are the same; any error from `statx(2)`.
    pub fn admit<'a>(&self, dir: &'a Dir, name: Name<'a>) -> Result<VisibleEntry<'a>> {
        let meta = dir.stat(name)?;
        if self.exists(dir, name, &meta) {
            Ok(VisibleEntry { dir, name, meta })
        } else {
            Err(Error::NotFound)
        }
    }

    /// Returns a name at which something may be created. Only the creation shows whether the name is free.
    ///
    /// # Errors
    /// `ENOENT` for a hidden name, whether or not it is in use; `EROFS` as [`View::expect_changeable`].
    pub fn admit_vacant<'a>(
        &self,
        dir: &'a Dir,
        name: Name<'a>,
        is_dir: bool,
    ) -> Result<VacantName<'a>> {
        if (dir.path().is_root() && name.bytes() == STATE)
            || state_files::is_git_ignore(dir.path(), name.bytes())
        {
            return Err(Error::NotFound);
        }
        let path = dir.path().join(name);
        if self.hide.matches(&path, is_dir) {
            return Err(Error::NotFound);
        }
        self.expect_changeable(&path, is_dir)?;
        Ok(VacantName { dir, name })
    }

    /// Returns the error for a name that turned out to be taken.
    pub fn taken_error(&self, dir: &Dir, name: Name<'_>) -> Error {
        match self.admit(dir, name) {
            Ok(_) => Error::Exists,
            // A hidden entry has the name: it stays untouched, and nothing can be created.
            Err(_) => Error::NotFound,
        }
    }

    /// Checks that a path may be changed.
    ///
    /// # Errors
    /// `EROFS` in the trash, for the trash itself, and for paths under `--read-only`.
    pub fn expect_changeable(&self, path: &WorldPath, is_dir: bool) -> Result<()> {
        if self.options.all_read_only || in_trash(path) || self.read_only.matches(path, is_dir) {
            Err(Error::ReadOnly)
        } else {
            Ok(())
        }
    }

    /// Returns whether an entry found in a directory exists for the occupant.
    pub fn exists(&self, dir: &Dir, name: Name<'_>, meta: &Meta) -> bool {
        if self.is_kept_out(dir.path().is_root(), name, meta)
            || state_files::is_git_ignore(dir.path(), name.bytes())
        {
            return false;
        }
        if name.bytes() == STATE && meta.is_dir() && is_state_in(dir) {
            return false;
        }
        let by_kind = match meta.kind {
            FileType::Symlink => self.link_exists(dir, name),
            kind => is_ordinary(kind),
        };
        by_kind && !(self.hide.any() && self.hide.matches(&dir.path().join(name), meta.is_dir()))
    }

    /// Returns whether an entry of the root exists for the occupant; `None` if a link's target or a pattern would
    /// decide.
    pub(super) fn exists_in_root(&self, name: Name<'_>, meta: &Meta) -> Option<bool> {
        let a_link = meta.kind == FileType::Symlink && self.offers_symlinks();
        let alone = !a_link && !self.hide.any();
        alone.then(|| !self.is_kept_out(true, name, meta) && is_ordinary(meta.kind))
    }

    /// Returns the identity of the state directory.
    pub(super) fn state_id(&self) -> Option<Id> {
        self.state
    }

    /// Returns whether a node is the state directory or a pinned inode, hidden wherever it goes.
    fn is_kept_out(&self, in_root: bool, name: Name<'_>, meta: &Meta) -> bool {
        let is_state = match self.state {
            Some(id) if !self.is_state_elsewhere => meta.id == id,
            Some(id) if meta.id == id => true,
            _ => in_root && name.bytes() == STATE,
        };
        let is_hidden = |hidden: &Arc<HiddenDir>| hidden.id == meta.id;
        is_state
            || self.hidden.as_ref().is_some_and(is_hidden)
            || self.pinned.read().contains(&meta.id)
    }

    /// Returns whether readdir shows an entry. `kind` is the entry's type according to the directory.
    pub fn is_listed(&self, dir: &Dir, name: Name<'_>, kind: FileType, ino: u64) -> bool {
        let may_be_state = self.is_state_elsewhere || self.state.is_none_or(|id| id.1 == ino);
        if may_be_state && name.bytes() == STATE && dir.path().is_root() {
            return false;
        }
        if dir.path().is_root() && name.bytes() == TRASH && !self.options.list_trash {
            return false;
        }
        if state_files::is_git_ignore(dir.path(), name.bytes()) {
            return false;
        }
        let is_hidden = |hidden: &HiddenDir| hidden.id.1 == ino;
        if name.bytes() == STATE || self.hidden_dir().is_some_and(is_hidden) {
            return self.admit(dir, name).is_ok();
        }
        let plain = matches!(
            kind,
            FileType::Directory | FileType::RegularFile | FileType::Fifo | FileType::Socket
        );
        if plain && !self.hide.any() && self.pinned.read().is_empty() {
            return true;
        }
        self.admit(dir, name).is_ok()
    }

    /// Returns whether a symlink in this directory with this target exists. Unless all do, it must be relative and unable
    /// to climb out.
    ///
    /// `..` may only stand at the beginning. After a name it would be resolved from wherever that name leads (which
    /// may itself be a link), so counting levels would prove nothing.
    pub fn admits_target(&self, dir: &WorldPath, target: &[u8]) -> bool {
        if self.options.all_symlinks {
            return true;
        }
        if self.options.symlinks == SymlinkPolicy::Hidden
            || target.is_empty()
            || target.starts_with(b"/")
        {
            return false;
        }
        let mut depth = dir.components().count();
        let mut at_start = true;
        for part in target.split(|b| *b == b'/') {
            match part {
                b"" | b"." => {}
                b".." if at_start && depth > 0 => depth -= 1,
                b".." => return false,
                _ => at_start = false,
            }
        }
        true
    }

    /// Returns whether the occupant can make symlinks at all.
    pub fn offers_symlinks(&self) -> bool {
        self.options.all_symlinks || self.options.symlinks == SymlinkPolicy::Inside
    }

    /// Returns whether moving a directory can change what is hidden or read-only in it, so that its tree must be
    /// searched first.
    pub fn depends_on_place(&self) -> bool {
        self.hide.anchored || self.read_only.any()
    }

    /// Returns whether no directory on a path can be hidden: nothing is hidden or pinned except the state directory in
    /// the root.
    pub fn hides_no_directory(&self, path: &WorldPath) -> bool {
        let state = path.components().any(|name| name.bytes() == STATE);
        let is_in = |hidden: &HiddenDir| hidden.path.contains(path);
        !state
            && !self.hidden_dir().is_some_and(is_in)
            && !self.hide.any()
            && self.pinned.read().is_empty()
    }

    /// Returns whether `--hide` matches this path.
    pub fn hides(&self, path: &WorldPath, is_dir: bool) -> bool {
        self.hide.matches(path, is_dir)
    }

    /// Returns whether `--read-only` matches this path.
    pub fn protects(&self, path: &WorldPath, is_dir: bool) -> bool {
        self.read_only.matches(path, is_dir)
    }

    /// Keeps an inode hidden wherever it goes.
    pub fn pin(&self, id: Id) {
        self.pinned.write().insert(id);
    }

    /// Stops hiding an inode that has been deleted. Returns whether it was hidden.
    pub fn unpin(&self, id: Id) -> bool {
        // The set is nearly always empty; checking first keeps readers from waiting.
        !self.pinned.read().is_empty() && self.pinned.write().remove(&id)
    }

    fn link_exists(&self, dir: &Dir, name: Name<'_>) -> bool {
        self.options.all_symlinks
            || self.options.symlinks == SymlinkPolicy::Inside
                && rustix::fs::readlinkat(dir, name.bytes(), Vec::with_capacity(256))
                    .is_ok_and(|target| self.admits_target(dir.path(), target.as_bytes()))
    }
}

/// Returns whether the `.trumanfs` in a directory is the state of a store that lies further in.
fn is_state_in(dir: &Dir) -> bool {
    let sessions = [STATE, SESSIONS.as_bytes()].join(&b'/');
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::statat(dir, sessions, flags).is_ok()
}

/// Returns whether nodes of a kind exist wherever they are.
fn is_ordinary(kind: FileType) -> bool {
    !matches!(
        kind,
        FileType::Symlink | FileType::BlockDevice | FileType::CharacterDevice | FileType::Unknown
    )
}

/// Returns whether a path is the trash or lies in it.
pub fn in_trash(path: &WorldPath) -> bool {
    path.components()
        .next()
        .is_some_and(|first| first.bytes() == TRASH)
}

/// A list of gitignore patterns.
#[derive(Debug)]
pub(in crate::world) struct PathPatterns {
    set: Gitignore,
    /// True if a pattern names a place (it has a slash before its end), so that moving a directory may change its
    /// matches.
    pub(in crate::world) anchored: bool,
}

impl PathPatterns {
    /// Reads patterns as in a `.gitignore` file at the root. `flag` is the option that gave them.
    ///
    /// # Errors
    /// [`Error::Usage`] naming the pattern that cannot be parsed.
    pub(in crate::world) fn new(flag: &str, patterns: &[String]) -> Result<PathPatterns> {
        let refuse = |pattern: &str, error: &dyn std::fmt::Display| {
            Error::usage(
                format!("{flag} {pattern}: not a pattern: {error}"),
                "Patterns are written as in a .gitignore file (gitignore(5)).",
            )
        };
        let mut builder = GitignoreBuilder::new("/");
        for pattern in patterns {
            builder
                .add_line(None, pattern)
                .map_err(|error| refuse(pattern, &error))?;
        }
        let set = builder.build().map_err(|error| refuse("", &error))?;
        let anchored = patterns
            .iter()
            .any(|p| p.trim_end_matches('/').contains('/'));
        Ok(PathPatterns { set, anchored })
    }

    /// Returns whether there is a pattern.
    pub(in crate::world) fn any(&self) -> bool {
        !self.set.is_empty()
    }

    /// Returns whether a path, or a directory above it, matches.
    pub(in crate::world) fn matches(&self, path: &WorldPath, is_dir: bool) -> bool {
        use std::os::unix::ffi::OsStrExt;
        if !self.any() || path.is_root() {
            return false;
        }
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(path.bytes()));
        self.set
            .matched_path_or_any_parents(path, is_dir)
            .is_ignore()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn view(options: ViewOptions) -> View {
        View::new(options, Some(Id(0, 0)), HashSet::new()).unwrap()
    }

    fn path(text: &str) -> WorldPath {
        WorldPath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn links_that_may_lead_out_are_absent() {
        let view = view(ViewOptions {
            symlinks: SymlinkPolicy::Inside,
            ..ViewOptions::default()
        });
        for (dir, target, inside) in [
            ("/", "x", true),
            ("/", "..", false),
            ("/", "/etc", false),
            ("/a/b", "../../x", true),
            ("/a/b", "../../../x", false),
            ("/a/b", "c/../d", false),
            ("/a", "./../x", true),
            ("/a", "", false),
        ] {
            assert_eq!(
                view.admits_target(&path(dir), target.as_bytes()),
                inside,
                "{dir} → {target}"
            );
        }
    }

    #[test]
    fn patterns_are_those_of_gitignore() {
        let hide = ["*.key", "/secrets/", "!public.key", "build/out"]
            .map(String::from)
            .to_vec();
        let view = view(ViewOptions {
            hide,
            ..ViewOptions::default()
        });
        for (at, is_dir, hidden) in [
            ("/a/b.key", false, true),
            ("/a/public.key", false, false),
            ("/secrets", true, true),
            ("/secrets", false, false),
            ("/secrets/deep/x", false, true),
            ("/a/secrets", true, false),
            ("/build/out/x", false, true),
        ] {
            assert_eq!(view.hides(&path(at), is_dir), hidden, "{at}");
        }
        assert!(view.depends_on_place());
    }

    #[test]
    fn a_pattern_that_is_none_is_named() {
        let options = ViewOptions {
            hide: vec!["[z-a]".into()],
            ..ViewOptions::default()
        };
        let error = View::new(options, Some(Id(0, 0)), HashSet::new()).unwrap_err();
        assert!(error.to_string().contains("--hide [z-a]"), "{error}");
    }

    #[test]
    fn names_that_only_look_like_the_trash_are_ordinary() {
        assert!(in_trash(&path("/.trash")));
        assert!(in_trash(&path("/.trash/x/y")));
        for other in ["/.trash ", "/.trash2", "/a/.trash", "/.Trash", "/"] {
            assert!(!in_trash(&path(other)), "{other}");
        }
    }
}
