//! Resources: of each session its log, the difference that its runs made, and outputs that were too long for their answers.

use std::time::Duration;

use rmcp::model::{MetaObject, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use serde_json::json;

use super::answer::{cut, patch};
use super::history::changes;
use super::kept_outputs::{KeptOutputs, KeptRun};
use super::live_output::end_of_characters;
use super::server_home::ServerHome;
use super::sessions::{McpSession, McpSessions};
use crate::error::Result;
use crate::exec::CancelToken;
use crate::operator::diff::{Diff, TextPair};
use crate::operator::run::RunSummary;

/// The start of the names of resources.
const SCHEME: &str = "trumanfs://session/";
/// The longest time that reading a resource may take.
pub(super) const TIME: Duration = Duration::from_secs(45);

/// The largest number of runs whose outputs are listed.
const LISTED: usize = 50;

/// The media types of a session's log and of its differences.
const LOG: &str = "text/plain";
const DIFF: &str = "text/x-diff";

/// A stream of a run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutputStream {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
}

impl OutputStream {
    /// Both, in the order in which they are kept.
    pub(super) const ALL: [OutputStream; 2] = [OutputStream::Stdout, OutputStream::Stderr];

    /// Returns its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            OutputStream::Stdout => "stdout",
            OutputStream::Stderr => "stderr",
        }
    }

    /// Returns this one of two.
    pub(super) fn of<T>(self, [stdout, stderr]: [T; 2]) -> T {
        match self {
            OutputStream::Stdout => stdout,
            OutputStream::Stderr => stderr,
        }
    }
}

/// Returns the name of a run's output.
pub(super) fn output_uri(kept: &KeptRun, stream: OutputStream) -> String {
    let (session, run) = (&kept.session, &kept.run);
    format!("{SCHEME}{session}/output/{run}/{}", stream.name())
}

/// Returns what leads to a run's output.
pub(super) fn link(kept: &KeptRun, stream: OutputStream) -> Resource {
    let name = format!("{} of run {}", stream.name(), kept.run);
    Resource::new(output_uri(kept, stream), name)
        .with_mime_type(LOG)
        .with_size(stream.of(kept.streams).total)
}

/// Returns the names of parts of outputs.
pub(super) fn template() -> ResourceTemplate {
    let uri = format!("{SCHEME}{{session}}/output/{{run}}/{{stream}}{{?offset,limit}}");
    ResourceTemplate::new(uri, "output of a run")
        .with_description(
            "stdout or stderr of a run whose answer was cut, from byte `offset` on, `limit` bytes at most",
        )
        .with_mime_type(LOG)
}

/// The part of an output that a name means.
struct OutputRange<'u> {
    session: &'u str,
    run: &'u str,
    stream: OutputStream,
    offset: u64,
    limit: usize,
}

impl OutputRange<'_> {
    fn parse(uri: &str) -> Option<OutputRange<'_>> {
        let rest = uri.strip_prefix(SCHEME)?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut parts = path.split('/');
        let (session, kind, run) = (parts.next()?, parts.next()?, parts.next()?);
        let stream = match parts.next() {
            None | Some("stdout") => OutputStream::Stdout,
            Some("stderr") => OutputStream::Stderr,
            Some(_) => return None,
        };
        if kind != "output" || parts.next().is_some() {
            return None;
        }
        let mut range = OutputRange {
            session,
            run,
            stream,
            offset: 0,
            limit: usize::MAX,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=')? {
                ("offset", number) => range.offset = number.parse().ok()?,
                ("limit", number) => range.limit = number.parse().ok()?,
                _ => return None,
            }
        }
        Some(range)
    }
}

/// Reads a part of a run's output, of which so many bytes are shown. Nothing: there is none of this name, or no more.
pub(super) fn read_output(
    sessions: &McpSessions,
    outputs: &KeptOutputs,
    uri: &str,
    most: usize,
) -> Option<ReadResourceResult> {
    let range = OutputRange::parse(uri)?;
    sessions.find(range.session)?;
    let kept = outputs.find_run(range.run)?;
    if kept.session != range.session {
        return None;
    }
    let stream = range.stream.of(kept.streams);
    let most = range.limit.min(most);
    let mut bytes = outputs.read(stream.number, range.offset, most)?;
    bytes.truncate(end_of_part(&bytes));
    let next = range.offset + bytes.len() as u64;
    let mut meta = MetaObject::new();
    meta.0.insert("next_offset".to_owned(), json!(next));
    meta.0.insert("total".to_owned(), json!(stream.total));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let contents = ResourceContents::text(text, uri).with_mime_type(LOG);
    Some(ReadResourceResult::new(vec![contents.with_meta(meta)]))
}

