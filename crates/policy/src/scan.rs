//! The words behind a program as flags and arguments: [`scan`], by the lists of a policy and what is known of the tool.

use super::grammar::{FlagFact, FlagValue, FlagWord, ToolGrammar, WordReading};
use super::schema::{FlagList, RequiredFlag};
use super::verdict::{CommandRefusal, RefusalClass};
use super::within::HomeBounds;
use super::words::shown;

/// The flags that a policy allows, refuses and requires of a command.
pub(super) struct FlagLists<'p> {
    /// The lists that allow flags.
    pub(super) allowed: Vec<&'p FlagList>,
    /// Flags that are refused whatever allows them, with the key of each list.
    pub(super) denied: Vec<(&'p [String], String)>,
    /// Flags that a policy requires, and so allows.
    pub(super) required: Vec<&'p RequiredFlag>,
    /// The key of the policy that allows.
    pub(super) key: String,
    /// The command of the flags, for messages: `git log`.
    pub(super) of: String,
}

/// The syntax of a tool's flags at one place of its command line.
#[derive(Clone, Copy)]
pub(super) struct FlagGrammar<'g> {
    pub(super) tool: &'g ToolGrammar,
    /// The sub-command before the words.
    pub(super) subcommand: Option<&'g str>,
    /// False where no next word is a value that begins with a dash.
    pub(super) dashed_values: bool,
    pub(super) within: HomeBounds<'g>,
}

impl<'g> FlagGrammar<'g> {
    /// Returns what is known of a flag.
    pub(super) fn fact(&self, flag: &str) -> Option<FlagFact> {
        self.tool.fact(self.subcommand, flag)
    }

    /// Takes a word apart; nothing for one that is no flag.
    ///
    /// # Errors
    /// The word is no text, and may be a flag.
    fn flag_word<'w>(&self, word: &'w [u8]) -> Result<Option<FlagWord<'w>>, ()> {
        match std::str::from_utf8(word) {
            // A path of the home may begin as a flag does.
            Ok(text) if text.starts_with('/') && self.within.below_home(word).is_some() => Ok(None),
            Ok(text) => Ok(self.tool.flag_word(text)),
            Err(_) if self.tool.slashes || word.starts_with(b"-") => Err(()),
            Err(_) => Ok(None),
        }
    }
}

/// The end of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanEnd {
    /// At the last word.
    End,
    /// At the first argument, or behind a flag that ends the flags: what follows belongs to somebody else.
    Argument,
}

/// A flag that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParsedFlag {
    /// Its name, as the policy lists it.
    pub(super) name: String,
    /// Its value.
    pub(super) value: Option<Vec<u8>>,
    /// The reading of its value.
    pub(super) read_as: WordReading,
    /// The number of its word.
    pub(super) at: usize,
    /// True if its value is the next word.
    pub(super) takes_next: bool,
}

/// A word that is no flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParsedArgument<'w> {
    pub(super) word: &'w [u8],
    pub(super) at: usize,
}

/// The flags and arguments that a scan found.
#[derive(Debug, Default)]
pub(super) struct ScanResult<'w> {
    pub(super) flags: Vec<ParsedFlag>,
    pub(super) arguments: Vec<ParsedArgument<'w>>,
    /// The place of `--`.
    pub(super) dashes: Option<usize>,
    /// The number of the first word that was not looked at.
    pub(super) end: usize,
}

impl ScanResult<'_> {
    /// Returns the flags of a name.
    pub(super) fn named<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s ParsedFlag> {
        self.flags.iter().filter(move |flag| flag.name == name)
    }
}

/// Takes words apart, from the one with the number `from`.
///
/// # Errors
/// A flag that is not allowed, or without the value it needs.
pub(super) fn scan<'w>(
    words: &'w [Vec<u8>],
    from: usize,
    lists: &FlagLists<'_>,
    grammar: &FlagGrammar<'_>,
    until: ScanEnd,
) -> Result<ScanResult<'w>, CommandRefusal> {
    let mut scanned = ScanResult {
        end: words.len(),
        ..ScanResult::default()
    };
    let mut at = from;
    while let Some(word) = words.get(at) {
        let flag = match scanned.dashes {
            Some(_) => None,
            None => grammar.flag_word(word).map_err(|()| lists.refused(word))?,
        };
        let Some(flag) = flag else {
            if until == ScanEnd::Argument {
                scanned.end = at;
                break;
            }
            scanned.arguments.push(ParsedArgument { word, at });
            at += 1;
            continue;
        };
        if word == b"--" && !grammar.tool.slashes {
            scanned.dashes = Some(at);
            at += 1;
            continue;
        }
        let next = words.get(at + 1).map(Vec::as_slice);
        let found = lists.flag(word, &flag, next, at, grammar)?;
        at += 1 + usize::from(found.iter().any(|flag| flag.takes_next));
        let is_last = |flag: &ParsedFlag| grammar.tool.last_flags.contains(&flag.name);
        let ends = found.iter().any(is_last);
        scanned.flags.extend(found);
        if ends {
            scanned.end = at;
            break;
        }
    }
    Ok(scanned)
}

