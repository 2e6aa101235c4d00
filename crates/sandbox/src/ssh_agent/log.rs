//! The log of a user's agent: a line for each signature, made or refused, and the refusals in words.

use std::collections::HashSet;

use parking_lot::Mutex;
use serde::Serialize;

use super::session::{AgentRefusal, SignatureRequest};

/// The most signatures of one program that have a line of their own: it must not be able to fill the audit log.
const MAX_LINES: usize = 1000;

/// The most different refusals that are kept.
const MAX_REFUSALS: usize = 100;

/// A signature, as the audit log has it.
#[derive(Debug, Clone, Serialize)]
pub struct SignatureRecord {
    /// The host with its port, or what is known of it; empty for a request that names none.
    pub host: String,
    /// The name of the user there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The fingerprint of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `allow` or `deny`.
    pub verdict: &'static str,
    /// Why it was refused, or what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Takes the line of a signature.
pub type SignatureObserver = Box<dyn Fn(&SignatureRecord) + Send + Sync>;

impl SignatureRecord {
    pub(super) fn allowed(request: &SignatureRequest) -> SignatureRecord {
        SignatureRecord {
            host: request.host.clone(),
            user: Some(request.user.clone()),
            key: Some(request.key.clone()),
            verdict: "allow",
            reason: None,
        }
    }

    pub(super) fn denied(self, reason: &str) -> SignatureRecord {
        SignatureRecord {
            verdict: "deny",
            reason: Some(reason.to_owned()),
            ..self
        }
    }

    pub(super) fn refused(refusal: AgentRefusal) -> SignatureRecord {
        SignatureRecord {
            host: refusal.host,
            user: None,
            key: refusal.key,
            verdict: "deny",
            reason: Some(refusal.reason),
        }
    }
}

/// The log of one program's signatures.
pub(super) struct SignatureLog {
    observer: SignatureObserver,
    state: Mutex<SignatureLogState>,
}

#[derive(Default)]
struct SignatureLogState {
    lines: usize,
    known: HashSet<String>,
    refusals: Vec<String>,
}

impl std::fmt::Debug for SignatureLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignatureLog").finish_non_exhaustive()
    }
}

impl SignatureLog {
    pub(super) fn new(observer: SignatureObserver) -> SignatureLog {
        SignatureLog {
            observer,
            state: Mutex::new(SignatureLogState::default()),
        }
    }

    /// Takes note of a signature. A refusal that is repeated has one line.
    pub(super) fn add(&self, record: &SignatureRecord) {
        let mut state = self.state.lock();
        if record.verdict == "deny" {
            let host = match &*record.host {
                "" => "a signature".to_owned(),
                host => format!("a login to {host}"),
            };
            let reason = record.reason.as_deref().unwrap_or_default();
            let refusal = format!("trumanfs: --ssh-agent refuses {host}: {reason}");
            let is_kept = state.refusals.len() < MAX_REFUSALS;
            if !is_kept || !state.known.insert(refusal.clone()) {
                return;
            }
            state.refusals.push(refusal);
        }
        if state.lines < MAX_LINES {
            state.lines += 1;
            drop(state);
            (self.observer)(record);
        }
    }

    /// Returns the refusals in words.
    pub(super) fn refusals(&self) -> Vec<String> {
        self.state.lock().refusals.clone()
    }
}
