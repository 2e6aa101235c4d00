//! The digests that the seals have of versions, and whether a version still has its own.
//!
//! The seals of all journals are read when the first version is to be verified, and each version is hashed once.

use std::collections::HashMap;
use std::io::BufReader;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::error::{FailureKind, Result};
use crate::journal::{DigestSubject, LenientReader, ParsedLine};
use crate::world::keep::digest::{SizedDigest, of_version};
use crate::world::keep::ranges;
use crate::world::keep::version_files::versions_of;
use crate::world::store::settle::{open_journal, sessions};

/// A version: its session and its number.
type VersionId = (String, u64);

/// The digests of a store's versions.
#[derive(Debug, Default)]
pub(super) struct VersionSums {
    sums: OnceLock<HashMap<VersionId, SizedDigest>>,
    verified: Mutex<HashMap<VersionId, bool>>,
}

impl VersionSums {
    /// Returns whether a version has the bytes that were kept, as far as a digest says. Evicted versions leave ranges
    /// in another one, whose list then has a digest of its own.
    ///
    /// # Errors
    /// Those of reading the journals; any error from reading the version but `EIO`, which damages it.
    pub(super) fn is_as_kept(&self, state: &OwnedFd, session: &str, n: u64) -> Result<bool> {
        let id = (session.to_owned(), n);
        if let Some(known) = self.verified.lock().get(&id) {
            return Ok(*known);
        }
        let sums = match self.sums.get() {
            Some(sums) => sums,
            None => {
                let read = read_sums(state)?;
                self.sums.get_or_init(|| read)
            }
        };
        let is_as_kept = match (sums.get(&id), versions_of(state, session)?) {
            (Some(sum), Some(dir)) => match of_version(&dir, n, &mut |_| true) {
                Ok(Some(found)) if found != *sum => {
                    ranges::read(dir.as_fd(), n)?.is_some_and(|list| list.past.is_some())
                }
                Err(error) if error.errno() == rustix::io::Errno::IO => false,
                read => read.map(|_| true)?,
            },
            _ => true,
        };
        self.verified.lock().insert(id, is_as_kept);
        Ok(is_as_kept)
    }
}

/// Reads the digests from the seals. A journal that cannot be read has none.
fn read_sums(state: &OwnedFd) -> Result<HashMap<VersionId, SizedDigest>> {
    let mut sums = HashMap::new();
    for session in sessions(state)? {
        let file = match open_journal(state, &session) {
            Err(error) if error.kind() == FailureKind::Missing => continue,
            file => file?,
        };
        let mut lines = LenientReader::new(BufReader::with_capacity(1 << 17, file));
        while let Some(line) = lines.next_line()? {
            let ParsedLine::Seal { seal, .. } = line.what else {
                continue;
            };
            for digest in seal.digests {
                if let DigestSubject::Version { n } = digest.of {
                    let session = digest.session.unwrap_or_else(|| session.clone());
                    // Empty where it held for the version before that gave back what a later one has.
                    match digest.sha256.is_empty() {
                        true => drop(sums.remove(&(session, n))),
                        false => drop(sums.insert((session, n), (digest.size, digest.sha256))),
                    }
                }
            }
        }
    }
    Ok(sums)
}
