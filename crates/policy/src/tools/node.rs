//! node: a script in the home, tests, or the prompt; code on the command line only where its flag is listed.

use super::super::scan::{FlagGrammar, ParsedFlag, ScanEnd, ScanResult, scan};
use super::super::schema::{FlagValue, RequiredFlag, WordReading};
use super::super::verdict::{CommandRefusal, RefusalClass};
use super::super::words::shown;
use super::case::{CheckedCommand, CommandCase};
use super::runner;
use trumanfs_types::name::WorldPath;

const VALUE: &str = "-r --require --import --loader --experimental-loader -C --conditions --env-file --env-file-if-exists --test-name-pattern --test-reporter --test-reporter-destination --test-shard --test-concurrency --test-timeout --test-skip-pattern --watch-path --input-type --icu-data-dir --openssl-config --snapshot-blob --run --title --redirect-warnings --diagnostic-dir --report-dir --report-directory --report-filename --cpu-prof-dir --cpu-prof-name --heap-prof-dir --experimental-default-type --stack-trace-limit --dns-result-order --unhandled-rejections --build-sea --experimental-sea-config --max-http-header-size --localstorage-file --trace-event-categories --trace-event-file-pattern --secure-heap --secure-heap-min --tls-cipher-list --tls-keylog --use-largepages --v8-pool-size --inspect-port --debug-port";
const CODE: &[&str] = &["-e", "--eval", "-p", "--print", "-pe"];
const SWITCH: &str = "-v --version -h --help -c --check -i --interactive --test --test-only --watch --watch-preserve-output --trace-warnings --trace-uncaught --trace-deprecation --trace-exit --trace-sigint --trace-sync-io --trace-tls --enable-source-maps --experimental-strip-types --experimental-transform-types --experimental-vm-modules --experimental-test-coverage --experimental-test-module-mocks --experimental-permission --permission --expose-gc --throw-deprecation --pending-deprecation --preserve-symlinks --preserve-symlinks-main --abort-on-uncaught-exception --frozen-intrinsics --use-strict --v8-options --cpu-prof --heap-prof --inspect --inspect-brk --inspect-wait --test-force-exit --test-update-snapshots --insecure-http-parser --node-snapshot --completion-bash --zero-fill-buffers --force-fips --enable-fips --report-on-signal --report-on-fatalerror --report-uncaught-exception --max-old-space-size --max-semi-space-size --stack-size";
const SPEAKS: &[&str] = &["-v", "--version", "-h", "--help", "--v8-options"];

fn takes(flag: &str) -> Option<FlagValue> {
    let has = |list: &str| list.split(' ').any(|listed| listed == flag);
    if CODE.contains(&flag) {
        return Some(FlagValue::Value(WordReading::Text));
    }
    if has(VALUE) {
        return Some(FlagValue::Value(WordReading::Path));
    }
    let is_switch = has(SWITCH) || flag.starts_with("--no-");
    is_switch.then_some(FlagValue::Attached(WordReading::Path))
}

/// Checks a command of node.
pub(super) fn check<'q>(case: &CommandCase<'q>) -> Result<CheckedCommand<'q>, CommandRefusal> {
    let tests = case
        .entry
        .tool
        .allow_test_mode
        .or_else(|| case.mode("test"))
        .unwrap_or(false);
    let mut lists = case.lists(&case.entry.flags, "flags");
    let test = RequiredFlag {
        flag: "--test".to_owned(),
        values: Vec::new(),
    };
    if tests {
        lists.required.push(&test);
    }
    check_spelling(case)?;
    let grammar = FlagGrammar {
        takes: &takes,
        clusters: false,
        dashed_values: false,
    };
    let scanned = scan(case.argv(), case.first, &lists, &grammar, ScanEnd::Argument)?;
    case.check_values(&scanned)?;
    certain(case, &scanned)?;
    let rest = case.argv().get(scanned.end..).unwrap_or_default();
    let has = |names: &[&str]| {
        scanned
            .flags
            .iter()
            .any(|flag| names.contains(&flag.name.as_str()))
    };
    match rest.first() {
        // What node does with the words is said by a flag that is listed.
        _ if has(CODE) || has(SPEAKS) => {}
        _ if has(&["--test"]) && !tests => {
            return Err(case.refused(
                RefusalClass::Subcommand,
                "allow_test_mode",
                "neither allow_test_mode nor modes.test allows `--test`",
            ));
        }
        _ if has(&["--test"]) => {}
        Some(script) => check_script(case, script)?,
        None => case.check_input("node")?,
    }
    for word in rest {
        case.within.check_unknown(word)?;
    }
    let mut checked = case.allow_program(&scanned)?;
    runner::surroundings(case, &mut checked);
    Ok(checked)
}

