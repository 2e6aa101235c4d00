//! The crate's error type, and the only table of errnos.
//!
//! Owns the mapping from an error to the kernel's errno. The view of the world has no error for "denied": hidden,
//! outside and absent are the same [`Error::NotFound`], so that no caller can tell them apart.

use std::fmt;

use rustix::io::Errno;

/// The result of every fallible call in the crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The ways in which an operation fails, in the world's terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The name does not exist for the occupant: absent, hidden, or outside (the 404 principle).
    NotFound,
    /// The name is taken by something the occupant can see.
    Exists,
    /// A directory stands where something else was expected.
    IsDirectory,
    /// Something else stands where a directory was expected.
    NotDirectory,
    /// The directory has entries the occupant can see.
    NotEmpty,
    /// The path is in the trash, or the path or the home is read-only.
    ReadOnly,
    /// This file system does not have such nodes: device nodes, or symlinks while they are hidden.
    NotOffered,
    /// A flag or argument is not valid here. Unknown flags are refused, never ignored.
    Invalid,
    /// A name has more than 255 bytes.
    NameTooLong,
    /// The operation is not supported by this file system or the store's.
    Unsupported,
    /// The store cannot do it across this boundary (another file system, a mount point).
    CrossDevice,
    /// The operation would take long, and its caller has no time for it. Nothing has been done.
    TakesLong,
    /// The file may have a name outside the store, or has another inode by now: it has to be looked up again.
    LinkedOutside,
    /// The node that the kernel knows is gone from its name: that has to be looked up again, which Linux does with every
    /// path after ESTALE (fs/namei.c, `LOOKUP_REVAL`).
    Replaced,
    /// A system call on the store failed.
    Os {
        /// The system call.
        call: &'static str,
        /// Its arguments, as far as they are names in the store.
        on: Option<Box<str>>,
        /// Its errno.
        errno: Errno,
    },
    /// The request has no meaning.
    Usage {
        /// The part that cannot be understood.
        what: String,
        /// The correct form.
        remedy: String,
    },
    /// A command or a mount was refused before it did anything.
    Refused {
        /// The problem, naming its object.
        what: String,
        /// The action that helps the reader.
        remedy: String,
    },
    /// The object of an operator's request does not exist.
    Missing {
        /// The missing object.
        what: String,
        /// Where to look.
        remedy: String,
    },
    /// Part of an operator's request was done, or may have been.
    Partly {
        /// The part that was done, and what interrupted it.
        what: String,
        /// The way to go on.
        remedy: String,
    },
    /// Something blocks an operator's request; nothing was changed.
    Conflict {
        /// The obstacle.
        what: String,
        /// The action that helps the reader.
        remedy: String,
    },
    /// The system could not, as the daemon says.
    System {
        /// The action that failed.
        what: String,
        /// The action that helps the reader.
        remedy: String,
    },
    /// This release cannot read the state on disk.
    Damaged(String),
}

/// Kinds of failure. What front ends say of one is made of it: exit codes, the kind of an error in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureKind {
    /// The request has no meaning.
    Usage,
    /// The named object does not exist.
    Missing,
    /// Something else is in the way; nothing was changed.
    Conflict,
    /// Part of it was done, or may have been.
    Partly,
    /// The request was refused before anything was done.
    Refused,
    /// The system could not.
    #[serde(alias = "other")]
    System,
}

impl FailureKind {
    /// Returns the failure of this kind that somebody else has told of.
    pub fn error(self, what: String, remedy: String) -> Error {
        match self {
            FailureKind::Usage => Error::Usage { what, remedy },
            FailureKind::Missing => Error::Missing { what, remedy },
            FailureKind::Conflict => Error::Conflict { what, remedy },
            FailureKind::Partly => Error::Partly { what, remedy },
            FailureKind::Refused => Error::Refused { what, remedy },
            FailureKind::System => Error::System { what, remedy },
        }
    }
}

/// The errnos of a failing file system, as opposed to those of an impossible request.
const STORE_FAILS: [Errno; 13] = [
    Errno::IO,
    Errno::UCLEAN,
    Errno::NOSPC,
    Errno::DQUOT,
    Errno::ROFS,
    Errno::STALE,
    Errno::NODEV,
    Errno::NOMEM,
    Errno::MFILE,
    Errno::NFILE,
    Errno::TIMEDOUT,
    Errno::REMOTEIO,
    Errno::SHUTDOWN,
];

