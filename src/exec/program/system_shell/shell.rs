//! [`SystemShell`]: the executor of lines in a real shell.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use super::line_exchange::LineEnd;
use super::running_shell::RunningShell;
use super::settings::SystemShellSettings;
use super::shell_start::ShellStart;
use super::single_line::run_single_line;
use crate::error::{Error, Result, reason};
use crate::exec::cancel::{CancelReason, CancelToken};
use crate::exec::home::Home;
use crate::exec::home_context::HomeContext;
use crate::exec::pipeline::{AdmittedRequest, Executor, RequestEnd, RequestStreams};
use crate::exec::program::decision::{BLOCKED, cwd_of, unavailable_refusal};
use crate::exec::program::program_home::ProgramHome;
use crate::exec::program::sandbox::{LaunchError, ProgramEnd, Step};
use crate::exec::request::{Limits, ProgramReport, Refusal, Request, Status};
use crate::exec::shell::Shell;
use crate::name::{WorldPath, escape};
use crate::world::{Meta, OriginKind, RunId};

/// The name that outcomes give to the rule that allows a line.
const RULE: &str = "shell";
/// The status of a line whose time is up.
const TIMED_OUT: u8 = 124;
/// The status of a line whose shell cannot be executed.
const NOT_EXECUTED: u8 = 126;
/// The status of a line whose shell is not there.
const NOT_FOUND: u8 = 127;
/// The status of a line that was killed with its sandbox.
const KILLED: u8 = 137;

/// A shell of this machine in a home. In a session, what a line leaves in its shell lasts; otherwise each line is run
/// alone.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use trumanfs::exec::pipeline;
/// use trumanfs::exec::Limits;
/// use trumanfs::exec::program::sandbox::Launcher;
/// use trumanfs::exec::program::{ProgramHome, SystemShell, SystemShellSettings};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A sandbox begins with a process that is the program `trumanfs`.
/// let launcher = Launcher::of("/usr/bin/trumanfs".as_ref())?;
/// let home = Arc::new(ProgramHome::open("project".as_ref(), None, launcher)?);
/// let settings = Arc::new(SystemShellSettings::of("bash"));
/// let mut shell = SystemShell::new(home, settings, Limits::default()).with_session(None);
/// for line in ["total() { paste -sd+ | bc; }", "seq 10 | total"] {
///     let request = shell.request(line.as_bytes());
///     let (outcome, _) = pipeline::execute_gathering(&mut shell, &request, None);
///     print!("{}", String::from_utf8_lossy(&outcome.stdout));
/// }
/// # Ok(())
/// # }
/// ```
pub struct SystemShell {
    /// The first to be dropped: what runs in a home keeps it from being unmounted.
    running: Option<RunningShell>,
    programs: Arc<ProgramHome>,
    settings: Arc<SystemShellSettings>,
    limits: Limits,
    is_session: bool,
    /// The input of the lines of a session.
    input: Option<OwnedFd>,
    /// Why the shell before is not there any more, where no line has said so.
    lost: Option<String>,
    has_exited: bool,
    /// The run of a line before, where that had changed something when it ended.
    ended_run: Option<RunId>,
    cwd: Vec<u8>,
    directory: WorldPath,
    report: Option<Box<ProgramReport>>,
}

impl SystemShell {
    /// Makes one whose lines are run alone, in the root of a home at first.
    #[must_use]
    pub fn new(
        programs: Arc<ProgramHome>,
        settings: Arc<SystemShellSettings>,
        limits: Limits,
    ) -> SystemShell {
        SystemShell {
            cwd: programs.place().root().to_vec(),
            programs,
            settings,
            limits,
            is_session: false,
            input: None,
            running: None,
            lost: None,
            has_exited: false,
            ended_run: None,
            directory: WorldPath::root(),
            report: None,
        }
    }

    /// Makes a sandbox for a shell and ends it again.
    ///
    /// # Errors
    /// [`Error::Refused`] where none can be made for this home.
    pub fn try_sandbox(programs: &ProgramHome, settings: &Arc<SystemShellSettings>) -> Result<()> {
        let tried = ShellStart::new(programs, settings).and_then(|start| {
            let home = programs.place().home();
            start.make_sandbox(programs, &**home, Vec::new(), RunId::random)
        });
        let refused = |error: LaunchError| {
            Error::refused(
                error.to_string(),
                "Have lines run in the bundled shell: --shell bundled.",
            )
        };
        tried.map(drop).map_err(refused)
    }

