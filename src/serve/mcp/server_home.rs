//! [`ServerHome`]: the home that a server's tools work in, and what they work with.

use std::path::PathBuf;
use std::sync::Arc;

use crate::client::Client;
use crate::error::Result;
use crate::exec::program::network::NetworkRequest;
use crate::exec::program::policy::WatchedPolicy;
use crate::exec::program::sandbox::{BackendChoice, Launcher};
use crate::exec::program::{LineSource, ProgramCommand, ProgramHome};
use crate::exec::shell::Shell;
use crate::exec::{self, HeldHome, HomeContext, Limits, Outcome};

/// The settings of a server: the home that it works in, and the things that it works with.
#[derive(Clone)]
pub struct ServerSettings {
    /// A mounted home, or a store, which is mounted for as long as the server runs where that is possible.
    pub root: PathBuf,
    /// The policy of real programs, and what makes their sandboxes.
    pub programs: Option<(Arc<WatchedPolicy>, BackendChoice, Option<NetworkRequest>)>,
    /// The tools to offer; all where there are none.
    pub tools: Vec<String>,
    /// The largest number of tokens of an answer, of four bytes each.
    pub tokens: u64,
}

/// A real program, as the policy has it.
pub(super) struct ProgramInfo {
    pub(super) name: String,
    /// The policy's description of the program.
    pub(super) said: String,
    /// True if the home is read-only for the program.
    pub(super) is_read_only: bool,
    /// True if the program can reach anything in the network.
    pub(super) has_network: bool,
}

/// Real programs and their policy.
struct ProgramSetup {
    programs: Arc<ProgramHome>,
    lines: Arc<LineSource>,
}

/// The home that tools work in. The home stays mounted while this lives, if this mounted it.
pub(super) struct ServerHome {
    root: PathBuf,
    place: HomeContext,
    real: Option<ProgramSetup>,
    /// True if the store could not be mounted: then this process has the store for itself after the first change.
    is_unmounted: bool,
    /// The last to be dropped.
    held: Option<HeldHome>,
}

impl ServerHome {
    /// Opens it.
    ///
    /// # Errors
    /// As [`exec::open`] and [`ProgramHome::open`].
    pub(super) fn open(settings: ServerSettings) -> Result<ServerHome> {
        let root = settings.root;
        let Some((policy, choice, network)) = settings.programs else {
            let (place, held, unmounted) = exec::open_held(&root)?;
            if let Some(why) = &unmounted {
                log::warn!(
                    "{} cannot be mounted, and is worked in unmounted: {}",
                    root.display(),
                    why.full_message()
                );
            }
            return Ok(ServerHome {
                root,
                place,
                real: None,
                is_unmounted: unmounted.is_some(),
                held,
            });
        };
        let launcher = Launcher::of_this_program().with_choice(choice);
        let programs = Arc::new(ProgramHome::open(&root, None, launcher)?);
        let place = exec::open_in(&root, &programs)?;
        let lines = LineSource::new(programs.clone(), policy, network);
        let real = ProgramSetup {
            programs,
            lines: Arc::new(lines),
        };
        Ok(ServerHome {
            root,
            place,
            real: Some(real),
            is_unmounted: false,
            held: None,
        })
    }

    /// Returns where executors work.
    pub(super) fn place(&self) -> &HomeContext {
        &self.place
    }

    /// Returns whether the home is gone that was mounted for this: its daemon has ended.
    pub(super) fn is_lost(&self) -> bool {
        let held = self.held.as_ref().is_some_and(HeldHome::is_lost);
        held || self
            .real
            .as_ref()
            .is_some_and(|real| real.programs.is_lost())
    }

    /// Returns whether the store is worked in unmounted.
    pub(super) fn is_unmounted(&self) -> bool {
        self.is_unmounted
    }

    /// Returns whether `/tmp` is the session's scratch directory.
    pub(super) fn has_scratch(&self) -> bool {
        self.real.is_some()
    }

    /// Makes a shell.
    pub(super) fn shell(&self, limits: Limits) -> Shell {
        let shell = Shell::at(self.place.clone(), limits);
        match &self.real {
            Some(real) => shell.with_programs(real.lines.clone()),
            None => shell,
        }
    }

    /// Returns the store.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub(super) fn client(&self) -> Result<Client> {
        Client::open(&self.root)
    }

    /// Returns the real programs that the policy knows now.
    pub(super) fn programs(&self) -> Vec<ProgramInfo> {
        let Some(real) = &self.real else {
            return Vec::new();
        };
        let policy = real.lines.policy();
        let is_offline = matches!(real.lines.network(), Some(NetworkRequest::Nothing));
        let spec = |name: &str| {
            let reach = policy.reach(name);
            ProgramInfo {
                name: name.to_owned(),
                said: policy.describe(name).unwrap_or_default(),
                is_read_only: reach.is_some_and(|reach| reach.is_read_only),
                has_network: !is_offline && reach.is_none_or(|reach| reach.has_network),
            }
        };
        policy.programs().map(spec).collect()
    }

    /// Runs a real program, if the policy that is in force now allows it.
    pub(super) fn run_program(
        &self,
        command: ProgramCommand,
        streams: exec::pipeline::RequestStreams,
    ) -> Option<Outcome> {
        let real = self.real.as_ref()?;
        let policy = real.lines.policy();
        let command = ProgramCommand {
            network: real.lines.network().cloned(),
            ..command
        };
        Some(real.programs.run(&policy, &command, streams))
    }
}
