//! Admission: a parsed line is accepted or refused as a whole. No literal name may be that of a command which bash has
//! and this shell has not, and no variable may mean something to bash that it does not mean here.
//!
//! Such a command cannot do its part of the line. The commands after it (`set -e; …; rm`, `[ -e x ] || rm`, `sort
//! f > g; rm f`) rely on it, so nothing of the line runs. Where its name comes from an expansion, the line ends when
//! it would have run. A name that bash would not know either is bash's error, and the line goes on (`rg x || grep x`).

use rustix::io::Errno;

use super::call::{LineRejection, ShellState, reason};
use super::datetime::NamedZone;
use super::missing::{is_builtin, is_utility};
use super::syntax::{AndOr, CommandList, RedirectTarget, Stage, StageBody, Word, WordAtom};

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

/// The permission bits of which a program has one.
const EXECUTABLE: u32 = 0o111;

fn unsupported(what: &[u8]) -> LineRejection {
    LineRejection {
        message: [b"bash: ", what, b" not supported"].concat(),
        status: REFUSED_STATUS,
    }
}

/// The meaning of a name that is neither a bundled command nor a program.
#[derive(Debug)]
pub(super) enum UnknownName {
    /// Of bash it runs a command: the line ends, or is refused.
    Missing(LineRejection),
    /// Of bash it gives an error with these words, too, and this status. The line goes on.
    Absent(Vec<u8>, u8),
}

impl UnknownName {
    /// Returns the rejection of a line in which this name cannot be passed over.
    pub(super) fn into_rejection(self) -> LineRejection {
        match self {
            UnknownName::Missing(rejection) => rejection,
            UnknownName::Absent(words, status) => LineRejection {
                message: [b"bash: ", &words[..]].concat(),
                status,
            },
        }
    }
}

/// Looks up the meaning of a name that is neither a bundled command nor a program.
pub(super) fn look_up_unknown(name: &[u8], state: &ShellState) -> UnknownName {
    let says = |why: &str| [&state.as_typed(name)[..], b": ", why.as_bytes()].concat();
    let missing = |why, status| {
        let message = [b"bash: ", &says(why)[..]].concat();
        UnknownName::Missing(LineRejection { message, status })
    };
    if is_builtin(name) {
        return UnknownName::Missing(unsupported(&[name, b": this builtin is"].concat()));
    }
    if is_utility(name) {
        return missing("command not found", NOT_FOUND_STATUS);
    }
    if !name.contains(&b'/') {
        return UnknownName::Absent(says("command not found"), NOT_FOUND_STATUS);
    }
    match state.path(name).and_then(|path| state.home.stat(&path)) {
        Err(error) => {
            let status = match error.errno() {
                Errno::NOTDIR => CANNOT_RUN_STATUS,
                _ => NOT_FOUND_STATUS,
            };
            UnknownName::Absent(says(&reason(error.errno())), status)
        }
        Ok(meta) if meta.is_dir() => UnknownName::Absent(says("Is a directory"), CANNOT_RUN_STATUS),
        Ok(meta) if meta.mode & EXECUTABLE == 0 => {
            UnknownName::Absent(says("cannot execute"), CANNOT_RUN_STATUS)
        }
        Ok(_) => missing("programs do not run in this shell", CANNOT_RUN_STATUS),
    }
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
    if state.registry.find(&name).is_none()
        && !state.is_program(&name)
        && let UnknownName::Missing(rejection) = look_up_unknown(&name, state)
    {
        return Err(rejection);
    }
    let args: Vec<Option<Vec<u8>>> = words.iter().skip(1).map(literal_text).collect();
    admit_arguments(&name, &args, state)
}

/// Admits the arguments of a command, and those of the commands that `find` is to run.
fn admit_arguments(
    name: &[u8],
    args: &[Option<Vec<u8>>],
    state: &ShellState,
) -> Result<(), LineRejection> {
    let Some(command) = state.registry.find(name) else {
        return Ok(());
    };
    if let Some(rejection) = (command.find_unsupported)(args) {
        return Err(rejection);
    }
    if name != b"find" {
        return Ok(());
    }
    // Up to where the words belong to a command that has been looked at. A `find` in it is admitted when it runs.
    let mut admitted = 0;
    for (at, word) in args.iter().enumerate() {
        let Some(Some(name)) = args.get(at + 1) else {
            continue;
        };
        if word.as_deref() != Some(b"-exec") || name == b";" {
            continue;
        }
        let command = state.registry.find(name);
        let Some(command) = command.filter(|_| runs_for_find(name, state)) else {
            return Err(look_up_unknown(name, state).into_rejection());
        };
        if at < admitted {
            continue;
        }
        let ends = |word: &Option<Vec<u8>>| matches!(word.as_deref(), Some(b";" | b"+"));
        let words = args.get(at + 2..).unwrap_or_default();
        let end = words.iter().position(ends).unwrap_or(words.len());
        admitted = at + 2 + end;
        if let Some(rejection) = (command.find_unsupported)(words.get(..end).unwrap_or_default()) {
            return Err(rejection);
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
