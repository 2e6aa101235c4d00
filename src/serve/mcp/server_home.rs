//! [`ServerHome`]: the home that a server's tools work in, and what they work with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::client::Client;
use crate::error::Result;
use crate::exec::program::network::NetworkRequest;
use crate::exec::program::policy::{CommandRequest, NetworkRule, TextPaths, WatchedPolicy, decide};
use crate::exec::program::sandbox::{BackendChoice, Launcher};
use crate::exec::program::{
    LineSource, ProgramCommand, ProgramHome, SystemShell, SystemShellSettings,
};
use crate::exec::shell::Shell;
use crate::exec::{self, HeldHome, HomeContext, Limits, LineShell, Outcome};

/// The settings of a server: the home that it works in, and the things that it works with.
#[derive(Clone)]
pub struct ServerSettings {
    /// A mounted home, or a store, which is mounted for as long as the server runs where that is possible.
    pub root: PathBuf,
    /// The shell that runs lines.
    pub lines: ServedShell,
    /// The backend of sandboxes.
    pub sandbox: BackendChoice,
    /// The tools to offer; the usual ones where there are none.
    pub tools: Vec<String>,
    /// The largest number of tokens of an answer, of four bytes each.
    pub tokens: u64,
}

/// Makes the settings of a shell of this machine for the home that its lines work in.
pub type ShellSettingsMaker = dyn Fn(&ProgramHome) -> Result<SystemShellSettings> + Send + Sync;

/// The shell that runs the lines of a server.
#[derive(Clone)]
pub enum ServedShell {
    /// The bundled one, without real programs.
    Bundled,
    /// The bundled one, with the real programs of a policy and the part of its network that is asked for.
    WithPolicy(Arc<WatchedPolicy>, Option<NetworkRequest>),
    /// One of this machine, in a sandbox.
    System {
        /// Makes its settings.
        settings: Arc<ShellSettingsMaker>,
        /// True if the bundled one runs them where no sandbox can be made.
        or_bundled: bool,
    },
}

/// Programs that run scripts, each with the name that one of its scripts could have.
const SCRIPT_RUNNERS: [(&str, &str); 5] = [
    ("python3", "script.py"),
    ("python", "script.py"),
    ("bash", "script.sh"),
    ("sh", "script.sh"),
    ("node", "script.js"),
];

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

/// The shell of a server, with the open home that it needs.
enum OpenShell {
    Bundled,
    WithPolicy(Arc<ProgramHome>, Arc<LineSource>),
    System(Arc<ProgramHome>, Arc<SystemShellSettings>),
}

