//! What a policy says of a program, in a few words: for somebody who is to call it.

use super::schema::{Entry, Flags, Policy, Takes};

/// How many sub-commands or flags are named.
const NAMED: usize = 40;

impl Policy {
    /// Says how a program may be called: what the policy's author says of it, its sub-commands, its flags, its time. Nothing: it has no entry.
    ///
    /// It is a summary. What else the policy and the program's validator ask for, a refusal says.
    pub fn describe(&self, program: &str) -> Option<String> {
        let entry = self.0.entries.get(program)?;
        let mut said: Vec<String> = entry.description.iter().cloned().collect();
        match &entry.subcommands {
            Some(allowed) => {
                let usable = allowed.iter().filter(|(_, sub)| !sub.disabled);
                let each = usable.map(|(name, sub)| match flags(&sub.flags) {
                    list if list.is_empty() => name.clone(),
                    list => format!("{name} ({})", named(list)),
                });
                said.push(format!("Sub-commands: {}.", named(each.collect())));
            }
            None if entry.has_flags => match flags(&entry.flags) {
                list if list.is_empty() => said.push("No flags.".to_owned()),
                list => said.push(format!("Flags: {}.", named(list))),
            },
            None => {}
        }
        if let Some(timeout) = self.timeout(entry) {
            said.push(format!("It has {} s.", timeout.as_secs_f64()));
        }
        Some(said.join(" "))
    }

    fn timeout(&self, entry: &Entry) -> Option<std::time::Duration> {
        entry.run.timeout.or(self.0.every.run.timeout)
    }
}

fn flags(flags: &Flags) -> Vec<String> {
    let each = flags.names.iter().map(|(name, takes)| match takes {
        Takes::Unstated | Takes::Nothing => name.clone(),
        Takes::Attached(_) => format!("{name}[=VALUE]"),
        Takes::Value(_) => format!("{name} VALUE"),
        Takes::OneOf(values) => format!("{name} {}", values.join("|")),
    });
    let number = flags.number.then(|| "-NUMBER".to_owned());
    each.chain(flags.exact.iter().cloned())
        .chain(number)
        .collect()
}

fn named(mut list: Vec<String>) -> String {
    let more = list.len().saturating_sub(NAMED);
    list.truncate(NAMED);
    if more > 0 {
        list.push(format!("and {more} more"));
    }
    list.join(", ")
}
