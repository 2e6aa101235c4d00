//! [`ProgramCommand`]: a command as it is asked for.

use std::path::PathBuf;
use std::time::Duration;

use super::network::NetworkRequest;
use super::sandbox;
use crate::exec::CancelToken;

/// A command to decide about and run.
#[derive(Debug, Clone, Default)]
pub struct ProgramCommand {
    /// Its words; the first is the program.
    pub argv: Vec<Vec<u8>>,
    /// The working directory: from the home, or absolute and below it.
    pub cwd: Vec<u8>,
    /// The variables that the caller sets.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// The longest time that the command may run, if that is shorter than the policy's limit.
    pub timeout: Option<Duration>,
    /// Paths of the host that it may read besides system software.
    pub bind_ro: Vec<PathBuf>,
    /// The largest number of lines of each stream that leave; 0 is no limit. `tail` says whether the end is kept.
    pub lines: u64,
    /// The largest number of bytes of each stream that leave, if that is less than the policy's limit.
    pub bytes: Option<u64>,
    /// True if the end of the output is kept too when the output has to be cut.
    pub tail: bool,
    /// True if sequences that steer a terminal are left out of the output.
    pub strips_ansi: bool,
    /// The limits that all processes of the command share.
    pub limits: sandbox::ResourceLimits,
    /// The part that the command asks for of the network that the policy allows it; `None` asks for all of that.
    pub network: Option<NetworkRequest>,
    /// The token that ends the command before its time is up.
    pub cancel: Option<CancelToken>,
}
