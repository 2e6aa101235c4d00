//! Events, as agents tell of them.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The event before a call of a tool.
const BEFORE: &str = "PreToolUse";

/// Whose events they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Claude Code's: <https://code.claude.com/docs/en/hooks>.
    ClaudeCode,
    /// Codex': the same fields, other tools.
    Codex,
}

/// What is told of a call. Both agents tell more, and newer ones may tell more still.
#[derive(Debug, Deserialize)]
pub(super) struct Event {
    hook_event_name: String,
    /// Where the agent works.
    #[serde(default)]
    pub(super) cwd: String,
    /// The tool; other events have none.
    #[serde(default)]
    pub(super) tool_name: String,
    /// Its arguments.
    #[serde(default)]
    pub(super) tool_input: Map<String, Value>,
}

/// What a tool is about to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// To run a line, which stands in this argument.
    Line(&'static str, String),
    /// To read these files or directories.
    Reads(Vec<String>),
    /// To write these files.
    Writes(Vec<String>),
    /// Something that has nothing to do with files.
    Other,
    /// A tool of ours whose arguments are not as they should be.
    Strange(String),
}

impl Event {
    /// Returns whether it comes before a call.
    pub(super) fn is_before(&self) -> bool {
        self.hook_event_name == BEFORE
    }

    /// Returns what is about to be done.
    pub(super) fn call(&self, format: Format) -> Call {
        match (format, self.tool_name.as_str()) {
            (Format::Codex, "apply_patch") => self.patch(),
            (_, "Bash") | (Format::Codex, "shell" | "exec_command" | "local_shell") => self.line(),
            (_, "Read") => self.reads("file_path", true),
            (_, "Glob" | "Grep" | "LS") => self.reads("path", false),
            (_, "Write" | "Edit" | "MultiEdit") => self.writes("file_path"),
            (_, "NotebookEdit") => self.writes("notebook_path"),
            _ => Call::Other,
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        self.tool_input.get(name)?.as_str().map(str::to_owned)
    }

    fn strange(&self, name: &str) -> Call {
        Call::Strange(format!("{}: {name} is not a text", self.tool_name))
    }

    fn line(&self) -> Call {
        match self.text("command") {
            Some(line) => Call::Line("command", line),
            None => self.strange("command"),
        }
    }

    fn reads(&self, name: &str, is_needed: bool) -> Call {
        match self.text(name) {
            Some(path) => Call::Reads(vec![path]),
            // The working directory is meant.
            None if !is_needed && !self.tool_input.contains_key(name) => {
                Call::Reads(vec![self.cwd.clone()])
            }
            None => self.strange(name),
        }
    }

    fn writes(&self, name: &str) -> Call {
        match self.text(name) {
            Some(path) => Call::Writes(vec![path]),
            None => self.strange(name),
        }
    }

    /// Finds the files of a patch: they stand in its headings.
    fn patch(&self) -> Call {
        let Some(patch) = self.text("command").or_else(|| self.text("input")) else {
            return self.strange("command");
        };
        let headings = [
            "*** Add File: ",
            "*** Update File: ",
            "*** Delete File: ",
            "*** Move to: ",
        ];
        let path = |line: &str| {
            let line = line.trim();
            headings
                .iter()
                .find_map(|heading| line.strip_prefix(heading))
                .map(str::to_owned)
        };
        let paths: Vec<String> = patch.lines().filter_map(path).collect();
        match paths.is_empty() {
            true => Call::Strange("apply_patch: no file is named in it".to_owned()),
            false => Call::Writes(paths),
        }
    }
}
