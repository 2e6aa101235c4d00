//! [`HostAnswers`]: the answers that whoever watches a program gives about hosts while it runs, and the connections that
//! are held for one.
//!
//! Nothing here reads what a program sends, and no answer comes from there: a connection is a host and a port that are
//! asked for. Held connections are few, each with a thread of its own that waits for the first of four things: an answer,
//! its time, the end of the connection, the end of the network.

use std::collections::{BTreeSet, HashSet};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFlags, eventfd};
use serde::Serialize;

use super::log::ConnectionRecord;
use super::stop_signal::{StopSignal, WaitOutcome};
use trumanfs_policy::network::{Host, HostDenial, HostPattern, is_public};

/// The most connections that are held at once. It is below that of all connections, so that hosts which are allowed are
/// reached meanwhile.
const MAX_HELD: usize = 64;

/// The most answers that are kept, and the most hosts that are learned.
const MAX_KEPT: usize = 4096;

/// The most refused hosts that are kept.
const MAX_REFUSED: usize = 100;

/// The most asks of one program: each has a line in the audit log, which a program must not be able to fill.
const MAX_ASKS: u64 = 1000;

/// The events that a watcher may be late by; more are lost to it.
const MAX_QUEUED_EVENTS: usize = 1024;

/// The rule by which a held connection is refused.
const ASK_RULE: &str = "--net ask";

/// The treatment of hosts that no list names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnlistedHosts {
    /// They are refused until an answer allows them.
    Refused,
    /// Their connections are held for so long.
    Asked(Duration),
    /// All public ones are allowed, which the rule of the program says, and those that are reached are noted.
    Learned,
}

/// The decision of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HostVerdict {
    /// The hosts may be reached.
    Allow,
    /// They are refused.
    Deny,
}

/// The connections that an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerScope {
    /// The next one, or one that is held.
    Once,
    /// All of this run.
    Run,
    /// All of this run, and of later ones.
    Always,
}

/// An answer about hosts.
#[derive(Debug, Clone, Serialize)]
pub struct HostAnswer {
    /// The hosts.
    #[serde(serialize_with = "pattern_text")]
    pub host: HostPattern,
    /// The decision about them.
    pub verdict: HostVerdict,
    /// The connections that the answer is for.
    pub scope: AnswerScope,
    /// The one who decided.
    pub by: String,
    /// The reason, for the program too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A host that is asked for, and its connections that are held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostAsk {
    /// The number of the ask in its run.
    pub id: u64,
    /// The host, as it was decided about.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The way by which the first connection arrived, as in [`ConnectionRecord`].
    pub by: &'static str,
    /// The milliseconds until the last of its connections is refused.
    pub waits_ms: u64,
    /// The number of connections that are held.
    pub connections: usize,
}

/// A host that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct RefusedHost {
    /// The host.
    pub host: String,
    /// The port; 53 of a name that was refused an address.
    pub port: u16,
    /// The rule that refused it.
    pub rule: String,
    /// The reason.
    pub reason: String,
}

/// Something that whoever watches should know.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum AnswerEvent {
    /// A connection is held for an answer.
    Ask(HostAsk),
    /// An answer was given.
    Answer(HostAnswer),
    /// An ask has ended without an answer.
    Unanswered(RefusedHost),
    /// A host was refused for the first time.
    Refused(RefusedHost),
}

/// Takes events.
pub type AnswerObserver = Box<dyn Fn(&AnswerEvent) + Send + Sync>;

/// The answers about the hosts of one program.
pub struct HostAnswers {
    unlisted: UnlistedHosts,
    /// The run of the program, as the command names it that gives an answer; nothing where none can arrive by one.
    run: Option<String>,
    observer: AnswerObserver,
    state: Mutex<AnswerState>,
}

#[derive(Default)]
struct AnswerState {
    /// The last one that fits decides.
    for_run: Vec<HostAnswer>,
    once: Vec<HostAnswer>,
    asks: Vec<OpenAsk>,
    held: usize,
    last_id: u64,
    refused: Vec<RefusedHost>,
    known: HashSet<(String, u16)>,
    learned: BTreeSet<String>,
    watchers: Vec<SyncSender<AnswerEvent>>,
    has_ended: bool,
}

