//! From a command to its outcome. The policy decides once, before anything else; then comes the pipeline, in which a
//! refusal ends like everything that is refused, and what is allowed runs in a sandbox (`executor.rs`).

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::command::ProgramCommand;
use super::decision::{HomeDecision, decide_in};
use super::executor::ProgramExecution;
use super::policy::{CommandRefusal, Policy};
use super::program_home::ProgramHome;
use super::sandbox::Launcher;
use crate::client;
use crate::error::Result;
use crate::exec::cancel::CancelToken;
use crate::exec::home_context::HomeContext;
use crate::exec::pipeline::{self, RequestStreams};
use crate::exec::quote::line;
use crate::exec::request::{Limits, Outcome, Request};
use crate::exec::{StoreAccess, open};

/// A command that is decided about, in the home behind a TARGET. A refusal leaves a line in the audit log and nothing else:
/// an unmounted store stays unmounted.
pub struct DecidedCommand {
    command: ProgramCommand,
    place: DecisionPlace,
}

/// The place of a decision.
enum DecisionPlace {
    /// A mounted home, and the command as it can run there.
    Home(Box<(ProgramHome, HomeDecision)>),
    /// A store that nobody has mounted, where the command is refused.
    Store(HomeContext, CommandRefusal),
}

impl DecidedCommand {
    /// Decides about a command. A store is mounted for one that is allowed, for as long as this lives.
    ///
    /// # Errors
    /// As [`client::unmounted_store`], [`open()`] and [`ProgramHome::open`].
    pub fn new(
        target: &Path,
        policy: &Policy,
        command: ProgramCommand,
        launcher: Launcher,
    ) -> Result<DecidedCommand> {
        let mut decided = None;
        if let Some(store) = client::unmounted_store(target)? {
            match decide_in(&store, policy, &command)? {
                Ok(allowed) => decided = Some((store, allowed)),
                Err(refused) => {
                    let place =
                        DecisionPlace::Store(open(&store, &StoreAccess::default())?, refused);
                    return Ok(DecidedCommand { command, place });
                }
            }
        }
        let home = ProgramHome::open(target, None, launcher)?;
        let ready = match decided {
            // Unless somebody has just mounted it elsewhere, its paths are still the same.
            Some((store, allowed)) if *store.as_os_str().as_bytes() == **home.place.root() => {
                home.runnable(allowed, &command)
            }
            _ => home.ready(policy, &command),
        };
        let place = DecisionPlace::Home(Box::new((home, ready)));
        Ok(DecidedCommand { command, place })
    }

    /// Returns whether output is left out if the command succeeds.
    pub fn suppresses_success_output(&self) -> bool {
        match &self.place {
            DecisionPlace::Home(decided) => decided
                .1
                .as_ref()
                .is_ok_and(|ready| ready.allowed.suppress_success_output),
            DecisionPlace::Store(..) => false,
        }
    }

    /// Runs the command, if it is allowed, and passes its output on to these streams.
    pub fn run(self, cancel: CancelToken, streams: RequestStreams) -> Outcome {
        let command = ProgramCommand {
            cancel: Some(cancel),
            ..self.command
        };
        match self.place {
            DecisionPlace::Home(decided) => {
                let (home, decision) = *decided;
                home.run_decided(&command, decision, streams)
            }
            DecisionPlace::Store(place, refused) => {
                let execution = ProgramExecution::new(&place, &command, Err(refused));
                execute(execution, &command, streams)
            }
        }
    }
}

impl ProgramHome {
    /// Runs a command if the policy allows it, and passes its output on to these streams.
    pub fn run(
        &self,
        policy: &Policy,
        command: &ProgramCommand,
        streams: RequestStreams,
    ) -> Outcome {
        self.run_decided(command, self.ready(policy, command), streams)
    }

    fn run_decided(
        &self,
        command: &ProgramCommand,
        decision: HomeDecision,
        streams: RequestStreams,
    ) -> Outcome {
        let decision = decision.map(|ready| (self, ready));
        let execution = ProgramExecution::new(&self.place, command, decision);
        execute(execution, command, streams)
    }
}

fn execute(
    mut execution: ProgramExecution<'_>,
    command: &ProgramCommand,
    streams: RequestStreams,
) -> Outcome {
    let mut limits = Limits {
        memory: 0,
        lines: command.lines,
        tail: command.tail,
        ..Limits::default()
    };
    if let Some(allowed) = execution.allowed() {
        limits.time = Some(allowed.timeout);
        let bytes = command.bytes.unwrap_or(u64::MAX);
        // 0 would be no limit.
        limits.bytes = bytes.min(allowed.max_output_bytes).max(1);
    }
    let request = Request {
        command: line(&command.argv),
        limits,
        cancel: command.cancel.clone(),
        run: None,
    };
    pipeline::execute(&mut execution, &request, streams).0
}
