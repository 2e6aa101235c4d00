//! The home that a hook stands for, and what is in it.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::path_readings::readings;
use crate::client::{DirectorySite, site};
use crate::error::{Error, Result};
use crate::exec::pipeline::Executor;
use crate::exec::program::foreseen_refusal;
use crate::exec::program::policy::Policy;
use crate::exec::shell::{LineAnalysis, Shell};
use crate::exec::{self, Home, HomeContext, Limits, LinePrograms, ProgramProvider, StoreAccess};
use crate::journal::RunId;
use crate::name::WorldPath;

/// The settings of a hook.
#[derive(Debug, Default)]
pub struct HookSettings {
    /// This program, as it is called in a rewritten line.
    pub program: PathBuf,
    /// The home, or the store; without it, the agent's project, or the directory that it works in.
    pub root: Option<PathBuf>,
    /// The shell of this machine that runs lines in a sandbox; the bundled one without.
    pub shell: Option<PathBuf>,
    /// The policy of real programs, and what it is called.
    pub policy: Option<(PathBuf, Policy)>,
    /// True if lines that change something in the home need no permission, where the agent lets a hook say so.
    pub allows: bool,
    /// The error that keeps the hook from deciding anything: a policy that cannot be read.
    pub problem: Option<Error>,
}

/// The home that a hook stands for.
pub(super) struct HookHome {
    pub(super) root: PathBuf,
    place: HomeContext,
    is_home: bool,
}

impl HookHome {
    /// Opens the home; nothing is mounted, nothing is changed.
    ///
    /// # Errors
    /// As [`exec::open`].
    pub(super) fn open(setting: &HookSettings, cwd: &Path) -> Result<HookHome> {
        if let Some(problem) = &setting.problem {
            return Err(problem.clone());
        }
        let root = setting.root.clone().unwrap_or_else(|| cwd.to_owned());
        let root = std::fs::canonicalize(&root).map_err(|error| Error::Missing {
            what: format!("{}: {}", root.display(), crate::error::reason(&error)),
            remedy: "Name the home with --root.".to_owned(),
        })?;
        Ok(HookHome {
            is_home: site(&root)? == DirectorySite::Home,
            place: exec::open(&root, &StoreAccess::default())?,
            root,
        })
    }

    /// Returns whether what is changed by its paths is recorded and kept: only a mounted home does so.
    pub(super) fn is_home(&self) -> bool {
        self.is_home
    }

    /// Returns a directory of the agent's as one in the home: the root where it lies elsewhere.
    pub(super) fn directory(&self, cwd: &Path) -> PathBuf {
        let real = std::fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
        match real.starts_with(&self.root) {
            true => real,
            false => self.root.clone(),
        }
    }

    /// Asks the shell and the policy what they know of a line in a directory of the home.
    ///
    /// # Errors
    /// Why it would not run as it is, in their words.
    pub(super) fn foresee(
        &self,
        line: &str,
        policy: Option<&Policy>,
        cwd: &Path,
    ) -> std::result::Result<LineAnalysis, String> {
        let shell = Shell::at(self.place.clone(), Limits::default());
        let shell = match policy {
            Some(policy) => shell.with_programs(Arc::new(PolicyLookup(policy.clone()))),
            None => shell,
        };
        let text = |message: Vec<u8>| String::from_utf8_lossy(&message).into_owned();
        let plan = shell.plan(&shell.request(line.as_bytes()));
        let foresight = shell.analyze(&plan.map_err(|refusal| text(refusal.message))?);
        // It is the whole line.
        if let (true, Some(error)) = (foresight.is_lone, &foresight.unknown) {
            return Err(text(error.clone()));
        }
        let Some(policy) = policy else {
            return Ok(foresight);
        };
        for program in &foresight.programs {
            let program = exec::ProgramRequest {
                words: &program.words,
                env: &program.env,
                cwd: cwd.as_os_str().as_bytes().to_vec(),
            };
            let refusal =
                foreseen_refusal(policy, &self.root, &program, foresight.stays_in_directory);
            if let Some(why) = refusal.map_err(|error| error.full_message())? {
                let why = text(why);
                return Err(match foresight.is_lone {
                    true => why,
                    false => format!("{why}; nothing of the line has run"),
                });
            }
        }
        Ok(foresight)
    }

    /// Returns what is known of a line that a shell of this machine will run: where the bundled one would read it as one that
    /// changes nothing, that is so; anything else may change something.
    pub(super) fn foresee_in_system_shell(&self, line: &str, cwd: &Path) -> LineAnalysis {
        let only_reads = |found: &LineAnalysis| {
            !found.changes && !found.runs_programs && found.unknown.is_none()
        };
        let found = self.foresee(line, None, cwd).ok().filter(only_reads);
        found.unwrap_or_else(|| LineAnalysis {
            changes: true,
            runs_programs: true,
            ..LineAnalysis::default()
        })
    }

    /// Returns whether a path leads to something in the home, or to where something may be made, in all its readings.
    pub(super) fn has(&self, cwd: &Path, typed: &str) -> bool {
        let is_here = |path: &PathBuf| {
            self.below(path)
                .is_some_and(|below| self.is_reachable(&below))
        };
        readings(cwd, typed).is_some_and(|readings| readings.iter().all(is_here))
    }

    /// Returns whether something in the home lies at a path below its root, or nothing at all.
    fn is_reachable(&self, below: &Path) -> bool {
        let mut path = WorldPath::root();
        for part in below.components() {
            let Ok(name) = crate::name::Name::new(part.as_os_str().as_bytes()) else {
                return false;
            };
            path.push(name);
            match self.place.home().stat(&path) {
                Ok(_) => {}
                // Nothing is there, or something that does not exist in the home: a link, what is hidden.
                Err(_) => {
                    let on_disk = self
                        .root
                        .join(Path::new(std::ffi::OsStr::from_bytes(path.bytes())));
                    return on_disk.symlink_metadata().is_err();
                }
            }
        }
        true
    }

    /// Returns a path from the root, by its text: `..` leads above what stands before it.
    fn below(&self, path: &Path) -> Option<PathBuf> {
        let mut plain = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => drop(plain.pop()),
                Component::CurDir => {}
                part => plain.push(part),
            }
        }
        if let Ok(below) = plain.strip_prefix(&self.root) {
            return Some(below.to_owned());
        }
        // The root may be known by another name: what exists of the path tells.
        let exists = plain
            .ancestors()
            .find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
        let (above, real) = exists?;
        let rest = plain.strip_prefix(above).ok()?;
        real.join(rest)
            .strip_prefix(&self.root)
            .ok()
            .map(Path::to_owned)
    }
}

/// The programs of a policy by their names: enough to ask whether a line would run.
struct PolicyLookup(Policy);

impl ProgramProvider for PolicyLookup {
    fn has_program(&self, name: &[u8]) -> bool {
        self.0.programs().any(|known| known.as_bytes() == name)
    }

    fn prepare(&self) {}

    fn begin_line(&self, _: Arc<dyn Home>, _: RunId) -> Arc<dyn LinePrograms> {
        Arc::new(NoPrograms)
    }
}

/// Programs of a line that is not run.
struct NoPrograms;

impl LinePrograms for NoPrograms {
    fn admit(
        &self,
        _: exec::ProgramRequest<'_>,
    ) -> std::result::Result<Box<dyn exec::AdmittedProgram + '_>, exec::ProgramError> {
        Err(exec::ProgramError::LineEnded)
    }

    fn is_lost(&self) -> bool {
        false
    }

    fn report(&self) -> Option<Box<exec::request::ProgramReport>> {
        None
    }
}
