//! The tools for files: their arguments become operations on files, or lines of the shell for searches.

use super::answer::{ToolAnswer, cut, patch, word};
use super::arguments::{
    DirectoryArgs, EditFileArgs, GrepArgs, GrepOutput, PathArgs, ReadTextFileArgs, SearchFilesArgs,
    WriteFileArgs,
};
use super::tool_context::{ToolContext, USUAL};
use crate::exec::files::{FileCall, FileEdit, FileResult, LineWindow};
use crate::exec::{Outcome, Status};
use crate::name::escape;

/// Makes an answer of an operation on files: its text, or why it failed.
fn of_file(outcome: &Outcome) -> ToolAnswer {
    if outcome.status == Status::Success {
        let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
        return ToolAnswer::new(text).with("run", outcome.run.to_string());
    }
    let why = outcome
        .error_message
        .clone()
        .unwrap_or_else(|| word(outcome.status));
    ToolAnswer::failed(why)
        .with("run", outcome.run.to_string())
        .with("status", word(outcome.status))
}

/// Does an operation that has nothing to say where it succeeds.
pub(super) fn plain(work: &ToolContext, call: FileCall, done: String) -> ToolAnswer {
    let (outcome, _) = work.file(call);
    let answer = of_file(&outcome);
    match answer.is_error {
        true => answer,
        false => ToolAnswer {
            text: done,
            ..answer
        },
    }
}

pub(super) fn read(work: &ToolContext, arguments: ReadTextFileArgs) -> ToolAnswer {
    let window = match (
        arguments.head,
        arguments.tail,
        arguments.offset,
        arguments.limit,
    ) {
        (None, None, None, None) => LineWindow::All,
        (Some(head), None, None, None) => LineWindow::From(1, head),
        (None, Some(tail), None, None) => LineWindow::Last(tail),
        (None, None, offset, limit) => {
            LineWindow::From(offset.unwrap_or(1).max(1), limit.unwrap_or(u64::MAX))
        }
        _ => {
            return ToolAnswer::failed(
                "head, tail and offset exclude each other: give one of them",
            );
        }
    };
    let (outcome, found) = work.file(FileCall::Read(arguments.path.into(), window));
    let mut answer = of_file(&outcome).with("truncated", outcome.truncated_stdout);
    if outcome.truncated_stdout {
        answer.add_line(
            "[cut in the middle: read the rest with offset and limit, which count lines]",
        );
    }
    match found {
        Some(FileResult::Lines { first, size }) => {
            answer.with("first_line", first).with("size", size)
        }
        _ => answer,
    }
}

pub(super) fn write(work: &ToolContext, arguments: WriteFileArgs) -> ToolAnswer {
    let (path, bytes) = (arguments.path.clone(), arguments.content.len());
    let (outcome, found) = work.file(FileCall::Write(
        arguments.path.into(),
        arguments.content.into(),
    ));
    let answer = of_file(&outcome);
    match found {
        Some(FileResult::Written(made)) => {
            let how = if made {
                "made"
            } else {
                "written; what it held before is kept"
            };
            let text = format!("{path}: {bytes} bytes, {how}");
            ToolAnswer { text, ..answer }
                .with("bytes", bytes)
                .with("created", made)
        }
        _ => answer,
    }
}

pub(super) fn edit(work: &ToolContext, arguments: EditFileArgs) -> ToolAnswer {
    let one = |old: String, new: String, all| FileEdit {
        old: old.into(),
        new: new.into(),
        all,
    };
    let edits = match (arguments.edits, arguments.old_string, arguments.new_string) {
        (Some(edits), None, None) => {
            let edits = edits.into_iter();
            edits
                .map(|edit| one(edit.old, edit.new, edit.replace_all))
                .collect()
        }
        (None, Some(old), Some(new)) => vec![one(old, new, arguments.replace_all)],
        _ => return ToolAnswer::failed("give either edits, or old_string and new_string"),
    };
    if edits.is_empty() {
        return ToolAnswer::failed("edits: there is none");
    }
    let dry = arguments.dry_run;
    let (outcome, found) = work.file(FileCall::Edit(arguments.path.into(), edits, dry));
    let answer = of_file(&outcome);
    match found {
        Some(FileResult::Edited(edited)) => {
            let most = usize::try_from(work.bytes).unwrap_or(usize::MAX);
            let patch = cut(patch(edited.before, edited.after), most);
            ToolAnswer {
                text: patch.clone(),
                ..answer
            }
            .with("diff", patch)
            .with("replaced", edited.places)
            .with("written", !dry)
        }
        _ => answer,
    }
}

