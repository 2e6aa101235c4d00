//! The options of a world, and their form in the journal for the next session.

use super::view::{SymlinkPolicy, ViewOptions};
use crate::journal::{KeepSettings, MountSettings};

/// The owner of newly created files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileOwnership {
    /// The acting thread's user: a home with one owner.
    #[default]
    Thread,
    /// The caller of each request; the kernel has already checked its permissions.
    Caller,
}

/// The options of a world.
#[derive(Debug, Clone, Default)]
pub struct WorldOptions {
    /// The limits of what the occupant can see and change.
    pub view: ViewOptions,
    /// The owner of newly created files.
    pub identity: FileOwnership,
    /// True if each record is on disk before its act, to survive power cuts.
    pub durable: bool,
    /// The user that acts on the store, if not this process's own: the trash must belong to that user.
    pub owner: Option<(u32, u32)>,
    /// The options for keeping former contents.
    pub keep: KeepOptions,
    /// The id of the session, which names its directory; replaced if it would not be the newest
    /// ([`StateDir::session`](crate::world::store::state::StateDir::session)).
    pub session: String,
    /// The home's mountpoint, for the record; absent for an unmounted store.
    pub home: Option<Vec<u8>>,
    /// True if files with a name outside the store are copied before any program changes them. Otherwise only programs
    /// of an executor are kept from changing the original.
    pub copies_up: bool,
    /// Patterns of what can be made again: its removal and its former contents are not kept.
    pub volatile: Vec<String>,
    /// The settings for the `begin` record, where they are not those of these options: of the store's last mount, for work
    /// on an unmounted store ([`World::open_offline`](super::World::open_offline)); without [`SessionPatterns`].
    pub last_mount: Option<MountSettings>,
}

/// Patterns that hold for one session, beside those of the mount: later sessions do not have them.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SessionPatterns {
    /// Patterns of hidden paths.
    pub hide: Vec<String>,
    /// Patterns of read-only paths.
    pub read_only: Vec<String>,
    /// Patterns of what can be made again.
    #[serde(default)]
    pub volatile: Vec<String>,
}

/// The default size limit, in bytes, for copying files when they are opened for writing.
pub(super) const COPIED_UP_TO: u64 = 4 << 20;

/// Options for keeping contents.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KeepOptions {
    /// True if contents are kept as well as removals.
    pub versions: bool,
    /// The size limit, in bytes, for copying files when they are opened for writing.
    pub copied_up_to: u64,
    /// The most bytes that the versions of all sessions may take together.
    pub max: Option<u64>,
    /// True if old versions are evicted at that limit; otherwise the write fails.
    pub evict: bool,
}

impl Default for KeepOptions {
    fn default() -> KeepOptions {
        KeepOptions {
            versions: true,
            copied_up_to: COPIED_UP_TO,
            max: None,
            evict: false,
        }
    }
}

impl WorldOptions {
    /// Returns the options of a session without a mount. A read-only mount (`-o ro`) does not make later sessions
    /// read-only.
    ///
    /// If no session names the settings of a mount, symlinks that stay inside exist, so that removals by an earlier
    /// release can be undone.
    pub fn as_last_mounted(session: String, last: Option<MountSettings>) -> WorldOptions {
        let with = last.clone().unwrap_or_else(|| MountSettings {
            symlinks_inside: true,
            ..WorldOptions::default().mounted_with()
        });
        WorldOptions {
            view: ViewOptions {
                hide: with.hide,
                read_only: with.read_only,
                all_read_only: false,
                symlinks: if with.symlinks_inside {
                    SymlinkPolicy::Inside
                } else {
                    SymlinkPolicy::Hidden
                },
                all_symlinks: false,
                list_trash: with.list_trash,
            },
            durable: with.durable,
            keep: KeepOptions {
                versions: with.keep.versions,
                copied_up_to: with.keep.copied_up_to,
                max: with.keep.max,
                evict: with.keep.evict,
            },
            session,
            volatile: with.volatile,
            last_mount: last,
            ..WorldOptions::default()
        }
    }

    /// Returns the options with patterns for this session: its `begin` record has the settings without them.
    #[must_use]
    pub fn with_session_patterns(mut self, patterns: &SessionPatterns) -> WorldOptions {
        if *patterns == SessionPatterns::default() {
            return self;
        }
        self.last_mount = Some(self.mounted_with());
        self.view.hide.extend(patterns.hide.iter().cloned());
        self.view
            .read_only
            .extend(patterns.read_only.iter().cloned());
        self.volatile.extend(patterns.volatile.iter().cloned());
        self
    }

    /// Returns the settings that a mount with these options has in its `begin` record.
    pub(super) fn mounted_with(&self) -> MountSettings {
        MountSettings {
            hide: self.view.hide.clone(),
            read_only: self.view.read_only.clone(),
            volatile: self.volatile.clone(),
            symlinks_inside: self.view.symlinks == SymlinkPolicy::Inside,
            list_trash: self.view.list_trash,
            durable: self.durable,
            keep: KeepSettings {
                versions: self.keep.versions,
                copied_up_to: self.keep.copied_up_to,
                max: self.keep.max,
                evict: self.keep.evict,
            },
        }
    }
}
