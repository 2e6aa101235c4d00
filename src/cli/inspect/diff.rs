//! `diff`: what differs between two points.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args;

use super::super::exit::ExitReason;
use super::super::joint_undo::name_other_parts;
use super::super::output::{Printer, TextStyle, bytes, count, warn};
use super::folds::{print_folds, warn_of_folds};
use super::patch;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::name::WorldPath;
use crate::operator::diff::{ChangeStatus, Diff, DiffFolds, DiffSide, PathDifference, TextPair};
use crate::operator::text::TextComparison;

/// The longest bar of `--stat`, in characters.
const MAX_BAR_CHARS: u64 = 40;

/// Arguments of `trumanfs diff`.
#[derive(Args, Debug)]
pub(in crate::cli) struct DiffArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// A..B, from the one point to the other; A.. until now; ..B from the start of the last session. A point is a
    /// session or `last` (its start), an operation (just after it), a checkpoint, a time as "2026-11-22 10:15", 30m
    /// (ago) or yesterday, or `now`. And a path in the home: only what is there or below. Without both: everything since the start of the
    /// last session
    #[arg(value_name = "A..B] [PATH", num_args = 0..=2)]
    what: Vec<OsString>,
    /// Only what this run changed, one request of an executor: its id, a unique beginning of it, or `last`; instead of
    /// A..B. Of what others changed meanwhile, that shows what they did to the same things, with a warning
    #[arg(long, value_name = "RUN", conflicts_with = "range")]
    run: Option<String>,
    /// Only what this turn of a run changed: its number or `last`, in the newest conversation or in that of --run
    #[arg(long, value_name = "N", conflicts_with = "range")]
    turn: Option<String>,
    /// A range that begins with a hyphen; see [`ago`]
    #[arg(long, hide = true)]
    range: Option<OsString>,
    /// Count the lines that were added and removed
    #[arg(long, group = "form")]
    stat: bool,
    /// Show what was changed, as a patch that `git apply` takes
    #[arg(long, short, group = "form")]
    patch: bool,
    /// Print paths only
    #[arg(long, group = "form")]
    name_only: bool,
    /// Print JSON, one object a line
    #[arg(long, group = "form")]
    json: bool,
    /// List what differs in `.git` and what git ignores, too; else each is counted in one line. Paths alone and JSON are
    /// whole in any case
    #[arg(long)]
    all: bool,
    /// Print to the terminal itself, without a pager
    #[arg(long)]
    no_pager: bool,
}

impl DiffArgs {
    /// Returns whether a pager may show what is printed.
    pub(in crate::cli) fn is_paged(&self) -> bool {
        !self.json && !self.no_pager
    }
}

/// Says what differs.
pub(in crate::cli) fn diff(args: &DiffArgs) -> Result<ExitReason> {
    let client = Client::open(&args.target)?;
    let what: Vec<OsString> = args.range.iter().chain(&args.what).cloned().collect();
    let (range, path) = split_arguments(&what);
    let path = path.map_or_else(|| Ok(WorldPath::root()), |path| client.in_home(path))?;
    let diff = match (&args.run, &args.turn, range) {
        (None, None, range) => client.diff(range.as_deref().unwrap_or("last..now"), &path)?,
        (run, Some(turn), None) => client.diff_of_turn(run.as_deref(), turn, &path)?,
        (Some(run), None, None) => client.diff_of_run(run, &path)?,
        (_, _, Some(range)) => {
            return Err(Error::usage(
                format!("a run has its own points: {range:?} cannot be given with --run or --turn"),
                "Give a path, or nothing.",
            ));
        }
    };
    let mut printer = Printer::new();
    let mut unknown = UnknownContents(diff.unreadable().collect());
    let is_whole = args.all || args.json || args.name_only;
    let folds = match is_whole {
        true => DiffFolds::default(),
        false => diff.folds(&path)?,
    };
    if args.stat {
        stat(&mut printer, &diff, &folds, &mut unknown)?;
    } else {
        for (number, change) in diff.changes().enumerate() {
            let change = change?;
            unknown.note(&change);
            if folds.has(number) {
                continue;
            }
            if args.json {
                printer.json(&change)?;
            } else if args.patch {
                print_whole(&mut printer, &diff, &change)?;
            } else if args.name_only {
                printer.line(format_args!("{}", change.path));
            } else {
                print_line(&mut printer, &change);
            }
        }
    }
    if !args.patch {
        let indent = if args.stat { " " } else { "" };
        print_folds(&mut printer, &folds, indent, " (--all lists them)");
    }
    printer.flush();
    if args.patch {
        warn_of_folds(&folds);
    }
    for line in &unknown.0 {
        warn(args.json, line);
    }
    if let Some(run) = &args.run {
        name_other_parts(&client.other_parts(run)?, "diff", args.json);
    }
    if diff.is_shared() {
        warn(
            args.json,
            "others changed some of the same things while the run was under way: what they did to them is shown, too. \
             `trumanfs log --path` tells whose each change is",
        );
    }
    Ok(match (unknown.0.is_empty(), diff.is_empty()) {
        (false, _) => ExitReason::Partly,
        (true, true) => ExitReason::Ok,
        (true, false) => ExitReason::Nothing,
    })
}

