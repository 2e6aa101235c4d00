//! How somebody without a process of their own works in a home: one pipeline for every executor.
//!
//! A [`Request`] is admitted or refused as a whole, then runs within its [`Limits`], ends in an [`Outcome`] and leaves a line
//! in the audit log. What an executor does to files goes through [`Home`] alone.
#![warn(missing_docs)]

pub mod cancel;
pub mod drain;
pub mod home;
mod limit;
pub mod line_programs;
pub mod pipeline;
pub mod place;
pub mod request;
pub mod resolve;
pub mod streams;

pub use cancel::Cancel;
pub use home::Home;
pub use line_programs::{
    AdmittedProgram, LinePrograms, NotRun, OutputRule, Program, Programs, Variable,
};
pub use place::{AuditLog, Place};
pub use request::{Limits, Outcome, Refusal, Request, Status};
