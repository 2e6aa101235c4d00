//! [`AgentWatch`]: an agent that is watched while it runs: who answers about hosts that no list names, where the answers
//! arrive, and what is recorded of them.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::pipe::{PipeFlags, pipe_with};
use serde_json::{Value, json};

use super::answer_server::AnswerServer;
use super::ask_command::{AskCommand, CommandVerdict};
use super::network::{
    AnswerEvent, AnswerScope, HostAnswer, HostAnswers, HostAsk, HostVerdict, NetworkSettings,
    SecretRoute, UnlistedHosts,
};
use super::policy::NetworkRule;
use super::policy::network::HostPattern;
use super::program_home::ProgramHome;
use crate::client::{AdditionsFile, AnswerRequest, RunningAgents};
use crate::error::{Error, Result};
use crate::exec::AuditLog;
use crate::name::escape;
use crate::world::RunId;

/// The kind of an audit line about an answer.
const KIND: &str = "answer";

/// The longest reason that is handed on, in characters.
const MAX_REASON_CHARS: usize = 1000;

/// The most failures of the command that are kept.
const MAX_FAILURES: usize = 20;

/// The name of the one who has answered where nobody has.
const NOBODY: &str = "nobody";

/// The name of the one who answers by a command.
const COMMAND: &str = "--ask-with";

/// The wishes of whoever starts an agent about what it is not allowed.
#[derive(Debug, Clone)]
pub struct WatchSettings {
    /// The treatment of hosts that no list names.
    pub unlisted: UnlistedHosts,
    /// A command that is asked, beside whoever watches.
    pub ask_with: Option<OsString>,
    /// True if that command may write to the standard error of this process.
    pub shows_errors: bool,
}

/// An agent that is watched. Dropping it ends that.
#[derive(Debug)]
pub struct AgentWatch {
    pub(super) shared: Arc<WatchState>,
    pub(super) network: Option<NetworkSettings>,
    server: Mutex<Option<AnswerServer>>,
    /// Closed at the end.
    _running: OwnedFd,
}

/// The parts of a watch that its threads share.
pub(super) struct WatchState {
    pub(super) run: RunId,
    pub(super) answers: Arc<HostAnswers>,
    /// The name of the agent's profile.
    profile: String,
    store: String,
    deny: Vec<HostPattern>,
    /// Ports of hosts that are reached without a proxy.
    captured: Vec<u16>,
    additions: Option<AdditionsFile>,
    failures: Arc<Mutex<Vec<String>>>,
}

impl std::fmt::Debug for WatchState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchState")
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}

impl ProgramHome {
    /// Begins to watch an agent of a profile that is to run with this network. The user's answers arrive at a socket in
    /// `agents`, if there is one; `notice` gets the asks and answers.
    ///
    /// # Errors
    /// [`Error::Usage`] for a network that means nothing; errors of making the socket.
    pub fn watch_agent(
        &self,
        (run, profile): (RunId, &str),
        (rule, secrets): (&NetworkRule, &[Arc<SecretRoute>]),
        settings: WatchSettings,
        agents: Option<RunningAgents>,
        notice: impl Fn(&AnswerEvent) + Send + Sync + 'static,
    ) -> Result<AgentWatch> {
        let (running, ended) = pipe_with(PipeFlags::CLOEXEC).map_err(Error::os("pipe2"))?;
        let failures = Arc::new(Mutex::new(Vec::new()));
        let sends = AskRecorder {
            run,
            audit: self.place.audit_log(),
            command: settings.ask_with.map(|command| AskCommand {
                command,
                shows_errors: settings.shows_errors,
            }),
            question: json!({ "run": run.to_string(), "agent": profile, "store": store_of(self) }),
            stop: Arc::new(running),
            failures: failures.clone(),
        };
        let unlisted = settings.unlisted;
        let named = agents.as_ref().map(|_| run.to_string());
        let answers = Arc::new_cyclic(|own: &std::sync::Weak<HostAnswers>| {
            let own = own.clone();
            let observer = move |event: &AnswerEvent| {
                notice(event);
                sends.observe(event, &own);
            };
            HostAnswers::new(named, unlisted, Box::new(observer))
        });
        let wrong = |reason| Error::usage(reason, "See `trumanfs agent --help`.");
        let network =
            NetworkSettings::of_agent(rule, Some(answers.clone()), secrets).map_err(wrong)?;
        let deny = rule
            .deny
            .iter()
            .filter_map(|text| HostPattern::parse(text).ok());
        let shared = Arc::new(WatchState {
            run,
            answers,
            profile: profile.to_owned(),
            store: store_of(self),
            deny: deny.collect(),
            captured: network
                .as_ref()
                .map(NetworkSettings::captured_ports)
                .unwrap_or_default(),
            additions: self.client().profile_additions(profile).ok(),
            failures,
        });
        let serve =
            |agents: RunningAgents| AnswerServer::start(agents.listen(run)?, shared.clone());
        Ok(AgentWatch {
            server: Mutex::new(agents.map(serve).transpose()?),
            shared,
            network,
            _running: ended,
        })
    }
}

