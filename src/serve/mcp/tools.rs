//! The tools: what each is called, says of itself, takes and does.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};

use super::answer::ToolAnswer;
use super::arguments::{
    self, BashArgs, DirectoryArgs, EditFileArgs, GrepArgs, HistoryArgs, JobKillArgs, JobOutputArgs,
    PathArgs, ReadTextFileArgs, RunProgramArgs, SearchFilesArgs, TransferArgs, UndoToolArgs,
    WriteFileArgs,
};
use super::server_home::{ProgramInfo, ServerHome};
use super::tool_context::{MAX_TIME, ToolContext, USUAL};
use super::tool_descriptions::{describe_lines, describe_program};
use super::way_out::way_out;
use super::{file_tools, history, job_tools, result_schemas};
use crate::exec::files::FileCall;
use crate::exec::program::ProgramCommand;

/// The effect of a tool on what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolEffect {
    /// Nothing.
    Reads,
    /// Makes something where nothing is.
    Adds,
    /// Changes or removes what is there, and all of it can be brought back.
    Changes,
}

/// A tool.
pub(super) struct ToolSpec {
    pub(super) name: &'static str,
    /// The description for clients; that of lines depends on the shell.
    description: &'static str,
    effect: ToolEffect,
    /// True if a second call with the same arguments makes no difference.
    is_idempotent: bool,
    /// True if it is offered where nobody chooses the tools.
    is_usual: bool,
    schema: fn() -> JsonObject,
    /// The shape of its answer, if that is more than a text.
    result: Option<fn() -> JsonObject>,
    run: fn(&ToolContext, JsonObject) -> ToolAnswer,
}

