//! The bundled shell at a terminal: a prompt with the working directory, history, completion; Ctrl-C ends the line and not
//! the shell, Ctrl-D and `exit` the shell.

use std::cell::RefCell;
use std::io::BufRead;
use std::rc::Rc;

use rustyline::completion::{Completer, Quote, escape, extract_word, unescape};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use crate::error::{Error, Result};
use crate::exec::shell::Shell;
use crate::exec::unmounted::StoredHome;

/// The status after Ctrl-C: 128 and `SIGINT`.
const INTERRUPTED: u8 = 130;

/// Talks with a person until the end of input. Returns the last status.
pub(super) fn converse(shell: Shell, stored: Option<&StoredHome>) -> Result<u8> {
    signal_hook::flag::register(signal_hook::consts::SIGINT, shell.cancel())
        .map_err(no_terminal)?;
    let config = Config::builder()
        .auto_add_history(true)
        .completion_type(CompletionType::List)
        .build();
    let history = MemHistory::with_config(&config);
    let mut editor = Editor::with_history(config, history).map_err(no_terminal)?;
    let shell = Rc::new(RefCell::new(shell));
    editor.set_helper(Some(Typing(shell.clone())));
    let mut status = 0;
    loop {
        let prompt = prompt(&shell.borrow());
        match editor.readline(&prompt) {
            Ok(line) if line.trim() == "exit" => return Ok(status),
            Ok(line) => {
                status = run(&mut shell.borrow_mut(), line.as_bytes());
                super::tell_refusal(stored);
            }
            Err(ReadlineError::Interrupted) => status = INTERRUPTED,
            Err(ReadlineError::Eof) => return Ok(status),
            Err(error) => return Err(no_terminal(error)),
        }
    }
}

/// Runs each line of standard input. Returns the last status.
pub(super) fn read_all(mut shell: Shell, stored: Option<&StoredHome>) -> Result<u8> {
    let mut status = 0;
    let mut typed = Vec::new();
    let mut stdin = std::io::stdin().lock();
    loop {
        let read = stdin.read_until(b'\n', &mut typed).map_err(no_terminal)?;
        if typed.trim_ascii() == b"exit" {
            return Ok(status);
        }
        if read == 0 || !shell.goes_on(&typed) {
            // What is read here is the shell's; commands have nothing on their standard input.
            let ended = shell.run_with(&typed, None, std::io::stdout(), std::io::stderr());
            status = ended.0;
            super::tell_refusal(stored);
            typed.clear();
        }
        if read == 0 {
            return Ok(status);
        }
    }
}

fn run(shell: &mut Shell, line: &[u8]) -> u8 {
    let ended = shell.run_with(line, super::stdin(), std::io::stdout(), std::io::stderr());
    ended.0
}

/// `~/src$ `, with what cannot be shown escaped.
fn prompt(shell: &Shell) -> String {
    format!("{}$ ", crate::name::escape(&shell.cwd_from_home()))
}

fn no_terminal(error: impl std::fmt::Display) -> Error {
    Error::refused(
        format!("the terminal cannot be used: {error}"),
        "`trumanfs exec` runs a line without one.",
    )
}

/// What the editor asks while a line is typed.
struct Typing(Rc<RefCell<Shell>>);

impl Completer for Typing {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let (start, word) = extract_word(line, pos, Some('\\'), is_special);
        let typed = unescape(word, Some('\\'));
        let shell = self.0.borrow();
        let first = line.get(..start).unwrap_or_default().trim_end();
        let mut found = Vec::new();
        // A command stands at the start, and after what parts commands.
        if !typed.contains('/') && (first.is_empty() || first.ends_with(['|', ';', '&', '('])) {
            let fitting = Shell::commands().filter(|name| name.starts_with(&*typed));
            found.extend(fitting.map(|name| format!("{name} ")));
        }
        // The editor knows text only; other names have to be typed as globs.
        let paths = shell
            .completions(typed.as_bytes())
            .into_iter()
            .filter_map(|path| String::from_utf8(path).ok());
        found.extend(paths.map(|path| {
            let (tilde, path) = match path.strip_prefix('~') {
                Some(rest) if typed.starts_with('~') => ("~", rest.to_owned()),
                _ => ("", path),
            };
            format!(
                "{tilde}{}",
                escape(path, Some('\\'), is_special, Quote::None)
            )
        }));
        Ok((start, found))
    }
}

/// Returns whether a character has a backslash before it in a completed word.
fn is_special(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t'
            | '\n'
            | '\\'
            | '"'
            | '\''
            | '$'
            | '`'
            | '*'
            | '?'
            | '['
            | ']'
            | '('
            | ')'
            | '{'
            | '}'
            | '<'
            | '>'
            | '|'
            | '&'
            | ';'
            | '#'
            | '!'
            | '~'
    )
}

impl Validator for Typing {
    fn validate(&self, typed: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match self.0.borrow().goes_on(typed.input().as_bytes()) {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

impl Hinter for Typing {
    type Hint = String;
}

impl Highlighter for Typing {}

impl Helper for Typing {}
