//! Real programs in the lines of the bundled shell: each is decided about by itself, and all of a line run in one
//! sandbox, which is made for the first of them.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::policy::{Allowed, Policy, Watched};
use super::programs::{Command, Programs};
use super::sandbox::{End, LaunchError, Limits, Plan, Service, Step, serve};
use crate::exec::home::Home;
use crate::exec::line_programs::{self, LinePrograms, NotRun, Program};
use crate::exec::request::ProgramReport;
use crate::name::escape;

/// The status of a program that the policy refuses, or that cannot be executed.
const BLOCKED: u8 = 126;
/// The status of a program that is not there.
const NOT_FOUND: u8 = 127;
/// The status of a program that a signal has ended is this and the signal's number.
const SIGNALLED: i32 = 128;

/// The programs of a policy, as lines of a shell may run them.
pub struct LineSource {
    programs: Arc<Programs>,
    policy: Watched,
}

impl LineSource {
    /// Makes one of a home and a policy, which each line follows.
    pub fn new(programs: Arc<Programs>, policy: Watched) -> LineSource {
        LineSource { programs, policy }
    }

    /// Returns the policy in force. A file that is broken now is said so, once, and does not count.
    fn policy(&self) -> Policy {
        let (policy, warning) = self.policy.current();
        if let Some(warning) = warning {
            log::warn!("{warning}");
        }
        policy
    }
}

impl line_programs::Programs for LineSource {
    fn knows(&self, name: &[u8]) -> bool {
        self.policy()
            .programs()
            .any(|known| known.as_bytes() == name)
    }

    fn begin(&self, home: Arc<dyn Home>) -> Arc<dyn LinePrograms> {
        Arc::new(OneLine {
            programs: self.programs.clone(),
            policy: self.policy(),
            home,
            service: Mutex::default(),
            report: Mutex::default(),
        })
    }
}

/// The programs of one line.
struct OneLine {
    programs: Arc<Programs>,
    policy: Policy,
    home: Arc<dyn Home>,
    /// The sandbox, once a program has needed it. Held while it is made, so that there is one.
    service: Mutex<Option<Arc<Service>>>,
    report: Mutex<Option<ProgramReport>>,
}

impl OneLine {
    /// Returns the sandbox of the line.
    fn service(&self) -> Result<Arc<Service>, LaunchError> {
        let mut service = self.service.lock();
        if let Some(service) = &*service {
            return Ok(service.clone());
        }
        let nothing = || {
            openat(
                CWD,
                "/dev/null",
                OFlags::RDWR | OFlags::CLOEXEC,
                Mode::empty(),
            )
        };
        let plan = Plan {
            // Each entry names what its program needs; which of them a line runs is known only as it runs.
            bind_ro: self.policy.all_bind_ro(),
            limits: Limits::usual(),
            ..self.programs.plan([nothing()?, nothing()?, nothing()?])?
        };
        let made = serve(plan, &self.programs.launcher, |process| {
            self.home.add_program(process.unsigned_abs());
        })?;
        Ok(service.insert(Arc::new(made)).clone())
    }

    /// Takes note of a decision. The first refusal counts.
    fn note(&self, words: &[Vec<u8>], decision: &super::Decision) {
        let mut report = self.report.lock();
        let report = report.get_or_insert_default();
        report.programs.push(escape(&super::quote::line(words)));
        match decision {
            Ok(allowed) if report.verdict.is_empty() => {
                report.verdict = "allow";
                report.rule.clone_from(&allowed.rule);
            }
            Err(refused) if report.verdict != "deny" => {
                report.verdict = "deny";
                report.class = Some(refused.class.name());
                report.rule.clone_from(&refused.rule);
            }
            _ => {}
        }
    }

    fn start(
        &self,
        allowed: &Allowed,
        streams: [OwnedFd; 3],
    ) -> Result<(Arc<Service>, u32), NotRun> {
        let refused = |error: LaunchError| NotRun::Refused(error.to_string().into_bytes(), BLOCKED);
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let service = self.service().map_err(refused)?;
        let argv: Vec<OsString> = allowed.argv.iter().map(|word| text(word)).collect();
        let env: Vec<(OsString, OsString)> = allowed
            .env
            .iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect();
        let number = service
            .start(&argv, &env, &text(&allowed.cwd), streams)
            .map_err(refused)?;
        Ok((service, number))
    }
}

impl LinePrograms for OneLine {
    fn run(&self, program: Program<'_>, go_on: &dyn Fn() -> bool) -> Result<u8, NotRun> {
        let command = Command {
            argv: program.words.to_vec(),
            cwd: program.cwd,
            env: program.env.to_vec(),
            ..Command::default()
        };
        let decision = self.programs.decide(&self.policy, &command);
        self.note(program.words, &decision);
        let allowed = decision.map_err(|refused| {
            let why = format!("blocked by {}: {}", refused.rule, refused.reason);
            NotRun::Refused(why.into_bytes(), BLOCKED)
        })?;
        if self.programs.is_read_only() && !allowed.read_only {
            let why = format!(
                "blocked: the home is mounted read-only, and {} does not say `read_only: true`",
                allowed.rule
            );
            return Err(NotRun::Refused(why.into_bytes(), BLOCKED));
        }
        let (service, number) = self.start(&allowed, program.streams)?;
        let end = std::time::Instant::now() + allowed.timeout;
        let in_time = || std::time::Instant::now() < end;
        match service.wait(number, &|| go_on() && in_time()) {
            Some(End::Exited(code)) => Ok(u8::try_from(code & 0xff).unwrap_or(1)),
            Some(End::Signalled(signal)) => {
                Ok(u8::try_from(SIGNALLED + (signal & 0x7f)).unwrap_or(255))
            }
            Some(End::NotStarted(error)) => {
                let missing =
                    error.step == Step::Program && error.errno == Some(rustix::io::Errno::NOENT);
                match missing {
                    true => Err(NotRun::Refused(b"command not found".to_vec(), NOT_FOUND)),
                    false => Err(NotRun::Refused(error.to_string().into_bytes(), BLOCKED)),
                }
            }
            Some(End::Limit(limit)) => {
                let why = format!(
                    "the limit of {} is passed: all programs of the line were killed",
                    limit.name()
                );
                Err(NotRun::Refused(why.into_bytes(), 137))
            }
            Some(_) => Err(NotRun::Refused(b"the sandbox has ended".to_vec(), 137)),
            None => {
                service.kill();
                match go_on() {
                    false => Err(NotRun::Over),
                    true => {
                        let limit = allowed.timeout.as_secs_f64();
                        let why = format!(
                            "the time limit of {limit} s is up: all programs of the line were killed"
                        );
                        Err(NotRun::Refused(why.into_bytes(), 124))
                    }
                }
            }
        }
    }

    fn report(&self) -> Option<Box<ProgramReport>> {
        if self.service.lock().take().is_some() {
            self.home.programs_have_ended();
        }
        self.report.lock().take().map(Box::new)
    }
}
