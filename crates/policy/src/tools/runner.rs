//! Rules that npm, pnpm and lerna share: scripts by name, installs that name no package, a configuration that is only
//! read.

use super::super::grammar::ScriptWords;
use super::super::scan::{FlagLists, ScanEnd, ScanResult, scan};
use super::super::schema::{DeniedArgs, FlagList, SubCommand};
use super::super::verdict::{CommandRefusal, RefusalClass};
use super::super::words::shown;
use super::case::{CheckedCommand, CommandCase, SubCommandMatch};

/// Returns whether a sub-command runs a script.
pub(super) fn runs_script(found: &SubCommandMatch<'_>) -> bool {
    let sub = found.sub;
    sub.scripts.is_some()
        || sub.deny_args.is_some()
        || sub.allow_test_paths.is_some()
        || matches!(found.name, "run" | "test" | "start" | "stop" | "restart")
}

/// Checks an installation that may name no package, and a configuration that is only read.
pub(super) fn check_installed(
    case: &CommandCase<'_>,
    found: &SubCommandMatch<'_>,
    scanned: &ScanResult<'_>,
) -> Result<(), CommandRefusal> {
    let key = format!("subcommands.{}", found.name);
    let first = scanned.arguments.first();
    if let Some(package) = first.filter(|_| found.sub.require_no_packages) {
        let reason = format!(
            "{} names a package, and require_no_packages has `{} {}` install what the project lists; put it into package.json",
            shown(package.word),
            case.entry.name,
            found.typed
        );
        // A switch with a value of its own looks like a package; what it contradicts is said first.
        case.allow_subcommand(found, scanned)?;
        let key = format!("{key}.require_no_packages");
        return Err(case.refused(RefusalClass::Argument, &key, reason));
    }
    if found.sub.get_only && first.is_none_or(|first| first.word != b"get") {
        let reason = format!(
            "only `{} {} get NAME` is allowed (get_only)",
            case.entry.name, found.typed
        );
        return Err(case.refused(RefusalClass::Argument, &format!("{key}.get_only"), reason));
    }
    Ok(())
}

/// Checks a sub-command that runs a script.
pub(super) fn check<'q>(
    case: &CommandCase<'q>,
    passed: ScriptWords,
    found: &SubCommandMatch<'q>,
) -> Result<CheckedCommand<'q>, CommandRefusal> {
    let lists = case.lists_of(found);
    let grammar = case.grammar(Some(found.name));
    let passes_on = passed == ScriptWords::Direct;
    let key = format!("subcommands.{}", found.name);
    let is_run = found.name == "run";
    // Behind `pnpm test` everything is the script's already.
    let is_passed_on = passes_on && !is_run;
    let words = if is_passed_on {
        case.argv().get(..found.at + 1)
    } else {
        None
    };
    let words = words.unwrap_or(case.argv());
    let mut scanned = scan(words, found.at + 1, &lists, &grammar, ScanEnd::Argument)?;
    case.check_greedy(&scanned, &lists.allowed, &format!("{key}.flags"))?;
    let (name, rule, mut at) = match is_run {
        false => (found.name, None, scanned.dashes.unwrap_or(scanned.end)),
        true => {
            let (name, rule) = named(case, found, scanned.end)?;
            (name, Some(rule), scanned.end + 1)
        }
    };
    if !passes_on {
        // What stands before `--` is read by the package manager itself, so its flags count.
        let words = case.argv();
        let dashes = words
            .iter()
            .skip(at)
            .position(|word| word == b"--")
            .map_or(words.len(), |behind| at + behind);
        let own = scan(
            words.get(..dashes).unwrap_or_default(),
            at,
            &lists,
            &grammar,
            ScanEnd::End,
        )?;
        case.check_greedy(&own, &lists.allowed, &format!("{key}.flags"))?;
        for argument in &own.arguments {
            check_word(case, found, (rule, passes_on), name, argument.word)?;
        }
        scanned.flags.extend(own.flags);
        at = dashes;
    }
    case.check_values(&scanned)?;
    for word in case.argv().iter().skip(at).filter(|word| *word != b"--") {
        check_word(case, found, (rule, passes_on), name, word)?;
    }
    let mut checked = case.allow_subcommand(found, &scanned)?;
    if let Some(rule) = rule {
        checked.runs.insert(0, &rule.run);
        checked.rule = case.key(&format!("{key}.scripts.{name}"));
    }
    Ok(checked)
}

