//! Manifests: what a task is to do. Nobody signs them; a lease has the digest of their exact bytes.
//!
//! They are read in two steps, since the checks have an order: [`Manifest::parse`] before the lease is looked at,
//! [`Inputs::read`] after it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::path::AbsolutePath;
use super::strict::{self, Malformed};

/// How long a manifest may be, in bytes.
pub const LONGEST: usize = 64 << 10;

/// What a task may do. There is nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Move a regular file to a name that is not in use.
    FileMove,
    /// Copy a regular file to a name that is not in use.
    FileCopy,
    /// Remove a regular file so that it can be had back.
    FileDelete,
}

impl Capability {
    /// All that there are.
    pub const ALL: [Capability; 3] = [
        Capability::FileMove,
        Capability::FileCopy,
        Capability::FileDelete,
    ];

    /// Returns the capability of this id, where there is one.
    pub fn parse(id: &str) -> Option<Capability> {
        Capability::ALL
            .into_iter()
            .find(|known| known.as_str() == id)
    }

    /// Returns its id.
    pub fn as_str(self) -> &'static str {
        match self {
            Capability::FileMove => "FILE_MOVE",
            Capability::FileCopy => "FILE_COPY",
            Capability::FileDelete => "FILE_DELETE",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    task_id: String,
    capability_id: String,
    inputs: Value,
    constraints: Map<String, Value>,
    provenance: Map<String, Value>,
}

/// The conditions of a manifest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Constraints {
    /// Whether it must be possible to take the operation back; `None` where the manifest does not say.
    pub reversible: Option<bool>,
    /// Conditions that mean nothing here.
    pub others: Map<String, Value>,
}

/// A manifest whose inputs have not been looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Which task it is; the key of idempotency.
    pub task_id: String,
    /// What is to be done; may be none of the known capabilities.
    pub capability_id: String,
    /// With what, for [`Inputs::read`].
    pub inputs: Value,
    /// On which conditions.
    pub constraints: Constraints,
    /// Where the task comes from; means nothing here.
    pub provenance: Map<String, Value>,
}

impl Manifest {
    /// Reads a manifest, all but its inputs.
    ///
    /// # Errors
    /// It is too long, not strict JSON, a member is missing, unknown or of the wrong type, or an id is none.
    pub fn parse(text: &[u8]) -> Result<Manifest, Malformed> {
        let mut wire: Wire = strict::read(text, LONGEST)?;
        strict::check_id("task_id", &wire.task_id)?;
        strict::check_id("capability_id", &wire.capability_id)?;
        let reversible = match wire.constraints.remove("reversible") {
            None => None,
            Some(Value::Bool(reversible)) => Some(reversible),
            Some(_) => {
                return Err(Malformed::new(
                    "constraints.reversible is neither true nor false",
                ));
            }
        };
        Ok(Manifest {
            task_id: wire.task_id,
            capability_id: wire.capability_id,
            inputs: wire.inputs,
            constraints: Constraints {
                reversible,
                others: wire.constraints,
            },
            provenance: wire.provenance,
        })
    }

    /// Returns the ids of a manifest that [`Manifest::parse`] may refuse, for the result that says so: `""` for each
    /// that cannot be read.
    pub fn ids(text: &[u8]) -> (String, String) {
        let object: Map<String, Value> = match strict::read(text, LONGEST) {
            Ok(object) => object,
            Err(_) => return (String::new(), String::new()),
        };
        let id = |member: &str| {
            let id = object.get(member).and_then(Value::as_str);
            id.filter(|id| strict::check_id(member, id).is_ok())
                .unwrap_or_default()
                .to_owned()
        };
        (id("task_id"), id("capability_id"))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OnePath {
    source_path: AbsolutePath,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TwoPaths {
    source_path: AbsolutePath,
    destination_path: AbsolutePath,
}

/// The inputs of a capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inputs {
    /// Of FILE_MOVE and FILE_COPY.
    Two {
        /// The file.
        source: AbsolutePath,
        /// Its new name, or the copy's.
        destination: AbsolutePath,
    },
    /// Of FILE_DELETE.
    One {
        /// The file.
        source: AbsolutePath,
    },
}

impl Inputs {
    /// Reads the inputs that the capability takes.
    ///
    /// # Errors
    /// One is missing, unknown, no string, or not a path as [`AbsolutePath`] has it.
    pub fn read(capability: Capability, value: &Value) -> Result<Inputs, Malformed> {
        let wrong = |error: serde_json::Error| Malformed::new(error.to_string()).of("inputs");
        if !value.is_object() {
            return Err(Malformed::new("inputs is no object"));
        }
        match capability {
            Capability::FileMove | Capability::FileCopy => {
                let paths = TwoPaths::deserialize(value).map_err(wrong)?;
                Ok(Inputs::Two {
                    source: paths.source_path,
                    destination: paths.destination_path,
                })
            }
            Capability::FileDelete => {
                let paths = OnePath::deserialize(value).map_err(wrong)?;
                Ok(Inputs::One {
                    source: paths.source_path,
                })
            }
        }
    }

    /// Returns the file that the task is about.
    pub fn source(&self) -> &AbsolutePath {
        match self {
            Inputs::Two { source, .. } | Inputs::One { source } => source,
        }
    }

    /// Returns the name that is to be new.
    pub fn destination(&self) -> Option<&AbsolutePath> {
        match self {
            Inputs::Two { destination, .. } => Some(destination),
            Inputs::One { .. } => None,
        }
    }
}

impl Serialize for Capability {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
