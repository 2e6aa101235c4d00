//! [`ShellStart`]: the words, the variables and the sandbox with which a shell is started.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::settings::SystemShellSettings;
use crate::exec::home::Home;
use crate::exec::program::agent::{PATH, SANDBOX_VARIABLES};
use crate::exec::program::network::{NetworkSettings, add_proxy_variables};
use crate::exec::program::policy::OWN_DIR;
use crate::exec::program::program_home::ProgramHome;
use crate::exec::program::sandbox::{LaunchError, PlacedMount, SandboxPlan, Step, tree_of};
use crate::exec::program::served_sandbox::ServedSandbox;
use crate::world::RunId;

/// A shell as it is started.
pub(super) struct ShellStart {
    settings: Arc<SystemShellSettings>,
    env: Vec<(OsString, OsString)>,
    /// Where it is looked up.
    path: OsString,
    network: Option<NetworkSettings>,
    /// Its file, where that has to be shown, and what is shown for it.
    installed: Option<PathBuf>,
    bind_ro: Vec<PathBuf>,
}

impl ShellStart {
    /// Makes one for a home.
    ///
    /// # Errors
    /// The network that was asked for means nothing.
    pub(super) fn new(
        programs: &ProgramHome,
        settings: &Arc<SystemShellSettings>,
    ) -> Result<ShellStart, LaunchError> {
        let network = NetworkSettings::of_agent(&settings.network, None, &[]);
        let network = network.map_err(|why| LaunchError::refused(Step::Network, why))?;
        let path = path_of(&settings.first_path);
        let tmp = programs.scratch_path();
        let values = [
            tmp.join(OWN_DIR).into_os_string(),
            path.clone(),
            tmp.into_os_string(),
            "C.UTF-8".into(),
            // A name is looked up in PATH, and said as the path that it has on every system.
            Path::new("/bin").join(&settings.shell).into_os_string(),
        ];
        let names = SANDBOX_VARIABLES.map(OsString::from);
        let mut env: Vec<(OsString, OsString)> = names.into_iter().zip(values).collect();
        for (name, value) in &settings.env {
            env.retain(|(known, _)| known != name);
            env.push((name.clone(), value.clone()));
        }
        if network.is_some() {
            add_proxy_variables(&mut env);
        }
        let words = [settings.shell.clone().into_os_string()];
        let tree = tree_of(&words, &path, programs.path(), &settings.bind_ro);
        let shown = tree.iter().flat_map(|tree| tree.shown.clone());
        Ok(ShellStart {
            bind_ro: settings.bind_ro.iter().cloned().chain(shown).collect(),
            installed: tree.map(|tree| tree.file),
            settings: settings.clone(),
            env,
            path,
            network,
        })
    }

    /// Returns the settings.
    pub(super) fn settings(&self) -> &SystemShellSettings {
        &self.settings
    }

    /// Returns the words for a shell that reads what it is to do.
    pub(super) fn session_words(&self) -> Vec<OsString> {
        self.words(&["-s"])
    }

    /// Returns the words for a shell that runs one line.
    pub(super) fn line_words(&self, line: &[u8]) -> Vec<OsString> {
        let mut words = self.words(&["-c", "--"]);
        words.push(OsString::from_vec(line.to_vec()));
        words
    }

    /// Returns the words with these at the end. No file of the home decides how bash begins.
    fn words(&self, more: &[&str]) -> Vec<OsString> {
        let shell = &self.settings.shell;
        let is_bash = shell.file_name().is_some_and(|name| name == "bash");
        let plain: &[&str] = match is_bash {
            true => &["--noprofile", "--norc"],
            false => &[],
        };
        let all = plain.iter().chain(more);
        std::iter::once(shell.clone().into_os_string())
            .chain(all.map(OsString::from))
            .collect()
    }

    /// Makes the sandbox of a shell. `run`: the run that its connections belong to.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn make_sandbox(
        &self,
        programs: &ProgramHome,
        home: &dyn Home,
        placed: Vec<PlacedMount>,
        run: impl Fn() -> RunId + Send + Sync + 'static,
    ) -> Result<ServedSandbox, LaunchError> {
        let plan = |plan: SandboxPlan| SandboxPlan {
            bind_ro: self.bind_ro.clone(),
            etc_files: self.settings.etc_files.clone(),
            limits: self.settings.limits.clone(),
            placed,
            ..plan
        };
        ServedSandbox::make(programs, home, self.network.as_ref(), run, plan)
    }

    /// Starts the shell with these words and streams. Returns its number.
    ///
    /// # Errors
    /// The sandbox has ended.
    pub(super) fn start_in(
        &self,
        sandbox: &ServedSandbox,
        words: &[OsString],
        cwd: &[u8],
        streams: [OwnedFd; 3],
    ) -> Result<u32, LaunchError> {
        let cwd = OsString::from_vec(cwd.to_vec());
        let installed = self.installed.as_deref();
        let service = sandbox.service();
        service.start(words, &self.path, &self.env, &cwd, installed, streams)
    }
}

/// Returns `PATH` with these directories first.
fn path_of(first: &[PathBuf]) -> OsString {
    let first = first.iter().map(|dir| dir.as_os_str().as_bytes());
    let all: Vec<&[u8]> = first.chain([PATH]).collect();
    OsString::from_vec(all.join(&b':'))
}
