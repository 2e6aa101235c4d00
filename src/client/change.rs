//! The choice of who carries a change out: the daemon where the store is mounted, else this process under the store's
//! lock.

use super::connect::{ask, is_silence, misunderstood_error};
use super::target::Client;
use crate::control::{ControlAnswer, ControlRequest};
use crate::error::Result;
use crate::operator::Store;
use crate::operator::undo::{ChangeBackend, OfflineBackend};
use crate::world::World;

impl Client {
    /// Carries a change out. `answered` takes the daemon's answer apart; `offline` makes the change where nothing is
    /// mounted.
    pub(super) fn make_change<T>(
        &self,
        request: &ControlRequest,
        answered: impl FnOnce(ControlAnswer) -> Option<T>,
        offline: impl FnOnce(&Store, &dyn ChangeBackend) -> Result<T>,
    ) -> Result<T> {
        if self.store.served_by()?.is_some() {
            self.flush()?;
            let answer = ask(self.store.state(), request)?;
            return answered(answer)
                .ok_or_else(|| misunderstood_error(request, "it answers another question"));
        }
        self.in_process(|world| {
            let store = Store::of(world)?;
            offline(&store, &OfflineBackend(world))
        })
    }

    /// Works on the store in process, under its lock, in a session of its own and with what it was last mounted with.
    pub(super) fn in_process<T>(&self, act: impl FnOnce(&World) -> Result<T>) -> Result<T> {
        let (world, settled) = World::open_offline_root(self.root()?)?;
        for found in settled {
            log::info!("{found}");
        }
        let done = act(&world);
        world.close();
        done
    }

    /// Has the kernel hand on what programs have written: it counts as done. Where the home cannot be seen from here,
    /// the kernel hands it on in its own time.
    ///
    /// # Errors
    /// [`Error::Refused`] where the daemon does not answer. Its home is not touched then: that would last, and not even
    /// a signal would end it.
    pub(super) fn flush(&self) -> Result<()> {
        use rustix::fs::{Mode, OFlags};
        let status = match self.status() {
            Err(error) if is_silence(&error) => return Err(error),
            status => status.ok().flatten(),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = match status.is_some_and(|status| status.only_in_sandboxes) {
            true => {
                let tree = self.take_tree().ok();
                tree.and_then(|tree| rustix::fs::openat(tree, ".", flags, Mode::empty()).ok())
            }
            false => self
                .home()
                .and_then(|home| rustix::fs::open(home, flags, Mode::empty()).ok()),
        };
        if let Some(home) = opened {
            let _ = rustix::fs::syncfs(home);
        }
        Ok(())
    }

    /// Has the journal sealed where the store is mounted, before it is read: what is read is vouched for then, and what
    /// was removed is gathered. Who may not ask, or asks a daemon that knows no seals, reads it as it is; so does, with
    /// a warning, who asks one that hangs.
    pub(super) fn seal(&self) {
        if !self.store.served_by().is_ok_and(|holder| holder.is_some()) {
            return;
        }
        match self
            .status()
            .and_then(|_| ask(self.store.state(), &ControlRequest::Seal))
        {
            Err(error) if is_silence(&error) => {
                log::warn!("the journal is read as it is: {error}");
            }
            Err(error) => log::debug!("the journal is read as it is: {error}"),
            Ok(_) => {}
        }
    }
}