/// The home that tools work in. The home stays mounted while this lives, if this mounted it.
pub(super) struct ServerHome {
    root: PathBuf,
    place: HomeContext,
    shell: OpenShell,
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
        let launcher = Launcher::of_this_program().with_choice(settings.sandbox);
        match settings.lines {
            ServedShell::Bundled => ServerHome::open_bundled(root),
            ServedShell::WithPolicy(policy, network) => {
                let programs = Arc::new(ProgramHome::open(&root, None, launcher)?);
                let lines = LineSource::new(programs.clone(), policy, network);
                let shell = OpenShell::WithPolicy(programs.clone(), Arc::new(lines));
                ServerHome::open_with(root, &programs, shell)
            }
            ServedShell::System {
                settings,
                or_bundled,
            } => match ServerHome::open_system(&root, launcher, &*settings) {
                Err(why) if or_bundled => {
                    log::warn!(
                        "lines run in the bundled shell, for there is no sandbox for another one: {}",
                        why.full_message()
                    );
                    ServerHome::open_bundled(root)
                }
                opened => opened,
            },
        }
    }

    fn open_bundled(root: PathBuf) -> Result<ServerHome> {
        let (place, held, unmounted) = exec::open_held(&root)?;
        if let Some(why) = &unmounted {
            log::warn!(
                "{} cannot be mounted, and is worked in unmounted: {}",
                root.display(),
                why.full_message()
            );
        }
        Ok(ServerHome {
            root,
            place,
            shell: OpenShell::Bundled,
            is_unmounted: unmounted.is_some(),
            held,
        })
    }

    fn open_system(
        root: &Path,
        launcher: Launcher,
        settings: &ShellSettingsMaker,
    ) -> Result<ServerHome> {
        let programs = Arc::new(ProgramHome::open(root, None, launcher)?);
        let settings = Arc::new(settings(&programs)?);
        SystemShell::try_sandbox(&programs, &settings)?;
        let shell = OpenShell::System(programs.clone(), settings);
        ServerHome::open_with(root.to_owned(), &programs, shell)
    }

    fn open_with(root: PathBuf, programs: &ProgramHome, shell: OpenShell) -> Result<ServerHome> {
        Ok(ServerHome {
            place: exec::open_in(&root, programs)?,
            root,
            shell,
            is_unmounted: false,
            held: None,
        })
    }

    /// Returns the home of real programs, where they run.
    fn programs_home(&self) -> Option<&ProgramHome> {
        match &self.shell {
            OpenShell::Bundled => None,
            OpenShell::WithPolicy(programs, _) | OpenShell::System(programs, _) => Some(programs),
        }
    }

    /// Returns the shell of this machine that runs lines, if one does.
    pub(super) fn system_shell(&self) -> Option<&SystemShellSettings> {
        match &self.shell {
            OpenShell::System(_, settings) => Some(settings),
            _ => None,
        }
    }

    /// Returns whether a policy decides about real programs.
    pub(super) fn has_policy(&self) -> bool {
        matches!(self.shell, OpenShell::WithPolicy(..))
    }

    /// Returns whether a line can reach anything in the network.
    pub(super) fn reaches_out(&self) -> bool {
        match self.system_shell() {
            Some(settings) => settings.network != NetworkRule::default(),
            None => self.programs().iter().any(|program| program.has_network),
        }
    }

    /// Returns a program that the policy lets run a script of the home, if there is one.
    pub(super) fn script_runner(&self) -> Option<&'static str> {
        let OpenShell::WithPolicy(_, lines) = &self.shell else {
            return None;
        };
        let policy = lines.policy();
        let runs_scripts = |(program, script): &&(&'static str, &str)| {
            let argv = [program.as_bytes().to_vec(), script.as_bytes().to_vec()];
            let question = CommandRequest {
                argv: &argv,
                cwd: b"",
                home: self.place.root(),
                env: &[],
                timeout: None,
                paths: &TextPaths,
            };
            decide(&policy, &question).is_ok()
        };
        let found = SCRIPT_RUNNERS.iter().find(runs_scripts);
        found.map(|(program, _)| *program)
    }

    /// Returns where executors work.
    pub(super) fn place(&self) -> &HomeContext {
        &self.place
    }

    /// Returns whether the home is gone that was mounted for this: its daemon has ended.
    pub(super) fn is_lost(&self) -> bool {
        let held = self.held.as_ref().is_some_and(HeldHome::is_lost);
        held || self.programs_home().is_some_and(ProgramHome::is_lost)
    }

    /// Returns whether the store is worked in unmounted.
    pub(super) fn is_unmounted(&self) -> bool {
        self.is_unmounted
    }

    /// Returns whether `/tmp` is the session's scratch directory.
    pub(super) fn has_scratch(&self) -> bool {
        self.programs_home().is_some()
    }

    /// Makes a shell for the lines of a session.
    pub(super) fn session_shell(&self, limits: Limits) -> LineShell {
        match &self.shell {
            OpenShell::System(programs, settings) => {
                let shell = SystemShell::new(programs.clone(), settings.clone(), limits);
                LineShell::System(Box::new(shell.with_session(None)))
            }
            _ => LineShell::Bundled(Box::new(self.bundled_shell(limits))),
        }
    }

    /// Makes a bundled shell, with the programs of the policy.
    pub(super) fn bundled_shell(&self, limits: Limits) -> Shell {
        let shell = Shell::at(self.place.clone(), limits);
        match &self.shell {
            OpenShell::WithPolicy(_, lines) => shell.with_programs(lines.clone()),
            _ => shell,
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
        let OpenShell::WithPolicy(_, lines) = &self.shell else {
            return Vec::new();
        };
        let policy = lines.policy();
        let is_offline = matches!(lines.network(), Some(NetworkRequest::Nothing));
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
        let OpenShell::WithPolicy(programs, lines) = &self.shell else {
            return None;
        };
        let policy = lines.policy();
        let command = ProgramCommand {
            network: lines.network().cloned(),
            ..command
        };
        Some(programs.run(&policy, &command, streams))
    }
}
