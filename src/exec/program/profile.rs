//! The facts about well-known agents: the files of `agents/`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use super::data_file;
use super::secret_provider::SecretVariables;
use crate::error::Result;

/// The files, by the name of the profile.
const FILES: [(&str, &str); 6] = [
    ("aider", include_str!("../../../agents/aider.json")),
    ("claude", include_str!("../../../agents/claude.json")),
    ("codex", include_str!("../../../agents/codex.json")),
    ("gemini", include_str!("../../../agents/gemini.json")),
    ("goose", include_str!("../../../agents/goose.json")),
    ("opencode", include_str!("../../../agents/opencode.json")),
];

/// The needs of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentProfile {
    /// The description of the agent, for people.
    pub description: String,
    /// The names of the agent's programs.
    pub programs: Vec<String>,
    /// The hosts that it needs: those of its model, of its login and of its list of models.
    pub hosts: Vec<String>,
    /// The paths in the agent's own directory that stay after the agent has ended: login, settings, history.
    pub state: Vec<PathBuf>,
    /// The files of its user's home directory that are its login: a run is lent them if that is asked for.
    #[serde(default)]
    pub logins: Vec<PathBuf>,
    /// The files there with the user's instructions for all projects, which it reads.
    #[serde(default)]
    pub instructions: Vec<PathBuf>,
    /// Variables that may have its credentials. They are not passed on by themselves.
    pub credentials: Vec<String>,
    /// Variables that it gets.
    pub env: BTreeMap<String, String>,
    /// Variables that it gets with a secret, by the name of the secret's service, beside that service's or instead.
    #[serde(default)]
    pub secret_env: BTreeMap<String, SecretVariables>,
    /// Files of `/etc` that it reads in its sandbox: texts, or what is written as JSON. They have its hooks for prompts, which
    /// mark turns.
    #[serde(default)]
    pub etc: BTreeMap<PathBuf, Value>,
    /// Words that come right after its name, so that it does not try to make a sandbox of its own in this one.
    pub arguments: Vec<String>,
}

impl AgentProfile {
    /// Returns the files of `/etc` with their contents.
    pub fn etc_files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let content = |value: &Value| match value {
            Value::String(text) => text.clone().into_bytes(),
            value => value.to_string().into_bytes(),
        };
        let files = self.etc.iter();
        files
            .map(|(path, value)| (path.clone(), content(value)))
            .collect()
    }

    /// Returns the names of all profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// Returns the profile with a name, if there is one.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::error::Error::Damaged) for a file that is not understood, which a test sees to.
    pub fn named(name: &str) -> Result<Option<AgentProfile>> {
        data_file::named("", &FILES, name)
    }

    /// Returns the profile of a program, with its name.
    ///
    /// # Errors
    /// As [`AgentProfile::named`].
    pub fn of_program(program: &str) -> Result<Option<(&'static str, AgentProfile)>> {
        for name in AgentProfile::names() {
            if let Some(profile) = AgentProfile::named(name)?
                && profile.programs.iter().any(|known| known == program)
            {
                return Ok(Some((name, profile)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Component;

    use super::super::network::NetworkSettings;
    use super::super::policy::NetworkRule;
    use super::*;

    #[test]
    fn every_profile_says_what_can_be_done() {
        for name in AgentProfile::names() {
            let profile = AgentProfile::named(name).unwrap().unwrap();
            assert!(
                !profile.description.is_empty() && !profile.state.is_empty(),
                "{name}"
            );
            let rule = NetworkRule {
                allow: profile.hosts.clone(),
                ..NetworkRule::default()
            };
            assert!(
                NetworkSettings::new(&rule, None).unwrap().is_some(),
                "{name}"
            );
            // Below its own directory, and by names alone.
            let own = profile.state.iter().chain(&profile.logins);
            for path in own.chain(&profile.instructions) {
                let plain = |part| matches!(part, Component::Normal(_));
                assert!(path.components().all(plain), "{name}: {}", path.display());
            }
            // A secret is no default.
            for variable in profile.env.keys() {
                assert!(
                    !profile.credentials.contains(variable),
                    "{name}: {variable}"
                );
            }
            let (found, _) = AgentProfile::of_program(profile.programs.first().unwrap())
                .unwrap()
                .unwrap();
            assert_eq!(found, name);
        }
        assert_eq!(AgentProfile::named("nobody").unwrap(), None);
    }
}
