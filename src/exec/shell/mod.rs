//! The bundled shell: bash's language and GNU's commands in the C locale, run in process, in a home.
//!
//! A line is parsed and admitted as a whole (`parse`); words are expanded (`expand`, `glob`, `brace`) when their
//! command runs; the stages of a pipeline run concurrently, connected by bounded pipes (`stream`, `run`). Commands
//! (`commands`) see a `call::Call` and access files only through `Home`. Each operation resolves its path anew: a
//! path that is swapped meanwhile for one that leads out of the home is absent.

mod admit;
mod ansi;
mod brace;
mod call;
mod commands;
mod datetime;
mod effect;
mod escape;
mod expand;
mod glob;
mod lex;
mod limit;
mod mode;
mod options;
mod parse;
mod pattern;
mod quote;
mod redirect;
mod run;
mod stream;
mod substitute;
mod syntax;
mod thread_pool;

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::{Home, Limits, Outcome};
use crate::error::Error;
use crate::name::WorldPath;
use call::{Rejection, ShellState};
use limit::Limited;
pub use parse::Stand;
use run::Streams;
use stream::{Deadline, Input, Output};
use substitute::Collected;
use syntax::{List, What};

/// The status of a line that is not run at all.
const REFUSED: u8 = 2;
/// The status of a line past its time limit, as with timeout(1).
const LATE: u8 = 124;

/// The result of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// The exit status.
    pub status: u8,
    /// Whether standard output was cut at the limits.
    pub truncated: bool,
    /// Whether the line was refused: the shell does not know what was meant, so nothing after it should run either.
    pub refused: bool,
}

/// A shell in a home. Its working directory and its variables last from line to line.
pub struct Shell {
    state: ShellState,
    limits: Limits,
}

impl std::fmt::Debug for Shell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (cwd, limits) = (&self.state.cwd, &self.limits);
        f.debug_struct("Shell")
            .field("cwd", cwd)
            .field("limits", limits)
            .finish_non_exhaustive()
    }
}

impl Shell {
    /// Makes a shell whose working directory is the root of a home. `root` is the absolute path shown for the root.
    pub fn new(home: Arc<dyn Home>, root: &[u8], limits: Limits) -> Shell {
        let end = root
            .iter()
            .rposition(|b| *b != b'/')
            .map_or(0, |last| last + 1);
        let mut state = ShellState {
            home,
            registry: commands::REGISTRY,
            root: root.get(..end).unwrap_or_default().into(),
            cwd: WorldPath::root(),
            variables: Default::default(),
            tildes: Vec::new(),
            status: 0,
            deadline: Deadline::default(),
            crew: Default::default(),
        };
        let root = state.shown(&WorldPath::root());
        state.variables.insert(b"HOME".to_vec(), root.clone());
        state.variables.insert(b"PWD".to_vec(), root);
        Shell { state, limits }
    }

    /// Returns the working directory, as `pwd` prints it.
    pub fn cwd(&self) -> Vec<u8> {
        self.state.shown(&self.state.cwd)
    }

    /// Returns the working directory as a prompt shows it: the root is `~`.
    pub fn cwd_from_home(&self) -> Vec<u8> {
        match self.state.cwd.is_root() {
            true => b"~".to_vec(),
            false => [b"~/", self.state.cwd.bytes()].concat(),
        }
    }

    /// Changes the working directory.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, as with `cd`.
    pub fn set_cwd(&mut self, typed: &[u8]) -> Result<(), Error> {
        let path = self.state.path(typed)?;
        if !self.state.home.stat(&path)?.is_dir() {
            return Err(Error::NotDirectory);
        }
        self.state.cwd = path;
        let shown = self.cwd();
        self.state.variables.insert(b"PWD".to_vec(), shown);
        Ok(())
    }

    /// Returns whether the input so far can run or needs more lines.
    pub fn stand(&self, line: &[u8]) -> Stand {
        parse::stand(line)
    }

    /// Returns the completions of a path: full paths, with a slash after directories.
    pub fn completions(&self, typed: &[u8]) -> Vec<Vec<u8>> {
        let cut = typed
            .iter()
            .rposition(|b| *b == b'/')
            .map_or(0, |slash| slash + 1);
        let (dir, begun) = typed.split_at(cut);
        let inside = match dir {
            b"" => self.state.path(b"."),
            [b'~', b'/', rest @ ..] => self
                .state
                .path(&[&self.state.shown(&WorldPath::root())[..], b"/", rest].concat()),
            dir => self.state.path(dir),
        };
        let entries = inside
            .and_then(|path| self.state.home.list(&path))
            .unwrap_or_default();
        let fits = entries.into_iter().filter(|entry| {
            entry.name.starts_with(begun)
                && (begun.starts_with(b".") || !entry.name.starts_with(b"."))
        });
        let mut found: Vec<Vec<u8>> = fits
            .map(|entry| {
                let slash: &[u8] = if entry.kind == rustix::fs::FileType::Directory {
                    b"/"
                } else {
                    b""
                };
                [dir, &entry.name, slash].concat()
            })
            .collect();
        found.sort();
        found
    }

