//! The decision about one command: [`decide`], a pure function of the policy and the question.

use std::time::Duration;

use super::environment;
use super::grammar;
use super::question::{CommandRequest, PathPlace, climbs_out};
use super::schema::{Policy, PolicyEntries, ProgramEntry, RunSettings};
use super::tools::{self, CheckedCommand, CommandCase};
use super::verdict::{AllowedCommand, CommandRefusal, RefusalClass};
use super::within::HomeBounds;
use super::words::{self, shown};
use trumanfs_types::name::WorldPath;

/// The time limit of a command that neither the caller nor the policy limits.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The number of bytes kept of an output stream if the policy sets no limit.
const DEFAULT_OUTPUT: u64 = 1 << 20;

/// Decides whether a command may run, and how.
///
/// # Errors
/// The rule that refuses it.
pub fn decide(
    policy: &Policy,
    question: &CommandRequest<'_>,
) -> Result<AllowedCommand, CommandRefusal> {
    let rules = &*policy.0;
    words::check(question.argv)?;
    if question.timeout == Some(Duration::ZERO) {
        return Err(CommandRefusal::new(
            RefusalClass::Time,
            "time.zero",
            "the time limit is 0; ask for a longer one, or for none",
        ));
    }
    let cwd = cwd(question)?;
    let (entry, first) = entry(rules, question.argv)?;
    let within = HomeBounds {
        home: question.home,
        cwd: &cwd,
        paths: question.paths,
    };
    let shipped = || grammar::grammar(entry.validator.tool());
    let tool = entry.grammar.as_deref().or_else(shipped).ok_or_else(|| {
        let reason = format!("the grammar of {} cannot be read", entry.name);
        CommandRefusal::new(RefusalClass::Program, "grammar", reason)
    })?;
    let case = CommandCase {
        entry,
        tool,
        question,
        within,
        first,
    };
    let checked = tools::check(&case)?;
    allow(rules, &case, checked)
}

/// Returns the working directory as a path in the home.
fn cwd(question: &CommandRequest<'_>) -> Result<WorldPath, CommandRefusal> {
    let root = WorldPath::root();
    let within = HomeBounds {
        home: question.home,
        cwd: &root,
        paths: question.paths,
    };
    let refused = || {
        let home = trumanfs_types::name::escape(question.home);
        let reason = format!(
            "the working directory {} lies outside the home; give one in {home}",
            shown(question.cwd)
        );
        CommandRefusal::new(RefusalClass::Cwd, "cwd.outside", reason)
    };
    if within.place(question.cwd) == PathPlace::Outside {
        return Err(refused());
    }
    let relative = match question.cwd.strip_prefix(b"/") {
        Some(_) => within.below_home(question.cwd).ok_or_else(refused)?,
        None => question.cwd.to_vec(),
    };
    match climbs_out(&root, &relative) {
        true => Err(refused()),
        false => WorldPath::parse(&relative).map_err(|_| refused()),
    }
}

/// Returns the entry that judges a command, and the number of the first word behind the program.
fn entry<'p>(
    rules: &'p PolicyEntries,
    argv: &[Vec<u8>],
) -> Result<(&'p ProgramEntry, usize), CommandRefusal> {
    let Some(program) = argv.first() else {
        return Err(CommandRefusal::new(
            RefusalClass::Words,
            "words.empty",
            "the command has no words; name a program",
        ));
    };
    let word = |at: usize| argv.get(at).map(Vec::as_slice);
    let is_python = matches!(program.as_slice(), b"python" | b"python3");
    let (name, first) = match (is_python, word(1), word(2)) {
        (true, Some(b"-m"), Some(b"pytest")) => (&b"pytest"[..], 3),
        _ => (program.as_slice(), 1),
    };
    let entry = std::str::from_utf8(name)
        .ok()
        .and_then(|name| rules.entries.get(name));
    entry
        .map(|entry| (entry, first))
        .ok_or_else(|| no_entry(rules, name))
}

fn no_entry(rules: &PolicyEntries, name: &[u8]) -> CommandRefusal {
    let names: Vec<&str> = rules.entries.keys().map(String::as_str).collect();
    let has = |name: &[u8]| names.iter().any(|known| known.as_bytes() == name);
    let base = name.rsplit(|b| *b == b'/').next().unwrap_or_default();
    let hint = if base != name && has(base) {
        format!(
            "name the program without a path: `{}`",
            trumanfs_types::name::escape(base)
        )
    } else if name.contains(&b'=') {
        "variables are not set on the line; ask for them beside it".to_owned()
    } else if names.is_empty() {
        "the policy allows no program".to_owned()
    } else {
        format!("these are: {}", names.join(" "))
    };
    let reason = format!(
        "{} is no program that the policy allows; {hint}",
        shown(name)
    );
    CommandRefusal::new(RefusalClass::Program, "default_deny", reason)
}

/// Returns a path in the home as an absolute one.
fn absolute(home: &[u8], path: &WorldPath) -> Vec<u8> {
    match path.is_root() {
        true => home.to_vec(),
        false => [home, path.bytes()].join(&b'/'),
    }
}

/// Puts together how an allowed command runs.
fn allow(
    rules: &PolicyEntries,
    case: &CommandCase<'_>,
    checked: CheckedCommand<'_>,
) -> Result<AllowedCommand, CommandRefusal> {
    let every = &rules.every;
    let runs: Vec<&RunSettings> = checked.runs.iter().copied().chain([&every.run]).collect();
    let bound: Vec<_> = runs
        .iter()
        .flat_map(|run| &run.bind_ro)
        .map(|path| path.as_path())
        .collect();
    let env = environment::build(rules, case, &checked, &bound)?;
    let timeout = runs
        .iter()
        .find_map(|run| run.timeout)
        .unwrap_or(DEFAULT_TIMEOUT);
    let asked = case.question.timeout.unwrap_or(timeout);
    let output = case.entry.max_output_bytes.or(every.max_output_bytes);
    Ok(AllowedCommand {
        search_path: environment::search_path(rules, case.entry, &checked, &bound),
        env: env.into_iter().collect(),
        timeout: timeout.min(asked),
        max_output_bytes: output.unwrap_or(DEFAULT_OUTPUT),
        network: runs
            .iter()
            .find_map(|run| run.network.clone())
            .unwrap_or_default(),
        bind_ro: bound.iter().map(|path| path.to_path_buf()).collect(),
        read_only: runs.iter().find_map(|run| run.read_only).unwrap_or(false),
        ptrace: case.entry.ptrace,
        suppress_success_output: runs
            .iter()
            .find_map(|run| run.suppress_success_output)
            .unwrap_or(false),
        argv: checked.argv,
        cwd: absolute(case.question.home, case.within.cwd),
        rule: checked.rule,
    })
}
