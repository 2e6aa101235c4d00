//! The former contents of a path, and the content of a path at a point.
//!
//! Goes back record by record and follows what the path names: another file since a removal, a replacement or a
//! rename, or the same file with another content. Each content found is opened, so that lost ones are reported.

use std::sync::Arc;

use super::Store;
use super::past::{LayeredContent, MissingPart, NameId, NodeId, Past, PastContent, RecordEffect};
use super::point::{Operation, Point};
use crate::error::{Error, Result};
use crate::journal::{Actor, KeepMethod, Record};
use crate::name::{EscapedBytes, Name, WorldPath};

/// Where a former content is kept.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "kept", rename_all = "lowercase")]
pub enum ContentLocation {
    /// As a version of the file.
    Version {
        /// The way in which it was kept.
        how: KeepMethod,
        /// Its number in the session of the operation.
        n: u64,
    },
    /// As an entry of the trash.
    Trash {
        /// The entry.
        entry: EscapedBytes,
    },
    /// In a file elsewhere in the home, now or later.
    Elsewhere,
    /// The content was empty.
    Empty,
}

/// A former content of a path.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FormerContent {
    /// The point at which the path last had it.
    pub at: Operation,
    /// The operation that ended it.
    pub until: Operation,
    /// The time of that operation, RFC 3339.
    pub time: String,
    /// The kind of that operation.
    pub op: String,
    /// The process that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    /// Its size in bytes; absent where that is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Where it is kept.
    #[serde(flatten)]
    pub place: ContentLocation,
    /// Why it is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// Which part of it is lost, where the rest is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// All contents of a path.
#[derive(Debug)]
pub struct PathVersions {
    /// The size of the current content; `None` where there is no file.
    pub now: Option<u64>,
    /// The former contents, newest first.
    pub former: Vec<FormerContent>,
    /// Why older ones are not included: the store is a copy.
    pub older: Option<Error>,
}

/// Finds the former contents of a path.
///
/// # Errors
/// [`Error::Missing`] for a path that never existed; [`Error::Refused`] for a directory, and where only the original
/// of a copied store could tell; [`Error::Damaged`] where a journal cannot be read.
pub fn versions(store: &Store, path: &WorldPath) -> Result<PathVersions> {
    let mut past = Past::about_path(store, path, None)?;
    let mut at = past.tree().resolve(path)?;
    let mut ever = at.is_some();
    let name_id = |name: Name<'_>| past.tree().disk().name_id(name.bytes());
    let on_path: Vec<NameId> = path.components().map(name_id).collect();
    if at.is_some_and(|node| past.tree().kind(node).is_dir()) {
        return Err(Error::refused(
            format!("{path} is a directory"),
            "`versions` is of files; `trumanfs diff` says what changed in a directory.",
        ));
    }
    let now = at
        .and_then(|node| past.tree().meta(node).ok())
        .map(|meta| meta.size);
    let mut former = Vec::new();
    let mut older = None;
    let mut looked = LayeredContent::default();
    loop {
        let (session, record) = match past.back_by_one(|_, _| true) {
            Ok(Some(next)) => next,
            Ok(None) => break,
            Err(error @ Error::Refused { .. }) if !former.is_empty() => {
                older = Some(error);
                break;
            }
            Err(error) => return Err(error),
        };
        let tree = past.tree_mut();
        let effects = tree.effects(&record, &session)?;
        let mut other_content = false;
        let mut other_names = false;
        for effect in effects {
            match &effect {
                RecordEffect::Content { node, .. } => other_content |= at == Some(*node),
                // A name that is not on the path has no effect on it.
                RecordEffect::Name { name, .. } => {
                    other_names |= on_path.contains(name);
                }
                _ => {}
            }
            tree.reverse(effect, (&session, &record));
        }
        let before = if other_names { tree.resolve(path)? } else { at };
        if let Some(node) = before
            && (before != at || other_content)
            && !tree.kind(node).is_dir()
        {
            former.extend(former_content(
                &past,
                node,
                (&session, record),
                former.last(),
                &mut looked,
            )?);
        }
        ever |= before.is_some();
        at = before;
    }
    if !ever {
        return Err(Error::Missing {
            what: format!("nothing was ever at {path}"),
            remedy: "Give the path as it is seen in the home. `trumanfs log --path NAME` finds where it was.".to_owned(),
        });
    }
    Ok(PathVersions { now, former, older })
}

