//! The files of the caller that an agent finds in its own directory: the login with `--login`, and the instructions for
//! all projects. Only of a caller who owns the project.

use std::path::{Path, PathBuf};

use super::super::escaping::print_error;
use super::super::output::warn;
use super::args::AgentArgs;
use super::roots::AgentHomes;
use crate::client::{AgentPlace, LoginNotice};
use crate::error::{Error, Result};
use crate::exec::program::AgentProfile;
use crate::exec::program::sandbox::{PlacedKind, PlacedMount};

/// Returns the files of the caller that `--login` lends, from the caller's home directory, and that directory.
///
/// # Errors
/// [`Error::Usage`] where none is known of the agent; [`Error::Refused`] where they are another user's.
pub(super) fn logins<'p>(
    profile: &'p AgentProfile,
    homes: &AgentHomes,
) -> Result<(PathBuf, &'p [PathBuf])> {
    if profile.logins.is_empty() {
        return Err(Error::usage(
            "--login: no file is known as the login of this agent",
            "Name the agent's --profile, or pass a key on with --env.",
        ));
    }
    let home = homes.caller_home().ok_or_else(|| {
        Error::refused(
            "--login: the project belongs to another user than the login",
            "Start the agent as the project's owner.",
        )
    })?;
    Ok((home, &profile.logins))
}

/// Lends the agent the caller's login, where that was asked for.
///
/// # Errors
/// [`Error::Usage`] where there is none to lend.
pub(super) fn lend_login(
    args: &AgentArgs,
    profile: &AgentProfile,
    homes: &AgentHomes,
    place: &AgentPlace,
) -> Result<()> {
    if !args.login {
        return Ok(());
    }
    let (home, logins) = logins(profile, homes)?;
    let (count, notices) = place.lend_logins(&home, logins)?;
    if count == 0 {
        let files: Vec<String> = logins
            .iter()
            .map(|path| format!("~/{}", path.display()))
            .collect();
        return Err(Error::usage(
            format!("--login: there is no {}", files.join(" or ")),
            "Log in once outside, or leave the option out.",
        ));
    }
    notices.iter().for_each(say);
    Ok(())
}

/// Takes the login back, and says what became of it.
pub(super) fn return_login(args: &AgentArgs, homes: &AgentHomes, place: &AgentPlace) {
    if let Some(home) = homes.caller_home().filter(|_| args.login) {
        place.return_logins(&home).iter().for_each(say);
    }
}

fn say(notice: &LoginNotice) {
    let text = match notice {
        LoginNotice::OwnLogin(path) => format!(
            "the agent has a login of its own, ~/{}, and keeps it: --login lends it none",
            path.display()
        ),
        LoginNotice::Refreshed(path) => {
            let path = path.display();
            return print_error(format_args!(
                "trumanfs: the agent has refreshed your login ~/{path}"
            ));
        }
        LoginNotice::NotTakenOver(path, why) => format!(
            "~/{} is as it was, though the agent has changed its copy: {why}",
            path.display()
        ),
        LoginNotice::Failed(path, error) => {
            format!("--login: ~/{}: {}", path.display(), error.full_message())
        }
    };
    warn(false, &text);
}

/// Returns the caller's instructions, each for its place in the agent's own directory: `own`, where that is at a path of its
/// own.
pub(super) fn instructions(
    profile: &AgentProfile,
    homes: &AgentHomes,
    place: &AgentPlace,
    own: Option<&Path>,
) -> Vec<PlacedMount> {
    let Some((home, own)) = homes.caller_home().zip(own) else {
        return Vec::new();
    };
    let shown = place.show_instructions(&home, &profile.instructions, &homes.paths);
    let shown = shown.unwrap_or_else(|error| {
        let why = error.full_message();
        warn(
            false,
            &format!("the agent does not see your instructions: {why}"),
        );
        Vec::new()
    });
    let placed = shown.into_iter().map(|(source, path)| PlacedMount {
        source,
        path: own.join(path),
        kind: PlacedKind::ReadOnly,
    });
    placed.collect()
}
