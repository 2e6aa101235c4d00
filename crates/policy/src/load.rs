//! A policy from the text of a file: read, then tried on the examples that it brings along.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::decide::decide;
use super::error::{PolicyError, PolicyWarning};
use super::lint;
use super::question::{CommandRequest, TextPaths};
use super::read::{FieldReader, entries, extended};
use super::schema::{Policy, PolicyEntries, ProgramEntry};
use super::shipped;
use super::split::split;
use super::yaml;

/// The home that examples are judged in.
const EXAMPLE_HOME: &[u8] = b"/home/agent";

/// The policy of a file, with its errors and warnings.
#[derive(Debug)]
pub struct PolicyReport {
    /// The policy, where nothing is wrong with it.
    pub policy: Option<Policy>,
    /// The errors; with any of them there is no policy.
    pub problems: Vec<PolicyError>,
    /// The warnings: lines that are valid and hardly meant.
    pub warnings: Vec<PolicyWarning>,
}

impl Policy {
    /// Returns the shipped policy `default`.
    pub fn shipped() -> Policy {
        // Tests read all shipped policies; were one broken, it would allow nothing.
        let read = Policy::shipped_as("default");
        read.unwrap_or_else(|| Policy(Arc::new(PolicyEntries::default())))
    }

    /// Returns the shipped policy of this name. Its examples hold, as tests know.
    pub(super) fn shipped_as(name: &str) -> Option<Policy> {
        examine(shipped::text(name)?.as_bytes(), name, false).policy
    }

    /// Reads the shipped policy of this name and says all that is to say of it.
    pub fn examine_shipped(name: &str) -> Option<PolicyReport> {
        let text = shipped::text(name)?;
        Some(Policy::examine(text.as_bytes(), name))
    }

    /// Reads a policy. `name` is what errors call the file.
    ///
    /// # Errors
    /// The first thing that is wrong: no YAML, an unknown or duplicate key, a wrong type, an example that does not hold.
    pub fn parse(text: &[u8], name: &str) -> Result<Policy, PolicyError> {
        let examined = Policy::examine(text, name);
        match (examined.policy, examined.problems.into_iter().next()) {
            (Some(policy), None) => Ok(policy),
            (_, Some(problem)) => Err(problem),
            (None, None) => Err(PolicyError::whole(name, "the file has no entry")),
        }
    }

    /// Reads a policy and says all that is to say of it.
    pub fn examine(text: &[u8], name: &str) -> PolicyReport {
        examine(text, name, true)
    }
}

/// Reads a policy; with `tries`, its examples are tried and what is hardly meant is warned of.
fn examine(text: &[u8], name: &str, tries: bool) -> PolicyReport {
    let mut reader = FieldReader::new(name);
    let mut inherited = BTreeSet::new();
    let rules = match yaml::read(text, name) {
        Ok(Some(root)) => {
            let (root, others) = extended(&mut reader, root);
            inherited = others;
            entries(&mut reader, &root)
        }
        Ok(None) => {
            reader.problems.push(PolicyError::whole(
                name,
                "the file has no entry; an entry is the name of a program",
            ));
            PolicyEntries::default()
        }
        Err(problem) => {
            reader.problems.push(problem);
            PolicyEntries::default()
        }
    };
    let policy = Policy(Arc::new(rules));
    if tries && reader.problems.is_empty() {
        let own = policy.0.entries.values();
        for entry in own.filter(|entry| !inherited.contains(&entry.name)) {
            reader.under(&entry.name, |r| {
                examples(r, &policy, entry);
                lint::warn(r, entry);
            });
        }
    }
    PolicyReport {
        policy: reader.problems.is_empty().then_some(policy),
        problems: reader.problems,
        warnings: reader.warnings,
    }
}

/// Tries the examples of an entry.
fn examples(reader: &mut FieldReader<'_>, policy: &Policy, entry: &ProgramEntry) {
    for example in &entry.matches {
        let verdict = judge(policy, &example.text);
        let said = match verdict {
            Err(reason) => format!("`{}` is not allowed: {reason}", example.text),
            Ok(rule) if !is_of(&rule, &entry.name) => {
                format!("`{}` is allowed by {rule}, not by this entry", example.text)
            }
            Ok(_) => continue,
        };
        reader.under("match", |r| r.problem(example.line, said));
    }
    for example in &entry.not_matches {
        if let Ok(rule) = judge(policy, &example.text) {
            let said = format!("`{}` is allowed, by {rule}", example.text);
            reader.under("not_match", |r| r.problem(example.line, said));
        }
    }
}

/// Returns whether a rule is one of an entry, whose name may have dots.
fn is_of(rule: &str, entry: &str) -> bool {
    let rest = rule.strip_prefix(entry);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the rule that allows a line, or why it is refused.
fn judge(policy: &Policy, line: &str) -> Result<String, String> {
    let argv = split(line.as_bytes()).map_err(|refused| refused.reason)?;
    let question = CommandRequest {
        argv: &argv,
        cwd: b"",
        home: EXAMPLE_HOME,
        env: &[],
        timeout: None,
        paths: &TextPaths,
    };
    let allowed = decide(policy, &question).map_err(|refused| refused.reason)?;
    Ok(allowed.rule)
}
