//! `completions` and `man`: what a shell and man(1) have to know of this program, from the same tables as its help.

use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;

use super::exit::Exit;
use super::output::Printer;
use crate::error::{Error, Result, reason};

/// What `trumanfs completions` takes.
#[derive(Args, Debug)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// What `trumanfs man` takes.
#[derive(Args, Debug)]
pub(super) struct ManArgs {
    /// The directory to write the pages into; it is made where it is absent
    directory: PathBuf,
}

/// Writes the completions of a shell to standard output.
pub(super) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "trumanfs", &mut script);
    Printer::new().bytes(&script);
    Ok(Exit::Ok)
}

/// Writes a page for each verb.
pub(super) fn man(args: &ManArgs, command: Command) -> Result<Exit> {
    let failed = |path: &Path, error: &std::io::Error| {
        let what = format!("{}: {}", path.display(), reason(error));
        Error::refused(what, "Give a directory that can be written to.")
    };
    let directory = &args.directory;
    std::fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
    // `trumanfs help mount` is the page of mount.
    let command = command.disable_help_subcommand(true);
    clap_mangen::generate_to(command, directory).map_err(|error| failed(directory, &error))?;
    Ok(Exit::Ok)
}
