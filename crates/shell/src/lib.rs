//! The bundled shell: bash's language and GNU's commands in the C locale, run in process, in a home.
//!
//! A line is parsed and admitted as a whole (`parse`); words are expanded (`expand`, `glob`, `brace`) when their
//! command runs; the stages of a pipeline run concurrently, connected by bounded pipes (`stream`, `run`). Commands
//! (`commands`) see a `call::Call` and access files only through `Home`. Each operation resolves its path anew: a
//! path that is swapped meanwhile for one that leads out of the home is absent.

#![warn(missing_docs)]

mod admit;
mod ansi;
mod brace;
mod call;
mod commands;
mod datetime;
mod deadline;
mod effect;
mod escape;
mod expand;
mod foresee;
mod glob;
mod lex;
mod line;
mod mode;
mod options;
mod parse;
mod pattern;
mod programs;
mod quote;
mod redirect;
mod run;
mod stream;
mod substitute;
mod syntax;
mod thread_pool;

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use call::{Rejection, ShellState};
use deadline::Deadline;
pub use foresee::{ForeseenProgram, Foresight};
pub use line::Line;
pub use parse::Stand;
use syntax::{List, What};
use trumanfs_executor::cancel::Cancel;
use trumanfs_executor::home::Home;
use trumanfs_executor::line_programs::Programs;
use trumanfs_executor::pipeline::{self, Admitted, Done, Executor, Streams};
use trumanfs_executor::place::Place;
use trumanfs_executor::request::{Limits, Outcome, ProgramReport, Refusal, Request};
use trumanfs_types::error::Error;
use trumanfs_types::name::WorldPath;
use trumanfs_types::origin::OriginKind;

/// The status of a line that is not run at all.
const REFUSED: u8 = 2;

/// A shell in a home. Its working directory and its variables last from line to line.
///
/// ```
/// use trumanfs::exec::shell::Shell;
/// use trumanfs::exec::{self, Access, Limits};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = tempfile::tempdir()?;
/// let mut shell = Shell::at(exec::open(store.path(), &Access::default())?, Limits::default());
/// shell.run(b"mkdir -p src; cd src; name=main.rs");
/// let outcome = shell.run(b"touch $name; ls");
/// assert_eq!(outcome.stdout, b"main.rs\n");
/// // What it has not, it refuses by name before anything of the line runs.
/// let refused = shell.run(b"touch other; while true; do rm main.rs; done");
/// assert_eq!(refused.return_code, 2);
/// assert_eq!(shell.run(b"ls").stdout, b"main.rs\n");
/// # Ok(())
/// # }
/// ```
pub struct Shell {
    place: Place,
    state: ShellState,
    limits: Limits,
    /// What there is to know of the real programs of the last line.
    report: Option<Box<ProgramReport>>,
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
    /// Makes a shell whose working directory is the root of a home, without an audit log. `root` is the absolute path
    /// shown for the root.
    pub fn new(home: Arc<dyn Home>, root: &[u8], limits: Limits) -> Shell {
        Shell::at(Place::new(home, root, None), limits)
    }

    /// Makes a shell whose working directory is the root of a place. The limits hold for each line.
    pub fn at(place: Place, limits: Limits) -> Shell {
        let mut state = ShellState {
            home: place.home().clone(),
            registry: commands::REGISTRY,
            root: place.root().clone(),
            cwd: WorldPath::root(),
            variables: Default::default(),
            tildes: Vec::new(),
            status: 0,
            deadline: Deadline::default(),
            threads: Default::default(),
            programs: None,
            line_programs: None,
        };
        let root = state.shown(&WorldPath::root());
        state.variables.insert(b"HOME".to_vec(), root.clone());
        state.variables.insert(b"PWD".to_vec(), root);
        Shell {
            place,
            state,
            limits,
            report: None,
        }
    }

    /// Lets lines run real programs, too.
    #[must_use]
    pub fn with_programs(mut self, programs: Arc<dyn Programs>) -> Shell {
        self.state.programs = Some(programs);
        self
    }