impl AgentWatch {
    /// Ends the watching: nothing is asked or answered any more.
    pub fn end(&self) {
        self.shared.answers.end();
        let server = self.server.lock().take();
        drop(server);
    }

    /// Returns the hosts that were reached while they were learned, as a list has them.
    pub fn learned_hosts(&self) -> Vec<String> {
        self.shared.answers.learned_hosts()
    }

    /// Returns what went wrong with the command that is asked.
    pub fn command_failures(&self) -> Vec<String> {
        self.shared.failures.lock().clone()
    }
}

impl Drop for AgentWatch {
    fn drop(&mut self) {
        self.end();
    }
}

fn store_of(programs: &ProgramHome) -> String {
    use std::os::unix::ffi::OsStrExt;
    escape(programs.client().path().as_os_str().as_bytes())
}

/// The things that happen at each event.
struct AskRecorder {
    run: RunId,
    audit: Option<Arc<dyn AuditLog>>,
    command: Option<AskCommand>,
    /// The parts of a question that are the same for all.
    question: Value,
    /// Ends with the watch.
    stop: Arc<OwnedFd>,
    failures: Arc<Mutex<Vec<String>>>,
}

impl AskRecorder {
    /// Has a line written about a verdict, and a new ask put to the command.
    fn observe(&self, event: &AnswerEvent, answers: &std::sync::Weak<HostAnswers>) {
        match event {
            AnswerEvent::Answer(answer) => {
                self.write(&serde_json::to_value(answer).unwrap_or_default());
            }
            AnswerEvent::Unanswered(refused) => self.write(&json!({
                "host": format!("{}:{}", refused.host, refused.port),
                "verdict": HostVerdict::Deny,
                "scope": AnswerScope::Once,
                "by": NOBODY,
                "reason": refused.reason,
            })),
            AnswerEvent::Ask(ask) => {
                if let Some(command) = &self.command {
                    self.put_to_command(command.clone(), ask, answers.clone());
                }
            }
            AnswerEvent::Refused(_) => {}
        }
    }

    fn write(&self, line: &Value) {
        if let Some(audit) = &self.audit {
            // As with connections: the line of the request has a warning where none can be written.
            let _ = audit.write_event(self.run, KIND, None, line);
        }
    }

    /// Asks the command, on a thread of its own. There are no more of these than held connections.
    fn put_to_command(
        &self,
        command: AskCommand,
        ask: &HostAsk,
        answers: std::sync::Weak<HostAnswers>,
    ) {
        let until = Instant::now() + Duration::from_millis(ask.waits_ms);
        let (stop, failures) = (self.stop.clone(), self.failures.clone());
        let mut question = self.question.clone();
        if let Some(fields) = question.as_object_mut() {
            for (key, value) in [
                ("id", json!(ask.id)),
                ("host", json!(ask.host)),
                ("port", json!(ask.port)),
                ("by", json!(ask.by)),
            ] {
                fields.insert(key.to_owned(), value);
            }
        }
        let (id, host) = (ask.id, format!("{}:{}", ask.host, ask.port));
        // Where no thread can be had, whoever watches may still answer.
        let _ = std::thread::Builder::new()
            .name("ask-with".to_owned())
            .spawn(move || {
                let answer = match command.ask(&question, until, &*stop) {
                    Ok(verdict) => answer_by_command(&host, verdict),
                    Err(why) => {
                        let mut failures = failures.lock();
                        let text = format!("--ask-with gave no verdict about {host}: {why}");
                        if failures.len() < MAX_FAILURES && !failures.contains(&text) {
                            failures.push(text);
                        }
                        return;
                    }
                };
                if let (Some(answer), Some(answers)) = (answer, answers.upgrade()) {
                    answers.answer_ask(id, answer);
                }
            });
    }
}

