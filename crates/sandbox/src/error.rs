//! Why a program was not started: which step failed, what the kernel said, and what to do about it.

use std::fmt;

use rustix::io::Errno;

pub use trumanfs_init::error::Step;
use trumanfs_init::error::StepFailure;

use trumanfs_mounts::obstacle::CONTAINER_OPTIONS;
use trumanfs_types::error::reason;
use trumanfs_types::name::escape;

/// Why a program was not started. Nothing of it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchError {
    /// The step that failed.
    pub step: Step,
    /// The object of the step: a path, a number, a reason in words. May be empty.
    pub about: String,
    /// The error of the kernel, if it was asked.
    pub errno: Option<Errno>,
    /// The error of the other backend, which was tried after that.
    pub fallback: Option<Box<LaunchError>>,
}

impl LaunchError {
    pub(super) fn new(step: Step, about: impl Into<String>, errno: Errno) -> Self {
        StepFailure::new(step, about, errno).into()
    }

    /// Makes one of a step that is not taken, for this reason and not because a call failed.
    pub fn refused(step: Step, reason: impl Into<String>) -> Self {
        StepFailure::refused(step, reason).into()
    }

    /// Returns the failure and its reason, without a remedy.
    #[must_use]
    pub fn what(&self) -> String {
        let mut text = format!("cannot {}", in_words(self.step));
        if !self.about.is_empty() {
            text.push_str(": ");
            text.push_str(&escape(self.about.as_bytes()));
        }
        if let Some(errno) = self.errno {
            text.push_str(": ");
            text.push_str(&reason(&errno.into()));
        }
        if let Some(fallback) = &self.fallback {
            text.push_str("; nor with bwrap: ");
            text.push_str(&fallback.what());
        }
        text
    }

    /// Returns the remedy for the failure, where one is known.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        remedy_for(self.step, self.errno)
    }

    /// The remedy, or where to look for one. The reason of a network that cannot be prepared says itself what to do.
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        let search = "`trumanfs doctor` tries each mechanism and says what is missing";
        self.remedy()
            .or((self.step != Step::Network).then(|| search.to_owned()))
    }
}

