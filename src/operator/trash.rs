//! The trash as an operator sees it: its entries, their former paths, the processes that removed them; and restoring
//! them.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;

use rustix::fs::OFlags;

use super::Store;
use super::age_bounds::AgeBounds;
use super::closed_nodes::retry_with_opened_nodes;
use super::log::ForwardRecords;
use super::past::{NodeAttributes, Past, PastContent};
use super::point::{Operation, Point};
use super::trash_size::{entries, shares, size_of};
use super::undo::put_xattr_if_allowed;
use crate::error::{Error, Result};
use crate::journal::Actor;
use crate::name::{EscapedBytes, Name, WorldPath, escape};
use crate::world::store::layout::TRASH;
use crate::world::trash::trash_entries::parse_entry;
use crate::world::{
    Caller, Dir, Id, Meta, NoOpenState, RenameMode, SetAttrs, SetTime, Time, World, Xattrs,
};

/// An entry of the trash.
#[derive(Debug, Clone, serde::Serialize)]
pub struct TrashEntry {
    /// Its name in the trash.
    pub entry: EscapedBytes,
    /// The path before its removal; absent where no journal has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<WorldPath>,
    /// The time of its removal, RFC 3339.
    pub time: String,
    /// The time before which it was not removed, whatever the clock said; empty where no journal has it.
    #[serde(skip)]
    pub not_before: String,
    /// The process that removed it; absent where no journal has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    /// True if the entry is a directory.
    pub directory: bool,
    /// The total size of its files, in bytes.
    pub size: u64,
    /// The space that it takes on disk, in bytes.
    pub disk: u64,
    /// The session of its removal; absent where no journal has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The number of the record of its removal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
}

/// An entry's record in the journals.
#[derive(Debug, Clone)]
struct RemovalRecord {
    path: WorldPath,
    actor: Option<Actor>,
    time: String,
    not_before: String,
    session: String,
    seq: u64,
}

/// Lists the trash, oldest first.
///
/// # Errors
/// Those of reading the trash. A damaged journal is not an error here: its entries are listed without their origin.
pub fn list(store: &Store) -> Result<Vec<TrashEntry>> {
    let trash = match store.root.dir(&WorldPath::parse(TRASH)?) {
        Err(Error::NotFound) => return Ok(Vec::new()),
        trash => trash?,
    };
    let there = entries(store, &trash)?;
    // Only for entries in the trash, so that memory grows with the trash, not with the journals.
    let names = there.iter().map(|(name, _)| name.as_slice()).collect();
    let mut origins = find_origins(store, &names)?;
    let mut listed = Vec::new();
    let mut linked = Vec::new();
    for (name, meta) in &there {
        let origin = origins.remove(name);
        let time = match (&origin, parse_entry(name)) {
            (Some(origin), _) => origin.time.clone(),
            (None, Some((time, _))) => time.to_rfc3339_opts(chrono::SecondsFormat::Micros, true),
            (None, None) => String::new(),
        };
        let path = WorldPath::parse(TRASH)?.join(Name::new(name)?);
        let size = size_of(store, path, meta)?;
        linked.extend(size.linked.iter().map(|one| (listed.len(), *one)));
        listed.push(TrashEntry {
            entry: EscapedBytes(name.clone()),
            time,
            not_before: origin
                .as_ref()
                .map_or_else(String::new, |origin| origin.not_before.clone()),
            directory: meta.is_dir(),
            size: size.bytes,
            disk: size.disk,
            session: origin.as_ref().map(|origin| origin.session.clone()),
            seq: origin.as_ref().map(|origin| origin.seq),
            actor: origin.as_ref().and_then(|origin| origin.actor.clone()),
            path: origin.map(|origin| origin.path),
        });
    }
    for (entry, disk) in shares(&linked) {
        if let Some(entry) = listed.get_mut(entry) {
            entry.disk += disk;
        }
    }
    // The journal has the order; entries that no journal has are ordered by name.
    listed.sort_by_cached_key(|one| (one.session.clone(), one.seq, one.entry.0.clone()));
    Ok(listed)
}

