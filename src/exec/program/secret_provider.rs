//! The facts about services whose keys agents use: the files of `agents/secrets/`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::data_file;
use crate::error::Result;

/// The files, by the name of the service.
const FILES: [(&str, &str); 3] = [
    (
        "anthropic",
        include_str!("../../../agents/secrets/anthropic.json"),
    ),
    (
        "gemini",
        include_str!("../../../agents/secrets/gemini.json"),
    ),
    (
        "openai",
        include_str!("../../../agents/secrets/openai.json"),
    ),
];

/// The value that a program gets in the place of a secret, so that it starts.
const PLACEHOLDER: &str = "the-secret-is-added-outside-the-sandbox";

/// Variables, in whose values `{url}` stands for the base URL and `{placeholder}` for what is no secret.
pub type SecretVariables = BTreeMap<String, String>;

/// A service that takes a key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretProvider {
    /// The description of the service, for people.
    pub description: String,
    /// Its host.
    pub host: String,
    /// The field of a request that has the key, as `--secret` writes it.
    pub header: String,
    /// The variable in which callers usually have the key.
    pub variable: String,
    /// The requests that an agent makes of its model.
    pub only: Vec<String>,
    /// Further fields by which a client may say who asks.
    pub dropped: Vec<String>,
    /// Variables by which clients find the service and begin.
    pub env: SecretVariables,
}

impl SecretProvider {
    /// Returns the names of all services.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// Returns the service with a name, if there is one.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::error::Error::Damaged) for a file that is not understood, which a test sees to.
    pub fn named(name: &str) -> Result<Option<SecretProvider>> {
        data_file::named("secrets/", &FILES, name)
    }

    /// Returns the variables of a secret that is of no known service.
    #[must_use]
    pub fn variables_of_other(name: &str) -> SecretVariables {
        let upper = name.to_ascii_uppercase().replace('-', "_");
        [("BASE_URL", "{url}"), ("API_KEY", "{placeholder}")]
            .map(|(what, value)| (format!("{upper}_{what}"), value.to_owned()))
            .into()
    }
}

/// Puts the placeholder where it belongs.
#[must_use]
pub fn with_placeholder(variables: &SecretVariables) -> Vec<(String, String)> {
    let variables = variables.iter();
    let put = |(name, value): (&String, &String)| {
        (name.clone(), value.replace("{placeholder}", PLACEHOLDER))
    };
    variables.map(put).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::network::{RequestPattern, SecretHeader};
    use super::super::policy::network::Host;
    use super::super::profile::AgentProfile;
    use super::*;

    #[test]
    fn every_service_has_a_host_and_few_requests() {
        for name in SecretProvider::names() {
            let provider = SecretProvider::named(name).unwrap().unwrap();
            assert!(!provider.description.is_empty(), "{name}");
            assert!(matches!(
                Host::parse(provider.host.as_bytes()),
                Ok(Host::Name(_))
            ));
            SecretHeader::parse(&provider.header).unwrap();
            assert!(!provider.only.is_empty(), "{name}");
            for only in &provider.only {
                RequestPattern::parse(only).unwrap();
                assert!(!only.starts_with('*') && !only.ends_with("/**"), "{only}");
            }
            // The variable with the key has something else inside.
            assert_eq!(
                provider.env.get(&provider.variable).unwrap(),
                "{placeholder}"
            );
            assert!(
                provider
                    .env
                    .values()
                    .any(|value| value.starts_with("{url}"))
            );
        }
        assert_eq!(SecretProvider::named("nobody").unwrap(), None);
        for profile in AgentProfile::names() {
            let profile = AgentProfile::named(profile).unwrap().unwrap();
            let mut services = profile.secret_env.keys();
            assert!(services.all(|service| SecretProvider::names().any(|name| name == service)));
        }
        let other = SecretProvider::variables_of_other("my-git");
        let names: Vec<_> = other.keys().collect();
        assert_eq!(names, ["MY_GIT_API_KEY", "MY_GIT_BASE_URL"]);
        let put = with_placeholder(&other);
        assert!(
            put.iter()
                .all(|(_, value)| value == "{url}" || value == PLACEHOLDER)
        );
    }
}
