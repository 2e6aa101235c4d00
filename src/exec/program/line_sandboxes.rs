//! The sandboxes of one line of a shell: one for each [`SandboxKind`] that its programs need, made for the first program that needs
//! it. All show the same home and the same `/tmp`.
//!
//! Lock: one over the list, held while a sandbox is made, so that there is one of each kind.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::network::NetworkSettings;
use super::policy::NetworkRule;
use super::program_home::ProgramHome;
use super::runnable::RunnableCommand;
use super::sandbox::{LaunchError, ResourceLimits, SandboxPlan, SandboxService, Step};
use super::served_sandbox::{ServedSandbox, add_refusals};
use crate::exec::home::Home;
use crate::exec::request::ProgramReport;
use crate::world::RunId;

/// The rights that a sandbox gives to every program in it. Programs share a sandbox only if all of these are the same
/// for them, so that no program gets what the policy gives to another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SandboxKind {
    network: Option<NetworkRule>,
    ptrace: bool,
    read_only: bool,
    /// The paths of the host that programs can see.
    bind_ro: Vec<PathBuf>,
}

impl SandboxKind {
    /// Returns the kind of sandbox that a command needs. `tree`: where its program is installed, if that has to be shown.
    pub(super) fn of(
        ready: &RunnableCommand,
        tree: impl IntoIterator<Item = PathBuf>,
    ) -> SandboxKind {
        let mut bind_ro = ready.allowed.bind_ro.clone();
        bind_ro.extend(tree);
        bind_ro.sort();
        bind_ro.dedup();
        let network = ready.network.is_some();
        SandboxKind {
            network: network.then(|| ready.allowed.network.clone()),
            ptrace: ready.allowed.ptrace,
            read_only: ready.read_only,
            bind_ro,
        }
    }
}

/// The sandboxes of a line.
pub(super) struct LineSandboxes {
    programs: Arc<ProgramHome>,
    /// The home in which the changes of the line's run are made.
    home: Arc<dyn Home>,
    run: RunId,
    state: Mutex<SandboxPool>,
}

#[derive(Default)]
struct SandboxPool {
    all: Vec<(SandboxKind, ServedSandbox)>,
    /// True if all sandboxes were killed, and no more may start.
    is_over: bool,
}

impl LineSandboxes {
    pub(super) fn new(
        programs: Arc<ProgramHome>,
        home: Arc<dyn Home>,
        run: RunId,
    ) -> LineSandboxes {
        LineSandboxes {
            programs,
            home,
            run,
            state: Mutex::default(),
        }
    }

    /// Returns the sandbox of a kind, with this network.
    ///
    /// # Errors
    /// It cannot be made, or the programs of the line were killed.
    pub(super) fn of(
        &self,
        kind: &SandboxKind,
        network: Option<&NetworkSettings>,
    ) -> Result<Arc<SandboxService>, LaunchError> {
        let mut state = self.state.lock();
        if state.is_over {
            let why = "the programs of the line were killed, and no other one starts";
            return Err(LaunchError::refused(Step::Control, why));
        }
        if let Some((_, sandbox)) = state.all.iter().find(|(known, _)| known == kind) {
            return Ok(sandbox.service().clone());
        }
        let made = self.make(kind, network)?;
        let service = made.service().clone();
        state.all.push((kind.clone(), made));
        Ok(service)
    }

    fn make(
        &self,
        kind: &SandboxKind,
        network: Option<&NetworkSettings>,
    ) -> Result<ServedSandbox, LaunchError> {
        let run = self.run;
        let plan = |plan: SandboxPlan| SandboxPlan {
            read_only: kind.read_only,
            bind_ro: kind.bind_ro.clone(),
            ptrace: kind.ptrace,
            limits: ResourceLimits::usual(),
            ..plan
        };
        ServedSandbox::make(&self.programs, &*self.home, network, move || run, plan)
    }

    /// Kills all programs of the line. None starts after that.
    pub(super) fn kill(&self) {
        let mut state = self.state.lock();
        state.is_over = true;
        for (_, sandbox) in &state.all {
            sandbox.service().kill();
        }
    }

    /// Ends all sandboxes, and adds to a report what there is to know of them.
    pub(super) fn end(&self, report: &mut ProgramReport) {
        let all = std::mem::take(&mut self.state.lock().all);
        if all.is_empty() {
            return;
        }
        let mut gateways = Vec::new();
        for (_, sandbox) in all {
            sandbox.describe(report);
            gateways.extend(sandbox.end_programs());
        }
        self.home.programs_have_ended();
        for gateway in gateways {
            add_refusals(gateway, report);
        }
    }
}