impl FlagLists<'_> {
    /// Finds the flags of one word.
    fn flag(
        &self,
        word: &[u8],
        read: &FlagWord<'_>,
        next: Option<&[u8]>,
        at: usize,
        grammar: &FlagGrammar<'_>,
    ) -> Result<Vec<ParsedFlag>, CommandRefusal> {
        let text = std::str::from_utf8(word).unwrap_or_default();
        let (name, value) = (&*read.name, read.value);
        self.check_denied(text, name, grammar)?;
        let required = self.required(name, grammar);
        let called = required.map_or(name, |required| &required.flag);
        if self.allowed.iter().any(|flags| flags.exact.contains(text)) {
            return Ok(vec![flag(
                called,
                value.map(Vec::from),
                WordReading::Path,
                at,
            )]);
        }
        if let Some(takes) = self.takes(name, grammar) {
            let fact = grammar.fact(name);
            let takes_dashed =
                |fact: FlagFact| fact.takes_dashed && matches!(fact.takes, FlagValue::Value(_));
            let next = NextWord {
                word: next,
                is_strict: grammar.tool.slashes,
                may_be_dashed: grammar.dashed_values && fact.is_some_and(takes_dashed),
            };
            let mut found = self.whole(called, value, next, at, takes)?;
            let value = found.value.take();
            found.value = value.map(|value| grammar.tool.value_word(name, value));
            if grammar.tool.slashes {
                // MSBuild's properties and response files lead anywhere, so no value is free.
                found.read_as = WordReading::Path;
            }
            return Ok(vec![found]);
        }
        if grammar.tool.slashes {
            return Err(self.refused(word));
        }
        let digits = text.strip_prefix('-').unwrap_or_default();
        let is_number = digits.bytes().all(|b| b.is_ascii_digit());
        if is_number && self.allowed.iter().any(|flags| flags.number) {
            return Ok(vec![flag("-<n>", None, WordReading::Text, at)]);
        }
        let short = digits.len() > 1 && !digits.starts_with('-');
        match short && grammar.tool.clusters {
            true => self.short(word, digits, at, grammar),
            false => Err(self.refused(word)),
        }
    }

    fn required(&self, name: &str, grammar: &FlagGrammar<'_>) -> Option<&RequiredFlag> {
        let mut required = self.required.iter().copied();
        required.find(|required| grammar.tool.is_same_flag(&required.flag, name))
    }

    /// Returns what an allowed flag takes.
    fn takes(&self, name: &str, grammar: &FlagGrammar<'_>) -> Option<FlagValue> {
        let same = |listed: &&String| grammar.tool.is_same_flag(listed, name);
        let mut listed = self.allowed.iter().flat_map(|flags| &flags.names);
        let listed = listed.find(|(listed, _)| same(listed));
        let required = self.required(name, grammar);
        let listed = listed.map(|(_, takes)| takes.clone());
        let listed = listed.or(required.map(|_| FlagValue::Unstated))?;
        let has_values = required.is_some_and(|required| !required.values.is_empty());
        let known = grammar.fact(name).map(|fact| fact.takes);
        Some(match (listed, known) {
            (FlagValue::Unstated, None) if has_values => FlagValue::Value(WordReading::Text),
            (listed @ FlagValue::OneOf(_), _) | (listed, None) => listed,
            // The policy may say how a value is read; whether there is one is the tool's.
            (FlagValue::Value(reading), Some(FlagValue::Value(_))) => FlagValue::Value(reading),
            (FlagValue::Attached(reading), Some(FlagValue::Attached(_))) => {
                FlagValue::Attached(reading)
            }
            (_, Some(known)) => known,
        })
    }

    /// A flag that is written out, with what it takes.
    fn whole(
        &self,
        name: &str,
        value: Option<&str>,
        next: NextWord<'_>,
        at: usize,
        takes: FlagValue,
    ) -> Result<ParsedFlag, CommandRefusal> {
        let value = value.map(Vec::from);
        match takes {
            FlagValue::Nothing if value.is_some() => Err(self.flag_refused(format!(
                "`{name}` takes no value in {}; leave `=…` out",
                self.of
            ))),
            FlagValue::Nothing => Ok(flag(name, None, WordReading::Path, at)),
            FlagValue::Unstated => Ok(flag(name, value, WordReading::Path, at)),
            FlagValue::Attached(reading) => Ok(flag(name, value, reading, at)),
            FlagValue::Value(reading) if value.is_some() => Ok(flag(name, value, reading, at)),
            FlagValue::Value(reading) => self.value_behind(name, next, at, reading),
            FlagValue::OneOf(values) => {
                let found = match value {
                    Some(_) => flag(name, value, WordReading::Text, at),
                    None => self.value_behind(name, next, at, WordReading::Path)?,
                };
                match values
                    .iter()
                    .any(|value| Some(value.as_bytes()) == found.value.as_deref())
                {
                    true => Ok(found),
                    false => Err(self.flag_refused(format!(
                        "`{name}` of {} takes one of these values: {}",
                        self.of,
                        values.join(", ")
                    ))),
                }
            }
        }
    }

    /// A flag whose value is the next word.
    fn value_behind(
        &self,
        name: &str,
        next: NextWord<'_>,
        at: usize,
        reading: WordReading,
    ) -> Result<ParsedFlag, CommandRefusal> {
        let Some(value) = next.word else {
            return Err(self.flag_refused(format!("`{name}` of {} needs a value", self.of)));
        };
        // Were the list wrong about the value, the next word would be a flag that nobody has looked at.
        let may_be_dashed = next.may_be_dashed && reading == WordReading::Text;
        let is_flag = value.starts_with(b"-") && (value.len() > 1 || next.is_strict);
        if !may_be_dashed && is_flag {
            let reason = format!(
                "the value of `{name}` begins with a dash; write {name}={}",
                String::from_utf8_lossy(value)
            );
            return Err(self.flag_refused(reason));
        }
        Ok(ParsedFlag {
            takes_next: true,
            ..flag(name, Some(value.to_vec()), reading, at)
        })
    }

    /// Several short flags in one word, or one with its value behind it.
    fn short(
        &self,
        word: &[u8],
        letters: &str,
        at: usize,
        grammar: &FlagGrammar<'_>,
    ) -> Result<Vec<ParsedFlag>, CommandRefusal> {
        let mut found = Vec::new();
        for (number, (from, letter)) in letters.char_indices().enumerate() {
            let name = format!("-{letter}");
            self.check_denied(&name, &name, grammar)?;
            let rest = letters.get(from + letter.len_utf8()..).unwrap_or_default();
            match self.takes(&name, grammar) {
                // nopt reads `-ab` as `-a -b`, and never `b` as a value.
                Some(FlagValue::Attached(_)) if grammar.tool.greedy => {
                    found.push(flag(&name, None, WordReading::Path, at))
                }
                Some(FlagValue::Value(reading) | FlagValue::Attached(reading))
                    if number == 0 && !grammar.tool.greedy =>
                {
                    let value = rest.strip_prefix('=').unwrap_or(rest);
                    return Ok(vec![flag(&name, Some(value.into()), reading, at)]);
                }
                Some(FlagValue::Nothing | FlagValue::Unstated) => {
                    found.push(flag(&name, None, WordReading::Path, at))
                }
                Some(_) => {
                    let reason = format!(
                        "`{name}` takes a value, so it does not stand in {} of {}; write the flags one by one",
                        shown(word),
                        self.of
                    );
                    return Err(self.flag_refused(reason));
                }
                None => return Err(self.refused(word)),
            }
        }
        Ok(found)
    }

    fn check_denied(
        &self,
        word: &str,
        name: &str,
        grammar: &FlagGrammar<'_>,
    ) -> Result<(), CommandRefusal> {
        for (names, key) in &self.denied {
            let is_it = |denied: &String| denied == word || grammar.tool.is_same_flag(denied, name);
            if names.iter().any(is_it) {
                let reason = format!(
                    "`{name}` is on {key}, which refuses it in {} whatever else allows it; leave it out",
                    self.of
                );
                return Err(CommandRefusal::new(RefusalClass::Flag, key.clone(), reason));
            }
        }
        Ok(())
    }

    fn flag_refused(&self, reason: String) -> CommandRefusal {
        CommandRefusal::new(RefusalClass::Flag, self.key.clone(), reason)
    }

    /// The refusal of a flag that no list has.
    pub(super) fn refused(&self, word: &[u8]) -> CommandRefusal {
        const SHOWN: usize = 40;
        let mut names: Vec<&str> = Vec::new();
        for flags in &self.allowed {
            names.extend(flags.names.keys().chain(&flags.exact).map(String::as_str));
            names.extend(flags.number.then_some("-<n>"));
        }
        let text = String::from_utf8_lossy(word);
        let name = text.split('=').next().unwrap_or_default();
        let whole = names
            .iter()
            .find(|known| name.len() > 3 && known.starts_with(name) && name.starts_with("--"));
        let instead = match whole {
            Some(whole) => format!("write `{whole}` in full"),
            None if names.is_empty() => "no flag is".to_owned(),
            None => {
                let more = if names.len() > SHOWN { " …" } else { "" };
                names.truncate(SHOWN);
                format!("these are: {}{more}", names.join(" "))
            }
        };
        self.flag_refused(format!(
            "{} is not allowed in {}; {instead}",
            shown(word),
            self.of
        ))
    }
}

/// The word behind a flag.
#[derive(Clone, Copy)]
struct NextWord<'w> {
    word: Option<&'w [u8]>,
    /// True if a lone dash is no value either.
    is_strict: bool,
    /// True if the tool is known to take the word as a value even where it begins with a dash.
    may_be_dashed: bool,
}

fn flag(name: &str, value: Option<Vec<u8>>, read_as: WordReading, at: usize) -> ParsedFlag {
    ParsedFlag {
        name: name.to_owned(),
        value,
        read_as,
        at,
        takes_next: false,
    }
}
