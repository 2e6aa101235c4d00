//! The daemon's own messages: to the standard error output, or to a file of the session.

use crate::world::World;

/// The destination of the daemon's own messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogTarget {
    /// The standard error output.
    Stderr,
    /// A file in the session's directory.
    Session,
}

/// Starts the daemon's log. Returns its file, if it has one.
pub(super) fn start_log(to: LogTarget, world: &World) -> Option<std::fs::File> {
    let mut builder =
        env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn"));
    let file = match to {
        LogTarget::Session => world.state().new_log(world.session()).ok(),
        LogTarget::Stderr => None,
    };
    let kept = file.as_ref().and_then(|file| file.try_clone().ok());
    if let Some(file) = file {
        builder.target(env_logger::Target::Pipe(Box::new(file)));
    }
    let _ = builder.try_init();
    kept
}

/// Gives back the space that the log did not need.
pub(super) fn trim_log(log: &std::fs::File) {
    let _ = log.metadata().and_then(|meta| log.set_len(meta.len()));
}
