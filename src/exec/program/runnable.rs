//! [`RunnableCommand`]: a command that the policy allows and that can run in this home, as the sandbox wants it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::network::{NetworkRequest, NetworkSettings, add_proxy_variables};
use super::policy::{AllowedCommand, CommandRefusal, RefusalClass};

/// A command that may run. `run` and lines of the shell make one by the same rules ([`Programs::ready`]).
///
/// [`Programs::ready`]: super::Programs::ready
#[derive(Debug, Clone)]
pub(super) struct RunnableCommand {
    pub(super) allowed: AllowedCommand,
    /// Its network; nothing where it has none.
    pub(super) network: Option<NetworkSettings>,
    /// True if the home is read-only for the command.
    pub(super) read_only: bool,
}

impl RunnableCommand {
    /// Makes one of a command that the policy allows, for a home that may be mounted read-only.
    ///
    /// # Errors
    /// The home cannot be changed, and the policy does not say that the program can do without; or the network that the
    /// policy gives, narrowed to what was asked for, means nothing or cannot be had.
    pub(super) fn new(
        allowed: AllowedCommand,
        home_is_read_only: bool,
        asked: Option<&NetworkRequest>,
    ) -> Result<RunnableCommand, CommandRefusal> {
        let refused = |class, key: &str, reason: String| {
            CommandRefusal::new(class, format!("{}.{key}", allowed.rule), reason)
        };
        if home_is_read_only && !allowed.read_only {
            let reason = format!(
                "the home is mounted read-only, and {} does not say `read_only: true`",
                allowed.rule
            );
            return Err(refused(RefusalClass::Home, "read_only", reason));
        }
        let network = NetworkSettings::new(&allowed.network, asked)
            .map_err(|reason| refused(RefusalClass::Network, "network", reason))?;
        Ok(RunnableCommand {
            network,
            read_only: home_is_read_only || allowed.read_only,
            allowed,
        })
    }

    /// Returns the words to run.
    pub(super) fn argv(&self) -> Vec<OsString> {
        self.allowed.argv.iter().map(|word| text(word)).collect()
    }

    /// Returns the whole environment, with the variables by which programs find their network.
    pub(super) fn env(&self) -> Vec<(OsString, OsString)> {
        let env = self.allowed.env.iter();
        let mut env = env
            .map(|(name, value)| (text(name), text(value)))
            .collect::<Vec<_>>();
        if self.network.is_some() {
            add_proxy_variables(&mut env);
        }
        env
    }

    /// Returns where the program is looked up.
    pub(super) fn search_path(&self) -> OsString {
        text(&self.allowed.search_path)
    }

    /// Returns the working directory, an absolute path in the home.
    pub(super) fn cwd(&self) -> OsString {
        text(&self.allowed.cwd)
    }
}

fn text(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}
