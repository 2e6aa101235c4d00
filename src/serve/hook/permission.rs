//! The permission for a rewritten line: given, or to be asked of a person. Pure.
//!
//! An agent asks a person about a line as it was. A hook that answers `allow` takes that question away, and one that answers
//! `ask` has it put, about the rewritten line. So the answer is `allow` where the agent would not have asked: about a line
//! that only reads, and in the modes in which it asks about none of this kind. Codex knows no `ask`, and asks by its own
//! approval policy after an `allow`.

use super::event::AgentKind;
use crate::exec::shell::LineAnalysis;

/// The agent's next step with a rewritten line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinePermission {
    /// Run it.
    Allow,
    /// Ask a person first.
    Ask,
}

impl LinePermission {
    /// Returns its name in an answer.
    pub(super) fn name(self) -> &'static str {
        match self {
            LinePermission::Allow => "allow",
            LinePermission::Ask => "ask",
        }
    }
}

/// Decides by the agent's mode and by what the line may do. `allows`: the operator has said that lines need nobody's
/// permission in the home.
pub(super) fn of(
    format: AgentKind,
    mode: &str,
    line: &LineAnalysis,
    allows: bool,
) -> LinePermission {
    let is_free = match mode {
        _ if format == AgentKind::Codex || !line.changes => true,
        "bypassPermissions" => true,
        // Nothing is to be changed, whatever the operator has said.
        "plan" => false,
        // What the bundled shell changes are files.
        "acceptEdits" => allows || !line.runs_programs,
        // `default`, `dontAsk`, `auto`, and modes that are not known.
        _ => allows,
    };
    match is_free {
        true => LinePermission::Allow,
        false => LinePermission::Ask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewritten_line_needs_the_permission_that_the_agent_would_ask_for() {
        use LinePermission::{Allow, Ask};
        let line = |changes, runs_programs| LineAnalysis {
            changes,
            runs_programs,
            ..LineAnalysis::default()
        };
        let (reads, edits, runs) = (line(false, false), line(true, false), line(true, true));
        // What a line that reads, one that edits and one that runs programs need; the last two also with the operator's word.
        for (mode, needs) in [
            ("default", [Allow, Ask, Ask, Allow, Allow]),
            ("plan", [Allow, Ask, Ask, Ask, Ask]),
            ("acceptEdits", [Allow, Allow, Ask, Allow, Allow]),
            ("bypassPermissions", [Allow, Allow, Allow, Allow, Allow]),
            ("dontAsk", [Allow, Ask, Ask, Allow, Allow]),
            ("auto", [Allow, Ask, Ask, Allow, Allow]),
            ("", [Allow, Ask, Ask, Allow, Allow]),
            ("a new one", [Allow, Ask, Ask, Allow, Allow]),
        ] {
            let of = |line, allows| of(AgentKind::ClaudeCode, mode, line, allows);
            let found = [
                of(&reads, false),
                of(&edits, false),
                of(&runs, false),
                of(&edits, true),
                of(&runs, true),
            ];
            assert_eq!(found, needs, "{mode}");
            assert_eq!(
                super::of(AgentKind::Codex, mode, &runs, false),
                Allow,
                "{mode}"
            );
        }
    }
}