/// A range such as `-30m..` looks like an option: it is handed to clap as the value of one.
pub(in crate::cli) fn range_value(word: OsString) -> OsString {
    let is_range = word.to_str().and_then(|text| {
        let number = text.strip_prefix('-')?;
        let unit = number.trim_start_matches(|c: char| c.is_ascii_digit());
        let dots = unit.strip_prefix(['s', 'm', 'h', 'd', 'w'])?;
        Some(unit.len() < number.len() && dots.starts_with(".."))
    });
    match is_range {
        Some(true) => {
            let mut option = OsString::from("--range=");
            option.push(word);
            option
        }
        _ => word,
    }
}

/// What could not be found out: it is said at the end.
#[derive(Default)]
struct UnknownContents(Vec<String>);

impl UnknownContents {
    fn note(&mut self, change: &PathDifference) {
        let unknown = change.unknown.as_ref();
        self.0
            .extend(unknown.map(|unknown| format!("{}: {unknown}", change.path)));
    }
}

/// Tells range and path apart. What has two dots is a range, unless it begins with a slash or a dot and a slash.
fn split_arguments(what: &[OsString]) -> (Option<String>, Option<&OsString>) {
    let is_range = |word: &OsString| {
        let bytes = word.as_bytes();
        !bytes.starts_with(b"/")
            && !bytes.starts_with(b"./")
            && word.to_string_lossy().contains("..")
    };
    let (range, path) = match what {
        [] => (None, None),
        [one] if is_range(one) => (Some(one), None),
        [one] => (None, Some(one)),
        [one, other, ..] if !is_range(one) && is_range(other) => (Some(other), Some(one)),
        [one, other, ..] => (Some(one), Some(other)),
    };
    let range = range.map(|range| range.to_string_lossy().into_owned());
    (range, path)
}

/// Returns the letter of a kind of change, and its colour.
pub(in crate::cli) fn letter(status: ChangeStatus) -> (char, TextStyle) {
    let style = match status {
        ChangeStatus::Added => TextStyle::Added,
        ChangeStatus::Removed => TextStyle::Removed,
        ChangeStatus::Modified | ChangeStatus::Renamed => TextStyle::Changed,
    };
    (status.letter(), style)
}

/// `R  /old → /new  mode 644 → 755, 12 bytes → 14 bytes`
fn print_line(printer: &mut Printer, change: &PathDifference) {
    let (letter, style) = letter(change.status);
    let letter = printer.style(style, &letter.to_string());
    let path = path_of(change);
    let details = details(change);
    let details = if details.is_empty() {
        details
    } else {
        format!("  {}", printer.style(TextStyle::Faint, &details))
    };
    printer.line(format_args!("{letter}  {path}{details}"));
}

