//! `agent allow`, `agent deny` and `agent asks`: what the user says of a running agent's hosts, from another terminal.

use std::sync::mpsc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::super::exit::ExitReason;
use super::super::output::{Printer, count};
use crate::client::{AgentConnection, AgentReply, AgentRequest, AnswerRequest, RunningAgents};
use crate::error::{Error, Result};

/// The time between two looks for agents that have begun.
const NEW_AGENTS_INTERVAL: Duration = Duration::from_secs(1);

/// Subcommands of `trumanfs agent`.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum AgentCommandArgs {
    /// Allows a running agent hosts, and lets connections go on that wait for that
    Allow(AllowArgs),
    /// Denies a running agent hosts, whatever lists allow
    Deny(DenyArgs),
    /// Lists what running agents wait for, and what they were refused
    Asks(AsksArgs),
}

/// Arguments of `trumanfs agent allow`.
#[derive(Args, Debug)]
pub(in crate::cli) struct AllowArgs {
    #[command(flatten)]
    answer: AnswerArgs,
}

/// Arguments of `trumanfs agent deny`.
#[derive(Args, Debug)]
pub(in crate::cli) struct DenyArgs {
    #[command(flatten)]
    answer: AnswerArgs,
    /// The reason, which the agent gets
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Arguments of both.
#[derive(Args, Debug)]
struct AnswerArgs {
    /// The agent's run: its id, the beginning of it, or `last`
    run: String,
    /// HOST, HOST:PORT, *.HOST (below it) or **.HOST (below it and itself)
    #[arg(required = true, value_name = "HOST[:PORT]")]
    hosts: Vec<String>,
    /// For one connection: one that waits, or the next
    #[arg(long, group = "scope")]
    once: bool,
    /// For this run, and for later ones of the same profile
    #[arg(long, group = "scope")]
    always: bool,
}

/// Arguments of `trumanfs agent asks`.
#[derive(Args, Debug)]
pub(in crate::cli) struct AsksArgs {
    /// The agent's run: its id, the beginning of it, or `last` [default: all that run]
    run: Option<String>,
    /// Go on with what comes, until the agent ends
    #[arg(long)]
    follow: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Says it.
pub(in crate::cli) fn answer(command: &AgentCommandArgs) -> Result<ExitReason> {
    match command {
        AgentCommandArgs::Allow(args) => give(&args.answer, true, None),
        AgentCommandArgs::Deny(args) => give(&args.answer, false, args.reason.clone()),
        AgentCommandArgs::Asks(args) => asks(args),
    }
}

fn give(args: &AnswerArgs, allow: bool, reason: Option<String>) -> Result<ExitReason> {
    let agents = RunningAgents::own()?;
    let scope = match (args.once, args.always) {
        (true, _) => "once",
        (_, true) => "always",
        _ => "run",
    };
    let mut printer = Printer::new();
    // What a beginning of an id or `last` means must not change between two hosts.
    let run = agents.connect(&args.run)?.run.to_string();
    for host in &args.hosts {
        let request = AgentRequest::Answer(AnswerRequest {
            host: host.clone(),
            allow,
            scope: scope.to_owned(),
            reason: reason.clone(),
        });
        let AgentReply::Done { held, notes } = agents.connect(&run)?.ask(&request)? else {
            return Err(not_understood(&run));
        };
        let verdict = if allow { "allowed" } else { "denied" };
        let span = match scope {
            "once" => " once",
            "always" => " always",
            _ => "",
        };
        let waited = match held {
            0 => String::new(),
            held => format!(", for which {} waited", count(held as u64, "connection")),
        };
        printer.line(format_args!("run {run}: {host} is {verdict}{span}{waited}"));
        for note in notes {
            printer.line(format_args!("  {note}"));
        }
    }
    Ok(ExitReason::Ok)
}

fn not_understood(run: &str) -> Error {
    Error::System {
        what: format!("the launcher of run {run} answers something else"),
        remedy: "Use the trumanfs of the same release as the agent's.".to_owned(),
    }
}

fn asks(args: &AsksArgs) -> Result<ExitReason> {
    let agents = RunningAgents::own()?;
    let mut printer = Printer::new();
    match (&args.run, args.follow) {
        (Some(run), false) => {
            let found = agents.connect(run)?;
            list(found, args.json, &mut printer)?;
        }
        (None, false) => {
            let all = agents.connect_all()?;
            if all.is_empty() && !args.json {
                printer.line(format_args!("no agent of yours that has a network runs"));
            }
            for found in all {
                // One that ends meanwhile is none.
                let _ = list(found, args.json, &mut printer);
            }
        }
        (Some(run), true) => {
            let found = agents.connect(run)?;
            follow(found, &mut |shown| {
                shown.print(args.json, &mut printer)?;
                printer.flush();
                Ok(())
            })?;
        }
        (None, true) => return follow_all(&agents, args.json, &mut printer),
    }
    Ok(ExitReason::Ok)
}

fn list(mut found: AgentConnection, as_json: bool, printer: &mut Printer) -> Result<()> {
    match found.ask(&AgentRequest::Asks)? {
        AgentReply::Asks(state) => ShownState::State(state).print(as_json, printer),
        _ => Err(not_understood(&found.run.to_string())),
    }
}

/// Shows what happens in a run until its end.
fn follow(
    mut found: AgentConnection,
    show: &mut dyn FnMut(ShownState) -> Result<()>,
) -> Result<()> {
    let mut reply = Some(found.ask(&AgentRequest::Follow)?);
    while let Some(next) = reply {
        match next {
            AgentReply::Asks(state) => show(ShownState::State(state))?,
            AgentReply::Event(event) => show(ShownState::Event(event))?,
            _ => return Err(not_understood(&found.run.to_string())),
        }
        reply = found.next_reply()?;
    }
    Ok(())
}

/// Shows what happens in all runs, those that begin later too; ends when nobody reads it.
fn follow_all(agents: &RunningAgents, as_json: bool, printer: &mut Printer) -> Result<ExitReason> {
    let (sender, shown) = mpsc::channel();
    let mut known = std::collections::HashSet::new();
    loop {
        for found in agents.connect_all()? {
            if !known.insert(found.run) {
                continue;
            }
            let sender = sender.clone();
            let follow = move || {
                let mut show = |shown| {
                    let _ = sender.send(shown);
                    Ok(())
                };
                // It ends with the agent, however that ends.
                let _ = follow(found, &mut show);
            };
            let thread = std::thread::Builder::new().spawn(follow);
            thread.map_err(|error| Error::io("clone", &error))?;
        }
        let mut next = shown.recv_timeout(NEW_AGENTS_INTERVAL);
        while let Ok(shown_now) = next {
            shown_now.print(as_json, printer)?;
            next = shown
                .try_recv()
                .map_err(|_| mpsc::RecvTimeoutError::Timeout);
        }
        printer.flush();
    }
}

/// Something that a launcher says of its run.
enum ShownState {
    State(Value),
    Event(Value),
}

impl ShownState {
    fn print(self, as_json: bool, printer: &mut Printer) -> Result<()> {
        match self {
            ShownState::State(value) | ShownState::Event(value) if as_json => printer.json(&value),
            ShownState::State(state) => {
                print_state(&state, printer);
                Ok(())
            }
            ShownState::Event(event) => {
                print_event(&event, printer);
                Ok(())
            }
        }
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or_default()
}

fn print_state(state: &Value, printer: &mut Printer) {
    let run = text(state, "run");
    let (agent, store) = (text(state, "agent"), text(state, "store"));
    printer.line(format_args!("run {run}: {agent} in {store}"));
    let entries = |key: &str| state.get(key).and_then(Value::as_array).cloned();
    for ask in entries("asks").unwrap_or_default() {
        print_ask(&ask, run, printer);
    }
    for refused in entries("refused").unwrap_or_default() {
        print_refused(&refused, printer);
    }
}

fn print_event(event: &Value, printer: &mut Printer) {
    match text(event, "event") {
        "ask" => print_ask(event, text(event, "run"), printer),
        "refused" => print_refused(event, printer),
        "unanswered" => {
            let (host, port) = (text(event, "host"), number(event, "port"));
            printer.line(format_args!(
                "  {host}:{port} was refused: {}",
                text(event, "reason")
            ));
        }
        "answer" => {
            let verdict = match text(event, "verdict") {
                "allow" => "allowed",
                _ => "denied",
            };
            let (host, by, scope) = (text(event, "host"), text(event, "by"), text(event, "scope"));
            let reason = match text(event, "reason") {
                "" => String::new(),
                reason => format!(": {reason}"),
            };
            printer.line(format_args!(
                "  {host} was {verdict} ({scope}) by {by}{reason}"
            ));
        }
        _ => {}
    }
}

fn print_ask(ask: &Value, run: &str, printer: &mut Printer) {
    let (host, port) = (text(ask, "host"), number(ask, "port"));
    let seconds = number(ask, "waits_ms").div_ceil(1000);
    printer.line(format_args!(
        "  {host}:{port} waits for {seconds} s: trumanfs agent allow {run} {host}:{port}"
    ));
}

fn print_refused(refused: &Value, printer: &mut Printer) {
    let (host, port) = (text(refused, "host"), number(refused, "port"));
    let (rule, reason) = (text(refused, "rule"), text(refused, "reason"));
    printer.line(format_args!(
        "  {host}:{port} was refused by {rule}: {reason}"
    ));
}
