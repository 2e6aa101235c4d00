//! A policy that builds on a shipped one: `"*": {extends: default}`.
//!
//! Entries come from both, those of the same name key by key: the file's keys win, and sub-commands are put together by
//! name. The examples of an entry that the file changes hold for the shipped one only, so they stay behind.

use std::collections::BTreeSet;

use super::super::shipped;
use super::super::yaml::{self, YamlField, YamlNode, YamlValue};
use super::fields::FieldReader;

const KEY: &str = "extends";

/// Returns the tree of the policy with what it builds on, and the entries that are not its own.
pub(in super::super) fn extended(
    reader: &mut FieldReader<'_>,
    root: YamlNode,
) -> (YamlNode, BTreeSet<String>) {
    let mut inherited = BTreeSet::new();
    let YamlNode {
        line,
        value: YamlValue::Map(mut own),
    } = root
    else {
        return (root, inherited);
    };
    if let Some((at, name)) = extends(reader, &mut own)
        && let Some(base) = base(reader, at, &name)
    {
        for mut field in base {
            settle(&mut field, at);
            match own.iter_mut().find(|entry| entry.key == field.key) {
                Some(entry) => add(&mut entry.node, field.node, &["match", "not_match"]),
                None => {
                    inherited.insert(field.key.clone());
                    own.push(field);
                }
            }
        }
    }
    (
        YamlNode {
            line,
            value: YamlValue::Map(own),
        },
        inherited,
    )
}

/// Takes the key out of the entry `*`. Returns its line and the name.
fn extends(reader: &mut FieldReader<'_>, own: &mut [YamlField]) -> Option<(usize, String)> {
    let every = own.iter_mut().find(|field| field.key == "*")?;
    let YamlValue::Map(keys) = &mut every.node.value else {
        return None;
    };
    let at = keys.iter().position(|key| key.key == KEY)?;
    let key = keys.remove(at);
    let name = reader.under("*", |r| r.under(KEY, |r| r.text(&key.node)))?;
    Some((key.line, name))
}

fn base(reader: &mut FieldReader<'_>, line: usize, name: &str) -> Option<Vec<YamlField>> {
    let Some(text) = shipped::text(name) else {
        let known: Vec<&str> = shipped::names().collect();
        let message = format!(
            "`{name}` is no shipped policy; these are: {}",
            known.join(" ")
        );
        reader.under("*", |r| r.under(KEY, |r| r.problem(line, message)));
        return None;
    };
    match yaml::read(text.as_bytes(), name) {
        Ok(Some(YamlNode {
            value: YamlValue::Map(fields),
            ..
        })) => Some(fields),
        _ => None,
    }
}

/// Gives everything below a field the line of the file that builds on it.
fn settle(field: &mut YamlField, line: usize) {
    field.line = line;
    let mut rest = vec![&mut field.node];
    while let Some(node) = rest.pop() {
        node.line = line;
        match &mut node.value {
            YamlValue::Scalar(..) => {}
            YamlValue::List(items) => rest.extend(items),
            YamlValue::Map(fields) => {
                for field in fields {
                    field.line = line;
                    rest.push(&mut field.node);
                }
            }
        }
    }
}

/// Adds the keys of another map that are not there, but for some.
fn add(node: &mut YamlNode, other: YamlNode, without: &[&str]) {
    if node.is_null() {
        node.value = YamlValue::Map(Vec::new());
    }
    let (YamlValue::Map(fields), YamlValue::Map(others)) = (&mut node.value, other.value) else {
        return;
    };
    for field in others {
        if without.contains(&field.key.as_str()) {
            continue;
        }
        match fields.iter_mut().find(|own| own.key == field.key) {
            Some(own) if own.key == "subcommands" => add(&mut own.node, field.node, &[]),
            Some(_) => {}
            None => fields.push(field),
        }
    }
}
