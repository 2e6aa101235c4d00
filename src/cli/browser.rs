//! Opening a page in the caller's browser.
//!
//! Owns which one: `$BROWSER` (names between colons, the first that works; `%s` is the page), else `xdg-open`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::error::{Error, Result};

/// The time within which `xdg-open` says that it has failed. Some of what it starts stays until it is closed.
const FAILURE_TIME: Duration = Duration::from_secs(5);

/// Opens a page.
///
/// # Errors
/// [`Error::Refused`] where there is no browser, or none of them opens it.
pub(super) fn open_page(page: &Path) -> Result<()> {
    let chosen = std::env::var_os("BROWSER").filter(|names| !names.is_empty());
    if let Some(names) = chosen {
        return open_with_first(&names, page);
    }
    let opener = in_path("xdg-open").ok_or_else(|| {
        not_opened(
            "there is neither BROWSER in the environment nor xdg-open in PATH",
            page,
        )
    })?;
    let mut command = Command::new(opener);
    command.arg(page);
    let mut child = command
        .spawn()
        .map_err(|error| not_opened(&format!("xdg-open: {error}"), page))?;
    let (tell, told) = channel();
    let waiting = std::thread::Builder::new().spawn(move || tell.send(child.wait()));
    waiting.map_err(|error| Error::io("clone", &error))?;
    match told.recv_timeout(FAILURE_TIME) {
        Ok(Ok(status)) if !status.success() => {
            Err(not_opened(&format!("xdg-open ended with {status}"), page))
        }
        _ => Ok(()),
    }
}

/// Opens a page with the first of several browsers that can. Some have the terminal until they end.
fn open_with_first(names: &OsStr, page: &Path) -> Result<()> {
    let mut problem = "BROWSER names no program".to_owned();
    let names = names.as_bytes().split(|byte| *byte == b':');
    for name in names.filter(|name| !name.is_empty()) {
        match run(name, page) {
            Some(Ok(status)) if status.success() => return Ok(()),
            Some(Ok(status)) => problem = format!("{} ended with {status}", text(name)),
            Some(Err(error)) => problem = format!("{}: {error}", text(name)),
            None => {}
        }
    }
    Err(not_opened(&problem, page))
}

fn run(name: &[u8], page: &Path) -> Option<std::io::Result<ExitStatus>> {
    let words = name.split(|byte| *byte == b' ');
    let mut words = words.filter(|word| !word.is_empty());
    let program = words.next()?;
    let mut has_page = false;
    let mut args: Vec<OsString> = Vec::new();
    for word in words {
        has_page |= word == b"%s";
        args.push(match word {
            b"%s" => page.as_os_str().to_owned(),
            word => OsString::from_vec(word.to_vec()),
        });
    }
    let mut command = Command::new(OsStr::from_bytes(program));
    command.args(args);
    if !has_page {
        command.arg(page);
    }
    Some(command.status())
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Returns where a program is in PATH.
fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| {
            let meta = std::fs::metadata(file);
            meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
}

fn not_opened(why: &str, page: &Path) -> Error {
    Error::refused(
        format!("the report was not opened: {why}"),
        format!(
            "It is written: {}. Set BROWSER to the program that shows pages here, or copy it to where one is.",
            page.display()
        ),
    )
}
