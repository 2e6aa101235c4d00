//! The base directories, open since the start, and which of them a path lies in.
//!
//! Owns what a base is: a directory of a mounted home, where removing is a move into the home's trash, or any other
//! directory, where it is a move into the vault. A store is neither: what changes in it behind its home is not recorded.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::absolute_path::AbsolutePath;
use super::host_files;
use super::worker::worker_order::{PlaceKind, PlacePath};
use super::worker_process::ReadyWorker;
use crate::client::{Client, DirectorySite, HomeDescriptors, site};
use crate::error::{Error, Result};
use crate::exec::StoreAccess;
use crate::exec::home_context::HomeContext;
use crate::exec::mounted_home::MountedHome;
use crate::name::WorldPath;
use crate::world::Root;
use crate::world::root::stat_fd;
use crate::world::store::layout::STATE;

/// The file in the state directory that says what the bases were, and how long it may be.
const MEMORY: &str = "bases.json";
const LONGEST_MEMORY: usize = 1 << 20;

/// The identity of a base at the last run of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct BaseIdentity {
    home: bool,
    inode: u64,
    born: u64,
}

/// A base directory.
pub(super) struct BaseDirectory {
    path: PathBuf,
    root: Root,
    kept: RemovalTarget,
    place: HomeContext,
}

/// The destination of removed files.
enum RemovalTarget {
    /// Into the trash of the home.
    Home(Box<(Client, HomeDescriptors)>),
    /// Into the vault.
    Vault(Root),
}

/// All of them.
pub(super) struct BaseDirectories {
    all: Vec<BaseDirectory>,
    /// The ledger's lock, which workers hold.
    lock: OwnedFd,
    /// The worker that is to have them next.
    ready: ReadyWorker,
}

impl BaseDirectories {
    /// Opens them.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Refused`] naming the base: it is a store, or its home belongs to somebody else.
    pub(super) fn open(paths: &[PathBuf], vault: &Path, lock: OwnedFd) -> Result<BaseDirectories> {
        let open = |path: &PathBuf| BaseDirectory::open(path, vault);
        let all = paths.iter().map(open).collect::<Result<_>>()?;
        let ready = ReadyWorker::default();
        Ok(BaseDirectories { all, lock, ready })
    }

    /// Returns the worker that is ready, if one is.
    pub(super) fn ready_worker(&self) -> &ReadyWorker {
        &self.ready
    }

    /// Compares the bases with what they were, and remembers them. A base that was a home and is none now is not mounted: what
    /// happened in the directory below it would be out of sight as soon as it is. `has_open`: whether a task is to be settled,
    /// which can be told only where it was begun.
    ///
    /// # Errors
    /// [`Error::Refused`] naming the base.
    pub(super) fn are_as_before(&self, state_dir: &Path, has_open: bool) -> Result<()> {
        let memory = state_dir.join(MEMORY);
        let known = match host_files::read(&memory, LONGEST_MEMORY) {
            Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
            Err(Error::Missing { .. }) => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        let mut now: BTreeMap<PathBuf, BaseIdentity> = known.clone();
        for base in &self.all {
            // A home is known by its store: another one may be mounted there.
            let meta = match &base.kept {
                RemovalTarget::Home(home) => stat_fd(home.1.state.as_fd())?,
                RemovalTarget::Vault(_) => stat_fd(base.root.as_fd())?,
            };
            let is = BaseIdentity {
                home: base.client().is_some(),
                inode: meta.id.1,
                born: meta.born,
            };
            let was = now.insert(base.path.clone(), is);
            let trouble = match was {
                Some(was) if was.home && !is.home => "it was a mounted home, and is none now",
                Some(was) if has_open && was != is => {
                    "a task was begun there, and it is another directory or another home now"
                }
                _ => continue,
            };
            return Err(Error::refused(
                format!("{}: {trouble}", base.path.display()),
                format!(
                    "Mount what belongs there. If it is to be as it is from now on, remove {}.",
                    memory.display()
                ),
            ));
        }
        if now == known {
            return Ok(());
        }
        let text = serde_json::to_vec(&now).unwrap_or_default();
        host_files::replace(&memory, 0o600, &text)
    }

    /// Checks that each base is still there: the daemon of a home may have died, or the home have been mounted anew.
    ///
    /// # Errors
    /// [`Error::Refused`] naming the base.
    pub(super) fn are_there(&self) -> Result<()> {
        for base in &self.all {
            let here = Root::open(&base.path).map(|root| root.id());
            if here.is_ok_and(|here| here == base.root.id()) && stat_fd(base.root.as_fd()).is_ok() {
                continue;
            }
            return Err(Error::refused(
                format!(
                    "{}: it is not what it was when this began",
                    base.path.display()
                ),
                "Its daemon may have died, or it was mounted anew. Mount it and start again: what was under way is settled then.",
            ));
        }
        Ok(())
    }

    /// Finds the base that a path lies in.
    pub(super) fn locate(&self, path: &AbsolutePath) -> Option<(usize, WorldPath)> {
        let found = |(number, base): (usize, &BaseDirectory)| {
            let below = path.below(&base.path)?;
            Some((number, WorldPath::parse(below.as_bytes()).ok()?))
        };
        self.all.iter().enumerate().find_map(found)
    }

    /// Returns the ledger's lock.
    pub(super) fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// Returns a base by its number.
    pub(super) fn base(&self, number: usize) -> Option<&BaseDirectory> {
        self.all.get(number)
    }
}

impl BaseDirectory {
    fn open(path: &Path, vault: &Path) -> Result<BaseDirectory> {
        let root = Root::open(path)?;
        let (kept, place) = match site(path)? {
            DirectorySite::Home => {
                let client = Client::open(path)?;
                let workshop = client.home_descriptors(path)?;
                let place = crate::exec::open(path, &StoreAccess::default())?;
                (RemovalTarget::Home(Box::new((client, workshop))), place)
            }
            DirectorySite::Store => {
                not_a_store(path, &root)?;
                let home = Arc::new(MountedHome::open(path)?);
                let name = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
                (
                    RemovalTarget::Vault(Root::open(vault)?),
                    HomeContext::new(home, name, None),
                )
            }
        };
        Ok(BaseDirectory {
            path: path.to_owned(),
            root,
            kept,
            place,
        })
    }

