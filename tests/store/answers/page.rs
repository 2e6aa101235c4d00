//! `docs/JSON.md`, read: the codes of failures, and what each object may have.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

/// A field of an object.
pub(crate) struct Field {
    pub(crate) name: String,
    kind: String,
    optional: bool,
}

/// The page.
pub(crate) struct Page {
    objects: BTreeMap<String, Vec<Field>>,
    failures: BTreeMap<String, i32>,
    pub(crate) kinds: BTreeMap<i32, String>,
}

impl Page {
    pub(crate) fn read() -> Page {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/JSON.md");
        let text = fs::read_to_string(path).unwrap();
        let mut page = Page {
            objects: BTreeMap::new(),
            failures: BTreeMap::new(),
            kinds: BTreeMap::new(),
        };
        let mut object = String::new();
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("### ") {
                object = heading.to_owned();
            } else if line.starts_with("## ") {
                object.clear();
            } else if let Some(fields) = line.strip_prefix("    ") {
                page.fields(&object, fields);
            } else if let Some(row) = line.strip_prefix("| ").and_then(|l| l.strip_suffix(" |")) {
                page.row(&row.split(" | ").map(str::trim).collect::<Vec<_>>());
            }
        }
        assert!(page.failures.len() > 15 && page.objects.len() > 20 && page.kinds.len() == 6);
        page
    }

    /// Reads a row of the table of exit codes, or of that of failures.
    fn row(&mut self, cells: &[&str]) {
        match cells {
            [number, kind, _] if number.len() == 1 && kind.starts_with('`') => {
                let kind = kind.trim_matches('`').to_owned();
                self.kinds.insert(number.parse().unwrap(), kind);
            }
            [failure, number] => {
                if let Ok(number) = number.parse() {
                    self.failures.insert((*failure).to_owned(), number);
                }
            }
            _ => {}
        }
    }

    /// Reads a line of fields: `name, other?: kind // meaning`.
    fn fields(&mut self, object: &str, line: &str) {
        let declared = line.split(" // ").next().unwrap_or(line);
        let (names, kind) = declared
            .split_once(": ")
            .unwrap_or_else(|| panic!("docs/JSON.md: no field: {line:?}"));
        assert!(!object.is_empty(), "docs/JSON.md: no object has {line:?}");
        let fields = self.objects.entry(object.to_owned()).or_default();
        for name in names.split(", ") {
            fields.push(Field {
                name: name.trim_end_matches('?').to_owned(),
                kind: kind.to_owned(),
                optional: name.ends_with('?'),
            });
        }
    }

    /// The exit code that the page has for a failure.
    #[track_caller]
    pub(crate) fn exit(&self, failure: &str) -> i32 {
        let code = self.failures.get(failure);
        *code.unwrap_or_else(|| panic!("docs/JSON.md has no failure {failure:?}"))
    }

    pub(crate) fn failures(&self) -> impl Iterator<Item = &str> {
        self.failures.keys().map(String::as_str)
    }

    /// Says what an object has that the page has not, or has otherwise.
    pub(crate) fn compare(&self, name: &str, value: &Value) -> Result<(), String> {
        let fields = self.objects.get(name);
        let fields = fields.ok_or_else(|| format!("docs/JSON.md has no object {name:?}"))?;
        let object = value.as_object();
        let object = object.ok_or_else(|| format!("{name}: not an object: {value}"))?;
        let open = fields.iter().any(|field| field.name == "…");
        for key in object.keys() {
            if !open && !fields.iter().any(|field| field.name == *key) {
                return Err(format!("{name}: {key:?} is not in docs/JSON.md: {value}"));
            }
        }
        for field in fields.iter().filter(|field| field.name != "…") {
            match object.get(&field.name) {
                None if field.optional => {}
                None => return Err(format!("{name}: no {:?} in {value}", field.name)),
                Some(found) => self
                    .fits(&field.kind, found)
                    .map_err(|why| format!("{name}.{}: {why}", field.name))?,
            }
        }
        Ok(())
    }

    fn fits(&self, kind: &str, value: &Value) -> Result<(), String> {
        if let Some(kind) = kind.strip_suffix("|null") {
            return if value.is_null() {
                Ok(())
            } else {
                self.fits(kind, value)
            };
        }
        if let Some(of) = kind.strip_suffix("[]") {
            let list = value
                .as_array()
                .ok_or_else(|| format!("no list: {value}"))?;
            return list.iter().try_for_each(|one| self.fits(of, one));
        }
        let text = value.as_str().unwrap_or_default();
        let fits = match kind {
            "boolean" => value.is_boolean(),
            "number" => value.is_u64(),
            "text" => value.is_string(),
            "list" => value.is_array(),
            "object" => value.is_object(),
            "session" => is_session(text),
            "operation" => is_operation(text),
            "point" => text == "now" || is_operation(text),
            "path" => text.starts_with('/'),
            "time" => chrono::DateTime::parse_from_rfc3339(text).is_ok(),
            name => return self.compare(name, value),
        };
        match fits {
            true => Ok(()),
            false => Err(format!("no {kind}: {value}")),
        }
    }
}

/// `20260116T101530.123456Z-1a2b`
fn is_session(text: &str) -> bool {
    let Some((time, salt)) = text.split_once('-') else {
        return false;
    };
    chrono::NaiveDateTime::parse_from_str(time, "%Y%m%dT%H%M%S%.6fZ").is_ok()
        && salt.len() == 4
        && salt.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_operation(text: &str) -> bool {
    let parts = text.split_once(':');
    parts.is_some_and(|(session, number)| is_session(session) && number.parse::<u64>().is_ok())
}
