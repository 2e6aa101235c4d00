//! `grep`: the files that it searches, their order, its report for each, and its exit status.
//!
//! `commands/expression` translates the patterns and `matcher` finds lines; `search` selects them, `print` writes them,
//! `walk` goes through directories, `filter` selects files, `patterns` looks at a call before the line runs. The behaviour
//! is that of GNU grep 3.8 in the C locale, except that patterns which are not regular are refused, and that directories
//! are searched in the order of names.

mod buffer;
mod filter;
mod matcher;
mod options;
mod patterns;
mod print;
mod search;
#[cfg(test)]
mod tests;
mod walk;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;

use self::matcher::LineMatcher;
use self::options::{DirectoryMode, ERROR_STATUS, GrepOptions, OutputMode};
use self::search::{FileMatches, FileSearch};
use crate::call::{Call, CommandError, CommandResult, from_io_error};
use crate::commands::expression::{PatternSyntax, translate_for_lines};
use trumanfs_types::error::Error;

pub(crate) use self::patterns::find_unsupported;

/// Searches files, or standard input.
pub(crate) fn grep(call: &mut Call<'_>) -> CommandResult {
    let options = GrepOptions::read(call)?;
    let none = options.max_count == 0 || (options.patterns.is_empty() && !options.invert);
    if none && options.output_mode != OutputMode::NamesWithoutMatch {
        return Ok(1);
    }
    let patterns = options.patterns.strip_suffix(b"\n");
    let patterns = patterns
        .into_iter()
        .flat_map(|all| all.split(|b| *b == b'\n'));
    let mode = options.pattern_mode();
    if mode.syntax == PatternSyntax::Perl && patterns.clone().nth(1).is_some() {
        let message = "the -P option only supports a single pattern";
        return Err(CommandError::Usage(message.into(), ERROR_STATUS));
    }
    let longest = options.only_matching && options.syntax != PatternSyntax::Perl;
    let matcher = translate_for_lines(patterns, mode)
        .and_then(|expression| LineMatcher::new(&expression, longest))
        .map_err(|wrong| wrong.into_command_error(patterns::name_of(mode.syntax), ERROR_STATUS))?;
    let mut run = GrepRun {
        names: options.names.unwrap_or(options.operands.len() > 1),
        options,
        search: FileSearch::new(matcher),
        matched: false,
        trouble: false,
        call,
    };
    run.search_operands()?;
    Ok(match (run.matched, run.trouble) {
        (true, _) if run.is_done() => 0,
        (_, true) => ERROR_STATUS,
        (true, false) => 0,
        (false, false) => 1,
    })
}

/// A call of `grep`.
struct GrepRun<'r, 'c> {
    call: &'r mut Call<'c>,
    options: GrepOptions<'c>,
    search: FileSearch,
    /// True if file names are printed.
    names: bool,
    /// True once a line was selected.
    matched: bool,
    /// True once an error was reported.
    trouble: bool,
}

impl GrepRun<'_, '_> {
    fn search_operands(&mut self) -> io::Result<()> {
        let operands = std::mem::take(&mut self.options.operands);
        if operands.is_empty() && self.options.directories == DirectoryMode::Recurse {
            self.names = self.options.names.unwrap_or(true);
            return self.walk(b"", self.call.state.cwd.clone());
        }
        if operands.is_empty() {
            return self.search_standard_input();
        }
        for typed in &operands {
            if self.is_done() {
                break;
            }
            match *typed {
                b"-" => self.search_standard_input()?,
                _ => self.search_operand(typed, operands.len() == 1)?,
            }
        }
        Ok(())
    }

    fn search_operand(&mut self, typed: &[u8], only: bool) -> io::Result<()> {
        let filter = &self.options.filter;
        match (self.call.open(typed), self.options.directories) {
            (Ok(_), _) if !filter.accepts_operand(typed) => Ok(()),
            (Ok(file), _) => self.search_file(typed, file),
            (Err(Error::IsDirectory), DirectoryMode::Skip) => Ok(()),
            (Err(Error::IsDirectory), _) if !filter.enters_operand(typed) => Ok(()),
            (Err(Error::IsDirectory), DirectoryMode::Recurse) => {
                if only {
                    self.names = self.options.names.unwrap_or(true);
                }
                match self.call.path(typed) {
                    Ok(path) => self.walk(typed, path),
                    Err(error) => self.report_path_error(typed, &error),
                }
            }
            // GNU grep tries to read it and fails; so do we.
            (Err(error @ Error::IsDirectory), DirectoryMode::Read) => {
                self.report_path_error(typed, &error)?;
                self.report_file(typed, &FileMatches::default())
            }
            (Err(error), _) => self.report_path_error(typed, &error),
        }
    }

    fn search_standard_input(&mut self) -> io::Result<()> {
        let label = self.options.label;
        let found = self.search.search_file(
            self.call.stdin,
            self.names.then_some(label),
            &self.options,
            &mut self.call.out,
            &self.call.state.deadline,
        )?;
        self.call.stdin.give_back(found.unread);
        self.report_file(label, &found)
    }

    /// Searches a file under the name to be printed.
    fn search_file(&mut self, name: &[u8], mut file: File) -> io::Result<()> {
        if self.is_output(&file) {
            self.trouble = true;
            if self.options.silent {
                return Ok(());
            }
            let message: &[u8] = b": input file is also the output";
            return self.call.report(&[name, message].concat());
        }
        let from: &mut dyn Read = &mut file;
        let found = self.search.search_file(
            from,
            self.names.then_some(name),
            &self.options,
            &mut self.call.out,
            &self.call.state.deadline,
        )?;
        self.report_file(name, &found)
    }

    /// Prints the result for a file beyond its lines: count, name or the note about a binary file.
    fn report_file(&mut self, name: &[u8], found: &FileMatches) -> io::Result<()> {
        let out = &mut self.call.out;
        let null = self.options.null;
        match self.options.output_mode {
            OutputMode::Count => {
                if self.names {
                    out.write_all(name)?;
                    out.write_all(if null { b"\0" } else { b":" })?;
                }
                writeln!(out, "{}", found.count)?;
            }
            OutputMode::MatchingNames | OutputMode::NamesWithoutMatch => {
                if (found.count > 0) == (self.options.output_mode == OutputMode::MatchingNames) {
                    out.write_all(name)?;
                    out.write_all(if null { b"\0" } else { b"\n" })?;
                }
            }
            OutputMode::Lines | OutputMode::Nothing => {}
        }
        self.matched |= found.count > 0;
        if found.binary {
            self.call
                .report(&[name, b": binary file matches"].concat())?;
        }
        match &found.error {
            Some(error) => self.report_path_error(name, &from_io_error(error)),
            None => Ok(()),
        }
    }

    fn report_path_error(&mut self, name: &[u8], error: &Error) -> io::Result<()> {
        self.trouble = true;
        if self.options.silent {
            return Ok(());
        }
        self.call.report_path_error(name, error)
    }

    /// Returns whether the status is known and nothing is to be printed.
    fn is_done(&self) -> bool {
        self.matched && self.options.output_mode == OutputMode::Nothing
    }

    /// Returns whether output is appended to this very file, so that it would be searched again.
    fn is_output(&self, file: &File) -> bool {
        let Some(out) = self.call.out.get_ref().as_file() else {
            return false;
        };
        if self.options.output_mode != OutputMode::Lines || self.options.max_count == 1 {
            return false;
        }
        let (Ok(file), Ok(out)) = (file.metadata(), out.metadata()) else {
            return false;
        };
        out.is_file() && (file.dev(), file.ino()) == (out.dev(), out.ino())
    }
}
