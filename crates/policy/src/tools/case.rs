//! The input of a validator ([`CommandCase`]), its result ([`CheckedCommand`]), and the steps that validators share.

use super::super::grammar::{FlagValue, ToolGrammar, UNKNOWN, WordReading, WordSyntax};
use super::super::own_dir::own_path;
use super::super::question::{CommandRequest, PathPlace};
use super::super::required;
use super::super::scan::{
    FlagGrammar, FlagLists, ParsedArgument, ParsedFlag, ScanEnd, ScanResult, scan,
};
use super::super::schema::{FlagList, ProgramEntry, RunSettings, SubCommand};
use super::super::verdict::{CommandRefusal, RefusalClass};
use super::super::within::HomeBounds;
use super::super::words::shown;
use super::git_words;

/// A command and the entry that it is judged by.
pub(in super::super) struct CommandCase<'q> {
    pub(in super::super) entry: &'q ProgramEntry,
    /// The grammar of the program.
    pub(in super::super) tool: &'q ToolGrammar,
    pub(in super::super) question: &'q CommandRequest<'q>,
    pub(in super::super) within: HomeBounds<'q>,
    /// The number of the first word behind the program; `python -m pytest` is one of three words.
    pub(in super::super) first: usize,
}

/// A command as a validator allows it.
pub(in super::super) struct CheckedCommand<'q> {
    /// The words, with what is required.
    pub(in super::super) argv: Vec<Vec<u8>>,
    /// The key that allowed them.
    pub(in super::super) rule: String,
    /// The settings of its run, the most special first.
    pub(in super::super) runs: Vec<&'q RunSettings>,
    /// Variables that the tool needs.
    pub(in super::super) env: Vec<(&'q str, Vec<u8>)>,
    /// Directories of the home that come first in PATH.
    pub(in super::super) path: Vec<Vec<u8>>,
    /// Directories of the home that come last in PATH.
    pub(in super::super) path_end: Vec<Vec<u8>>,
    /// True if the program itself may come from `path`: it runs code of the home anyway.
    pub(in super::super) runs_home_code: bool,
}

/// A sub-command that was found.
#[derive(Clone, Copy)]
pub(super) struct SubCommandMatch<'q> {
    /// As it was typed.
    pub(super) typed: &'q str,
    /// As the policy calls it.
    pub(super) name: &'q str,
    pub(super) sub: &'q SubCommand,
    /// The number of its word.
    pub(super) at: usize,
}

