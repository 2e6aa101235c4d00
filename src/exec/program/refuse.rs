//! Refused commands: a refusal leaves a line in the audit log and nothing else; an unmounted store stays unmounted.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags};

use super::policy::{AllowedCommand, CommandRefusal, CommandRequest, Policy, RootPaths, decide};
use super::programs::ProgramCommand;
use crate::client;
use crate::error::{Error, Result};
use crate::exec::cancel::CancelToken;
use crate::exec::home::Home;
use crate::exec::home_context::HomeContext;
use crate::exec::pipeline::{self, AdmittedRequest, Executor, RequestEnd, RequestStreams};
use crate::exec::quote::line;
use crate::exec::request::{Outcome, ProgramReport, Refusal, Request};
use crate::exec::{StoreAccess, open};
use crate::name::{WorldPath, escape};
use crate::world::OriginKind;

/// The status of a request that is refused, or for which no sandbox can be made.
pub(super) const BLOCKED: u8 = 125;

/// A command that a policy refuses, in an unmounted store.
pub struct RefusedCommand {
    place: HomeContext,
    request: Request,
    refused: CommandRefusal,
    cwd: Vec<u8>,
    directory: WorldPath,
}

impl RefusedCommand {
    /// Decides about a command in an unmounted store. Returns `None` if the policy allows it, or if the store is mounted:
    /// then [`ProgramHome`](super::ProgramHome) decides.
    ///
    /// # Errors
    /// As [`client::unmounted`] and [`open()`].
    pub fn find(
        target: &Path,
        policy: &Policy,
        command: &ProgramCommand,
    ) -> Result<Option<RefusedCommand>> {
        let Some(store) = client::unmounted(target)? else {
            return Ok(None);
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let paths =
            rustix::fs::openat(CWD, &store, flags, Mode::empty()).map_err(Error::os("open"))?;
        let question = CommandRequest {
            argv: &command.argv,
            cwd: &command.cwd,
            home: store.as_os_str().as_bytes(),
            env: &command.env,
            timeout: command.timeout,
            paths: &RootPaths::from(paths),
        };
        let Err(refused) = decide(policy, &question) else {
            return Ok(None);
        };
        Ok(Some(RefusedCommand {
            place: open(&store, &StoreAccess::default())?,
            request: Request {
                command: line(&command.argv),
                ..Request::default()
            },
            refused,
            cwd: cwd_of(store.as_os_str().as_bytes(), &command.cwd),
            directory: WorldPath::root(),
        }))
    }

    /// Refuses the command, with the reason on standard error.
    pub fn refuse(mut self, stdin: Option<OwnedFd>) -> Outcome {
        let request = self.request.clone();
        pipeline::execute_gathering(&mut self, &request, stdin)
    }
}

/// Returns the report on a command that has been decided about.
pub(super) fn report_of(
    decision: std::result::Result<&AllowedCommand, &CommandRefusal>,
) -> ProgramReport {
    match decision {
        Ok(allowed) => ProgramReport {
            verdict: "allow",
            rule: allowed.rule.clone(),
            argv: allowed.argv.iter().map(|word| escape(word)).collect(),
            suppress_success_output: allowed.suppress_success_output,
            ..ProgramReport::default()
        },
        Err(refused) => ProgramReport {
            verdict: "deny",
            class: Some(refused.class.name()),
            rule: refused.rule.clone(),
            ..ProgramReport::default()
        },
    }
}

/// Returns the working directory of a command that is refused: as an absolute path where it is one in the home.
pub(super) fn cwd_of(home: &[u8], cwd: &[u8]) -> Vec<u8> {
    match WorldPath::parse(cwd) {
        Ok(path) if path.is_root() && !cwd.starts_with(b"/") => home.to_vec(),
        Ok(path) if !cwd.starts_with(b"/") => [home, path.bytes()].join(&b'/'),
        _ => cwd.to_vec(),
    }
}

/// Words a refusal of the policy.
pub(super) fn in_words(refused: &CommandRefusal) -> Vec<u8> {
    format!("blocked by {}: {}", refused.rule, refused.reason).into_bytes()
}

/// Returns what a refused command ends with.
pub(super) fn refusal(refused: &CommandRefusal) -> Refusal {
    Refusal {
        message: in_words(refused),
        return_code: BLOCKED,
    }
}

impl Executor for RefusedCommand {
    type Plan = ();
    const KIND: OriginKind = OriginKind::Program;

    fn context(&self) -> &HomeContext {
        &self.place
    }

    fn cwd(&self) -> Vec<u8> {
        self.cwd.clone()
    }

    fn directory(&self) -> &WorldPath {
        &self.directory
    }

    fn plan(&self, _: &Request) -> std::result::Result<(), Refusal> {
        Err(refusal(&self.refused))
    }

    fn may_change(&self, _: &()) -> bool {
        false
    }

    fn noun(&self, _: &()) -> &'static str {
        "lines"
    }

    fn unavailable(&self, _: &Error) -> Refusal {
        refusal(&self.refused)
    }

    fn interrupted(&self, cancel: &CancelToken) -> RequestEnd {
        RequestEnd::cancelled(cancel, "cancelled")
    }

    fn store_return_code(&mut self, _: u8) {}

    fn report(&mut self) -> Option<Box<ProgramReport>> {
        Some(Box::new(report_of(Err(&self.refused))))
    }

    fn carry_out(
        &mut self,
        _: AdmittedRequest<()>,
        _: Arc<dyn Home>,
        _: RequestStreams,
    ) -> RequestEnd {
        refusal(&self.refused).into()
    }
}
