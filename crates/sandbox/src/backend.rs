//! The backends that make sandboxes, and the rule by which a launcher takes one.
//!
//! The one home of the rule: the namespaces that this program makes itself come first; where this machine refuses them,
//! bubblewrap may still be allowed to make them, for the restriction of user namespaces on Ubuntu 24.04 excepts it by
//! name. A backend that cannot keep what a plan asks refuses it: nothing runs in a weaker sandbox than it says.

use rustix::io::Errno;

use trumanfs_init::backend::Backend;

use super::error::{LaunchError, Step};

/// Which backend a launcher takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// Namespaces of its own; bubblewrap where this machine refuses them.
    #[default]
    Auto,
    /// This one and no other.
    Only(Backend),
}

impl BackendChoice {
    /// Returns the choice with a name: `auto`, or that of a backend with namespaces.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let is_sandbox = |choice: &Self| match choice {
            Self::Auto => true,
            Self::Only(backend) => backend.has_namespaces(),
        };
        Self::from_any_name(name).filter(is_sandbox)
    }

    /// Returns whether rules about files hold the programs, and nothing else.
    #[must_use]
    pub fn has_file_rules(self) -> bool {
        self == Self::Only(Backend::Landlock)
    }

    /// Returns the choice with a name, whatever backend that is.
    #[must_use]
    pub fn from_any_name(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            name => Backend::ALL
                .into_iter()
                .find(|one| one.name() == name)
                .map(Self::Only),
        }
    }
}

/// Returns whether an error of a launch means that this machine refuses the namespaces themselves, or rights over them,
/// so that bubblewrap may fare better, or that the kernel is older than the calls by which mounts are made here (Linux
/// 5.12), which bubblewrap does without. AppArmor may let the namespace be made and take the capabilities, so that any
/// step that needs one can be the first to fail.
pub(super) fn is_refused_here(error: &LaunchError) -> bool {
    let needs_rights = matches!(
        error.step,
        Step::Namespaces
            | Step::Init
            | Step::UserMap
            | Step::Source
            | Step::Root
            | Step::Mount
            | Step::Proc
            | Step::Pivot
            | Step::Loopback
            | Step::Privileges
    );
    let refused = matches!(
        error.errno,
        Some(Errno::PERM | Errno::ACCESS | Errno::NOSPC | Errno::NOSYS)
    );
    needs_rights && refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_have_names_and_numbers() {
        for one in Backend::ALL {
            let known = Some(BackendChoice::Only(one));
            assert_eq!(BackendChoice::from_any_name(one.name()), known);
            let is_sandbox = one.has_namespaces();
            assert_eq!(BackendChoice::from_name(one.name()).is_some(), is_sandbox);
            assert_eq!(Backend::from_number(one as u8), Some(one));
        }
        assert_eq!(BackendChoice::from_name("auto"), Some(BackendChoice::Auto));
        assert_eq!(
            (
                BackendChoice::from_name(""),
                BackendChoice::from_name("none")
            ),
            (None, None)
        );
        assert_eq!(Backend::from_number(0), None);
    }

    #[test]
    fn only_a_refusal_of_rights_leads_to_another_backend() {
        for (step, errno, wanted) in [
            (Step::Namespaces, Errno::PERM, true),
            (Step::Namespaces, Errno::NOSPC, true),
            (Step::UserMap, Errno::PERM, true),
            (Step::Source, Errno::PERM, true),
            (Step::Source, Errno::NOSYS, true),
            (Step::Mount, Errno::NOSYS, true),
            (Step::Filter, Errno::NOSYS, false),
            (Step::Source, Errno::NOENT, false),
            (Step::Mount, Errno::LOOP, false),
            (Step::Program, Errno::ACCESS, false),
            (Step::Limits, Errno::PERM, false),
            (Step::Control, Errno::PERM, false),
        ] {
            let error = LaunchError::new(step, "", errno);
            assert_eq!(is_refused_here(&error), wanted, "{error:?}");
        }
        let plan = LaunchError::refused(Step::Plan, "no");
        assert!(!is_refused_here(&plan));
    }
}