    /// Has the lines run in one shell, which goes on from line to line. They read `input`, or nothing.
    #[must_use]
    pub fn with_session(mut self, input: Option<OwnedFd>) -> SystemShell {
        self.is_session = true;
        self.input = input;
        self
    }

    /// Prepares the next sandbox, while the caller waits for a line; returns at once.
    pub fn prepare(&self) {
        if self.running.is_none() {
            self.programs.prepare();
        }
    }

    /// Returns the working directory, as `pwd` prints it.
    #[must_use]
    pub fn cwd(&self) -> Vec<u8> {
        self.cwd.clone()
    }

    /// Returns the working directory as a prompt shows it: the root is `~`.
    #[must_use]
    pub fn cwd_from_home(&self) -> Vec<u8> {
        match below(&self.cwd, self.programs.place().root()) {
            Some(below) => [b"~", below].concat(),
            None => self.cwd.clone(),
        }
    }

    /// Returns the completions of a path, as those of the bundled shell.
    #[must_use]
    pub fn completions(&self, typed: &[u8]) -> Vec<Vec<u8>> {
        let mut shell = Shell::at(self.programs.place().clone(), self.limits);
        match shell.set_cwd(&self.cwd) {
            Ok(()) => shell.completions(typed),
            Err(_) => Vec::new(),
        }
    }

    /// Changes the working directory of the next shell.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, as with `cd`.
    pub fn set_cwd(&mut self, typed: &[u8]) -> Result<()> {
        let root = self.programs.place().root();
        let cwd = cwd_of(root, typed);
        let path = WorldPath::parse(below(&cwd, root).ok_or(Error::NotFound)?)?;
        if !self.meta_in_home(&path)?.is_dir() {
            return Err(Error::NotDirectory);
        }
        self.enter(cwd);
        Ok(())
    }

    /// Returns a request for a line, with the shell's limits.
    #[must_use]
    pub fn request(&self, line: &[u8]) -> Request {
        Request {
            command: line.to_vec(),
            limits: self.limits,
            cancel: None,
            run: None,
        }
    }

    /// Returns whether the last line has ended the session's shell by itself, as `exit` does.
    #[must_use]
    pub fn has_exited(&self) -> bool {
        self.has_exited
    }

    /// Returns the run of the last line of a session, where that or what it has left running has changed something by now.
    #[must_use]
    pub fn changed_run(&self) -> Option<RunId> {
        let running = self.running.as_ref();
        running.map_or(self.ended_run, RunningShell::changed_run)
    }

    /// Returns, once, the run that ended when the last line began or the shell ended, where it had changed something.
    pub fn take_ended_run(&mut self) -> Option<RunId> {
        self.ended_run.take()
    }

    /// Ends the shell of a session, with everything that it has started. The next line says so, with this reason.
    pub fn end_shell(&mut self, why: &str) {
        if let Some(running) = self.running.take() {
            self.ended_run = running.end(&mut ProgramReport::default());
            self.lost = Some(why.to_owned());
        }
    }

    /// Notes the working directory.
    fn enter(&mut self, cwd: Vec<u8>) {
        let root = self.programs.place().root();
        let below = below(&cwd, root).unwrap_or_default();
        self.directory = WorldPath::parse(below).unwrap_or_default();
        self.cwd = cwd;
    }

    /// Runs a line alone.
    fn run_alone(
        &mut self,
        admitted: &AdmittedRequest<Vec<u8>>,
        home: &Arc<dyn Home>,
        streams: RequestStreams,
        report: &mut ProgramReport,
    ) -> std::result::Result<RequestEnd, LaunchError> {
        let cancel = admitted.cancel().cloned().unwrap_or_default();
        let start = ShellStart::new(&self.programs, &self.settings)?;
        let (end, output) = run_single_line(
            &self.programs,
            &start,
            (home, admitted.run()),
            (admitted.plan(), &self.cwd),
            streams,
            &cancel,
            report,
        )?;
        let done = match end {
            Some(end) => self.shell_end(&end, report).0,
            None => self.early_end(&cancel).0,
        };
        Ok(RequestEnd {
            left_behind: output.is_left_behind,
            ..done
        })
    }

