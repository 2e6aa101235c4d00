//! Giving up privileges: no capability in any set, no new ones by executing a file, and fewer system calls.

use rustix::io::Errno;
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use crate::backend::Backend;
use crate::error::{Step, StepFailure};
use crate::filter::{FilterSettings, filter};
use crate::orders::InitOrders;
use crate::sys::filter::install;

/// The number of possible capabilities: the largest number that a capability can have, plus 1.
const CAPABILITIES: u32 = 64;

/// Gives them up, of this process and of all that it starts.
pub(crate) fn give_up(orders: &InitOrders) -> Result<(), StepFailure> {
    match orders.backend {
        Backend::Namespaces => give_up_capabilities()?,
        Backend::Bwrap => check_capabilities()?,
        Backend::Landlock if has_capabilities()? => give_up_capabilities()?,
        Backend::Landlock => {}
        Backend::Unconfined => return Ok(()),
    }
    rustix::thread::set_no_new_privs(true)
        .map_err(|errno| StepFailure::new(Step::Privileges, "PR_SET_NO_NEW_PRIVS", errno))?;
    let settings = FilterSettings {
        allows_tracing: orders.ptrace,
        watches_memory: orders.watch.memory > 0,
        refuses_internet: orders.refuses_internet,
    };
    filter(settings)
        .and_then(|program| install(&program))
        .map_err(|errno| StepFailure::new(Step::Filter, "", errno))
}

/// Checks that another program has left this process no capability. What could be had by executing a file, the bounding
/// set or user 0, is not given to a process that may have no new privileges; PR_SET_NO_NEW_PRIVS(2const).
fn check_capabilities() -> Result<(), StepFailure> {
    if has_capabilities()? {
        return Err(StepFailure::refused(
            Step::Privileges,
            "bwrap has left capabilities",
        ));
    }
    Ok(())
}

/// Returns whether this process has a capability in any set that a program inherits.
fn has_capabilities() -> Result<bool, StepFailure> {
    let failed = |errno| StepFailure::new(Step::Privileges, "capget", errno);
    let sets = rustix::thread::capabilities(None).map_err(failed)?;
    let all = sets.effective | sets.permitted | sets.inheritable;
    Ok(!all.is_empty())
}

fn give_up_capabilities() -> Result<(), StepFailure> {
    let failed = |what: &'static str| move |errno| StepFailure::new(Step::Privileges, what, errno);
    rustix::thread::set_capabilities_secure_bits(
        CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
            | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED,
    )
    .map_err(failed("PR_SET_SECUREBITS"))?;
    rustix::thread::clear_ambient_capability_set().map_err(failed("PR_CAP_AMBIENT_CLEAR_ALL"))?;
    for number in 0..CAPABILITIES {
        match rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(
            1 << number,
        )) {
            Ok(()) => {}
            // Numbers that this kernel has no capability for.
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(failed("PR_CAPBSET_DROP")(errno)),
        }
    }
    rustix::thread::set_capabilities(
        None,
        CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        },
    )
    .map_err(failed("capset"))
}
