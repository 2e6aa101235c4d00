//! Resources: of each session its log, and the difference that its runs made.

use std::time::Duration;

use rmcp::model::{ReadResourceResult, Resource, ResourceContents};

use super::answer::{cut, patch};
use super::history::changes;
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

/// The media types of a session's log and of its differences.
const LOG: &str = "text/plain";
const DIFF: &str = "text/x-diff";

/// Lists the resources.
pub(super) fn list(sessions: &McpSessions) -> Vec<Resource> {
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
    sessions.all().iter().flat_map(two).collect()
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
    let found = client.runs(&ids)?;
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
