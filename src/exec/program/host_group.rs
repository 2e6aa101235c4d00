//! Groups of hosts that belong together, by a name: the files of `agents/hosts/`.

use serde::Deserialize;

use super::data_file;
use crate::error::Result;

/// The files, by the name of the group.
const FILES: [(&str, &str); 6] = [
    ("cargo", include_str!("../../../agents/hosts/cargo.json")),
    ("debian", include_str!("../../../agents/hosts/debian.json")),
    ("github", include_str!("../../../agents/hosts/github.json")),
    ("go", include_str!("../../../agents/hosts/go.json")),
    ("npm", include_str!("../../../agents/hosts/npm.json")),
    ("pip", include_str!("../../../agents/hosts/pip.json")),
];

/// Hosts that a tool needs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostGroup {
    /// The description of the group, for people.
    pub description: String,
    /// The hosts, as a policy lists them.
    pub hosts: Vec<String>,
}

impl HostGroup {
    /// Returns the names of all groups.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// Returns the group with a name, if there is one.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::error::Error::Damaged) for a file that is not understood, which a test sees to.
    pub fn named(name: &str) -> Result<Option<HostGroup>> {
        data_file::named("hosts/", &FILES, name)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::network::NetworkSettings;
    use super::super::policy::NetworkRule;
    use super::super::profile::AgentProfile;
    use super::*;

    #[test]
    fn every_group_has_hosts_and_a_name_of_its_own() {
        for name in HostGroup::names() {
            let group = HostGroup::named(name).unwrap().unwrap();
            assert!(!group.description.is_empty(), "{name}");
            let rule = NetworkRule {
                allow: group.hosts,
                ..NetworkRule::default()
            };
            let settings = NetworkSettings::new(&rule, None).unwrap();
            assert!(settings.is_some(), "{name}");
            assert!(AgentProfile::names().all(|profile| profile != name));
        }
        assert_eq!(HostGroup::named("nobody").unwrap(), None);
    }
}