impl<'q> CommandCase<'q> {
    /// Returns all words.
    pub(super) fn argv(&self) -> &'q [Vec<u8>] {
        self.question.argv
    }

    /// Returns the key of the policy for a rule of this entry.
    pub(super) fn key(&self, key: &str) -> String {
        let key = key.trim_start_matches('.');
        match key.is_empty() {
            true => self.entry.name.clone(),
            false => format!("{}.{key}", self.entry.name),
        }
    }

    /// Makes the refusal of a rule of this entry.
    pub(super) fn refused(
        &self,
        class: RefusalClass,
        key: &str,
        reason: impl Into<String>,
    ) -> CommandRefusal {
        CommandRefusal::new(class, self.key(key), reason)
    }

    /// Allows the words as they are.
    pub(super) fn allowed(&self, key: &str) -> CheckedCommand<'q> {
        CheckedCommand {
            argv: self.argv().to_vec(),
            rule: self.key(key),
            runs: vec![&self.entry.run],
            env: Vec::new(),
            path: Vec::new(),
            path_end: Vec::new(),
            runs_home_code: false,
        }
    }

    /// Returns the flags that hold for the program as a whole.
    pub(super) fn lists(&self, flags: &'q FlagList, key: &str) -> FlagLists<'q> {
        FlagLists {
            allowed: vec![flags],
            denied: vec![(&self.entry.deny_flags, self.key("deny_global_flags"))],
            required: self.entry.require_flags.iter().collect(),
            key: self.key(key),
            of: self.entry.name.clone(),
        }
    }

    /// Returns the flags that hold behind a sub-command.
    pub(super) fn lists_of(&self, found: &SubCommandMatch<'q>) -> FlagLists<'q> {
        let mut lists = self.lists(&found.sub.flags, "");
        lists.allowed.push(&self.entry.flags);
        lists.denied.push((
            &found.sub.deny_flags,
            self.key(&format!("subcommands.{}.deny_flags", found.name)),
        ));
        lists.required.extend(&found.sub.require_flags);
        lists.key = self.key(&format!("subcommands.{}.flags", found.name));
        lists.of = format!("{} {}", self.entry.name, found.typed);
        lists
    }

    /// Returns the syntax of flags behind a sub-command, or of a program without one.
    pub(super) fn grammar(&self, subcommand: Option<&'q str>) -> FlagGrammar<'q> {
        FlagGrammar {
            tool: self.tool,
            subcommand,
            dashed_values: true,
            within: self.within,
        }
    }

    /// Returns the lists of flags that may stand before a sub-command.
    pub(super) fn root_flags(&self) -> Vec<&'q FlagList> {
        match self.tool.root_flags {
            true => vec![&self.entry.root_flags, &self.entry.flags],
            false => Vec::new(),
        }
    }

    /// Finds the sub-command: the first word that is neither a flag that may stand before it nor such a flag's value.
    /// Returns nothing where there are flags alone.
    ///
    /// # Errors
    /// The sub-command is denied, disabled or not listed; or a flag before it is not allowed; or `--` stands before it.
    pub(super) fn subcommand(
        &self,
    ) -> Result<(Option<SubCommandMatch<'q>>, ScanResult<'q>), CommandRefusal> {
        // A list may have a flag as a sub-command: `dotnet --info`.
        if let Some(word) = self
            .argv()
            .get(self.first)
            .and_then(|word| std::str::from_utf8(word).ok())
            && word.starts_with('-')
            && self
                .entry
                .subcommands
                .as_ref()
                .is_some_and(|all| all.contains_key(word))
        {
            return self
                .listed(word, word, self.first)
                .map(|found| (Some(found), ScanResult::default()));
        }
        let mut lists = self.lists(&self.entry.root_flags, "root_flags");
        lists.allowed = self.root_flags();
        lists.required.clear();
        lists.of = format!("{} before its sub-command", self.entry.name);
        let grammar = FlagGrammar {
            // Where no flag stands before it, the first word is it, whatever it looks like to the tool.
            tool: match self.tool.root_flags {
                true => self.tool,
                false => &UNKNOWN,
            },
            dashed_values: false,
            ..self.grammar(None)
        };
        let scanned = scan(self.argv(), self.first, &lists, &grammar, ScanEnd::Argument)?;
        self.check_values(&scanned)?;
        // A program that ends its flags there takes what is inserted behind the sub-command for an operand.
        if scanned.dashes.is_some() {
            let reason = format!(
                "`--` has no place before a sub-command of {}; leave it out",
                self.entry.name
            );
            return Err(self.refused(RefusalClass::Subcommand, "subcommands", reason));
        }
        let Some(word) = self.argv().get(scanned.end) else {
            return match scanned.flags.is_empty() {
                true => Err(self.no_subcommand("the command names no sub-command")),
                false => Ok((None, scanned)),
            };
        };
        let Ok(typed) = std::str::from_utf8(word) else {
            return Err(self.no_subcommand(&format!("{} is not allowed", shown(word))));
        };
        let found = self.listed(typed, self.tool.subcommand_name(typed), scanned.end)?;
        Ok((Some(found), scanned))
    }

    fn listed(
        &self,
        typed: &'q str,
        name: &'q str,
        at: usize,
    ) -> Result<SubCommandMatch<'q>, CommandRefusal> {
        let denied = &self.entry.deny_subcommands;
        if denied
            .iter()
            .any(|denied| denied == name || denied == typed)
        {
            let reason = format!(
                "`{typed}` is on deny_subcommands, whatever else allows it; {}",
                self.instead()
            );
            return Err(self.refused(RefusalClass::Subcommand, "deny_subcommands", reason));
        }
        let all = self.entry.subcommands.as_ref();
        let Some(sub) = all.and_then(|all| all.get(name).or_else(|| all.get(typed))) else {
            return Err(self.no_subcommand(&format!(
                "{} is not a sub-command that is allowed",
                shown(typed.as_bytes())
            )));
        };
        if sub.disabled {
            let reason = format!(
                "`{typed}` is switched off (`enabled: false`); {}",
                self.instead()
            );
            return Err(self.refused(
                RefusalClass::Subcommand,
                &format!("subcommands.{name}.enabled"),
                reason,
            ));
        }
        Ok(SubCommandMatch {
            typed,
            name,
            sub,
            at,
        })
    }

    fn no_subcommand(&self, what: &str) -> CommandRefusal {
        let reason = format!("{what} of {}; {}", self.entry.name, self.instead());
        self.refused(RefusalClass::Subcommand, "subcommands", reason)
    }

    fn instead(&self) -> String {
        let all = self.entry.subcommands.iter().flatten();
        let names: Vec<&str> = all
            .filter(|(name, sub)| !sub.disabled && !self.entry.deny_subcommands.contains(name))
            .map(|(name, _)| name.as_str())
            .collect();
        match names.is_empty() {
            true => "none is allowed".to_owned(),
            false => format!("these are: {}", names.join(" ")),
        }
    }

    /// Checks the values of flags.
    pub(super) fn check_values(&self, scanned: &ScanResult<'_>) -> Result<(), CommandRefusal> {
        for flag in &scanned.flags {
            let Some(value) = &flag.value else { continue };
            if flag.read_as == WordReading::Path {
                self.check_path(value)?;
            } else if self.tool.line_ranges.contains(&flag.name) {
                git_words::check_lines(self.within, value)?;
            }
        }
        Ok(())
    }

    /// Checks a word that may name a file, in the tool's own syntax.
    pub(super) fn check_path(&self, word: &[u8]) -> Result<(), CommandRefusal> {
        match self.tool.words {
            WordSyntax::Paths => self.within.check(word),
            WordSyntax::Git => git_words::check_word(self.within, &self.entry.name, word),
        }
    }

    /// Checks words that are no flags: how each is read, and what the first may be.
    pub(super) fn check_arguments(
        &self,
        arguments: &[ParsedArgument<'_>],
        rules: &super::super::schema::ArgumentRules,
        key: &str,
        known: &dyn Fn(usize) -> WordReading,
    ) -> Result<(), CommandRefusal> {
        if let (Some(allowed), Some(first)) = (&rules.first, arguments.first())
            && !allowed
                .iter()
                .any(|allowed| allowed.as_bytes() == first.word)
        {
            let names: Vec<&str> = allowed.iter().map(String::as_str).collect();
            let reason = format!(
                "{} is not allowed as the first argument of {}; these are: {}",
                shown(first.word),
                self.key(key),
                names.join(" ")
            );
            return Err(self.refused(
                RefusalClass::Argument,
                &format!("{key}.first_argument"),
                reason,
            ));
        }
        for (number, argument) in arguments.iter().enumerate() {
            let kind = match &rules.kinds {
                Some(kinds) => kinds
                    .get(number)
                    .or(kinds.last())
                    .copied()
                    .unwrap_or(WordReading::Refused),
                None => known(number),
            };
            match kind {
                WordReading::Text => {}
                WordReading::Path => self.within.check_unknown(argument.word)?,
                WordReading::Refused => {
                    let reason = format!(
                        "{} is one argument too many for {}; leave it out",
                        shown(argument.word),
                        self.entry.name
                    );
                    return Err(self.refused(
                        RefusalClass::Argument,
                        &format!("{key}.arguments"),
                        reason,
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns what `modes` says of one way to run.
    pub(super) fn mode(&self, name: &str) -> Option<bool> {
        self.entry.tool.modes.get(name).copied()
    }

    /// Checks a command that names no script, so that the tool reads its code from standard input.
    pub(super) fn check_input(&self, tool: &str) -> Result<(), CommandRefusal> {
        if self.mode("repl") == Some(true) {
            return Ok(());
        }
        let reason = format!(
            "without a script {tool} reads code from standard input, and modes.repl does not allow that; name a script in the home"
        );
        Err(self.refused(RefusalClass::Subcommand, "modes.repl", reason))
    }

    /// Returns the working directory and the home, as absolute paths: where a tool looks for what belongs to a project.
    pub(super) fn projects(&self) -> Vec<Vec<u8>> {
        let home = self.question.home.to_vec();
        let cwd = self.within.cwd;
        match cwd.is_root() {
            true => vec![home],
            false => vec![[home.as_slice(), cwd.bytes()].join(&b'/'), home],
        }
    }

    /// Some tools take the word behind a flag that they do not know for its value. So a flag of which nobody says what it
    /// takes may stand where no such word follows, or with `=`.
    pub(super) fn check_greedy(
        &self,
        scanned: &ScanResult<'_>,
        allowed: &[&FlagList],
        key: &str,
    ) -> Result<(), CommandRefusal> {
        let is_stated = |flag: &ParsedFlag| {
            let mut stated = allowed
                .iter()
                .filter_map(|flags| flags.names.get(&flag.name));
            let fact = self.tool.fact(None, &flag.name);
            fact.is_some_and(|fact| fact.takes != FlagValue::Nothing)
                || stated.any(|takes| *takes != FlagValue::Unstated)
        };
        let takes_word = |flag: &&ParsedFlag| {
            let next = self.argv().get(flag.at + 1);
            flag.value.is_none()
                && !is_stated(flag)
                && next.is_some_and(|next| !next.starts_with(b"-"))
        };
        match scanned
            .flags
            .iter()
            .find(takes_word)
            .filter(|_| self.tool.greedy)
        {
            None => Ok(()),
            Some(flag) => {
                let name = &flag.name;
                let instead = match allowed {
                    [] => "leave it out".to_owned(),
                    _ => format!(
                        "write {name}=VALUE, or let the policy say it: {{\"{name}\": false}}"
                    ),
                };
                let reason =
                    format!("whether `{name}` takes the next word is not known; {instead}");
                Err(self.refused(RefusalClass::Flag, key, reason))
            }
        }
    }

    /// Adds what the tool needs around it.
    pub(super) fn add_surroundings(&self, checked: &mut CheckedCommand<'q>) {
        if let Some(programs) = &self.tool.project_programs {
            for project in self.projects() {
                let dir = [project.as_slice(), programs.as_bytes()].join(&b'/');
                checked.path_end.push(dir);
            }
        }
        for (name, value) in &self.tool.environment {
            let value = match value.strip_prefix("HOME") {
                Some(rest) => own_path(rest),
                None => value.clone().into_bytes(),
            };
            checked.env.push((name, value));
        }
    }

    /// Allows a sub-command, with the flags it requires behind it.
    pub(super) fn allow_subcommand(
        &self,
        found: &SubCommandMatch<'q>,
        scanned: &ScanResult<'_>,
    ) -> Result<CheckedCommand<'q>, CommandRefusal> {
        let key = format!("subcommands.{}", found.name);
        let mut all = found.sub.require_flags.clone();
        all.extend(
            self.entry
                .require_flags
                .iter()
                .filter(|flag| {
                    !found
                        .sub
                        .require_flags
                        .iter()
                        .any(|own| own.flag == flag.flag)
                })
                .cloned(),
        );
        let argv = required::insert(self.argv(), found.at + 1, &all, scanned, &self.key(&key))?;
        let mut checked = self.allowed(&key);
        checked.argv = argv;
        checked.runs.insert(0, &found.sub.run);
        Ok(checked)
    }

    /// Allows a command without a sub-command, with the flags it requires behind the program.
    pub(super) fn allow_program(
        &self,
        scanned: &ScanResult<'_>,
    ) -> Result<CheckedCommand<'q>, CommandRefusal> {
        let argv = required::insert(
            self.argv(),
            self.first,
            &self.entry.require_flags,
            scanned,
            &self.key(""),
        )?;
        Ok(CheckedCommand {
            argv,
            ..self.allowed("")
        })
    }

    /// Returns whether something lies at an absolute path of the home.
    pub(super) fn exists(&self, path: &[u8]) -> bool {
        self.within.place(path) == PathPlace::Inside
    }
}
