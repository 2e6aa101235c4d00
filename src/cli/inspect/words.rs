//! What operations are called, in a few words.

use super::super::output::{Ink, Paper, count};
use crate::journal::Op;
use crate::name::escape;
use crate::operator::fold::{ACTS, Act, Doing};

/// Says in a few words what an operation was.
pub(super) fn describe(op: &Op) -> String {
    let word = op.word();
    match op {
        Op::Begin { .. } | Op::End => word.to_owned(),
        Op::Create { path, .. } | Op::Mkdir { path, .. } | Op::Mknod { path, .. } => {
            format!("{word} {path}")
        }
        Op::Write { path, .. } | Op::Allocate { path, .. } | Op::Content { path, .. } => {
            format!("{word} {path}")
        }
        Op::Checkpoint { name } => format!("{word} {name}"),
        // The words of the command: `undo 3`, `redo: …`, `restore /f as at …`.
        Op::Undo { what, .. } => what.clone(),
        Op::Purge { entries } => format!("{word} {} entries of the trash", entries.len()),
        Op::Evict { versions } => format!("{word} {} versions", versions.len()),
        Op::Symlink { path, target } => format!("{word} {path} → {}", escape(&target.0)),
        Op::Link { path, from, .. } => format!("{word} {path} = {from}"),
        Op::Truncate { path, size, to, .. } => format!("{word} {path} from {size} to {to} bytes"),
        Op::Attr {
            path,
            was,
            mode,
            uid,
            gid,
            times,
            ..
        } => {
            let mut changes = Vec::new();
            changes.extend(mode.map(|mode| format!("mode {:o} → {mode:o}", was.mode)));
            changes.extend(uid.map(|uid| format!("owner {} → {uid}", was.uid)));
            changes.extend(gid.map(|gid| format!("group {} → {gid}", was.gid)));
            changes.extend(times.then(|| "times".to_owned()));
            format!("{word} {path}: {}", changes.join(", "))
        }
        Op::Xattr { path, name, .. } => format!("{word} {path}: {}", escape(&name.0)),
        Op::Unlink { path, trash, .. } | Op::Rmdir { path, trash, .. } => {
            format!("{word} {path} ⇒ trash {}", escape(&trash.0))
        }
        Op::Gather {
            path,
            trash,
            entries,
            ..
        } => {
            format!(
                "{word} {} removed from {path} ⇒ trash {}",
                entries.len(),
                escape(&trash.0)
            )
        }
        Op::Rename {
            path, to, replaced, ..
        }
        | Op::Restore {
            path, to, replaced, ..
        } => {
            let replaced = replaced
                .as_ref()
                .map(|r| format!(", replaced ⇒ trash {}", escape(&r.trash.0)));
            format!("{word} {path} → {to}{}", replaced.unwrap_or_default())
        }
        Op::Exchange { path, to, .. } => format!("{word} {path} ↔ {to}"),
        Op::Abort { of, error } => format!("{word} {of}: not done ({error})"),
    }
}

/// Says who did something: `tar[4711]`.
pub(super) fn who(comm: &str, pid: impl std::fmt::Display) -> String {
    format!("{comm}[{pid}]")
}

/// Says in a few words what a process did in one go.
pub(super) fn tell(doing: &Doing, paper: &Paper) -> String {
    let told = |(act, number): (Act, u64)| {
        let (verb, thing, ink) = match act {
            Act::CreatedFile => ("created", "file", Ink::Added),
            Act::CreatedDirectory => ("created", "directory", Ink::Added),
            Act::CreatedSymlink => ("created", "symlink", Ink::Added),
            Act::Linked => ("made", "hard link", Ink::Added),
            Act::Wrote => ("wrote", "file", Ink::Changed),
            Act::Changed => ("set attributes of", "file", Ink::Changed),
            Act::Renamed => ("moved", "file", Ink::Changed),
            Act::Replaced => ("replaced", "file", Ink::Removed),
            Act::RemovedFile => ("removed", "file", Ink::Removed),
            Act::RemovedDirectory => ("removed", "directory", Ink::Removed),
            Act::Restored => ("restored", "thing", Ink::Added),
        };
        (verb, paper.ink(ink, &count(number, thing)))
    };
    let mut text = String::new();
    let mut last = "";
    let counts = ACTS.iter().map(|act| (*act, doing.count(*act)));
    for (verb, number) in counts.filter(|(_, number)| *number > 0).map(told) {
        if !text.is_empty() {
            text.push_str(", ");
        }
        // "created 812 files, 40 directories": the verb once.
        if verb != last {
            text.push_str(verb);
            text.push(' ');
        }
        text.push_str(&number);
        last = verb;
    }
    if text.is_empty() {
        text = format!("{} that did not happen", count(doing.records, "change"));
    }
    match (doing.under.as_str(), doing.one_path) {
        ("", _) => text.push_str(" under /"),
        (path, true) => text = format!("{text}: {path}"),
        (path, false) => text = format!("{text} under {path}"),
    }
    if doing.not_done > 0 {
        text = format!("{text}; {} not done", doing.not_done);
    }
    if let Some(undo) = doing.undo {
        text = format!("{text}, for undo {undo}");
    }
    let seconds = (doing.ended - doing.began).num_milliseconds() as f64 / 1000.0;
    if seconds >= 0.05 {
        text = format!(
            "{text}  {}",
            paper.ink(Ink::Faint, &format!("({seconds:.1} s)"))
        );
    }
    text
}
