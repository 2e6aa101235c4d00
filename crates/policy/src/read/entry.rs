//! Entries: one for each program.

use super::super::grammar::{self, ToolGrammar};
use super::super::schema::{CommandExample, PolicyEntries, ProgramEntry, SubCommand};
use super::super::validator::Validator;
use super::super::yaml::{YamlField, YamlNode, YamlValue};
use super::fields::{FieldReader, unknown_key};
use super::{flags, keys, subcommand};

/// The entry that holds for every program.
const EVERY: &str = "*";

/// Reads the entries of a policy.
pub(in super::super) fn entries(reader: &mut FieldReader<'_>, root: &YamlNode) -> PolicyEntries {
    let mut rules = PolicyEntries::default();
    let fields = reader.fields(root);
    for field in fields {
        let name = field.key.as_str();
        reader.under(name, |r| {
            if name == EVERY {
                rules.every = entry(r, field, Validator::Every);
                return;
            }
            if name.is_empty()
                || name.contains('/')
                || name.chars().any(|c| c.is_whitespace() || c.is_control())
            {
                r.problem(
                    field.line,
                    "a program is named by its bare name, without a path and without blanks",
                );
                return;
            }
            let mut chain = Vec::new();
            let validator = validator(r, field, fields, &mut chain);
            let mut read = entry(r, field, validator);
            read.grammar = extended_grammar(r, validator, &chain).map(Box::new);
            rules.entries.insert(name.to_owned(), read);
        });
    }
    rules
}

/// Returns which validator judges an entry: that of `validator`, which names one or another entry; else the program's own.
/// `chain` gets the entry, and every other whose rules are its own.
fn validator<'n>(
    reader: &mut FieldReader<'_>,
    field: &'n YamlField,
    entries: &'n [YamlField],
    chain: &mut Vec<&'n YamlField>,
) -> Validator {
    let steps = chain.len();
    chain.push(field);
    let YamlValue::Map(keys) = &field.node.value else {
        return Validator::of_program(&field.key);
    };
    let Some(key) = keys.iter().find(|key| key.key == "validator") else {
        return Validator::of_program(&field.key);
    };
    let YamlValue::Scalar(name, _) = &key.node.value else {
        return Validator::of_program(&field.key);
    };
    if let Some(validator) = Validator::named(name) {
        return validator;
    }
    let other = entries
        .iter()
        .find(|entry| entry.key == *name && entry.key != EVERY);
    match other {
        Some(other) if steps < entries.len() => validator(reader, other, entries, chain),
        _ => {
            let line = key.node.line;
            reader.under("validator", |r| {
                r.problem(line, format!("`{name}` is neither a validator nor another entry; `generic` has the rules of every program"));
            });
            Validator::Generic("")
        }
    }
}

/// Returns the grammar of an entry, if it or one whose rules it has adds to the shipped one.
fn extended_grammar(
    reader: &mut FieldReader<'_>,
    validator: Validator,
    chain: &[&YamlField],
) -> Option<ToolGrammar> {
    // Only for an entry that adds something: the others read theirs with the first decision.
    let shipped = || match validator.tool() {
        "" => None,
        tool => grammar::grammar(tool),
    };
    let mut found: Option<ToolGrammar> = None;
    for (number, field) in chain.iter().enumerate().rev() {
        let YamlValue::Map(keys) = &field.node.value else {
            continue;
        };
        let Some(key) = keys.iter().find(|key| key.key == "grammar") else {
            continue;
        };
        if validator == Validator::PowerShell {
            let message = "no grammar judges the words of PowerShell; leave it out";
            reader.under("grammar", |r| r.problem(key.line, message));
            continue;
        }
        let base = match &found {
            Some(found) => Some(found),
            None => shipped(),
        };
        // What is wrong in another entry is said there.
        let mut other = FieldReader::new("");
        let reader = if number == 0 {
            &mut *reader
        } else {
            &mut other
        };
        found = Some(reader.under("grammar", |r| grammar::extended(r, base, &key.node)));
    }
    found
}

fn entry(reader: &mut FieldReader<'_>, field: &YamlField, validator: Validator) -> ProgramEntry {
    let mut found = ProgramEntry {
        name: field.key.clone(),
        line: field.line,
        validator,
        ..ProgramEntry::default()
    };
    let known = keys::of_entry(validator);
    for field in reader.fields(&field.node) {
        let key = field.key.as_str();
        reader.under(key, |r| {
            if !known.concat().contains(&key) {
                r.problem(field.line, unknown_key(known, "this entry"));
                return;
            }
            let _ = subcommand::run_key(r, &mut found.run, field)
                || subcommand::arguments_key(r, &mut found.arguments, field)
                || program_key(r, &mut found, field)
                || list_key(r, &mut found, field)
                || tool_key(r, &mut found, field);
        });
    }
    found
}

