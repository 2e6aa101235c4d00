//! File tasks: one file operation that a host hands over under a lease, answered by a signed result.
//!
//! The host (a "kernel" that plans for an agent) signs a lease for one manifest; the executor does exactly what the
//! manifest says, or refuses, and signs what came of it. `docs/TASKS.md` has the formats, this room the code for them:
//! strict JSON ([`strict`]), signed envelopes ([`envelope`]), keys and who is trusted ([`key`], [`trust`]), the
//! [`config`] of an executor, and what is signed: [`lease`], [`result`], [`revocations`].

pub mod absolute_path;
mod base_directories;
pub mod batch_lease;
pub mod clock;
pub mod clock_report;
pub mod config;
pub mod envelope;
mod execution;
mod executor;
pub mod failpoint;
pub mod failure;
pub mod failure_reason;
mod head_witness;
pub mod host_files;
pub mod key;
pub mod lease;
mod ledger;
mod ledger_index;
mod ledger_line;
pub mod log_audit;
pub mod manifest;
pub mod quota;
mod request_check;
pub mod result;
pub mod revocations;
mod settlement;
pub mod stream_request;
pub mod strict;
pub mod trust;
mod worker_job;
mod worker_process;

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]
mod tests;
mod worker;

pub use executor::{TaskAnswer, TaskExecutor};
pub use ledger::{LedgerWait, WaitNotice};
pub use worker::{WORKER, run_worker};
