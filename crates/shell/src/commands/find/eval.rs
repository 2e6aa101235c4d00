//! Evaluates the expression for one entry.

use std::cell::OnceCell;
use std::io::Write;

use rustix::fs::FileType;

use super::exec::PendingPaths;
use super::parse::{FindExpr, FindPlan};
use super::predicate::{CompareMode, FindTest, TimeSpan};
use super::printf::{PrintFormat, PrintedEntry};
use crate::call::{Call, CommandError, CommandResult};
use trumanfs_executor::home::DirEntry;
use trumanfs_types::error::Error;
use trumanfs_types::meta::Meta;
use trumanfs_types::name::{Name, WorldPath};

/// An entry that the walk visits. Its attributes are looked up at most once, and only where a test needs them.
pub(super) struct VisitedEntry<'a> {
    /// The path as printed, beginning with the starting point as typed.
    pub(super) shown: &'a [u8],
    /// The parent directory; for a starting point, the entry's own path.
    dir: &'a WorldPath,
    /// `None` for a starting point.
    name: Option<&'a [u8]>,
    kind: FileType,
    pub(super) depth: usize,
    meta: OnceCell<Meta>,
}

impl<'a> VisitedEntry<'a> {
    pub(super) fn top(shown: &'a [u8], path: &'a WorldPath, meta: Meta) -> VisitedEntry<'a> {
        VisitedEntry {
            shown,
            dir: path,
            name: None,
            kind: meta.kind,
            depth: 0,
            meta: OnceCell::from(meta),
        }
    }

    pub(super) fn entry(
        shown: &'a [u8],
        dir: &'a WorldPath,
        entry: &'a DirEntry,
        depth: usize,
    ) -> VisitedEntry<'a> {
        VisitedEntry {
            shown,
            dir,
            name: Some(&entry.name),
            kind: entry.kind,
            depth,
            meta: OnceCell::new(),
        }
    }

    pub(super) fn directory(
        shown: &'a [u8],
        dir: &'a WorldPath,
        name: Name<'a>,
        depth: usize,
    ) -> VisitedEntry<'a> {
        VisitedEntry {
            shown,
            dir,
            name: Some(name.bytes()),
            kind: FileType::Directory,
            depth,
            meta: OnceCell::new(),
        }
    }

    pub(super) fn is_dir(&self) -> bool {
        self.kind == FileType::Directory
    }

    pub(super) fn path(&self) -> Result<WorldPath, Error> {
        match self.name {
            Some(name) => Ok(self.dir.join(Name::new(name)?)),
            None => Ok(self.dir.clone()),
        }
    }

    /// Returns the last component as printed, without trailing slashes; for the root, a slash.
    fn base(&self) -> &[u8] {
        let end = self.shown.iter().rposition(|b| *b != b'/');
        let Some(path) = end.and_then(|end| self.shown.get(..=end)) else {
            return b"/";
        };
        path.rsplit(|b| *b == b'/').next().unwrap_or(path)
    }
}

/// A run of `find`.
pub(super) struct FindRun<'a, 'c> {
    pub(super) call: &'a mut Call<'c>,
    pub(super) plan: &'a FindPlan,
    pending_paths: Vec<PendingPaths>,
    status: u8,
    pruned: bool,
    /// The length of the current starting point as typed.
    pub(super) start: usize,
    /// True once the walk has to end (`-quit`).
    pub(super) quit: bool,
}

impl<'a, 'c> FindRun<'a, 'c> {
    pub(super) fn new(call: &'a mut Call<'c>, plan: &'a FindPlan) -> FindRun<'a, 'c> {
        FindRun {
            call,
            plan,
            pending_paths: plan
                .batch_commands
                .iter()
                .map(|_| PendingPaths::default())
                .collect(),
            status: 0,
            pruned: false,
            start: 0,
            quit: false,
        }
    }

    /// Runs the `-exec … +` commands that still have paths waiting. Returns the status.
    pub(super) fn finish(mut self) -> CommandResult {
        for (pending_paths, template) in
            self.pending_paths.iter_mut().zip(&self.plan.batch_commands)
        {
            if !pending_paths.run(template, self.call)? {
                self.status = 1;
            }
        }
        Ok(self.status)
    }

    /// Reports an error for a path; the walk goes on.
    pub(super) fn report_path_error(
        &mut self,
        shown: &[u8],
        error: &Error,
    ) -> Result<(), CommandError> {
        self.status = 1;
        Ok(self.call.report_path_error(shown, error)?)
    }

    /// Evaluates the expression for an entry that is deep enough. Returns whether a directory is pruned.
    pub(super) fn evaluate(&mut self, visit: &VisitedEntry<'_>) -> Result<bool, CommandError> {
        self.pruned = false;
        if visit.depth >= self.plan.min_depth {
            let plan = self.plan;
            self.holds(&plan.expression, visit)?;
        }
        Ok(self.pruned)
    }