/// Reads a key that every program may have.
fn program_key(r: &mut FieldReader<'_>, found: &mut ProgramEntry, field: &YamlField) -> bool {
    let node = &field.node;
    match field.key.as_str() {
        "description" => found.description = r.text(node),
        "validator" => drop(r.text(node)),
        "default_timeout" => found.run.timeout = r.seconds(node),
        "safe_env" => found.safe_env = r.variables(node),
        "env_overrides" => found.env_overrides = r.variables(node),
        "allow_env" => found.allow_env = r.variable_names(node),
        "max_output_bytes" => found.max_output_bytes = r.number(node),
        "ptrace" => found.ptrace = r.truth(node) == Some(true),
        "match" => found.matches = examples(r, node),
        "not_match" => found.not_matches = examples(r, node),
        _ => return false,
    }
    true
}

fn examples(r: &mut FieldReader<'_>, node: &YamlNode) -> Vec<CommandExample> {
    let mut examples = Vec::new();
    for item in r.items(node) {
        if let Some(text) = r.text(item) {
            examples.push(CommandExample {
                line: item.line,
                text,
            });
        }
    }
    examples
}

/// Reads a key that lists flags or sub-commands.
fn list_key(r: &mut FieldReader<'_>, found: &mut ProgramEntry, field: &YamlField) -> bool {
    let node = &field.node;
    let slashes = found.validator == Validator::Dotnet;
    match field.key.as_str() {
        "flags" => {
            found.flags = flags::flags(r, node, slashes);
            found.has_flags = true;
        }
        "root_flags" => found.root_flags.add(flags::flags(r, node, slashes)),
        "global_flags_before_subcommand" => found.root_flags.add(flags::flags(r, node, slashes)),
        "deny_global_flags" => found.deny_flags = flags::denied(r, node, slashes),
        "require_flags" => found.require_flags = flags::required(r, node, slashes),
        "deny_subcommands" => found.deny_subcommands = r.names(node).into_iter().collect(),
        "subcommands" => {
            for (name, read) in subcommand::subcommands(r, node, found.validator) {
                add(r, found, name, read, field.line);
            }
        }
        // The short form: a sub-command with keys of its own, beside the others.
        name @ ("run" | "ci" | "install" | "config" | "test") => {
            let read = subcommand::subcommand(r, field, found.validator);
            add(r, found, name.to_owned(), read, field.line);
        }
        _ => return false,
    }
    true
}

fn add(
    r: &mut FieldReader<'_>,
    found: &mut ProgramEntry,
    name: String,
    read: SubCommand,
    line: usize,
) {
    let all = found.subcommands.get_or_insert_default();
    if all.contains_key(&name) {
        r.problem(
            line,
            format!("`{name}` stands here and below `subcommands`; keep one"),
        );
    }
    all.insert(name, read);
}

/// Reads a key of a single tool.
fn tool_key(r: &mut FieldReader<'_>, found: &mut ProgramEntry, field: &YamlField) -> bool {
    let modes = keys::of_modes(found.validator);
    let (node, tool) = (&field.node, &mut found.tool);
    match field.key.as_str() {
        "allow_test_paths" => tool.allow_test_paths = r.truth(node),
        "allow_script_paths" => tool.allow_script_paths = r.truth(node),
        "max_selector_args" => tool.max_selector_args = r.number(node),
        "max_argv_len" => tool.max_argv_len = r.number(node),
        "detect_venv" => tool.detect_venv = r.truth(node),
        "disable_plugin_autoload" => tool.disable_plugin_autoload = r.truth(node),
        "allow_test_mode" => tool.allow_test_mode = r.truth(node),
        "allowed_entrypoints" => tool.allowed_entrypoints = Some(r.names(node)),
        "deny_tokens" => tool.deny_tokens = Some(r.texts(node)),
        "safe_cmdlets" => {
            tool.safe_cmdlets = r
                .names(node)
                .iter()
                .map(|name| name.to_lowercase())
                .collect()
        }
        "dangerous_patterns" => tool.dangerous_patterns = r.patterns(node),
        "allowed_packages" => {
            for name in r.names(node) {
                tool.packages.entry(name).or_default();
            }
        }
        "packages" if matches!(node.value, YamlValue::List(_)) => {
            for name in r.names(node) {
                tool.packages.entry(name).or_default();
            }
        }
        "packages" => {
            for package in r.fields(node) {
                let flags = r.under(&package.key, |r| subcommand::package(r, package));
                tool.packages.insert(package.key.clone(), flags);
            }
        }
        "command_aliases" => tool.command_aliases = aliases(r, node),
        "modes" => {
            for mode in r.fields(node) {
                r.under(&mode.key, |r| {
                    if !modes.contains(&mode.key.as_str()) {
                        r.problem(mode.line, unknown_key([modes, &[]], "`modes`"));
                    } else if let Some(on) = r.truth(&mode.node) {
                        tool.modes.insert(mode.key.clone(), on);
                    }
                });
            }
        }
        _ => return false,
    }
    true
}

fn aliases(r: &mut FieldReader<'_>, node: &YamlNode) -> std::collections::BTreeMap<String, String> {
    let mut aliases = std::collections::BTreeMap::new();
    for alias in r.fields(node) {
        r.under(&alias.key, |r| {
            if let Some(package) = r.text(&alias.node) {
                aliases.insert(alias.key.clone(), package);
            }
        });
    }
    aliases
}
