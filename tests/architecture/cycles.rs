//! Finds cycles among files: files that need each other, directly or through others.
//!
//! A file needs the file that *defines* what it names. A path (in a `use` or in the code) is followed through
//! modules, `use … as` and re-exports until a definition is found. So a `mod` line or a re-export in a `mod.rs` is
//! only a signpost; code in a `mod.rs` that uses its children counts. A method called on a value names no file: it
//! belongs to the type, wherever its `impl` is.

use std::collections::{BTreeMap, BTreeSet};

use super::{is_word, places};

/// A file's path below `src/`, and its code without comments, literals and tests.
pub(super) type File<'a> = (&'a str, &'a str);

/// Which file needs which, and by what names.
pub(super) type Needs = BTreeMap<(usize, usize), BTreeSet<String>>;

/// How many signposts are followed before a path is taken to lead in a circle itself.
const SIGNPOSTS: usize = 16;

/// What a `use` makes known in a file.
struct Import {
    /// The name by which it is known, `*` for all that the path has.
    name: String,
    path: Vec<String>,
    /// Whether others may take it from here.
    is_public: bool,
}

struct Module {
    /// The path of modules to it, from the crate's root.
    path: Vec<String>,
    definitions: BTreeSet<String>,
    imports: Vec<Import>,
    /// Its code, without `use` and `mod` lines.
    body: String,
}

/// Where a path leads.
enum Target {
    /// To a module: nothing of it has been named yet.
    Module(usize),
    /// To what a file defines.
    Item(usize),
}

struct House {
    modules: Vec<Module>,
    by_path: BTreeMap<Vec<String>, usize>,
}

