//! From an event to its answer.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::event::{AgentKind, CallPath, HookEvent, ToolCall};
use super::hook_home::{HookHome, HookSettings};
use super::permission;
use crate::exec::quote;

/// The number of bytes of a line's output that leave: models are shown this much of it.
const OUTPUT: &str = "30000";

/// The limit of the length of a word that a program is started with, in bytes (MAX_ARG_STRLEN, execve(2)).
const MAX_WORD_BYTES: usize = 128 << 10;

/// Answers an event. Nothing fails: what is not understood is denied, because a hook without an answer lets the call pass.
pub fn answer(event: &[u8], format: AgentKind, setting: &HookSettings) -> Value {
    let event: HookEvent = match serde_json::from_slice(event) {
        Ok(event) => event,
        Err(error) => return refusal(&format!("trumanfs does not understand this event: {error}")),
    };
    if let Some(defect) = event.defect() {
        return refusal(&format!(
            "trumanfs does not understand this event: {defect}"
        ));
    }
    if !event.is_before() {
        return nothing();
    }
    let cwd = Path::new(&event.cwd);
    match event.call(format) {
        ToolCall::Other => nothing(),
        ToolCall::Strange(what) => refusal(&what),
        call => match HookHome::open(setting, cwd) {
            Err(error) => refusal(&error.full_message()),
            Ok(ground) => decide(&event, format, call, &ground, setting),
        },
    }
}

fn decide(
    event: &HookEvent,
    format: AgentKind,
    call: ToolCall,
    ground: &HookHome,
    setting: &HookSettings,
) -> Value {
    let cwd = Path::new(&event.cwd);
    let (paths, writes) = match call {
        ToolCall::Line(name, line) => {
            return line_in_home(event, format, (name, &line), ground, setting);
        }
        ToolCall::Reads(paths) => (paths, false),
        ToolCall::Writes(paths) => (paths, true),
        ToolCall::Other | ToolCall::Strange(_) => return nothing(),
    };
    for CallPath { typed, leads } in &paths {
        let is_there = |path: &String| !path.contains('\0') && ground.has(cwd, path);
        if !leads.as_ref().is_some_and(is_there) {
            return refusal(&format!("{typed}: No such file or directory"));
        }
    }
    if writes && !ground.is_home() {
        let root = ground.root.display();
        return refusal(&format!(
            "{root} is not mounted, so what is overwritten there would be lost. Mount it (trumanfs mount STORE {root}), or use \
             the shell, which works in it as it is."
        ));
    }
    nothing()
}

/// Has a line run in the home.
fn line_in_home(
    event: &HookEvent,
    format: AgentKind,
    (name, line): (&'static str, &str),
    ground: &HookHome,
    setting: &HookSettings,
) -> Value {
    if line.contains('\0') {
        return refusal("bash: a line has no NUL");
    }
    let policy = setting.policy.as_ref();
    let directory = ground.directory(Path::new(&event.cwd));
    let foreseen = match setting.shell {
        Some(_) => Ok(ground.foresee_in_system_shell(line, &directory)),
        None => ground.foresee(line, policy.map(|(_, policy)| policy), &directory),
    };
    let foresight = match foreseen {
        Ok(foresight) => foresight,
        Err(why) => return refusal(&why),
    };
    let mut words: Vec<&[u8]> = vec![setting.program.as_os_str().as_bytes(), b"exec", b"--root"];
    words.push(ground.root.as_os_str().as_bytes());
    words.extend([&b"--cwd"[..], directory.as_os_str().as_bytes()]);
    if let Some(shell) = &setting.shell {
        words.extend([&b"--shell"[..], shell.as_os_str().as_bytes()]);
    }
    if let Some((file, _)) = policy {
        words.extend([&b"--policy"[..], file.as_os_str().as_bytes()]);
    }
    words.extend([
        &b"--max-lines"[..],
        b"0",
        b"--max-bytes",
        OUTPUT.as_bytes(),
        b"--tail",
        b"--",
    ]);
    words.push(line.as_bytes());
    let words: Vec<Vec<u8>> = words.into_iter().map(<[u8]>::to_vec).collect();
    let Ok(rewritten) = String::from_utf8(quote::line(&words)) else {
        return refusal("the path of the home is no UTF-8, which a call cannot have");
    };
    if rewritten.len() >= MAX_WORD_BYTES {
        return refusal(
            "bash: the line is too long for a program to be started with it; write it to a file in parts",
        );
    }
    // Everything else of the call stays: what is not in `updatedInput` would be gone.
    let mut input: Map<String, Value> = event.tool_input.clone();
    input.insert(name.to_owned(), rewritten.into());
    json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": permission::of(format, &event.permission_mode, &foresight, setting.allows).name(),
        "updatedInput": input,
    } })
}

/// Denies a call, and says why.
pub fn refusal(why: &str) -> Value {
    json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": why,
    } })
}

/// Leaves a call as it is.
fn nothing() -> Value {
    json!({})
}
