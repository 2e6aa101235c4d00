//! The arguments of tools: their shapes are what a client is shown, and what is read from it.

use rmcp::model::JsonObject;
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::resources::OutputStream;

/// The name of the argument that every tool takes besides its own.
const SESSION: &str = "session";
/// What a client is told of it.
const SESSION_WORDS: &str = "From an earlier answer.";

/// A line of the shell.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BashArgs {
    /// The line, or several.
    pub(super) command: String,
    /// Seconds until it is ended (600).
    #[schemars(range(min = 1, max = 3600))]
    pub(super) timeout: Option<f64>,
}

/// Lines of a file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadTextFileArgs {
    #[serde(alias = "file_path")]
    pub(super) path: String,
    /// So many first lines.
    pub(super) head: Option<u64>,
    /// So many last lines.
    pub(super) tail: Option<u64>,
    /// From this line on, counted from 1.
    pub(super) offset: Option<u64>,
    /// So many lines from `offset` on.
    pub(super) limit: Option<u64>,
}

/// A file and what it is to hold.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFileArgs {
    #[serde(alias = "file_path")]
    pub(super) path: String,
    pub(super) content: String,
}

/// One replacement.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TextEdit {
    #[serde(rename = "oldText", alias = "old_string")]
    pub(super) old: String,
    #[serde(rename = "newText", alias = "new_string")]
    pub(super) new: String,
    #[serde(default)]
    pub(super) replace_all: bool,
}

/// Replacements in a file: `edits`, or `old_string` and `new_string`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditFileArgs {
    #[serde(alias = "file_path")]
    pub(super) path: String,
    /// Several replacements, in turn.
    pub(super) edits: Option<Vec<TextEdit>>,
    pub(super) old_string: Option<String>,
    pub(super) new_string: Option<String>,
    #[serde(default)]
    pub(super) replace_all: bool,
    /// Write nothing, show the difference.
    #[serde(default, rename = "dryRun", alias = "dry_run")]
    pub(super) dry_run: bool,
}

/// A path.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PathArgs {
    pub(super) path: String,
}

/// A directory.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DirectoryArgs {
    /// The working directory without it.
    #[serde(default = "here")]
    pub(super) path: String,
}

/// From where to where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TransferArgs {
    pub(super) source: String,
    pub(super) destination: String,
}

/// A search for names.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchFilesArgs {
    /// The working directory without it.
    #[serde(default = "here")]
    pub(super) path: String,
    /// Of names, as `*.py`; with a slash, of paths.
    pub(super) pattern: String,
    /// Names that are left out, with all below them.
    #[serde(default, rename = "excludePatterns", alias = "exclude")]
    pub(super) exclude: Vec<String>,
}

/// A search for lines.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GrepArgs {
    pub(super) pattern: String,
    /// A file or a directory.
    #[serde(default = "here")]
    pub(super) path: String,
    /// Only files of such names, as `*.py`.
    #[serde(alias = "include")]
    pub(super) glob: Option<String>,
    #[serde(default, alias = "-i")]
    pub(super) ignore_case: bool,
    /// Lines around each.
    #[serde(default, alias = "-C")]
    pub(super) context: u32,
    /// content (the lines) without it.
    #[serde(default)]
    pub(super) output_mode: GrepOutput,
}

/// What the answer has: lines, names of files, or how many lines each file has.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum GrepOutput {
    #[default]
    Content,
    FilesWithMatches,
    Count,
}

/// How far back.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryArgs {
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 200))]
    pub(super) limit: usize,
}

/// What to take back.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoToolArgs {
    /// The last one without it.
    pub(super) run: Option<String>,
    /// Only this path.
    pub(super) path: Option<String>,
    /// Change nothing, say what would be done.
    #[serde(default, rename = "dryRun", alias = "dry_run")]
    pub(super) dry_run: bool,
}

/// A call that goes on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobOutputArgs {
    /// A job, or a run whose answer was cut.
    #[serde(alias = "run")]
    pub(super) job: String,
    /// Seconds to wait for the job's end (0).
    #[serde(default)]
    #[schemars(range(min = 0, max = 45))]
    pub(super) wait: f64,
    /// Read from this byte on, not what is new.
    pub(super) offset: Option<u64>,
    /// The stream that `offset` is of.
    #[serde(default)]
    pub(super) stream: OutputStream,
}

/// A call that is to end.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobKillArgs {
    pub(super) job: String,
}

/// A real program.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunProgramArgs {
    /// Words; no shell reads them.
    #[serde(default)]
    pub(super) args: Vec<String>,
    pub(super) cwd: Option<String>,
    /// Its standard input.
    #[serde(default)]
    pub(super) stdin: String,
    /// Seconds until it is ended, if the policy gives it longer.
    #[schemars(range(min = 1, max = 3600))]
    pub(super) timeout: Option<f64>,
}

fn here() -> String {
    ".".to_owned()
}

fn twenty() -> usize {
    20
}

/// Returns the schema of a tool's arguments, with the session.
pub(super) fn schema<T: JsonSchema>() -> JsonObject {
    let schema = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<T>();
    let mut schema = match schema.to_value() {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    schema.remove("description");
    shorten(&mut schema);
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        properties.insert(
            SESSION.to_owned(),
            json!({"type": "string", "description": SESSION_WORDS}),
        );
    }
    schema
}

/// Takes out of a schema what a model need not read: what is said elsewhere, and what only a type of Rust means.
fn shorten(schema: &mut JsonObject) {
    for name in [
        "$schema",
        "title",
        "format",
        "additionalProperties",
        "default",
    ] {
        schema.remove(name);
    }
    if let Some(Value::Array(kinds)) = schema.get("oneOf") {
        let names: Option<Vec<Value>> = kinds
            .iter()
            .map(|kind| kind.get("const").cloned())
            .collect();
        if let Some(names) = names {
            schema.remove("oneOf");
            schema.insert("type".to_owned(), "string".into());
            schema.insert("enum".to_owned(), Value::Array(names));
        }
    }
    if schema.get("minimum").and_then(Value::as_f64) == Some(0.0) {
        schema.remove("minimum");
    }
    // An argument that may be left out need not be null.
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|of| of != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    for name in ["items", "properties"] {
        match (name, schema.get_mut(name)) {
            ("items", Some(Value::Object(items))) => {
                items.remove("description");
                shorten(items);
            }
            ("properties", Some(Value::Object(properties))) => {
                for property in properties.values_mut().filter_map(Value::as_object_mut) {
                    shorten(property);
                }
            }
            _ => {}
        }
    }
}

/// Takes the session out of arguments.
///
/// # Errors
/// What is wrong with it.
pub(super) fn session(arguments: &mut JsonObject) -> Result<Option<String>, String> {
    match arguments.remove(SESSION) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(session)) => Ok(Some(session)),
        Some(_) => Err("session: it is a text".to_owned()),
    }
}

/// Reads the arguments of a tool.
///
/// # Errors
/// What is wrong with them.
pub(super) fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| format!("arguments: {error}"))
}
