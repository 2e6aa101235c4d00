//! The bundled shell: bash's language and GNU's commands in the C locale, run in process, in a home.
//!
//! A line is parsed and admitted as a whole (`parse`); words are expanded (`expand`, `glob`, `brace`) when their
//! command runs; the stages of a pipeline run concurrently, connected by bounded pipes (`stream`, `run`). Commands
//! (`commands`) see a `call::Call` and access files only through `Home`. Each operation resolves its path anew: a
//! path that is swapped meanwhile for one that leads out of the home is absent.

#![warn(missing_docs)]

mod admit;
mod analysis;
mod ansi;
mod brace;
mod call;
mod commands;
mod datetime;
mod deadline;
mod effect;
mod escape;
mod expand;
mod glob;
mod lex;
mod line;
mod missing;
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

pub use analysis::{LineAnalysis, PlannedProgram};
use call::{LineRejection, ShellState};
use deadline::Deadline;
pub use line::ParsedLine;
pub use parse::InputState;
use syntax::{CommandList, StageBody};
use trumanfs_executor::cancel::CancelToken;
use trumanfs_executor::home::Home;
use trumanfs_executor::home_context::HomeContext;
use trumanfs_executor::line_programs::ProgramProvider;
use trumanfs_executor::pipeline::{self, AdmittedRequest, Executor, RequestEnd, RequestStreams};
use trumanfs_executor::request::{Limits, Outcome, ProgramReport, Refusal, Request};
use trumanfs_types::error::Error;
use trumanfs_types::name::WorldPath;
use trumanfs_types::origin::OriginKind;

/// The return code of a line that is refused before anything runs.
const REFUSED_STATUS: u8 = 2;

