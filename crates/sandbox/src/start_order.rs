//! The order to start a program, as the first process of a sandbox understands it.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::error::{LaunchError, Step};
use trumanfs_init::orders::StartOrder;

pub(super) const NO_PROGRAM: &str = "there is no program to run";

/// Makes the order. `path`: where the program is looked up. `installed`: where it lies if it is not found there,
/// because there is a link to it.
///
/// # Errors
/// [`Step::Plan`] for what cannot be a program, or has a NUL byte.
pub(super) fn make_start_order(
    argv: &[OsString],
    path: &OsStr,
    env: &[(OsString, OsString)],
    cwd: &OsStr,
    installed: Option<&Path>,
) -> Result<StartOrder, LaunchError> {
    let mut arguments = Vec::with_capacity(argv.len());
    for argument in argv {
        arguments.push(to_c_string("an argument", argument.clone().into_vec())?);
    }
    let mut environment = Vec::with_capacity(env.len());
    for (name, value) in env {
        let whole = [name.as_bytes(), b"=", value.as_bytes()].concat();
        environment.push(to_c_string("the environment", whole)?);
    }
    let mut files = candidates(argv, path)?;
    if let Some(file) = installed {
        files.push(to_c_string(
            "the program",
            file.as_os_str().as_bytes().to_vec(),
        )?);
    }
    Ok(StartOrder {
        candidates: files,
        arguments,
        environment,
        directory: to_c_string("the working directory", cwd.as_bytes().to_vec())?,
    })
}

/// Makes text of bytes for the kernel.
fn to_c_string(what: &str, bytes: Vec<u8>) -> Result<CString, LaunchError> {
    CString::new(bytes)
        .map_err(|_| LaunchError::refused(Step::Plan, format!("{what} has a NUL byte")))
}

/// Returns the files that a program may be, as execvp(3) tries them.
fn candidates(argv: &[OsString], path: &OsStr) -> Result<Vec<CString>, LaunchError> {
    let Some(name) = argv.first().filter(|name| !name.is_empty()) else {
        return Err(LaunchError::refused(Step::Plan, NO_PROGRAM));
    };
    let file = |path: PathBuf| to_c_string("the program", path.into_os_string().into_vec());
    if name.as_bytes().contains(&b'/') {
        return Ok(vec![file(name.into())?]);
    }
    let files = path
        .as_bytes()
        .split(|byte| *byte == b':')
        .map(|dir| match dir {
            // An empty entry is the working directory.
            [] => Path::new(".").join(name),
            dir => Path::new(OsStr::from_bytes(dir)).join(name),
        });
    files.map(file).collect()
}