    /// Runs a line in the session's shell, which is started where there is none.
    fn run_in_session(
        &mut self,
        admitted: &AdmittedRequest<Vec<u8>>,
        home: &Arc<dyn Home>,
        streams: RequestStreams,
        report: &mut ProgramReport,
    ) -> std::result::Result<RequestEnd, LaunchError> {
        let cancel = admitted.cancel().cloned().unwrap_or_default();
        let mut running = self.shell_for(admitted, home, report)?;
        let programs = self.programs.clone();
        let to = [streams.stdout, streams.stderr];
        let is_lost = || programs.is_lost();
        let (end, output) = match running.run_line(admitted.plan(), to, &cancel, &is_lost) {
            Ok(ended) => ended,
            Err(error) => {
                self.running = Some(running);
                let message = format!(
                    "{}: the pipes of the line cannot be made: {}; nothing was run",
                    std::env::temp_dir().display(),
                    reason(&error.into())
                );
                return Ok(RequestEnd::ended_early(Status::Blocked, BLOCKED, message));
            }
        };
        let has_exited = matches!(end, LineEnd::ShellEnded(ProgramEnd::Exited(_)));
        let (done, lost) = match end {
            LineEnd::Reported(told) => {
                home.programs_go_on();
                self.enter(told.cwd);
                self.running = Some(running);
                report.goes_on = output.goes_on;
                let left_behind = output.is_left_behind;
                return Ok(RequestEnd {
                    left_behind,
                    ..RequestEnd::finished(told.status)
                });
            }
            LineEnd::ShellEnded(end) => self.shell_end(&end, report),
            LineEnd::Cancelled => self.early_end(&cancel),
            LineEnd::NoReport => {
                let why = "it did not say how a line had ended, and was ended";
                let message = format!("the shell is not in order: {why}");
                let end = RequestEnd::ended_early(Status::Error, KILLED, message);
                (end, why.to_owned())
            }
        };
        running.end(report);
        self.lost = Some(lost);
        self.has_exited = has_exited;
        Ok(RequestEnd {
            left_behind: output.is_left_behind,
            ..done
        })
    }

    /// Returns the session's shell, working for a request: the one that is there, or a new one.
    fn shell_for(
        &mut self,
        admitted: &AdmittedRequest<Vec<u8>>,
        home: &Arc<dyn Home>,
        report: &mut ProgramReport,
    ) -> std::result::Result<RunningShell, LaunchError> {
        if let Some(mut running) = self.running.take() {
            match running.end_so_far() {
                None => {
                    self.ended_run = running.work_for(home, admitted.run());
                    return Ok(running);
                }
                Some(end) => {
                    let (_, why) = self.shell_end(&end, &mut ProgramReport::default());
                    self.ended_run = running.end(report);
                    self.lost = Some(why);
                }
            }
        }
        let start = ShellStart::new(&self.programs, &self.settings)?;
        self.leave_missing_directory(report);
        let request = (home, admitted.run());
        let input = self.input.as_ref();
        let running = RunningShell::start(&self.programs, &start, request, &self.cwd, input)?;
        running.describe(report);
        if let Some(why) = self.lost.take() {
            report.warnings.push(format!(
                "a new shell has run this line, without the variables, functions, options and background processes of \
                 the one before: {why}"
            ));
        }
        Ok(running)
    }

    /// Goes to the root where the directory of the shell before is not there any more.
    fn leave_missing_directory(&mut self, report: &mut ProgramReport) {
        if self.has_directory() {
            return;
        }
        let gone = escape(&self.cwd);
        self.enter(self.programs.place().root().to_vec());
        let root = escape(&self.cwd);
        report.warnings.push(format!(
            "{gone} is not there any more: the new shell begins in {root}"
        ));
    }

    /// Returns whether the working directory is there, as far as that can be seen from outside the sandbox.
    fn has_directory(&self) -> bool {
        let place = self.programs.place();
        let is_directory = |found: Result<Meta>| found.is_ok_and(|meta| meta.is_dir());
        if below(&self.cwd, place.root()).is_some() {
            return is_directory(self.meta_in_home(&self.directory));
        }
        let tmp = self.programs.scratch_path();
        let Some(inside) = below(&self.cwd, tmp.as_os_str().as_bytes()) else {
            return true;
        };
        let node = || {
            let path = WorldPath::parse(inside)?;
            self.programs.scratch()?.node(&path)
        };
        is_directory(node().map(|node| *node.meta()))
    }

    /// Looks a path of the home up in the store, for root may not get into the home of another user.
    fn meta_in_home(&self, path: &WorldPath) -> Result<Meta> {
        let node = self.programs.client().root()?.node(path)?;
        Ok(*node.meta())
    }

