//! `key`: keys that sign leases and results.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::exit::ExitReason;
use super::output::Printer;
use crate::error::Result;
use crate::exec::task::clock;
use crate::exec::task::key::PrivateKey;
use crate::exec::task::trust::{SignerRole, TrustEntry};

/// Subcommands of `trumanfs key`.
#[derive(Subcommand, Debug)]
pub(super) enum KeyCommand {
    /// Makes a private key in FILE (mode 0600) and its public key in FILE.pub; prints the entry for trust.json
    New(KeyNewArgs),
}

/// The meaning of a key's signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KeyRole {
    /// Signs leases and lists of revoked ones
    Kernel,
    /// Signs results
    Executor,
}

/// Arguments of `trumanfs key new`.
#[derive(Args, Debug)]
pub(super) struct KeyNewArgs {
    /// What its signatures stand for
    #[arg(long, value_enum)]
    role: KeyRole,
    /// Where the private key goes; nothing is overwritten
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// For how many days from now the entry is valid
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u64).range(1..=36500))]
    days: u64,
}

/// Does what was typed.
pub(super) fn key(command: &KeyCommand) -> Result<ExitReason> {
    let KeyCommand::New(args) = command;
    let role = match args.role {
        KeyRole::Kernel => SignerRole::Kernel,
        KeyRole::Executor => SignerRole::Executor,
    };
    let key = PrivateKey::generate()?;
    key.save(&args.out)?;
    let now = clock::now();
    let end = now.saturating_add(args.days.saturating_mul(86400));
    Printer::new().json(&TrustEntry::new(key.public(), role, now, end))?;
    Ok(ExitReason::Ok)
}