    fn holds(
        &mut self,
        expression: &FindExpr,
        visit: &VisitedEntry<'_>,
    ) -> Result<bool, CommandError> {
        // After -quit, the rest of the expression is not evaluated for this entry either.
        if self.quit {
            return Ok(false);
        }
        match expression {
            FindExpr::Test(test) => self.test(test, visit),
            FindExpr::Not(inner) => Ok(!self.holds(inner, visit)?),
            FindExpr::And(all) => {
                for one in all {
                    if !self.holds(one, visit)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            FindExpr::Or(all) => {
                for one in all {
                    if self.holds(one, visit)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            FindExpr::List(all) => {
                let mut last = false;
                for one in all {
                    last = self.holds(one, visit)?;
                }
                Ok(last)
            }
        }
    }

    fn test(&mut self, test: &FindTest, visit: &VisitedEntry<'_>) -> Result<bool, CommandError> {
        Ok(match test {
            FindTest::Constant(value) => *value,
            FindTest::Name(pattern) => pattern.matches(visit.base()),
            FindTest::Path(pattern) => pattern.matches(visit.shown),
            FindTest::Regex(regex) => regex.matches(visit.shown, &self.call.state.deadline)?,
            FindTest::Kind(kinds) => kinds.contains(&visit.kind),
            FindTest::Size(compare, units, unit) => self.meta(visit)?.is_some_and(|meta| {
                let found = meta.size.div_ceil(*unit);
                match compare {
                    CompareMode::Less => found < *units,
                    CompareMode::Same => found == *units,
                    CompareMode::More => found > *units,
                }
            }),
            FindTest::Age(clock, TimeSpan(after, until)) => self.meta(visit)?.is_some_and(|meta| {
                let at = clock.time_of(&meta);
                *after < at && at <= *until
            }),
            FindTest::Mode(compare, wanted) => self.meta(visit)?.is_some_and(|meta| {
                let mode = meta.mode & 0o7777;
                match compare {
                    CompareMode::Less => mode & wanted != 0 || *wanted == 0,
                    CompareMode::Same => mode == *wanted,
                    CompareMode::More => mode & wanted == *wanted,
                }
            }),
            FindTest::Empty => self.is_empty(visit)?,
            FindTest::Prune => {
                self.pruned = true;
                true
            }
            FindTest::Quit => {
                self.quit = true;
                true
            }
            FindTest::Print(end) => {
                self.call.out.write_all(visit.shown)?;
                self.call.out.write_all(&[*end])?;
                true
            }
            FindTest::PrintFormatted(format) => self.print_formatted(format, visit)?,
            FindTest::Delete => self.delete(visit)?,
            FindTest::Exec(template) => template.run_for_path(self.call, visit.shown)?,
            FindTest::ExecMany(number) => {
                let template = self.plan.batch_commands.get(*number);
                if let (Some(pending_paths), Some(template)) =
                    (self.pending_paths.get_mut(*number), template)
                    && !pending_paths.add(template, self.call, visit.shown)?
                {
                    self.status = 1;
                }
                true
            }
        })
    }

    /// Returns an entry's attributes; `None`, after reporting it, where the entry has gone.
    fn meta(&mut self, visit: &VisitedEntry<'_>) -> Result<Option<Meta>, CommandError> {
        if let Some(meta) = visit.meta.get() {
            return Ok(Some(*meta));
        }
        let found = visit.path().and_then(|path| self.call.home().stat(&path));
        match found {
            Ok(meta) => Ok(Some(*visit.meta.get_or_init(|| meta))),
            Err(error) => {
                self.report_path_error(visit.shown, &error)?;
                Ok(None)
            }
        }
    }

    /// Prints an entry by a format. Returns true, as GNU does, unless it has gone.
    fn print_formatted(
        &mut self,
        format: &PrintFormat,
        visit: &VisitedEntry<'_>,
    ) -> Result<bool, CommandError> {
        let meta = match format.needs_meta() {
            true => self.meta(visit)?,
            false => None,
        };
        if meta.is_none() && format.needs_meta() {
            return Ok(false);
        }
        let entry = PrintedEntry {
            shown: visit.shown,
            start: self.start,
            depth: visit.depth,
        };
        format.print(&mut self.call.out, entry, meta.as_ref())?;
        Ok(true)
    }

    fn is_empty(&mut self, visit: &VisitedEntry<'_>) -> Result<bool, CommandError> {
        if !visit.is_dir() {
            let file = visit.kind == FileType::RegularFile;
            return Ok(file && self.meta(visit)?.is_some_and(|meta| meta.size == 0));
        }
        match visit.path().and_then(|path| self.call.home().list(&path)) {
            Ok(entries) => Ok(entries.is_empty()),
            Err(error) => {
                self.report_path_error(visit.shown, &error)?;
                Ok(false)
            }
        }
    }

    /// Moves an entry to the trash. A working directory given as starting point stays, silently, as with GNU.
    fn delete(&mut self, visit: &VisitedEntry<'_>) -> Result<bool, CommandError> {
        let home = self.call.home();
        let removed = match (visit.shown, visit.base()) {
            (b".", _) => return Ok(true),
            // The errors of rmdir(2).
            (_, b".") => Err(Error::Invalid),
            (_, b"..") => Err(Error::NotEmpty),
            _ if visit.is_dir() => visit.path().and_then(|path| home.remove_dir(&path)),
            _ => visit.path().and_then(|path| home.remove(&path)),
        };
        match removed {
            Ok(()) => Ok(true),
            Err(error) => {
                self.report_path_error(visit.shown, &error)?;
                Ok(false)
            }
        }
    }
}
