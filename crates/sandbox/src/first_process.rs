//! The first process of a sandbox, until it has its orders.
//!
//! A launcher may start one ahead, before anybody knows what will run: the namespaces are made, its program is
//! loaded, the user is entered and the loopback interface brought up while the launcher does other work. Such a process
//! holds nothing of the host but what every process has, for its mount namespace is made by its orders; it runs nothing
//! of the occupant's. When the launcher ends, by whatever, so does it.
//!
//! Threads: the one that starts a process ahead is its parent, and lives until the sandbox is set up: the kernel kills
//! that process when its parent's thread ends.

use std::ffi::CString;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use super::error::{LaunchError, Step};
use super::image::InitImage;
use super::reaper::ChildReaper;
use super::running::RunningProgram;
use trumanfs_init::backend::Backend;
use trumanfs_init::channel;
use trumanfs_init::sys::clone::{CloneRequest, CloneStage, start};
use trumanfs_init::sys::program;
use trumanfs_init::{INIT, UserIds};

/// Starts the first process for a backend as a child of the calling thread, which must live until the sandbox is set up.
///
/// # Errors
/// [`Step::Identity`] where this process cannot run programs as that user; [`Step::Namespaces`], [`Step::Init`].
pub(super) fn first(
    backend: Backend,
    image: &InitImage,
    user: UserIds,
    reaper: &Arc<ChildReaper>,
) -> Result<RunningProgram, LaunchError> {
    let becomes = program_user(user)?;
    let (ours, theirs) =
        channel::pair().map_err(|errno| LaunchError::new(Step::Control, "", errno))?;
    let isolated = backend.has_namespaces();
    let text = |word: String| CString::new(word).unwrap_or_default();
    let (init, uid, gid) = (
        text(INIT.to_owned()),
        text(user.0.to_string()),
        text(user.1.to_string()),
    );
    let words = [c"trumanfs", &init, &uid, &gid];
    let started = start(&CloneRequest {
        program: image.file()?,
        // A user is entered into a namespace.
        arguments: words.get(..if isolated { 4 } else { 2 }).unwrap_or(&words),
        input: theirs.as_fd(),
        output: None,
        inherited: &[],
        isolated,
        user: becomes,
    })
    .map_err(|(stage, errno)| LaunchError::new(step_of(stage), "", errno))?;
    Ok(RunningProgram::new(backend, started, ours, reaper.clone()))
}

fn step_of(stage: CloneStage) -> Step {
    match stage {
        CloneStage::Identity => Step::Identity,
        CloneStage::Namespaces => Step::Namespaces,
        CloneStage::Capabilities | CloneStage::Exec => Step::Init,
    }
}

/// Whom the program is started as: root makes it the home's owner; others are the owner.
///
/// # Errors
/// [`Step::Identity`] where this process is neither.
pub(super) fn program_user(user: UserIds) -> Result<Option<UserIds>, LaunchError> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if uid.is_root() {
        return Ok(Some(user));
    }
    if (uid.as_raw(), gid.as_raw()) == user {
        return Ok(None);
    }
    Err(LaunchError::refused(
        Step::Identity,
        format!(
            "the home belongs to user {} and group {}, and this process is user {} and group {}: only root can run programs as others",
            user.0,
            user.1,
            uid.as_raw(),
            gid.as_raw()
        ),
    ))
}

/// A first process that was started ahead, or is being started. Dropping it ends the process.
#[derive(Debug)]
pub(super) struct StandbyProcess {
    user: UserIds,
    /// The channel on which the started process arrives; closed if it could not be started.
    started: Receiver<RunningProgram>,
    parent: ParentThread,
}

/// The thread whose child a first process is: it lives until this is dropped.
#[derive(Debug)]
pub(super) struct ParentThread {
    _thread: Sender<()>,
}

impl StandbyProcess {
    /// Has one started by a thread of its own. Returns nothing where there can be no such thread.
    pub(super) fn start(
        image: Arc<InitImage>,
        user: UserIds,
        reaper: Arc<ChildReaper>,
    ) -> Option<Self> {
        let (tell, started) = channel();
        let (thread, over) = channel::<()>();
        let start = move || {
            // The launch meets whatever this fails at once more, and says it.
            if let Ok(running) = first(Backend::Namespaces, &image, user, &reaper) {
                // Nobody may want it any more: that ends it.
                let _ = tell.send(running);
            }
            drop((image, reaper, tell));
            let _ = over.recv();
        };
        let named = std::thread::Builder::new().name("sandbox-ahead".to_owned());
        named.spawn(start).ok()?;
        Some(Self {
            user,
            started,
            parent: ParentThread { _thread: thread },
        })
    }

    /// Returns whether it is for this user.
    pub(super) fn is_for(&self, user: UserIds) -> bool {
        self.user == user
    }

    /// Waits until it is started; returns nothing if that failed, or if it has ended meanwhile.
    pub(super) fn wait_until_started(self) -> Option<(RunningProgram, ParentThread)> {
        let running = self.started.recv().ok()?;
        (!program::ends_by(running.pidfd(), Instant::now())).then_some((running, self.parent))
    }
}
