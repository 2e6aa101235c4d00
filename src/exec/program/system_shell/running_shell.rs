//! [`RunningShell`]: a shell that goes on from line to line, in a sandbox of its own.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::pipe::{PipeFlags, pipe_with};

use super::line_exchange::{LineEnd, LineExchange};
use super::line_output::{OutputEnd, OutputThreads, OutputWriter};
use super::line_pipes::{LinePipe, PipeDirectory};
use super::script::{LineReport, ShellDialect, first_text, text_of};
use super::shell_start::ShellStart;
use crate::exec::CancelToken;
use crate::exec::home::Home;
use crate::exec::program::program_home::ProgramHome;
use crate::exec::program::sandbox::{LaunchError, ProgramEnd, Step};
use crate::exec::program::served_sandbox::{ServedSandbox, open_nothing};
use crate::exec::request::ProgramReport;
use crate::world::RunId;

/// The longest time in which the rest of a line's output is passed on.
pub(super) const REST_LIMIT: Duration = Duration::from_secs(2);

/// A shell, which ends with everything that it has started when this is dropped.
pub(super) struct RunningShell {
    sandbox: ServedSandbox,
    /// Its number in the sandbox.
    number: u32,
    /// Where it reads what it is to do.
    script: OwnedFd,
    pipes: PipeDirectory,
    /// Where it reports the ends of its lines.
    report: LinePipe,
    output: OutputThreads,
    dialect: ShellDialect,
    has_input: bool,
    /// The last that it told.
    last: LineReport,
    /// The run of the line that runs, or ran last.
    run: Arc<Mutex<RunId>>,
    /// The home as the request of that line has it: what is changed between two lines belongs to the first one.
    home: Option<Arc<dyn Home>>,
}

impl RunningShell {
    /// Starts one for a line, in this directory. `input`: what its lines read.
    ///
    /// # Errors
    /// No sandbox can be made, or no pipes.
    pub(super) fn start(
        programs: &ProgramHome,
        start: &ShellStart,
        (home, run): (&Arc<dyn Home>, RunId),
        cwd: &[u8],
        input: Option<&OwnedFd>,
    ) -> Result<RunningShell, LaunchError> {
        let pipes = PipeDirectory::new(programs.owner());
        let pipes = pipes.map_err(|error| {
            let place = std::env::temp_dir();
            let why = format!("{}: no pipes for the shell: {error}", place.display());
            LaunchError::refused(Step::Control, why)
        })?;
        let of_line = Arc::new(Mutex::new(run));
        let current = of_line.clone();
        let placed = vec![pipes.placed()?];
        let sandbox = start.make_sandbox(programs, &**home, placed, move || *current.lock())?;
        let (read, script) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&script, true)?;
        let nothing = open_nothing()?;
        let second = match input {
            Some(input) => rustix::io::fcntl_dupfd_cloexec(input, 0)?,
            None => rustix::io::fcntl_dupfd_cloexec(&nothing, 0)?,
        };
        let number = start.start_in(
            &sandbox,
            &start.session_words(),
            cwd,
            [read, nothing, second],
        )?;
        let text = first_text(input.is_some());
        // A new pipe has room for this.
        rustix::io::write(&script, &text)?;
        Ok(RunningShell {
            sandbox,
            number,
            script,
            report: pipes.make_report()?,
            pipes,
            output: OutputThreads::default(),
            dialect: ShellDialect::of(&start.settings().shell),
            has_input: input.is_some(),
            last: LineReport::of_start(cwd),
            run: of_line,
            home: Some(home.clone()),
        })
    }

    /// Returns how it ended, if it has.
    pub(super) fn end_so_far(&self) -> Option<ProgramEnd> {
        self.sandbox.service().end_so_far(self.number)
    }

    /// Returns the run of its last line, where that or what it has left running has changed something by now.
    pub(super) fn changed_run(&self) -> Option<RunId> {
        let home = self.home.as_ref()?;
        home.programs_go_on();
        home.has_changed().then(|| *self.run.lock())
    }

    /// Notes that what it does belongs to another request from now on. Returns the run of the line before, where that has
    /// changed something.
    pub(super) fn work_for(&mut self, home: &Arc<dyn Home>, run: RunId) -> Option<RunId> {
        let before = std::mem::replace(&mut *self.run.lock(), run);
        let ended = self.home.replace(home.clone());
        let has_changed = home.take_programs(before).unwrap_or_else(|| {
            let has_changed = has_changed_at_end(ended.as_deref());
            home.add_program(self.sandbox.service().pid().unsigned_abs());
            has_changed
        });
        has_changed.then_some(before)
    }

    /// Runs a line, whose output goes to these writers. Returns its end, and that of its output.
    ///
    /// # Errors
    /// The pipes for it cannot be made: nothing was run.
    pub(super) fn run_line(
        &mut self,
        line: &[u8],
        to: [OutputWriter; 2],
        cancel: &CancelToken,
        is_lost: &dyn Fn() -> bool,
    ) -> rustix::io::Result<(LineEnd, OutputEnd)> {
        let pipes = self.pipes.make_pipes()?;
        let nonce = RunId::random().to_string();
        let before = (&self.last, self.has_input);
        let text = text_of(line, self.dialect, before, (&pipes.name, &nonce));
        let ([out, err], [to_out, to_err]) = (pipes.streams, to);
        let streams = [(out.read, to_out), (err.read, to_err)];
        let output = self.output.start(streams)?;
        let exchange = LineExchange {
            sandbox: self.sandbox.service(),
            shell: self.number,
            script: &self.script,
            report: &self.report.read,
            nonce: &nonce,
        };
        let end = exchange.run(&text, cancel, is_lost);
        self.pipes.remove_names(&pipes.name);
        drop([out.held, err.held]);
        if let LineEnd::Reported(report) = &end {
            self.last = report.clone();
        } else {
            self.sandbox.service().kill();
        }
        Ok((end, self.output.finish(output, REST_LIMIT)))
    }

    /// Adds to a report what there is to know of its sandbox.
    pub(super) fn describe(&self, report: &mut ProgramReport) {
        self.sandbox.describe(report);
    }

    /// Ends it and everything that it has started, and adds to a report what came of its network. Returns the run of its last
    /// line, where that has changed something.
    pub(super) fn end(self, report: &mut ProgramReport) -> Option<RunId> {
        let RunningShell {
            sandbox, home, run, ..
        } = self;
        sandbox.end(report);
        has_changed_at_end(home.as_deref()).then(|| *run.lock())
    }
}

/// Notes that the programs of a request have ended. Returns whether it has changed something.
fn has_changed_at_end(home: Option<&dyn Home>) -> bool {
    home.is_some_and(|home| {
        home.programs_have_ended();
        home.has_changed()
    })
}