/// node reads `--in_spect` as `--in-spect`, so a list that refuses one refuses the other.
fn check_spelling(case: &CommandCase<'_>) -> Result<(), CommandRefusal> {
    for word in case.argv().iter().skip(case.first) {
        let Some(text) = std::str::from_utf8(word)
            .ok()
            .filter(|text| text.starts_with("--"))
        else {
            break;
        };
        let name = text.split('=').next().unwrap_or_default();
        if name.contains('_') {
            let reason = format!(
                "`{name}` is another spelling of `{}`; write that",
                name.replace('_', "-")
            );
            return Err(case.refused(RefusalClass::Flag, "flags", reason));
        }
    }
    Ok(())
}

/// A flag of which nobody says what it takes might take the script for its value.
fn certain(case: &CommandCase<'_>, scanned: &ScanResult<'_>) -> Result<(), CommandRefusal> {
    let is_stated = |flag: &ParsedFlag| {
        let stated = case.entry.flags.names.get(&flag.name);
        takes(&flag.name).is_some() || stated.is_some_and(|takes| *takes != FlagValue::Unstated)
    };
    let last = scanned
        .flags
        .iter()
        .filter(|flag| flag.value.is_none() && !is_stated(flag));
    for flag in last {
        if case
            .argv()
            .get(flag.at + 1)
            .is_some_and(|next| !next.starts_with(b"-"))
        {
            let reason = format!(
                "whether `{0}` takes the next word is not known; write {0}=VALUE, or let the policy say it: {{\"{0}\": false}}",
                flag.name
            );
            return Err(case.refused(RefusalClass::Flag, "flags", reason));
        }
    }
    Ok(())
}

fn check_script(case: &CommandCase<'_>, script: &[u8]) -> Result<(), CommandRefusal> {
    let tool = &case.entry.tool;
    if script == b"-" || script == b"inspect" || script == b"debug" {
        let reason = format!(
            "{} is no script but a mode of node; name a script in the home",
            shown(script)
        );
        return Err(case.refused(RefusalClass::Subcommand, "modes", reason));
    }
    let by_mode = case.mode("script");
    let is_allowed = tool
        .allow_script_paths
        .or(by_mode)
        .unwrap_or(tool.allowed_entrypoints.is_some());
    if !is_allowed || by_mode == Some(false) {
        let reason = format!(
            "{} is a script, and neither allow_script_paths nor modes.script allows scripts",
            shown(script)
        );
        return Err(case.refused(RefusalClass::Argument, "allow_script_paths", reason));
    }
    case.within.check(script)?;
    let Some(entrypoints) = &tool.allowed_entrypoints else {
        return Ok(());
    };
    let path = relative(case, script);
    let is_listed = entrypoints
        .iter()
        .any(|listed| WorldPath::parse(listed.as_bytes()).is_ok_and(|listed| Some(listed) == path));
    match is_listed {
        true => Ok(()),
        false => {
            let names: Vec<&str> = entrypoints.iter().map(String::as_str).collect();
            let reason = format!(
                "{} is on no list of entry points; these are, from the home: {}",
                shown(script),
                names.join(" ")
            );
            Err(case.refused(RefusalClass::Argument, "allowed_entrypoints", reason))
        }
    }
}

/// Returns a path as one from the home.
fn relative(case: &CommandCase<'_>, script: &[u8]) -> Option<WorldPath> {
    if script.starts_with(b"/") {
        return WorldPath::parse(&case.within.below_home(script)?).ok();
    }
    let path = [case.within.cwd.bytes(), script].join(&b'/');
    WorldPath::parse(&path).ok()
}