/// Returns which of these files need which others.
pub(super) fn needs(files: &[File<'_>]) -> Needs {
    let modules: Vec<Module> = files
        .iter()
        .map(|(path, code)| module(path, code))
        .collect();
    let by_path = modules
        .iter()
        .enumerate()
        .map(|(index, module)| (module.path.clone(), index))
        .collect();
    let house = House { modules, by_path };
    let mut needs = Needs::new();
    for (from, module) in house.modules.iter().enumerate() {
        let mut note = |path: &[String], target: Option<Target>| {
            if let Some(Target::Item(to)) = target
                && to != from
            {
                let name = path.last().cloned().unwrap_or_default();
                needs.entry((from, to)).or_default().insert(name);
            }
        };
        for import in &module.imports {
            let is_used = places(&module.body, &import.name).next().is_some();
            if import.name == "*" {
                let Some(Target::Module(all)) = house.follow(from, &import.path, true, SIGNPOSTS)
                else {
                    continue;
                };
                for word in words(&module.body) {
                    note(
                        &[word.to_owned()],
                        house.member(all, word, false, SIGNPOSTS),
                    );
                }
            } else if is_used || !import.is_public {
                note(
                    &import.path,
                    house.follow(from, &import.path, false, SIGNPOSTS),
                );
            }
        }
        for path in paths(&module.body) {
            note(&path, house.follow(from, &path, false, SIGNPOSTS));
        }
    }
    needs
}

/// Returns the circles: sets of files each of which needs each other one, at least through others.
pub(super) fn circles(count: usize, needs: &Needs) -> Vec<BTreeSet<usize>> {
    let reach: Vec<BTreeSet<usize>> = (0..count)
        .map(|start| {
            let mut seen = BTreeSet::new();
            let mut next = vec![start];
            while let Some(from) = next.pop() {
                for (_, to) in needs
                    .range((from, 0)..=(from, usize::MAX))
                    .map(|(arrow, _)| *arrow)
                {
                    if seen.insert(to) {
                        next.push(to);
                    }
                }
            }
            seen
        })
        .collect();
    let circles: BTreeSet<BTreeSet<usize>> = (0..count)
        .filter(|file| reach[*file].contains(file))
        .map(|file| {
            let back = |other: &usize| reach[*other].contains(&file);
            reach[file].iter().copied().filter(back).collect()
        })
        .collect();
    circles.into_iter().collect()
}

/// Says of each circle which files are in it and what ties them.
pub(super) fn told(files: &[File<'_>]) -> Vec<(Vec<String>, String)> {
    let needs = needs(files);
    let circles = circles(files.len(), &needs);
    let tell = |circle: &BTreeSet<usize>| {
        let members = circle
            .iter()
            .map(|file| files[*file].0.to_owned())
            .collect();
        let ties: Vec<String> = needs
            .iter()
            .filter(|((from, to), _)| circle.contains(from) && circle.contains(to))
            .map(|((from, to), names)| {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                format!(
                    "    src/{} → src/{}: {}",
                    files[*from].0,
                    files[*to].0,
                    names.join(", ")
                )
            })
            .collect();
        (members, ties.join("\n"))
    };
    circles.iter().map(tell).collect()
}

impl House {
    /// Follows a path that stands in a file. Where `more` follows, a module is looked for.
    fn follow(&self, from: usize, path: &[String], more: bool, signposts: usize) -> Option<Target> {
        let signposts = signposts.checked_sub(1)?;
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" | "trumanfs" => vec![],
            "self" => self.modules[from].path.clone(),
            "super" => self.parent(from)?,
            _ => match self.known(from, first, more || !rest.is_empty(), signposts)? {
                Target::Module(module) => self.modules[module].path.clone(),
                item => return Some(item),
            },
        };
        while let Some((name, others)) = rest.split_first() {
            rest = others;
            let Some(module) = self.by_path.get(&at).copied() else {
                at.push(name.clone());
                continue;
            };
            match name.as_str() {
                "self" => {}
                "super" => at = self.parent(module)?,
                _ => match self.member(module, name, more || !rest.is_empty(), signposts) {
                    Some(Target::Module(module)) => at = self.modules[module].path.clone(),
                    // What a macro makes, or what is not looked for, is where its path says.
                    None => return Some(Target::Item(module)),
                    item => return item,
                },
            }
        }
        self.by_path.get(&at).map(|module| Target::Module(*module))
    }

    /// Finds out what the first name of a path is in a module.
    fn known(&self, module: usize, name: &str, more: bool, signposts: usize) -> Option<Target> {
        let own = self.own(module, name, more);
        own.or_else(|| {
            let mut imports = self.modules[module].imports.iter();
            // `use name as other` makes nothing known by the name itself.
            let import = imports.find(|import| import.name == name && import.path != [name])?;
            self.follow(module, &import.path, more, signposts)
        })
    }

    /// Finds out what a name is that is looked for in a module from elsewhere.
    fn member(&self, module: usize, name: &str, more: bool, signposts: usize) -> Option<Target> {
        let known = self.known(module, name, more, signposts);
        known.or_else(|| {
            let all = self.modules[module].imports.iter();
            let mut all = all.filter(|import| import.name == "*");
            all.find_map(
                |import| match self.follow(module, &import.path, true, signposts)? {
                    Target::Module(other) => self.member(other, name, more, signposts - 1),
                    item => Some(item),
                },
            )
        })
    }

    /// Returns what a name is of which a module is the home: one of its modules, or its own definition.
    fn own(&self, module: usize, name: &str, more: bool) -> Option<Target> {
        let here = &self.modules[module];
        let mut child = here.path.clone();
        child.push(name.to_owned());
        let is_defined = here.definitions.contains(name);
        match self.by_path.get(&child) {
            // A function may have the name of a module; where more follows, the module is meant.
            Some(child) if more || !is_defined => Some(Target::Module(*child)),
            _ => is_defined.then_some(Target::Item(module)),
        }
    }

    fn parent(&self, module: usize) -> Option<Vec<String>> {
        let (_, parent) = self.modules[module].path.split_last()?;
        Some(parent.to_vec())
    }
}

fn module(path: &str, code: &str) -> Module {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    let path: Vec<String> = match path {
        "lib" => Vec::new(),
        path => path.split('/').map(str::to_owned).collect(),
    };
    let (imports, body) = imports(code);
    Module {
        path,
        definitions: definitions(code),
        imports,
        body,
    }
}

/// The names that a file defines, but for those in its `impl` blocks, functions and modules.
fn definitions(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for keyword in [
        "fn",
        "struct",
        "enum",
        "trait",
        "type",
        "const",
        "static",
        "union",
        "macro_rules!",
        "mod",
    ] {
        for at in places(code, keyword) {
            let rest = code[at + keyword.len()..].trim_start();
            let rest = rest.strip_prefix("mut ").unwrap_or(rest);
            let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
            let is_elsewhere = keyword == "mod" && rest[name.len()..].trim_start().starts_with(';');
            let before = &code[..at];
            let is_inside = before.matches('{').count() > before.matches('}').count();
            if !name.is_empty() && !is_elsewhere && !is_inside {
                found.insert(name);
            }
        }
    }
    found
}

/// Takes the `use` and `mod` lines out of a file's code.
fn imports(code: &str) -> (Vec<Import>, String) {
    let mut imports = Vec::new();
    let mut body = String::new();
    let mut rest = code;
    while let Some(at) = places(rest, "use").next() {
        let statement = &rest[at..];
        let end = statement.find(';').unwrap_or(statement.len());
        let before = &rest[..at];
        let line = &before[before.rfind(['\n', ';', '}', '{']).map_or(0, |k| k + 1)..];
        let is_public = line.trim_start().starts_with("pub");
        // `+ use<'a>` of a return type is no import.
        if !statement["use".len()..].trim_start().starts_with('<') {
            let tree: String = statement["use".len()..end]
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            leaves(&tree, &[], &mut |name, path| {
                imports.push(Import {
                    name,
                    path,
                    is_public,
                });
            });
        }
        body.push_str(before);
        rest = &rest[at + end..];
    }
    body.push_str(rest);
    let is_signpost = |line: &&str| {
        let declared = line
            .trim()
            .strip_suffix(';')
            .and_then(|line| line.rsplit_once("mod "));
        declared.is_some_and(|(before, name)| {
            (before.is_empty() || before.starts_with("pub")) && name.chars().all(is_word)
        })
    };
    let body: Vec<&str> = body.lines().filter(|line| !is_signpost(line)).collect();
    (imports, body.join("\n"))
}

/// Gives out each leaf of a `use` tree: the name it makes known, and its path.
fn leaves(tree: &str, prefix: &[String], found: &mut impl FnMut(String, Vec<String>)) {
    let tree = tree.trim();
    if tree.is_empty() {
        return;
    }
    if let Some((start, group)) = tree.split_once('{') {
        let mut prefix = prefix.to_vec();
        prefix.extend(segments(start));
        let group = &group[..group.rfind('}').unwrap_or(group.len())];
        let (mut depth, mut from) = (0, 0);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    leaves(&group[from..at], &prefix, found);
                    from = at + 1;
                }
                _ => {}
            }
        }
        leaves(&group[from..], &prefix, found);
        return;
    }
    let (path, alias) = tree
        .split_once(" as ")
        .map_or((tree, None), |(path, alias)| (path, Some(alias)));
    let mut whole = prefix.to_vec();
    whole.extend(segments(path));
    if whole
        .last()
        .is_some_and(|last| last == "self" || last == "*")
    {
        let last = whole.pop();
        if last.as_deref() == Some("*") {
            return found("*".to_owned(), whole);
        }
    }
    let name = alias
        .map(|alias| alias.trim().to_owned())
        .or_else(|| whole.last().cloned());
    if let Some(name) = name {
        found(name, whole);
    }
}

