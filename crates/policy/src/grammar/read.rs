//! Grammars from YAML: the shipped files, and the key `grammar` of a policy.

use std::collections::BTreeMap;

use super::super::read::{FieldReader, is_flag, unknown_key};
use super::super::yaml::{YamlField, YamlNode, YamlValue};
use super::flag_value::{FlagValue, WordReading};
use super::tool::{
    ArgumentSyntax, FlagFact, FlagTable, ScriptWords, SubcommandGrammar, ToolGrammar, UNKNOWN,
    WordSyntax,
};

/// Lists of flags, by what they take.
const FLAGS: &[&str] = &["text", "path", "attached", "attached_text", "none"];

/// Those of flags with a value, or with none in the same word.
const VALUES: &[&str] = &["text", "path", "none"];

/// The keys with which a policy adds to a tool whose grammar is known: nothing that is there already changes.
const ADDED: &[&str] = &["subcommands", "deny_tokens"];

/// The keys that a policy has besides for a tool whose grammar is not known.
const NEW: &[&str] = &[
    "aliases",
    "arguments",
    "clusters",
    "dashed_values",
    "flags_end",
    "greedy",
    "negations",
    "script_flags",
];

/// The keys of shipped files alone.
const SHIPPED: &[&str] = &[
    "like",
    "needs_subcommand",
    "root_flags",
    "idle",
    "last_flags",
    "bare_flags",
    "information",
    "words",
    "line_ranges",
    "slashes",
    "spellings",
    "values",
    "scripts",
    "environment",
    "project_programs",
];

/// Reads the grammar of one tool of a shipped file.
pub(super) fn tool(r: &mut FieldReader<'_>, root: &YamlNode, name: &str) -> ToolGrammar {
    let known = [FLAGS, ADDED, NEW, SHIPPED].concat();
    // From the tool that it is like to the tool itself.
    let root_tools = r.fields(root).len();
    let mut parts = Vec::new();
    let mut next = Some(name.to_owned());
    while let Some(name) = next.take() {
        let is_it = |tool: &&YamlField| tool.key.split_whitespace().any(|word| word == name);
        let Some(tool) = r.fields(root).iter().find(is_it) else {
            r.problem(root.line, format!("`{name}` has no grammar here"));
            break;
        };
        let fields = r.fields(&tool.node);
        if let Some(like) = fields.iter().find(|field| field.key == "like") {
            next = r.text(&like.node).filter(|_| parts.len() < root_tools);
        }
        parts.insert(0, (tool, fields));
    }
    let mut grammar = UNKNOWN;
    for (tool, fields) in parts {
        r.under(&tool.key, |r| fill(r, &mut grammar, fields, &known));
    }
    grammar
}

/// Returns a grammar with what a policy adds to it; nothing that it says already can be changed. `base` is that of the
/// tool if it is known.
pub(in super::super) fn extended(
    r: &mut FieldReader<'_>,
    base: Option<&ToolGrammar>,
    node: &YamlNode,
) -> ToolGrammar {
    let mut added = UNKNOWN;
    let fields = r.fields(node);
    let Some(base) = base else {
        fill(r, &mut added, fields, &[FLAGS, ADDED, NEW].concat());
        return added;
    };
    added.slashes = base.slashes;
    added.spellings.clone_from(&base.spellings);
    // A greedy tool takes the word behind a flag that is no switch of its own, whatever a policy says.
    let lists = if base.greedy { VALUES } else { FLAGS };
    fill(r, &mut added, fields, &[lists, ADDED].concat());
    let is_known = |flag: &&String| {
        let mut rows = base.subcommands.iter();
        base.fact(None, flag).is_some() || rows.any(|row| row.flags.contains_key(*flag))
    };
    let of_all = added.flags.keys().filter(is_known);
    let rows = added.subcommands.iter();
    let of_rows = rows.flat_map(|row| {
        let known = |flag: &&String| {
            row.names
                .iter()
                .any(|name| base.fact(Some(name), flag).is_some())
        };
        row.flags.keys().filter(known)
    });
    for flag in of_all.chain(of_rows) {
        let message = format!(
            "what `{flag}` takes is known here already; a policy adds flags that are not, and changes none"
        );
        r.problem(node.line, message);
    }
    let mut grammar = base.clone();
    grammar.flags.extend(added.flags);
    grammar.subcommands.extend(added.subcommands);
    grammar.deny_tokens.extend(added.deny_tokens);
    grammar
}

