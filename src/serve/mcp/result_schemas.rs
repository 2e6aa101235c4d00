//! The shapes of results: what a client is shown of the structured content of each tool.
//!
//! Every property may be absent: a call that fails says why in `text`, and one that goes on as a job has the job's properties.
//! A property that is there has the type that stands here; clients check that.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

/// Returns the schema of an object that has these properties besides those of all results.
fn schema(own: Value) -> JsonObject {
    let text = |what: &str| json!({"type": "string", "description": what});
    let mut properties = JsonObject::new();
    for (name, of) in [
        ("session", text("The session that the call belongs to")),
        ("text", text("The text, where no other property has it")),
        ("run", text("The id of the run, for undo")),
        ("status", text("How it ended, in a word")),
        (
            "job",
            text("The job that the call goes on as, for bash_output"),
        ),
        ("running", json!({"type": "boolean"})),
        ("stdout", json!({"type": "string"})),
        ("stderr", json!({"type": "string"})),
    ] {
        properties.insert(name.to_owned(), of);
    }
    if let Value::Object(own) = own {
        properties.extend(own);
    }
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties.into());
    schema
}

/// A line, or a program.
pub(super) fn of_run() -> JsonObject {
    schema(json!({
        "return_code": {"type": "integer"},
        "truncated_stdout": {"type": "boolean"},
        "truncated_stderr": {"type": "boolean"},
        "duration_ms": {"type": "integer"},
        "changed": {"type": "boolean", "description": "Whether anything in the home was changed, or opened to be"},
        "cwd": {"type": "string", "description": "The working directory after it"},
        "error_message": {"type": "string", "description": "Why it was refused or ended early"},
        "warnings": {"type": "array", "items": {"type": "string"}},
    }))
}

/// A change without more to say.
pub(super) fn of_change() -> JsonObject {
    schema(json!({}))
}

/// Lines of a file.
pub(super) fn of_read() -> JsonObject {
    schema(json!({
        "truncated": {"type": "boolean"},
        "first_line": {"type": ["integer", "null"], "description": "The number of the first line, where it is known"},
        "size": {"type": "integer", "description": "The size of the file, in bytes"},
    }))
}

/// A file that was written.
pub(super) fn of_write() -> JsonObject {
    schema(json!({
        "bytes": {"type": "integer"},
        "created": {"type": "boolean"},
    }))
}

/// A file that was edited.
pub(super) fn of_edit() -> JsonObject {
    schema(json!({
        "diff": {"type": "string"},
        "replaced": {"type": "integer", "description": "In how many places"},
        "written": {"type": "boolean"},
    }))
}

/// A directory.
pub(super) fn of_list() -> JsonObject {
    schema(json!({
        "truncated": {"type": "boolean"},
        "entries": {
            "type": "array",
            "description": "The first thousand",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "kind": {"enum": ["file", "directory", "other"]},
                    "size": {"type": "integer"},
                },
                "required": ["name", "kind"],
            },
        },
    }))
}

/// Returns the schema of the result of a removal.
pub(super) fn of_remove() -> JsonObject {
    schema(json!({
        "trash": {"type": ["string", "null"], "description": "Where it lies now"},
    }))
}

/// Runs.
pub(super) fn of_history() -> JsonObject {
    schema(json!({
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "run": {"type": "string"},
                    "kind": {"type": "string"},
                    "command": {"type": "string"},
                    "first": {"type": "string"},
                    "last": {"type": "string"},
                    "changes": {"type": "array", "items": {"type": "string"}},
                    "changed": {"type": "integer"},
                },
                "required": ["run", "kind", "command", "first", "last", "changes", "changed"],
            },
        },
    }))
}

/// Returns the schema of the result of an undo.
pub(super) fn of_undo() -> JsonObject {
    schema(json!({
        "undone": {"type": "string", "description": "The run that was taken back"},
        "report": {"type": "object"},
    }))
}

/// A job.
pub(super) fn of_job() -> JsonObject {
    schema(json!({
        "tool": {"type": "string"},
        "session_of_job": {"type": "string"},
        "result": {"type": ["object", "null"], "description": "What the call came to, once it has ended"},
    }))
}