/// Returns how much of a part is shown: whole characters, unless it is less than one.
pub(super) fn end_of_part(bytes: &[u8]) -> usize {
    match end_of_characters(bytes) {
        0 => bytes.len(),
        end => end,
    }
}

/// Lists the resources.
pub(super) fn list(sessions: &McpSessions, outputs: &KeptOutputs) -> Vec<Resource> {
    let two = |session: &std::sync::Arc<McpSession>| {
        let id = &session.id;
        [
            Resource::new(format!("{SCHEME}{id}/log"), format!("log of session {id}"))
                .with_description("What the runs of this session did, the newest last")
                .with_mime_type(LOG),
            Resource::new(
                format!("{SCHEME}{id}/diff"),
                format!("diff of session {id}"),
            )
            .with_description("What is different because of the runs of this session, run by run")
            .with_mime_type(DIFF),
        ]
    };
    let sessions = sessions.all();
    let mut all: Vec<Resource> = sessions.iter().flat_map(two).collect();
    let kept = outputs.runs();
    for run in kept.iter().rev().take(LISTED) {
        if sessions.iter().any(|session| session.id == run.session) {
            all.extend(OutputStream::ALL.map(|stream| link(run, stream)));
        }
    }
    all
}

/// Reads a resource, of which so many bytes are kept. Nothing: there is none of this name.
///
/// # Errors
/// Those of reading the journal.
pub(super) fn read(
    workplace: &ServerHome,
    sessions: &McpSessions,
    uri: &str,
    (most, cancel): (usize, &CancelToken),
) -> Result<Option<ReadResourceResult>> {
    let name = uri
        .strip_prefix(SCHEME)
        .and_then(|rest| rest.split_once('/'));
    let Some((session, what)) = name.and_then(|(id, what)| Some((sessions.find(id)?, what))) else {
        return Ok(None);
    };
    let (say, kind): (fn(&_, &_, _, &mut _) -> _, _) = match what {
        "log" => (log, LOG),
        "diff" => (diff, DIFF),
        _ => return Ok(None),
    };
    let client = workplace.client()?;
    let mut ids = session.runs();
    ids.reverse();
    let mut found = client.runs(&ids)?;
    found.sort_by(|one, other| other.last.cmp(&one.last));
    let (mut text, mut said) = (String::new(), 0);
    client.diffs_of_runs(&found, |run, diff| {
        let mut of_run = String::new();
        say(run, &diff, most, &mut of_run)?;
        text.insert_str(0, &of_run);
        bound(&mut text, most);
        said += 1;
        Ok(cancel.ended().is_none())
    })?;
    if let Some(older) = found.len().checked_sub(said).filter(|older| *older > 0) {
        text.insert_str(
            0,
            &format!("[{older} older runs left out: the time is up]\n"),
        );
    }
    let contents = ResourceContents::text(cut(text, most), uri).with_mime_type(kind);
    Ok(Some(ReadResourceResult::new(vec![contents])))
}

fn log(run: &RunSummary, diff: &Diff<'_>, most: usize, text: &mut String) -> Result<()> {
    let command = run.command.as_deref().unwrap_or_default();
    text.push_str(&format!("{}  {command}\n", run.id));
    for change in changes(diff) {
        text.push_str(&format!("    {change}\n"));
        bound(text, most);
    }
    Ok(())
}

fn diff(run: &RunSummary, diff: &Diff<'_>, most: usize, text: &mut String) -> Result<()> {
    let command = run.command.as_deref().unwrap_or_default();
    text.push_str(&format!("# run {}: {command}\n", run.id));
    for change in diff.changes() {
        let change = change?;
        text.push_str(&format!("{} {}\n", change.status.letter(), change.path));
        match diff.texts(&change) {
            Ok(TextPair::Text(before, after)) if before != after => {
                text.push_str(&patch(before, after))
            }
            Ok(_) => {}
            Err(error) => text.push_str(&format!("({error})\n")),
        }
        bound(text, most);
    }
    Ok(())
}

/// Cuts a text whose middle nobody will see.
fn bound(text: &mut String, most: usize) {
    if text.len() > 8 * most {
        *text = cut(std::mem::take(text), 4 * most);
    }
}
