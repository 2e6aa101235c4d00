//! A summary of the policy of one program in a few words, for a caller of the program.

use super::grammar::FlagValue;
use super::schema::{FlagList, Policy, ProgramEntry, RunSettings, SubCommand};

/// The greatest number of sub-commands or flags that a summary names.
const NAMED: usize = 40;

/// The access that the sandbox of a program gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxReach {
    /// True if the home is read-only for the program.
    pub is_read_only: bool,
    /// True if the program can reach any host.
    pub has_network: bool,
}

impl SandboxReach {
    /// Adds one way to call it: what the first of these says, counts.
    fn add(&mut self, runs: &[&RunSettings]) {
        self.is_read_only &= runs.iter().find_map(|run| run.read_only).unwrap_or(false);
        let network = runs.iter().find_map(|run| run.network.as_ref());
        self.has_network |= network.is_some_and(|rule| {
            !(rule.allow.is_empty() && rule.host_ports.is_empty() && rule.publish.is_empty())
                || rule.all
        });
    }
}

impl Policy {
    /// Says how a program may be called: what the policy's author says of it, its sub-commands, its flags, its time. Nothing: it has no entry.
    ///
    /// This is a summary: other demands of the policy and the program's validator show in a refusal.
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

    /// Says what a program can do, however it is called, as far as the policy sees to it. Nothing: it has no entry.
    pub fn reach(&self, program: &str) -> Option<SandboxReach> {
        let entry = self.0.entries.get(program)?;
        let every = &self.0.every.run;
        let mut reach = SandboxReach {
            is_read_only: true,
            has_network: false,
        };
        // A sub-command has what it does not say from its entry, and that from the defaults.
        reach.add(&[&entry.run, every]);
        let mut waiting: Vec<&SubCommand> = entry
            .subcommands
            .iter()
            .flat_map(|subs| subs.values())
            .collect();
        while let Some(sub) = waiting.pop() {
            if !sub.disabled {
                reach.add(&[&sub.run, &entry.run, every]);
            }
            waiting.extend(sub.scripts.iter().flat_map(|scripts| scripts.values()));
        }
        Some(reach)
    }

    fn timeout(&self, entry: &ProgramEntry) -> Option<std::time::Duration> {
        entry.run.timeout.or(self.0.every.run.timeout)
    }
}

fn flags(flags: &FlagList) -> Vec<String> {
    let each = flags.names.iter().map(|(name, takes)| match takes {
        FlagValue::Unstated | FlagValue::Nothing => name.clone(),
        FlagValue::Attached(_) => format!("{name}[=VALUE]"),
        FlagValue::Value(_) => format!("{name} VALUE"),
        FlagValue::OneOf(values) => format!("{name} {}", values.join("|")),
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
