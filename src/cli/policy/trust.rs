//! `policy trust`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::cli::exit::ExitReason;
use crate::cli::output::Printer;
use crate::client::Client;
use crate::error::Result;
use crate::exec::program::policy;

/// Arguments of `trumanfs policy trust`.
#[derive(Args, Debug)]
pub(in crate::cli) struct TrustArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// Forget that its policy was trusted
    #[arg(long)]
    forget: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Trusts a store's own policy, or forgets it.
pub(super) fn trust(args: &TrustArgs) -> Result<ExitCode> {
    let client = Client::open(&args.target)?;
    let mut printer = Printer::new();
    if args.forget {
        let was_trusted = policy::distrust(client.path())?;
        if args.json {
            printer.json(&serde_json::json!({ "forgotten": was_trusted }))?;
        } else if was_trusted {
            printer.line(format_args!(
                "forgotten: its policy does not count any more"
            ));
        } else {
            printer.line(format_args!(
                "nothing to forget: its policy was not trusted"
            ));
        }
        let exit = if was_trusted {
            ExitReason::Ok
        } else {
            ExitReason::Nothing
        };
        return Ok(exit.into());
    }
    let trusted = policy::trust(client.path())?;
    let file = trusted.file.display().to_string();
    let programs: Vec<&str> = trusted.policy.programs().collect();
    if args.json {
        printer.json(
            &serde_json::json!({ "file": file, "sha256": trusted.digest, "programs": programs }),
        )?;
    } else {
        printer.line(format_args!(
            "trusted: {file} as it is now (sha256 {})",
            trusted.digest
        ));
        printer.line(format_args!("  allows {}", programs.join(" ")));
        printer.line(format_args!(
            "  A change of the file ends that; `policy trust` again after reading it."
        ));
    }
    Ok(ExitReason::Ok.into())
}