    /// Makes ready what the next line may need, where that is waited for; returns at once.
    pub fn prepare(&self) {
        if let Some(programs) = &self.state.programs {
            programs.prepare();
        }
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

    /// Forgets variables, the largest first, until the others hold so many bytes at most with their names. Returns the names of
    /// those that it forgot.
    pub fn forget_large_variables(&mut self, most: usize) -> Vec<Vec<u8>> {
        let variables = &mut self.state.variables;
        let size = |(name, value): (&Vec<u8>, &Vec<u8>)| name.len() + value.len();
        let mut held: usize = variables.iter().map(size).sum();
        if held <= most {
            return Vec::new();
        }
        let mut sizes: Vec<(usize, Vec<u8>)> = variables
            .iter()
            .map(|variable| (size(variable), variable.0.clone()))
            .collect();
        sizes.sort_unstable_by(|left, right| right.cmp(left));
        let mut forgotten = Vec::new();
        for (size, name) in sizes {
            if held <= most {
                break;
            }
            variables.remove(&name);
            held -= size;
            forgotten.push(name);
        }
        forgotten
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

    /// Returns a request for a line, with the shell's limits.
    pub fn request(&self, line: &[u8]) -> Request {
        Request {
            command: line.to_vec(),
            limits: self.limits,
            cancel: None,
            run: None,
        }
    }

    /// Returns what the text of an admitted line says of it.
    pub fn foresee(&self, line: &Line) -> Foresight {
        foresee::foresee(line, self.state.registry)
    }

    /// Runs a line with empty standard input, and collects its output.
    pub fn run(&mut self, line: &[u8]) -> Outcome {
        self.gather(line, None)
    }

    /// Runs a line with the given standard input, and collects its output.
    pub fn gather(&mut self, line: &[u8], stdin: Option<OwnedFd>) -> Outcome {
        let request = self.request(line);
        pipeline::execute_gathering(self, &request, stdin)
    }

    /// Runs a line with the given streams; without standard input, that is empty.
    pub fn run_with(
        &mut self,
        line: &[u8],
        stdin: Option<OwnedFd>,
        stdout: impl Write + Send + 'static,
        stderr: impl Write + Send + 'static,
    ) -> Outcome {
        let request = self.request(line);
        let streams = Streams {
            stdin,
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
        };
        pipeline::execute(self, &request, streams)
    }
}

impl Executor for Shell {
    type Plan = Line;

    const KIND: OriginKind = OriginKind::Shell;

    fn place(&self) -> &Place {
        &self.place
    }

    fn cwd(&self) -> Vec<u8> {
        Shell::cwd(self)
    }

    fn directory(&self) -> &WorldPath {
        &self.state.cwd
    }

    fn plan(&self, request: &Request) -> Result<Line, Refusal> {
        let list = parse::parse(&request.command).map_err(|refusal| Refusal {
            message: refusal.message,
            return_code: REFUSED,
        })?;
        let admitted = admit::line(&list, &self.state);
        admitted.map_err(|Rejection { message, status }| Refusal {
            message,
            return_code: status,
        })?;
        Ok(Line(list))
    }

    fn may_change(&self, line: &Line) -> bool {
        effect::may_change(&line.0, self.state.registry)
    }

    fn noun(&self, line: &Line) -> &'static str {
        noun(&line.0)
    }

    fn unavailable(&self, error: &Error) -> Refusal {
        let why = call::reason(error.errno());
        Refusal {
            message: format!("bash: {why}; nothing of the line has run").into_bytes(),
            return_code: 1,
        }
    }

    fn interrupted(&self, cancel: &Cancel) -> Done {
        line::interrupted(cancel)
    }

    fn report(&mut self) -> Option<Box<ProgramReport>> {
        self.report.take()
    }

    fn note(&mut self, return_code: u8) {
        self.state.status = return_code;
    }

    fn carry_out(
        &mut self,
        admitted: Admitted<Line>,
        home: Arc<dyn Home>,
        streams: Streams,
    ) -> Done {
        let (done, state) = line::carry_out(admitted, home, streams, &self.state);
        // A line that was left behind keeps its copy of the state; the shell's is as it was before the line.
        if let Some(state) = state {
            self.state = state;
        }
        self.state.home = self.place.home().clone();
        // What still runs of the line ends here.
        let programs = self.state.line_programs.take();
        self.report = programs.and_then(|programs| programs.report());
        done
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

// Skipping has one home, the test binaries'.
#[cfg(test)]
#[path = "../../../tests/common/need.rs"]
mod need;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
