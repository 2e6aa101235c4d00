//! The descriptors that the first process of a sandbox gets, and by them what it shows of the host.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::OpenTreeFlags;

use super::error::{LaunchError, Step};
use super::layout::{HostMount, is_shown, path_of};
use super::plan::SandboxPlan;
use trumanfs_init::orders::BindSource;

/// Another launcher has the home for its sandboxes.
const NO_PATH: &str = "bwrap needs the home at a path, and programs run in it that have it without: wait until they have ended";

/// A descriptor that is sent: the plan's, or one made for sending.
pub(super) enum SentDescriptor<'a> {
    Ours(BorrowedFd<'a>),
    Made(OwnedFd),
}

impl SentDescriptor<'_> {
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Ours(fd) => *fd,
            Self::Made(fd) => fd.as_fd(),
        }
    }
}

/// The descriptors that the first process gets.
pub(super) struct DescriptorList<'a> {
    pub(super) fds: Vec<SentDescriptor<'a>>,
    /// True if the first process takes mounts that are nowhere yet.
    takes_mounts: bool,
    /// True if mounts can be cloned here, and need not be found again as the home's owner, who may not get there.
    clones: bool,
}

impl<'a> DescriptorList<'a> {
    /// `clones`: whether the first process takes mounts that were cloned here, where this process may do so.
    pub(super) fn new(clones: bool) -> Self {
        Self {
            fds: Vec::new(),
            takes_mounts: clones,
            clones: clones && rustix::process::geteuid().is_root(),
        }
    }

    pub(super) fn push(&mut self, fd: SentDescriptor<'a>) -> u32 {
        self.fds.push(fd);
        u32::try_from(self.fds.len() - 1).unwrap_or(u32::MAX)
    }

    /// Says where a home comes from.
    ///
    /// # Errors
    /// A home that is at no path cannot be shown by bubblewrap.
    pub(super) fn home_source(
        &mut self,
        home: BorrowedFd<'a>,
        is_detached: bool,
    ) -> Result<BindSource, LaunchError> {
        if !is_detached {
            return self.bind_source(home, false);
        }
        if !self.takes_mounts {
            return Err(LaunchError::refused(Step::Source, NO_PATH));
        }
        Ok(BindSource::Detached(self.push(SentDescriptor::Ours(home))))
    }

    /// Says where a directory comes from that a descriptor stands for.
    pub(super) fn bind_source(
        &mut self,
        fd: BorrowedFd<'a>,
        recursive: bool,
    ) -> Result<BindSource, LaunchError> {
        if self.clones
            && let Ok(tree) = clone_mount(fd, recursive)
        {
            return Ok(BindSource::Detached(self.push(SentDescriptor::Made(tree))));
        }
        let path = path_of(fd).map_err(|error| {
            LaunchError::refused(Step::Source, format!("/proc/self/fd: {error}"))
        })?;
        Ok(BindSource::Verified(
            path,
            self.push(SentDescriptor::Ours(fd)),
        ))
    }

    /// Has something of the host shown, at the path that names it and at its own, where links lead elsewhere. What is
    /// in every sandbox, or in the home, is not shown once more.
    ///
    /// # Errors
    /// The path cannot be opened, or would show something private.
    pub(super) fn add_shown(
        &mut self,
        path: &Path,
        plan: &SandboxPlan,
        all: &mut Vec<HostMount>,
    ) -> Result<(), LaunchError> {
        let failed =
            |errno| LaunchError::new(Step::Source, format!("bind_ro: {}", path.display()), errno);
        // Not to be resolved: the home may hang.
        if plan.is_in_home(path) {
            return Ok(());
        }
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(failed)?;
        let stat = rustix::fs::fstat(&fd).map_err(failed)?;
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let own = path_of(&fd).map_err(|_| failed(Errno::NOENT))?;
        let named = (own != path).then(|| path.to_owned());
        for path in [Some(own), named].into_iter().flatten() {
            if is_shown(&path) || plan.is_in_home(&path) || all.iter().any(|one| one.path == path) {
                continue;
            }
            let shows = |dir: &&PathBuf| dir.starts_with(&path) || path.starts_with(dir);
            if let Some(dir) = plan.private.iter().find(shows) {
                let (path, dir) = (path.display(), dir.display());
                let why =
                    format!("{path}: it would show {dir}, by which a program could purge and undo");
                return Err(LaunchError::refused(Step::Plan, why));
            }
            let source = match self.clones.then(|| clone_mount(fd.as_fd(), true)) {
                Some(Ok(tree)) => BindSource::Detached(self.push(SentDescriptor::Made(tree))),
                // The first process finds it anew, and by then the path may lead elsewhere.
                _ => {
                    let known = fd.try_clone().map_err(|_| failed(Errno::MFILE))?;
                    BindSource::Verified(path.clone(), self.push(SentDescriptor::Made(known)))
                }
            };
            all.push(HostMount {
                path,
                source,
                is_dir,
            });
        }
        Ok(())
    }
}

/// Clones the mount that a descriptor lies in, from there on. Needs CAP_SYS_ADMIN.
fn clone_mount(fd: BorrowedFd<'_>, recursive: bool) -> rustix::io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    rustix::mount::open_tree(fd, "", flags)
}
