//! The way around something that the bundled shell has not.

use super::server_home::ServerHome;
use crate::exec::{Outcome, Status};

/// Returns what to do instead, for a line that the bundled shell has refused, or in which it knew no program.
pub(super) fn way_out(home: &ServerHome, outcome: &Outcome) -> Option<String> {
    if home.system_shell().is_some() || outcome.status == Status::Success {
        return None;
    }
    let said = String::from_utf8_lossy(&outcome.stderr);
    let is_construct = outcome.status == Status::Blocked && said.contains("not supported");
    if !is_construct && !said.contains("command not found") {
        return None;
    }
    let instead = match home.script_runner() {
        Some(runner) => format!(
            "write a script with write_file and run it here: {runner} FILE{}",
            match is_construct {
                true => "",
                false => ", or use a command that the description of this tool lists",
            }
        ),
        None if home.has_policy() => "write several simple lines. No program of the policy runs scripts; whoever started \
             this server can give it one that does (python3), or `--shell bash` instead of the policy"
            .to_owned(),
        None => "write several simple lines, or use the file tools. Whoever started this server can have lines run in a \
             real bash, with this machine's programs: `--shell bash`"
            .to_owned(),
    };
    Some(format!("[instead: {instead}]"))
}