/// Writes the path of a change, as `/old → /new` where it was renamed; a directory's ends in a slash.
pub(in crate::cli) fn path_of(change: &PathDifference) -> String {
    let slash = |side: &Option<DiffSide>| {
        if side.as_ref().is_some_and(DiffSide::is_dir) {
            "/"
        } else {
            ""
        }
    };
    let either = change.after.or(change.before);
    let path = if change.path.is_root() {
        change.path.to_string()
    } else {
        format!("{}{}", change.path, slash(&either))
    };
    match &change.from {
        Some(from) => format!("{from}{} → {path}", slash(&either)),
        None => path,
    }
}

fn details(change: &PathDifference) -> String {
    let mut details = Vec::new();
    if let (Some(before), Some(after)) = (&change.before, &change.after) {
        if before.kind != after.kind {
            details.push(format!("{} → {}", before.kind, after.kind));
        }
        details.extend(change.rights());
        if change.content && before.size == after.size {
            details.push(format!("{}, other content", bytes(after.size)));
        } else if change.content {
            details.push(format!("{} → {}", bytes(before.size), bytes(after.size)));
        }
    } else if let Some(side) = change.after.or(change.before) {
        match side.kind {
            "directory" => {}
            "file" => details.push(bytes(side.size)),
            kind => details.push(kind.to_owned()),
        }
        details.extend(change.rights());
    }
    if change.xattrs {
        details.push("extended attributes".to_owned());
    }
    if change.unknown.is_some() {
        details.push("not all is known".to_owned());
    }
    details.join(", ")
}

/// A change with its patch; what a patch cannot say goes before it, where git reads over it.
fn print_whole(printer: &mut Printer, diff: &Diff<'_>, change: &PathDifference) -> Result<()> {
    match patch::print_patch(printer, diff, change) {
        // It is named at the end.
        Err(Error::Missing { .. } | Error::Damaged(_)) if change.unknown.is_some() => Ok(()),
        Err(error) if error.is_denial() && change.unknown.is_some() => Ok(()),
        done => done,
    }
}

/// The row of a change in `--stat`. There can be many rows: numbers that do not fit are of files larger than are
/// counted.
enum StatRow {
    /// It is of a directory, or not listed.
    Nothing,
    /// The permission bits or the owner of a directory differ: the number of the words.
    Directory(u32),
    /// The lines that were added and removed.
    Counts(u32, u32),
    /// What is said instead: the number of some words.
    Words(u32),
}

/// Says how much a run has changed, a line for each file where these are not more than `most`. What git ignores, and
/// what lies in `.git`, is counted in one line, unless it is flagged.
/// What is unknown is said after them.
pub(in crate::cli) fn print_summary(
    printer: &mut Printer,
    diff: &Diff<'_>,
    most: usize,
) -> Result<()> {
    let mut unknown = UnknownContents(diff.unreadable().collect());
    let flags = diff.flags()?;
    for (number, flag) in flags.iter().take(most) {
        if let Some((status, path)) = diff.nth_path(*number) {
            let words = printer.style(TextStyle::Removed, flag.words());
            printer.line(format_args!(" {} {path}  {words}", status.letter()));
        }
    }
    if let Some(more) = flags.len().checked_sub(most).filter(|more| *more > 0) {
        printer.line(format_args!(" {} more flagged", count(more as u64, "path")));
    }
    let folds = diff.folds(&WorldPath::root())?;
    let listed = diff.len() - folds.len();
    if listed > most {
        printer.line(format_args!(" {} differ", count(listed as u64, "path")));
    } else {
        stat(printer, diff, &folds, &mut unknown)?;
    }
    print_folds(printer, &folds, " ", "");
    printer.flush();
    for line in &unknown.0 {
        warn(false, line);
    }
    Ok(())
}

