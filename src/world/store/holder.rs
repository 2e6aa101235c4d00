//! The process that serves a store, as named by the text in its lock.

use std::fs::File;
use std::io::Seek;
use std::os::fd::BorrowedFd;

use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::world::store::layout::LOCK;
use crate::world::store::state_files;

/// The longest lock text accepted: an escaped path and little else.
const MAX_LOCK_BYTES: u64 = 64 << 10;

/// Returns the machine's boot id, which tells one boot from the next (random(4)).
pub fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.unwrap_or_default().trim().to_owned()
}

/// The process that serves a store, as shown to a second mount. `status` finds the daemon by it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StoreHolder {
    /// The host name.
    pub host: String,
    /// The machine's boot id: a pid means nothing after another boot.
    pub boot: String,
    /// The process id.
    pub pid: u32,
    /// The session id.
    pub session: String,
    /// The home's mountpoint, escaped; absent for an unmounted store.
    pub home: Option<String>,
    /// The time the lock was taken, RFC 3339.
    pub since: String,
    /// The number of times that this store has been locked.
    #[serde(default)]
    pub epoch: u64,
    /// True if records and former contents reach the disk before the original is destroyed.
    #[serde(default)]
    pub durable: bool,
}

impl StoreHolder {
    /// Describes this process.
    pub fn this_process(session: &str, home: Option<String>) -> StoreHolder {
        StoreHolder {
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            boot: boot_id(),
            pid: std::process::id(),
            session: session.to_owned(),
            home,
            since: chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
            epoch: 0,
            durable: false,
        }
    }
}

/// Reads the current or last holder of a store; `None` if it never had one.
///
/// # Errors
/// Any error from `open(2)` or `read(2)`.
pub fn holder(state: BorrowedFd<'_>) -> Result<Option<StoreHolder>> {
    match state_files::open(state, LOCK.as_bytes(), OFlags::RDONLY) {
        Err(Error::NotFound) => Ok(None),
        file => Ok(read_holder(&mut file?)),
    }
}

pub(in crate::world) fn read_holder(file: &mut File) -> Option<StoreHolder> {
    file.rewind().ok()?;
    let text = state_files::read(file, LOCK, MAX_LOCK_BYTES).ok()?;
    // Trailing bytes are from a longer text whose replacement was interrupted.
    let mut holders = serde_json::Deserializer::from_str(&text).into_iter();
    holders.next()?.ok()
}

/// Returns whether a home was mounted for requests of an executor, at a directory of its choice: determined by the
/// name, because the session may be another machine's, or another user's.
pub fn is_for_requests(home: &str) -> bool {
    let mut names = home.rsplit('/');
    let id = names.next().unwrap_or_default();
    let is_id = id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit());
    is_id
        && names.next() == Some("homes")
        && names.next().is_some_and(|dir| dir.starts_with("trumanfs"))
}
