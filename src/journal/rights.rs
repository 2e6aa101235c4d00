//! A caller's rights on set-user-id and set-group-id bits: its groups and the capabilities concerned.
//!
//! The kernel passes a request's user and one group; the rest is read from `/proc`. This is rare: only for files with
//! one of these bits. Reading `status` takes no lock that an `execve` of the caller holds.

use super::actor::Caller;
use crate::sys::identity::user_namespace_of;

/// `CAP_FSETID` in capabilities(7): its holder may write to such a file without clearing the bits.
const FSETID: u32 = 4;
/// `CAP_FOWNER`: its holder counts as the owner of every file.
const FOWNER: u32 = 3;

/// A caller's groups and capabilities.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetIdRights {
    groups: Vec<u32>,
    keeps: bool,
    owner: bool,
}

impl SetIdRights {
    /// Reads a caller's current rights. For an invisible process, only those passed with the request are known.
    pub fn of(caller: Caller) -> SetIdRights {
        let mut rights = SetIdRights {
            groups: vec![caller.gid],
            ..SetIdRights::default()
        };
        let Ok(status) = std::fs::read_to_string(format!("/proc/{}/status", caller.pid)) else {
            return rights;
        };
        for line in status.lines() {
            if let Some(groups) = line.strip_prefix("Groups:") {
                let groups = groups
                    .split_whitespace()
                    .filter_map(|g| g.parse::<u32>().ok());
                rights.groups.extend(groups);
            } else if let Some(effective) = line.strip_prefix("CapEff:") {
                let effective = u64::from_str_radix(effective.trim(), 16).unwrap_or(0);
                rights.keeps = effective >> FSETID & 1 == 1;
                rights.owner = effective >> FOWNER & 1 == 1;
            }
        }
        // In a user namespace of its own a process has every capability, but none over these files.
        let namespace = |process| user_namespace_of(process).ok();
        if namespace(caller.pid) != namespace(std::process::id()) {
            (rights.keeps, rights.owner) = (false, false);
        }
        rights
    }

    /// Returns whether a change of content preserves the bits.
    pub fn keeps(&self) -> bool {
        self.keeps
    }

    /// Returns whether the caller counts as the owner of others' files.
    pub fn acts_as_owner(&self) -> bool {
        self.owner
    }

    /// Returns whether the caller counts as a member of a group.
    pub fn is_in(&self, group: u32) -> bool {
        self.keeps || self.groups.contains(&group)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_in_the_group_that_it_came_with() {
        let gone = Caller {
            pid: u32::MAX,
            uid: 7,
            gid: 8,
            origin: crate::journal::Origin::default(),
        };
        let rights = SetIdRights::of(gone);
        assert!(rights.is_in(8) && !rights.is_in(7) && !rights.keeps());
    }

    #[test]
    fn this_process_is_in_its_groups() {
        let groups = rustix::process::getgroups().unwrap();
        let rights = SetIdRights::of(Caller::myself());
        assert!(groups.iter().all(|group| rights.is_in(group.as_raw())));
        let effective = rustix::thread::capabilities(None).unwrap().effective;
        let has = effective.contains(rustix::thread::CapabilitySet::FSETID);
        assert_eq!(rights.keeps(), has);
    }
}