impl Error {
    /// Returns a function for `map_err` that records the name of the system call.
    pub fn os(call: &'static str) -> impl Fn(Errno) -> Error {
        move |errno| match errno {
            Errno::NOENT => Error::NotFound,
            // openat2's errors for a path that leaves the root (EXDEV), has a symlink (ELOOP), or crosses a mount
            // inside the store (EXDEV): all of these are absent for the occupant.
            Errno::LOOP | Errno::XDEV if call == "openat2" => Error::NotFound,
            Errno::EXIST => Error::Exists,
            Errno::ISDIR => Error::IsDirectory,
            Errno::NOTDIR => Error::NotDirectory,
            Errno::NOTEMPTY => Error::NotEmpty,
            Errno::NAMETOOLONG => Error::NameTooLong,
            Errno::XDEV => Error::CrossDevice,
            errno => Error::Os {
                call,
                on: None,
                errno,
            },
        }
    }

    /// As [`Error::os`], with the names that the call was about. They are made only where they are kept.
    pub fn os_on(call: &'static str, on: impl Fn() -> String) -> impl Fn(Errno) -> Error {
        move |errno| match Error::os(call)(errno) {
            Error::Os { call, errno, .. } => Error::Os {
                call,
                on: Some(on().into()),
                errno,
            },
            error => error,
        }
    }

    /// Returns whether the store's file system failed: its disk, its space, its server. An operator should know of
    /// such failures, unlike those of an impossible request.
    pub fn is_of_store(&self) -> bool {
        match self {
            Error::Damaged(_) => true,
            Error::Os { errno, .. } => STORE_FAILS.contains(errno),
            _ => false,
        }
    }

