//! Admission: a parsed line is accepted or refused as a whole. Every command whose name is literal must be one of
//! this shell's, and no variable may mean something to bash that it does not mean here.
//!
//! A missing command cannot do its part of the line. The commands after it (`set -e; …; rm`, `[ -e x ] || rm`, `sort
//! f > g; rm f`) rely on it, so nothing of the line runs. Where a command's name comes from an expansion, the line
//! ends when that command would have run.

use super::call::{LineRejection, ShellState, reason};
use super::datetime::NamedZone;
use super::syntax::{AndOr, CommandList, RedirectTarget, Stage, StageBody, Word, WordAtom};

/// Builtins of bash that do not exist here (`compgen -b`).
const BUILTINS: &[&str] = &[
    ".",
    ":",
    "[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "declare",
    "dirs",
    "disown",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "times",
    "trap",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
];

/// Variables that bash sets itself, and this shell does not.
const SET_BY_BASH: &[&str] = &[
    "BASH",
    "BASHOPTS",
    "BASHPID",
    "COMP_WORDBREAKS",
    "DIRSTACK",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "EUID",
    "FUNCNAME",
    "GROUPS",
    "HISTCMD",
    "HOSTNAME",
    "HOSTTYPE",
    "IFS",
    "LINENO",
    "MACHTYPE",
    "OPTERR",
    "OPTIND",
    "OSTYPE",
    "PATH",
    "PIPESTATUS",
    "PPID",
    "PS4",
    "RANDOM",
    "SECONDS",
    "SHELL",
    "SHELLOPTS",
    "SHLVL",
    "SRANDOM",
    "TERM",
    "UID",
    "_",
];

/// Variables whose assignment changes the behaviour of bash or of commands; here they would have no effect.
const BEHAVIOUR_VARIABLES: &[&str] = &[
    "BLOCKSIZE",
    "BLOCK_SIZE",
    "CDPATH",
    "COLUMNS",
    "ENV",
    "EXECIGNORE",
    "FIGNORE",
    "GLOBIGNORE",
    "GLOBSORT",
    "GREP_COLOR",
    "GREP_COLORS",
    "GREP_OPTIONS",
    "HOME",
    "LS_BLOCK_SIZE",
    "LS_COLORS",
    "OLDPWD",
    "POSIXLY_CORRECT",
    "PWD",
    "QUOTING_STYLE",
    "SIMPLE_BACKUP_SUFFIX",
    "TABSIZE",
    "TIME_STYLE",
    "TMOUT",
    "VERSION_CONTROL",
    "_POSIX2_VERSION",
];

/// The status of a line with something unsupported.
const REFUSED_STATUS: u8 = 2;
/// The status of an unknown command.
const NOT_FOUND_STATUS: u8 = 127;
/// The status of a file that exists but cannot be executed.
const CANNOT_RUN_STATUS: u8 = 126;

fn unsupported(what: &[u8]) -> LineRejection {
    LineRejection {
        message: [b"bash: ", what, b" not supported"].concat(),
        status: REFUSED_STATUS,
    }
}

/// Returns the rejection of a name that is neither a bundled command nor a program.
pub(super) fn reject_name(name: &[u8], state: &ShellState) -> LineRejection {
    if BUILTINS.iter().any(|builtin| builtin.as_bytes() == name) {
        return unsupported(&[name, b": this builtin is"].concat());
    }
    let (why, status) = if name.contains(&b'/') {
        match state.path(name).and_then(|path| state.home.stat(&path)) {
            Err(error) => (reason(error.errno()), NOT_FOUND_STATUS),
            Ok(meta) if meta.is_dir() => ("Is a directory".to_owned(), CANNOT_RUN_STATUS),
            Ok(_) => (
                "programs do not run in this shell".to_owned(),
                CANNOT_RUN_STATUS,
            ),
        }
    } else {
        ("command not found".to_owned(), NOT_FOUND_STATUS)
    };
    let message = [b"bash: ", &state.as_typed(name)[..], b": ", why.as_bytes()].concat();
    LineRejection { message, status }
}

/// Admits a line.
///
/// # Errors
/// The part of the line that is not supported.
pub(super) fn admit_line(list: &CommandList, state: &ShellState) -> Result<(), LineRejection> {
    let rejected = admit_list(list, state);
    // After a single command it is obvious that nothing has run.
    let lone =
        matches!(&list[..], [AndOr { first, rest }] if rest.is_empty() && first.stages.len() == 1);
    rejected.map_err(|rejection| match rejection.status {
        NOT_FOUND_STATUS | CANNOT_RUN_STATUS if !lone => LineRejection {
            message: [&rejection.message[..], b"; nothing of the line has run"].concat(),
            ..rejection
        },
        _ => rejection,
    })
}

fn admit_list(list: &CommandList, state: &ShellState) -> Result<(), LineRejection> {
    for AndOr { first, rest } in list {
        let rest = rest.iter().map(|(_, pipeline)| pipeline);
        for pipeline in std::iter::once(first).chain(rest) {
            for each in &pipeline.stages {
                admit_stage(each, state)?;
            }
        }
    }
    Ok(())
}

