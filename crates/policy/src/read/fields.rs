//! Values of the types that keys need: [`FieldReader`], which also collects what is wrong.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::error::{PolicyError, PolicyWarning};
use super::super::schema::{CompiledPattern, EnvVariables};
use super::super::yaml::{YamlField, YamlNode, YamlValue};

/// The longest time limit: a week.
const LONGEST: f64 = 7.0 * 86_400.0;

/// Reads values. What is wrong is noted, and the rest is read on.
#[derive(Debug)]
pub(in super::super) struct FieldReader<'f> {
    file: &'f str,
    /// The keys above what is being read.
    path: Vec<String>,
    pub(in super::super) problems: Vec<PolicyError>,
    pub(in super::super) warnings: Vec<PolicyWarning>,
}

impl<'f> FieldReader<'f> {
    pub(in super::super) fn new(file: &'f str) -> FieldReader<'f> {
        FieldReader {
            file,
            path: Vec::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn said(&self, line: usize, message: impl Into<String>) -> PolicyError {
        PolicyError {
            file: self.file.to_owned(),
            line: Some(line),
            key: (!self.path.is_empty()).then(|| self.path.join(".")),
            message: message.into(),
        }
    }

    /// Notes an error at what is being read.
    pub(in super::super) fn problem(&mut self, line: usize, message: impl Into<String>) {
        let problem = self.said(line, message);
        self.problems.push(problem);
    }

    /// Notes a warning at what is being read.
    pub(in super::super) fn warn(&mut self, line: usize, message: impl Into<String>) {
        let warning = PolicyWarning(self.said(line, message));
        self.warnings.push(warning);
    }

    /// Reads what stands under a key.
    pub(in super::super) fn under<T>(&mut self, key: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(key.to_owned());
        let value = read(self);
        self.path.pop();
        value
    }

    fn expected(&mut self, node: &YamlNode, what: &str) {
        let there = match &node.value {
            _ if node.is_null() => "nothing stands here".to_owned(),
            YamlValue::Scalar(text, _) => format!("`{text}` stands here"),
            YamlValue::List(_) => "a list stands here".to_owned(),
            YamlValue::Map(_) => "a map stands here".to_owned(),
        };
        self.problem(node.line, format!("{there}; {what} is expected"));
    }

    /// A text. What YAML reads as a number or a truth value is none unless it is quoted.
    pub(in super::super) fn text(&mut self, node: &YamlNode) -> Option<String> {
        match &node.value {
            YamlValue::Scalar(text, plain) if !plain || !is_other_type(text) => Some(text.clone()),
            YamlValue::Scalar(text, _) if !node.is_null() => {
                let message = format!("`{text}` is no text; write \"{text}\" where one is meant");
                self.problem(node.line, message);
                None
            }
            _ => {
                self.expected(node, "a text");
                None
            }
        }
    }

    pub(in super::super) fn truth(&mut self, node: &YamlNode) -> Option<bool> {
        match &node.value {
            YamlValue::Scalar(text, true) if text == "true" => Some(true),
            YamlValue::Scalar(text, true) if text == "false" => Some(false),
            _ => {
                self.expected(node, "true or false");
                None
            }
        }
    }

    pub(super) fn number(&mut self, node: &YamlNode) -> Option<u64> {
        let number = match &node.value {
            YamlValue::Scalar(text, true) => text.parse().ok(),
            _ => None,
        };
        if number.is_none() {
            self.expected(node, "a whole number");
        }
        number
    }

    /// A time limit in seconds.
    pub(super) fn seconds(&mut self, node: &YamlNode) -> Option<Duration> {
        let number = match &node.value {
            YamlValue::Scalar(text, true) => text.parse::<f64>().ok(),
            _ => None,
        };
        match number.filter(|n| *n > 0.0 && *n <= LONGEST) {
            Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            None => {
                self.expected(node, "a number of seconds, more than 0 and a week at most,");
                None
            }
        }
    }

    /// A list.
    pub(super) fn items<'n>(&mut self, node: &'n YamlNode) -> &'n [YamlNode] {
        match &node.value {
            YamlValue::List(items) => items,
            _ => {
                self.expected(node, "a list");
                &[]
            }
        }
    }

    pub(in super::super) fn texts(&mut self, node: &YamlNode) -> Vec<String> {
        let items = self.items(node);
        items.iter().filter_map(|item| self.text(item)).collect()
    }

    /// A list in which nothing stands twice and no order means anything.
    pub(super) fn names(&mut self, node: &YamlNode) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for item in self.items(node) {
            if let Some(name) = self.text(item)
                && let Some(again) = names.replace(name)
            {
                self.problem(item.line, format!("`{again}` stands here twice"));
            }
        }
        names
    }

