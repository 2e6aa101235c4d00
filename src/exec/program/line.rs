//! Real programs in the lines of the bundled shell: each is decided about by itself, and runs in a sandbox that it shares
//! with those programs of the line that need the same one.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::command::ProgramCommand;
use super::decision::in_words;
use super::line_sandboxes::{LineSandboxes, SandboxKind};
use super::network::NetworkRequest;
use super::policy::{CommandRefusal, Policy, WatchedPolicy};
use super::program_home::ProgramHome;
use super::runnable::RunnableCommand;
use super::sandbox::{LaunchError, ProgramEnd, SandboxService, Step, tree_of};
use crate::exec::home::Home;
use crate::exec::line_programs::{
    self, AdmittedProgram, LinePrograms, OutputRule, ProgramError, ProgramRequest,
};
use crate::exec::request::ProgramReport;
use crate::name::escape;
use crate::world::RunId;

/// The status of a program that the policy refuses, or that cannot be executed.
const BLOCKED: u8 = 126;
/// The status of a program that is not there.
const NOT_FOUND: u8 = 127;
/// The status of a program whose time is up.
const TIMED_OUT: u8 = 124;
/// The status of a program that was killed with its sandbox.
const KILLED: u8 = 137;
/// The status of a program that a signal has ended is this and the signal's number.
const SIGNALLED: i32 = 128;

/// The programs of a policy, as lines of a shell may run them.
pub struct LineSource {
    programs: Arc<ProgramHome>,
    policy: Arc<WatchedPolicy>,
    network: Option<NetworkRequest>,
}

impl LineSource {
    /// Makes one of a home and a policy, which each line follows. `network`: what every line asks for of the network that
    /// the policy allows its programs; without, they have all of that.
    pub fn new(
        programs: Arc<ProgramHome>,
        policy: impl Into<Arc<WatchedPolicy>>,
        network: Option<NetworkRequest>,
    ) -> LineSource {
        LineSource {
            programs,
            policy: policy.into(),
            network,
        }
    }

    /// Returns what every line asks for of the network.
    pub fn network(&self) -> Option<&NetworkRequest> {
        self.network.as_ref()
    }

    /// Returns the policy in force. A file that is broken now is said so, once, and does not count.
    pub fn policy(&self) -> Policy {
        let (policy, warning) = self.policy.current();
        if let Some(warning) = warning {
            log::warn!("{warning}");
        }
        policy
    }
}

impl line_programs::ProgramProvider for LineSource {
    fn has_program(&self, name: &[u8]) -> bool {
        self.policy()
            .programs()
            .any(|known| known.as_bytes() == name)
    }

    fn prepare(&self) {
        self.programs.prepare();
    }

    fn begin_line(&self, home: Arc<dyn Home>, run: RunId) -> Arc<dyn LinePrograms> {
        Arc::new(ProgramLine {
            programs: self.programs.clone(),
            policy: self.policy(),
            network: self.network.clone(),
            sandboxes: LineSandboxes::new(self.programs.clone(), home, run),
            report: Mutex::default(),
        })
    }
}

/// The programs of one line.
struct ProgramLine {
    programs: Arc<ProgramHome>,
    policy: Policy,
    network: Option<NetworkRequest>,
    sandboxes: LineSandboxes,
    report: Mutex<Option<ProgramReport>>,
}

impl ProgramLine {
    /// Takes note of a decision. The first refusal counts. Returns what the report calls the program.
    fn note(
        &self,
        words: &[Vec<u8>],
        decision: Result<&RunnableCommand, &CommandRefusal>,
    ) -> String {
        let asked = escape(&crate::exec::quote::line(words));
        let mut report = self.report.lock();
        let report = report.get_or_insert_default();
        report.programs.push(asked.clone());
        match decision {
            Ok(ready) if report.verdict.is_empty() => {
                report.verdict = "allow";
                report.rule.clone_from(&ready.allowed.rule);
            }
            Err(refused) if report.verdict != "deny" => {
                report.verdict = "deny";
                report.class = Some(refused.class.name());
                report.rule.clone_from(&refused.rule);
            }
            _ => {}
        }
        asked
    }

