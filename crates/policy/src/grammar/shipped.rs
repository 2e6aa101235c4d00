//! The shipped grammars. That of a tool is read once, when one of its commands is decided.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::super::read::FieldReader;
use super::super::yaml;
use super::files;
use super::read;
use super::tool::{ToolGrammar, UNKNOWN};

/// The grammars that have been read; nothing for a broken one, which tests rule out.
static READ: Mutex<BTreeMap<&str, Option<&ToolGrammar>>> = Mutex::new(BTreeMap::new());

/// Returns the shipped grammar of a tool, [`UNKNOWN`] for a tool without one; nothing if it cannot be read.
pub(in super::super) fn grammar(tool: &str) -> Option<&'static ToolGrammar> {
    static NONE: ToolGrammar = UNKNOWN;
    let Some((name, file)) = files::find(tool) else {
        return Some(&NONE);
    };
    // There are as many as there are tools, so they may stay for good.
    let keep = |grammar| -> &'static ToolGrammar { Box::leak(Box::new(grammar)) };
    let mut read = READ.lock();
    *read.entry(name).or_insert_with(|| {
        let mut reader = FieldReader::new(name);
        let root = yaml::read(file.text.as_bytes(), name).ok()??;
        let grammar = read::tool(&mut reader, &root, name);
        reader.problems.is_empty().then(|| keep(grammar))
    })
}
