//! PowerShell: flags without regard to case, and commands from a list.
//!
//! The words behind the flags are a script. Its words that look like commands (`Get-Item`) are compared with a list,
//! and some patterns are refused; that is a sieve, and the sandbox is the wall.

use super::super::schema::RequiredFlag;
use super::super::verdict::{CommandRefusal, RefusalClass};
use super::super::words::shown;
use super::case::{CheckedCommand, CommandCase};

/// Characters behind which a command, a call or code may begin, quoted or not; a pipe is looked at by itself.
const STARTS: &[char] = &[';', '&', '(', ')', '{', '}', '$', '[', ']', '`', '\n', '\r'];

/// Flags that have PowerShell say something of itself and run nothing.
const SPEAKS: &[&str] = &["-version", "-v", "-help", "-h", "-?"];

/// Flags behind which PowerShell reads commands from standard input, whatever its script.
const READS_ON: &[&str] = &["-noexit", "-noe"];

/// Checks a command of PowerShell.
pub(super) fn check<'q>(case: &CommandCase<'q>) -> Result<CheckedCommand<'q>, CommandRefusal> {
    let entry = case.entry;
    let mut given: Vec<String> = Vec::new();
    let mut script: Vec<String> = Vec::new();
    for word in case.argv().iter().skip(case.first) {
        let Ok(text) = std::str::from_utf8(word) else {
            return Err(case.refused(
                RefusalClass::Argument,
                "safe_cmdlets",
                format!("{} is no text", shown(word)),
            ));
        };
        // PowerShell takes `/Command` for `-Command`.
        let is_flag = text.starts_with('-')
            || (text.starts_with('/') && !text.get(1..).unwrap_or_default().contains('/'));
        if !is_flag {
            script.push(text.to_owned());
            continue;
        }
        let flag = format!("-{}", text.trim_start_matches(['-', '/'])).to_lowercase();
        let is = |listed: &str| listed.to_lowercase() == flag;
        if entry.deny_flags.iter().any(|denied| is(denied)) {
            let reason =
                format!("`{text}` is on deny_global_flags, whatever else allows it; leave it out");
            return Err(case.refused(RefusalClass::Flag, "deny_global_flags", reason));
        }
        let is_required = entry
            .require_flags
            .iter()
            .any(|required| is(&required.flag));
        if !is_required && !entry.flags.names.keys().any(|listed| is(listed)) {
            return Err(case.lists(&entry.flags, "flags").refused(word));
        }
        given.push(flag);
    }
    let has = |names: &[&str]| given.iter().any(|flag| names.contains(&flag.as_str()));
    if has(READS_ON) || script.is_empty() && !has(SPEAKS) {
        case.check_input("PowerShell")?;
    }
    check_script(case, &script)?;
    let mut argv = case.argv().to_vec();
    let is_missing = |required: &&RequiredFlag| !given.contains(&required.flag.to_lowercase());
    let missing = entry.require_flags.iter().filter(is_missing);
    let missing: Vec<Vec<u8>> = missing
        .map(|required| required.flag.clone().into_bytes())
        .collect();
    argv.splice(case.first..case.first, missing);
    Ok(CheckedCommand {
        argv,
        ..case.allowed("")
    })
}

fn check_script(case: &CommandCase<'_>, script: &[String]) -> Result<(), CommandRefusal> {
    let text = script.join(" ");
    for pattern in &case.entry.tool.dangerous_patterns {
        if pattern.regex.is_match(&text) {
            let reason = format!(
                "the script has what dangerous_patterns refuses: {}",
                pattern.text
            );
            return Err(case.refused(RefusalClass::Argument, "dangerous_patterns", reason));
        }
    }
    let safe = &case.entry.tool.safe_cmdlets;
    let words = text.split(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_'));
    let is_command = |word: &&str| word.contains('-') && word.starts_with(char::is_alphabetic);
    for command in words.filter(is_command) {
        if !safe.contains(&command.to_lowercase()) {
            let reason = format!(
                "`{command}` is no command that safe_cmdlets allows; these are: {}",
                safe.iter().cloned().collect::<Vec<_>>().join(" ")
            );
            return Err(case.refused(RefusalClass::Argument, "safe_cmdlets", reason));
        }
    }
    // A command that stands elsewhere than first or behind a pipe would escape the list.
    if let Some(found) = text.chars().find(|c| STARTS.contains(c)) {
        let reason = format!(
            "{} may begin a command that safe_cmdlets does not see; run the commands one by one",
            shown(found.to_string().as_bytes())
        );
        return Err(case.refused(RefusalClass::Argument, "safe_cmdlets", reason));
    }
    if !script.is_empty() {
        // Something that names no command of that form could be anything: an alias, a program, a call.
        for command in text.split('|') {
            let first = command.split_whitespace().next().unwrap_or_default();
            if !safe.contains(&first.to_lowercase()) {
                let reason = format!(
                    "{} is no command that safe_cmdlets allows",
                    shown(first.as_bytes())
                );
                return Err(case.refused(RefusalClass::Argument, "safe_cmdlets", reason));
            }
        }
    }
    for word in script {
        case.within.check(word.as_bytes())?;
    }
    Ok(())
}