/// All tools but those of the policy's programs.
const TOOLS: [ToolSpec; 14] = [
    ToolSpec {
        name: "bash",
        description: "",
        effect: ToolEffect::Changes,
        is_idempotent: false,
        is_usual: true,
        schema: arguments::schema::<BashArgs>,
        result: Some(result_schemas::of_run),
        run: |work, arguments| with(arguments, |arguments| bash(work, &arguments)),
    },
    ToolSpec {
        name: "read_text_file",
        description: "Reads a text file, or lines of it: head, tail, or offset and limit. Not binary files.",
        effect: ToolEffect::Reads,
        is_idempotent: true,
        is_usual: true,
        schema: arguments::schema::<ReadTextFileArgs>,
        result: None,
        run: |work, arguments| with(arguments, |arguments| file_tools::read(work, arguments)),
    },
    ToolSpec {
        name: "write_file",
        description: "Writes a whole file, and makes the directories above it. undo brings back what it held before.",
        effect: ToolEffect::Changes,
        is_idempotent: true,
        is_usual: true,
        schema: arguments::schema::<WriteFileArgs>,
        result: None,
        run: |work, arguments| with(arguments, |arguments| file_tools::write(work, arguments)),
    },
    ToolSpec {
        name: "edit_file",
        description: "Replaces old_string by new_string, or each of edits. A text that is not there exactly once fails, unless replace_all. Returns the difference.",
        effect: ToolEffect::Changes,
        is_idempotent: false,
        is_usual: true,
        schema: arguments::schema::<EditFileArgs>,
        result: None,
        run: |work, arguments| with(arguments, |arguments| file_tools::edit(work, arguments)),
    },
    ToolSpec {
        name: "list_directory",
        description: "Lists a directory, up to 1000 entries: [DIR] or [FILE], and the name.",
        effect: ToolEffect::Reads,
        is_idempotent: true,
        is_usual: true,
        schema: arguments::schema::<DirectoryArgs>,
        result: Some(result_schemas::of_list),
        run: |work, arguments| {
            with(arguments, |path: DirectoryArgs| {
                file_tools::list(work, path)
            })
        },
    },
    ToolSpec {
        name: "search_files",
        description: "Finds files and directories by name, below a directory.",
        effect: ToolEffect::Reads,
        is_idempotent: true,
        is_usual: true,
        schema: arguments::schema::<SearchFilesArgs>,
        result: None,
        run: |work, arguments| with(arguments, |arguments| file_tools::search(work, &arguments)),
    },
    ToolSpec {
        name: "grep",
        description: "Finds lines that match an extended regular expression (no lookaround, no \\d), below a directory or in a file.",
        effect: ToolEffect::Reads,
        is_idempotent: true,
        is_usual: true,
        schema: arguments::schema::<GrepArgs>,
        result: None,
        run: |work, arguments| with(arguments, |arguments| file_tools::grep(work, &arguments)),
    },
    ToolSpec {
        name: "move_file",
        description: "Moves or renames. Nothing may be at the destination.",
        effect: ToolEffect::Changes,
        is_idempotent: false,
        is_usual: false,
        schema: arguments::schema::<TransferArgs>,
        result: None,
        run: |work, arguments| {
            with(arguments, |paths: TransferArgs| {
                let done = format!("{} is now {}", paths.source, paths.destination);
                let call = FileCall::Move(paths.source.into(), paths.destination.into());
                file_tools::plain(work, call, done)
            })
        },
    },
    ToolSpec {
        name: "copy_file",
        description: "Copies a regular file. Nothing may be at the destination.",
        effect: ToolEffect::Adds,
        is_idempotent: false,
        is_usual: false,
        schema: arguments::schema::<TransferArgs>,
        result: None,
        run: |work, arguments| {
            with(arguments, |paths: TransferArgs| {
                let done = format!("{} is a copy of {}", paths.destination, paths.source);
                let call = FileCall::Copy(paths.source.into(), paths.destination.into());
                file_tools::plain(work, call, done)
            })
        },
    },
    ToolSpec {
        name: "remove",
        description: "Moves a file, or a directory with all in it, to the trash. undo brings it back.",
        effect: ToolEffect::Changes,
        is_idempotent: false,
        is_usual: true,
        schema: arguments::schema::<PathArgs>,
        result: None,
        run: |work, arguments| with(arguments, |path: PathArgs| file_tools::remove(work, path)),
    },
    ToolSpec {
        name: "history",
        description: "Lists the runs of this session that changed something, newest first, with the paths.",
        effect: ToolEffect::Reads,
        is_idempotent: true,
        is_usual: true,
        schema: arguments::schema::<HistoryArgs>,
        result: Some(result_schemas::of_history),
        run: |work, arguments| {
            with(arguments, |arguments| {
                or_error(history::history(work, &arguments))
            })
        },
    },
    ToolSpec {
        name: "undo",
        description: "Takes back a run of this session. What was changed since by another is a conflict, and nothing is undone.",
        effect: ToolEffect::Changes,
        is_idempotent: false,
        is_usual: true,
        schema: arguments::schema::<UndoToolArgs>,
        result: Some(result_schemas::of_undo),
        run: |work, arguments| {
            with(arguments, |arguments| {
                or_error(history::undo(work, &arguments))
            })
        },
    },
    ToolSpec {
        name: "bash_output",
        description: "Says what a job has written since it was asked last, and whether it goes on. With offset: reads on where an answer was cut.",
        effect: ToolEffect::Reads,
        is_idempotent: false,
        is_usual: true,
        schema: arguments::schema::<JobOutputArgs>,
        result: Some(result_schemas::of_job),
        run: |work, arguments| with(arguments, |arguments| job_tools::output(work, &arguments)),
    },
    ToolSpec {
        name: "bash_kill",
        description: "Ends a job with all its processes.",
        effect: ToolEffect::Changes,
        is_idempotent: true,
        is_usual: true,
        schema: arguments::schema::<JobKillArgs>,
        result: None,
        run: |work, arguments| with(arguments, |arguments| job_tools::kill(work, &arguments)),
    },
];

/// The beginning of the names of tools that run a program.
pub(super) const RUN: &str = "run_";
/// The tool that runs lines.
pub(super) const LINES: &str = "bash";

/// Returns the names of all tools but those of the policy's programs.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|tool| tool.name)
}

/// Returns the tool of a name.
pub(super) fn find(name: &str) -> Option<&'static ToolSpec> {
    static ALL: &[ToolSpec] = &TOOLS;
    ALL.iter().find(|tool| tool.name == name)
}

