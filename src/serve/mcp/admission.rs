//! [`RequestAdmission`]: which requests of a client are open, and how much they hold.
//!
//! Owns the bounds of what goes on at once. What counts is what there still is: a request that the client has taken back, and
//! a job whose answer has been given, count until their threads have ended.
//!
//! One thread admits; any thread may close a request or drop a ticket. Lock: the table's alone, held for a look-up.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rmcp::model::{ErrorCode, ErrorData, RequestId};

/// The largest number of requests that may go on at once.
pub(super) const AT_ONCE: usize = 128;
/// The largest weight of their messages together, in bytes.
const WEIGHT: usize = 64 << 20;
/// The code of an error that is the server's own: too much at once (JSON-RPC 2.0, 5.1).
const BUSY: ErrorCode = ErrorCode(-32000);

/// The number of requests that go on, and the weight of their messages.
#[derive(Debug, Default)]
struct AdmittedTotals {
    requests: AtomicUsize,
    weight: AtomicUsize,
}

/// A request's share of the bounds. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct AdmissionTicket {
    held: Arc<AdmittedTotals>,
    weight: usize,
}

impl Drop for AdmissionTicket {
    fn drop(&mut self) {
        self.held.requests.fetch_sub(1, Ordering::Relaxed);
        self.held.weight.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

/// The requests of a client. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestAdmission {
    held: Arc<AdmittedTotals>,
    /// Those that wait for an answer.
    open: Arc<Mutex<HashMap<RequestId, Arc<AdmissionTicket>>>>,
}

impl RequestAdmission {
    /// Lets a request in that weighs so much.
    ///
    /// # Errors
    /// What the client is answered: the id is in use, or too much goes on.
    pub(super) fn admit(&self, id: &RequestId, weight: usize) -> Result<(), ErrorData> {
        let mut open = self.open.lock();
        if open.contains_key(id) {
            let what = format!("a request with the id {id} is open already");
            return Err(ErrorData::invalid_request(what, None));
        }
        if self.held.requests.load(Ordering::Relaxed) >= AT_ONCE {
            let what = format!(
                "{AT_ONCE} requests go on already, jobs and cancelled calls that have not ended among them: wait for an answer"
            );
            return Err(ErrorData::new(BUSY, what, None));
        }
        if self.held.weight.load(Ordering::Relaxed) + weight > WEIGHT {
            let what = format!(
                "the requests that go on hold {} MiB already: wait for an answer",
                WEIGHT >> 20
            );
            return Err(ErrorData::new(BUSY, what, None));
        }
        self.held.requests.fetch_add(1, Ordering::Relaxed);
        self.held.weight.fetch_add(weight, Ordering::Relaxed);
        let held = self.held.clone();
        open.insert(id.clone(), Arc::new(AdmissionTicket { held, weight }));
        Ok(())
    }

    /// Returns the ticket of a request, for the thread that works for it. Nothing: the client has taken the request back.
    pub(super) fn ticket(&self, id: &RequestId) -> Option<Arc<AdmissionTicket>> {
        self.open.lock().get(id).cloned()
    }

    /// Notes that nobody waits for an answer any more: it was given, or the client has taken the request back.
    pub(super) fn close(&self, id: &RequestId) {
        let closed = self.open.lock().remove(id);
        drop(closed);
    }

    /// Returns whether no request waits for an answer.
    pub(super) fn is_idle(&self) -> bool {
        self.open.lock().is_empty()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_still_runs_counts_after_its_answer() {
        let admission = RequestAdmission::default();
        let id = |number: usize| RequestId::Number(i64::try_from(number).unwrap());
        let mut running = Vec::new();
        for number in 0..AT_ONCE {
            admission.admit(&id(number), 1).unwrap();
            running.push(admission.ticket(&id(number)).unwrap());
            admission.close(&id(number));
        }
        assert!(admission.is_idle() && admission.ticket(&id(0)).is_none());
        assert_eq!(admission.admit(&id(0), 1).unwrap_err().code, BUSY);
        running.pop();
        admission.admit(&id(0), 1).unwrap();
        assert_eq!(
            admission.admit(&id(0), 1).unwrap_err().code,
            ErrorCode::INVALID_REQUEST
        );
    }

    #[test]
    fn the_sum_of_what_is_sent_is_bounded() {
        let admission = RequestAdmission::default();
        admission.admit(&RequestId::Number(1), WEIGHT - 1).unwrap();
        let error = admission.admit(&RequestId::Number(2), 2).unwrap_err();
        assert_eq!(error.code, BUSY);
        admission.close(&RequestId::Number(1));
        admission.admit(&RequestId::Number(2), WEIGHT).unwrap();
    }
}