/// Returns the answer that a command gives; nothing where it leaves that to whoever watches.
fn answer_by_command(host: &str, verdict: CommandVerdict) -> Option<HostAnswer> {
    Some(HostAnswer {
        host: HostPattern::parse(host).ok()?,
        verdict: verdict.verdict?,
        scope: verdict.scope,
        by: COMMAND.to_owned(),
        reason: verdict.reason.map(|reason| shortened(&reason)),
    })
}

fn shortened(reason: &str) -> String {
    reason.chars().take(MAX_REASON_CHARS).collect()
}

impl WatchState {
    /// Returns the state of the run, with the asks that wait and the hosts that were refused.
    pub(super) fn summary(&self) -> Value {
        let (asks, refused) = self.answers.open_asks();
        json!({
            "run": self.run.to_string(),
            "agent": self.profile,
            "store": self.store,
            "asks": asks,
            "refused": refused,
        })
    }

    /// Gives an answer of the user's. Returns the number of connections that were held for it, and what the user should
    /// know besides.
    ///
    /// # Errors
    /// [`Error::Usage`] for a host that means nothing; [`Error::Refused`] where the answer could have no effect.
    pub(super) fn answer(
        &self,
        request: &AnswerRequest,
        by: String,
    ) -> Result<(usize, Vec<String>)> {
        let mut host = HostPattern::parse(&request.host).map_err(|why| {
            Error::usage(
                format!("{:?} is no host: {why}", request.host),
                "Write it as HOST, HOST:PORT, *.HOST (below it) or **.HOST (below it and itself).",
            )
        })?;
        host.text = host.to_string();
        let scope = match &*request.scope {
            "once" => AnswerScope::Once,
            "run" => AnswerScope::Run,
            "always" => AnswerScope::Always,
            other => return Err(Error::usage(format!("{other:?} is no scope"), "")),
        };
        let mut notes = Vec::new();
        if request.allow {
            self.expect_not_denied(&host, scope, &mut notes)?;
        }
        if scope == AnswerScope::Always {
            notes.push(self.always(&host.text, request.allow)?);
        }
        let verdict = if request.allow {
            HostVerdict::Allow
        } else {
            HostVerdict::Deny
        };
        if let (Some(port), HostVerdict::Allow) = (host.port, verdict)
            && !self.captured.contains(&port)
        {
            notes.push(format!(
                "port {port} is reached by the proxies of HTTP_PROXY and ALL_PROXY alone: for programs that heed neither, \
                 start the agent with --net allow={}",
                host.text
            ));
        }
        if verdict == HostVerdict::Deny {
            notes.push("connections that are open go on".to_owned());
        }
        let answer = HostAnswer {
            host,
            verdict,
            scope,
            by,
            reason: request.reason.as_deref().map(shortened),
        };
        let held = self.answers.answer(answer).map_err(|count| {
            Error::refused(
                format!("{count} answers wait for a connection already, or count for this run"),
                "Allow more hosts at once, as in *.HOST.",
            )
        })?;
        Ok((held, notes))
    }

    /// A host on the list of refused ones stays refused, whatever is answered.
    fn expect_not_denied(
        &self,
        host: &HostPattern,
        scope: AnswerScope,
        notes: &mut Vec<String>,
    ) -> Result<()> {
        let Some(denied) = self.deny.iter().find(|denied| denied.covers(host)) else {
            return Ok(());
        };
        let file = self
            .additions
            .as_ref()
            .map(|file| file.path().display().to_string());
        let file = file.unwrap_or_default();
        if scope == AnswerScope::Always {
            notes.push(format!(
                "run {} still refuses it: {} was denied in {file} when it began",
                self.run, denied.text
            ));
            return Ok(());
        }
        Err(Error::refused(
            format!(
                "{} is denied in {file}, which counts for the whole run",
                denied.text
            ),
            format!(
                "For the next run: trumanfs agent allow {} {} --always",
                self.run, denied.text
            ),
        ))
    }

    /// Writes an answer down for later runs.
    fn always(&self, host: &str, is_allowed: bool) -> Result<String> {
        let additions = self.additions.as_ref().ok_or_else(|| {
            Error::refused(
                "there is no place for what is always allowed or denied",
                "Answer without --always, or set XDG_STATE_HOME to a directory that can be written.",
            )
        })?;
        additions.add(host, is_allowed)?;
        Ok(format!(
            "it counts for later runs of {}, too: {}",
            self.profile,
            additions.path().display()
        ))
    }
}
