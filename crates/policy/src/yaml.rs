//! The text of a policy file as a tree in which every key and value knows its line.
//!
//! Strict: a duplicate key, an anchor, an alias, a tag, a directive and a second document are errors. A policy must say
//! the same to its reader as to this program, and these are the ways in which YAML does not.

use granit_parser::{Event, Options, Parser, ScalarStyle, Span};

use super::error::PolicyError;

/// The longest file that is read, in bytes.
pub(super) const LONGEST: usize = 1 << 20;

/// The greatest depth of nested values.
const DEEPEST: usize = 16;

/// A value and the line that it begins in.
#[derive(Debug, Clone)]
pub(super) struct YamlNode {
    pub(super) line: usize,
    pub(super) value: YamlValue,
}

/// A value.
#[derive(Debug, Clone)]
pub(super) enum YamlValue {
    /// A scalar, and whether it is plain: `true` is a truth value and `"true"` is a text.
    Scalar(String, bool),
    List(Vec<YamlNode>),
    Map(Vec<YamlField>),
}

/// A key of a map, its line, and its value.
#[derive(Debug, Clone)]
pub(super) struct YamlField {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) node: YamlNode,
}

impl YamlNode {
    /// Returns whether nothing stands where a value could.
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.value, YamlValue::Scalar(text, true) if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }
}

/// Reads a file's text. A file without a value has none.
///
/// # Errors
/// The fault, with its line.
pub(super) fn read(text: &[u8], file: &str) -> Result<Option<YamlNode>, PolicyError> {
    if text.len() > LONGEST {
        let message = format!("the file has more than {LONGEST} bytes; a policy is shorter");
        return Err(PolicyError::whole(file, message));
    }
    let text = std::str::from_utf8(text).map_err(|error| {
        let before = text.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        PolicyError {
            line: Some(line),
            ..PolicyError::whole(file, "the text is not UTF-8")
        }
    })?;
    let mut options = Options::default();
    options.strict_indentation = true;
    options.disallow_directives = true;
    options.flow_nesting_limit = DEEPEST;
    options.block_nesting_limit = DEEPEST;
    let mut reader = YamlReader {
        parser: Parser::new_from_str_with_options(text, options),
        file,
        path: Vec::new(),
    };
    reader.stream()
}

struct YamlReader<'t> {
    parser: Parser<'t, granit_parser::StrInput<'t>>,
    file: &'t str,
    /// The keys above what is being read.
    path: Vec<String>,
}

impl<'t> YamlReader<'t> {
    fn error(&self, line: usize, message: impl Into<String>) -> PolicyError {
        PolicyError {
            file: self.file.to_owned(),
            line: Some(line),
            key: (!self.path.is_empty()).then(|| self.path.join(".")),
            message: message.into(),
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), PolicyError> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let line = error.marker().line();
                Err(self.error(line, format!("no YAML: {}", error.info())))
            }
            None => Err(self.error(1, "no YAML: the text ends early")),
        }
    }

    /// Reads the one document of a file.
    fn stream(&mut self) -> Result<Option<YamlNode>, PolicyError> {
        let mut found = None;
        loop {
            let (event, span) = self.next()?;
            let line = span.start.line();
            match event {
                Event::StreamStart | Event::DocumentEnd => {}
                Event::StreamEnd => return Ok(found.filter(|node: &YamlNode| !node.is_null())),
                Event::DocumentStart(..) if found.is_some() => {
                    return Err(self.error(line, "a second document; a policy is one"));
                }
                Event::DocumentStart(..) => {
                    let (event, span) = self.next()?;
                    found = Some(self.node(event, span)?);
                }
                _ => return Err(self.error(line, "no YAML: a value beside the document")),
            }
        }
    }

    fn node(&mut self, event: Event<'t>, span: Span) -> Result<YamlNode, PolicyError> {
        let line = span.start.line();
        if event.anchor_id().is_some_and(|id| id != 0) {
            return Err(self.error(line, "anchors and aliases are not read: write it out"));
        }
        if event.tag().is_some() {
            return Err(self.error(line, "tags are not read: leave it out"));
        }
        let value = match event {
            Event::Scalar(text, style, ..) => {
                YamlValue::Scalar(text.into_owned(), style == ScalarStyle::Plain)
            }
            Event::SequenceStart(..) => self.list()?,
            Event::MappingStart(..) => self.map()?,
            Event::Alias(_) => {
                return Err(self.error(line, "anchors and aliases are not read: write it out"));
            }
            _ => return Err(self.error(line, "no YAML: a value is missing")),
        };
        Ok(YamlNode { line, value })
    }

    fn list(&mut self) -> Result<YamlValue, PolicyError> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(YamlValue::List(items));
            }
            items.push(self.node(event, span)?);
        }
    }

    fn map(&mut self) -> Result<YamlValue, PolicyError> {
        let mut fields: Vec<YamlField> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(YamlValue::Map(fields));
            }
            let line = span.start.line();
            let YamlValue::Scalar(key, _) = self.node(event, span)?.value else {
                return Err(self.error(line, "a key is one word"));
            };
            self.path.push(key.clone());
            if let Some(first) = fields.iter().find(|field| field.key == key) {
                let message = format!("the key stands here twice, first in line {}", first.line);
                return Err(self.error(line, message));
            }
            let (event, span) = self.next()?;
            let node = self.node(event, span)?;
            self.path.pop();
            fields.push(YamlField { key, line, node });
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        read(text.as_bytes(), "p.yaml").unwrap_err().to_string()
    }

    #[test]
    fn what_yaml_hides_is_an_error_with_its_line() {
        for (text, said) in [
            (
                "a:\n  b: 1\n  b: 2\n",
                "p.yaml:3: a.b: the key stands here twice, first in line 2",
            ),
            ("a: &x 1\nb: *x\n", "p.yaml:1: a: anchors and aliases"),
            ("a: !!str 1\n", "p.yaml:1: a: tags are not read"),
            ("a: 1\n---\nb: 2\n", "p.yaml:2: a second document"),
            ("%YAML 1.2\n---\na: 1\n", "p.yaml:1: no YAML"),
            ("a:\n  - b\n c: d\n", "p.yaml:3: no YAML"),
            ("? [a]\n: b\n", "p.yaml:1: a key is one word"),
            ("a: 'b\n", "p.yaml:"),
        ] {
            assert!(message(text).starts_with(said), "{text}: {}", message(text));
        }
        let error = read(b"a: 1\nb: \xff\n", "p.yaml").unwrap_err();
        assert_eq!(error.to_string(), "p.yaml:2: the text is not UTF-8");
    }

    #[test]
    fn depth_and_length_have_a_limit() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(message(&deep).starts_with("p.yaml:1: no YAML"));
        let long = vec![b'#'; LONGEST + 1];
        assert!(read(&long, "p").unwrap_err().message.contains("bytes"));
    }

    #[test]
    fn an_empty_file_has_no_value() {
        for text in ["", "# only words\n", "---\n", "~\n"] {
            assert!(read(text.as_bytes(), "p").unwrap().is_none(), "{text:?}");
        }
    }

    #[test]
    fn lines_are_those_of_the_file() {
        let node = read(b"# x\n\na:\n  - b\n  -   c\n", "p").unwrap().unwrap();
        let YamlValue::Map(fields) = node.value else {
            panic!("no map")
        };
        let YamlValue::List(items) = &fields.first().unwrap().node.value else {
            panic!("no list")
        };
        let lines: Vec<usize> = items.iter().map(|item| item.line).collect();
        assert_eq!((fields.first().unwrap().line, lines), (3, vec![4, 5]));
    }
}