/// An ask with what wakes its connections.
struct OpenAsk {
    id: u64,
    host: Host,
    port: u16,
    by: &'static str,
    until: Instant,
    wakers: Vec<Arc<OwnedFd>>,
}

/// The connection that asks for a host.
pub(super) struct AskingConnection<'c> {
    pub(super) stream: &'c TcpStream,
    pub(super) stop: &'c StopSignal,
    pub(super) by: &'static str,
}

impl std::fmt::Debug for HostAnswers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("HostAnswers");
        shown.field("run", &self.run).finish_non_exhaustive()
    }
}

impl HostAnswers {
    /// Begins without answers. `run` is the program's run as `trumanfs agent allow` names it, where that can answer.
    pub fn new(
        run: Option<String>,
        unlisted: UnlistedHosts,
        observer: AnswerObserver,
    ) -> HostAnswers {
        HostAnswers {
            unlisted,
            run,
            observer,
            state: Mutex::default(),
        }
    }

    /// Returns whether the program has a network, even if no list names a host.
    pub(super) fn needs_network(&self) -> bool {
        self.unlisted != UnlistedHosts::Refused
    }

    /// Gives an answer. Returns the number of connections that were held for it.
    ///
    /// # Errors
    /// There are too many answers already; the number of them.
    pub fn answer(&self, answer: HostAnswer) -> Result<usize, usize> {
        let held = self.state.lock().keep(answer.clone())?;
        self.note(&AnswerEvent::Answer(answer));
        Ok(held)
    }

    /// Gives the answer to an ask, unless it was answered meanwhile, or waits no longer. Returns whether it counts.
    pub fn answer_ask(&self, id: u64, answer: HostAnswer) -> bool {
        let kept = {
            let mut state = self.state.lock();
            let is_open = state.asks.iter().any(|ask| {
                let mut answers = state.once.iter().chain(&state.for_run);
                ask.id == id && !answers.any(|known| known.fits(&ask.host, ask.port))
            });
            is_open && state.keep(answer.clone()).is_ok()
        };
        if kept {
            self.note(&AnswerEvent::Answer(answer));
        }
        kept
    }

    /// Returns the asks that wait, and the hosts that were refused.
    pub fn open_asks(&self) -> (Vec<HostAsk>, Vec<RefusedHost>) {
        let state = self.state.lock();
        let asks = state.asks.iter().map(OpenAsk::summary).collect();
        (asks, state.refused.clone())
    }

    /// Returns the hosts that were reached, as a list has them, while they were learned.
    pub fn learned_hosts(&self) -> Vec<String> {
        self.state.lock().learned.iter().cloned().collect()
    }

    /// Returns all events from now on, until the program's end, with the asks that wait already.
    pub fn watch(&self) -> Receiver<AnswerEvent> {
        let (sender, receiver) = sync_channel(MAX_QUEUED_EVENTS);
        let mut state = self.state.lock();
        for ask in &state.asks {
            let _ = sender.try_send(AnswerEvent::Ask(ask.summary()));
        }
        if !state.has_ended {
            state.watchers.push(sender);
        }
        receiver
    }

    /// Ends the watching: the program has ended.
    pub fn end(&self) {
        let mut state = self.state.lock();
        state.has_ended = true;
        state.watchers.clear();
    }

    /// Decides by the answers alone. What is for one connection is used up.
    pub(super) fn decide(&self, host: &Host, port: u16) -> Option<Result<String, HostDenial>> {
        self.state.lock().decide(host, port)
    }

    /// Returns whether a name gets an address whatever lists say: a connection there is held, or learns why it is refused.
    pub(super) fn gives_address(&self, host: &Host) -> bool {
        let state = self.state.lock();
        let mut all = state.once.iter().chain(&state.for_run);
        all.any(|answer| answer.host.matches(host)) || self.is_asked(host)
    }

    /// Returns how an answer for the whole run decides about an address, whatever name led to it.
    pub(super) fn decide_address(&self, host: &Host, port: u16) -> Option<Result<(), HostDenial>> {
        let state = self.state.lock();
        let mut newest = state.for_run.iter().rev();
        let answer = newest.find(|answer| answer.fits(host, port))?;
        Some(match answer.verdict {
            HostVerdict::Deny => Err(denial_of(answer)),
            HostVerdict::Allow => Ok(()),
        })
    }

