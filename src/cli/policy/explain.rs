//! `policy explain`: one command, or many as JSON lines.

use std::ffi::OsString;
use std::io::BufRead;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueHint};
use serde::Deserialize;
use serde_json::Value;

use super::verdict::ExplainedVerdict;
use crate::cli::exit::ExitReason;
use crate::cli::output::Printer;
use crate::client::Client;
use crate::error::{Error, Result, reason};
use crate::exec::program::policy::{
    self, CommandRefusal, CommandRequest, PathResolver, Policy, RefusalClass, RootPaths, TextPaths,
};

/// Where a command is taken to run where no home is named.
const NO_HOME: &[u8] = b"/home/agent";

/// Arguments of `trumanfs policy explain`.
#[derive(Args, Debug)]
pub(in crate::cli) struct ExplainArgs {
    /// The policy: a file, or a shipped one (default, development, production); else the one that is in force here
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    policy: Option<PathBuf>,
    /// The home, or a directory that stands for it; without one, paths are judged by their text alone
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    root: Option<PathBuf>,
    /// The working directory: relative to the home, or an absolute path below it
    #[arg(long, value_name = "D", conflicts_with = "batch")]
    cwd: Option<OsString>,
    /// A variable that the caller asks for
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "batch")]
    env: Vec<OsString>,
    /// The time limit that the caller asks for
    #[arg(long, value_name = "SECONDS", value_parser = crate::cli::argument_values::seconds, conflicts_with = "batch")]
    timeout: Option<Duration>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Read requests from standard input, one JSON object a line (id, command, cwd, env, timeout); answer one each
    #[arg(long, conflicts_with = "command")]
    batch: bool,
    /// The command: one word is a line, more are its words
    #[arg(last = true, required_unless_present = "batch")]
    command: Vec<OsString>,
}

/// Says what a policy says of commands.
pub(super) fn explain(args: &ExplainArgs) -> Result<ExitCode> {
    // Whoever names a policy need not name a store for it.
    let store = match (&args.policy, &args.root) {
        (None, Some(root)) => Client::open(root).ok(),
        _ => None,
    };
    let (_, policy) = policy::locate(args.policy.as_deref(), store.as_ref().map(Client::path))?;
    let judge = PolicyExplainer::new(policy, args.root.as_deref())?;
    let mut printer = Printer::new();
    if args.batch {
        judge.batch(&mut printer)?;
        return Ok(ExitReason::Ok.into());
    }
    let mut env = Vec::new();
    for pair in &args.env {
        let Some(at) = pair.as_bytes().iter().position(|b| *b == b'=') else {
            return Err(Error::usage(
                format!("--env {}: no value", pair.display()),
                "Write NAME=VALUE.",
            ));
        };
        let (name, value) = pair.as_bytes().split_at(at);
        env.push((name.to_vec(), value.get(1..).unwrap_or_default().to_vec()));
    }
    let asked = ExplainRequest {
        command: match args.command.as_slice() {
            [line] => CommandText::Line(line.as_bytes().to_vec()),
            words => CommandText::Words(words.iter().map(|word| word.clone().into_vec()).collect()),
        },
        cwd: args
            .cwd
            .as_ref()
            .map(|cwd| cwd.as_bytes().to_vec())
            .unwrap_or_default(),
        env,
        timeout: args.timeout,
    };
    let decided = judge.decide(asked);
    if args.json {
        printer.json(&decided.as_json())?
    } else {
        decided.print(&mut printer)
    }
    let exit = if decided.verdict.is_ok() {
        ExitReason::Ok
    } else {
        ExitReason::Nothing
    };
    Ok(exit.into())
}

enum CommandText {
    Line(Vec<u8>),
    Words(Vec<Vec<u8>>),
}

struct ExplainRequest {
    command: CommandText,
    cwd: Vec<u8>,
    env: Vec<(Vec<u8>, Vec<u8>)>,
    timeout: Option<Duration>,
}

/// A request of `--batch`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchRequest {
    #[serde(default)]
    id: Value,
    command: Value,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    env: Option<std::collections::BTreeMap<String, String>>,
    #[serde(default)]
    timeout: Option<f64>,
}

struct PolicyExplainer {
    policy: Policy,
    home: Vec<u8>,
    paths: Box<dyn PathResolver>,
}