/// Returns the former path of an entry of the trash.
///
/// # Errors
/// [`Error::Missing`] for an entry that is not there; [`Error::Conflict`], asking for a destination, where no journal
/// has it.
pub fn origin(store: &Store, entry: &[u8]) -> Result<WorldPath> {
    let path = WorldPath::parse(entry).map_err(|_| no_entry(entry))?;
    let mut parts = path.components();
    let first = parts.next().ok_or_else(|| no_entry(entry))?;
    let origins = find_origins(store, &HashSet::from([first.bytes()]))?;
    let Some(origin) = origins.get(first.bytes()) else {
        let trash = store.root.dir(&WorldPath::parse(TRASH)?);
        let there = trash.and_then(|trash| trash.stat(first));
        there.map_err(|error| match error {
            Error::NotFound => no_entry(entry),
            error => error,
        })?;
        return Err(Error::Conflict {
            what: format!("no journal knows where {} was", escape(entry)),
            remedy: "Say where it shall go with --to PATH.".to_owned(),
        });
    };
    // A file inside an entry was below the entry's former path.
    let mut path = origin.path.clone();
    parts.for_each(|part| path.push(part));
    Ok(path)
}

/// Returns the error for an entry that is not there.
pub(super) fn no_entry(entry: &[u8]) -> Error {
    Error::Missing {
        what: format!("{}: no such entry in the trash", escape(entry)),
        remedy: "Nothing was changed. `trumanfs trash list` names them.".to_owned(),
    }
}

/// Returns the attributes of an entry of the trash, or of a file below one.
///
/// # Errors
/// `ENOENT` where it is not there.
pub(super) fn stat(store: &Store, entry: &[u8]) -> Result<Meta> {
    let path = path_of(entry)?;
    let parent = path.parent().ok_or(Error::NotFound)?;
    let name = path.name().ok_or(Error::NotFound)?;
    store.root.dir(&parent)?.stat(name)
}

/// Restores an entry of the trash, or a file below one, to a free path.
///
/// # Errors
/// [`Error::Missing`] for an entry that is not there; [`Error::Conflict`] where the path is taken or its directory is
/// gone; [`Error::Refused`] where the entry, or the path, does not exist for the home.
pub fn restore(world: &World, entry: &[u8], to: &WorldPath, caller: Caller) -> Result<Id> {
    let was_denied = |restored: &Result<Id>| restored.as_ref().is_err_and(Error::is_denial);
    let act = || move_out(world, entry, to, caller);
    retry_with_opened_nodes(world, was_denied, act).1
}

fn move_out(world: &World, entry: &[u8], to: &WorldPath, caller: Caller) -> Result<Id> {
    let path = path_of(entry)?;
    let (dir, name) = world.parent(&path).map_err(|error| match error {
        Error::NotFound | Error::NotDirectory => no_entry(entry),
        error => error,
    })?;
    let conflict = |what: String| Error::Conflict {
        what,
        remedy: "Nothing was changed. Say where it shall go with --to PATH.".to_owned(),
    };
    let (new_dir, new_name) = world.parent(to).map_err(|error| match error {
        Error::NotFound | Error::NotDirectory => {
            conflict(format!("the directory of {to} is not there any more"))
        }
        error => error,
    })?;
    let found = match world.lookup(&dir, name) {
        Ok(found) => found.meta,
        Err(Error::NotFound) if dir.stat(name).is_ok() => return Err(hidden_error(&escape(entry))),
        Err(Error::NotFound) => return Err(no_entry(entry)),
        Err(error) => return Err(error),
    };
    if found.kind == rustix::fs::FileType::RegularFile && found.nlink > 1 {
        let store = Store::of(world)?;
        if let Some(then) = written_since(&store, entry)? {
            return copy_back(world, &then, (&new_dir, new_name), caller).map_err(
                |error| match error {
                    Error::Exists => conflict(format!("something else is at {to} now")),
                    error => error,
                },
            );
        }
    }
    let moved = world.rename(
        &dir,
        name,
        &new_dir,
        new_name,
        RenameMode::NoReplace,
        caller,
    );
    moved.map(|moved| moved.id).map_err(|error| match error {
        Error::Exists => conflict(format!("something else is at {to} now")),
        Error::NotFound if dir.stat(name).is_ok() => hidden_error(&to.to_string()),
        Error::NotFound => no_entry(entry),
        error => error,
    })
}

/// Returns the path of an entry, or of a node in one.
fn path_of(entry: &[u8]) -> Result<WorldPath> {
    let mut path = WorldPath::parse(TRASH)?;
    let parsed = WorldPath::parse(entry).map_err(|_| no_entry(entry))?;
    parsed.components().for_each(|part| path.push(part));
    Ok(path)
}