fn segments(path: &str) -> impl Iterator<Item = String> + '_ {
    path.split("::")
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
}

/// The paths of more than one name that stand in code.
fn paths(code: &str) -> Vec<Vec<String>> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(from) = code[at..].find("::").map(|k| at + k) {
        let start = code[..from]
            .rfind(|c: char| !is_word(c))
            .map_or(0, |k| k + 1);
        let mut names = vec![code[start..from].to_owned()];
        let mut end = from;
        while bytes.get(end..end + 2) == Some(b"::") {
            let name: String = code[end + 2..]
                .chars()
                .take_while(|c| is_word(*c))
                .collect();
            end += 2 + name.len();
            if name.is_empty() {
                break;
            }
            names.push(name);
        }
        // `<T>::f` and `a.b::<T>()` start with no name of a module.
        let before = code[..start].chars().next_back();
        if names.len() > 1 && !names[0].is_empty() && before != Some('.') {
            found.push(names);
        }
        at = end.max(from + 2);
    }
    found
}

/// The words of code, each once.
fn words(code: &str) -> BTreeSet<&str> {
    code.split(|c| !is_word(c))
        .filter(|word| !word.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(files: &[File<'_>]) -> Vec<Vec<String>> {
        told(files)
            .into_iter()
            .map(|(members, _)| members)
            .collect()
    }

    #[test]
    fn files_that_need_each_other_are_found() {
        let direct = [
            ("a/x.rs", "use super::y::Y;"),
            ("a/y.rs", "pub struct Y; fn f() { crate::a::x::g() }"),
        ];
        assert_eq!(members(&direct), [["a/x.rs", "a/y.rs"]]);
        let (_, ties) = &told(&direct)[0];
        assert_eq!(
            ties,
            "    src/a/x.rs → src/a/y.rs: Y\n    src/a/y.rs → src/a/x.rs: g"
        );
        let through_others = [
            ("a/x.rs", "use crate::{a::{y::{self, Z}}};"),
            ("a/y.rs", "pub struct Z; use super::z::deep;"),
            ("a/z.rs", "pub fn deep() { super::x::back::<u8>() }"),
            ("a/alone.rs", "use super::x::back;"),
        ];
        assert_eq!(members(&through_others), [["a/x.rs", "a/y.rs", "a/z.rs"]]);
        // Through the name of a module, another name for it, and a path in the code alone.
        let by_module = [
            ("a/x.rs", "use super::y as other; fn f() { other::g() }"),
            ("a/y.rs", "fn g() { super::x::f() }"),
        ];
        assert_eq!(members(&by_module).len(), 1);
        let one_way = [
            ("a/x.rs", "use super::y as other;"),
            ("a/y.rs", "fn g() { super::x::f() }"),
        ];
        assert!(members(&one_way).is_empty(), "nothing of it is used");
    }

    #[test]
    fn a_signpost_is_followed_and_is_no_need_by_itself() {
        let face = "mod x; mod y; pub use x::X; pub use y::{Y, f as g}; pub use x::deep::*;";
        let by_face = [
            ("a/mod.rs", face),
            ("a/x.rs", "use super::Y; pub struct X;"),
            ("a/y.rs", "pub struct Y; fn f() {}"),
        ];
        assert!(members(&by_face).is_empty());
        let circle = [
            by_face[0],
            by_face[1],
            ("a/y.rs", "pub struct Y; fn f() { super::X; }"),
        ];
        assert_eq!(members(&circle), [["a/x.rs", "a/y.rs"]]);
        let renamed = [
            by_face[0],
            ("a/x.rs", "fn h() { crate::a::g() }"),
            ("a/y.rs", "fn f() { super::x::h() }"),
        ];
        assert_eq!(members(&renamed), [["a/x.rs", "a/y.rs"]]);
        let of_all = [
            by_face[0],
            by_face[1],
            ("a/x/deep.rs", "pub fn low() {}"),
            ("a/y.rs", "pub struct Y; use super::low;"),
        ];
        assert!(members(&of_all).is_empty());
        let back = [
            by_face[0],
            by_face[1],
            ("a/x/deep.rs", "pub fn low() { super::X }"),
            ("a/y.rs", "pub struct Y; use super::low;"),
        ];
        assert_eq!(members(&back), [["a/x.rs", "a/x/deep.rs", "a/y.rs"]]);
    }

    #[test]
    fn a_face_that_does_something_is_a_file_like_others() {
        let child = ("a/x.rs", "use super::State; pub fn f(s: State) {}");
        let uses = [
            (
                "a/mod.rs",
                "mod x; pub use x::f; struct State; fn g() { f(State) }",
            ),
            child,
        ];
        assert_eq!(members(&uses), [["a/mod.rs", "a/x.rs"]]);
        let calls = [
            ("a/mod.rs", "mod x; struct State; fn g() { x::f(State) }"),
            child,
        ];
        assert_eq!(members(&calls), [["a/mod.rs", "a/x.rs"]]);
        let hands_on = [("a/mod.rs", "mod x; pub use x::f; struct State;"), child];
        assert!(members(&hands_on).is_empty());
        let of_a_type = [
            ("a/mod.rs", "mod x; struct State; fn g(s: State) { s.f() }"),
            child,
        ];
        assert!(
            members(&of_a_type).is_empty(),
            "a method is the type's, wherever it stands"
        );
    }
}