    /// A map; nothing at all is an empty one.
    pub(in super::super) fn fields<'n>(&mut self, node: &'n YamlNode) -> &'n [YamlField] {
        match &node.value {
            YamlValue::Map(fields) => fields,
            _ if node.is_null() => &[],
            _ => {
                self.expected(node, "a map of keys");
                &[]
            }
        }
    }

    /// Variables of an environment.
    pub(in super::super) fn variables(&mut self, node: &YamlNode) -> EnvVariables {
        let mut variables = EnvVariables::new();
        for field in self.fields(node) {
            self.under(&field.key, |r| {
                r.variable_name(&field.key, field.line);
                if let Some(value) = r.text(&field.node) {
                    if value.contains('\0') {
                        r.problem(field.node.line, "a value has no NUL");
                    }
                    variables.insert(field.key.clone(), value);
                }
            });
        }
        variables
    }

    /// Names of variables.
    pub(super) fn variable_names(&mut self, node: &YamlNode) -> BTreeSet<String> {
        let names = self.names(node);
        for name in &names {
            self.variable_name(name, node.line);
        }
        names
    }

    fn variable_name(&mut self, name: &str, line: usize) {
        let is_name = !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
        if !is_name {
            let message = format!("`{name}` is no variable; a name has letters, digits and `_`");
            self.problem(line, message);
        } else if name.starts_with("GIT_CONFIG_") {
            let message = "what version control may be told is pinned by these variables, so no policy sets them";
            self.problem(line, message);
        }
    }

    /// Regular expressions; letters of either case match.
    pub(super) fn patterns(&mut self, node: &YamlNode) -> Vec<CompiledPattern> {
        let mut patterns = Vec::new();
        for item in self.items(node) {
            let Some(text) = self.text(item) else {
                continue;
            };
            // Without Unicode's tables, which this program is built without and its tests are not.
            let syntax = regex_automata::util::syntax::Config::new();
            let syntax = syntax.case_insensitive(true).unicode(false).utf8(false);
            match regex_automata::meta::Regex::builder()
                .syntax(syntax)
                .build(&text)
            {
                Ok(regex) => patterns.push(CompiledPattern { text, regex }),
                Err(_) => self.problem(item.line, format!("`{text}` is no regular expression")),
            }
        }
        patterns
    }
}

/// Returns what to say of a key that may not be there.
pub(in super::super) fn unknown_key(keys: [&[&str]; 2], whose: &str) -> String {
    let mut known: Vec<&str> = keys.concat();
    known.sort_unstable();
    format!("unknown key of {whose}; the keys are {}", known.join(", "))
}

/// Returns whether YAML's core schema reads a plain scalar as something else than a text (YAML 1.2.2, 10.3.2).
fn is_other_type(text: &str) -> bool {
    let is_word = matches!(
        text,
        "" | "~"
            | "null"
            | "Null"
            | "NULL"
            | "true"
            | "True"
            | "TRUE"
            | "false"
            | "False"
            | "FALSE"
    );
    let starts_number = text
        .trim_start_matches(['-', '+', '.'])
        .starts_with(|c: char| c.is_ascii_digit());
    is_word
        || (starts_number
            && (text.parse::<f64>().is_ok() || text.starts_with("0x") || text.starts_with("0o")))
}
