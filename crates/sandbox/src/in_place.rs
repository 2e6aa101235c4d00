//! Launches without namespaces: a program in the root, among the processes and in the network of its launcher.
//!
//! Owns what such a program may open by the rules of Landlock: the same system software as in a sandbox, what is shown
//! to it, and its own directories; and what these rules leave open, in words.

use std::path::{Path, PathBuf};

use super::error::{LaunchError, Step};
use super::launch::make_orders;
use super::layout::{DEVICES, ETC_ENTRIES, SYSTEM_DIRS, SandboxLayout};
use super::limits::EnforcedLimits;
use super::plan::{NetworkAccess, SandboxPlan};
use trumanfs_init::backend::Backend;
use trumanfs_init::orders::{BindMount, BindSource, InitOrders};
use trumanfs_init::sys::landlock::{self, NEEDED_ABI};
use trumanfs_init::sys::mount::attr;

/// Files of `/etc` that a sandbox makes itself.
const OUTER_ETC: [&str; 8] = [
    "gai.conf",
    "group",
    "host.conf",
    "hostname",
    "hosts",
    "nsswitch.conf",
    "passwd",
    "resolv.conf",
];

/// The devices that programs write to, beside [`DEVICES`].
const OUTER_DEVICES: [&str; 3] = ["ptmx", "pts", "shm"];

/// The warning about a program that only rules about files confine.
const LEFT_OPEN: &str = "only rules about files hold the program (Landlock): it sees the names of all processes and the attributes of all files, can change modes, owners, times and extended attributes of this user's, and connect to their sockets";

/// The warning about a program that nothing confines.
const ALL_OPEN: &str = "nothing but what is around trumanfs holds the program: it can change this project directly, and everything else that this user can";

/// Returns what is to be said of a program that runs by this backend; `None` where it has namespaces.
#[must_use]
pub fn warning(backend: Backend) -> Option<&'static str> {
    match backend {
        Backend::Namespaces | Backend::Bwrap => None,
        Backend::Landlock => Some(LEFT_OPEN),
        Backend::Unconfined => Some(ALL_OPEN),
    }
}

/// Returns whether the kernel has the rules that [`Backend::Landlock`] needs.
#[must_use]
pub fn has_file_rules() -> bool {
    landlock::abi() >= NEEDED_ABI
}

/// Returns the orders for a program without namespaces. Its homes and directories must be at their paths outside.
///
/// # Errors
/// [`Step::Backend`] where the kernel lacks what the backend needs; [`Step::Network`] for a network that needs one of its
/// own; [`Step::Plan`] for a program that is none.
pub(super) fn orders(
    backend: Backend,
    plan: &SandboxPlan,
    enforced: &EnforcedLimits,
) -> Result<InitOrders, LaunchError> {
    if backend == Backend::Landlock && !has_file_rules() {
        return Err(LaunchError::refused(
            Step::Backend,
            format!("this kernel has no Landlock of ABI {NEEDED_ABI} (Linux 6.2) in force"),
        ));
    }
    let name = backend.name();
    match plan.network {
        NetworkAccess::Host => {}
        NetworkAccess::None if backend == Backend::Landlock => {}
        NetworkAccess::None => {
            let why = format!("--sandbox {name} cannot keep a program from the network");
            return Err(LaunchError::refused(Step::Network, why));
        }
        NetworkAccess::Captured(_) => {
            let why = format!("--sandbox {name} cannot choose hosts and ports");
            return Err(LaunchError::refused(Step::Network, why));
        }
    }
    if let Some(placed) = plan.placed.first() {
        let what = placed.path.display();
        let why = format!("{what}: --sandbox {name} shows nothing at another path, and no device");
        return Err(LaunchError::refused(Step::Plan, why));
    }
    let mut layout = SandboxLayout::default();
    if backend == Backend::Landlock {
        layout.binds = rules(plan);
    }
    Ok(InitOrders {
        backend,
        refuses_internet: plan.network == NetworkAccess::None,
        ..make_orders(plan, layout, enforced, None)?
    })
}

/// Returns what the program may open.
fn rules(plan: &SandboxPlan) -> Vec<BindMount> {
    let below = |top: &str, names: &[&str]| -> Vec<PathBuf> {
        let top = Path::new(top);
        names.iter().map(|name| top.join(name)).collect()
    };
    let mut read = below("/", &SYSTEM_DIRS);
    read.extend(below("/etc", &ETC_ENTRIES));
    read.extend(below("/etc", &OUTER_ETC));
    read.push("/proc".into());
    read.extend(plan.bind_ro.iter().cloned());
    let mut write = below("/dev", &DEVICES);
    write.extend(below("/dev", &OUTER_DEVICES));
    write.extend(plan.writable.iter().map(|one| one.path.clone()));
    let home = match plan.read_only {
        true => &mut read,
        false => &mut write,
    };
    home.push(plan.home_path.clone());
    home.extend(plan.further_homes.iter().map(|home| home.path.clone()));
    let rule = |path: PathBuf, attributes| BindMount {
        target: path.clone(),
        source: BindSource::Path(path),
        is_dir: true,
        attributes,
        late: false,
    };
    let read = read.into_iter().map(|path| rule(path, attr::READ_ONLY));
    read.chain(write.into_iter().map(|path| rule(path, 0)))
        .collect()
}
