//! `result`: whether a result of a file task is what it seems.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::exit::{ExitReason, report_failure, report_failure_as_json};
use super::output::Printer;
use crate::error::{Error, Result};
use crate::exec::task::envelope::PayloadType;
use crate::exec::task::host_files;
use crate::exec::task::key::PublicKey;
use crate::exec::task::result::{TaskOutcome, TaskResult};
use crate::exec::task::strict::FormatError;
use crate::exec::task::trust::TrustedKeys;

/// Subcommands of `trumanfs result`.
#[derive(Subcommand, Debug)]
pub(super) enum ResultCommand {
    /// Says whether a result is valid, and of what (status 0, 1 for one that is not, 2 where that cannot be told)
    Verify(ResultVerifyArgs),
}

/// Arguments of `trumanfs result verify`.
#[derive(Args, Debug)]
pub(super) struct ResultVerifyArgs {
    /// The result's envelope; `-` is standard input
    #[arg(value_name = "R.json")]
    result: PathBuf,
    /// The executor's public key
    #[arg(
        long,
        value_name = "K.pub",
        required_unless_present = "trust",
        conflicts_with = "trust"
    )]
    key: Option<PathBuf>,
    /// The trusted keys, each in its time
    #[arg(long, value_name = "trust.json")]
    trust: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Does what was typed.
pub(super) fn result(command: &ResultCommand) -> ExitCode {
    let ResultCommand::Verify(args) = command;
    match verify(args) {
        Ok(exit) => exit.into(),
        // Three codes are promised, so that nobody takes a missing key for an answer about the result.
        Err(error) => {
            if args.json {
                report_failure_as_json(as_usage(error))
            } else {
                report_failure(&as_usage(error))
            };
            ExitReason::Usage.into()
        }
    }
}

fn as_usage(error: Error) -> Error {
    let (what, remedy) = error.into_words();
    Error::Usage { what, remedy }
}

fn verify(args: &ResultVerifyArgs) -> Result<ExitReason> {
    let verified = match (&args.key, &args.trust) {
        (Some(file), _) => {
            let key = PublicKey::load(file)?;
            let own = read(&args.result)?;
            own.and_then(|text| with_key(&text, &key))
        }
        (_, Some(file)) => {
            let trust = TrustedKeys::load(file)?;
            let own = read(&args.result)?;
            own.and_then(|text| with_trust(&text, &trust))
        }
        // clap asks for one of the two.
        (None, None) => return Err(Error::usage("whose result?", "Give --key or --trust.")),
    };
    let mut printer = Printer::new();
    match verified {
        Ok((result, keyid)) => {
            print_result(&mut printer, args, &result, &keyid)?;
            Ok(ExitReason::Ok)
        }
        Err(why) => {
            if args.json {
                printer.json(&serde_json::json!({ "valid": false, "why": why.to_string() }))?
            } else {
                printer.line(format_args!("not valid: {why}"))
            }
            Ok(ExitReason::Nothing)
        }
    }
}

/// Reads the result. One that is too long is none.
fn read(file: &Path) -> Result<std::result::Result<Vec<u8>, FormatError>> {
    let limit = PayloadType::Result.limit();
    let text = if file == Path::new("-") {
        host_files::read_stdin(limit)?
    } else {
        host_files::read_at_most(file, limit)?
    };
    Ok(text.ok_or_else(|| FormatError::new(format!("more than {limit} bytes"))))
}

type VerifiedResult = std::result::Result<(TaskResult, String), FormatError>;

fn with_key(text: &[u8], key: &PublicKey) -> VerifiedResult {
    let (result, key) = TaskResult::verify(text, [key])?;
    Ok((result, key.keyid().to_owned()))
}

fn with_trust(text: &[u8], trust: &TrustedKeys) -> VerifiedResult {
    let (result, key) = TaskResult::verify_by_trust(text, trust)?;
    Ok((result, key.keyid().to_owned()))
}

fn print_result(
    printer: &mut Printer,
    args: &ResultVerifyArgs,
    result: &TaskResult,
    keyid: &str,
) -> Result<()> {
    if args.json {
        let payload = result
            .to_payload()
            .map_err(|why| Error::Damaged(why.to_string()))?;
        let payload: serde_json::Value =
            serde_json::from_slice(&payload).map_err(|error| Error::Damaged(error.to_string()))?;
        return printer.json(&serde_json::json!({
            "valid": true, "keyid": keyid, "result": payload,
        }));
    }
    printer.line(format_args!(
        "valid: task {:?}, {} {}",
        result.task_id,
        result.capability_id,
        result.status()
    ));
    match &result.ending {
        TaskOutcome::Success(output) => {
            let summary = &output.result_summary;
            printer.line(format_args!("  source       {}", summary.source.as_str()));
            if let Some(destination) = &summary.destination {
                printer.line(format_args!("  destination  {}", destination.as_str()));
            }
            printer.line(format_args!(
                "  content      {} bytes, sha256 {}",
                summary.size,
                summary.sha256.as_deref().unwrap_or("not read")
            ));
            if let Some(undoes) = &output.undo_metadata.undoes {
                printer.line(format_args!("  takes back   task {undoes:?}"));
            }
        }
        TaskOutcome::Failed(failure) => printer.line(format_args!("  error        {failure}")),
    }
    printer.line(format_args!(
        "  executor     {}, key {keyid}",
        result.executor
    ));
    printer.line(format_args!(
        "  finished     {} (Unix seconds)",
        result.finished_at
    ));
    Ok(())
}