fn admit_stage(stage: &Stage, state: &ShellState) -> Result<(), LineRejection> {
    match &stage.body {
        StageBody::Subshell(list) | StageBody::Group(list) => admit_list(list, state)?,
        StageBody::Simple { assignments, words } => {
            for (name, value) in assignments {
                admit_word(value, state)?;
                admit_assignment(name, value, words)?;
            }
            for each in words {
                admit_word(each, state)?;
            }
            admit_command(words, state)?;
        }
    }
    for redirect in &stage.redirects {
        match &redirect.target {
            RedirectTarget::Read(each)
            | RedirectTarget::Write(each)
            | RedirectTarget::Append(each)
            | RedirectTarget::Here(each) => {
                admit_word(each, state)?;
            }
            RedirectTarget::Same(_) => {}
        }
    }
    Ok(())
}

fn admit_word(word: &Word, state: &ShellState) -> Result<(), LineRejection> {
    for (at, atom) in word.0.iter().enumerate() {
        match (atom, word.0.get(at + 1)) {
            (WordAtom::Command(list, _), _) => admit_list(list, state)?,
            (WordAtom::Plain(b'~'), Some(WordAtom::Plain(sign @ (b'+' | b'-' | b'0'..=b'9'))))
                if at == 0 =>
            {
                return Err(unsupported(
                    &[b"~", &[*sign][..], b": this tilde is"].concat(),
                ));
            }
            (WordAtom::Variable(name, _) | WordAtom::Bare(name), _) if is_bash_variable(name) => {
                return Err(unsupported(
                    &[b"$", &name[..], b": this variable is"].concat(),
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn admit_command(words: &[Word], state: &ShellState) -> Result<(), LineRejection> {
    let Some(name) = words.first().and_then(literal_text) else {
        return Ok(());
    };
    if state.registry.find(&name).is_none() && !state.is_program(&name) {
        return Err(reject_name(&name, state));
    }
    if name == b"find" {
        let mut words = words.iter().map(literal_text);
        while let Some(each) = words.next() {
            if each.as_deref() == Some(b"-exec")
                && let Some(Some(name)) = words.next()
                && name != b";"
                && !runs_for_find(&name, state)
            {
                return Err(reject_name(&name, state));
            }
        }
    }
    Ok(())
}

/// Returns whether `find -exec` can run a name.
pub(super) fn runs_for_find(name: &[u8], state: &ShellState) -> bool {
    let command = state.registry.find(name);
    command.is_some_and(|command| command.runs_for_find)
}

/// Returns a word's text where that does not depend on the shell's state; otherwise `None`.
pub(super) fn literal_text(word: &Word) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(word.0.len());
    for (at, atom) in word.0.iter().enumerate() {
        match atom {
            // The command `[`: an unmatched bracket is not a glob.
            WordAtom::Plain(b'[') if word.0.len() == 1 => text.push(b'['),
            WordAtom::Plain(b'*' | b'?' | b'[' | b'{') => return None,
            WordAtom::Plain(b'~') if at == 0 => return None,
            WordAtom::Plain(byte) | WordAtom::Quoted(byte) => text.push(*byte),
            WordAtom::Nothing => {}
            WordAtom::Variable(..) | WordAtom::Bare(_) | WordAtom::Command(..) => return None,
        }
    }
    Some(text)
}

fn is_bash_variable(name: &[u8]) -> bool {
    name.starts_with(b"BASH_") || SET_BY_BASH.iter().any(|own| own.as_bytes() == name)
}

/// Admits an assignment, before `words` or by itself.
fn admit_assignment(name: &[u8], value: &Word, words: &[Word]) -> Result<(), LineRejection> {
    let text = literal_text(value);
    let is_date = || words.first().and_then(literal_text).as_deref() == Some(b"date");
    let known = match name {
        b"TZ" => {
            is_date()
                && text.is_some_and(|text| text.is_empty() || NamedZone::find(&text).is_some())
        }
        b"LANG" | b"LANGUAGE" => is_plain_locale(text),
        name if name.starts_with(b"LC_") => is_plain_locale(text),
        name => {
            !is_bash_variable(name)
                && !BEHAVIOUR_VARIABLES
                    .iter()
                    .any(|heeded| heeded.as_bytes() == name)
        }
    };
    let what: &[u8] = match name {
        _ if known => return Ok(()),
        b"TZ" => b"=: a zone that is not in the database, or for another command than date, is",
        b"LANG" | b"LANGUAGE" => b"=: another locale than C is",
        name if name.starts_with(b"LC_") => b"=: another locale than C is",
        _ => b"=: assigning to this variable is",
    };
    Err(unsupported(&[name, what].concat()))
}

fn is_plain_locale(text: Option<Vec<u8>>) -> bool {
    matches!(text.as_deref(), Some(b"" | b"C" | b"POSIX"))
}
