//! The executors: how somebody without a process of their own works in a home.
//!
//! One [`pipeline`]: a [`Request`] is admitted or refused as a whole, then runs within its [`Limits`], ends in an
//! [`Outcome`] and leaves a line in the [`audit`] log. The bundled [`shell`] is the first executor. What it does to
//! files goes through [`Home`] alone, which is a mounted home or, where nothing is mounted, the world in process: both
//! have the same rules. [`task`] has what hosts and executors of single file operations sign.

pub mod audit;
pub mod files;
mod held_home;
mod home_with_scratch;
pub mod interrupt;
mod line_shell;
mod local_open_state;
pub mod mounted_home;
pub mod offline_home;
mod offline_store;
mod open;
pub mod program;
pub mod quote;
pub mod task;
pub mod totals;

pub use held_home::HeldHome;
pub use interrupt::InterruptSignals;
pub use line_shell::LineShell;
pub use open::{StoreAccess, open, open_held, open_in};
pub use trumanfs_executor::{
    AdmittedProgram, AuditLog, CancelToken, EnvVariable, Home, HomeContext, Limits, LinePrograms,
    Outcome, OutputRule, ProgramError, ProgramProvider, ProgramRequest, Refusal, Request, Status,
};
pub use trumanfs_executor::{
    cancel, drain, home, home_context, line_programs, pipeline, request, resolve, streams,
};
pub use trumanfs_shell as shell;
