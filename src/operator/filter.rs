//! The filter of records in an operator's request.
//!
//! Owns the conditions and their order: those that a record's header can decide come first, because parsing a record
//! takes ten times as long as scanning it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::Store;
use super::log::ForwardRecords;
use super::point::Point;
use super::run::RunSummary;
use crate::error::{Error, Result};
use crate::journal::RecordHeader;
use crate::name::{WorldPath, unescape};

/// A filter that selects the records that meet all its conditions.
#[derive(Debug, Default)]
pub struct RecordFilter {
    /// The id of their session.
    pub session: Option<String>,
    /// The run that they belong to.
    pub run: Option<RunSummary>,
    /// The process that made them.
    pub pid: Option<u32>,
    /// The program that made them: its name, its file's name, or its file's path.
    pub program: Option<String>,
    /// The pattern of the paths that they concern.
    pub path: Option<PathGlobs>,
    /// The paths that they concern, or that are around what they concern; any where empty.
    pub paths: Vec<WorldPath>,
    /// Their operations; all where empty.
    pub ops: Vec<String>,
    /// The point that they come after.
    pub since: Option<Point>,
    /// The point that they do not come after.
    pub until: Option<Point>,
}

/// A pattern of paths.
#[derive(Debug)]
pub struct PathGlobs {
    globs: GlobSet,
}

impl PathGlobs {
    /// Parses a pattern as `.gitignore` does: without a slash it means a name anywhere, with one a path from the
    /// home; it includes everything below a matching directory. `*` and `?` do not match a slash, `**` does.
    ///
    /// # Errors
    /// [`Error::Usage`] for a malformed pattern.
    pub fn parse(pattern: &str) -> Result<PathGlobs> {
        let bad = |error: globset::Error| {
            Error::usage(
                format!("{pattern:?} is not a pattern: {}", error.kind()),
                "Write it as in .gitignore, such as '*.rs' or '/src/**'; a backslash takes a character's meaning away.",
            )
        };
        let trimmed = pattern.trim_end_matches('/');
        let anchored = match trimmed.strip_prefix('/') {
            Some(rest) => rest.to_owned(),
            None if trimmed.contains('/') => trimmed.to_owned(),
            None => format!("**/{trimmed}"),
        };
        let mut globs = GlobSetBuilder::new();
        let forms = match anchored.as_str() {
            // The home itself: everything.
            "" | "**/." | "." => vec!["**".to_owned()],
            path => vec![path.to_owned(), format!("{path}/**")],
        };
        for form in forms {
            let glob = GlobBuilder::new(&form)
                .literal_separator(true)
                .backslash_escape(true)
                .build();
            globs.add(glob.map_err(bad)?);
        }
        Ok(PathGlobs {
            globs: globs.build().map_err(bad)?,
        })
    }

    /// Returns whether the pattern matches a path as written in a record.
    pub fn matches(&self, escaped: &str) -> bool {
        let escaped = escaped.trim_start_matches('/');
        if !escaped.contains('\\') {
            return self.globs.is_match(escaped);
        }
        unescape(escaped).is_some_and(|bytes| self.globs.is_match(OsStr::from_bytes(&bytes)))
    }
}

impl RecordFilter {
    /// Returns whether the filter selects a record.
    pub fn selects(&self, session: &str, record: &RecordHeader<'_>) -> bool {
        self.is_in_range(session, record.seq)
            && (self.ops.is_empty() || self.ops.iter().any(|op| *op == record.op))
            && self
                .run
                .as_ref()
                .is_none_or(|run| record.origin().run == Some(run.id))
            && self
                .pid
                .is_none_or(|pid| record.pid() == Some(u64::from(pid)))
            && self
                .program
                .as_deref()
                .is_none_or(|program| is_of_program(record, program))
            && self
                .path
                .as_ref()
                .is_none_or(|paths| names_path(record, paths))
            && (self.paths.is_empty() || self.is_below_paths(record))
    }

