//! The shapes of results whose content is more than a text: what a client is shown of their structured content.
//!
//! Every property may be absent: a call that fails says why in `text`, and one that goes on as a job has the job's properties.
//! A property that is there has the type that stands here; clients check that.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

/// Returns the schema of an object with these properties, each by its name and its type, besides those of all results.
fn schema(own: &[(&str, &str)]) -> JsonObject {
    let all = [("session", "string"), ("run", "string")];
    let of = |(name, of): &(&str, &str)| ((*name).to_owned(), json!({"type": of}));
    let properties: JsonObject = all.iter().chain(own).map(of).collect();
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema
}

/// Returns the schema of the result of a line, or of a program.
pub(super) fn of_run() -> JsonObject {
    schema(&[
        ("status", "string"),
        ("return_code", "integer"),
        ("stdout", "string"),
        ("stderr", "string"),
        ("truncated_stdout", "boolean"),
        ("truncated_stderr", "boolean"),
        ("changed", "boolean"),
        ("cwd", "string"),
        ("warnings", "array"),
        ("notes", "array"),
        ("job", "string"),
    ])
}

/// Returns the schema of the entries of a directory.
pub(super) fn of_list() -> JsonObject {
    schema(&[("entries", "array"), ("truncated", "boolean")])
}

/// Returns the schema of a list of runs.
pub(super) fn of_history() -> JsonObject {
    schema(&[("runs", "array")])
}

/// Returns the schema of the result of an undo.
pub(super) fn of_undo() -> JsonObject {
    schema(&[("undone", "string"), ("report", "object")])
}

/// Returns the schema of the output of a job.
pub(super) fn of_job() -> JsonObject {
    schema(&[
        ("job", "string"),
        ("running", "boolean"),
        ("stdout", "string"),
        ("stderr", "string"),
        ("next_offset", "integer"),
        ("total", "integer"),
    ])
}