/// Returns the script that a word names, and its rule.
fn named<'q>(
    case: &CommandCase<'q>,
    found: &SubCommandMatch<'q>,
    at: usize,
) -> Result<(&'q str, &'q SubCommand), CommandRefusal> {
    let key = format!("subcommands.{}.allowed_scripts", found.name);
    let scripts = found.sub.scripts.as_ref();
    let names: Vec<&str> = scripts
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    let instead = match names.is_empty() {
        true => "none is allowed".to_owned(),
        false => format!("these are: {}", names.join(" ")),
    };
    let Some(word) = case.argv().get(at) else {
        return Err(case.refused(
            RefusalClass::Subcommand,
            &key,
            format!("the command names no script; {instead}"),
        ));
    };
    let name = std::str::from_utf8(word).ok();
    let rule = name.and_then(|name| scripts.and_then(|scripts| scripts.get_key_value(name)));
    match rule {
        Some((name, rule)) => Ok((name.as_str(), rule)),
        None => Err(case.refused(
            RefusalClass::Subcommand,
            &key,
            format!("{} is no script that is allowed; {instead}", shown(word)),
        )),
    }
}

/// Checks a word that a script gets.
fn check_word(
    case: &CommandCase<'_>,
    found: &SubCommandMatch<'_>,
    (rule, passes_on): (Option<&SubCommand>, bool),
    name: &str,
    word: &[u8],
) -> Result<(), CommandRefusal> {
    let rules: Vec<&SubCommand> = rule.into_iter().chain([found.sub]).collect();
    let key = match rule {
        Some(_) => format!("subcommands.{}.scripts.{name}", found.name),
        None => format!("subcommands.{}", found.name),
    };
    let deny = rules.iter().find_map(|rule| rule.deny_args.as_ref());
    let refused = |reason: String| {
        Err(case.refused(RefusalClass::Argument, &format!("{key}.deny_args"), reason))
    };
    let flag = word.split(|b| *b == b'=').next().unwrap_or_default();
    match deny {
        Some(DeniedArgs::All) => {
            return refused(format!(
                "{} is an argument, and deny_args allows none for `{name}`",
                shown(word)
            ));
        }
        Some(DeniedArgs::These(words))
            if words
                .iter()
                .any(|denied| denied.as_bytes() == word || denied.as_bytes() == flag) =>
        {
            return refused(format!(
                "{} is on deny_args of `{name}`; leave it out",
                shown(word)
            ));
        }
        _ => {}
    }
    let is_open = matches!(deny, Some(DeniedArgs::Nothing | DeniedArgs::These(_)));
    let is_flag = word.len() > 1 && word.starts_with(b"-");
    if is_flag {
        // Where nothing stands between, the sub-command's list is the script's.
        let own = rule.map(|rule| &rule.flags);
        let own = own.or(passes_on.then_some(&found.sub.flags));
        let own: Vec<&FlagList> = own.into_iter().collect();
        let is_listed = |flags: &&FlagList| {
            std::str::from_utf8(flag).is_ok_and(|flag| flags.names.contains_key(flag))
        };
        let lists_any = own.iter().any(|flags| !flags.names.is_empty());
        if !own.iter().any(is_listed) && (lists_any || !is_open) {
            let lists = FlagLists {
                allowed: own,
                denied: Vec::new(),
                required: Vec::new(),
                key: case.key(&format!("{key}.allowed_flags")),
                of: format!("the script `{name}`"),
            };
            return Err(lists.refused(word));
        }
    } else if !is_open && rules.iter().find_map(|rule| rule.allow_test_paths) != Some(true) {
        return refused(format!(
            "{} is an argument, and neither deny_args nor allow_test_paths allows one for `{name}`",
            shown(word)
        ));
    }
    case.within.check_unknown(word)
}
