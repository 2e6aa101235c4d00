//! [`ServedSandbox`]: a sandbox in which programs are started as they come, with what answers for its network.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::gateway::open_gateway;
use super::network::{Gateway, NetworkSettings};
use super::own_dir::make_own_dir;
use super::program_home::ProgramHome;
use super::sandbox::{
    ActiveLimit, LaunchError, NetworkAccess, SandboxPlan, SandboxService, Step, serve,
};
use crate::exec::home::Home;
use crate::exec::request::ProgramReport;
use crate::name::escape;
use crate::world::RunId;

/// A sandbox that takes programs. Everything in it ends when this is dropped.
pub(super) struct ServedSandbox {
    service: Arc<SandboxService>,
    gateway: Option<Gateway>,
}

impl ServedSandbox {
    /// Makes one for a request of the home. `plan` adds to what every program has; `run` returns the run of a connection
    /// that is made now.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn make(
        programs: &ProgramHome,
        home: &dyn Home,
        network: Option<&NetworkSettings>,
        run: impl Fn() -> RunId + Send + Sync + 'static,
        plan: impl FnOnce(SandboxPlan) -> SandboxPlan,
    ) -> Result<ServedSandbox, LaunchError> {
        make_own_dir(programs)?;
        let opened = network.cloned().map(NetworkSettings::open).transpose();
        let opened = opened.map_err(|why| LaunchError::refused(Step::Network, why))?;
        let captured = opened.as_ref().map(|opened| opened.captured());
        let usual = programs.plan([open_nothing()?, open_nothing()?, open_nothing()?])?;
        let plan = SandboxPlan {
            network: captured.map_or(NetworkAccess::None, NetworkAccess::Captured),
            ..plan(usual)
        };
        let mut service = serve(plan, &programs.launcher, |process| {
            home.add_program(process.unsigned_abs());
        })?;
        let audit = programs.place().audit_log();
        let gateway = open_gateway(service.take_sockets(), opened, audit, run)?;
        Ok(ServedSandbox {
            service: Arc::new(service),
            gateway,
        })
    }

    /// Returns what starts programs in it.
    pub(super) fn service(&self) -> &Arc<SandboxService> {
        &self.service
    }

    /// Adds to a report what there is to know of it.
    pub(super) fn describe(&self, report: &mut ProgramReport) {
        let service = &self.service;
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
    }

    /// Ends everything in it. Returns what answers for its network until it is ended, too.
    pub(super) fn end_programs(self) -> Option<Gateway> {
        self.service.kill();
        self.gateway
    }

    /// Ends everything in it, and adds to a report what came of its network.
    pub(super) fn end(self, report: &mut ProgramReport) {
        if let Some(gateway) = self.end_programs() {
            add_refusals(gateway, report);
        }
    }
}

/// Opens `/dev/null`, for a stream that is nobody's.
///
/// # Errors
/// Errors of `open(2)`.
pub(super) fn open_nothing() -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    openat(CWD, "/dev/null", flags, Mode::empty())
}

/// Ends what answers for a network, and adds to a report what it has refused.
pub(super) fn add_refusals(gateway: Gateway, report: &mut ProgramReport) {
    add(&mut report.network_refusals, gateway.finish().in_words());
}

/// Adds what is not there yet.
fn add(all: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for one in more {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}
