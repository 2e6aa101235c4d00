//! Rules that npm, pnpm and lerna share: flags before a sub-command, scripts by name, installs that name no package,
//! a configuration that is only read.

use super::super::scan::{FlagGrammar, FlagLists, ParsedFlag, ScanEnd, ScanResult, scan};
use super::super::schema::{DeniedArgs, FlagList, FlagValue, SubCommand, WordReading};
use super::super::verdict::{CommandRefusal, RefusalClass};
use super::super::words::shown;
use super::case::{CheckedCommand, CommandCase, SubCommandMatch};

/// The differences between the package managers.
pub(super) struct PackageManager {
    /// Other names of sub-commands.
    pub(super) aliases: &'static [(&'static str, &'static str)],
    /// True if words behind a script's name are the script's at once, without `--`.
    pub(super) passes_on: bool,
}

/// Flags that take a value, separated by blanks.
const VALUE: &str = "-w --workspace --prefix --registry --cache --loglevel --omit --include --tag --save-prefix --script-shell --depth --otp --userconfig --globalconfig --node-options --dir -C --filter -F --filter-prod --store-dir --virtual-store-dir --modules-dir --lockfile-dir --reporter --scope --since --ignore --concurrency --before --access --only --install-strategy --network-concurrency --child-concurrency --workspace-concurrency --resume-from --test-pattern --changed-files-ignore-pattern --stream-prefix --max-buffer --message -m --loglevel --node-linker --package-import-method --side-effects-cache --editor --git --shell";

/// Flags that take none, or `=true` and `=false`, separated by blanks.
const SWITCH: &str = "-v --version -h --help -g --global -s --silent -q --quiet -d -D -P -O -E -B -S -f --force -y --yes -r --recursive --recursive-filter -a --all -l --long -p --parseable --json --color --ignore-scripts --dry-run --offline --prefer-offline --prefer-online --audit --fund --save --save-dev --save-prod --save-optional --save-exact --save-bundle --package-lock --package-lock-only --frozen-lockfile --production --prod --dev --workspaces --ws --include-workspace-root --if-present --foreground-scripts --legacy-peer-deps --strict-peer-deps --progress --update-notifier --verbose --workspace-root --parallel --stream --sort --bail --aggregate-output --no-bail --shamefully-hoist --use-stderr --lockfile-only --fix-lockfile --no-optional --no-save --link --toposort --no-sort --reject-cycles --include-dependencies --include-dependents --exclude-dependents --no-private --ndjson --graph --no-prefix --profile --ci --engine-strict --install-links --bin-links --unicode --usage --timing --read-only --report-summary --use-node-version";

/// Returns what a flag takes, where that is known.
pub(super) fn takes(flag: &str) -> Option<FlagValue> {
    let has = |list: &str| list.split(' ').any(|listed| listed == flag);
    if has(VALUE) {
        return Some(FlagValue::Value(WordReading::Path));
    }
    let is_switch = has(SWITCH) || flag.starts_with("--no-");
    is_switch.then_some(FlagValue::Attached(WordReading::Path))
}

/// Checks a command of a package manager.
pub(super) fn check<'q>(
    case: &CommandCase<'q>,
    manager: &PackageManager,
) -> Result<CheckedCommand<'q>, CommandRefusal> {
    let entry = case.entry;
    if entry.subcommands.is_none() && case.argv().len() == case.first {
        return Ok(case.allowed(""));
    }
    let before: [&FlagList; 2] = [&entry.root_flags, &entry.flags];
    let alias = |name: &'q str| {
        let found = manager.aliases.iter().find(|(short, _)| *short == name);
        found.map_or(name, |(_, long)| long)
    };
    let (found, ahead) = case.subcommand(&before, &takes, &alias)?;
    certain(case, &ahead, &before, "root_flags")?;
    let mut checked = match found {
        None => case.allow_program(&ahead)?,
        Some(found) if is_runner(&found) => script(case, manager, &found)?,
        Some(found) => other(case, &found)?,
    };
    surroundings(case, &mut checked);
    Ok(checked)
}

/// Adds what Node's tools need around them. The directories of the project's own programs come last, because these tools
/// have themselves started by `env node`; before they run a script, they put those directories first.
pub(super) fn surroundings(case: &CommandCase<'_>, checked: &mut CheckedCommand<'_>) {
    for project in case.projects() {
        checked
            .path_end
            .push([project.as_slice(), b"node_modules/.bin"].join(&b'/'));
    }
    let cache = [case.question.home, b".cache/npm"].join(&b'/');
    checked.env.push(("npm_config_cache", cache));
    checked
        .env
        .push(("npm_config_update_notifier", b"false".to_vec()));
}

