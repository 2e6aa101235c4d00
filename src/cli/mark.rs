//! `mark`: a turn begins, said from inside an agent's sandbox.

use std::ffi::OsString;
use std::io::Read;

use clap::Args;
use serde::Deserialize;

use super::escaping::print_error;
use super::exit::ExitReason;
use super::output::{Printer, print_line};
use crate::error::{Error, Result};
use crate::exec::program::TurnRequest;

/// The most of an event that is read, in bytes: its prompt may be long.
const MAX_EVENT: u64 = 32 << 20;

/// The most of a prompt that is passed on, in characters: its first line counts.
const MAX_PROMPT_CHARS: usize = 1000;

/// Arguments of `trumanfs mark`.
#[derive(Args, Debug)]
pub(super) struct MarkArgs {
    /// What the turn is about; its first line is kept
    text: Option<OsString>,
    /// The agent's id of the conversation, in which turns are counted
    #[arg(long, value_name = "ID", conflicts_with = "hook")]
    conversation: Option<String>,
    /// Read the event of an agent's hook for prompts on standard input (`prompt`, `session_id`). It ends with 0 whatever
    /// happens, so that no prompt is held up
    #[arg(long, conflicts_with = "text")]
    hook: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The part of an agent's event that tells of a prompt.
#[derive(Deserialize)]
struct PromptEvent {
    #[serde(default)]
    prompt: String,
    session_id: Option<String>,
}

/// Marks that a turn begins.
pub(super) fn mark(args: &MarkArgs) -> Result<ExitReason> {
    if args.hook {
        if let Err(error) = event().and_then(|request| request.send()) {
            print_error(format_args!("trumanfs: {}", error.full_message()));
        }
        return Ok(ExitReason::Ok);
    }
    let text = args.text.clone().unwrap_or_default();
    let turn = TurnRequest {
        text: text
            .to_string_lossy()
            .chars()
            .take(MAX_PROMPT_CHARS)
            .collect(),
        conversation: args.conversation.clone(),
    }
    .send()?;
    match args.json {
        true => Printer::new().json(&serde_json::json!({ "turn": turn }))?,
        false => print_line(format_args!("turn {turn}")),
    }
    Ok(ExitReason::Ok)
}

fn event() -> Result<TurnRequest> {
    let mut bytes = Vec::new();
    let read = std::io::stdin()
        .lock()
        .take(MAX_EVENT)
        .read_to_end(&mut bytes);
    read.map_err(|error| Error::io("read", &error))?;
    let event: PromptEvent = serde_json::from_slice(&bytes)
        .map_err(|error| Error::usage(format!("the event is not understood: {error}"), ""))?;
    Ok(TurnRequest {
        text: event
            .prompt
            .trim_start()
            .chars()
            .take(MAX_PROMPT_CHARS)
            .collect(),
        conversation: event.session_id,
    })
}
