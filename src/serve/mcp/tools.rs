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
use super::server_home::ProgramInfo;
use super::tool_context::{MAX_TIME, ToolContext, USUAL};
use super::{file_tools, history, job_tools, result_schemas};
use crate::exec::files::FileCall;
use crate::exec::program::{ProgramCommand, SystemShellSettings};

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
    description: &'static str,
    effect: ToolEffect,
    /// True if a second call with the same arguments makes no difference.
    is_idempotent: bool,
    schema: fn() -> JsonObject,
    result: fn() -> JsonObject,
    run: fn(&ToolContext, JsonObject) -> ToolAnswer,
}

/// All tools but those of the policy's programs.
const TOOLS: [ToolSpec; 14] = [
    ToolSpec {
        name: "bash",
        description: "Runs a line of the bundled shell in the home: bash's language without loops and functions; cd pwd cat head tail grep find wc mkdir \
                      touch rm mv cp echo ls which date true false, and the real programs that the policy allows. The working \
                      directory and variables last in a session. Removed and overwritten files can be brought back with undo.",
        effect: ToolEffect::Changes,
        is_idempotent: false,
        schema: arguments::schema::<BashArgs>,
        result: result_schemas::of_run,
        run: |work, arguments| with(arguments, |arguments| bash(work, &arguments)),
    },
    ToolSpec {
        name: "read_text_file",
        description: "Reads a text file, or some of its lines: head, tail, or offset and limit.",
        effect: ToolEffect::Reads,
        is_idempotent: true,
        schema: arguments::schema::<ReadTextFileArgs>,
        result: result_schemas::of_read,
        run: |work, arguments| with(arguments, |arguments| file_tools::read(work, arguments)),
    },
    ToolSpec {
        name: "write_file",
        description: "Writes a file, all of it. What it held before is kept and can be brought back with undo.",
        effect: ToolEffect::Changes,
        is_idempotent: true,
        schema: arguments::schema::<WriteFileArgs>,
        result: result_schemas::of_write,
        run: |work, arguments| with(arguments, |arguments| file_tools::write(work, arguments)),
    },
    ToolSpec {
        name: "edit_file",
        description: "Replaces texts in a file: `old_string` by `new_string`, or a list of `edits`. Each text must stand there \
                      exactly once, unless replace_all is true. Returns the difference.",
        effect: ToolEffect::Changes,
        is_idempotent: false,
        schema: arguments::schema::<EditFileArgs>,
        result: result_schemas::of_edit,
        run: |work, arguments| with(arguments, |arguments| file_tools::edit(work, arguments)),
    },
    ToolSpec {
        name: "list_directory",
        description: "Lists the entries of a directory: [DIR] or [FILE], and the name.",
        effect: ToolEffect::Reads,
        is_idempotent: true,
        schema: arguments::schema::<DirectoryArgs>,
        result: result_schemas::of_list,
        run: |work, arguments| {
            with(arguments, |path: DirectoryArgs| {
                file_tools::list(work, path)
            })
        },
    },
    ToolSpec {
        name: "search_files",
        description: "Finds files and directories by name, in everything below a directory.",
        effect: ToolEffect::Reads,
        is_idempotent: true,
        schema: arguments::schema::<SearchFilesArgs>,
        result: result_schemas::of_run,
        run: |work, arguments| with(arguments, |arguments| file_tools::search(work, &arguments)),
    },
    ToolSpec {
        name: "grep",
        description: "Finds lines that match a regular expression, in a file or in everything below a directory.",
        effect: ToolEffect::Reads,
        is_idempotent: true,
        schema: arguments::schema::<GrepArgs>,
        result: result_schemas::of_run,
        run: |work, arguments| with(arguments, |arguments| file_tools::grep(work, &arguments)),
    },
    ToolSpec {
        name: "move_file",
        description: "Moves or renames a file or a directory. Nothing may be at the destination.",
        effect: ToolEffect::Changes,
        is_idempotent: false,
        schema: arguments::schema::<TransferArgs>,
        result: result_schemas::of_change,
        run: |work, arguments| {
            with(arguments, |paths: TransferArgs| {
                let done = format!("{} is now {}", paths.source, paths.destination);
                file_tools::plain(
                    work,
                    FileCall::Move(paths.source.into(), paths.destination.into()),
                    done,
                )
            })
        },
    },
    ToolSpec {
        name: "copy_file",
        description: "Copies a regular file. Nothing may be at the destination.",
        effect: ToolEffect::Adds,
        is_idempotent: false,
        schema: arguments::schema::<TransferArgs>,
        result: result_schemas::of_change,
        run: |work, arguments| {
            with(arguments, |paths: TransferArgs| {
                let done = format!("{} is a copy of {}", paths.destination, paths.source);
                file_tools::plain(
                    work,
                    FileCall::Copy(paths.source.into(), paths.destination.into()),
                    done,
                )
            })
        },
    },
    ToolSpec {
        name: "remove",
        description: "Moves a file, or a directory with everything in it, into the trash, and says where it lies there. undo \
                      brings it back.",
        effect: ToolEffect::Changes,
        is_idempotent: false,
        schema: arguments::schema::<PathArgs>,
        result: result_schemas::of_remove,
        run: |work, arguments| with(arguments, |path: PathArgs| file_tools::remove(work, path)),
    },
    ToolSpec {
        name: "history",
        description: "Lists the runs of this session that changed something, the newest first, with the paths that each changed.",
        effect: ToolEffect::Reads,
        is_idempotent: true,
        schema: arguments::schema::<HistoryArgs>,
        result: result_schemas::of_history,
        run: |work, arguments| {
            with(arguments, |arguments| {
                or_error(history::history(work, &arguments))
            })
        },
    },
    ToolSpec {
        name: "undo",
        description: "Takes back what a run of this session changed: the last one, or the one that is named. What was changed \
                      since by somebody else is named and stays.",
        effect: ToolEffect::Changes,
        is_idempotent: false,
        schema: arguments::schema::<UndoToolArgs>,
        result: result_schemas::of_undo,
        run: |work, arguments| {
            with(arguments, |arguments| {
                or_error(history::undo(work, &arguments))
            })
        },
    },
    ToolSpec {
        name: "bash_output",
        description: "Says what a job has written since this was asked last, and whether it goes on.",
        effect: ToolEffect::Reads,
        is_idempotent: false,
        schema: arguments::schema::<JobOutputArgs>,
        result: result_schemas::of_job,
        run: |work, arguments| with(arguments, |arguments| job_tools::output(work, &arguments)),
    },
    ToolSpec {
        name: "bash_kill",
        description: "Ends a job with all its processes.",
        effect: ToolEffect::Changes,
        is_idempotent: true,
        schema: arguments::schema::<JobKillArgs>,
        result: result_schemas::of_job,
        run: |work, arguments| with(arguments, |arguments| job_tools::kill(work, &arguments)),
    },
];