pub(super) fn list(work: &ToolContext, arguments: DirectoryArgs) -> ToolAnswer {
    let (outcome, found) = work.file(FileCall::List(arguments.path.into()));
    let mut answer = of_file(&outcome).with("truncated", outcome.truncated_stdout);
    if outcome.truncated_stdout {
        answer.add_line(
            "[not all: ask search_files for those with some name, or bash for `ls | tail`]",
        );
    }
    match found {
        Some(FileResult::Entries(entries)) => {
            answer.with("entries", serde_json::to_value(entries).unwrap_or_default())
        }
        _ => answer,
    }
}

pub(super) fn remove(work: &ToolContext, arguments: PathArgs) -> ToolAnswer {
    let path = arguments.path.clone();
    let (outcome, _) = work.file(FileCall::Remove(arguments.path.into()));
    let answer = of_file(&outcome);
    if answer.is_error {
        return answer;
    }
    let entries = work
        .workplace
        .client()
        .and_then(|client| client.entries_trashed_by(outcome.run));
    // A directory goes after what is in it, and gathers that under its own entry.
    let entry = entries.ok().and_then(|entries| entries.into_iter().next());
    let entry = entry.map(|entry| format!(".trash/{}", escape(&entry.0)));
    let text = match &entry {
        Some(entry) => format!(
            "{path} lies in {entry} now; undo with run {} brings it back",
            outcome.run
        ),
        None => format!(
            "{path} lies in the trash now; undo with run {} brings it back",
            outcome.run
        ),
    };
    ToolAnswer { text, ..answer }.with("trash", entry)
}

/// Makes an answer of a search: that nothing was found is no failure.
fn found(work: &ToolContext, outcome: Outcome, nothing: &str) -> ToolAnswer {
    let is_nothing = outcome.stdout.is_empty() && outcome.stderr.is_empty();
    match (outcome.status, outcome.return_code) {
        (Status::Success | Status::Failed, 0 | 1) if is_nothing => ToolAnswer {
            text: format!("{nothing}\n"),
            ..ToolAnswer::of_outcome(&Outcome {
                status: Status::Success,
                return_code: 0,
                ..outcome
            })
        },
        _ => {
            let failed = outcome.status != Status::Success && outcome.stdout.is_empty();
            ToolAnswer {
                is_error: failed,
                ..work.answer(&outcome)
            }
        }
    }
}

pub(super) fn search(work: &ToolContext, arguments: &SearchFilesArgs) -> ToolAnswer {
    let path = operand(&arguments.path);
    let mut words = vec!["find", &path];
    for pattern in &arguments.exclude {
        words.extend(["-name", pattern, "-prune", "-o"]);
    }
    let pattern = arguments.pattern.trim_start_matches("**/");
    let whole = format!("*/{}", pattern.trim_start_matches('/'));
    match pattern.contains('/') {
        true => words.extend(["-path", &whole, "-print"]),
        false => words.extend(["-name", pattern, "-print"]),
    }
    let outcome = work.line_aside(&words, USUAL);
    found(work, outcome, "no file has such a name")
}

pub(super) fn grep(work: &ToolContext, arguments: &GrepArgs) -> ToolAnswer {
    let mut words = vec!["grep", "-rnE"];
    if arguments.ignore_case {
        words.push("-i");
    }
    match arguments.output_mode {
        GrepOutput::Content => {}
        GrepOutput::FilesWithMatches => words.push("-l"),
        GrepOutput::Count => words.push("-c"),
    }
    let context = arguments.context.to_string();
    if arguments.context > 0 {
        words.extend(["-C", &context]);
    }
    let glob = arguments
        .glob
        .as_ref()
        .map(|glob| format!("--include={glob}"));
    words.extend(glob.as_deref());
    words.extend(["-e", &arguments.pattern, "--", &arguments.path]);
    let outcome = work.line_aside(&words, USUAL);
    found(work, outcome, "no line matches")
}

/// Keeps a path from being read as an option.
fn operand(path: &str) -> String {
    match path.starts_with(['-', '(', '!']) {
        true => format!("./{path}"),
        false => path.to_owned(),
    }
}