    /// Holds a connection to a host that no list names, until it is answered; where nothing is asked, returns the
    /// denial with what allows it.
    pub(super) fn ask(
        &self,
        denied: HostDenial,
        (host, port): (&Host, u16),
        asking: &AskingConnection<'_>,
    ) -> Result<String, HostDenial> {
        let limit = match self.unlisted {
            UnlistedHosts::Asked(limit) if self.is_asked(host) => limit,
            _ => return Err(self.with_way(denied, host, Some(port))),
        };
        let until = Instant::now() + limit;
        let failed = |reason: &str| Err(HostDenial::new(ASK_RULE, reason));
        let Ok(waker) = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK) else {
            return failed("there are too few descriptors to wait for an answer");
        };
        let waker = Arc::new(waker);
        let (id, new) = {
            let mut state = self.state.lock();
            // It may have been answered since.
            if let Some(decided) = state.decide(host, port) {
                return decided;
            }
            if let Some(reason) = state.refuses_to_hold(host, port) {
                drop(state);
                return Err(self.with_way(HostDenial::new(ASK_RULE, reason), host, Some(port)));
            }
            state.hold(host, port, asking.by, until, waker.clone())
        };
        if let Some(ask) = new {
            self.note(&AnswerEvent::Ask(ask));
        }
        let decided = self.wait(host, port, asking, until, &waker);
        let is_last = self.state.lock().release(id, &waker);
        match decided {
            Ok(decided) => decided,
            Err(reason) => {
                let reason = reason
                    .unwrap_or_else(|| format!("nobody answered within {} s", limit.as_secs_f64()));
                let denied = HostDenial::new(ASK_RULE, reason);
                if is_last {
                    self.note_unanswered(host, port, &denied);
                }
                Err(self.with_way(denied, host, Some(port)))
            }
        }
    }

    /// Waits for the answer about a connection. Nothing: the time is up.
    fn wait(
        &self,
        host: &Host,
        port: u16,
        asking: &AskingConnection<'_>,
        until: Instant,
        waker: &OwnedFd,
    ) -> Result<Result<String, HostDenial>, Option<String>> {
        let gone = PollFlags::RDHUP;
        let fds: [(&dyn AsFd, PollFlags); 2] = [(asking.stream, gone), (waker, PollFlags::IN)];
        loop {
            let ready = match asking.stop.wait(&fds, Some(until)) {
                WaitOutcome::Ready(ready) => ready,
                WaitOutcome::Late => return Err(None),
                WaitOutcome::Stopped => return Err(Some("the program has ended".to_owned())),
            };
            let _ = rustix::io::read(waker, &mut [0; 8]);
            if let Some(decided) = self.decide(host, port) {
                return Ok(decided);
            }
            if ready.first() == Some(&true) {
                return Err(Some("the program did not wait for an answer".to_owned()));
            }
        }
    }

    /// Returns whether a host that no list names is asked about: a public one, as far as it says.
    fn is_asked(&self, host: &Host) -> bool {
        let is_public = match host {
            Host::Name(_) => host.within().is_none() && !host.to_string().ends_with(".arpa"),
            Host::Address(address) => is_public(*address),
        };
        is_public && matches!(self.unlisted, UnlistedHosts::Asked(_))
    }

    /// Adds to a denial the command that allows the host.
    pub(super) fn with_way(
        &self,
        denied: HostDenial,
        host: &Host,
        port: Option<u16>,
    ) -> HostDenial {
        let is_answerable = matches!(&*denied.rule, "network.allow" | ASK_RULE);
        let Some(run) = self.run.as_ref().filter(|_| is_answerable) else {
            return denied;
        };
        if host.within().is_some() {
            return denied;
        }
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let reason = format!(
            "{}; whoever started the agent can allow it: trumanfs agent allow {run} {host}{port}",
            denied.reason
        );
        HostDenial { reason, ..denied }
    }

    /// Takes note of a connection that has ended, or that there never was.
    pub(super) fn note_connection(&self, record: &ConnectionRecord) {
        let host = format!("{}:{}", record.host, record.port);
        let is_reached = record.verdict == "allow" && record.address.is_some();
        let is_program_s = !matches!(record.by, "host_ports" | "publish");
        let is_closed = record.by == "closed" && record.rule == "network: ports";
        if self.unlisted == UnlistedHosts::Learned && is_program_s && (is_reached || is_closed) {
            let mut state = self.state.lock();
            if state.learned.len() < MAX_KEPT {
                state.learned.insert(host);
            }
        }
        if record.verdict == "deny" {
            let refused = RefusedHost {
                host: record.host.clone(),
                port: record.port,
                rule: record.rule.clone(),
                reason: record.reason.clone().unwrap_or_default(),
            };
            self.note_refused(refused);
        }
    }

    /// Keeps a refusal, and tells of it unless its ask has done so.
    fn note_refused(&self, refused: RefusedHost) {
        let mut state = self.state.lock();
        let key = (refused.host.clone(), refused.port);
        if state.refused.len() >= MAX_REFUSED || !state.known.insert(key) {
            return;
        }
        state.refused.push(refused.clone());
        drop(state);
        if refused.rule != ASK_RULE {
            self.note(&AnswerEvent::Refused(refused));
        }
    }

    fn note_unanswered(&self, host: &Host, port: u16, denied: &HostDenial) {
        self.note(&AnswerEvent::Unanswered(RefusedHost {
            host: host.to_string(),
            port,
            rule: denied.rule.clone(),
            reason: denied.reason.clone(),
        }));
    }

    fn note(&self, event: &AnswerEvent) {
        // One that does not read is late or gone; only the second ends its watching.
        let mut state = self.state.lock();
        state.watchers.retain(|watcher| {
            use std::sync::mpsc::TrySendError;
            !matches!(
                watcher.try_send(event.clone()),
                Err(TrySendError::Disconnected(_))
            )
        });
        drop(state);
        (self.observer)(event);
    }
}