    fn start(
        &self,
        ready: &RunnableCommand,
        streams: [OwnedFd; 3],
    ) -> Result<(Arc<SandboxService>, u32), LaunchError> {
        let (argv, env, path) = (ready.argv(), ready.env(), ready.search_path());
        let home = PathBuf::from(OsStr::from_bytes(self.programs.place().root()));
        let tree = tree_of(&argv, &path, &home, &ready.allowed.bind_ro);
        let kind = SandboxKind::of(ready, tree.iter().flat_map(|tree| tree.shown.clone()));
        let service = self.sandboxes.of(&kind, ready.network.as_ref())?;
        let installed = tree.as_ref().map(|tree| tree.file.as_path());
        let number = service.start(&argv, &path, &env, &ready.cwd(), installed, streams)?;
        Ok((service, number))
    }

    /// Says that a program of the line did not end by itself, and kills the others.
    fn kill(&self, why: &str, status: u8) -> ProgramError {
        self.sandboxes.kill();
        let why = format!("{why}: all programs of the line were killed");
        ProgramError::Refused(why.into_bytes(), status)
    }
}

impl LinePrograms for ProgramLine {
    fn admit(
        &self,
        program: ProgramRequest<'_>,
    ) -> Result<Box<dyn AdmittedProgram + '_>, ProgramError> {
        let command = ProgramCommand {
            argv: program.words.to_vec(),
            cwd: program.cwd,
            env: program.env.to_vec(),
            network: self.network.clone(),
            ..ProgramCommand::default()
        };
        let decision = self.programs.ready(&self.policy, &command);
        let asked = self.note(program.words, decision.as_ref());
        match decision {
            Ok(ready) => Ok(Box::new(LineProgram {
                line: self,
                asked,
                ready,
            })),
            Err(refused) => Err(ProgramError::Refused(in_words(&refused), BLOCKED)),
        }
    }

    fn is_lost(&self) -> bool {
        self.programs.is_lost()
    }

    fn report(&self) -> Option<Box<ProgramReport>> {
        let mut report = self.report.lock().take();
        self.sandboxes.end(report.get_or_insert_default());
        report
            .filter(|report| !report.programs.is_empty())
            .map(Box::new)
    }
}

/// A program of a line that may run.
struct LineProgram<'l> {
    line: &'l ProgramLine,
    /// The words of the program, as the report has them.
    asked: String,
    ready: RunnableCommand,
}

impl AdmittedProgram for LineProgram<'_> {
    fn output(&self) -> OutputRule {
        OutputRule {
            bytes: self.ready.allowed.max_output_bytes,
            failures_only: self.ready.allowed.suppress_success_output,
        }
    }

    fn run(&self, streams: [OwnedFd; 3], go_on: &dyn Fn() -> bool) -> Result<u8, ProgramError> {
        let LineProgram { line, asked, ready } = self;
        let (service, number) = line
            .start(ready, streams)
            .map_err(|error| ProgramError::Refused(error.to_string().into_bytes(), BLOCKED))?;
        let timeout = ready.allowed.timeout;
        let end = Instant::now() + timeout;
        match service.wait(number, &|| go_on() && Instant::now() < end) {
            Some(ProgramEnd::Limit(limit)) => {
                let mut report = line.report.lock();
                report.get_or_insert_default().limit = Some(limit.name().to_owned());
                Err(line.kill(&format!("the limit of {} is passed", limit.name()), KILLED))
            }
            Some(end) => status_of(end),
            None if !go_on() => {
                line.sandboxes.kill();
                Err(ProgramError::LineEnded)
            }
            None => {
                let mut report = line.report.lock();
                report.get_or_insert_default().timed_out.push(asked.clone());
                drop(report);
                Err(line.kill(&late(timeout), TIMED_OUT))
            }
        }
    }
}

fn late(timeout: Duration) -> String {
    format!("the time limit of {} s is up", timeout.as_secs_f64())
}

/// Returns the status of a program that has ended.
fn status_of(end: ProgramEnd) -> Result<u8, ProgramError> {
    match end {
        ProgramEnd::Exited(code) => Ok(u8::try_from(code & 0xff).unwrap_or(1)),
        ProgramEnd::Signalled(signal) => {
            Ok(u8::try_from(SIGNALLED + (signal & 0x7f)).unwrap_or(255))
        }
        ProgramEnd::NotStarted(error) => {
            let is_missing =
                error.step == Step::Program && error.errno == Some(rustix::io::Errno::NOENT);
            match is_missing {
                true => Err(ProgramError::Refused(
                    b"command not found".to_vec(),
                    NOT_FOUND,
                )),
                false => Err(ProgramError::Refused(
                    error.to_string().into_bytes(),
                    BLOCKED,
                )),
            }
        }
        _ => Err(ProgramError::Refused(
            b"the sandbox has ended".to_vec(),
            KILLED,
        )),
    }
}
