//! [`open`]: the place behind a path. Front ends do not choose between a mounted home and a store that nobody has
//! mounted.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::audit::StoreAuditLog;
use super::held_home::HeldHome;
use super::home::Home;
use super::home_context::{AuditLog, HomeContext};
use super::home_with_scratch::HomeWithScratch;
use super::mounted_home::MountedHome;
use super::offline_home::OfflineHome;
use super::program::ProgramHome;
use crate::client::{self, Client, DirectorySite, HeldFor, RunRegistry};
use crate::error::{Error, Result, reason};
use crate::name::WorldPath;
use crate::world::{Root, SessionPatterns, ViewOptions};

/// The longest time that a command waits for other commands that work on a store.
const STORE_WAIT_LIMIT: Duration = Duration::from_secs(10);

/// The rules for which paths of an unmounted store exist and may be changed; a mounted home has its own rules.
#[derive(Debug, Clone, Default)]
pub struct StoreAccess {
    /// Patterns of what does not exist (gitignore syntax).
    pub hide: Vec<String>,
    /// Patterns of what cannot be changed.
    pub read_only: Vec<String>,
    /// The longest time to wait for other commands that work on the store.
    pub wait: Option<Duration>,
}

/// Opens a directory in the home of real programs as the root of what exists for an executor: the home, or something in it.
///
/// # Errors
/// As [`open`].
pub fn open_in(root: &Path, programs: &ProgramHome) -> Result<HomeContext> {
    let place = match client::site(root)? {
        DirectorySite::Home => open(root, &StoreAccess::default())?,
        DirectorySite::Store => let_in(root, programs.place())?,
    };
    let scratch = Arc::new(MountedHome::over(programs.scratch()?, None));
    Ok(place.map_home(|home| Arc::new(HomeWithScratch::new(home, scratch))))
}

/// Opens a directory in a mounted home, or a store that nobody has mounted, as the root of what exists for an executor.
///
/// # Errors
/// As [`client::site`]; those of opening; [`Error::Refused`] where a mounted home is to be given another view than its
/// own.
pub fn open(root: &Path, access: &StoreAccess) -> Result<HomeContext> {
    let root = std::path::absolute(root).map_err(|error| Error::Missing {
        what: format!(
            "{}: the working directory, which this path begins in: {}",
            root.display(),
            reason(&error)
        ),
        remedy: "Give an absolute path, or run this in a directory that is there.".to_owned(),
    })?;
    let mut prefix = None;
    let (home, audit): (Arc<dyn Home>, Option<Arc<dyn AuditLog>>) = match client::site(&root)? {
        DirectorySite::Store => {
            let view = ViewOptions {
                hide: access.hide.clone(),
                read_only: access.read_only.clone(),
                ..ViewOptions::default()
            };
            let patience = access.wait.unwrap_or(STORE_WAIT_LIMIT);
            let home = Arc::new(OfflineHome::with(&root, view, patience)?);
            let store = home.root().ok();
            (home, store.map(|store| audit_log(store, false)))
        }
        DirectorySite::Home => {
            if !access.hide.is_empty() || !access.read_only.is_empty() || access.wait.is_some() {
                return Err(Error::refused(
                    format!("{} lies in a mounted home", root.display()),
                    "What it hides and protects was said when it was mounted, and nobody has it alone: leave --hide, \
                     --read-only and --wait out.",
                ));
            }
            // Only who mounted it, and root, know the store.
            let client = Client::open(&root).ok();
            let runs = client
                .as_ref()
                .and_then(|client| RunRegistry::new(client).ok());
            prefix = client
                .as_ref()
                .and_then(|client| client.in_home(OsStr::new("")).ok());
            let store = client.and_then(|client| client.root().ok());
            let audit = store.map(|store| audit_log(store, true));
            let home = MountedHome::with(&root, runs).map_err(|error| not_let_in(&root, error))?;
            (Arc::new(home), audit)
        }
    };
    let place = HomeContext::new(home, root.as_os_str().as_bytes(), audit);
    Ok(place.with_prefix(prefix.unwrap_or_default()))
}

/// Opens the home behind a TARGET for its files alone. A store is mounted, for as long as the hold lasts that is returned;
/// where that cannot be, it is opened as it is, and why is returned.
///
/// # Errors
/// As [`open`].
pub fn open_held(root: &Path) -> Result<(HomeContext, Option<HeldHome>, Option<Error>)> {
    let mut unmounted = None;
    let entered = (HeldFor::Host, &SessionPatterns::default());
    if client::site(root)? == DirectorySite::Store {
        match HeldHome::open(root, None, entered, &|_| Ok(()), &|_| ()) {
            Ok(held) => return Ok((let_in(root, held.place())?, Some(held), None)),
            Err(why) => unmounted = Some(why),
        }
    }
    Ok((open(root, &StoreAccess::default())?, None, unmounted))
}

/// Returns a place, if this process is let in.
fn let_in(root: &Path, place: &HomeContext) -> Result<HomeContext> {
    match place.home().stat(&WorldPath::root()) {
        Err(error) => Err(not_let_in(root, error)),
        Ok(_) => Ok(place.clone()),
    }
}

/// Says whose a home is that this process is not let into: a home for one user lets nobody else in, not even root.
fn not_let_in(home: &Path, error: Error) -> Error {
    if error.errno() != Errno::ACCESS {
        return error;
    }
    let entered = (HeldFor::Host, &SessionPatterns::default());
    let owner = client::hold(home, None, entered, &|_| Ok(())).map(|hold| hold.owner());
    let whom = owner.map_or_else(
        |_| "another user".to_owned(),
        |(uid, _)| format!("user {uid}"),
    );
    Error::refused(
        format!(
            "{} is a home for {whom} alone: not even root gets in",
            home.display()
        ),
        "Run this as that user, for instance with setpriv(1); or run a program with `trumanfs run`, which does so itself.",
    )
}

fn audit_log(store: Root, is_served: bool) -> Arc<dyn AuditLog> {
    Arc::new(StoreAuditLog::new(store, is_served))
}
