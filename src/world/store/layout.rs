//! The names of a store's own files and directories: the trash, and everything below `.trumanfs`.
//!
//! Owns every one of them, and nothing else: no other file writes such a name out. Paths below `.trumanfs` start there.

/// The trash, an entry of the store's root.
pub const TRASH: &[u8] = b".trash";
/// The state directory, an entry of the store's root.
pub const STATE: &[u8] = b".trumanfs";

/// Returns whether an entry of the store's root has the name of one of the store's own directories.
pub fn is_own_name(name: &[u8]) -> bool {
    name == TRASH || name == STATE
}

/// The file that keeps git on the host from adding the trash and the state directory; one lies in each.
pub const GIT_IGNORE: &str = ".gitignore";

/// The file whose lock says that the store is being served.
pub const LOCK: &str = "lock";
/// The socket on which a daemon takes operators' requests.
pub const SOCKET: &str = "control.sock";
/// The list of hard links that lie in the trash.
pub const LINKS: &str = "links";
/// The list of inodes that stay hidden wherever they go.
pub const PINNED: &str = "pinned";
/// The note of the place before which the history has expired.
pub const EXPIRED: &str = "expired";
/// The list of volatile files that a session left.
pub const VOLATILE: &str = "volatile";
/// The beginning of the name of each record of lent permission bits.
pub const LENT: &str = "lent.";
/// The directory of entries of the trash that are being deleted.
pub const PURGING: &str = "purging";
/// The directory of files that keep space free for a full disk.
pub const RESERVE: &str = "reserve";
/// The file that takes space, in [`RESERVE`]; the other files there take an inode each.
pub const SPACE: &str = "space";
/// The directory that is `/tmp` for programs of executors; present only while a session needs it.
pub const SCRATCH: &str = "scratch";
/// The directory of files that executors write and that are not whole yet.
pub const STAGED: &str = "staged";
/// The directory of agents' own directories, one for each name.
pub const AGENTS: &str = "agents";
/// The directory, in a state home, of the forks that agents work in where no home can be mounted.
pub const AGENT_FORKS: &str = "agent-forks";
/// The directory of marks of agents that are running, or that were killed.
pub const AGENT_RUNS: &str = "agent-runs";
/// The log of requests to executors.
pub const AUDIT: &str = "audit.jsonl";
/// The former log of requests, put aside when it became too long.
pub const FORMER_AUDIT: &str = "audit.1.jsonl";
/// The note of a fork's origin.
pub const FORK: &str = "fork";
/// The directory of sessions.
pub const SESSIONS: &str = "sessions";

/// The journal, in the directory of its session.
pub const JOURNAL: &str = "journal.jsonl";
/// The daemon's own messages, in the directory of its session.
pub const LOG: &str = "daemon.log";
/// The mark of a session with which the machine went down, in its directory.
pub const POWER_CUT: &str = "power-cut";
/// The directory of former contents, in that of their session.
pub const VERSIONS: &str = "versions";

/// The suffix of the name of a version's list of ranges.
const MAP: &str = ".map";
/// The suffix of the name of a file that takes the place of another when it is whole.
const NEW: &str = ".new";

/// Returns the path of a session's directory.
pub fn session(id: &str) -> String {
    format!("{SESSIONS}/{id}")
}

/// Returns the path of a file or a directory of a session.
pub fn of_session(id: &str, name: &str) -> String {
    format!("{SESSIONS}/{id}/{name}")
}

/// The suffix of the name of a fork that is not whole.
const UNFINISHED: &[u8] = b".forking";

/// Returns whether a name is one of [`unfinished_fork`].
pub fn is_unfinished_fork(name: &[u8]) -> bool {
    name.starts_with(b".") && name.ends_with(UNFINISHED)
}

/// Returns the name, beside a fork's own, of the directory in which the fork is made until it is whole.
pub fn unfinished_fork(name: &[u8]) -> Vec<u8> {
    // A name may take all that a file system allows.
    let most = 255 - UNFINISHED.len() - 1;
    [b".", name.get(..most).unwrap_or(name), UNFINISHED].concat()
}

/// Returns the file name of a version.
pub fn version_name(n: u64) -> String {
    format!("{n:08}")
}

/// Returns the file name of a version's list of ranges.
pub fn map_name(n: u64) -> String {
    format!("{n:08}{MAP}")
}

/// Returns the temporary name of a file that will take the place of another.
pub fn new_name(name: &str) -> String {
    format!("{name}{NEW}")
}

/// Returns the name under which a copy of a store puts aside a list of the original's.
pub fn original_name(name: &str) -> String {
    format!("{name}.original")
}

/// The kind of a file in a directory of versions, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionFile {
    /// The version of this number.
    Version(u64),
    /// The list of ranges of the version of this number.
    Map(u64),
    /// A list that has not taken its place yet.
    NewMap(u64),
}

/// Returns the kind of a file in a directory of versions; `None` if no mount makes such a file.
pub fn version_file(name: &[u8]) -> Option<VersionFile> {
    let number = |digits: &[u8]| {
        let are_digits = digits.len() >= 8 && digits.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(digits).ok().filter(|_| are_digits)?;
        text.parse().ok()
    };
    let Some(of_map) = name.strip_suffix(NEW.as_bytes()) else {
        return match name.strip_suffix(MAP.as_bytes()) {
            Some(digits) => number(digits).map(VersionFile::Map),
            None => number(name).map(VersionFile::Version),
        };
    };
    number(of_map.strip_suffix(MAP.as_bytes())?).map(VersionFile::NewMap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_is_can_be_told_by_its_name() {
        for n in [1, 7_000_000_000] {
            assert_eq!(
                version_file(version_name(n).as_bytes()),
                Some(VersionFile::Version(n))
            );
            assert_eq!(
                version_file(map_name(n).as_bytes()),
                Some(VersionFile::Map(n))
            );
            assert_eq!(
                version_file(new_name(&map_name(n)).as_bytes()),
                Some(VersionFile::NewMap(n))
            );
        }
        for other in [
            "1",
            "0000001",
            "0000000x",
            "00000001.new",
            "00000001.map.x",
            ".map",
            "",
        ] {
            assert_eq!(version_file(other.as_bytes()), None, "{other}");
        }
    }
}
