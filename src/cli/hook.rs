//! `hook`: the answer to an event of an agent.
//!
//! An agent makes the call as it was where its hook ends with anything but an answer. So whatever goes wrong here is an
//! answer, too: arguments that are not understood, an event that does not end, a home that does not answer.

use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use parking_lot::Mutex;
use serde_json::Value;

use super::execute::with_policy;
use super::exit::{ExitReason, from_clap};
use super::output::Printer;
use super::system_shell::system_shell;
use crate::error::Result;
use crate::exec::program::ProgramHome;
use crate::exec::program::policy::shipped_names;
use crate::serve::hook::{AgentKind, HookSettings, answer, refusal};

/// The verb, as it is typed.
pub(super) const VERB: &str = "hook";

/// The option of the process that decides.
const DECIDE_OPTION: &str = "decides";

/// The longest event, in bytes.
const MAX_EVENT_BYTES: u64 = 32 << 20;

/// The time limits for an event to arrive and for its decision: together less than agents wait for a hook.
const EVENT_LIMIT: Duration = Duration::from_secs(5);
const DECISION_LIMIT: Duration = Duration::from_secs(10);

/// The agent whose hooks are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HookAgent {
    /// Claude Code
    ClaudeCode,
    /// Codex
    Codex,
}

/// Arguments of `trumanfs hook`.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Reads one PreToolUse event on standard input and writes the decision. A line of the agent's shell is rewritten to run in\n\
the home; what lies outside the home is denied as absent. It ends with 0 whatever it is asked, and what goes wrong is a denial:\n\
arguments that are not understood, an event that has not ended after 5 seconds, a home that does not answer within 10."
)]
pub(super) struct HookArgs {
    /// Whose events they are
    #[arg(value_enum)]
    agent: HookAgent,
    /// The home, or the store [default: $TRUMANFS_ROOT, $CLAUDE_PROJECT_DIR, the agent's working directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    root: Option<PathBuf>,
    /// The shell that runs lines: `bundled`, or one of this machine (`bash`, a path) in a sandbox, which no policy and no
    /// word of a line keeps from running [default: bundled]
    #[arg(long, value_name = "SHELL", conflicts_with = "policy")]
    shell: Option<OsString>,
    /// Let lines run the real programs that this policy allows (a file, or `default`), each in a sandbox
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    policy: Option<PathBuf>,
    /// Let lines that change something in the home run without asking a person, but in plan mode (claude-code only)
    #[arg(long)]
    allow: bool,
    /// This is the process that decides, which a hook starts
    #[arg(long = DECIDE_OPTION, hide = true)]
    decides: bool,
}

/// Answers the event on standard input.
pub(super) fn hook(args: &HookArgs) -> Result<ExitReason> {
    let event = read_event();
    let answer = if args.decides {
        decide(args, &event)
    } else {
        decide_in_process(event).unwrap_or_else(|why| refusal(&format!("trumanfs: {why}")))
    };
    Printer::new().json(&answer)?;
    Ok(ExitReason::Ok)
}

/// Has a process decide about an event, this program with the same arguments, and returns its answer, or why there is
/// none.
///
/// A home whose daemon hangs keeps whoever looks at it. No signal ends such a process, nor one that has such a thread:
/// this one, which an agent waits for, never looks at a home.
fn decide_in_process(event: Vec<u8>) -> std::result::Result<Value, String> {
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let verb = words.iter().position(|word| word == VERB);
    words.insert(
        verb.map_or(0, |at| at + 1),
        format!("--{DECIDE_OPTION}").into(),
    );
    let started = Command::new("/proc/self/exe")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // An agent may wait until nobody holds what it reads from any more.
        .stderr(Stdio::null())
        .spawn();
    let mut child = started.map_err(|error| crate::error::reason(&error))?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let (done, decided) = channel();
    let talk = move || {
        let mut answer = Vec::new();
        // What was not taken was not decided about, and shows in the answer.
        let _ = input.map(|mut input| input.write_all(&event));
        let _ = output.map(|mut output| output.read_to_end(&mut answer));
        let _ = done.send(answer);
    };
    let talks = std::thread::Builder::new().spawn(talk);
    talks.map_err(|error| crate::error::reason(&error))?;
    match decided.recv_timeout(DECISION_LIMIT) {
        Ok(answer) => {
            serde_json::from_slice(&answer).map_err(|_| "the decision broke off".to_owned())
        }
        Err(_) => {
            let _ = child.kill();
            let limit = DECISION_LIMIT.as_secs();
            Err(format!(
                "the home does not answer: nothing was decided within {limit} s"
            ))
        }
    }
}

/// Answers an event where the command line is not understood: with what is wrong with it, which is no reason to let the
/// call pass.
pub(super) fn answer_mistyped(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if !std::io::stdin().is_terminal() {
        // An agent may take a hook for failed that does not read its event.
        read_event();
    }
    let (why, _) = from_clap(error).into_words();
    let printed = Printer::new().json(&refusal(&format!("trumanfs {VERB}: {why}")));
    match printed {
        Ok(()) => ExitReason::Ok.into(),
        // Agents block the call at this status.
        Err(_) => ExitReason::Usage.into(),
    }
}

/// Reads the event, as much of it as comes in time.
fn read_event() -> Vec<u8> {
    let read = Arc::new(Mutex::new(Vec::new()));
    let (done, ended) = channel::<()>();
    let into = read.clone();
    let reader = move || {
        let mut from = std::io::stdin().take(MAX_EVENT_BYTES);
        let mut chunk = vec![0; 64 << 10];
        // What cannot be read to its end is no event, and is denied as one that is not understood.
        while let Ok(length @ 1..) = from.read(&mut chunk) {
            let chunk = chunk.get(..length).unwrap_or_default();
            into.lock().extend_from_slice(chunk);
        }
        drop(done);
    };
    if std::thread::Builder::new().spawn(reader).is_ok() {
        let _ = ended.recv_timeout(EVENT_LIMIT);
    }
    // A writer that keeps the pipe open may have written all of it.
    std::mem::take(&mut *read.lock())
}

/// Decides about an event.
fn decide(args: &HookArgs, event: &[u8]) -> Value {
    let format = match args.agent {
        HookAgent::ClaudeCode => AgentKind::ClaudeCode,
        HookAgent::Codex => AgentKind::Codex,
    };
    if args.allow && format == AgentKind::Codex {
        return refusal(
            "trumanfs hook codex: --allow is for claude-code; Codex asks by its own approval policy",
        );
    }
    let from_env = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let root = args.root.clone().or_else(|| {
        let named = from_env("TRUMANFS_ROOT").or_else(|| from_env("CLAUDE_PROJECT_DIR"));
        named.map(PathBuf::from)
    });
    let mut setting = HookSettings {
        program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("trumanfs")),
        root,
        shell: system_shell(args.shell.as_ref()),
        allows: args.allow,
        ..HookSettings::default()
    };
    if let Some(file) = &args.policy {
        let root = setting.root.as_deref().unwrap_or(Path::new("."));
        // Whoever runs the line may work elsewhere, and a file of that name may lie there.
        let name = if shipped_names().any(|name| Path::new(name) == file) {
            file.clone()
        } else {
            std::path::absolute(file).unwrap_or_else(|_| file.clone())
        };
        let located = ProgramHome::is_for(root)
            .and_then(|()| with_policy::watched_policy(Some(file), root, false));
        match located {
            Ok(watched) => setting.policy = Some((name, watched.current().0)),
            Err(error) => setting.problem = Some(error),
        }
    }
    answer(event, format, &setting)
}
