//! The decision of a policy about a program of a line, for callers that do not run the line themselves.

use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, StatVfsMountFlags, fstatvfs, openat};

use super::policy::{CommandRequest, Policy, RefusalClass, RootPaths, decide};
use super::ready::RunnableCommand;
use super::refuse::in_words;
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
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, home, flags, Mode::empty()).map_err(Error::os("open"))?;
    let flags = fstatvfs(&root).map_err(Error::os("fstatvfs"))?.f_flag;
    let question = CommandRequest {
        argv: program.words,
        cwd: &program.cwd,
        home: home.as_os_str().as_encoded_bytes(),
        env: program.env,
        timeout: None,
        paths: &RootPaths::from(root),
    };
    let is_read_only = flags.contains(StatVfsMountFlags::RDONLY);
    let decided = decide(policy, &question)
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