    /// Returns where an executor works that works here.
    pub(super) fn place(&self) -> &HomeContext {
        &self.place
    }

    /// Returns the client of the home that this base lies in.
    pub(super) fn client(&self) -> Option<&Client> {
        match &self.kept {
            RemovalTarget::Home(home) => Some(&home.0),
            RemovalTarget::Vault(_) => None,
        }
    }

    /// Returns what a worker is told of it.
    pub(super) fn kind(&self) -> PlaceKind {
        match &self.kept {
            RemovalTarget::Home(home) => PlaceKind::Home {
                prefix: home.1.prefix.clone(),
            },
            RemovalTarget::Vault(_) => PlaceKind::Plain,
        }
    }

    /// Returns the descriptors that a worker gets, in their order.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut all = vec![self.root.as_fd()];
        match &self.kept {
            RemovalTarget::Home(home) => {
                let workshop = &home.1;
                all.push(workshop.trash.as_fd());
                all.extend([workshop.state.as_fd(), workshop.staged.as_fd()]);
            }
            RemovalTarget::Vault(vault) => all.push(vault.as_fd()),
        }
        all
    }

    /// Returns whether an entry of the home's trash is this inode.
    pub(super) fn trash_has(&self, entry: &[u8], inode: u64) -> bool {
        let RemovalTarget::Home(home) = &self.kept else {
            return false;
        };
        let path = WorldPath::parse(entry);
        let node = path.and_then(|path| home.1.trash.node(&path));
        node.is_ok_and(|node| node.meta().id.1 == inode)
    }

    /// Returns whether the vault has a file of this name.
    pub(super) fn vault_has(&self, name: &str) -> bool {
        let RemovalTarget::Vault(vault) = &self.kept else {
            return false;
        };
        let path = WorldPath::parse(name.as_bytes());
        path.and_then(|path| vault.node(&path)).is_ok()
    }
}

/// A path as a worker is told of it.
pub(super) fn spot(place: usize, path: &WorldPath, shown: &AbsolutePath) -> PlacePath {
    PlacePath {
        place,
        path: path.clone(),
        shown: shown.as_str().to_owned(),
    }
}

fn not_a_store(path: &Path, root: &Root) -> Result<()> {
    let state = WorldPath::parse(STATE)?;
    match root.node(&state) {
        Err(Error::NotFound) => Ok(()),
        Ok(_) => Err(Error::refused(
            format!("{}: a store, and no home", path.display()),
            "Mount it and give its home as a base: what changes in a store behind its home is not recorded.",
        )),
        Err(error) => Err(error),
    }
}
