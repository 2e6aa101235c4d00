//! Decisions of the policy about commands in a home, and the words, the return code and the report of a refusal.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, StatVfsMountFlags, statvfs};

use super::command::ProgramCommand;
use super::policy::{
    AllowedCommand, CommandRefusal, CommandRequest, Policy, RefusalClass, RootPaths, decide,
};
use super::runnable::RunnableCommand;
use crate::error::{Error, Result};
use crate::exec::line_programs::ProgramRequest;
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

/// Returns what a request ends with for which the home cannot be changed.
pub(super) fn unavailable_refusal(error: &Error) -> Refusal {
    Refusal {
        message: format!("the home cannot be changed: {error}").into_bytes(),
        return_code: BLOCKED,
    }
}

/// Returns what a refused command ends with.
pub(super) fn refusal(refused: &CommandRefusal) -> Refusal {
    Refusal {
        message: in_words(refused),
        return_code: BLOCKED,
    }
}

/// Returns why a program of a line would not run in this home, in the words with which the line would say so; nothing where
/// it would run, and where only its start can tell. `stays`: whether it certainly runs in the directory that is given.
///
/// # Errors
/// The home cannot be opened.
pub fn foreseen_refusal(
    policy: &Policy,
    home: &Path,
    program: &ProgramRequest<'_>,
    stays: bool,
) -> Result<Option<Vec<u8>>> {
    let flags = statvfs(home).map_err(Error::os("statvfs"))?.f_flag;
    let command = ProgramCommand {
        argv: program.words.to_vec(),
        cwd: program.cwd.clone(),
        env: program.env.to_vec(),
        ..ProgramCommand::default()
    };
    let is_read_only = flags.contains(StatVfsMountFlags::RDONLY);
    let decided = decide_in(home, policy, &command)?
        .and_then(|allowed| RunnableCommand::new(allowed, is_read_only, None));
    let Err(refused) = decided else {
        return Ok(None);
    };
    // The session's scratch directory, which is its /tmp, is not known here.
    let names_scratch = |word: &Vec<u8>| memchr::memmem::find(word, b"/tmp").is_some();
    let depends_on_directory = matches!(refused.class, RefusalClass::Path | RefusalClass::Cwd);
    if depends_on_directory && (!stays || program.words.iter().any(names_scratch)) {
        return Ok(None);
    }
    let name = program.words.first().map_or(&b""[..], Vec::as_slice);
    Ok(Some([b"bash: ", name, b": ", &in_words(&refused)].concat()))
}
