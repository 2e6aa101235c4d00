//! `show`: everything about one operation, in words.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::Args;

use super::super::exit::ExitReason;
use super::super::output::{Printer, TextStyle, bytes, quote};
use super::super::shown_time::{exact_time, time};
use super::words::describe;
use crate::client::Client;
use crate::error::Result;
use crate::journal::{KeepMethod, Op, UndoId};
use crate::name::{WorldPath, escape};
use crate::operator::show::{RecordDetails, RecordPreimage, TrashFate};

/// Arguments of `trumanfs show`.
#[derive(Args, Debug)]
pub(in crate::cli) struct ShowArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// The operation: its number in the last session, or SESSION:NUMBER
    operation: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print to the terminal itself, without a pager
    #[arg(long)]
    no_pager: bool,
}

impl ShowArgs {
    /// Returns whether a pager may show what is printed.
    pub(in crate::cli) fn is_paged(&self) -> bool {
        !self.json && !self.no_pager
    }
}

/// Says everything about one operation.
pub(in crate::cli) fn show(args: &ShowArgs) -> Result<ExitReason> {
    let client = Client::open(&args.target)?;
    let shown = client.show(&client.operation(&args.operation)?)?;
    let mut printer = Printer::new();
    if args.json {
        printer.json(&shown)?
    } else {
        print_details(&mut printer, &shown, &args.target)
    }
    Ok(ExitReason::Ok)
}

fn print_details(printer: &mut Printer, shown: &RecordDetails, target: &Path) {
    let record = &shown.record;
    let heading = format!("operation {}:{}", shown.session, record.seq);
    let heading = printer.style(TextStyle::Heading, &heading);
    printer.line(format_args!("{heading}"));
    let mut field = |name: &str, text: &dyn Display| {
        printer.line(format_args!("  {name:<10}{text}"));
    };
    field("when", &exact_time(&record.time));
    match &record.actor {
        Some(actor) => {
            let name = if actor.comm.is_empty() {
                "a program that had ended"
            } else {
                &actor.comm
            };
            let exe = if actor.exe.is_empty() {
                String::new()
            } else {
                format!(" ({})", actor.exe)
            };
            field(
                "who",
                &format_args!(
                    "{name}{exe}, process {}, user {}, group {}",
                    actor.pid, actor.uid, actor.gid
                ),
            );
        }
        None => field("who", &"trumanfs itself"),
    }
    field("what", &describe(&record.op));
    let what = shown.part_of.as_deref().unwrap_or("?");
    let is_own = matches!(record.op, Op::Undo { .. } | Op::Run { .. });
    match (record.origin.run, record.undo_id()) {
        (Some(run), _) if is_own => field("run", &run),
        (Some(run), _) => {
            let kind = record.origin.kind.word();
            field("for", &format_args!("{kind} {run}, {what}"));
        }
        (None, Some(UndoId::Record(seq))) if !is_own => {
            field("for", &format_args!("undo {}:{seq}, {what}", shown.session));
        }
        _ => {}
    }
    for line in former_state(&record.op) {
        field("before", &line);
    }
    if let Some(error) = &shown.not_done {
        field("outcome", &format_args!("it did not happen: {error}"));
        return;
    }
    if let Some(former) = &shown.former {
        field("content", &content(former));
    }
    if let Some(trash) = &shown.trash {
        field("now", &fate_words(trash));
    }
    for undo in &shown.taken_back {
        let verb = if undo.redo {
            "brought about again"
        } else {
            "taken back"
        };
        field(
            "later",
            &format_args!(
                "{verb} by {} at {} ({})",
                undo.by,
                time(&undo.time),
                undo.what
            ),
        );
    }
    for (why, command) in commands(shown, target) {
        field(why, &command);
    }
}

