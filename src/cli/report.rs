//! `report`: a page that is written where the operator says, or as a new file in the temporary directory.
//!
//! The temporary directory belongs to everybody: a page there is a new file that this user alone may read. What another
//! user has put under its name is neither followed, overwritten nor removed.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::browser::open_page;
use super::exit::ExitReason;
use super::output::{Printer, print_line};
use super::progress::spinner;
use crate::client::{Client, ReportPage};
use crate::error::{Error, Result};

/// Arguments of `trumanfs report`.
#[derive(Args, Debug)]
pub(super) struct ReportArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// Where to write the page; `-` is standard output; trumanfs-report-ID.html in the temporary directory if absent
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
    /// Show it with $BROWSER, else with xdg-open
    #[arg(long)]
    open: bool,
    /// Which session: its id, a beginning of it, or `last`; the newest mount if absent
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Only this run, one request of an executor: its id, a unique beginning of it, or `last`
    #[arg(long, value_name = "RUN", conflicts_with = "session")]
    run: Option<String>,
    /// Only this turn of a run: its number or `last`, in the newest conversation or in that of --run
    #[arg(long, value_name = "N", conflicts_with = "session")]
    turn: Option<String>,
}

/// Writes a session or a run down as a page.
pub(super) fn report(args: &ReportArgs) -> Result<ExitReason> {
    if args.open
        && args
            .html
            .as_ref()
            .is_some_and(|file| file.as_os_str() == "-")
    {
        return Err(Error::usage(
            "--open does not go with --html -",
            "A browser opens a file: leave --html out, or name one.",
        ));
    }
    let client = Client::open(&args.target)?;
    let bar = spinner("reading");
    let step = &mut |what| bar.set_message(what);
    let of_run = (args.run.as_deref(), args.turn.as_deref());
    let written = client.report(args.session.as_deref(), of_run, step);
    bar.finish_and_clear();
    let report = written?;
    let page = report.page.as_bytes();
    let mut printer = Printer::new();
    let written = match &args.html {
        Some(file) if file.as_os_str() == "-" => {
            printer.bytes(page.trim_ascii_end());
            printer.bytes(b"\n");
            None
        }
        Some(file) => {
            std::fs::write(file, page).map_err(|error| not_written(file, &error))?;
            print_line(format_args!("{}: {}", file.display(), report.subject()));
            Some(file.clone())
        }
        None => {
            let file = write_temporary(&std::env::temp_dir(), &report)?;
            print_line(format_args!("{}", file.display()));
            Some(file)
        }
    };
    if let Some(file) = written.filter(|_| args.open) {
        let whole = std::path::absolute(&file).unwrap_or(file);
        open_page(&whole)?;
    }
    Ok(ExitReason::Ok)
}

/// The number of names that are tried for a page in the temporary directory.
const MAX_NAME_ATTEMPTS: u32 = 100;

/// Writes a page into a new file of a directory that others may write to, and returns its path. An earlier page of the
/// same name and user is replaced; another user's file keeps its name, and the page gets a number.
fn write_temporary(dir: &Path, report: &ReportPage) -> Result<PathBuf> {
    let mut number = 1;
    loop {
        let file = dir.join(match number {
            1 => format!("trumanfs-report-{}.html", report.id),
            _ => format!("trumanfs-report-{}-{number}.html", report.id),
        });
        remove_own(&file);
        let mut options = OpenOptions::new();
        // With O_EXCL a link is not followed, wherever it leads.
        let made = options.write(true).create_new(true).mode(0o600).open(&file);
        match made {
            Ok(mut opened) => {
                return match opened.write_all(report.page.as_bytes()) {
                    Ok(()) => Ok(file),
                    Err(error) => {
                        let _ = std::fs::remove_file(&file);
                        Err(not_written(&file, &error))
                    }
                };
            }
            Err(error)
                if error.kind() == ErrorKind::AlreadyExists && number < MAX_NAME_ATTEMPTS =>
            {
                number += 1;
            }
            Err(error) => return Err(not_written(&file, &error)),
        }
    }
}

/// Removes an earlier page: a file of this user with no other name.
fn remove_own(file: &Path) {
    let user = rustix::process::geteuid().as_raw();
    let meta = std::fs::symlink_metadata(file);
    if meta.is_ok_and(|meta| meta.is_file() && meta.uid() == user && meta.nlink() == 1) {
        let _ = std::fs::remove_file(file);
    }
}

fn not_written(file: &Path, error: &std::io::Error) -> Error {
    Error::refused(
        format!("{}: {}", file.display(), Error::io("write", error)),
        "Nothing was written. Give a file in a directory that you may write to, with --html FILE.",
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn temporary_page_is_private_and_follows_no_planted_name() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let report = |text: &str| ReportPage {
            kind: "run",
            id: "abc".to_owned(),
            page: text.to_owned(),
        };
        fs::write(at("victim"), "mine").unwrap();
        symlink("victim", at("trumanfs-report-abc.html")).unwrap();
        symlink("nowhere", at("trumanfs-report-abc-2.html")).unwrap();
        fs::hard_link(at("victim"), at("trumanfs-report-abc-3.html")).unwrap();
        fs::create_dir(at("trumanfs-report-abc-4.html")).unwrap();
        let file = write_temporary(dir.path(), &report("one")).unwrap();
        assert_eq!(file, at("trumanfs-report-abc-5.html"));
        assert_eq!(fs::read(&file).unwrap(), b"one");
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read(at("victim")).unwrap(), b"mine");
        assert!(!at("nowhere").exists());
        // The same page again takes the place of the first.
        assert_eq!(write_temporary(dir.path(), &report("two")).unwrap(), file);
        assert_eq!(fs::read(&file).unwrap(), b"two");
        let error = write_temporary(&at("missing"), &report("one")).unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
    }
}