impl From<StepFailure> for LaunchError {
    fn from(failed: StepFailure) -> Self {
        let StepFailure { step, about, errno } = failed;
        Self {
            step,
            about,
            errno,
            fallback: None,
        }
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "no sandbox: {}", self.what())?;
        match self.advice() {
            Some(advice) => write!(out, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for LaunchError {}

impl From<Errno> for LaunchError {
    fn from(errno: Errno) -> Self {
        Self::new(Step::Control, "", errno)
    }
}

/// Returns the action of a step, in words that follow "cannot …".
fn in_words(step: Step) -> &'static str {
    match step {
        Step::Plan => "run this plan",
        Step::Identity => "become the home's owner",
        Step::Namespaces => "make namespaces",
        Step::Init => "start the first process of the sandbox",
        Step::UserMap => "set up the user map",
        Step::Source => "find what the sandbox shall show",
        Step::Root => "make the sandbox's root",
        Step::Mount => "mount in the sandbox",
        Step::Proc => "mount /proc in the sandbox",
        Step::Pivot => "leave the host's root",
        Step::Loopback => "bring up the loopback interface",
        Step::Privileges => "give up privileges",
        Step::Filter => "install the filter of system calls",
        Step::Limits => "set limits",
        Step::Directory => "go to the working directory",
        Step::Program => "execute the program",
        Step::Control => "talk to the first process of the sandbox",
        Step::Network => "prepare the network of the sandbox",
        Step::Backend => "have the sandbox made",
        Step::Terminal => "make a terminal in the sandbox",
    }
}

/// Returns the remedy for a failed step, where there is something that helps in general.
fn remedy_for(step: Step, errno: Option<Errno>) -> Option<String> {
    let remedy = match (step, errno) {
        (Step::Identity, Some(Errno::PERM)) => {
            "run trumanfs as the home's owner; root needs CAP_SETUID and CAP_SETGID to become another user, and a user namespace that has this user"
        }
        (Step::Namespaces, Some(Errno::NOSPC)) => {
            "raise the sysctl user.max_user_namespaces (and the other user.max_*_namespaces), or leave the sandbox that this process is in"
        }
        (Step::UserMap, Some(Errno::PERM)) if rustix::process::geteuid().is_root() => {
            "root needs CAP_SETFCAP to enter itself into a user namespace: add it to the capabilities of the container or service, or run as an ordinary user"
        }
        (
            Step::Namespaces | Step::UserMap | Step::Root | Step::Pivot | Step::Loopback,
            Some(Errno::PERM | Errno::ACCESS),
        )
        | (Step::Source | Step::Mount, Some(Errno::PERM)) => {
            return Some(format!(
                "user namespaces are restricted here; `trumanfs doctor` says by what. AppArmor: load the profile that the package brings. A sysctl: kernel.unprivileged_userns_clone=1. In a container, start it with {CONTAINER_OPTIONS}. In a sandbox of trumanfs none can be made"
            ));
        }
        (Step::Namespaces, Some(Errno::INVAL)) => {
            "this kernel lacks a kind of namespace; user, mount, PID, network, IPC, UTS and cgroup namespaces are needed"
        }
        (Step::Proc, Some(Errno::PERM)) => {
            "something covers parts of this process's /proc, and the processes in it are the machine's: start a container without --pid=host, or with --security-opt systempaths=unconfined, a service without ProtectKernelTunables= and its like"
        }
        (
            Step::Source | Step::Root | Step::Mount | Step::Proc | Step::Pivot,
            Some(Errno::NOSYS),
        ) => {
            "this takes Linux 5.12 or newer (open_tree, move_mount, mount_setattr); on an older kernel install bubblewrap, which does without"
        }
        (Step::Directory, Some(Errno::NOENT)) => "the working directory must exist in the home",
        (Step::Directory, Some(Errno::NOTCONN)) => {
            "the daemon of the home ended: `trumanfs umount` takes the home away, then mount it again"
        }
        (Step::Directory, _) => "give a directory of the home that its owner may enter",
        (Step::Source, Some(Errno::NOENT)) => "name what is there, by an absolute path",
        (Step::Backend, _) => {
            "bwrap is the package bubblewrap; it needs user namespaces itself, and what it shows must be reachable by path for the home's owner"
        }
        (Step::Plan, None) => "leave that out, or give another home",
        (Step::Program, Some(Errno::NOENT)) => {
            "the program must be in /usr or in what bind_ro lists (`agent`: or in the home), and so must its interpreter"
        }
        (Step::Program, Some(Errno::ACCESS)) => "the file must be executable",
        _ => return None,
    };
    Some(remedy.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn steps_survive_the_wire() {
        for step in Step::ALL {
            assert_eq!(Step::from_number(step as u8), Some(step));
        }
        assert_eq!(Step::from_number(0), None);
        assert_eq!(Step::from_number(99), None);
    }

    /// The reason says what to do, and `doctor` knows nothing of a port that is in use or of a home that went away.
    #[test]
    fn a_remedy_is_one_for_what_failed() {
        let refused =
            LaunchError::refused(Step::Network, "port 3000: in use; publish another port");
        assert!(!refused.to_string().contains("doctor"), "{refused}");
        assert!(refused.to_string().ends_with("another port"), "{refused}");
        let gone = LaunchError::new(Step::Directory, "", Errno::NOTCONN);
        assert!(gone.to_string().contains("mount it again"), "{gone}");
        // What `doctor` prints.
        let unknown = LaunchError::new(Step::Source, "/dev/null", Errno::MFILE);
        assert_eq!(unknown.remedy(), None);
        assert!(!unknown.what().contains("os error"), "{unknown}");
        assert!(unknown.to_string().contains("doctor"), "{unknown}");
    }

    #[test]
    fn fallback_that_failed_follows_the_first_reason() {
        let bwrap = LaunchError::refused(Step::Backend, "bwrap: no");
        let error = LaunchError {
            fallback: Some(Box::new(bwrap)),
            ..LaunchError::new(Step::Namespaces, "", Errno::PERM)
        };
        let what = "cannot make namespaces: Operation not permitted; nor with bwrap: cannot have the sandbox made: bwrap: no";
        assert_eq!(error.what(), what);
    }

    #[test]
    fn an_error_names_step_thing_reason_and_remedy() {
        let error = LaunchError::new(Step::Namespaces, "", Errno::PERM);
        let text = error.to_string();
        for part in ["no sandbox", "make namespaces", "not permitted", "doctor"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