/// Reads the keys of a tool into its grammar.
fn fill(r: &mut FieldReader<'_>, grammar: &mut ToolGrammar, fields: &[YamlField], known: &[&str]) {
    for field in fields {
        let key = field.key.as_str();
        r.under(key, |r| {
            if !known.contains(&key) {
                r.problem(field.line, unknown_key([known, &[]], "a grammar"));
                return;
            }
            let _ = truth_key(r, grammar, field)
                || words_key(r, grammar, field)
                || map_key(r, grammar, field)
                || choice_key(r, grammar, field);
        });
    }
    let flags = flags(r, grammar, fields);
    grammar.flags.extend(flags);
    for field in fields.iter().filter(|field| field.key == "subcommands") {
        let rows = r.under(&field.key, |r| subcommands(r, grammar, &field.node, known));
        grammar.subcommands.extend(rows);
    }
}

fn truth_key(r: &mut FieldReader<'_>, grammar: &mut ToolGrammar, field: &YamlField) -> bool {
    let place = match field.key.as_str() {
        "negations" => &mut grammar.negations,
        "dashed_values" => &mut grammar.dashed_values,
        "clusters" => &mut grammar.clusters,
        "needs_subcommand" => &mut grammar.needs_subcommand,
        "root_flags" => &mut grammar.root_flags,
        "idle" => &mut grammar.idle,
        "flags_end" => &mut grammar.flags_end,
        "bare_flags" => &mut grammar.bare_flags,
        "greedy" => &mut grammar.greedy,
        "slashes" => &mut grammar.slashes,
        _ => return false,
    };
    if let Some(truth) = r.truth(&field.node) {
        *place = truth;
    }
    true
}

fn words_key(r: &mut FieldReader<'_>, grammar: &mut ToolGrammar, field: &YamlField) -> bool {
    match field.key.as_str() {
        "script_flags" => grammar.script_flags = Some(words(r, &field.node)),
        "last_flags" => grammar.last_flags = words(r, &field.node),
        "deny_tokens" => grammar.deny_tokens = words(r, &field.node),
        "information" => grammar.information = words(r, &field.node),
        "line_ranges" => grammar.line_ranges = words(r, &field.node),
        "project_programs" => grammar.project_programs = r.text(&field.node),
        _ => return false,
    }
    true
}

fn map_key(r: &mut FieldReader<'_>, grammar: &mut ToolGrammar, field: &YamlField) -> bool {
    match field.key.as_str() {
        "aliases" => grammar.aliases = names(r, &field.node, |name| name.to_owned()),
        "spellings" => {
            let long = |name: &str| format!("--{}", name.trim_start_matches('-'));
            grammar.spellings = names(r, &field.node, long);
        }
        "values" => {
            for flag in r.fields(&field.node) {
                let words = r.under(&flag.key, |r| names(r, &flag.node, |name| name.to_owned()));
                let words = words.into_iter().collect();
                grammar.values.insert(flag.key.clone(), words);
            }
        }
        "environment" => grammar.environment = r.variables(&field.node),
        _ => return false,
    }
    true
}

