//! A policy that follows its file: [`WatchedPolicy`]. A broken new text leaves the policy in force and causes one warning.

use std::path::PathBuf;

use parking_lot::Mutex;

use super::file::{self, FileStamp, PolicyText};
use super::locate::{LocatedPolicy, PolicySearch, PolicySource, problems};
use super::schema::Policy;
use super::trust::TrustRecords;
use trumanfs_types::error::Result;

/// The policy in force, for a process that runs for long. Keeps the last valid one.
#[derive(Debug)]
pub struct WatchedPolicy {
    source: PolicySource,
    trust: Option<TrustRecords>,
    state: Mutex<WatchedState>,
}

#[derive(Debug)]
struct WatchedState {
    policy: Policy,
    /// The digest of the text that was looked at last.
    digest: String,
    stamp: Option<FileStamp>,
    /// The last warning, so that each is given once.
    said: Option<String>,
}

impl WatchedPolicy {
    /// Finds the policy in force, as [`locate`](super::locate()) does, and watches it.
    ///
    /// # Errors
    /// The policy is broken, or there is none.
    pub fn locate(
        flag: Option<&std::path::Path>,
        store: Option<&std::path::Path>,
    ) -> Result<WatchedPolicy> {
        let search = PolicySearch::of_process(flag, store);
        let found = search.find()?;
        Ok(WatchedPolicy::new(found, search.trust))
    }

    pub(super) fn new(found: LocatedPolicy, trust: Option<TrustRecords>) -> WatchedPolicy {
        let digest = found
            .text
            .as_ref()
            .map(PolicyText::digest)
            .unwrap_or_default();
        let state = WatchedState {
            policy: found.policy,
            digest,
            stamp: found.text.map(|text| text.stamp),
            said: None,
        };
        WatchedPolicy {
            source: found.source,
            trust,
            state: Mutex::new(state),
        }
    }

    /// Returns where the policy comes from.
    pub fn source(&self) -> &PolicySource {
        &self.source
    }

    /// Returns the policy in force; and, once for each change, why the file as it is now is not it.
    pub fn current(&self) -> (Policy, Option<String>) {
        let mut state = self.state.lock();
        let warning = match self.source.file() {
            Some(file) => self.look(&mut state, file.to_path_buf()),
            None => None,
        };
        (state.policy.clone(), warning)
    }

    fn look(&self, state: &mut WatchedState, file: PathBuf) -> Option<String> {
        let stamp = file::stamp(&file);
        let is_same = stamp.is_some_and(|stamp| Some(stamp) == state.stamp && !stamp.is_fresh());
        // That a file is trusted now shows in the record, not in the file.
        let waits_for_trust =
            state.said.is_some() && matches!(self.source, PolicySource::Store { .. });
        if is_same && !waits_for_trust {
            return None;
        }
        let text = match file::read(&file) {
            Ok(text) => text,
            Err(problem) => {
                state.stamp = None;
                return say(state, problem.to_string());
            }
        };
        state.stamp = Some(text.stamp);
        let digest = text.digest();
        if digest == state.digest {
            state.said = None;
            return None;
        }
        if let PolicySource::Store { store, .. } = &self.source {
            let trusted = self.trust.as_ref().and_then(|trust| trust.find(store));
            if trusted.as_deref() != Some(digest.as_str()) {
                let file = file.display();
                return say(
                    state,
                    format!("{file} has changed and is not trusted: `trumanfs policy trust`"),
                );
            }
        }
        let examined = Policy::examine(&text.bytes, &file.display().to_string());
        let Some(policy) = examined.policy else {
            return say(state, problems(&examined).into_words().0);
        };
        state.policy = policy;
        state.digest = digest;
        state.said = None;
        None
    }
}

/// Returns what is wrong, unless that was said last.
fn say(state: &mut WatchedState, why: String) -> Option<String> {
    if state.said.as_deref() == Some(why.as_str()) {
        return None;
    }
    let warning = format!(
        "the policy file cannot be used as it is now; the last sound one stays in force\n  {why}"
    );
    state.said = Some(why);
    Some(warning)
}
