//! Events, as agents tell of them.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::glob_pattern;
use super::path_readings::trimmed;

/// The event before a call of a tool.
const BEFORE: &str = "PreToolUse";

/// The agent that sends the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentKind {
    /// Claude Code's: <https://code.claude.com/docs/en/hooks>.
    ClaudeCode,
    /// Codex': the same fields, other tools.
    Codex,
}

/// The fields of an event that describe a call. Both agents send more fields, and newer agents may send more still.
#[derive(Debug, Deserialize)]
pub(super) struct HookEvent {
    hook_event_name: String,
    /// The directory that the agent works in.
    #[serde(default)]
    pub(super) cwd: String,
    /// The mode that says what the agent may do without asking a person: `default`, `plan`, `acceptEdits`, …
    #[serde(default)]
    pub(super) permission_mode: String,
    /// The tool; other events have none.
    #[serde(default)]
    pub(super) tool_name: String,
    /// Its arguments.
    #[serde(default)]
    pub(super) tool_input: Map<String, Value>,
}

/// The action that a tool is about to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToolCall {
    /// To run a line, which stands in this argument.
    Line(&'static str, String),
    /// To read these files or directories, or what lies below them.
    Reads(Vec<CallPath>),
    /// To write these files.
    Writes(Vec<CallPath>),
    /// Something that has nothing to do with files.
    Other,
    /// A call that is denied for this reason: it is not understood, or runs something outside.
    Strange(String),
}

/// A path of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CallPath {
    /// As it was typed.
    pub(super) typed: String,
    /// The path that `typed` leads to from the working directory, or `None` if that is not known.
    pub(super) leads: Option<String>,
}

impl CallPath {
    fn path(typed: String) -> CallPath {
        CallPath {
            leads: Some(typed.clone()),
            typed,
        }
    }
}

impl HookEvent {
    /// Returns whether it comes before a call.
    pub(super) fn is_before(&self) -> bool {
        self.hook_event_name == BEFORE
    }

    /// Returns why the event does not say enough to decide about it, if that is so.
    pub(super) fn defect(&self) -> Option<&'static str> {
        let is_misspelt = self.hook_event_name.eq_ignore_ascii_case(BEFORE) && !self.is_before();
        match () {
            () if self.hook_event_name.is_empty() || is_misspelt => Some("its name is unknown"),
            () if !self.is_before() => None,
            () if self.tool_name.is_empty() => Some("it names no tool"),
            () if !self.cwd.starts_with('/') => Some("its cwd is not an absolute path"),
            () => None,
        }
    }

    /// Returns what is about to be done.
    pub(super) fn call(&self, format: AgentKind) -> ToolCall {
        match (format, self.tool_name.as_str()) {
            (AgentKind::ClaudeCode, tool @ ("PowerShell" | "REPL")) => ToolCall::Strange(format!(
                "{tool}: what it runs is outside the home; use Bash, whose lines run in the home"
            )),
            (AgentKind::Codex, "apply_patch") => self.patch(),
            (AgentKind::Codex, "view_image") => self.reads("path", true),
            (_, "Bash") | (AgentKind::Codex, "shell" | "exec_command" | "local_shell") => {
                self.line()
            }
            // It runs a line, or listens to a socket.
            (AgentKind::ClaudeCode, "Monitor") if self.tool_input.contains_key("command") => {
                self.line()
            }
            (_, "Read") => self.reads("file_path", true),
            (AgentKind::ClaudeCode, "LSP") => self.reads("filePath", true),
            (_, "Grep" | "LS") => self.reads("path", false),
            (_, "Glob") => self.glob(),
            (_, "Write" | "Edit" | "MultiEdit") => self.writes("file_path"),
            (_, "NotebookEdit") => self.writes("notebook_path"),
            (AgentKind::ClaudeCode, "Artifact") => self.reads("file_path", true),
            (AgentKind::ClaudeCode, "SendUserFile") => self.sends(&["files"]),
            (AgentKind::ClaudeCode, "SendUserMessage" | "Brief") => self.sends(&["attachments"]),
            (AgentKind::ClaudeCode, "Projects") => self.sends(&["local_path"]),
            (AgentKind::ClaudeCode, "DesignSync") => self.sends(&["localDir", "files"]),
            (AgentKind::ClaudeCode, "Workflow") => self.sends(&["scriptPath"]),
            (AgentKind::ClaudeCode, "EnterWorktree") => self.sends(&["path"]),
            _ => ToolCall::Other,
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        self.tool_input.get(name)?.as_str().map(str::to_owned)
    }

    fn strange(&self, name: &str) -> ToolCall {
        ToolCall::Strange(format!("{}: {name} is not a text", self.tool_name))
    }

    fn line(&self) -> ToolCall {
        match self.text("command") {
            Some(line) => ToolCall::Line("command", line),
            None => self.strange("command"),
        }
    }

    fn reads(&self, name: &str, is_needed: bool) -> ToolCall {
        match self.text(name) {
            Some(path) => ToolCall::Reads(vec![CallPath::path(path)]),
            // The working directory is meant.
            None if !is_needed && !self.tool_input.contains_key(name) => {
                ToolCall::Reads(vec![CallPath::path(self.cwd.clone())])
            }
            None => self.strange(name),
        }
    }

    /// Finds the files that a tool reads for itself, in arguments that may be missing: a path, a list of paths, or a list of
    /// objects that have one as `localPath`.
    fn sends(&self, names: &[&str]) -> ToolCall {
        let mut paths = Vec::new();
        for name in names {
            let parts = match self.tool_input.get(*name) {
                None => continue,
                Some(Value::Array(parts)) => parts.iter().collect(),
                Some(one) => vec![one],
            };
            for part in parts {
                match part {
                    Value::String(path) => paths.push(CallPath::path(path.clone())),
                    Value::Object(part) => match part.get("localPath") {
                        None => {}
                        Some(Value::String(path)) => paths.push(CallPath::path(path.clone())),
                        Some(_) => return self.strange(name),
                    },
                    _ => return self.strange(name),
                }
            }
        }
        match paths.is_empty() {
            true => ToolCall::Other,
            false => ToolCall::Reads(paths),
        }
    }

    /// Finds where a search by a pattern looks: below a directory, or where the pattern itself begins.
    fn glob(&self) -> ToolCall {
        let mut paths = match self.reads("path", false) {
            ToolCall::Reads(paths) => paths,
            strange => return strange,
        };
        let Some(typed) = self.text("pattern") else {
            return self.strange("pattern");
        };
        let below = |begin: String| match self.text("path") {
            Some(path) if !trimmed(&begin).starts_with(['/', '~']) => format!("{path}/{begin}"),
            _ => begin,
        };
        match glob_pattern::beginnings(&typed) {
            None => paths.push(CallPath { typed, leads: None }),
            Some(begins) => paths.extend(begins.into_iter().map(|begin| CallPath {
                typed: typed.clone(),
                leads: Some(below(begin)),
            })),
        }
        ToolCall::Reads(paths)
    }

    fn writes(&self, name: &str) -> ToolCall {
        match self.text(name) {
            Some(path) => ToolCall::Writes(vec![CallPath::path(path)]),
            None => self.strange(name),
        }
    }

    /// Finds the files of a patch: they stand in its headings.
    fn patch(&self) -> ToolCall {
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
                .map(|path| CallPath::path(path.to_owned()))
        };
        let paths: Vec<CallPath> = patch.lines().filter_map(path).collect();
        match paths.is_empty() {
            true => ToolCall::Strange("apply_patch: no file is named in it".to_owned()),
            false => ToolCall::Writes(paths),
        }
    }
}
