//! Files of the Container Device Interface: what belongs to a device that has a name like `nvidia.com/gpu=all`.
//!
//! Nodes, mounts of files (read-only) and variables are taken over. Everything else of a file, hooks above all, is named
//! and not done.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The most files of a directory.
const MAX_FILES: usize = 200;

/// Everything that a name stands for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CdiEdits {
    pub(super) nodes: Vec<CdiNode>,
    pub(super) mounts: Vec<CdiMount>,
    pub(super) env: Vec<(String, String)>,
    /// Parts that are not done.
    pub(super) left_out: Vec<String>,
}

/// A node of a device.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CdiNode {
    pub(super) host: PathBuf,
    pub(super) path: PathBuf,
    /// Major and minor number, where the file has them.
    pub(super) numbers: Option<(u32, u32)>,
}

/// A file or a directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CdiMount {
    pub(super) host: PathBuf,
    pub(super) path: PathBuf,
}

/// Finds a device by its name in the files of some directories; the first that has it counts.
///
/// # Errors
/// In words: no file has it, or the file is not understood.
pub(super) fn find(name: &str, dirs: &[PathBuf]) -> Result<CdiEdits, String> {
    let (kind, device) = name.split_once('=').unwrap_or((name, ""));
    let mut devices = Vec::new();
    for file in dirs.iter().flat_map(|dir| files_in(dir)) {
        let spec = read(&file)?;
        if text(&spec, "kind") != Some(kind) {
            continue;
        }
        for one in list(&spec, "devices") {
            let known = text(one, "name").unwrap_or_default();
            if known == device {
                let mut edits = CdiEdits::default();
                let wrong = |why: String| format!("{}: {why}", file.display());
                for part in [spec.get("containerEdits"), one.get("containerEdits")] {
                    edits.add(part.unwrap_or(&Value::Null)).map_err(wrong)?;
                }
                edits.name_unknown(&spec, &["cdiVersion", "kind", "annotations", "devices"]);
                edits.name_unknown(one, &["name", "annotations"]);
                return Ok(edits);
            }
            devices.push(format!("{kind}={known}"));
        }
    }
    let dirs: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
    let dirs = dirs.join(" and ");
    Err(match devices.is_empty() {
        true => format!("{name}: no file in {dirs} has devices of that kind"),
        false => format!("{name}: {dirs} have {}", devices.join(", ")),
    })
}

fn files_in(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let is_spec = |path: &PathBuf| {
        let end = path.extension().and_then(|end| end.to_str());
        matches!(end, Some("json" | "yaml" | "yml"))
    };
    let mut files: Vec<PathBuf> = paths.filter(is_spec).take(MAX_FILES).collect();
    files.sort();
    files
}

fn read(file: &Path) -> Result<Value, String> {
    let wrong = |why: String| format!("{}: {why}", file.display());
    let meta = std::fs::metadata(file).map_err(|error| wrong(error.to_string()))?;
    if !meta.is_file() || meta.len() > MAX_BYTES {
        return Err(wrong(format!("it is no file of {MAX_BYTES} bytes at most")));
    }
    let bytes = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
    if file.extension().is_some_and(|end| end == "json") {
        return serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()));
    }
    trumanfs_policy::read_yaml(&bytes, &file.display().to_string())
        .map_err(|error| error.to_string())
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

impl CdiEdits {
    fn add(&mut self, edits: &Value) -> Result<(), String> {
        for variable in list(edits, "env") {
            let (name, value) = variable
                .as_str()
                .and_then(|variable| variable.split_once('='))
                .ok_or("a variable is not NAME=VALUE")?;
            self.env.push((name.to_owned(), value.to_owned()));
        }
        for node in list(edits, "deviceNodes") {
            self.nodes.push(parse_node(node)?);
            self.name_unknown(
                node,
                &[
                    "path",
                    "hostPath",
                    "type",
                    "major",
                    "minor",
                    "permissions",
                    "fileMode",
                    "uid",
                    "gid",
                ],
            );
        }
        for mount in list(edits, "mounts") {
            let path = |key| text(mount, key).filter(|path| path.starts_with('/'));
            let (Some(host), Some(inside)) = (path("hostPath"), path("containerPath")) else {
                return Err("a mount has no hostPath and containerPath".to_owned());
            };
            self.mounts.push(CdiMount {
                host: host.into(),
                path: inside.into(),
            });
        }
        for hook in list(edits, "hooks") {
            let path = text(hook, "path").unwrap_or_default();
            let name = text(hook, "hookName").unwrap_or_default();
            self.left_out.push(format!("the hook {name} {path}"));
        }
        self.name_unknown(edits, &["env", "deviceNodes", "mounts", "hooks"]);
        Ok(())
    }

    /// Names the keys of an object that are not among the known ones.
    fn name_unknown(&mut self, object: &Value, known: &[&str]) {
        let keys = object.as_object().into_iter().flat_map(Map::keys);
        let is_known = |key: &&String| known.contains(&key.as_str()) || *key == "containerEdits";
        let unknown = keys.filter(|key| !is_known(key));
        self.left_out.extend(unknown.map(|key| format!("`{key}`")));
    }
}

fn parse_node(node: &Value) -> Result<CdiNode, String> {
    let path = text(node, "path").ok_or("a node of a device has no path")?;
    if !matches!(text(node, "type"), None | Some("c" | "u")) {
        return Err(format!("{path}: it is no character device"));
    }
    let number = |key| match node.get(key) {
        None => Ok(None),
        Some(number) => match number
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
        {
            Some(number) => Ok(Some(number)),
            None => Err(format!("{path}: {key} is no number")),
        },
    };
    Ok(CdiNode {
        host: text(node, "hostPath").unwrap_or(path).into(),
        path: path.into(),
        numbers: number("major")?.zip(number("minor")?),
    })
}