fn choice_key(r: &mut FieldReader<'_>, grammar: &mut ToolGrammar, field: &YamlField) -> bool {
    let word = match &field.node.value {
        YamlValue::Scalar(word, _) => word.as_str(),
        _ => "",
    };
    match (field.key.as_str(), word) {
        ("arguments", "paths") => grammar.arguments = ArgumentSyntax::Paths,
        ("arguments", "texts") => grammar.arguments = ArgumentSyntax::Texts,
        ("arguments", "program") => grammar.arguments = ArgumentSyntax::Program,
        ("arguments", "projects") => grammar.arguments = ArgumentSyntax::Projects,
        ("words", "git") => grammar.words = WordSyntax::Git,
        ("scripts", "direct") => grammar.scripts = Some(ScriptWords::Direct),
        ("scripts", "dashed") => grammar.scripts = Some(ScriptWords::Dashed),
        ("arguments" | "words" | "scripts", _) => {
            let known = match field.key.as_str() {
                "arguments" => "paths, texts, program or projects",
                "words" => "git",
                _ => "direct or dashed",
            };
            let problem = format!("`{word}` is unknown; write {known}");
            r.problem(field.node.line, problem);
        }
        _ => return false,
    }
    true
}

/// Reads the lists of flags among some keys.
fn flags(r: &mut FieldReader<'_>, grammar: &ToolGrammar, fields: &[YamlField]) -> FlagTable {
    let mut table = FlagTable::new();
    for field in fields {
        let takes = match field.key.as_str() {
            "text" => FlagValue::Value(WordReading::Text),
            "path" => FlagValue::Value(WordReading::Path),
            "attached" => FlagValue::Attached(WordReading::Path),
            "attached_text" => FlagValue::Attached(WordReading::Text),
            "none" => FlagValue::Nothing,
            _ => continue,
        };
        r.under(&field.key, |r| {
            for flag in words(r, &field.node) {
                if !is_flag(r, &flag, field.node.line, false) {
                    continue;
                }
                // Of the spellings of a flag, the table has the one that they stand for.
                let name = match grammar.flag_word(&flag).filter(|_| grammar.slashes) {
                    Some(word) => word.name.into_owned(),
                    None => flag,
                };
                let fact = FlagFact {
                    takes: takes.clone(),
                    takes_dashed: grammar.dashed_values,
                };
                if let Some((twice, _)) = table.get_key_value(&name) {
                    r.problem(field.node.line, format!("`{twice}` stands here twice"));
                }
                table.insert(name, fact);
            }
        });
    }
    table
}

fn subcommands(
    r: &mut FieldReader<'_>,
    grammar: &ToolGrammar,
    node: &YamlNode,
    known: &[&str],
) -> Vec<SubcommandGrammar> {
    // In a policy, `arguments` of the sub-command says how words are read.
    let own: &[&str] = if known.contains(&"words") {
        &["script_flags"]
    } else {
        &[]
    };
    let mut rows = Vec::new();
    for field in r.fields(node) {
        let row = r.under(&field.key, |r| {
            let fields = r.fields(&field.node);
            let mut row = SubcommandGrammar {
                names: field.key.split_whitespace().map(str::to_owned).collect(),
                flags: flags(r, grammar, fields),
                script_flags: None,
            };
            for field in fields {
                match field.key.as_str() {
                    key if FLAGS.contains(&key) && known.contains(&key) => {}
                    "script_flags" if !own.is_empty() => {
                        row.script_flags = Some(words(r, &field.node));
                    }
                    _ => r.problem(field.line, unknown_key([FLAGS, own], "a sub-command")),
                }
            }
            row
        });
        rows.push(row);
    }
    rows
}

/// Reads words: a text with blanks between them, or a list.
fn words(r: &mut FieldReader<'_>, node: &YamlNode) -> Vec<String> {
    match &node.value {
        YamlValue::List(_) => r.texts(node),
        _ => {
            let text = r.text(node).unwrap_or_default();
            text.split_whitespace().map(str::to_owned).collect()
        }
    }
}

/// Reads other names of things: from each to the one that it stands for.
fn names(
    r: &mut FieldReader<'_>,
    node: &YamlNode,
    name: impl Fn(&str) -> String,
) -> BTreeMap<String, String> {
    let mut others = BTreeMap::new();
    for field in r.fields(node) {
        r.under(&field.key, |r| {
            for other in words(r, &field.node) {
                if others.insert(name(&other), field.key.clone()).is_some() {
                    r.problem(field.line, format!("`{other}` stands here twice"));
                }
            }
        });
    }
    others
}