    /// Returns what a line ends with whose shell has ended, and how that is told to the next line.
    fn shell_end(&mut self, end: &ProgramEnd, report: &mut ProgramReport) -> (RequestEnd, String) {
        let early = RequestEnd::ended_early;
        match end {
            ProgramEnd::Exited(code) => {
                let code = u8::try_from(code & 0xff).unwrap_or(1);
                let why = format!("it exited with code {code}");
                (RequestEnd::finished(code), why)
            }
            ProgramEnd::Signalled(signal) => {
                let code = u8::try_from(128 + (signal & 0x7f)).unwrap_or(255);
                let why = format!("signal {signal} ended the shell");
                (early(Status::Failed, code, why.clone()), why)
            }
            ProgramEnd::Limit(limit) => {
                report.limit = Some(limit.name().to_owned());
                let why = format!("the limit of {} was passed", limit.name());
                let message = format!("{why}: everything that ran was killed");
                (early(Status::Error, KILLED, message), why)
            }
            ProgramEnd::NotStarted(error) => {
                let is_missing =
                    error.step == Step::Program && error.errno == Some(rustix::io::Errno::NOENT);
                if error.step == Step::Directory {
                    // The next shell begins where one can.
                    let root = self.programs.place().root().to_vec();
                    self.enter(root);
                }
                let shell = self.settings.shell.display();
                let (code, why) = match is_missing {
                    true => (NOT_FOUND, format!("{shell}: there is no such shell here")),
                    false => (NOT_EXECUTED, format!("{shell}: {error}")),
                };
                (early(Status::Error, code, why.clone()), why)
            }
            _ => {
                let why = "its sandbox has ended".to_owned();
                (early(Status::Error, KILLED, why.clone()), why)
            }
        }
    }

    /// Returns what a line ends with that had to end, and how that is told to the next line.
    fn early_end(&self, cancel: &CancelToken) -> (RequestEnd, String) {
        if self.programs.is_lost() {
            let why = "the home is gone: its daemon has ended";
            return (
                RequestEnd::ended_early(Status::Error, BLOCKED, why),
                why.to_owned(),
            );
        }
        match cancel.ended() {
            Some(CancelReason::Cancelled) => (
                RequestEnd::cancelled(cancel, "cancelled"),
                "a line was cancelled, and it was ended with that line".to_owned(),
            ),
            _ => (
                RequestEnd::ended_early(
                    Status::Timeout,
                    TIMED_OUT,
                    "its time is up: everything that ran was killed",
                ),
                "the time of a line was up, and it was ended with that line".to_owned(),
            ),
        }
    }
}

/// Returns the rest of a path from a directory on, if it leads there.
fn below<'p>(path: &'p [u8], dir: &[u8]) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(dir)?;
    (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
}

impl Executor for SystemShell {
    type Plan = Vec<u8>;
    type Output = ();
    const KIND: OriginKind = OriginKind::Shell;

    fn context(&self) -> &HomeContext {
        self.programs.place()
    }

    fn cwd(&self) -> Vec<u8> {
        SystemShell::cwd(self)
    }

    fn directory(&self) -> &WorldPath {
        &self.directory
    }

    fn plan(&self, request: &Request) -> std::result::Result<Vec<u8>, Refusal> {
        match request.command.contains(&0) {
            false => Ok(request.command.clone()),
            true => Err(Refusal {
                message: b"a line cannot have a NUL byte".to_vec(),
                return_code: 2,
            }),
        }
    }

    fn may_change(&self, _: &Vec<u8>) -> bool {
        true
    }

    fn noun(&self, _: &Vec<u8>) -> &'static str {
        "lines"
    }

    fn unavailable(&self, error: &Error) -> Refusal {
        unavailable_refusal(error)
    }

    fn interrupted(&self, cancel: &CancelToken) -> RequestEnd {
        RequestEnd::cancelled(cancel, "cancelled")
    }

    fn store_return_code(&mut self, _: u8) {}

    fn report(&mut self) -> Option<Box<ProgramReport>> {
        self.report.take()
    }

    fn carry_out(
        &mut self,
        admitted: AdmittedRequest<Vec<u8>>,
        home: Arc<dyn Home>,
        streams: RequestStreams,
    ) -> (RequestEnd, ()) {
        let mut report = ProgramReport {
            verdict: "allow",
            rule: RULE.to_owned(),
            ..ProgramReport::default()
        };
        let done = match self.is_session {
            true => self.run_in_session(&admitted, &home, streams, &mut report),
            false => self.run_alone(&admitted, &home, streams, &mut report),
        };
        self.report = Some(Box::new(report));
        let blocked = |error: LaunchError| {
            RequestEnd::ended_early(Status::Blocked, BLOCKED, error.to_string())
        };
        (done.unwrap_or_else(blocked), ())
    }
}