/// These tools take the word behind a flag they do not know as its value. So a flag of which nobody says what it takes
/// may stand where no such word follows, or with `=`.
pub(super) fn certain(
    case: &CommandCase<'_>,
    scanned: &ScanResult<'_>,
    allowed: &[&FlagList],
    key: &str,
) -> Result<(), CommandRefusal> {
    let is_stated = |flag: &ParsedFlag| {
        let stated = allowed
            .iter()
            .filter_map(|flags| flags.names.get(&flag.name));
        takes(&flag.name).is_some()
            || stated
                .into_iter()
                .any(|takes| *takes != FlagValue::Unstated)
    };
    for flag in scanned
        .flags
        .iter()
        .filter(|flag| flag.value.is_none() && !is_stated(flag))
    {
        let next = case.argv().get(flag.at + 1);
        if next.is_some_and(|next| !next.starts_with(b"-")) {
            let reason = format!(
                "whether `{0}` takes the next word is not known; write {0}=VALUE, or let the policy say it: {{\"{0}\": false}}",
                flag.name
            );
            return Err(case.refused(RefusalClass::Flag, key, reason));
        }
    }
    Ok(())
}

fn is_runner(found: &SubCommandMatch<'_>) -> bool {
    let sub = found.sub;
    sub.scripts.is_some()
        || sub.deny_args.is_some()
        || sub.allow_test_paths.is_some()
        || matches!(found.name, "run" | "test" | "start" | "stop" | "restart")
}

/// A sub-command that runs no script.
fn other<'q>(
    case: &CommandCase<'q>,
    found: &SubCommandMatch<'q>,
) -> Result<CheckedCommand<'q>, CommandRefusal> {
    let lists = case.lists_of(found);
    let grammar = FlagGrammar {
        takes: &takes,
        clusters: true,
        dashed_values: false,
    };
    let scanned = scan(case.argv(), found.at + 1, &lists, &grammar, ScanEnd::End)?;
    case.check_values(&scanned)?;
    let key = format!("subcommands.{}", found.name);
    certain(case, &scanned, &lists.allowed, &format!("{key}.flags"))?;
    let first = scanned.arguments.first();
    if let Some(package) = first.filter(|_| found.sub.require_no_packages) {
        let reason = format!(
            "{} names a package, and require_no_packages has `{} {}` install what the project lists; put it into package.json",
            shown(package.word),
            case.entry.name,
            found.typed
        );
        // A switch with a value of its own looks like a package; what it contradicts is said first.
        case.allow_subcommand(found, &scanned)?;
        return Err(case.refused(
            RefusalClass::Argument,
            &format!("{key}.require_no_packages"),
            reason,
        ));
    }
    if found.sub.get_only && first.is_none_or(|first| first.word != b"get") {
        let reason = format!(
            "only `{} {} get NAME` is allowed (get_only)",
            case.entry.name, found.typed
        );
        return Err(case.refused(RefusalClass::Argument, &format!("{key}.get_only"), reason));
    }
    case.check_arguments(&scanned.arguments, &found.sub.arguments, &key, &|_| {
        WordReading::Path
    })?;
    case.allow_subcommand(found, &scanned)
}

/// A sub-command that runs a script.
fn script<'q>(
    case: &CommandCase<'q>,
    manager: &PackageManager,
    found: &SubCommandMatch<'q>,
) -> Result<CheckedCommand<'q>, CommandRefusal> {
    let lists = case.lists_of(found);
    let grammar = FlagGrammar {
        takes: &takes,
        clusters: true,
        dashed_values: false,
    };
    let key = format!("subcommands.{}", found.name);
    let is_run = found.name == "run";
    // Behind `pnpm test` everything is the script's already.
    let is_passed_on = manager.passes_on && !is_run;
    let words = if is_passed_on {
        case.argv().get(..found.at + 1)
    } else {
        None
    };
    let words = words.unwrap_or(case.argv());
    let mut scanned = scan(words, found.at + 1, &lists, &grammar, ScanEnd::Argument)?;
    certain(case, &scanned, &lists.allowed, &format!("{key}.flags"))?;
    let (name, rule, mut at) = match is_run {
        false => (found.name, None, scanned.dashes.unwrap_or(scanned.end)),
        true => {
            let (name, rule) = named(case, found, scanned.end)?;
            (name, Some(rule), scanned.end + 1)
        }
    };
    if !manager.passes_on {
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
        certain(case, &own, &lists.allowed, &format!("{key}.flags"))?;
        for argument in &own.arguments {
            check_word(case, found, (rule, manager.passes_on), name, argument.word)?;
        }
        scanned.flags.extend(own.flags);
        at = dashes;
    }
    case.check_values(&scanned)?;
    for word in case.argv().iter().skip(at).filter(|word| *word != b"--") {
        check_word(case, found, (rule, manager.passes_on), name, word)?;
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
