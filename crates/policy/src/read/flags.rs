//! Lists of flags, in the forms that a policy may write them.

use super::super::grammar::{FlagValue, WordReading};
use super::super::schema::{FlagList, RequiredFlag};
use super::super::yaml::{YamlField, YamlNode, YamlValue};
use super::fields::FieldReader;

/// Reads the flags that are allowed: a list of names, or a map of names to what each takes.
pub(super) fn flags(reader: &mut FieldReader<'_>, node: &YamlNode, slashes: bool) -> FlagList {
    let mut flags = FlagList::default();
    match &node.value {
        YamlValue::Map(fields) => {
            for field in fields {
                let name = &field.key;
                reader.under(name, |r| {
                    if is_flag(r, name, field.line, slashes)
                        && let Some(takes) = takes(r, &field.node)
                    {
                        flags.names.insert(name.clone(), takes);
                    }
                });
            }
        }
        _ => {
            for item in reader.items(node) {
                let Some(name) = reader.text(item) else {
                    continue;
                };
                if is_flag(reader, &name, item.line, slashes) {
                    listed(reader, &mut flags, name, item.line);
                }
            }
        }
    }
    flags
}

/// Adds a flag of a list.
fn listed(reader: &mut FieldReader<'_>, flags: &mut FlagList, name: String, line: usize) {
    let is_new = if name == "-<n>" {
        !std::mem::replace(&mut flags.number, true)
    } else if name.contains('=') {
        flags.exact.insert(name.clone())
    } else {
        flags
            .names
            .insert(name.clone(), FlagValue::Unstated)
            .is_none()
    };
    if !is_new {
        reader.problem(line, format!("`{name}` stands here twice"));
    }
}

/// Reads what a flag takes.
fn takes(reader: &mut FieldReader<'_>, node: &YamlNode) -> Option<FlagValue> {
    let word = match &node.value {
        YamlValue::Scalar(word, _) => word.as_str(),
        YamlValue::List(_) => {
            return Some(FlagValue::OneOf(reader.texts(node)))
                .filter(|takes| *takes != FlagValue::OneOf(Vec::new()));
        }
        YamlValue::Map(_) => "",
    };
    match word {
        "false" | "none" => Some(FlagValue::Nothing),
        "true" | "value" | "path" => Some(FlagValue::Value(WordReading::Path)),
        "text" => Some(FlagValue::Value(WordReading::Text)),
        "attached" => Some(FlagValue::Attached(WordReading::Path)),
        _ => {
            reader.problem(
                node.line,
                "what the flag takes is expected: false (nothing), true or `path` (a value that stays in the home), `text` (any value), `attached` (a value behind `=` or none), or a list of values",
            );
            None
        }
    }
}

/// Reads names of flags that are refused.
pub(super) fn denied(reader: &mut FieldReader<'_>, node: &YamlNode, slashes: bool) -> Vec<String> {
    let mut names = Vec::new();
    for item in reader.items(node) {
        let Some(name) = reader.text(item) else {
            continue;
        };
        if is_flag(reader, &name, item.line, slashes) {
            names.push(name);
        }
    }
    names
}

/// Reads flags that have to be there: a list of names, or a map of names to `true`, a value, or a list of values.
pub(super) fn required(
    reader: &mut FieldReader<'_>,
    node: &YamlNode,
    slashes: bool,
) -> Vec<RequiredFlag> {
    if let YamlValue::Map(fields) = &node.value {
        let read = fields.iter();
        let mut required: Vec<RequiredFlag> = read
            .filter_map(|field| required_value(reader, field, slashes))
            .collect();
        // The order of keys means nothing, so it decides nothing.
        required.sort_by(|a, b| a.flag.cmp(&b.flag));
        return required;
    }
    let mut required = Vec::new();
    for item in reader.items(node) {
        let Some(name) = reader.text(item) else {
            continue;
        };
        if !is_flag(reader, &name, item.line, slashes) {
            continue;
        }
        let (flag, values) = match name.split_once('=') {
            Some((flag, value)) => (flag.to_owned(), vec![value.to_owned()]),
            None => (name, Vec::new()),
        };
        required.push(RequiredFlag { flag, values });
    }
    required
}

fn required_value(
    reader: &mut FieldReader<'_>,
    field: &YamlField,
    slashes: bool,
) -> Option<RequiredFlag> {
    reader.under(&field.key, |r| {
        if !is_flag(r, &field.key, field.line, slashes) {
            return None;
        }
        let values = match &field.node.value {
            YamlValue::Scalar(word, true) if word == "true" => Vec::new(),
            YamlValue::Scalar(word, true) if word == "false" => {
                r.problem(field.node.line, "a flag that has to be there is not false; put one that may not be there on `deny_flags`");
                return None;
            }
            YamlValue::List(_) => r.texts(&field.node),
            _ => vec![r.text(&field.node)?],
        };
        Some(RequiredFlag {
            flag: field.key.clone(),
            values,
        })
    })
}

/// Checks the name of a flag.
pub(in super::super) fn is_flag(
    reader: &mut FieldReader<'_>,
    name: &str,
    line: usize,
    slashes: bool,
) -> bool {
    let begins = name.starts_with('-') || (slashes && name.starts_with(['/', '@']));
    let is_flag = begins && name.len() > 1 && name != "--";
    let is_plain = name.bytes().all(|b| b.is_ascii_graphic());
    if !is_flag || !is_plain {
        let message = format!("`{name}` is no flag; a flag begins with `-` and has no blanks");
        reader.problem(line, message);
    }
    is_flag && is_plain
}
