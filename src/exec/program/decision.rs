//! Decisions of the policy about commands in a home, and the words, the return code and the report of a refusal.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

use super::command::ProgramCommand;
use super::policy::{AllowedCommand, CommandRefusal, CommandRequest, Policy, RootPaths, decide};
use super::ready::RunnableCommand;
use crate::error::{Error, Result};
use crate::exec::request::{ProgramReport, Refusal};
use crate::name::{WorldPath, escape};

/// The status of a request that is refused, or for which no sandbox can be made.
pub(super) const BLOCKED: u8 = 125;

/// The policy's decision about a command.
pub(super) type CommandDecision = std::result::Result<AllowedCommand, CommandRefusal>;

/// The decision about a command in a mounted home.
pub(super) type HomeDecision = std::result::Result<RunnableCommand, CommandRefusal>;

/// Decides about a command in a directory that stands for its home: nothing of it needs to be mounted.
///
/// # Errors
/// The directory cannot be opened.
pub(super) fn decide_in(
    home: &Path,
    policy: &Policy,
    command: &ProgramCommand,
) -> Result<CommandDecision> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, home, flags, Mode::empty()).map_err(Error::os("open"))?;
    let home = home.as_os_str().as_bytes();
    Ok(decide_at(&RootPaths::from(root), home, policy, command))
}

/// Decides about a command by these paths.
pub(super) fn decide_at(
    paths: &RootPaths,
    home: &[u8],
    policy: &Policy,
    command: &ProgramCommand,
) -> CommandDecision {
    let question = CommandRequest {
        argv: &command.argv,
        cwd: &command.cwd,
        home,
        env: &command.env,
        timeout: command.timeout,
        paths,
    };
    decide(policy, &question)
}

/// Returns the report on a command that has been decided about.
pub(super) fn report_of(
    decision: std::result::Result<&AllowedCommand, &CommandRefusal>,
) -> ProgramReport {
    match decision {
        Ok(allowed) => ProgramReport {
            verdict: "allow",
            rule: allowed.rule.clone(),
            argv: allowed.argv.iter().map(|word| escape(word)).collect(),
            suppress_success_output: allowed.suppress_success_output,
            ..ProgramReport::default()
        },
        Err(refused) => ProgramReport {
            verdict: "deny",
            class: Some(refused.class.name()),
            rule: refused.rule.clone(),
            ..ProgramReport::default()
        },
    }
}

/// Returns the working directory of a command that is refused: as an absolute path where it is one in the home.
pub(super) fn cwd_of(home: &[u8], cwd: &[u8]) -> Vec<u8> {
    match WorldPath::parse(cwd) {
        Ok(path) if path.is_root() && !cwd.starts_with(b"/") => home.to_vec(),
        Ok(path) if !cwd.starts_with(b"/") => [home, path.bytes()].join(&b'/'),
        _ => cwd.to_vec(),
    }
}

/// Words a refusal of the policy.
pub(super) fn in_words(refused: &CommandRefusal) -> Vec<u8> {
    format!("blocked by {}: {}", refused.rule, refused.reason).into_bytes()
}

/// Returns what a refused command ends with.
pub(super) fn refusal(refused: &CommandRefusal) -> Refusal {
    Refusal {
        message: in_words(refused),
        return_code: BLOCKED,
    }
}
