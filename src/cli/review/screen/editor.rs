//! The editor that the screen opens: which one it is, the draft that it gets, and waiting for it.
//!
//! Owns that the editor works on a draft, in a new directory that only this user may enter: never on the file in the
//! home, which the occupant can change, and beside nothing that the occupant has made. The draft is removed once its text
//! is recorded, and else named.

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use super::terminal::stop_with_editor;
use crate::error::{Error, Result};
use crate::operator::review::EditableText;
use crate::operator::undo::edit::EditRequest;

/// The editor where none is chosen.
const DEFAULT_EDITOR: &str = "vi";
/// The number of names that are tried for the draft's directory.
const MAX_NAME_ATTEMPTS: u32 = 100;
/// The longest name of a draft.
const MAX_NAME_BYTES: usize = 100;

/// A text that was edited, and its draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EditedDraft {
    pub(super) request: EditRequest,
    pub(super) draft: PathBuf,
}

impl EditedDraft {
    /// Removes the draft.
    pub(super) fn remove(&self) {
        remove_draft(&self.draft);
    }
}

/// Has a text edited; `None` where it stays as it is.
///
/// # Errors
/// [`Error::Refused`] where the draft cannot be made, or the editor does not end well. What was typed is named then.
pub(super) fn edit(text: &EditableText) -> Result<Option<EditedDraft>> {
    let draft = write_draft(text)?;
    let chosen = |name: &&str| std::env::var_os(name).filter(|editor| !editor.is_empty());
    let editor = ["VISUAL", "EDITOR"].iter().find_map(chosen);
    let editor = editor.unwrap_or_else(|| DEFAULT_EDITOR.into());
    // As git has it: the variable may have arguments.
    let mut line = editor.clone();
    line.push(" \"$@\"");
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line).arg(&editor).arg(&draft);
    let started = command.spawn().map_err(|error| Error::io("clone", &error));
    let ended = started.and_then(|child| wait_for(Pid::from_child(&child)));
    let edited = fs::read(&draft);
    let problem = match (ended, &edited) {
        (Err(error), _) => Some(error.full_message()),
        (Ok(0), Ok(_)) => None,
        (Ok(0), Err(error)) => Some(format!("the draft cannot be read: {error}")),
        (Ok(status), _) => Some(format!(
            "the editor ended with {status}: set EDITOR to one that works"
        )),
    };
    let is_same = edited.as_ref().is_ok_and(|edited| *edited == text.text);
    let Some(problem) = problem else {
        let request = edited.ok().and_then(|edited| text.request(edited));
        if request.is_none() {
            remove_draft(&draft);
        }
        return Ok(request.map(|request| EditedDraft { request, draft }));
    };
    if is_same {
        remove_draft(&draft);
        return Err(Error::refused(problem, "Nothing was recorded."));
    }
    let remedy = format!("Nothing was recorded. The text is in {}", draft.display());
    Err(Error::refused(problem, remedy))
}

/// Waits for the editor, and stops with it where ^Z stops it. Returns its status.
fn wait_for(pid: Pid) -> Result<i32> {
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::UNTRACED) {
            Ok(Some((_, status))) if status.stopped() => {
                stop_with_editor();
                let _ = rustix::process::kill_process(pid, Signal::CONT);
            }
            Ok(Some((_, status))) => {
                let signal = status.terminating_signal().map(|signal| 128 + signal);
                return Ok(status.exit_status().or(signal).unwrap_or(1));
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::os("waitpid")(errno)),
        }
    }
}

/// Writes a text into a new file of a new directory.
fn write_draft(text: &EditableText) -> Result<PathBuf> {
    let failed = |dir: &Path, error: &std::io::Error| {
        Error::refused(
            format!("{}: {}", dir.display(), Error::io("write", error)),
            "Nothing was changed. TMPDIR names the directory of drafts.",
        )
    };
    let base = std::env::temp_dir();
    let pid = std::process::id();
    for number in 0..MAX_NAME_ATTEMPTS {
        let dir = base.join(format!("trumanfs-edit-{pid}-{number}"));
        match DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(failed(&dir, &error)),
        }
        let draft = dir.join(draft_name(text));
        let mut options = File::options();
        let made = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft);
        return match made.and_then(|mut file| file.write_all(&text.text)) {
            Ok(()) => Ok(draft),
            Err(error) => {
                remove_draft(&draft);
                Err(failed(&draft, &error))
            }
        };
    }
    Err(failed(&base, &ErrorKind::AlreadyExists.into()))
}

/// Returns a name that tells an editor the kind of the text, and nothing that the occupant could mean by it.
fn draft_name(text: &EditableText) -> String {
    let name = text.path.name().map(|name| name.bytes().to_vec());
    let name = name.unwrap_or_default();
    let safe = name.iter().rev().take(MAX_NAME_BYTES).map(|byte| {
        let is_plain = byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if is_plain { char::from(*byte) } else { '_' }
    });
    let mut safe: Vec<char> = safe.collect();
    safe.reverse();
    let safe: String = safe.into_iter().collect();
    let safe = safe.trim_start_matches(['.', '-']);
    if safe.is_empty() {
        "text".to_owned()
    } else {
        safe.to_owned()
    }
}

fn remove_draft(draft: &Path) {
    // Editors leave copies beside it.
    if let Some(dir) = draft.parent() {
        let _ = fs::remove_dir_all(dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::WorldPath;

    #[test]
    fn names_of_drafts_mean_nothing_to_an_editor() {
        for (path, name) in [
            ("src/main.rs", "main.rs"),
            (".vimrc", "vimrc"),
            ("-c", "c"),
            ("a;b $(x)\n.sh", "a_b___x__.sh"),
            ("...", "text"),
        ] {
            let text = EditableText::of(WorldPath::parse(path.as_bytes()).unwrap_or_default());
            assert_eq!(draft_name(&text), name);
        }
    }
}
