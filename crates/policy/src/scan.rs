//! The words behind a program as flags and arguments: [`scan`], by the lists of a policy and what is known of the tool.

use super::schema::{FlagList, FlagValue, RequiredFlag, WordReading};
use super::verdict::{CommandRefusal, RefusalClass};
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

/// The syntax of a tool's flags.
pub(super) struct FlagGrammar<'g> {
    /// Returns what a flag takes, where that is known.
    pub(super) takes: &'g dyn Fn(&str) -> Option<FlagValue>,
    /// True if `-ab` is `-a -b`.
    pub(super) clusters: bool,
    /// True if the tool takes the next word as a value even where it begins with a dash.
    pub(super) dashed_values: bool,
}

/// Where a scan ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanEnd {
    /// At the last word.
    End,
    /// At the first argument: what follows belongs to somebody else.
    Argument,
    /// At the first argument, or behind one of these flags.
    Flag(&'static [&'static str]),
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
    /// True if the argument stands behind `--`.
    pub(super) is_literal: bool,
}

/// The flags and arguments that a scan found.
#[derive(Debug, Default)]
pub(super) struct ScanResult<'w> {
    pub(super) flags: Vec<ParsedFlag>,
    pub(super) arguments: Vec<ParsedArgument<'w>>,
    /// Where `--` stands.
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
        let is_flag = scanned.dashes.is_none() && word.len() > 1 && word.starts_with(b"-");
        if !is_flag {
            if until != ScanEnd::End {
                scanned.end = at;
                break;
            }
            scanned.arguments.push(ParsedArgument {
                word,
                at,
                is_literal: scanned.dashes.is_some(),
            });
        } else if word == b"--" {
            scanned.dashes = Some(at);
        } else {
            let next = words.get(at + 1).map(Vec::as_slice);
            let found = lists.flag(word, next, at, grammar)?;
            at += usize::from(found.iter().any(|flag| flag.takes_next));
            let ends = matches!(until, ScanEnd::Flag(last) if found.iter().any(|flag| last.contains(&flag.name.as_str())));
            scanned.flags.extend(found);
            if ends {
                scanned.end = at + 1;
                break;
            }
        }
        at += 1;
    }
    Ok(scanned)
}

impl FlagLists<'_> {
    /// Takes one word apart that begins with a dash.
    fn flag(
        &self,
        word: &[u8],
        next: Option<&[u8]>,
        at: usize,
        grammar: &FlagGrammar<'_>,
    ) -> Result<Vec<ParsedFlag>, CommandRefusal> {
        let Ok(text) = std::str::from_utf8(word) else {
            return Err(self.refused(word));
        };
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        self.check_denied(text, name)?;
        if self.allowed.iter().any(|flags| flags.exact.contains(text)) {
            return Ok(vec![flag(
                name,
                value.map(Vec::from),
                WordReading::Path,
                at,
            )]);
        }
        if let Some(takes) = self.takes(name, grammar) {
            let is_known = matches!((grammar.takes)(name), Some(FlagValue::Value(_)));
            let next = NextWord {
                word: next,
                may_be_dashed: grammar.dashed_values && is_known,
            };
            return self
                .whole(name, value, next, at, takes)
                .map(|flag| vec![flag]);
        }
        let digits = text.strip_prefix('-').unwrap_or_default();
        let is_number = digits.bytes().all(|b| b.is_ascii_digit());
        if is_number && self.allowed.iter().any(|flags| flags.number) {
            return Ok(vec![flag("-<n>", None, WordReading::Text, at)]);
        }
        let short = digits.len() > 1 && !digits.starts_with('-');
        let Some(letters) = short.then_some(digits) else {
            return Err(self.refused(word));
        };
        if !grammar.clusters {
            return Err(self.refused(word));
        }
        self.short(word, letters, at, grammar)
    }

    /// Returns what an allowed flag takes.
    fn takes(&self, name: &str, grammar: &FlagGrammar<'_>) -> Option<FlagValue> {
        let listed = self
            .allowed
            .iter()
            .find_map(|flags| flags.names.get(name))
            .cloned();
        let required = self.required.iter().find(|required| required.flag == name);
        let listed = listed.or(required.map(|_| FlagValue::Unstated))?;
        let has_values = required.is_some_and(|required| !required.values.is_empty());
        Some(match (listed, (grammar.takes)(name)) {
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
        if !may_be_dashed && value.len() > 1 && value.starts_with(b"-") {
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
            self.check_denied(&name, &name)?;
            let rest = letters.get(from + letter.len_utf8()..).unwrap_or_default();
            match self.takes(&name, grammar) {
                Some(FlagValue::Value(reading) | FlagValue::Attached(reading)) if number == 0 => {
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

    fn check_denied(&self, word: &str, name: &str) -> Result<(), CommandRefusal> {
        for (names, key) in &self.denied {
            if names.iter().any(|denied| denied == name || denied == word) {
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
