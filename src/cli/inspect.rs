//! `status` and `log`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{Exit, open_store, say};
use crate::daemon::control::{self, Answer, Request, Status};
use crate::daemon::{mountpoint, registry};
use crate::error::{Error, Result};
use crate::journal::{Op, Record};
use crate::operator::log::Log;

/// What `trumanfs status` takes.
#[derive(Args, Debug)]
pub(super) struct StatusArgs {
    /// A home or a store; all homes of this machine where absent
    target: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `trumanfs log` takes.
#[derive(Args, Debug)]
pub(super) struct LogArgs {
    /// A store or a home
    target: PathBuf,
    /// Print the records as they are, one JSON object a line
    #[arg(long)]
    json: bool,
    /// Go on printing what comes
    #[arg(long, short = 'f')]
    follow: bool,
}

/// Says how mounts are going.
pub(super) fn status(args: &StatusArgs) -> Result<Exit> {
    let Some(target) = &args.target else {
        return status_of_all(args.json);
    };
    match ask(target)? {
        Some(status) if args.json => say(format_args!("{}", json(&status)?)),
        Some(status) => print_status(&status),
        None => {
            say(format_args!("{} is not mounted", target.display()));
            return Ok(Exit::Nothing);
        }
    }
    Ok(Exit::Ok)
}

fn status_of_all(as_json: bool) -> Result<Exit> {
    let mut found = Vec::new();
    for mounted in mountpoint::mounted() {
        let Some(entry) = registry::find(&mounted.device) else {
            eprintln!(
                "trumanfs: {}: mounted by somebody else",
                mounted.path.display()
            );
            continue;
        };
        match ask(&entry.store()) {
            Ok(Some(status)) => found.push(status),
            Ok(None) => eprintln!(
                "trumanfs: {}: its daemon has died; `trumanfs umount` cleans up, nothing is lost",
                mounted.path.display()
            ),
            Err(error) => eprintln!("trumanfs: {}: {error}", mounted.path.display()),
        }
    }
    match as_json {
        true => say(format_args!("{}", json(&found)?)),
        false => found.iter().for_each(print_status),
    }
    Ok(if found.is_empty() {
        Exit::Nothing
    } else {
        Exit::Ok
    })
}

fn ask(target: &std::path::Path) -> Result<Option<Status>> {
    let (_, store) = open_store(target)?;
    if !store.is_served()? {
        return Ok(None);
    }
    match control::ask(store.state(), &Request::Status)? {
        Answer::Status(status) => Ok(Some(*status)),
        _ => Err(Error::refused(
            "the daemon gave an answer to another question",
            "",
        )),
    }
}

fn print_status(status: &Status) {
    say(format_args!("{}", status.home));
    say(format_args!("  store       {}", status.store));
    say(format_args!(
        "  session     {} since {}, process {}",
        status.session, status.since, status.pid
    ));
    say(format_args!(
        "  changes     {} recorded; the trash takes {}, former contents {}",
        status.records,
        bytes(status.trash_bytes),
        bytes(status.kept_bytes)
    ));
    if status.refused > 0 {
        say(format_args!(
            "  refused     {} writes, because former contents have reached their limit (--keep-max); \
             `trumanfs trash purge --versions` makes room",
            status.refused
        ));
    }
    let words = |value: &serde_json::Value| match value {
        serde_json::Value::Object(map) => map
            .iter()
            .filter(|(_, v)| **v != serde_json::Value::Bool(false))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
        _ => Vec::new(),
    };
    let names = |value| {
        words(value)
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    say(format_args!("  mechanisms  {}", names(&status.mechanisms)));
    say(format_args!(
        "  known       {} files and directories, {} open, {} directories watched",
        status.known, status.open, status.watched
    ));
    let counts: Vec<_> = words(&status.counters)
        .into_iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    say(format_args!("  requests    {}", counts.join(", ")));
}

/// Prints the log.
pub(super) fn log(args: &LogArgs) -> Result<Exit> {
    let (_, store) = open_store(&args.target)?;
    let mut log = Log::open(&store)?;
    let mut damaged = false;
    let mut any = false;
    loop {
        match log.next_record() {
            Ok(Some((session, record))) => {
                any = true;
                match args.json {
                    true => say(format_args!("{}", json(&record)?)),
                    false => print_record(&session, &record),
                }
            }
            Ok(None) if args.follow => std::thread::sleep(Duration::from_millis(200)),
            Ok(None) => break,
            Err(error @ Error::Damaged(_)) => {
                damaged = true;
                eprintln!("trumanfs: {error}");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(match (damaged, any) {
        (true, _) => Exit::Partly,
        (false, false) => Exit::Nothing,
        (false, true) => Exit::Ok,
    })
}

fn print_record(session: &str, record: &Record) {
    let who = match &record.actor {
        Some(actor) if actor.comm.is_empty() => format!("[{}]", actor.pid),
        Some(actor) => format!("{}[{}]", actor.comm, actor.pid),
        None => String::new(),
    };
    let time = record.time.get(..19).unwrap_or_default().replace('T', " ");
    match &record.op {
        Op::Begin { .. } => say(format_args!("── session {session}")),
        op => say(format_args!(
            "{:>6}  {time}  {who:<20}  {}",
            record.seq,
            describe(op)
        )),
    }
}

/// Says in a few words what an operation was.
fn describe(op: &Op) -> String {
    use crate::name::escape;
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
        Op::Undo { what, .. } => format!("{word} {what}"),
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

/// Writes a number of bytes for people.
pub(super) fn bytes(count: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = "bytes";
    for next in units {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "bytes" {
        format!("{count} bytes")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// Writes anything as one line of JSON.
pub(super) fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::Damaged(format!("cannot be written as JSON: {error}")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_are_for_people() {
        for (count, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1536, "1.5 KiB"),
            (5 << 30, "5.0 GiB"),
        ] {
            assert_eq!(super::bytes(count), text);
        }
    }
}
