//! [`HeldHome`]: the home behind a TARGET, mounted for as long as somebody works in it.
//!
//! Owns with whose rights it is entered: its owner's, because nobody else gets in.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::audit::StoreAuditLog;
use super::home::Home;
use super::home_context::HomeContext;
use super::mounted_home::MountedHome;
use crate::client::{HeldFor, HomeHold, PinnedDir, RunRegistry, hold};
use crate::error::{Error, Result};
use crate::world::{Root, SessionPatterns};

/// A home that stays mounted while this lives.
pub struct HeldHome {
    /// The context of the home that executors work in.
    pub(super) place: HomeContext,
    /// The mounted home.
    pub(super) home: OwnedFd,
    /// The registry of the runs that work in it.
    pub(super) runs: Arc<RunRegistry>,
    /// The last to be dropped: descriptors in a home keep it from being unmounted.
    pub(super) hold: HomeHold,
}

impl HeldHome {
    /// Opens the home behind a TARGET: a store, which is mounted for this where it is not, or a mounted home. `pinned`,
    /// `entered` and `fits` are as for [`hold()`]; `begin` is called once it is mounted, before anything else.
    ///
    /// # Errors
    /// As [`hold()`]; those of opening the home.
    pub fn open(
        target: &Path,
        pinned: Option<&PinnedDir>,
        entered: (HeldFor, &SessionPatterns),
        fits: &dyn Fn(&Path) -> Result<()>,
        begin: &dyn Fn(&HomeHold),
    ) -> Result<HeldHome> {
        let hold = hold(target, pinned, entered, fits)?;
        begin(&hold);
        // Not by the mountpoint: just after mounting, the registry of mounts may not have it yet.
        let client = hold.client();
        let home = hold.open_home()?;
        let again = rustix::io::fcntl_dupfd_cloexec(&home, 0).map_err(Error::os("fcntl"))?;
        let root = as_owner(hold.owner(), || Root::from_fd(again))?;
        let runs = RunRegistry::new(client)?;
        let mounted: Arc<dyn Home> = Arc::new(MountedHome::over(root, Some(runs.clone())));
        let audit = StoreAuditLog::new(client.root()?, true);
        let place = HomeContext::new(
            mounted,
            hold.path().as_os_str().as_bytes(),
            Some(Arc::new(audit)),
        );
        Ok(HeldHome {
            place,
            home,
            runs,
            hold,
        })
    }

    /// Returns whether the daemon is gone, and the home with it.
    pub fn is_lost(&self) -> bool {
        self.hold.is_lost()
    }

    /// Returns where executors work.
    pub fn place(&self) -> &HomeContext {
        &self.place
    }
}

/// Calls a function with the rights of a home's owner, who can enter it where root cannot.
fn as_owner<T: Send>((uid, gid): (u32, u32), act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let me = rustix::process::geteuid();
    if !me.is_root() || me.as_raw() == uid {
        return act();
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // FUSE compares real, effective and saved ids (fuse_allow_current_process), so fsuid would not do. A thread's
            // ids are its own as long as the C library is not asked.
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            set_thread_groups(&[])
                .and_then(|()| set_thread_res_gid(gid, gid, gid))
                .and_then(|()| set_thread_res_uid(uid, uid, uid))
                .map_err(Error::os("setresuid"))?;
            act()
        });
        thread
            .join()
            .unwrap_or_else(|_| Err(Error::refused("a thread broke down", "")))
    })
}
