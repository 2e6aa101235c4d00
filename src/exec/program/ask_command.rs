//! [`AskCommand`]: a command of the user's that is asked about a host: one object of JSON comes by its standard input, and
//! one goes out by its standard output.
//!
//! It runs beside the agent, as the user and outside the sandbox; no byte of the agent's is among its words.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde::Deserialize;
use serde_json::Value;

use super::network::{AnswerScope, HostVerdict};

/// The longest answer, in bytes.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// A command that is asked.
#[derive(Debug, Clone)]
pub(super) struct AskCommand {
    /// The command, for `sh -c`.
    pub(super) command: OsString,
    /// True if it may write to the standard error of this process.
    pub(super) shows_errors: bool,
}

/// The verdict of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommandVerdict {
    /// Nothing: that is left to whoever watches.
    pub(super) verdict: Option<HostVerdict>,
    pub(super) reason: Option<String>,
    pub(super) scope: AnswerScope,
}

/// The object that a command writes.
#[derive(Deserialize)]
struct VerdictText {
    verdict: String,
    reason: Option<String>,
    scope: Option<String>,
}

impl AskCommand {
    /// Asks. What was started is killed at this time, when `stop` is closed, and where it fails.
    ///
    /// # Errors
    /// The command gave no verdict, and why.
    pub(super) fn ask(
        &self,
        question: &Value,
        until: Instant,
        stop: &impl AsFd,
    ) -> Result<CommandVerdict, String> {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(&self.command).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if !self.shows_errors {
            command.stderr(Stdio::null());
        }
        let mut child = command
            .spawn()
            .map_err(|error| format!("it cannot be started: {error}"))?;
        let asked = converse(&mut child, question, until, stop);
        if asked.is_err()
            && let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
        {
            // Not yet waited for, so the number is still its own.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let ended = child.wait().map_err(|error| error.to_string())?;
        let text = asked?;
        if !ended.success() {
            return Err(ended.to_string());
        }
        read_verdict(&text)
    }
}

/// Hands over the question, and returns all that is answered, once the command has ended.
fn converse(
    child: &mut Child,
    question: &Value,
    until: Instant,
    stop: &impl AsFd,
) -> Result<Vec<u8>, String> {
    if let Some(mut stdin) = child.stdin.take() {
        // One that does not read has decided without. The question is shorter than a pipe, so this does not wait.
        let _ = stdin.write_all(format!("{question}\n").as_bytes());
    }
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or("it has no process")?;
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| errno.to_string())?;
    let mut stdout = child.stdout.take().ok_or("it has no output")?;
    let (mut text, mut chunk) = (Vec::new(), [0; 4096]);
    // What it leaves behind may hold its output open: its own end is what counts.
    while wait_for(&stdout, &process, until, stop)? {
        let len = stdout.read(&mut chunk).map_err(|error| error.to_string())?;
        text.extend(chunk.get(..len).unwrap_or_default());
        if text.len() > MAX_ANSWER_BYTES {
            return Err("its answer is too long".to_owned());
        }
        if len == 0 {
            wait_for(&process, &process, until, stop)?;
            break;
        }
    }
    Ok(text)
}

/// Waits until there is something to read, or the process has ended. Returns whether there is something.
fn wait_for(
    output: &impl AsFd,
    process: &impl AsFd,
    until: Instant,
    stop: &impl AsFd,
) -> Result<bool, String> {
    let mut fds = [output.as_fd(), process.as_fd(), stop.as_fd()]
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let ready = rustix::io::retry_on_intr(|| {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or_default();
        rustix::event::poll(&mut fds, Some(&left))
    });
    let [output, _, stopped] = &fds;
    match ready {
        Ok(0) => Err("its time is up".to_owned()),
        Ok(_) if stopped.revents().is_empty() => Ok(!output.revents().is_empty()),
        Ok(_) => Err("the agent has ended".to_owned()),
        Err(errno) => Err(errno.to_string()),
    }
}

fn read_verdict(text: &[u8]) -> Result<CommandVerdict, String> {
    let shape = r#"write one object, as in {"verdict": "deny", "reason": "use the mirror"}"#;
    let read: VerdictText =
        serde_json::from_slice(text).map_err(|error| format!("{error}; {shape}"))?;
    let verdict = match &*read.verdict {
        "allow" => Some(HostVerdict::Allow),
        "deny" => Some(HostVerdict::Deny),
        "ask" => None,
        other => return Err(format!("{other:?} is no verdict; allow, deny and ask are")),
    };
    let scope = match read.scope.as_deref() {
        Some("once") => AnswerScope::Once,
        None | Some("run") => AnswerScope::Run,
        Some(other) => return Err(format!("{other:?} is no scope; once and run are")),
    };
    Ok(CommandVerdict {
        verdict,
        reason: read.reason,
        scope,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn command_counts_once_it_has_ended() {
        let (stop, _hold) = rustix::pipe::pipe().unwrap();
        let ask = |command: &str, millis: u64| {
            let until = Instant::now() + std::time::Duration::from_millis(millis);
            let command = AskCommand {
                command: command.into(),
                shows_errors: false,
            };
            command.ask(&serde_json::json!({ "host": "a.example" }), until, &stop)
        };
        let deny = "echo '{\"verdict\": \"deny\"}'";
        // One that reads nothing, and one that leaves something behind with its output open.
        for command in [
            deny,
            &format!("sleep 60 & {deny}"),
            &format!("exec 3>&1; cat >&2; {deny}; exec 1>&- 3>&-"),
        ] {
            assert!(ask(command, 60_000).is_ok(), "{command}");
        }
        for (command, millis, why) in [
            ("sleep 60", 10, "its time is up"),
            ("exec >&-; sleep 60", 10, "its time is up"),
            ("exit 3", 60_000, "exit status: 3"),
            (&format!("{deny}; exit 1"), 60_000, "exit status: 1"),
            ("yes", 60_000, "its answer is too long"),
            ("true", 60_000, "EOF while parsing"),
        ] {
            let failed = ask(command, millis).unwrap_err();
            assert!(failed.contains(why), "{command}: {failed}");
        }
    }

    #[test]
    fn verdict_is_one_object() {
        let read = |text: &str| read_verdict(text.as_bytes());
        let denied = read("{\"verdict\": \"deny\", \"reason\": \"no\", \"more\": 1}\n").unwrap();
        assert_eq!(denied.verdict, Some(HostVerdict::Deny));
        assert_eq!(
            (denied.reason.as_deref(), denied.scope),
            (Some("no"), AnswerScope::Run)
        );
        let once = read(r#"{"verdict": "allow", "scope": "once"}"#).unwrap();
        assert_eq!(
            (once.verdict, once.scope),
            (Some(HostVerdict::Allow), AnswerScope::Once)
        );
        assert_eq!(read(r#"{"verdict": "ask"}"#).unwrap().verdict, None);
        for wrong in [
            "",
            "allow",
            "{}",
            r#"{"verdict": "Allow"}"#,
            r#"{"verdict": true}"#,
            r#"{"verdict": "allow", "scope": "always"}"#,
            r#"{"verdict": "allow"} {"verdict": "allow"}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
