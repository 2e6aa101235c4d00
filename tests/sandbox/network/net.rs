//! Programs in a sandbox with a network.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use trumanfs::exec::program::network::{
    ConnectionRecord, ConnectionReport, Gateway, NetworkSettings, add_proxy_variables,
};
use trumanfs::exec::program::policy::NetworkRule;
use trumanfs::exec::program::sandbox::{KillCondition, NetworkAccess, SandboxPlan};

use crate::room::{LIMIT, Outcome, Room};

/// What came of a program with a network.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) outcome: Outcome,
    pub(crate) report: ConnectionReport,
    pub(crate) lines: Vec<ConnectionRecord>,
}

impl Reached {
    /// What a program printed that succeeded.
    /// Checks that this was refused, and that nothing was received by any connection.
    pub(crate) fn refused(&self, part: &str) {
        let refusals = &self.report.refusals;
        assert!(
            refusals.iter().any(|text| text.contains(part)),
            "{part}: {self:#?}"
        );
        assert!(
            self.lines.iter().all(|line| line.bytes_received == 0),
            "{self:#?}"
        );
    }
}

/// A rule that allows hosts.
pub(crate) fn allow(hosts: &[&str]) -> NetworkRule {
    NetworkRule {
        allow: hosts.iter().map(|host| (*host).to_owned()).collect(),
        ..NetworkRule::default()
    }
}

/// Runs a script under a rule.
pub(crate) fn sh(room: &Room, rule: &NetworkRule, script: &str) -> Reached {
    run(room, rule, room.plan(&["bash", "-uc", script]))
}

/// Runs a plan under a rule. Variables that the plan has are kept.
pub(crate) fn run(room: &Room, rule: &NetworkRule, plan: SandboxPlan) -> Reached {
    run_during(room, rule, plan, || {})
}

/// Runs a plan under a rule, and something else while it runs.
pub(crate) fn run_during(
    room: &Room,
    rule: &NetworkRule,
    mut plan: SandboxPlan,
    act: impl FnOnce(),
) -> Reached {
    let settings = NetworkSettings::new(rule, None).expect("a rule");
    let opened = settings.map(|settings| settings.open().expect("ports"));
    if let Some(opened) = &opened {
        add_proxy_variables(&mut plan.env);
        plan.network = NetworkAccess::Captured(opened.captured());
    }
    let lines: Arc<Mutex<Vec<ConnectionRecord>>> = Arc::default();
    let (noted, mut gateway) = (lines.clone(), None);
    let until = KillCondition {
        deadline: Some(Instant::now() + LIMIT),
        cancel: None,
    };
    let outcome = room.run_beside(plan, until, |running| {
        if let Some(sockets) = running.take_sockets() {
            let note = move |line: &ConnectionRecord| noted.lock().unwrap().push(line.clone());
            let opened = opened.expect("ports");
            gateway = Some(Gateway::start(sockets, opened, Box::new(note)).expect("a gateway"));
        }
        act();
    });
    let report = gateway.map(Gateway::finish).unwrap_or_default();
    let lines = std::mem::take(&mut *lines.lock().unwrap());
    Reached {
        outcome,
        report,
        lines,
    }
}