impl AnswerState {
    /// Keeps an answer, and wakes the connections that it is for. Returns their number, or that of all answers if those
    /// are too many.
    fn keep(&mut self, answer: HostAnswer) -> Result<usize, usize> {
        let kept = match answer.scope {
            AnswerScope::Once => &mut self.once,
            AnswerScope::Run | AnswerScope::Always => {
                // Of two about the same hosts, the newer one counts.
                let text = &answer.host.text;
                self.for_run.retain(|known| known.host.text != *text);
                &mut self.for_run
            }
        };
        if kept.len() >= MAX_KEPT {
            return Err(kept.len());
        }
        let hosts = answer.host.clone();
        kept.push(answer);
        Ok(self.wake(&hosts))
    }

    fn decide(&mut self, host: &Host, port: u16) -> Option<Result<String, HostDenial>> {
        let fits = |answer: &HostAnswer| answer.fits(host, port);
        let used = self.once.iter().position(fits);
        let answer = match used {
            Some(at) => self.once.remove(at),
            None => self
                .for_run
                .iter()
                .rev()
                .find(|answer| fits(answer))?
                .clone(),
        };
        Some(match answer.verdict {
            HostVerdict::Allow => Ok(answer.rule()),
            HostVerdict::Deny => Err(denial_of(&answer)),
        })
    }

    /// Returns why no more connections to a host are held, if that is so.
    fn refuses_to_hold(&self, host: &Host, port: u16) -> Option<String> {
        let is_known = || self.asks.iter().any(|ask| ask.is_for(host, port));
        if self.held >= MAX_HELD {
            Some(format!("{MAX_HELD} connections wait for an answer already"))
        } else if self.last_id >= MAX_ASKS && !is_known() {
            Some(format!("this run has asked {MAX_ASKS} times"))
        } else {
            None
        }
    }

    /// Adds a connection to the ask for its host. Returns the ask's number, and the ask if it is new.
    fn hold(
        &mut self,
        host: &Host,
        port: u16,
        by: &'static str,
        until: Instant,
        waker: Arc<OwnedFd>,
    ) -> (u64, Option<HostAsk>) {
        self.held += 1;
        let mut asks = self.asks.iter_mut();
        if let Some(ask) = asks.find(|ask| ask.is_for(host, port)) {
            ask.wakers.push(waker);
            ask.until = until;
            return (ask.id, None);
        }
        self.last_id += 1;
        let id = self.last_id;
        let ask = OpenAsk {
            id,
            host: host.clone(),
            port,
            by,
            until,
            wakers: vec![waker],
        };
        let new = ask.summary();
        self.asks.push(ask);
        (id, Some(new))
    }

