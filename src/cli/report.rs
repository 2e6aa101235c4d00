//! `report`.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args;

use super::purge::spinner;
use super::{Exit, open_store, plain, say};
use crate::error::{Error, Result};
use crate::operator::{point, report};

/// What `trumanfs report` takes.
#[derive(Args, Debug)]
pub(super) struct ReportArgs {
    /// A store or a home
    target: PathBuf,
    /// Where to write the page; `-` is standard output
    #[arg(long, value_name = "FILE")]
    html: PathBuf,
    /// Which session: its id, a beginning of it, or `last`; the newest mount if absent
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

/// Writes a session down as a page.
pub(super) fn report(args: &ReportArgs) -> Result<Exit> {
    let (path, store) = open_store(&args.target)?;
    let id = match &args.session {
        Some(session) => point::session(&store, session)?,
        None => report::newest(&store)?,
    };
    // The commands in the page shall work wherever they are typed.
    let whole = std::path::absolute(&path).unwrap_or(path);
    let bar = spinner("reading");
    let step = &mut |what| bar.set_message(what);
    let page = report::page(&store, &id, whole.as_os_str().as_bytes(), step);
    bar.finish_and_clear();
    let page = page?;
    if args.html.as_os_str() == "-" {
        say(format_args!("{}", page.trim_end()));
        return Ok(Exit::Ok);
    }
    std::fs::write(&args.html, page).map_err(|error| {
        Error::refused(
            format!("{}: {}", args.html.display(), plain(&error)),
            "Nothing was written. Give a file in a directory that you may write to.",
        )
    })?;
    say(format_args!("{}: session {id}", args.html.display()));
    Ok(Exit::Ok)
}
