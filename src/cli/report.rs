//! `report`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::exit::Exit;
use super::output::{Printer, say};
use super::progress::spinner;
use crate::client::Client;
use crate::error::{Error, Result};

/// What `trumanfs report` takes.
#[derive(Args, Debug)]
pub(super) struct ReportArgs {
    /// A store or a home
    target: PathBuf,
    /// Where to write the page; `-` is standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: PathBuf,
    /// Which session: its id, a beginning of it, or `last`; the newest mount if absent
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Only this run, one request of an executor: its id, a unique beginning of it, or `last`
    #[arg(long, value_name = "RUN", conflicts_with = "session")]
    run: Option<String>,
}

/// Writes a session or a run down as a page.
pub(super) fn report(args: &ReportArgs) -> Result<Exit> {
    let client = Client::open(&args.target)?;
    let bar = spinner("reading");
    let step = &mut |what| bar.set_message(what);
    let written = client.report(args.session.as_deref(), args.run.as_deref(), step);
    bar.finish_and_clear();
    let (about, page) = written?;
    if args.html.as_os_str() == "-" {
        let mut printer = Printer::new();
        printer.bytes(page.trim_end().as_bytes());
        printer.bytes(b"\n");
        return Ok(Exit::Ok);
    }
    std::fs::write(&args.html, page).map_err(|error| {
        Error::refused(
            format!("{}: {}", args.html.display(), Error::io("write", &error)),
            "Nothing was written. Give a file in a directory that you may write to.",
        )
    })?;
    say(format_args!("{}: {about}", args.html.display()));
    Ok(Exit::Ok)
}