    /// Returns a refusal with its remedy.
    pub fn refused(what: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error::Refused {
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// Returns whether permissions refused it.
    pub fn is_denial(&self) -> bool {
        matches!(self, Error::Os { errno, .. } if *errno == Errno::ACCESS)
    }

    /// Returns the error with what to do where it says that this user may not read something; any other as it is. `what`
    /// names the thing.
    pub fn of_reading(self, what: impl FnOnce() -> String) -> Error {
        if !self.is_denial() {
            return self;
        }
        let me = rustix::process::geteuid().as_raw();
        Error::System {
            what: format!("{}: user {me} may not read it", what()),
            remedy: "Its owner can make it readable (chmod u+rX), and root can read everything; `find STORE ! -readable` \
                     finds more of its kind."
                .to_owned(),
        }
    }

    /// Returns a refusal of what has no meaning, with how it is written.
    pub fn usage(what: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error::Usage {
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// Returns the error for what the standard library says of a call.
    pub fn io(call: &'static str, error: &std::io::Error) -> Error {
        Error::os(call)(Errno::from_io_error(error).unwrap_or(Errno::IO))
    }

    /// Returns which kind of failure it is: the only table of that.
    pub fn kind(&self) -> FailureKind {
        match self {
            Error::Usage { .. } => FailureKind::Usage,
            Error::NotFound | Error::NotDirectory | Error::Missing { .. } => FailureKind::Missing,
            Error::Exists | Error::Conflict { .. } => FailureKind::Conflict,
            Error::Partly { .. } => FailureKind::Partly,
            Error::Refused { .. } => FailureKind::Refused,
            Error::IsDirectory
            | Error::NotEmpty
            | Error::ReadOnly
            | Error::NotOffered
            | Error::Invalid
            | Error::NameTooLong
            | Error::Unsupported
            | Error::CrossDevice
            | Error::TakesLong
            | Error::LinkedOutside
            | Error::Replaced
            | Error::Os { .. }
            | Error::System { .. }
            | Error::Damaged(_) => FailureKind::System,
        }
    }

    /// Returns what is wrong, and what the reader can do about it; the latter may be empty.
    pub fn into_words(self) -> (String, String) {
        match self {
            Error::Usage { what, remedy }
            | Error::Missing { what, remedy }
            | Error::Conflict { what, remedy }
            | Error::Partly { what, remedy }
            | Error::Refused { what, remedy }
            | Error::System { what, remedy } => (what, remedy),
            error => match error.full_message().split_once("\n  ") {
                Some((what, remedy)) => (what.to_owned(), remedy.to_owned()),
                None => (error.full_message(), String::new()),
            },
        }
    }

    /// Returns the errno that a system call in the home returns.
    pub fn errno(&self) -> Errno {
        match self {
            Error::NotFound => Errno::NOENT,
            Error::Exists => Errno::EXIST,
            Error::IsDirectory => Errno::ISDIR,
            Error::NotDirectory => Errno::NOTDIR,
            Error::NotEmpty => Errno::NOTEMPTY,
            Error::ReadOnly => Errno::ROFS,
            // symlink(2) and mknod(2) document EPERM for a file system without symlinks or special files.
            Error::NotOffered => Errno::PERM,
            Error::Invalid => Errno::INVAL,
            Error::NameTooLong => Errno::NAMETOOLONG,
            Error::Unsupported => Errno::OPNOTSUPP,
            Error::CrossDevice => Errno::XDEV,
            Error::TakesLong => Errno::AGAIN,
            Error::LinkedOutside | Error::Replaced => Errno::STALE,
            Error::Os { errno, .. } => *errno,
            // These are for operators; if one reaches a system call, the occupant learns nothing from it.
            Error::Usage { .. }
            | Error::Refused { .. }
            | Error::Missing { .. }
            | Error::Partly { .. }
            | Error::Conflict { .. }
            | Error::System { .. }
            | Error::Damaged(_) => Errno::IO,
        }
    }
}

/// Returns what the standard library says of an error, without the "(os error N)" at its end, which does not help a reader.
pub fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text.get(..end).unwrap_or_default().to_owned()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Os { call, on, errno } => {
                let text = reason(&(*errno).into());
                match on {
                    Some(on) => write!(f, "{call} {on}: {text}"),
                    None => write!(f, "{call}: {text}"),
                }
            }
            Error::Usage { what, remedy }
            | Error::Refused { what, remedy }
            | Error::Missing { what, remedy }
            | Error::Partly { what, remedy }
            | Error::Conflict { what, remedy }
            | Error::System { what, remedy } => match remedy.is_empty() {
                true => f.write_str(what),
                false => write!(f, "{what}\n  {remedy}"),
            },
            Error::Damaged(what) => write!(f, "{what}"),
            other => f.write_str(&reason(&other.errno().into())),
        }
    }
}

impl Error {
    /// Returns the message for an operator: the problem and, if there is one, the remedy.
    pub fn full_message(&self) -> String {
        match self {
            Error::Os {
                call,
                errno: Errno::NOSPC | Errno::DQUOT,
                ..
            } => format!(
                "the store's disk is full, or a quota is used up ({call})\n  \
                 `trumanfs trash usage` says what takes the space, `trumanfs trash purge` gives it back. Where that finds no space \
                 for its own record either, delete something beside the store first, or an entry in its .trash by hand."
            ),
            other => other.to_string().trim_end().to_owned(),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside_is_absent() {
        for errno in [Errno::NOENT, Errno::LOOP, Errno::XDEV] {
            assert_eq!(Error::os("openat2")(errno), Error::NotFound);
        }
        assert_eq!(Error::os("renameat2")(Errno::XDEV), Error::CrossDevice);
    }

    /// A message may stand in the middle of another one, or in a field of JSON.
    #[test]
    fn a_message_without_a_remedy_has_one_line() {
        assert_eq!(
            Error::refused("it went away", "").to_string(),
            "it went away"
        );
        assert_eq!(
            Error::refused("no", "Do this.").to_string(),
            "no\n  Do this."
        );
    }

    #[test]
    fn messages_have_no_error_numbers() {
        let error = Error::os("renameat2")(Errno::NOSPC);
        assert_eq!(error.to_string(), "renameat2: No space left on device");
        let error = Error::os_on("renameat2", || "\"a\" → trash".to_owned())(Errno::IO);
        assert_eq!(
            error.to_string(),
            "renameat2 \"a\" → trash: Input/output error"
        );
        assert!(error.is_of_store());
    }
}