/// A shell in a home. The working directory and the variables last from line to line.
///
/// ```
/// use trumanfs::exec::shell::Shell;
/// use trumanfs::exec::{self, Limits, StoreAccess};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = tempfile::tempdir()?;
/// let mut shell = Shell::at(exec::open(store.path(), &StoreAccess::default())?, Limits::default());
/// shell.run(b"mkdir -p src; cd src; name=main.rs");
/// let outcome = shell.run(b"touch $name; ls");
/// assert_eq!(outcome.stdout, b"main.rs\n");
/// // Unsupported syntax is refused by name before anything of the line runs.
/// let refused = shell.run(b"touch other; while true; do rm main.rs; done");
/// assert_eq!(refused.return_code, 2);
/// assert_eq!(shell.run(b"ls").stdout, b"main.rs\n");
/// # Ok(())
/// # }
/// ```
pub struct Shell {
    place: HomeContext,
    state: ShellState,
    limits: Limits,
    /// The report on the real programs of the last line.
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
        Shell::at(HomeContext::new(home, root, None), limits)
    }

    /// Makes a shell whose working directory is the root of the given home. The limits hold for each line.
    pub fn at(place: HomeContext, limits: Limits) -> Shell {
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
        let root = state.display_path(&WorldPath::root());
        state.variables.insert(b"HOME".to_vec(), root.clone());
        state.variables.insert(b"PWD".to_vec(), root);
        Shell {
            place,
            state,
            limits,
            report: None,
        }
    }

    /// Lets lines run real programs too.
    #[must_use]
    pub fn with_programs(mut self, programs: Arc<dyn ProgramProvider>) -> Shell {
        self.state.programs = Some(programs);
        self
    }

    /// Prepares real programs for the next line, while the caller waits for that line; returns at once.
    pub fn prepare(&self) {
        if let Some(programs) = &self.state.programs {
            programs.prepare();
        }
    }

    /// Returns the working directory, as `pwd` prints it.
    pub fn cwd(&self) -> Vec<u8> {
        self.state.display_path(&self.state.cwd)
    }

    /// Returns the working directory as a prompt shows it: the root is `~`.
    pub fn cwd_from_home(&self) -> Vec<u8> {
        if self.state.cwd.is_root() {
            b"~".to_vec()
        } else {
            [b"~/", self.state.cwd.bytes()].concat()
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

    /// Forgets variables, the largest first, until the remaining ones hold at most so many bytes, names included.
    /// Returns the names of the forgotten ones.
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
    pub fn input_state(line: &[u8]) -> InputState {
        parse::input_state(line)
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
                .path(&[&self.state.display_path(&WorldPath::root())[..], b"/", rest].concat()),
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

    /// Analyzes the text of an admitted line.
    pub fn analyze(&self, line: &ParsedLine) -> LineAnalysis {
        analysis::analyze(line, &self.state)
    }

    /// Runs a line with empty standard input, and collects its output.
    pub fn run(&mut self, line: &[u8]) -> Outcome {
        self.run_with_stdin(line, None)
    }

    /// Runs a line with the given standard input, and collects its output.
    pub fn run_with_stdin(&mut self, line: &[u8], stdin: Option<OwnedFd>) -> Outcome {
        let request = self.request(line);
        pipeline::execute_gathering(self, &request, stdin).0
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
        let streams = RequestStreams {
            stdin,
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
        };
        pipeline::execute(self, &request, streams).0
    }
}

impl Executor for Shell {
    type Plan = ParsedLine;
    type Output = ();
    const KIND: OriginKind = OriginKind::Shell;

    fn context(&self) -> &HomeContext {
        &self.place
    }

    fn cwd(&self) -> Vec<u8> {
        Shell::cwd(self)
    }

    fn directory(&self) -> &WorldPath {
        &self.state.cwd
    }

    fn plan(&self, request: &Request) -> Result<ParsedLine, Refusal> {
        let list = parse::parse(&request.command).map_err(|refusal| Refusal {
            message: refusal.message,
            return_code: REFUSED_STATUS,
        })?;
        let admitted = admit::admit_line(&list, &self.state);
        admitted.map_err(|LineRejection { message, status }| Refusal {
            message,
            return_code: status,
        })?;
        Ok(ParsedLine(list))
    }

    fn may_change(&self, line: &ParsedLine) -> bool {
        effect::may_change(&line.0, &self.state)
    }

    fn noun(&self, line: &ParsedLine) -> &'static str {
        noun(&line.0)
    }

    fn unavailable(&self, error: &Error) -> Refusal {
        let why = call::reason(error.errno());
        Refusal {
            message: format!("bash: {why}; nothing of the line has run").into_bytes(),
            return_code: 1,
        }
    }

    fn interrupted(&self, cancel: &CancelToken) -> RequestEnd {
        line::interrupted(cancel)
    }

    fn report(&mut self) -> Option<Box<ProgramReport>> {
        self.report.take()
    }

    fn store_return_code(&mut self, return_code: u8) {
        self.state.status = return_code;
    }

    fn carry_out(
        &mut self,
        admitted: AdmittedRequest<ParsedLine>,
        home: Arc<dyn Home>,
        streams: RequestStreams,
    ) -> (RequestEnd, ()) {
        let (done, state) = line::carry_out(admitted, home, streams, &self.state);
        // A line that was left behind keeps its copy of the state; the shell goes on with the state before the line.
        if let Some(state) = state {
            self.state = state;
        }
        self.state.home = self.place.home().clone();
        // Programs of the line that still run end here.
        let programs = self.state.line_programs.take();
        self.report = programs.and_then(|programs| programs.report());
        (done, ())
    }
}

/// Returns the noun for lines of output in messages: those of `ls` are entries.
fn noun(list: &CommandList) -> &'static str {
    let lists = |what: &StageBody| match what {
        StageBody::Simple { words, .. } => {
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
                .is_some_and(|stage| lists(&stage.body))
        })
    });
    if all { "entries" } else { "lines" }
}

// The rules for skipping tests are those of the test binaries.
#[cfg(test)]
#[path = "../../../tests/common/need.rs"]
mod need;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
