//! A shell at a terminal: a prompt with the working directory, history, completion; Ctrl-C ends the line and
//! not the shell, Ctrl-D and `exit` the shell.

use std::cell::RefCell;
use std::rc::Rc;

use rustyline::completion::{Completer, Quote, escape, extract_word, unescape};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::super::escaping::escape_for_terminal;
use super::line::{self, print_outcome, take_signals};
use crate::error::{Error, Result};
use crate::exec::interrupt::SIGNALS;
use crate::exec::shell::{InputState, Shell};
use crate::exec::{InterruptSignals, LineShell, Outcome, Status};
use signal_hook::consts::SIGINT;

/// The longest line on standard input, with all that belongs to it.
const MAX_LINE_BYTES: usize = 16 << 20;
/// The status after Ctrl-C: 128 and `SIGINT`.
const STATUS_INTERRUPTED: u8 = 130;

/// Talks with a person until the end of input. Returns the last status.
pub(super) fn run_prompt(shell: LineShell) -> Result<u8> {
    // Ctrl-C ends the line alone.
    let others = SIGNALS.iter().copied().filter(|signal| *signal != SIGINT);
    let interrupt = InterruptSignals::on(&others.collect::<Vec<_>>()).map_err(no_terminal)?;
    interrupt.add(SIGINT).map_err(no_terminal)?;
    let config = Config::builder()
        .auto_add_history(true)
        .completion_type(CompletionType::List)
        .build();
    let history = MemHistory::with_config(&config);
    let mut editor = Editor::with_history(config, history).map_err(no_terminal)?;
    let shell = Rc::new(RefCell::new(shell));
    editor.set_helper(Some(PromptHelper(shell.clone())));
    let mut status = 0;
    loop {
        shell.borrow().prepare();
        let prompt = prompt(&shell.borrow());
        match editor.readline(&prompt) {
            Ok(line) if line.trim() == "exit" => return Ok(status),
            Ok(line) => {
                // Ctrl-C while the line was typed has ended that and nothing else.
                let (outcome, ended) = run(&mut shell.borrow_mut(), line.as_bytes(), &interrupt);
                status = outcome.return_code;
                if ended || shell.borrow().has_exited() {
                    return Ok(status);
                }
            }
            Err(ReadlineError::Interrupted) => status = STATUS_INTERRUPTED,
            Err(ReadlineError::Eof) => return Ok(status),
            Err(error) => return Err(no_terminal(error)),
        }
    }
}

/// Runs each line of standard input as soon as all that belongs to it has come. What is refused ends the input, as a
/// syntax error ends a script: what follows may be the rest of it. Returns the last status.
pub(super) fn read_all(mut shell: LineShell) -> Result<u8> {
    let interrupt = take_signals()?;
    let mut status = 0;
    let mut typed = Vec::new();
    loop {
        shell.prepare();
        let more = read_line(&mut typed)?;
        if typed.trim_ascii() == b"exit" {
            return Ok(status);
        }
        let is_open = matches!(
            (&shell, Shell::input_state(&typed)),
            (_, InputState::Open) | (LineShell::System(_), InputState::Refused { open: true })
        );
        if !more || !is_open {
            let (outcome, ended) = run(&mut shell, &typed, &interrupt);
            status = outcome.return_code;
            let is_over = outcome.status == Status::Blocked || shell.has_exited();
            if is_over || ended || !more {
                return Ok(status);
            }
            typed.clear();
        }
    }
}

/// Reads a line, and not a byte more: what follows is for the commands of that line to read, as with any shell. Returns
/// whether more may come.
fn read_line(typed: &mut Vec<u8>) -> Result<bool> {
    let stdin = std::io::stdin();
    let mut byte = [0];
    loop {
        match rustix::io::read(&stdin, &mut byte) {
            Ok(0) => return Ok(false),
            Ok(_) => typed.extend_from_slice(&byte),
            Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => return Err(no_terminal(errno)),
        }
        if typed.len() > MAX_LINE_BYTES {
            return Err(Error::refused(
                format!("a line of more than {MAX_LINE_BYTES} bytes on standard input"),
                "Put what is so long into a file.",
            ));
        }
        if byte == *b"\n" {
            return Ok(true);
        }
    }
}

fn run(shell: &mut LineShell, line: &[u8], interrupt: &InterruptSignals) -> (Outcome, bool) {
    let (outcome, ended) = line::run(shell, line, interrupt);
    print_outcome(&outcome, false);
    (outcome, ended)
}

/// `~/src$ `, with what cannot be shown escaped.
fn prompt(shell: &LineShell) -> String {
    let cwd = crate::name::escape(&shell.cwd_from_home());
    format!("{}$ ", escape_for_terminal(&cwd, false))
}

fn no_terminal(error: impl std::fmt::Display) -> Error {
    Error::refused(
        format!("the terminal cannot be used: {error}"),
        "`trumanfs exec` runs a line without one.",
    )
}

/// The helper of the line editor: answers its questions while a line is typed.
struct PromptHelper(Rc<RefCell<LineShell>>);

impl Completer for PromptHelper {
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

impl Validator for PromptHelper {
    fn validate(&self, typed: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match Shell::input_state(typed.input().as_bytes()) {
            InputState::Open | InputState::Refused { open: true } => ValidationResult::Incomplete,
            InputState::Complete | InputState::Refused { open: false } => {
                ValidationResult::Valid(None)
            }
        })
    }
}

impl Hinter for PromptHelper {
    type Hint = String;
}

impl Highlighter for PromptHelper {}

impl Helper for PromptHelper {}
