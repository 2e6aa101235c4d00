//! `hook`: the answer to an event of an agent.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::execute::with_policy;
use super::exit::Exit;
use super::output::Printer;
use crate::error::Result;
use crate::serve::hook::{Format, Setting, answer};

/// How long an event may be, in bytes.
const LONGEST: u64 = 32 << 20;

/// Whose hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Agent {
    /// Claude Code
    ClaudeCode,
    /// Codex
    Codex,
}

/// What `trumanfs hook` takes.
#[derive(Args, Debug)]
#[command(
    after_help = "Reads one PreToolUse event on standard input and writes the decision; ends with 0 whatever it is. A line of the\n\
agent's shell is rewritten to run in the home; what lies outside the home is denied as absent.\n\n\
Example: trumanfs hook claude-code --root /home/agent < event.json"
)]
pub(super) struct HookArgs {
    /// Whose events they are
    #[arg(value_enum)]
    agent: Agent,
    /// The home, or the store [default: $TRUMANFS_ROOT, $CLAUDE_PROJECT_DIR, the agent's working directory]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Let lines run the real programs that this policy allows (a file, or `default`), each in a sandbox
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// Answers the event on standard input.
pub(super) fn hook(args: &HookArgs) -> Result<Exit> {
    let mut event = Vec::new();
    let read = std::io::stdin().take(LONGEST).read_to_end(&mut event);
    if read.is_err() {
        // What was read is no event, and is denied as one that is not understood.
        event.clear();
    }
    let format = match args.agent {
        Agent::ClaudeCode => Format::ClaudeCode,
        Agent::Codex => Format::Codex,
    };
    let from_env = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let root = args.root.clone().or_else(|| {
        let named = from_env("TRUMANFS_ROOT").or_else(|| from_env("CLAUDE_PROJECT_DIR"));
        named.map(PathBuf::from)
    });
    let mut setting = Setting {
        program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("trumanfs")),
        root,
        ..Setting::default()
    };
    if let Some(file) = &args.policy {
        let root = setting.root.as_deref().unwrap_or(Path::new("."));
        // Whoever runs the line may work elsewhere.
        let name = match file.components().count() {
            1 => file.clone(),
            _ => std::path::absolute(file).unwrap_or_else(|_| file.clone()),
        };
        match with_policy::policy(Some(file), root) {
            Ok(watched) => setting.policy = Some((name, watched.current().0)),
            // A hook that fails lets the call pass: this is part of the answer.
            Err(error) => setting.problem = Some(error),
        }
    }
    Printer::new().json(&answer(&event, format, &setting))?;
    Ok(Exit::Ok)
}