    /// Returns the names of the commands.
    pub fn commands() -> impl Iterator<Item = &'static str> {
        commands::REGISTRY.names()
    }

    /// Returns a flag that ends the current line when set. It is cleared when the next line begins.
    pub fn cancel(&self) -> Arc<AtomicBool> {
        self.state.deadline.cancelled.clone()
    }

    /// Runs a line with empty standard input, and collects its output.
    pub fn run(&mut self, line: &[u8]) -> Outcome {
        let (out, err) = (Collected::default(), Collected::default());
        let ran = self.run_with(line, None, out.clone(), err.clone());
        Outcome {
            stdout: out.take(),
            stderr: err.take(),
            status: ran.status,
            truncated: ran.truncated,
        }
    }

    /// Runs a line with the given streams; without standard input, that is empty.
    pub fn run_with(
        &mut self,
        line: &[u8],
        stdin: Option<OwnedFd>,
        stdout: impl Write + Send + 'static,
        mut stderr: impl Write + Send + 'static,
    ) -> Ran {
        let list = match self.admitted(line) {
            Ok(list) => list,
            Err(Rejection { message, status }) => {
                self.state.status = status;
                let _ = stderr.write_all(&[&message[..], b"\n"].concat());
                return Ran {
                    status,
                    truncated: false,
                    refused: true,
                };
            }
        };
        if let Err(error) = self
            .state
            .home
            .begin_line(effect::may_change(&list, self.state.registry))
        {
            self.state.status = 1;
            let why = call::reason(error.errno());
            let _ = writeln!(stderr, "bash: {why}; nothing of the line has run");
            return Ran {
                status: 1,
                truncated: false,
                refused: true,
            };
        }
        let memory = usize::try_from(self.limits.memory).unwrap_or(usize::MAX);
        let variables = self.state.variables.iter();
        let held = variables
            .map(|(name, value)| name.len() + value.len())
            .sum();
        self.state.deadline.begin(self.limits.time, memory, held);
        let limited = Arc::new(Mutex::new(Limited::new(stdout, &self.limits, noun(&list))));
        let messages = Arc::new(Mutex::new(Limited::new(stderr, &self.limits, "lines")));
        let mut err = Output::writer(Locked(messages.clone()));
        let mut streams = Streams {
            stdin: &mut stdin.map_or_else(Input::empty, |fd| {
                Input::file(fd.into(), &self.state.deadline)
            }),
            out: Output::writer(Locked(limited.clone())),
            err: err.clone(),
        };
        let ended = run::list(&list, &mut streams, &mut self.state);
        let truncated = limited.lock().finish().unwrap_or(false);
        self.state.home.end_line();
        let refused = self.state.deadline.refused();
        if let Some(status) = refused {
            self.state.status = status;
            if self.state.deadline.is_exhausted() {
                let most = self.limits.memory >> 20;
                let _ = writeln!(err, "bash: the line needs more than {most} MiB of memory");
            }
        } else if ended.is_err() {
            self.state.status = LATE;
            let message: &[u8] = match self.state.deadline.check() {
                Err(_) if self.state.deadline.cancelled.load(Ordering::Relaxed) => {
                    b"bash: interrupted\n"
                }
                _ => b"bash: the line's time is up\n",
            };
            let _ = err.write_all(message);
        }
        let _ = messages.lock().finish();
        Ran {
            status: self.state.status,
            truncated,
            refused: refused.is_some() && !self.state.deadline.is_exhausted(),
        }
    }

    /// Parses and admits a line, or returns why nothing of it runs.
    fn admitted(&self, line: &[u8]) -> Result<List, Rejection> {
        let list = parse::parse(line).map_err(|refusal| Rejection {
            message: refusal.message,
            status: REFUSED,
        })?;
        admit::line(&list, &self.state)?;
        Ok(list)
    }
}

/// Returns the noun for lines of output in messages: those of `ls` are entries.
fn noun(list: &List) -> &'static str {
    let lists = |what: &What| match what {
        What::Simple { words, .. } => {
            words.first().and_then(syntax::Word::plain).as_deref() == Some(b"ls")
        }
        _ => false,
    };
    let all = list.iter().all(|and_or| {
        let rest = and_or.rest.iter().map(|(_, pipeline)| pipeline);
        let mut pipelines = std::iter::once(&and_or.first).chain(rest);
        pipelines.all(|pipeline| {
            pipeline
                .stages
                .last()
                .is_some_and(|stage| lists(&stage.what))
        })
    });
    if all { "entries" } else { "lines" }
}

/// A writer shared by the stages and the code that finishes it.
struct Locked<W>(Arc<Mutex<Limited<W>>>);

impl<W: Write> Write for Locked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
