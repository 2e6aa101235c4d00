//! Manifests: what a task is to do. Nobody signs them; a lease has the digest of their exact bytes.
//!
//! They are read in two steps, since the checks have an order: [`Manifest::parse`] before the lease is looked at,
//! [`TaskInputs::read`] after it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::absolute_path::AbsolutePath;
use super::strict::{self, FormatError};

/// The maximum length of a manifest, in bytes.
pub const MAX_MANIFEST_BYTES: usize = 64 << 10;

/// A capability: an operation that a task may do. There are no others.
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
struct ManifestWire {
    task_id: String,
    capability_id: String,
    inputs: Value,
    constraints: Map<String, Value>,
    provenance: Map<String, Value>,
}

/// The conditions of a manifest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ManifestConstraints {
    /// True if it must be possible to take the operation back; `None` where the manifest does not say.
    pub reversible: Option<bool>,
    /// Conditions that mean nothing here.
    pub others: Map<String, Value>,
}

/// A manifest whose inputs have not been looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Which task it is; the key of idempotency.
    pub task_id: String,
    /// The id of the operation; any text, also one that is no id: then it is none of the known capabilities.
    pub capability_id: String,
    /// With what, for [`TaskInputs::read`].
    pub inputs: Value,
    /// On which conditions.
    pub constraints: ManifestConstraints,
    /// The origin of the task; means nothing here.
    pub provenance: Map<String, Value>,
}

impl Manifest {
    /// Reads a manifest, all but its inputs.
    ///
    /// # Errors
    /// It is too long, not strict JSON, a member is missing, unknown or of the wrong type, or an id is none.
    pub fn parse(text: &[u8]) -> Result<Manifest, FormatError> {
        let mut wire: ManifestWire = strict::read(text, MAX_MANIFEST_BYTES)?;
        strict::check_id("task_id", &wire.task_id)?;
        let reversible = match wire.constraints.remove("reversible") {
            None => None,
            Some(Value::Bool(reversible)) => Some(reversible),
            Some(_) => {
                return Err(FormatError::new(
                    "constraints.reversible is neither true nor false",
                ));
            }
        };
        Ok(Manifest {
            task_id: wire.task_id,
            capability_id: wire.capability_id,
            inputs: wire.inputs,
            constraints: ManifestConstraints {
                reversible,
                others: wire.constraints,
            },
            provenance: wire.provenance,
        })
    }