/// Returns what a record destroyed of a file; `None` where it shares its copy with the one that came `later`.
fn former_content(
    past: &Past<'_>,
    node: NodeId,
    (session, record): (&Arc<str>, Record),
    later: Option<&FormerContent>,
    looked: &mut LayeredContent,
) -> Result<Option<FormerContent>> {
    let of = |seq| Operation {
        session: session.to_string(),
        seq,
    };
    let place = match (record.op.kept(), record.op.trashed()) {
        (Some((kept, _)), _) => ContentLocation::Version {
            how: kept.how,
            n: kept.n,
        },
        (None, Some(trashed)) => ContentLocation::Trash {
            entry: trashed.entry.clone(),
        },
        (None, None) => ContentLocation::Elsewhere,
    };
    // An open and a truncation that follows may share one copy: they are one content.
    let same = |later: &FormerContent| {
        matches!(place, ContentLocation::Version { n: 1.., .. })
            && later.place == place
            && *later.until.session == **session
    };
    if later.is_some_and(same) {
        return Ok(None);
    }
    let ContentState {
        size,
        lost,
        missing,
    } = content_state(past, node, looked)?;
    Ok(Some(FormerContent {
        at: of(record.seq.saturating_sub(1)),
        until: of(record.seq),
        time: record.time,
        op: record.op.word().to_owned(),
        place: match place {
            ContentLocation::Elsewhere if size == Some(0) => ContentLocation::Empty,
            place => place,
        },
        actor: record.actor,
        size,
        lost,
        missing,
    }))
}

/// The state of a former content.
#[derive(Default)]
struct ContentState {
    size: Option<u64>,
    lost: Option<String>,
    missing: Option<String>,
}

/// Looks at a content, from the one after it.
fn content_state(
    past: &Past<'_>,
    node: NodeId,
    looked: &mut LayeredContent,
) -> Result<ContentState> {
    match past.tree().unverified_content(node, std::mem::take(looked)) {
        Ok(now) => {
            *looked = now;
            let content = &looked.content;
            Ok(ContentState {
                size: Some(
                    content
                        .missing_part()
                        .map_or(content.size(), MissingPart::full_size),
                ),
                missing: content.missing_part().map(ToString::to_string),
                lost: None,
            })
        }
        Err(Error::Missing { what, .. } | Error::Damaged(what)) => Ok(ContentState {
            size: past.tree().meta(node).ok().map(|meta| meta.size),
            lost: Some(what),
            missing: None,
        }),
        // A FIFO or a socket has no content.
        Err(_) => Ok(ContentState::default()),
    }
}

/// Opens the content that a path had at a point.
///
/// # Errors
/// [`Error::Missing`] where nothing was there, or the content is lost; [`Error::Refused`] for anything but a file;
/// [`Error::Damaged`] where a journal or a version was tampered with.
pub fn content_at(store: &Store, path: &WorldPath, point: &Point) -> Result<PastContent> {
    let mut past = Past::about_path(store, path, Some(point))?;
    past.back_to(point)?;
    past.compare_with_home(path, point)?;
    let node = past.tree().resolve(path)?.ok_or_else(|| Error::Missing {
        what: match point {
            Point::Now => format!("nothing is at {path}"),
            Point::After(operation) => format!("nothing was at {path} after operation {operation}"),
        },
        remedy: "`trumanfs versions TARGET PATH` says when something was there.".to_owned(),
    })?;
    let kind = past.tree().kind(node);
    if !kind.is_file() {
        if past.tree().is_lost(node) && !kind.is_dir() {
            return Err(Error::Missing {
                what: format!(
                    "what {path} was then is not in the store any more, and no record names its removal"
                ),
                remedy: "`trumanfs versions` lists what was kept of the file.".to_owned(),
            });
        }
        let what = if kind.is_dir() {
            "a directory"
        } else {
            "no regular file"
        };
        return Err(Error::refused(
            format!("{path} was {what}"),
            "Name a file. `trumanfs restore` takes directories too.",
        ));
    }
    past.tree().content(node)
}