    /// Takes a connection from its ask. Returns whether that ends the ask.
    fn release(&mut self, id: u64, waker: &Arc<OwnedFd>) -> bool {
        self.held = self.held.saturating_sub(1);
        for ask in self.asks.iter_mut().filter(|ask| ask.id == id) {
            ask.wakers.retain(|known| !Arc::ptr_eq(known, waker));
        }
        let before = self.asks.len();
        self.asks.retain(|ask| !ask.wakers.is_empty());
        self.asks.len() < before
    }

    /// Wakes the connections to some hosts. Returns their number.
    fn wake(&self, hosts: &HostPattern) -> usize {
        let fits = |ask: &&OpenAsk| {
            hosts.matches(&ask.host) && hosts.port.is_none_or(|port| port == ask.port)
        };
        let wakers = self.asks.iter().filter(fits).flat_map(|ask| &ask.wakers);
        wakers
            .map(|waker| rustix::io::write(&**waker, &1_u64.to_ne_bytes()))
            .filter(Result::is_ok)
            .count()
    }
}

impl OpenAsk {
    fn is_for(&self, host: &Host, port: u16) -> bool {
        self.host == *host && self.port == port
    }

    fn summary(&self) -> HostAsk {
        let left = self.until.saturating_duration_since(Instant::now());
        HostAsk {
            id: self.id,
            host: self.host.to_string(),
            port: self.port,
            by: self.by,
            waits_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            connections: self.wakers.len(),
        }
    }
}

impl HostAnswer {
    /// Returns the rule that connections name. The program reads it, so it does not say who has decided.
    fn rule(&self) -> String {
        let verb = match self.verdict {
            HostVerdict::Allow => "allow",
            HostVerdict::Deny => "deny",
        };
        format!("agent {verb} {}", self.host.text)
    }

    fn fits(&self, host: &Host, port: u16) -> bool {
        self.host.matches(host) && self.host.port.is_none_or(|own| own == port)
    }
}

fn denial_of(answer: &HostAnswer) -> HostDenial {
    let reason = answer.reason.as_deref().unwrap_or("it was denied");
    HostDenial::new(answer.rule(), reason)
}

