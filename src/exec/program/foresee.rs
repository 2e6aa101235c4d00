//! The decision of a policy about a program of a line, for callers that do not run the line themselves.

use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};

use super::command::ProgramCommand;
use super::decision::{decide_in, in_words};
use super::policy::{Policy, RefusalClass};
use super::ready::RunnableCommand;
use crate::error::{Error, Result};
use crate::exec::line_programs::ProgramRequest;

/// Returns why a program of a line would not run in this home, in the words with which the line would say so; nothing where
/// it would run, and where only its start can tell. `stays`: whether it certainly runs in the directory that is given.
///
/// # Errors
/// The home cannot be opened.
pub fn refusal(
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