/// What was there before, as far as the record itself says it.
fn former_state(op: &Op) -> Vec<String> {
    let mut lines = Vec::new();
    match op {
        Op::Write { size, mode, .. } => {
            lines.push(bytes(*size));
            lines.extend(mode.map(|mode| format!("mode {mode:o}")));
        }
        Op::Truncate { size, .. } | Op::Content { size, .. } | Op::Allocate { size, .. } => {
            lines.push(bytes(*size));
        }
        Op::Attr { was, .. } => lines.push(format!(
            "mode {:o}, owner {}, group {}",
            was.mode & 0o7777,
            was.uid,
            was.gid
        )),
        Op::Xattr { was, .. } => lines.push(match was {
            Some(value) => format!("value {}", escape(&value.0)),
            None => "no such attribute".to_owned(),
        }),
        _ => {}
    }
    lines
}

fn content(former: &RecordPreimage) -> String {
    let how = match former.how {
        KeepMethod::Moved => "the file itself was moved aside",
        KeepMethod::Cloned => "shares the file's blocks",
        KeepMethod::Copied => "a copy",
        KeepMethod::Blocks => "the blocks that were overwritten since",
        KeepMethod::Length => {
            return format!(
                "kept by its length: its first {} are still in the file",
                bytes(former.size)
            );
        }
    };
    if !former.there {
        return match &former.evicted_by {
            Some(by) if former.volatile => {
                format!("was not kept, as volatile: version {} of {by}", former.n)
            }
            Some(by) => format!(
                "was kept as version {}, and deleted to make room by {by}",
                former.n
            ),
            None => format!(
                "was kept as version {}, which is not there any more",
                former.n
            ),
        };
    }
    format!(
        "{} kept as version {} ({how}; {} on disk)",
        bytes(former.size),
        former.n,
        bytes(former.on_disk)
    )
}

fn fate_words(trash: &TrashFate) -> String {
    match trash {
        TrashFate::Trash { entry, size } => {
            let size = size.map_or_else(String::new, |size| format!(", {}", bytes(size)));
            format!("in the trash as {}{size}", escape(&entry.0))
        }
        TrashFate::Restored { by, to } => format!("brought back to {to} by {by}"),
        TrashFate::Purged { by, volatile } => {
            let why = if *volatile { ", as volatile," } else { "" };
            format!("deleted for good{why} by {by}")
        }
        TrashFate::Gone => {
            "not in the trash any more; somebody took it out behind the mount".to_owned()
        }
    }
}

/// The commands that get something back, exactly as they are to be typed.
fn commands(shown: &RecordDetails, target: &Path) -> Vec<(&'static str, String)> {
    let (session, seq) = (&shown.session, shown.record.seq);
    let target = quote(target.as_os_str().as_encoded_bytes());
    let path_of = |path: &WorldPath| quote(&[b"/", path.bytes()].concat());
    let mut commands = Vec::new();
    if let (Some(former), Some(path)) = (&shown.former, file_of(&shown.record.op))
        && former.there
        && !shown.in_original
    {
        // A point means just after an operation, so the content before it is that after the one before.
        let path = path_of(path);
        commands.push((
            "to see it",
            format!("trumanfs cat {target} {path} --at {session}:{}", seq - 1),
        ));
    }
    if let Some(TrashFate::Trash { entry, .. }) = &shown.trash {
        let entry = quote(&entry.0);
        commands.push((
            "to get it",
            format!("trumanfs trash restore {target} {entry}"),
        ));
    }
    let state = shown.taken_back.last().map(|undo| undo.redo);
    if shown.record.can_be_undone() && !shown.in_original && state != Some(false) {
        commands.push(("to undo", format!("trumanfs undo {target} {session}:{seq}")));
    }
    commands
}

fn file_of(op: &Op) -> Option<&WorldPath> {
    match op {
        Op::Write { path, .. }
        | Op::Truncate { path, .. }
        | Op::Content { path, .. }
        | Op::Allocate { path, .. } => Some(path),
        _ => None,
    }
}