/// Returns the error for a node that is there but does not exist for the home.
fn hidden_error(what: &str) -> Error {
    Error::refused(
        format!(
            "{what} does not exist in the home: a link where --symlinks hides them, or what --hide names"
        ),
        "Nothing was changed. Mount the store so that it exists, then restore it; an unmounted store goes by its last mount.",
    )
}

/// A file's state at its removal, where it has been written to since under another of its names.
struct FileAtRemoval {
    content: PastContent,
    attributes: NodeAttributes,
    xattrs: Xattrs,
}

/// Returns the state of an entry at its removal; `None` where it is unchanged.
fn written_since(store: &Store, entry: &[u8]) -> Result<Option<FileAtRemoval>> {
    let Some(origin) = find_origins(store, &HashSet::from([entry]))?.remove(entry) else {
        return Ok(None);
    };
    // In a copied store, writes since a removal in the original are unknown.
    if store.is_foreign(&origin.session)? {
        return Ok(None);
    }
    let mut past = Past::now(store)?;
    past.back_to(&Point::After(Operation {
        session: origin.session,
        seq: origin.seq,
    }))?;
    let tree = past.tree();
    let path = WorldPath::parse(TRASH)?.join(Name::new(entry)?);
    let Some(node) = tree.resolve(&path)? else {
        return Ok(None);
    };
    if tree
        .difference(node)
        .is_none_or(|then| then.content.is_none())
    {
        return Ok(None);
    }
    let content = tree.content(node)?;
    if let Some(missing) = content.missing_part() {
        return Err(Error::Damaged(format!(
            "{}: {missing}\n  `trumanfs restore` gives back the rest.",
            origin.path
        )));
    }
    Ok(Some(FileAtRemoval {
        content,
        attributes: tree.meta(node)?,
        xattrs: tree.xattrs(node)?,
    }))
}

/// Recreates a file as it was. The entry stays in the trash: it is a name of the file that was written to.
fn copy_back(
    world: &World,
    then: &FileAtRemoval,
    at: (&Dir, Name<'_>),
    caller: Caller,
) -> Result<Id> {
    let (dir, name) = at;
    let flags = OFlags::RDWR | OFlags::EXCL;
    let made = world.create(dir, name, flags, 0o600, &NoOpenState, caller)?;
    let filled = then.content.copy_to(made.file.as_fd()).and_then(|()| {
        world.note_left(&made.file);
        let was = &then.attributes;
        let located = world.locate(dir, name)?;
        let owner = SetAttrs {
            uid: Some(was.uid),
            gid: Some(was.gid),
            ..SetAttrs::default()
        };
        world.set_attr(&located, owner, None, &NoOpenState, caller)?;
        for (name, value) in &then.xattrs {
            put_xattr_if_allowed(world, &located, (name, Some(value)), caller)?;
        }
        let change = SetAttrs {
            mode: Some(was.mode),
            mtime: SetTime::To(Time {
                sec: was.mtime.0,
                nsec: was.mtime.1,
            }),
            ..SetAttrs::default()
        };
        world.set_attr(&located, change, None, &NoOpenState, caller)
    });
    match filled {
        Ok(_) => Ok(made.meta.id),
        Err(error) => {
            // A partial copy must not remain.
            let _ = world.unlink(dir, name, caller);
            Err(error)
        }
    }
}

/// Scans all journals for the origins of entries of the trash.
fn find_origins(store: &Store, wanted: &HashSet<&[u8]>) -> Result<HashMap<Vec<u8>, RemovalRecord>> {
    let mut origins = HashMap::new();
    let mut log = ForwardRecords::open(store)?;
    let mut ages = AgeBounds::new();
    loop {
        match log.next_record() {
            Ok(Some((session, record))) => {
                let not_before = ages.not_before(&record);
                let Some(trashed) = record.op.trashed() else {
                    continue;
                };
                if wanted.contains(trashed.entry.0.as_slice()) {
                    let origin = RemovalRecord {
                        path: trashed.path.clone(),
                        actor: record.actor.clone(),
                        time: record.time.clone(),
                        not_before: not_before.to_owned(),
                        session,
                        seq: record.seq,
                    };
                    origins.insert(trashed.entry.0.clone(), origin);
                }
            }
            Ok(None) => return Ok(origins),
            Err(error) => log::warn!("{error}"),
        }
    }
}
