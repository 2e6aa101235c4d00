//! The executors' common part: one pipeline for all requests of callers that have no process of their own in a home.
//!
//! A [`Request`] is admitted or refused as a whole, then runs within its [`Limits`], ends in an [`Outcome`] and leaves
//! a line in the audit log. Executors reach files through [`Home`] alone.
#![warn(missing_docs)]

pub mod cancel;
pub mod drain;
pub mod home;
pub mod home_context;
mod limit;
pub mod line_programs;
pub mod pipeline;
pub mod request;
pub mod resolve;
pub mod streams;

pub use cancel::CancelToken;
pub use home::Home;
pub use home_context::{AuditLog, HomeContext};
pub use line_programs::{
    AdmittedProgram, EnvVariable, LinePrograms, OutputRule, ProgramError, ProgramProvider,
    ProgramRequest,
};
pub use request::{Limits, Outcome, Refusal, Request, Status};
