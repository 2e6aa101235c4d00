//! Events, as agents tell of them.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::pattern;
use super::reading::trimmed;

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
    /// What the agent may do without a person's word: `default`, `plan`, `acceptEdits`, …
    #[serde(default)]
    pub(super) permission_mode: String,
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
    /// To read these files or directories, or what lies below them.
    Reads(Vec<Named>),
    /// To write these files.
    Writes(Vec<Named>),
    /// Something that has nothing to do with files.
    Other,
    /// A call that is denied for this reason: it is not understood, or runs something outside.
    Strange(String),
}

/// A path of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// As it was typed.
    pub(super) typed: String,
    /// Where it leads, from the working directory; none where that cannot be said.
    pub(super) leads: Option<String>,
}

impl Named {
    fn path(typed: String) -> Named {
        Named {
            leads: Some(typed.clone()),
            typed,
        }
    }
}

impl Event {
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
    pub(super) fn call(&self, format: Format) -> Call {
        match (format, self.tool_name.as_str()) {
            (Format::ClaudeCode, tool @ ("PowerShell" | "REPL")) => Call::Strange(format!(
                "{tool}: what it runs is outside the home; use Bash, whose lines run in the home"
            )),
            (Format::Codex, "apply_patch") => self.patch(),
            (Format::Codex, "view_image") => self.reads("path", true),
            (_, "Bash") | (Format::Codex, "shell" | "exec_command" | "local_shell") => self.line(),
            // It runs a line, or listens to a socket.
            (Format::ClaudeCode, "Monitor") if self.tool_input.contains_key("command") => {
                self.line()
            }
            (_, "Read") => self.reads("file_path", true),
            (Format::ClaudeCode, "LSP") => self.reads("filePath", true),
            (_, "Grep" | "LS") => self.reads("path", false),
            (_, "Glob") => self.glob(),
            (_, "Write" | "Edit" | "MultiEdit") => self.writes("file_path"),
            (_, "NotebookEdit") => self.writes("notebook_path"),
            (Format::ClaudeCode, "Artifact") => self.reads("file_path", true),
            (Format::ClaudeCode, "SendUserFile") => self.sends(&["files"]),
            (Format::ClaudeCode, "SendUserMessage" | "Brief") => self.sends(&["attachments"]),
            (Format::ClaudeCode, "Projects") => self.sends(&["local_path"]),
            (Format::ClaudeCode, "DesignSync") => self.sends(&["localDir", "files"]),
            (Format::ClaudeCode, "Workflow") => self.sends(&["scriptPath"]),
            (Format::ClaudeCode, "EnterWorktree") => self.sends(&["path"]),
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
            Some(path) => Call::Reads(vec![Named::path(path)]),
            // The working directory is meant.
            None if !is_needed && !self.tool_input.contains_key(name) => {
                Call::Reads(vec![Named::path(self.cwd.clone())])
            }
            None => self.strange(name),
        }
    }

    /// Finds the files that a tool reads for itself, in arguments that may be missing: a path, a list of paths, or a list of
    /// objects that have one as `localPath`.
    fn sends(&self, names: &[&str]) -> Call {
        let mut paths = Vec::new();
        for name in names {
            let parts = match self.tool_input.get(*name) {
                None => continue,
                Some(Value::Array(parts)) => parts.iter().collect(),
                Some(one) => vec![one],
            };
            for part in parts {
                match part {
                    Value::String(path) => paths.push(Named::path(path.clone())),
                    Value::Object(part) => match part.get("localPath") {
                        None => {}
                        Some(Value::String(path)) => paths.push(Named::path(path.clone())),
                        Some(_) => return self.strange(name),
                    },
                    _ => return self.strange(name),
                }
            }
        }
        match paths.is_empty() {
            true => Call::Other,
            false => Call::Reads(paths),
        }
    }

    /// Finds where a search by a pattern looks: below a directory, or where the pattern itself begins.
    fn glob(&self) -> Call {
        let mut paths = match self.reads("path", false) {
            Call::Reads(paths) => paths,
            strange => return strange,
        };
        let Some(typed) = self.text("pattern") else {
            return self.strange("pattern");
        };
        let below = |begin: String| match self.text("path") {
            Some(path) if !trimmed(&begin).starts_with(['/', '~']) => format!("{path}/{begin}"),
            _ => begin,
        };
        match pattern::beginnings(&typed) {
            None => paths.push(Named { typed, leads: None }),
            Some(begins) => paths.extend(begins.into_iter().map(|begin| Named {
                typed: typed.clone(),
                leads: Some(below(begin)),
            })),
        }
        Call::Reads(paths)
    }

    fn writes(&self, name: &str) -> Call {
        match self.text(name) {
            Some(path) => Call::Writes(vec![Named::path(path)]),
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
                .map(|path| Named::path(path.to_owned()))
        };
        let paths: Vec<Named> = patch.lines().filter_map(path).collect();
        match paths.is_empty() {
            true => Call::Strange("apply_patch: no file is named in it".to_owned()),
            false => Call::Writes(paths),
        }
    }
}