    /// Opens the journals that may have such records.
    ///
    /// # Errors
    /// As [`ForwardRecords::open`].
    pub fn open<'a>(&self, store: &'a Store) -> Result<ForwardRecords<'a>> {
        let session_of = |point: &Option<Point>| match point {
            Some(Point::After(operation)) => Some(operation.session.clone()),
            _ => None,
        };
        let (mut from, mut until) = (session_of(&self.since), session_of(&self.until));
        if let Some(session) = &self.session {
            from = from.max(Some(session.clone()));
            until = Some(until.map_or_else(|| session.clone(), |until| until.min(session.clone())));
        }
        if let Some(run) = &self.run {
            from = from.max(Some(run.first.session.clone()));
            let last = run.last.session.clone();
            until = Some(until.map_or_else(|| last.clone(), |until| until.min(last.clone())));
        }
        ForwardRecords::between(store, from.as_deref(), until.as_deref())
    }

    fn is_below_paths(&self, record: &RecordHeader<'_>) -> bool {
        record.paths().any(|escaped| {
            let Some(path) = unescape(&escaped) else {
                return false;
            };
            self.paths.iter().any(|top| {
                let rest = path
                    .strip_prefix(b"/")
                    .unwrap_or(&path)
                    .strip_prefix(top.bytes());
                top.is_root() || rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
            })
        })
    }

    fn is_in_range(&self, session: &str, seq: u64) -> bool {
        self.session
            .as_deref()
            .is_none_or(|wanted| wanted == session)
            && self
                .since
                .as_ref()
                .is_none_or(|since| !since.includes(session, seq))
            && self
                .until
                .as_ref()
                .is_none_or(|until| until.includes(session, seq))
    }
}

fn is_of_program(record: &RecordHeader<'_>, program: &str) -> bool {
    let exe = record.exe();
    record.comm() == program || exe == program || exe.rsplit('/').next() == Some(program)
}

fn names_path(record: &RecordHeader<'_>, paths: &PathGlobs) -> bool {
    record.paths().any(|path| paths.matches(&path))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn path_patterns_match_as_in_gitignore() {
        for (pattern, path, fits) in [
            ("*.rs", "/src/main.rs", true),
            ("*.rs", "/src/main.rs/x", true),
            ("*.rs", "/src/main.c", false),
            ("/*.rs", "/src/main.rs", false),
            ("src", "/a/src/b", true),
            ("/src", "/a/src/b", false),
            ("/src/", "/src", true),
            ("src/*.rs", "/src/a.rs", true),
            ("src/*.rs", "/src/deep/a.rs", false),
            ("src/**/a.rs", "/src/deep/er/a.rs", true),
            ("/", "/anything/at all", true),
            ("a[bc]", "/ab", true),
            ("a\\[b", "/a[b", true),
            ("odd*", "/odd\\xff\\x0aname", true),
            ("?", "/\\\\", true),
        ] {
            assert_eq!(
                PathGlobs::parse(pattern).unwrap().matches(path),
                fits,
                "{pattern} and {path}"
            );
        }
        assert!(matches!(PathGlobs::parse("a[b"), Err(Error::Usage { .. })));
    }

    #[test]
    fn header_alone_decides_about_a_record() {
        let line = br#"{"v":1,"seq":7,"time":"2026-01-16T10:15:30.123460Z","op":"rename","path":"/a/b","to":"/c/d","ids":[1,2],"actor":{"pid":12,"uid":1,"gid":1,"comm":"python3","exe":"/usr/bin/python3.14"},"prev":""}"#;
        let header = RecordHeader::of(line).unwrap();
        let wants = |filter: RecordFilter| filter.selects("s", &header);
        let program = |name: &str| RecordFilter {
            program: Some(name.to_owned()),
            ..RecordFilter::default()
        };
        assert!(wants(RecordFilter::default()));
        assert!(
            wants(program("python3"))
                && wants(program("python3.14"))
                && wants(program("/usr/bin/python3.14"))
        );
        assert!(!wants(program("python")) && !wants(program("bin")));
        assert!(wants(RecordFilter {
            pid: Some(12),
            ..RecordFilter::default()
        }));
        assert!(!wants(RecordFilter {
            pid: Some(1),
            ..RecordFilter::default()
        }));
        for pattern in ["/a", "d", "/c/d"] {
            let path = Some(PathGlobs::parse(pattern).unwrap());
            assert!(
                wants(RecordFilter {
                    path,
                    ..RecordFilter::default()
                }),
                "{pattern}"
            );
        }
        let ops = |ops: &[&str]| RecordFilter {
            ops: ops.iter().map(|op| (*op).to_owned()).collect(),
            ..RecordFilter::default()
        };
        assert!(wants(ops(&["unlink", "rename"])) && !wants(ops(&["unlink"])));
        assert!(!wants(RecordFilter {
            session: Some("t".to_owned()),
            ..RecordFilter::default()
        }));
    }
}
