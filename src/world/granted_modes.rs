//! The modes of nodes without the bits that this process grants them at this moment.
//!
//! The lock is the innermost one, and is not held over a system call.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The own modes of the nodes that are granted bits at this moment, and their present modes, by device and inode.
static GRANTED: Mutex<BTreeMap<(u64, u64), (u32, u32)>> = Mutex::new(BTreeMap::new());

/// True while there are any grants; checked at each query of attributes.
static HAS_GRANTS: AtomicBool = AtomicBool::new(false);

/// Returns the permission bits that a node has without a grant. `mode` has its type, too.
pub(super) fn mode_of(id: (u64, u64), mode: u32) -> u32 {
    if !HAS_GRANTS.load(Ordering::Acquire) {
        return mode;
    }
    match GRANTED.lock().get(&id) {
        Some((own, wide)) if mode & 0o7777 == *wide => mode & !0o7777 | own,
        _ => mode,
    }
}

/// Ends a grant. Returns the modes of the node without it, and with it.
pub(super) fn remove(id: (u64, u64)) -> Option<(u32, u32)> {
    if !HAS_GRANTS.load(Ordering::Acquire) {
        return None;
    }
    let mut granted = GRANTED.lock();
    let removed = granted.remove(&id);
    HAS_GRANTS.store(!granted.is_empty(), Ordering::Release);
    removed
}

/// Notes that a node is about to have a mode with more bits than its own.
pub(super) fn insert(id: (u64, u64), modes: (u32, u32)) {
    GRANTED.lock().insert(id, modes);
    HAS_GRANTS.store(true, Ordering::Release);
}
