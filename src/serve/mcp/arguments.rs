//! The arguments of tools: their shapes are what a client is shown, and what is read from it.

use rmcp::model::JsonObject;
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The name of the argument that every tool takes besides its own.
const SESSION: &str = "session";

/// A line of the shell.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BashArgs {
    /// The line. It may have several commands, pipes, redirects and variables.
    pub(super) command: String,
    /// After how many seconds it is ended; 600 without it.
    #[schemars(range(min = 1, max = 3600))]
    pub(super) timeout: Option<f64>,
}

/// Lines of a file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadTextFileArgs {
    /// The file.
    #[serde(alias = "file_path")]
    pub(super) path: String,
    /// Only so many lines of the start.
    pub(super) head: Option<u64>,
    /// Only so many lines of the end.
    pub(super) tail: Option<u64>,
    /// From this line on, counted from 1.
    pub(super) offset: Option<u64>,
    /// So many lines, from `offset` on.
    pub(super) limit: Option<u64>,
}

/// A file and what it is to hold.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFileArgs {
    /// The file. It is made where it is absent, and so are directories above it.
    #[serde(alias = "file_path")]
    pub(super) path: String,
    /// All of what it is to hold.
    pub(super) content: String,
}

/// One replacement.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TextEdit {
    /// The text that is there.
    #[serde(rename = "oldText", alias = "old_string")]
    pub(super) old: String,
    /// The text that is to be there.
    #[serde(rename = "newText", alias = "new_string")]
    pub(super) new: String,
    /// Whether every place is meant. Else the text must stand there once.
    #[serde(default)]
    pub(super) replace_all: bool,
}

/// Replacements in a file: `edits`, or `old_string` and `new_string`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditFileArgs {
    /// The file.
    #[serde(alias = "file_path")]
    pub(super) path: String,
    /// Replacements, made one after the other.
    pub(super) edits: Option<Vec<TextEdit>>,
    /// The text that is there, where there is one replacement.
    pub(super) old_string: Option<String>,
    /// The text that is to be there.
    pub(super) new_string: Option<String>,
    /// Whether every place is meant.
    #[serde(default)]
    pub(super) replace_all: bool,
    /// Whether nothing is written: the answer is what would be different.
    #[serde(default, rename = "dryRun", alias = "dry_run")]
    pub(super) dry_run: bool,
}

/// A path.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PathArgs {
    /// The path.
    pub(super) path: String,
}

/// A directory.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DirectoryArgs {
    /// The directory; the working directory without it.
    #[serde(default = "here")]
    pub(super) path: String,
}

/// From where to where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TransferArgs {
    /// What is there.
    pub(super) source: String,
    /// Where it is to be; nothing may be there.
    pub(super) destination: String,
}

/// A search for names.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchFilesArgs {
    /// Where to search: everything below is looked at.
    #[serde(default = "here")]
    pub(super) path: String,
    /// A pattern of names as `*.py`; with a slash, of paths.
    pub(super) pattern: String,
    /// Patterns of names that are left out, with what is below them.
    #[serde(default, rename = "excludePatterns", alias = "exclude")]
    pub(super) exclude: Vec<String>,
}

/// A search for lines.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GrepArgs {
    /// An extended regular expression.
    pub(super) pattern: String,
    /// A file, or a directory with everything below it.
    #[serde(default = "here")]
    pub(super) path: String,
    /// Only files whose names match, as `*.py`.
    #[serde(alias = "include")]
    pub(super) glob: Option<String>,
    /// Whether upper and lower case are the same.
    #[serde(default, alias = "-i")]
    pub(super) ignore_case: bool,
    /// How many lines around each are shown.
    #[serde(default, alias = "-C")]
    pub(super) context: u32,
    /// What to say: the lines, the names of the files, or how many lines in each.
    #[serde(default)]
    pub(super) output_mode: GrepOutput,
}

/// What a search says.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum GrepOutput {
    /// The lines.
    #[default]
    Content,
    /// The files that have any.
    FilesWithMatches,
    /// How many each file has.
    Count,
}

/// How far back.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryArgs {
    /// How many runs, the newest first.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 200))]
    pub(super) limit: usize,
}

/// What to take back.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoToolArgs {
    /// A run of this session; the last one that changed something without it.
    pub(super) run: Option<String>,
    /// Only what concerns this path.
    pub(super) path: Option<String>,
    /// Whether nothing is changed: the answer is what would be done.
    #[serde(default, rename = "dryRun", alias = "dry_run")]
    pub(super) dry_run: bool,
}

/// A call that goes on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobOutputArgs {
    /// The job, as an answer named it.
    pub(super) job: String,
    /// How many seconds to wait for its end; 0 without it.
    #[serde(default)]
    #[schemars(range(min = 0, max = 45))]
    pub(super) wait: f64,
}

/// A call that is to end.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobKillArgs {
    /// The job, as an answer named it.
    pub(super) job: String,
}

/// A real program.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunProgramArgs {
    /// Its arguments, each a word; no shell reads them.
    #[serde(default)]
    pub(super) args: Vec<String>,
    /// The directory that it works in; the session's without it.
    pub(super) cwd: Option<String>,
    /// What it reads on standard input.
    #[serde(default)]
    pub(super) stdin: String,
    /// After how many seconds it is ended, where the policy gives it longer.
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
    schema.remove("title");
    schema.remove("description");
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        properties.insert(
            SESSION.to_owned(),
            json!({
                "type": "string",
                "description": "The session, as an earlier answer named it. A new one without it, or the connection's where there is one."
            }),
        );
    }
    schema
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