fn pattern_text<S: serde::Serializer>(pattern: &HostPattern, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&pattern.text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn answers(unlisted: UnlistedHosts) -> HostAnswers {
        HostAnswers::new(Some("run".to_owned()), unlisted, Box::new(|_| {}))
    }

    fn give(answers: &HostAnswers, verdict: HostVerdict, host: &str, scope: AnswerScope) -> usize {
        answers.answer(answer(verdict, host, scope)).unwrap()
    }

    fn answer(verdict: HostVerdict, host: &str, scope: AnswerScope) -> HostAnswer {
        HostAnswer {
            host: HostPattern::parse(host).unwrap(),
            verdict,
            scope,
            by: "a test".to_owned(),
            reason: None,
        }
    }

    fn host(text: &str) -> Host {
        Host::parse(text.as_bytes()).unwrap()
    }

    fn unlisted() -> HostDenial {
        HostDenial::new("network.allow", "the policy allows no host")
    }

    /// A connection with its other end, and what ends its network.
    fn connection() -> (TcpStream, TcpStream, StopSignal, OwnedFd) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (end, hold) = rustix::pipe::pipe().unwrap();
        let stop = StopSignal(Arc::new(end));
        (listener.accept().unwrap().0, client, stop, hold)
    }

    fn ask(answers: &HostAnswers, to: &str) -> Result<String, HostDenial> {
        let (stream, _client, stop, _hold) = connection();
        let asking = AskingConnection {
            stream: &stream,
            stop: &stop,
            by: "connect",
        };
        answers.ask(unlisted(), (&host(to), 443), &asking)
    }

    #[test]
    fn newest_answer_counts_and_once_is_used_up() {
        let answers = answers(UnlistedHosts::Refused);
        let decide = |to: &str, port| {
            answers
                .decide(&host(to), port)
                .map(|decided| decided.is_ok())
        };
        assert_eq!(decide("a.example", 443), None);
        give(
            &answers,
            HostVerdict::Allow,
            "*.example:443",
            AnswerScope::Run,
        );
        assert_eq!(decide("a.example", 443), Some(true));
        assert_eq!(decide("a.example", 80), None);
        give(&answers, HostVerdict::Deny, "a.example", AnswerScope::Run);
        assert_eq!(
            (decide("a.example", 443), decide("b.example", 443)),
            (Some(false), Some(true))
        );
        give(
            &answers,
            HostVerdict::Allow,
            "a.example:443",
            AnswerScope::Once,
        );
        assert_eq!(decide("a.example", 443), Some(true));
        assert_eq!(decide("a.example", 443), Some(false));
        give(&answers, HostVerdict::Allow, "a.example", AnswerScope::Run);
        assert_eq!(decide("a.example", 80), Some(true));
        // A denied address is denied whatever name leads to it.
        give(
            &answers,
            HostVerdict::Deny,
            "93.184.216.34",
            AnswerScope::Run,
        );
        let decided = |address| answers.decide_address(&host(address), 443);
        assert!(matches!(decided("93.184.216.34"), Some(Err(_))));
        assert!(decided("93.184.216.35").is_none());
        give(&answers, HostVerdict::Allow, "10.1.2.3", AnswerScope::Once);
        assert!(decided("10.1.2.3").is_none(), "that is for one connection");
        give(
            &answers,
            HostVerdict::Allow,
            "10.1.2.3:443",
            AnswerScope::Run,
        );
        assert!(matches!(decided("10.1.2.3"), Some(Ok(()))));
        assert!(answers.decide_address(&host("10.1.2.3"), 80).is_none());
    }

    #[test]
    fn unlisted_host_is_refused_with_the_command_that_allows_it() {
        let denied = ask(&answers(UnlistedHosts::Refused), "a.example").unwrap_err();
        assert_eq!(denied.rule, "network.allow");
        let way =
            "; whoever started the agent can allow it: trumanfs agent allow run a.example:443";
        assert!(denied.reason.ends_with(way), "{}", denied.reason);
        // Nothing is said of what no answer changes.
        let other = HostDenial::new("network.deny: a.example", "the policy refuses it");
        let answers = answers(UnlistedHosts::Refused);
        assert_eq!(
            answers.with_way(other.clone(), &host("a.example"), None),
            other
        );
        let own = answers.with_way(unlisted(), &host("localhost"), Some(80));
        assert_eq!(own, unlisted());
    }

    #[test]
    fn held_connection_goes_on_when_it_is_answered() {
        let answers = answers(UnlistedHosts::Asked(Duration::from_secs(60)));
        let events = answers.watch();
        std::thread::scope(|threads| {
            let held = threads.spawn(|| ask(&answers, "a.example"));
            let Ok(AnswerEvent::Ask(first)) = events.recv() else {
                panic!("no ask")
            };
            assert_eq!(
                (&*first.host, first.port, first.by),
                ("a.example", 443, "connect")
            );
            // What is for others wakes nobody.
            assert_eq!(
                give(&answers, HostVerdict::Allow, "b.example", AnswerScope::Run),
                0
            );
            assert_eq!(
                give(&answers, HostVerdict::Allow, "a.example", AnswerScope::Once),
                1
            );
            let rule = held.join().unwrap().unwrap();
            assert_eq!(rule, "agent allow a.example");
            let late = answer(HostVerdict::Deny, "a.example:443", AnswerScope::Run);
            assert!(!answers.answer_ask(first.id, late));
        });
        assert_eq!(answers.open_asks().0, []);
    }

    /// A command that says its verdict late does not win over the user.
    #[test]
    fn ask_is_answered_once() {
        let answers = answers(UnlistedHosts::Asked(Duration::from_secs(60)));
        let mut state = answers.state.lock();
        let waker = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let (id, _) = state.hold(&host("a.example"), 443, "connect", Instant::now(), waker);
        drop(state);
        give(&answers, HostVerdict::Deny, "a.example", AnswerScope::Run);
        let late = || answer(HostVerdict::Allow, "a.example:443", AnswerScope::Run);
        assert!(!answers.answer_ask(id, late()));
        assert!(answers.decide(&host("a.example"), 443).unwrap().is_err());
        assert!(!answers.answer_ask(id + 1, late()));
    }

    #[test]
    fn one_of_two_held_connections_uses_an_answer_for_one() {
        let answers = answers(UnlistedHosts::Asked(Duration::from_secs(60)));
        let events = answers.watch();
        std::thread::scope(|threads| {
            let held = [(); 2].map(|()| threads.spawn(|| ask(&answers, "a.example")));
            assert!(matches!(events.recv(), Ok(AnswerEvent::Ask(_))));
            while answers
                .open_asks()
                .0
                .first()
                .is_none_or(|ask| ask.connections < 2)
            {
                std::thread::yield_now();
            }
            assert_eq!(
                give(&answers, HostVerdict::Allow, "a.example", AnswerScope::Once),
                2
            );
            while answers
                .open_asks()
                .0
                .first()
                .is_none_or(|ask| ask.connections > 1)
            {
                std::thread::yield_now();
            }
            give(&answers, HostVerdict::Deny, "a.example", AnswerScope::Once);
            let ended = held.map(|held| held.join().unwrap().is_ok());
            assert!(ended[0] != ended[1], "{ended:?}");
        });
    }

    #[test]
    fn nobody_answers_and_some_things_are_not_asked() {
        let short = answers(UnlistedHosts::Asked(Duration::from_millis(1)));
        let events = short.watch();
        let denied = ask(&short, "a.example").unwrap_err();
        assert_eq!(denied.rule, "--net ask");
        assert!(
            denied
                .reason
                .starts_with("nobody answered within 0.001 s; "),
            "{}",
            denied.reason
        );
        assert!(matches!(events.recv(), Ok(AnswerEvent::Ask(_))));
        assert!(matches!(events.recv(), Ok(AnswerEvent::Unanswered(_))));
        let long = answers(UnlistedHosts::Asked(Duration::from_secs(60)));
        for private in [
            "10.1.2.3",
            "169.254.169.254",
            "localhost",
            "sandbox",
            "1.0.0.127.in-addr.arpa",
        ] {
            assert_eq!(
                ask(&long, private).unwrap_err().rule,
                "network.allow",
                "{private}"
            );
        }
        assert!(!long.gives_address(&host("1.0.0.127.in-addr.arpa")));
        assert!(long.gives_address(&host("a.example")));
        assert!(!answers(UnlistedHosts::Refused).gives_address(&host("a.example")));
    }

    #[test]
    fn connection_that_leaves_and_network_that_ends_wait_no_longer() {
        let answers = answers(UnlistedHosts::Asked(Duration::from_secs(600)));
        for leaves in [true, false] {
            let (stream, client, stop, hold) = connection();
            let asking = AskingConnection {
                stream: &stream,
                stop: &stop,
                by: "connect",
            };
            if leaves {
                drop(client);
            } else {
                drop(hold);
            }
            let denied = answers.ask(unlisted(), (&host("a.example"), 443), &asking);
            assert_eq!(denied.unwrap_err().rule, "--net ask");
        }
        assert_eq!(answers.open_asks().0, []);
    }

    #[test]
    fn more_than_are_held_are_refused_at_once() {
        let answers = answers(UnlistedHosts::Asked(Duration::from_secs(600)));
        let names: Vec<String> = (0..MAX_HELD)
            .map(|number| format!("n{number}.example"))
            .collect();
        std::thread::scope(|threads| {
            let held: Vec<_> = names
                .iter()
                .map(|name| threads.spawn(|| ask(&answers, name)))
                .collect();
            while answers.open_asks().0.len() < MAX_HELD {
                std::thread::yield_now();
            }
            let denied = ask(&answers, "more.example").unwrap_err();
            assert!(
                denied.reason.starts_with("64 connections wait"),
                "{}",
                denied.reason
            );
            // One that is allowed is not held.
            give(
                &answers,
                HostVerdict::Allow,
                "more.example",
                AnswerScope::Run,
            );
            assert!(ask(&answers, "more.example").is_ok());
            give(&answers, HostVerdict::Deny, "**.example", AnswerScope::Run);
            assert!(held.into_iter().all(|held| held.join().unwrap().is_err()));
        });
        // A program that asks again and again does not fill the log.
        for _ in 0..MAX_ASKS {
            answers.state.lock().last_id += 1;
        }
        let denied = ask(&answers, "b.test").unwrap_err();
        assert!(
            denied.reason.starts_with("this run has asked 1000 times"),
            "{}",
            denied.reason
        );
    }
}
