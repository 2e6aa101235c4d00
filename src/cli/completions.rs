//! `completions` and `man`: what a shell and man(1) have to know of this program, from the same tables as its help.

use std::path::{Path, PathBuf};

use clap::{Arg, Args, Command, ValueHint};
use clap_complete::Shell;

use super::candidates::CandidateKind;
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
    let script = String::from_utf8_lossy(&script).into_owned();
    let script = match args.shell {
        Shell::Bash => script + &bash_additions(&command, &verbs),
        Shell::Fish => {
            let line = |verb: &&str| FISH.replace("VERB", verb);
            let directories: String = verbs.iter().map(line).collect();
            script + &directories + &fish_additions(&command)
        }
        Shell::Zsh => with_zsh_values(&script),
        // (The others complete no values by themselves.)
        _ => script,
    };
    Printer::new().bytes(script.as_bytes());
    Ok(ExitReason::Ok)
}

/// The part that the generated script lacks for bash: after some verbs stand directories only, and before any letter of theirs
/// no options; and values that only this program knows. ($2 is the word to complete, $3 the one before. What the program
/// prints is data: `compgen -W` would expand it.)
const BASH: &str = r#"
_trumanfs_values() {
    local value rest
    while IFS=$'\t' read -r value rest; do
        [[ $value == "$2"* ]] && COMPREPLY+=("$(printf %q "$value")")
    done < <(trumanfs complete-values "$1" -- "${COMP_WORDS[@]}" 2>/dev/null)
}
_trumanfs_paths() {
    _trumanfs "$@"
    local option=$3 typed=$2
    if [[ $2 == = ]]; then
        typed=
    elif [[ $3 == = ]]; then
        option=${COMP_WORDS[COMP_CWORD-2]}
    fi
    case ${COMP_WORDS[1]}:$option in
OPTIONS    esac
    case ${COMP_WORDS[1]} in
    VERBS)
        [[ -n $2 || $3 = -* || $COMP_CWORD -lt 2 ]] || COMPREPLY=()
        [[ $COMP_CWORD -lt 2 ]] || compopt +o default +o bashdefault -o dirnames
        ;;
    TARGETS)
        [[ -n $2 || $3 = -* || $COMP_CWORD -ne 2 ]] || _trumanfs_values targets ""
        ;;&
    RUNS)
        [[ $2 = -* || $3 = -* || $COMP_CWORD -lt 2 ]] || _trumanfs_values runs "$2"
        ;;
    esac
}
complete -F _trumanfs_paths -o bashdefault -o default trumanfs
"#;

fn bash_additions(command: &Command, verbs: &[&str]) -> String {
    let options: String = value_options(command)
        .into_iter()
        .map(|(verb, option, kind)| {
            let kind = kind.word();
            format!(
                "    {verb}:{option}) COMPREPLY=(); _trumanfs_values {kind} \"$typed\"; return ;;\n"
            )
        })
        .collect();
    let names = |is_meant: &dyn Fn(&Command) -> bool| {
        let meant = command.get_subcommands().filter(|verb| is_meant(verb));
        meant.map(Command::get_name).collect::<Vec<_>>().join(" | ")
    };
    BASH.replace("OPTIONS", &options)
        .replace("VERBS", &verbs.join(" | "))
        .replace("TARGETS", &names(&has_target))
        .replace("RUNS", &names(&has_run))
}

/// The directories for fish.
const FISH: &str = r#"complete -c trumanfs -n "__fish_trumanfs_using_subcommand VERB" -f -a "(__fish_complete_directories (commandline -ct))"
"#;

/// The values for fish.
const FISH_VALUES: &str = "function __trumanfs_values
    trumanfs complete-values $argv[1] -- (commandline -opc) (commandline -ct) 2>/dev/null
end
";

