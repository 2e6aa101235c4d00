//! Resources: of each session its log, and the difference that its runs made.

use rmcp::model::{ReadResourceResult, Resource, ResourceContents};

use super::answer::{cut, patch};
use super::sessions::{Session, Sessions};
use super::workplace::Workplace;
use crate::client::Client;
use crate::error::{Kind, Result};
use crate::name::WorldPath;
use crate::operator::diff::Texts;

/// How the names of resources begin.
const SCHEME: &str = "trumanfs://session/";

/// Lists the resources.
pub(super) fn list(sessions: &Sessions) -> Vec<Resource> {
    let two = |session: &std::sync::Arc<Session>| {
        let id = &session.id;
        [
            Resource::new(format!("{SCHEME}{id}/log"), format!("log of session {id}"))
                .with_description("What the runs of this session did, the newest last")
                .with_mime_type("text/plain"),
            Resource::new(
                format!("{SCHEME}{id}/diff"),
                format!("diff of session {id}"),
            )
            .with_description("What is different because of the runs of this session, run by run")
            .with_mime_type("text/x-diff"),
        ]
    };
    sessions.all().iter().flat_map(two).collect()
}

/// Reads a resource. Nothing: there is none of this name.
///
/// # Errors
/// Those of reading the journal.
pub(super) fn read(
    workplace: &Workplace,
    sessions: &Sessions,
    uri: &str,
    most: usize,
) -> Result<Option<ReadResourceResult>> {
    let name = uri
        .strip_prefix(SCHEME)
        .and_then(|rest| rest.split_once('/'));
    let Some((session, what)) = name.and_then(|(id, what)| Some((sessions.find(id)?, what))) else {
        return Ok(None);
    };
    let client = workplace.client()?;
    let mut text = String::new();
    for run in session.runs() {
        let found = match client.run(&run.to_string()) {
            Ok(found) => found,
            // It changed nothing.
            Err(error) if error.kind() == Kind::Missing => continue,
            Err(error) => return Err(error),
        };
        let command = found.command.unwrap_or_default();
        match what {
            "log" => log(&client, &run.to_string(), &command, &mut text)?,
            "diff" => diff(&client, &run.to_string(), &command, &mut text)?,
            _ => return Ok(None),
        }
        // What is cut out of the middle need not be held.
        if text.len() > 8 * most {
            text = cut(text, 4 * most);
        }
    }
    if !matches!(what, "log" | "diff") {
        return Ok(None);
    }
    let contents = ResourceContents::text(cut(text, most), uri);
    Ok(Some(ReadResourceResult::new(vec![contents])))
}

fn log(client: &Client, run: &str, command: &str, text: &mut String) -> Result<()> {
    text.push_str(&format!("{run}  {command}\n"));
    let diff = client.diff_of_run(run, &WorldPath::root())?;
    for number in 0..diff.len() {
        if let Some((status, path)) = diff.nth_path(number) {
            text.push_str(&format!("    {} {path}\n", status.letter()));
        }
    }
    Ok(())
}

fn diff(client: &Client, run: &str, command: &str, text: &mut String) -> Result<()> {
    text.push_str(&format!("# run {run}: {command}\n"));
    let diff = client.diff_of_run(run, &WorldPath::root())?;
    for change in diff.changes() {
        let change = change?;
        text.push_str(&format!("{} {}\n", change.status.letter(), change.path));
        match diff.texts(&change) {
            Ok(Texts::Text(before, after)) if before != after => {
                text.push_str(&patch(before, after))
            }
            Ok(_) => {}
            Err(error) => text.push_str(&format!("({error})\n")),
        }
    }
    Ok(())
}