fn stat(
    printer: &mut Printer,
    diff: &Diff<'_>,
    folds: &DiffFolds,
    unknown: &mut UnknownContents,
) -> Result<()> {
    let path = |from: &Option<WorldPath>, path: &WorldPath| match from {
        Some(from) => format!("{from} → {path}"),
        None => path.to_string(),
    };
    let (mut rows, mut width) = (Vec::with_capacity(diff.len()), 0);
    let (mut words, mut rights) = (Vec::new(), BTreeMap::new());
    for (number, change) in diff.changes().enumerate() {
        let change = change?;
        unknown.note(&change);
        let row = match folds.has(number) {
            true => StatRow::Nothing,
            false => row(diff, &change, &mut words)?,
        };
        if matches!(row, StatRow::Counts(..)) && !change.rights().is_empty() {
            rights.insert(rows.len(), change.rights().join(", "));
        }
        rows.push(row);
        if !matches!(rows.last(), Some(StatRow::Nothing)) {
            width = path(&change.from, &change.path).chars().count().max(width);
        }
    }
    let counts = |row: &StatRow| match row {
        StatRow::Counts(added, removed) => (u64::from(*added), u64::from(*removed)),
        _ => (0, 0),
    };
    let most = rows.iter().map(counts).map(|(a, b)| a + b).max();
    let most = most.unwrap_or(0);
    let scale = |lines: u64| {
        if most <= MAX_BAR_CHARS {
            lines
        } else {
            (lines * MAX_BAR_CHARS).div_ceil(most)
        }
    };
    let bar = |sign: &str, lines: u64| sign.repeat(usize::try_from(scale(lines)).unwrap_or(0));
    let mut total = (0, 0);
    for (at, (row, (from, to))) in rows.iter().zip(diff.paths()).enumerate() {
        let (added, removed) = counts(row);
        let what = match row {
            StatRow::Nothing => continue,
            StatRow::Counts(..) => {
                total = (total.0 + added, total.1 + removed);
                let plus = printer.style(TextStyle::Added, &bar("+", added));
                let minus = printer.style(TextStyle::Removed, &bar("-", removed));
                let rights = rights.get(&at).map(|words| format!("  {words}"));
                let rights = rights.unwrap_or_default();
                format!("{:>5} {plus}{minus}{rights}", added + removed)
            }
            StatRow::Words(number) | StatRow::Directory(number) => {
                words.get(*number as usize).cloned().unwrap_or_default()
            }
        };
        printer.line(format_args!(" {:<width$} | {what}", path(&from, &to)));
    }
    let known_rows = rows
        .iter()
        .filter(|row| !matches!(row, StatRow::Nothing | StatRow::Directory(_)));
    let files = known_rows.count() as u64;
    if files > 0 {
        let differ = if files == 1 { "differs" } else { "differ" };
        printer.line(format_args!(
            " {} {differ}, {} added, {} removed",
            count(files, "file"),
            count(total.0, "line"),
            count(total.1, "line")
        ));
    }
    Ok(())
}

fn row(diff: &Diff<'_>, change: &PathDifference, all: &mut Vec<String>) -> Result<StatRow> {
    let either = change.after.or(change.before);
    let mut put = |words: String| {
        all.push(words);
        u32::try_from(all.len() - 1).unwrap_or(u32::MAX)
    };
    if either.is_some_and(|side| side.is_dir()) {
        return Ok(match change.rights() {
            none if none.is_empty() => StatRow::Nothing,
            rights => StatRow::Directory(put(rights.join(", "))),
        });
    }
    let differs = change.content || change.before.is_none() || change.after.is_none();
    let words = match differs.then(|| diff.texts(change)) {
        None if details(change).is_empty() => "moved".to_owned(),
        None => details(change),
        Some(Ok(TextPair::Text(before, after))) => {
            let (added, removed) = TextComparison::new(before, after).counts();
            let small = |lines| u32::try_from(lines).unwrap_or(u32::MAX);
            return Ok(StatRow::Counts(small(added), small(removed)));
        }
        Some(Ok(TextPair::Binary)) => {
            let size = |side: Option<DiffSide>| side.map_or(0, |side| side.size);
            let mut words = vec![format!(
                "binary, {} → {}",
                bytes(size(change.before)),
                bytes(size(change.after))
            )];
            words.extend(change.rights());
            words.join(", ")
        }
        Some(Err(Error::Missing { .. } | Error::Damaged(_))) => "not known".to_owned(),
        Some(Err(error)) if error.is_denial() => "not known".to_owned(),
        Some(Err(error)) => return Err(error),
    };
    Ok(StatRow::Words(put(words)))
}