fn fish_additions(command: &Command) -> String {
    let mut script = FISH_VALUES.to_owned();
    for (verb, option, kind) in value_options(command) {
        let name = match option.strip_prefix("--") {
            Some(long) => format!("-l {long}"),
            None => format!("-s {}", option.trim_start_matches('-')),
        };
        script.push_str(&fish_values(verb, &format!("{name} -x"), kind));
    }
    for verb in command.get_subcommands() {
        let kinds = [
            (has_target(verb), CandidateKind::Targets),
            (has_run(verb), CandidateKind::Runs),
        ];
        for (_, kind) in kinds.into_iter().filter(|(is_meant, _)| *is_meant) {
            script.push_str(&fish_values(verb.get_name(), "", kind));
        }
    }
    script
}

fn fish_values(verb: &str, option: &str, kind: CandidateKind) -> String {
    let kind = kind.word();
    format!(
        "complete -c trumanfs -n \"__fish_trumanfs_using_subcommand {verb}\" {option} -a \"(__trumanfs_values {kind})\"\n"
    )
}

/// The values for zsh, before the generated functions.
const ZSH: &str = r#"
_trumanfs_values() {
    local -a found
    local line
    for line in ${(f)"$(trumanfs complete-values $1 -- "${_trumanfs_line[@]}" 2>/dev/null)"}; do
        found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    _describe -t $1 $1 found
}
# (Completion has only a part of the words once it is among a verb's operands.)
typeset -ga _trumanfs_line
_trumanfs_runs() { _trumanfs_values runs }
_trumanfs_sessions() { _trumanfs_values sessions }
_trumanfs_points() { _trumanfs_values points }
_trumanfs_targets() { _trumanfs_values targets; _files }
"#;

fn with_zsh_values(script: &str) -> String {
    let mut text = String::with_capacity(script.len());
    for line in script.lines() {
        let operand = line.split_once("::").map(|(_, operand)| operand);
        let completed = operand.and_then(|operand| {
            let (id, _) = operand.split_once(" -- ")?;
            match id {
                "target" => Some("targets"),
                RUN_AND_PATHS => Some("runs"),
                _ => None,
            }
        });
        let line = match (completed, line.rsplit_once(":_")) {
            (Some(kind), Some((rest, _))) => format!("{rest}:_trumanfs_{kind}' \\"),
            _ => line
                .replace(":RUN:_default", ":RUN:_trumanfs_runs")
                .replace(":SESSION:_default", ":SESSION:_trumanfs_sessions")
                .replace(":POINT:_default", ":POINT:_trumanfs_points"),
        };
        text.push_str(&line);
        text.push('\n');
        if line.starts_with("#compdef") {
            text.push_str(ZSH);
        }
        if line == "_trumanfs() {" {
            text.push_str("    _trumanfs_line=(\"${words[@]}\")\n");
        }
    }
    text
}

/// Returns the options whose values only this program knows: the verb, the option as it is typed, the kind of values.
fn value_options(command: &Command) -> Vec<(&str, String, CandidateKind)> {
    let mut found = Vec::new();
    for verb in command.get_subcommands() {
        for option in verb.get_opts() {
            let name = option.get_value_names().and_then(<[_]>::first);
            let Some(kind) = name.and_then(|name| CandidateKind::of_value_name(name)) else {
                continue;
            };
            let long = option.get_long().map(|long| format!("--{long}"));
            let short = option.get_short().map(|short| format!("-{short}"));
            for typed in long.into_iter().chain(short) {
                found.push((verb.get_name(), typed, kind));
            }
        }
    }
    found
}

fn has_target(verb: &Command) -> bool {
    let first = verb.get_positionals().next();
    first.is_some_and(|first| first.get_id() == "target")
}

/// The operand of a run, and of paths behind it, in clap's tables.
const RUN_AND_PATHS: &str = "changes";

/// Returns whether a run follows TARGET.
fn has_run(verb: &Command) -> bool {
    let mut operands = verb.get_positionals();
    operands.any(|operand| operand.get_id() == RUN_AND_PATHS)
}

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