/// The beginning of the names of tools that run a program.
pub(super) const RUN: &str = "run_";

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
    /// Returns what a client is shown of it. `reaches_out`: whether a line can reach the network; `shell`: the shell of this
    /// machine that runs lines, if one does.
    pub(super) fn shown(&self, reaches_out: bool, shell: Option<&SystemShellSettings>) -> Tool {
        let hints = ToolAnnotations::new()
            .read_only(self.effect == ToolEffect::Reads)
            .destructive(self.effect == ToolEffect::Changes)
            .idempotent(self.is_idempotent)
            .open_world(reaches_out && self.name == "bash");
        let description = match shell.filter(|_| self.name == "bash") {
            Some(shell) => Cow::from(describe_shell(shell, reaches_out)),
            None => Cow::from(self.description),
        };
        Tool::new(self.name, description, (self.schema)())
            .with_raw_output_schema(Arc::new((self.result)()))
            .with_annotations(hints)
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

/// Describes lines that a shell of this machine runs.
fn describe_shell(shell: &SystemShellSettings, reaches_out: bool) -> String {
    let shell = shell.shell.display();
    let network = match reaches_out {
        true => "Of the network, only some hosts can be reached.",
        false => "There is no network.",
    };
    format!(
        "Runs a line in {shell}, with the programs of this machine, in a sandbox: it can change the home and /tmp, and          nothing else. {network} The working directory, variables, functions and options last in a session; standard input          is empty. Removed and overwritten files can be brought back with undo."
    )
}

/// Returns what a client is shown of a real program.
pub(super) fn shown_program(name: String, program: &ProgramInfo) -> Tool {
    let description = format!(
        "Runs {} in the home, in a sandbox, as the policy allows it. {} A refusal names the rule. Its arguments are \
         words: no shell reads them.",
        program.name, program.said
    );
    let hints = ToolAnnotations::new()
        .read_only(program.is_read_only)
        .destructive(!program.is_read_only)
        .idempotent(false)
        .open_world(program.has_network);
    Tool::new(
        Cow::from(name),
        Cow::from(description),
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
        Some(outcome) => ToolAnswer::of_outcome(&outcome),
        None => ToolAnswer::failed(
            "ended while another line of this session ran: nothing of it was run",
        ),
    }
}