impl PolicyExplainer {
    fn new(policy: Policy, root: Option<&std::path::Path>) -> Result<PolicyExplainer> {
        let Some(root) = root else {
            return Ok(PolicyExplainer {
                policy,
                home: NO_HOME.to_vec(),
                paths: Box::new(TextPaths),
            });
        };
        // Root may not look into the home of another user, but into its store.
        let is_closed = std::fs::metadata(root)
            .is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
        // A directory that stands for a home is no store.
        let store = if is_closed {
            Some(Client::open(root)?)
        } else {
            Client::open(root).ok()
        };
        let seen = store.as_ref().filter(|_| is_closed);
        let mut paths = RootPaths::open(seen.map_or(root, Client::path))?;
        if let Some(scratch) = store.as_ref().and_then(|store| store.scratch().ok()?) {
            paths = paths.with_scratch(scratch);
        }
        let home = std::fs::canonicalize(root).or_else(|_| std::path::absolute(root));
        let home = home.map_err(|error| Error::io("realpath", &error))?;
        Ok(PolicyExplainer {
            policy,
            home: home.into_os_string().into_vec(),
            paths: Box::new(paths),
        })
    }

    fn decide(&self, asked: ExplainRequest) -> ExplainedVerdict {
        let words = match asked.command {
            CommandText::Line(line) => policy::split(&line),
            CommandText::Words(words) => Ok(words),
        };
        let argv = match words {
            Ok(argv) => argv,
            Err(refused) => {
                return ExplainedVerdict {
                    argv: Vec::new(),
                    cwd: asked.cwd,
                    verdict: Err(refused),
                };
            }
        };
        let question = CommandRequest {
            argv: &argv,
            cwd: &asked.cwd,
            home: &self.home,
            env: &asked.env,
            timeout: asked.timeout,
            paths: &*self.paths,
        };
        let verdict = policy::decide(&self.policy, &question);
        ExplainedVerdict {
            argv,
            cwd: asked.cwd,
            verdict,
        }
    }

    /// Answers each line of standard input.
    fn batch(&self, printer: &mut Printer) -> Result<()> {
        for line in std::io::stdin().lock().split(b'\n') {
            let line = line.map_err(|error| Error::System {
                what: format!("standard input: {}", reason(&error)),
                remedy: "Give the requests as a file or through a pipe.".to_owned(),
            })?;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let (id, decided) = self.answer(&line);
            let mut fields = decided.as_json();
            fields.insert("id".to_owned(), id);
            printer.json(&fields)?;
            printer.flush();
        }
        Ok(())
    }

    fn answer(&self, line: &[u8]) -> (Value, ExplainedVerdict) {
        let refuse = |id: Value, reason: String| {
            let refused = CommandRefusal {
                class: RefusalClass::Words,
                rule: "request".to_owned(),
                reason,
            };
            (
                id,
                ExplainedVerdict {
                    argv: Vec::new(),
                    cwd: Vec::new(),
                    verdict: Err(refused),
                },
            )
        };
        let request: BatchRequest = match serde_json::from_slice(line) {
            Ok(request) => request,
            Err(error) => {
                let id = serde_json::from_slice::<Value>(line).ok();
                let id = id
                    .and_then(|value| value.get("id").cloned())
                    .unwrap_or_default();
                return refuse(
                    id,
                    format!("this is no request: {error}; one has id, command, cwd, env, timeout"),
                );
            }
        };
        let command = match &request.command {
            Value::String(line) => Some(CommandText::Line(line.clone().into_bytes())),
            Value::Array(words) => {
                let words = words
                    .iter()
                    .map(|word| word.as_str().map(|word| word.as_bytes().to_vec()));
                words.collect::<Option<Vec<_>>>().map(CommandText::Words)
            }
            _ => None,
        };
        let Some(command) = command else {
            return refuse(
                request.id,
                "the command is a line or a list of words".to_owned(),
            );
        };
        let timeout = match request.timeout.map(Duration::try_from_secs_f64) {
            None => None,
            Some(Ok(timeout)) => Some(timeout),
            Some(Err(error)) => {
                return refuse(
                    request.id,
                    format!("the timeout is no number of seconds: {error}"),
                );
            }
        };
        let env = request.env.unwrap_or_default().into_iter();
        let asked = ExplainRequest {
            command,
            cwd: request.cwd.unwrap_or_default().into_bytes(),
            env: env
                .map(|(name, value)| (name.into_bytes(), value.into_bytes()))
                .collect(),
            timeout,
        };
        (request.id, self.decide(asked))
    }
}
