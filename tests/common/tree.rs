//! A whole directory as data, to be compared with how it was or with another one.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Everything below a directory but what is a store's own: kind, mode, owner, links, time, blocks and content.
pub(crate) fn tree(dir: &Path) -> BTreeMap<PathBuf, String> {
    walk(dir, &|path, meta| {
        let time = match path == dir {
            // What is a store's own comes and goes in it.
            true => (0, 0),
            false => (meta.mtime(), meta.mtime_nsec()),
        };
        let (links, holes) = match meta.is_file() {
            true => (meta.nlink(), meta.blocks() * 512 < meta.len()),
            false => (0, false),
        };
        let (mode, uid) = (meta.mode(), meta.uid());
        let content = content(path, meta);
        format!("{mode:o} {uid} {time:?} {links} links, holes: {holes}, {content}")
    })
}

/// Likewise: kind, mode and content.
pub(crate) fn contents(dir: &Path) -> BTreeMap<PathBuf, String> {
    walk(dir, &|path, meta| {
        format!("{:o} {}", meta.mode(), content(path, meta))
    })
}

fn walk(dir: &Path, tell: &dyn Fn(&Path, &Metadata) -> String) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(at) = waiting.pop() {
        let meta = fs::symlink_metadata(&at).unwrap();
        if meta.is_dir() {
            let entries = fs::read_dir(&at)
                .unwrap()
                .map(|entry| entry.unwrap().path());
            let is_own = |path: &PathBuf| {
                at == dir && (path.ends_with(".trash") || path.ends_with(".trumanfs"))
            };
            waiting.extend(entries.filter(|path| !is_own(path)));
        }
        let inner = at.strip_prefix(dir).unwrap().to_owned();
        found.insert(inner, tell(&at, &meta));
    }
    found
}

fn content(path: &Path, meta: &Metadata) -> String {
    let kind = meta.file_type();
    if kind.is_dir() {
        "directory".to_owned()
    } else if kind.is_symlink() {
        format!("-> {:?}", fs::read_link(path).unwrap())
    } else if kind.is_file() {
        fs::read(path).unwrap().escape_ascii().to_string()
    } else {
        format!("fifo: {} socket: {}", kind.is_fifo(), kind.is_socket())
    }
}
