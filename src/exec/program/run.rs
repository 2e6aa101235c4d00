//! From a command to its outcome: the decision of the policy, made before anything else; then the pipeline, in which a
//! refusal ends like everything that is refused, and what is allowed runs in a sandbox (`executor.rs`).

use std::os::fd::OwnedFd;

use super::executor::ProgramExecution;
use super::policy::Policy;
use super::programs::{ProgramCommand, ProgramHome};
use super::ready::RunnableCommand;
use crate::exec::pipeline::{self, RequestStreams};
use crate::exec::quote::line;
use crate::exec::request::{Limits, Outcome, Request};

impl ProgramHome {
    /// Runs a command if the policy allows it, and passes its output on to these streams.
    pub fn run(
        &self,
        policy: &Policy,
        command: &ProgramCommand,
        streams: RequestStreams,
    ) -> Outcome {
        let ready = self.ready(policy, command);
        let mut limits = Limits {
            memory: 0,
            lines: command.lines,
            tail: command.tail,
            ..Limits::default()
        };
        if let Ok(RunnableCommand { allowed, .. }) = &ready {
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
        let mut execution = ProgramExecution::new(self, command, ready);
        pipeline::execute(&mut execution, &request, streams)
    }

    /// Runs a command likewise, and collects its output.
    pub fn run_gathering(
        &self,
        policy: &Policy,
        command: &ProgramCommand,
        stdin: Option<OwnedFd>,
    ) -> Outcome {
        pipeline::gather(stdin, |streams| self.run(policy, command, streams))
    }
}
