//! The times of an executor for an operator: what its clock says, and the latest time that it has seen.

use std::path::Path;

use serde::Serialize;

use super::clock::{ExecutorClock, now};
use super::config::ExecutorConfig;
use super::ledger::Ledger;
use super::revocations::forget_later;
use crate::error::Result;

/// The times of an executor.
#[derive(Debug, Serialize)]
pub struct ClockReport {
    /// The time of the system's clock (Unix seconds).
    pub system: u64,
    /// The latest time that the executor has seen, which it goes by where that is later.
    pub latest: u64,
    /// True if the system's clock was accepted although it is behind.
    pub accepted: bool,
}

/// Reads the latest time that an executor has seen. With `accept_lower` the executor goes by the system's clock from now on where
/// that is behind, and forgets a list of revocations from a later time. An executor that runs has the later time in memory.
///
/// # Errors
/// The configuration or the time cannot be read or written.
pub fn clock_report(config: &Path, accept_lower: bool) -> Result<ClockReport> {
    let config = ExecutorConfig::load(config)?;
    let clock = ExecutorClock::open(&config.state_dir)?;
    let mut ledger = Ledger::open(&config.state_dir, &config.vault_dir)?;
    let turn = ledger.turn()?;
    let (system, latest) = (now(), clock.latest(&turn));
    let accepted = accept_lower && system < latest;
    if accepted {
        forget_later(&config.state_dir, system)?;
        clock.set(&turn, system)?;
    }
    Ok(ClockReport {
        system,
        latest,
        accepted,
    })
}
