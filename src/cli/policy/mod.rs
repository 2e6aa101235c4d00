//! `policy`: whether a policy file is sound, and what it says of a command.

mod check;
mod explain;
mod trust;
mod verdict;

use std::process::ExitCode;

use clap::Subcommand;

use crate::error::Result;

/// Subcommands of `trumanfs policy`.
#[derive(Subcommand, Debug)]
pub(super) enum PolicyCommand {
    /// Says what is wrong with a policy file, with line and key (status 0 or 1)
    Check(check::PolicyCheckArgs),
    /// Says whether a policy allows a command, by which rule, and how it would run (status 0, 1, or 2 for a broken
    /// policy)
    Explain(explain::ExplainArgs),
    /// Lets a store's own policy.yaml count, as it is now
    Trust(trust::TrustArgs),
}

/// Does what was typed.
pub(super) fn policy(command: &PolicyCommand) -> Result<ExitCode> {
    match command {
        PolicyCommand::Check(args) => check::check(args),
        PolicyCommand::Explain(args) => explain::explain(args),
        PolicyCommand::Trust(args) => trust::trust(args),
    }
}
