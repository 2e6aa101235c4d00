//! `policy check`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueHint};

use crate::cli::exit::ExitReason;
use crate::cli::output::Printer;
use crate::error::Result;
use crate::exec::program::policy::{self, PolicyError};

/// Arguments of `trumanfs policy check`.
#[derive(Args, Debug)]
pub(in crate::cli) struct PolicyCheckArgs {
    /// The policy file, or the name of a shipped policy
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints what is wrong with a policy file.
pub(super) fn check(args: &PolicyCheckArgs) -> Result<ExitCode> {
    let examined = policy::open(&args.file);
    let is_sound = examined.problems.is_empty();
    let mut printer = Printer::new();
    if args.json {
        let problems: Vec<_> = examined.problems.iter().map(as_json).collect();
        let warnings: Vec<_> = examined
            .warnings
            .iter()
            .map(|warning| as_json(&warning.0))
            .collect();
        let file = args.file.display().to_string();
        printer.json(&serde_json::json!({
            "file": file, "ok": is_sound, "problems": problems, "warnings": warnings,
        }))?;
    } else {
        for problem in &examined.problems {
            printer.line(format_args!("{problem}"));
        }
        for warning in &examined.warnings {
            printer.line(format_args!("{warning}"));
        }
        if let Some(policy) = &examined.policy {
            let programs: Vec<&str> = policy.programs().collect();
            printer.line(format_args!(
                "{}: sound; allows {}",
                args.file.display(),
                programs.join(" ")
            ));
        }
    }
    let exit = if is_sound {
        ExitReason::Ok
    } else {
        ExitReason::Nothing
    };
    Ok(exit.into())
}

fn as_json(problem: &PolicyError) -> serde_json::Value {
    serde_json::json!({ "line": problem.line, "key": problem.key, "message": problem.message })
}
