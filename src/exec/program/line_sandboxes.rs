//! The sandboxes of one line of a shell: one for each [`SandboxKind`] that its programs need, made for the first program that needs
//! it. All show the same home and the same `/tmp`.
//!
//! Lock: one over the list, held while a sandbox is made, so that there is one of each kind.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::gateway::open_gateway;
use super::network::{Gateway, NetworkSettings};
use super::policy::NetworkRule;
use super::program_home::ProgramHome;
use super::runnable::RunnableCommand;
use super::sandbox::{
    ActiveLimit, LaunchError, NetworkAccess, ResourceLimits, SandboxPlan, SandboxService, Step,
    serve,
};
use crate::exec::home::Home;
use crate::exec::request::ProgramReport;
use crate::name::escape;
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

/// A sandbox with what answers for its network.
struct ServedSandbox {
    kind: SandboxKind,
    service: Arc<SandboxService>,
    gateway: Option<Gateway>,
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
    all: Vec<ServedSandbox>,
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
        if let Some(sandbox) = state.all.iter().find(|sandbox| sandbox.kind == *kind) {
            return Ok(sandbox.service.clone());
        }
        let (service, gateway) = self.make(kind, network)?;
        let service = Arc::new(service);
        state.all.push(ServedSandbox {
            kind: kind.clone(),
            service: service.clone(),
            gateway,
        });
        Ok(service)
    }

    fn make(
        &self,
        kind: &SandboxKind,
        network: Option<&NetworkSettings>,
    ) -> Result<(SandboxService, Option<Gateway>), LaunchError> {
        let opened = network.cloned().map(NetworkSettings::open).transpose();
        let opened = opened.map_err(|why| LaunchError::refused(Step::Network, why))?;
        let nothing = || {
            let flags = OFlags::RDWR | OFlags::CLOEXEC;
            openat(CWD, "/dev/null", flags, Mode::empty())
        };
        let captured = opened.as_ref().map(|opened| opened.captured());
        let plan = SandboxPlan {
            read_only: kind.read_only,
            bind_ro: kind.bind_ro.clone(),
            ptrace: kind.ptrace,
            limits: ResourceLimits::usual(),
            network: captured.map_or(NetworkAccess::None, NetworkAccess::Captured),
            ..self.programs.plan([nothing()?, nothing()?, nothing()?])?
        };
        let mut service = serve(plan, &self.programs.launcher, |process| {
            self.home.add_program(process.unsigned_abs());
        })?;
        let audit = self.programs.place().audit_log();
        let gateway = open_gateway(service.take_sockets(), opened, audit, self.run)?;
        Ok((service, gateway))
    }

    /// Kills all programs of the line. None starts after that.
    pub(super) fn kill(&self) {
        let mut state = self.state.lock();
        state.is_over = true;
        for sandbox in &state.all {
            sandbox.service.kill();
        }
    }

    /// Ends all sandboxes, and adds to a report what there is to know of them.
    pub(super) fn end(&self, report: &mut ProgramReport) {
        let all = std::mem::take(&mut self.state.lock().all);
        if all.is_empty() {
            return;
        }
        let mut gateways = Vec::new();
        for ServedSandbox {
            service, gateway, ..
        } in all
        {
            let bound = service.shown().iter();
            add(
                &mut report.bound,
                bound.map(|path| escape(path.as_os_str().as_bytes())),
            );
            add(&mut report.warnings, service.warnings().iter().cloned());
            add(
                &mut report.limits,
                service.in_force().iter().map(ActiveLimit::in_words),
            );
            // All have one launcher, which stays with what has made a sandbox.
            report.sandbox = Some(service.backend().name());
            gateways.extend(gateway);
        }
        self.home.programs_have_ended();
        for gateway in gateways {
            add(&mut report.network_refusals, gateway.finish().in_words());
        }
    }
}

/// Adds what is not there yet.
fn add(all: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for one in more {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}
