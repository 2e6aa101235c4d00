//! `completions` and `man`: what a shell and man(1) have to know of this program, from the same tables as its help.

use std::path::{Path, PathBuf};

use clap::{Arg, Args, Command, ValueHint};
use clap_complete::Shell;

use super::exit::ExitReason;
use super::output::Printer;
use crate::error::{Error, Result, reason};

/// Arguments of `trumanfs completions`.
#[derive(Args, Debug)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `trumanfs man`.
#[derive(Args, Debug)]
pub(super) struct ManArgs {
    /// The directory to write the pages into; it is made where it is absent
    #[arg(value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

/// Writes the completions of a shell to standard output.
pub(super) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<ExitReason> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "trumanfs", &mut script);
    let verbs = take_directories_only(&command);
    let more = match args.shell {
        Shell::Bash => BASH.replace("VERBS", &verbs.join(" | ")),
        Shell::Fish => {
            let line = |verb: &&str| FISH.replace("VERB", verb);
            verbs.iter().map(line).collect()
        }
        // (zsh's has it already; the others complete no paths by themselves.)
        _ => String::new(),
    };
    script.extend_from_slice(more.as_bytes());
    Printer::new().bytes(&script);
    Ok(ExitReason::Ok)
}

/// The part that the generated script lacks for bash: after some verbs stand directories only, and before any letter of theirs
/// no options. ($2 is the word to complete, $3 the one before.)
const BASH: &str = r#"
_trumanfs_paths() {
    _trumanfs "$@"
    case ${COMP_WORDS[1]} in
    VERBS)
        [[ -n $2 || $3 = -* || $COMP_CWORD -lt 2 ]] || COMPREPLY=()
        [[ $COMP_CWORD -lt 2 ]] || compopt +o default +o bashdefault -o dirnames
        ;;
    esac
}
complete -F _trumanfs_paths -o bashdefault -o default trumanfs
"#;

/// The same for fish.
const FISH: &str = r#"complete -c trumanfs -n "__fish_trumanfs_using_subcommand VERB" -f -a "(__fish_complete_directories (commandline -ct))"
"#;

/// Returns the verbs after which nothing but options and directories can stand.
fn take_directories_only(command: &Command) -> Vec<&str> {
    let is_path = |verb: &&Command| {
        let mut hints = verb.get_positionals().map(Arg::get_value_hint).peekable();
        hints.peek().is_some() && hints.all(|hint| hint == ValueHint::DirPath)
    };
    let verbs = command.get_subcommands().filter(is_path);
    verbs.map(Command::get_name).collect()
}

/// Writes a page for each verb.
pub(super) fn man(args: &ManArgs, command: Command) -> Result<ExitReason> {
    let failed = |path: &Path, error: &std::io::Error| {
        let what = format!("{}: {}", path.display(), reason(error));
        Error::refused(what, "Give a directory that can be written to.")
    };
    let directory = &args.directory;
    std::fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
    // `trumanfs help mount` is the page of mount.
    let command = command.disable_help_subcommand(true);
    clap_mangen::generate_to(command, directory).map_err(|error| failed(directory, &error))?;
    Ok(ExitReason::Ok)
}