impl ToolSpec {
    /// Returns what a client is shown of it.
    pub(super) fn shown(&self, home: &ServerHome) -> Tool {
        let is_lines = self.name == LINES;
        let hints = ToolAnnotations::new()
            .read_only(self.effect == ToolEffect::Reads)
            .destructive(self.effect == ToolEffect::Changes)
            .idempotent(self.is_idempotent)
            .open_world(is_lines && home.reaches_out());
        let description = match is_lines {
            true => Cow::from(describe_lines(home)),
            false => Cow::from(self.description),
        };
        let tool = Tool::new(self.name, description, (self.schema)()).with_annotations(hints);
        match self.result {
            Some(result) => tool.with_raw_output_schema(Arc::new(result())),
            None => tool,
        }
    }

    /// Returns whether it is offered where nobody chooses the tools.
    pub(super) fn is_usual(&self) -> bool {
        self.is_usual
    }

    /// Does it.
    pub(super) fn run(&self, work: &ToolContext, arguments: JsonObject) -> ToolAnswer {
        (self.run)(work, arguments)
    }

    /// Returns whether it is about jobs, and becomes none itself.
    pub(super) fn is_about_jobs(&self) -> bool {
        self.name.starts_with("bash_")
    }
}

/// Returns what a client is shown of a real program.
pub(super) fn shown_program(name: String, program: &ProgramInfo) -> Tool {
    let hints = ToolAnnotations::new()
        .read_only(program.is_read_only)
        .destructive(!program.is_read_only)
        .idempotent(false)
        .open_world(program.has_network);
    Tool::new(
        Cow::from(name),
        Cow::from(describe_program(program)),
        arguments::schema::<RunProgramArgs>(),
    )
    .with_raw_output_schema(Arc::new(result_schemas::of_run()))
    .with_annotations(hints)
}

/// Runs a real program.
pub(super) fn run_program(work: &ToolContext, program: &str, arguments: JsonObject) -> ToolAnswer {
    with(arguments, |arguments: RunProgramArgs| {
        let timeout = match time(arguments.timeout) {
            Ok(timeout) => timeout,
            Err(wrong) => return ToolAnswer::failed(wrong),
        };
        let words = std::iter::once(program.as_bytes().to_vec());
        let command = ProgramCommand {
            argv: words
                .chain(arguments.args.into_iter().map(String::into_bytes))
                .collect(),
            cwd: match arguments.cwd {
                Some(cwd) => cwd.into_bytes(),
                None => work.session.cwd(),
            },
            timeout: arguments.timeout.map(|_| timeout),
            ..ProgramCommand::default()
        };
        work.program(command, &arguments.stdin)
    })
}

/// Reads arguments and acts on them.
fn with<T: serde::de::DeserializeOwned>(
    arguments: JsonObject,
    act: impl FnOnce(T) -> ToolAnswer,
) -> ToolAnswer {
    match arguments::read(arguments) {
        Ok(arguments) => act(arguments),
        Err(wrong) => ToolAnswer::failed(wrong),
    }
}

fn or_error(answer: crate::error::Result<ToolAnswer>) -> ToolAnswer {
    answer.unwrap_or_else(ToolAnswer::from)
}

/// Reads a number of seconds.
fn time(seconds: Option<f64>) -> Result<Duration, String> {
    let Some(seconds) = seconds else {
        return Ok(USUAL);
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time <= MAX_TIME && !time.is_zero() => Ok(time),
        _ => Err(format!(
            "timeout: {seconds}: give seconds, up to {}",
            MAX_TIME.as_secs()
        )),
    }
}

fn bash(work: &ToolContext, arguments: &BashArgs) -> ToolAnswer {
    let time = match time(arguments.timeout) {
        Ok(time) => time,
        Err(wrong) => return ToolAnswer::failed(wrong),
    };
    match work.line_in_session(&arguments.command, time) {
        Some(outcome) => {
            let mut answer = work.answer(&outcome);
            if let Some(instead) = way_out(&work.workplace, &outcome) {
                answer.add_note(&instead);
            }
            answer
        }
        None => ToolAnswer::failed(
            "ended while another line of this session ran: nothing of it was run",
        ),
    }
}