    /// Returns the ids of a manifest that [`Manifest::parse`] may refuse, for the result that says so: `""` for each
    /// that cannot be read.
    pub fn ids(text: &[u8]) -> (String, String) {
        let object: Map<String, Value> = match strict::read(text, MAX_MANIFEST_BYTES) {
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
struct DeleteInputs {
    source_path: AbsolutePath,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TransferInputs {
    source_path: AbsolutePath,
    destination_path: AbsolutePath,
}

/// The inputs of a capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskInputs {
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

impl TaskInputs {
    /// Reads the inputs that the capability takes.
    ///
    /// # Errors
    /// One is missing, unknown, no string, or not a path as [`AbsolutePath`] has it.
    pub fn read(capability: Capability, value: &Value) -> Result<TaskInputs, FormatError> {
        let wrong = |error: serde_json::Error| FormatError::new(error.to_string()).of("inputs");
        if !value.is_object() {
            return Err(FormatError::new("inputs is no object"));
        }
        match capability {
            Capability::FileMove | Capability::FileCopy => {
                let paths = TransferInputs::deserialize(value).map_err(wrong)?;
                Ok(TaskInputs::Two {
                    source: paths.source_path,
                    destination: paths.destination_path,
                })
            }
            Capability::FileDelete => {
                let paths = DeleteInputs::deserialize(value).map_err(wrong)?;
                Ok(TaskInputs::One {
                    source: paths.source_path,
                })
            }
        }
    }

    /// Returns the file that the task is about.
    pub fn source(&self) -> &AbsolutePath {
        match self {
            TaskInputs::Two { source, .. } | TaskInputs::One { source } => source,
        }
    }

    /// Returns the name that is to be new.
    pub fn destination(&self) -> Option<&AbsolutePath> {
        match self {
            TaskInputs::Two { destination, .. } => Some(destination),
            TaskInputs::One { .. } => None,
        }
    }
}

impl Serialize for Capability {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use serde_json::json;

    fn manifest() -> Value {
        json!({
            "task_id": "task-1", "capability_id": "FILE_MOVE",
            "inputs": { "source_path": "/w/a", "destination_path": "/w/b" },
            "constraints": { "reversible": true, "deadline": 5 },
            "provenance": { "plan": ["x"] },
        })
    }

    fn parse(value: &Value) -> Result<Manifest, FormatError> {
        Manifest::parse(value.to_string().as_bytes())
    }

    #[test]
    fn a_manifest_is_read() {
        let read = parse(&manifest()).unwrap();
        assert_eq!(
            (read.task_id.as_str(), read.capability_id.as_str()),
            ("task-1", "FILE_MOVE")
        );
        assert_eq!(read.constraints.reversible, Some(true));
        assert_eq!(read.constraints.others["deadline"], 5);
        assert_eq!(read.provenance["plan"], json!(["x"]));
        let mut silent = manifest();
        silent["constraints"] = json!({});
        assert_eq!(
            parse(&silent).unwrap().constraints,
            ManifestConstraints::default()
        );
        // What it means is decided after the lease, whatever it is.
        for inputs in [
            json!({}),
            json!({"x": 1}),
            json!([1]),
            json!(null),
            json!("x"),
        ] {
            let mut other = manifest();
            other["inputs"] = inputs;
            other["capability_id"] = json!("FILE_CHMOD");
            assert!(parse(&other).is_ok());
        }
    }

    #[test]
    fn a_manifest_is_strict() {
        for member in [
            "task_id",
            "capability_id",
            "inputs",
            "constraints",
            "provenance",
        ] {
            let mut stripped = manifest();
            stripped.as_object_mut().unwrap().remove(member);
            assert!(parse(&stripped).is_err(), "{member}");
        }
        for (member, value) in [
            ("task_id", json!(1)),
            ("task_id", json!("")),
            ("task_id", json!("a b")),
            ("task_id", json!("x".repeat(257))),
            ("capability_id", json!(null)),
            ("capability_id", json!(1)),
            ("constraints", json!([])),
            ("constraints", json!(null)),
            ("constraints", json!({"reversible": "true"})),
            ("constraints", json!({"reversible": null})),
            ("constraints", json!({"reversible": 1})),
            ("provenance", json!("me")),
            ("more", json!({})),
        ] {
            let mut changed = manifest();
            changed[member] = value.clone();
            assert!(parse(&changed).is_err(), "{member}: {value}");
        }
        let mut long = manifest();
        long["provenance"]["x"] = json!("y".repeat(MAX_MANIFEST_BYTES));
        assert!(
            parse(&long)
                .unwrap_err()
                .to_string()
                .contains("more than 65536")
        );
        let twice = manifest()
            .to_string()
            .replacen('{', "{\"task_id\":\"task-2\",", 1);
        assert!(Manifest::parse(twice.as_bytes()).is_err());
    }

    #[test]
    fn ids_of_a_refused_manifest_are_told_where_they_can_be_read() {
        let mut changed = manifest();
        changed["more"] = json!(1);
        let ids = |text: &str| Manifest::ids(text.as_bytes());
        let both = |task: &str, capability: &str| (task.to_owned(), capability.to_owned());
        assert_eq!(ids(&changed.to_string()), both("task-1", "FILE_MOVE"));
        changed["capability_id"] = json!(["x"]);
        assert_eq!(ids(&changed.to_string()), both("task-1", ""));
        changed["task_id"] = json!("a\nb");
        for text in [
            changed.to_string().as_str(),
            "",
            "[]",
            r#"{"task_id":"a","task_id":"b"}"#,
        ] {
            assert_eq!(ids(text), both("", ""), "{text}");
        }
    }

    #[test]
    fn each_capability_has_its_inputs_and_no_others() {
        let two = json!({ "source_path": "/w/a", "destination_path": "/w/b" });
        let one = json!({ "source_path": "/w/a" });
        for capability in Capability::ALL {
            assert_eq!(Capability::parse(capability.as_str()), Some(capability));
            let takes_two = capability != Capability::FileDelete;
            assert_eq!(
                TaskInputs::read(capability, &two).is_ok(),
                takes_two,
                "{capability}"
            );
            assert_eq!(
                TaskInputs::read(capability, &one).is_ok(),
                !takes_two,
                "{capability}"
            );
            for bad in [
                json!({ "source_path": "/w/a", "destination_path": "/w/b", "recursive": true }),
                json!({ "source_path": 1, "destination_path": "/w/b" }),
                json!({ "source_path": null }),
                json!({ "source_path": ["/w/a"] }),
                json!({ "source_path": "w/a", "destination_path": "/w/b" }),
                json!({ "source_path": "/w/../a" }),
                json!({ "source_path": "/w/a/" }),
                json!({ "destination_path": "/w/b" }),
                json!({}),
                json!(["/w/a", "/w/b"]),
                json!(["/w/a"]),
                json!("/w/a"),
            ] {
                assert!(
                    TaskInputs::read(capability, &bad).is_err(),
                    "{capability}: {bad}"
                );
            }
        }
        for id in ["", "file_move", "FILE_MOVE ", "FILE_LINK"] {
            assert_eq!(Capability::parse(id), None);
        }
        let read = TaskInputs::read(Capability::FileCopy, &two).unwrap();
        assert_eq!(read.source().as_str(), "/w/a");
        assert_eq!(read.destination().unwrap().as_str(), "/w/b");
    }
}
