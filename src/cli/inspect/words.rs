//! What operations are called, in a few words.

use super::super::output::{Printer, TextStyle, count};
use crate::journal::{Op, Origin, OriginKind};
use crate::name::{escape, is_deceptive};
use crate::operator::activity_fold::{Activity, CHANGE_KINDS, ChangeKind};
use crate::operator::review::ChangeAuthor;

/// Says in a few words what an operation was.
pub(super) fn describe(op: &Op) -> String {
    let word = op.word();
    match op {
        Op::Begin { .. } | Op::End { .. } => word.to_owned(),
        Op::Run {
            command, length, ..
        } => {
            let more = if length.is_some() { "…" } else { "" };
            format!("$ {}{more}", shown_command(&command.0))
        }
        Op::Create { path, dropped, .. } | Op::Mknod { path, dropped, .. } => {
            let without = dropped.map_or("", |bits| match bits {
                0o4000 => " without set-user-id",
                0o2000 => " without set-group-id",
                _ => " without set-user-id and set-group-id",
            });
            format!("{word} {path}{without}")
        }
        Op::Mkdir { path, .. } => format!("{word} {path}"),
        Op::Write { path, .. } | Op::Allocate { path, .. } | Op::Content { path, .. } => {
            format!("{word} {path}")
        }
        Op::Checkpoint {
            mark: Some(mark), ..
        } => mark.to_string(),
        Op::Checkpoint { name, .. } => format!("{word} {name}"),
        // The words of the command: `undo 3`, `redo: …`, `restore /f as at …`.
        Op::Undo { what, .. } | Op::Accept { what, .. } => what.clone(),
        Op::Purge { .. } | Op::Evict { .. } => describe_deletion(op),
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
pub(in crate::cli) fn process_words(comm: &str, pid: impl std::fmt::Display) -> String {
    format!("{}[{pid}]", shown_command(comm.as_bytes()))
}

/// Says which run something is the doing of: `shell 4k2m9x0c7d1f`.
pub(super) fn run(origin: Origin) -> String {
    let run = origin.run.map(|run| format!(" {run}")).unwrap_or_default();
    format!("{}{run}", origin.kind.word())
}

/// Names who changed something: `sed (run 4k2m9x0c7d1f)`.
pub(in crate::cli) fn author_words(who: &ChangeAuthor) -> String {
    let program = match who.program.as_str() {
        "" => who.kind.word(),
        program => program,
    };
    match who.run {
        Some(run) => format!("{program} (run {run})"),
        None => program.to_owned(),
    }
}

/// Writes a command as it was typed, with what a terminal would not show as text in escapes.
pub(super) fn shown_command(command: &[u8]) -> String {
    let mut text = String::new();
    for chunk in command.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_deceptive(c) {
                text.extend(c.escape_default())
            } else {
                text.push(c)
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Says in a few words what a process did in one go.
pub(super) fn activity_words(activity: &Activity, printer: &Printer) -> String {
    let in_words = |(act, number): (ChangeKind, u64)| {
        let (verb, thing, style) = match act {
            ChangeKind::CreatedFile => ("created", "file", TextStyle::Added),
            ChangeKind::CreatedDirectory => ("created", "directory", TextStyle::Added),
            ChangeKind::CreatedSymlink => ("created", "symlink", TextStyle::Added),
            ChangeKind::Linked => ("made", "hard link", TextStyle::Added),
            ChangeKind::Wrote => ("wrote", "file", TextStyle::Changed),
            ChangeKind::Changed => ("set attributes of", "file", TextStyle::Changed),
            ChangeKind::Renamed => ("moved", "file", TextStyle::Changed),
            ChangeKind::Replaced => ("replaced", "file", TextStyle::Removed),
            ChangeKind::RemovedFile => ("removed", "file", TextStyle::Removed),
            ChangeKind::RemovedDirectory => ("removed", "directory", TextStyle::Removed),
            ChangeKind::Restored => ("restored", "thing", TextStyle::Added),
        };
        (verb, printer.style(style, &count(number, thing)))
    };
    let mut text = String::new();
    let mut last = "";
    let counts = CHANGE_KINDS.iter().map(|act| (*act, activity.count(*act)));
    for (verb, number) in counts.filter(|(_, number)| *number > 0).map(in_words) {
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
        text = format!("{} that did not happen", count(activity.records, "change"));
    }
    match (activity.under.as_str(), activity.one_path) {
        ("", _) => text.push_str(" under /"),
        (path, true) => text = format!("{text}: {path}"),
        (path, false) => text = format!("{text} under {path}"),
    }
    if activity.not_done > 0 {
        text = format!("{text}; {} not done", activity.not_done);
    }
    if activity.origin == OriginKind::Undo.into() {
        text = format!("{text}, for an undo");
    }
    let seconds = (activity.ended - activity.began).num_milliseconds() as f64 / 1000.0;
    if seconds >= 0.05 {
        text = format!(
            "{text}  {}",
            printer.style(TextStyle::Faint, &format!("({seconds:.1} s)"))
        );
    }
    text
}

/// Says what a record deletes for good, and where that was volatile.
fn describe_deletion(op: &Op) -> String {
    let word = op.word();
    let (text, losses) = match op {
        Op::Purge {
            expired: Some(cut), ..
        } => {
            let (session, seq) = &cut.before;
            let number = count(cut.sessions.len() as u64, "session");
            let text = format!("expire what came before {session}:{seq}, with {number}");
            (text, &[][..])
        }
        Op::Purge {
            entries, volatile, ..
        } => {
            let text = format!("{word} {} entries of the trash", entries.len());
            (text, volatile.as_slice())
        }
        Op::Evict { versions, volatile } => {
            (format!("{word} {} versions", versions.len()), &volatile[..])
        }
        _ => return word.to_owned(),
    };
    let dirs: Vec<_> = losses.iter().map(|loss| loss.dir.to_string()).collect();
    match dirs.is_empty() {
        true => text,
        false => format!("{text}, volatile in {}", dirs.join(", ")),
    }
}
