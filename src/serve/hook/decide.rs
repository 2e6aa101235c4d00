//! From an event to its answer.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::event::{Call, Event, Format};
use super::place::{Ground, Setting};
use crate::exec::quote;

/// How many bytes of a line's output leave: what models are shown of it.
const OUTPUT: &str = "30000";

/// How long a word may be that a program is started with, in bytes (MAX_ARG_STRLEN, execve(2)).
const LONGEST: usize = 128 << 10;

/// Answers an event. Nothing fails: what is not understood is denied, because a hook without an answer lets the call pass.
pub fn answer(event: &[u8], format: Format, setting: &Setting) -> Value {
    let event: Event = match serde_json::from_slice(event) {
        Ok(event) => event,
        Err(error) => return deny(&format!("trumanfs does not understand this event: {error}")),
    };
    if !event.is_before() {
        return nothing();
    }
    let cwd = Path::new(&event.cwd);
    match event.call(format) {
        Call::Other => nothing(),
        Call::Strange(what) => deny(&what),
        call => match Ground::open(setting, cwd) {
            Err(error) => deny(&error.told()),
            Ok(ground) => decide(&event, call, &ground, setting),
        },
    }
}

fn decide(event: &Event, call: Call, ground: &Ground, setting: &Setting) -> Value {
    let cwd = Path::new(&event.cwd);
    let (paths, writes) = match call {
        Call::Line(name, line) => return line_in_home(event, (name, &line), ground, setting),
        Call::Reads(paths) => (paths, false),
        Call::Writes(paths) => (paths, true),
        Call::Other | Call::Strange(_) => return nothing(),
    };
    for path in &paths {
        if path.contains('\0') || !ground.has(cwd, path) {
            return deny(&format!("{path}: No such file or directory"));
        }
    }
    if writes && !ground.is_home() {
        let root = ground.root.display();
        return deny(&format!(
            "{root} is not mounted, so what is overwritten there would be lost. Mount it (trumanfs mount STORE {root}), or use \
             the shell, which works in it as it is."
        ));
    }
    nothing()
}

/// Has a line run in the home.
fn line_in_home(
    event: &Event,
    (name, line): (&'static str, &str),
    ground: &Ground,
    setting: &Setting,
) -> Value {
    if line.contains('\0') {
        return deny("bash: a line has no NUL");
    }
    let policy = setting.policy.as_ref();
    if let Some(why) = ground.refusal(line, policy.map(|(_, policy)| policy)) {
        return deny(&why);
    }
    let directory = ground.directory(Path::new(&event.cwd));
    let mut words: Vec<&[u8]> = vec![setting.program.as_os_str().as_bytes(), b"exec", b"--root"];
    words.push(ground.root.as_os_str().as_bytes());
    words.extend([&b"--cwd"[..], directory.as_os_str().as_bytes()]);
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
        return deny("the path of the home is no UTF-8, which a call cannot have");
    };
    if rewritten.len() >= LONGEST {
        return deny(
            "bash: the line is too long for a program to be started with it; write it to a file in parts",
        );
    }
    // Everything else of the call stays: what is not in `updatedInput` would be gone.
    let mut input: Map<String, Value> = event.tool_input.clone();
    input.insert(name.to_owned(), rewritten.into());
    json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "updatedInput": input,
    } })
}

fn deny(why: &str) -> Value {
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
