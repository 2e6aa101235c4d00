//! Taking the oldest journals away, for an operator.
//!
//! The cut is recorded and on the disk before the first journal goes. A session that still has a former content stays. A
//! process that dies in between leaves sessions that the next cut takes.

use std::io::Write;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, OFlags, unlinkat};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::journal::{CutSession, HistoryCut, Op, tail_of_damaged};
use crate::world::keep::version_files::{list, versions_of};
use crate::world::store::layout::{self, EXPIRED, JOURNAL, LOG, POWER_CUT, VERSIONS, new_name};
use crate::world::store::sessions::{open_journal, sessions};
use crate::world::store::state::StateDir;
use crate::world::store::state_files;
use crate::world::{Caller, World};

/// The result of a cut.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ExpireResult {
    /// The sessions that are gone.
    pub sessions: Vec<String>,
    /// The sessions that stay, and the reasons.
    pub left: Vec<(String, String)>,
}

impl World {
    /// Records that the history before a record has expired, and takes away the journals of the sessions before it. Those
    /// of the present session and of the one that it follows stay.
    ///
    /// # Errors
    /// Any error from recording it, from syncing the record, or from reading the journals; nothing has gone then.
    pub fn expire(&self, before: (String, u64), caller: Caller) -> Result<ExpireResult> {
        let (mut ends, mut husks) = (Vec::new(), Vec::new());
        let previous = self.state.previous_session().map(str::to_owned);
        for session in sessions(&self.state)? {
            let stays = session >= before.0
                || session >= self.session
                || Some(&session) == previous.as_ref();
            if stays {
                break;
            }
            match open_journal(&self.state, &session) {
                // Its daemon was killed before it began, or a cut before it had gone.
                Err(Error::NotFound) => husks.push(session),
                file => {
                    let tail = tail_of_damaged(&file?)?;
                    ends.extend(tail.map(|tail| CutSession {
                        id: session,
                        records: tail.record.seq,
                        last: String::from_utf8_lossy(&tail.hash).into_owned(),
                    }));
                }
            }
        }
        let cut = HistoryCut {
            before,
            sessions: ends,
        };
        let op = Op::Purge {
            entries: Vec::new(),
            volatile: Vec::new(),
            expired: Some(Box::new(cut.clone())),
        };
        self.journal.note(op, Some(&self.author(caller)))?;
        self.seal();
        note_cut(&self.state, &cut)?;
        self.state.sync_file_system()?;
        // Copies of what a session left are named by no record, and by its seals alone.
        let mut rest = Vec::new();
        for session in &cut.sessions {
            if let Some(dir) = versions_of(&self.state, &session.id)? {
                let left = list(&dir)?.into_iter();
                rest.extend(left.map(|(n, _)| (session.id.clone(), n)));
            }
        }
        if !rest.is_empty() {
            self.evict(&rest, caller, &mut |_| {})?;
        }
        for session in husks {
            let _ = take_away(&self.state, &session);
        }
        let mut result = ExpireResult::default();
        for session in cut.sessions {
            match take_away(&self.state, &session.id) {
                Ok(()) => result.sessions.push(session.id),
                Err(error) => result.left.push((session.id, error.to_string())),
            }
        }
        Ok(result)
    }
}

/// Notes the place of a cut for those who look for something before it.
fn note_cut(state: &StateDir, cut: &HistoryCut) -> Result<()> {
    let new = new_name(EXPIRED);
    let _ = unlinkat(state.as_fd(), &*new, AtFlags::empty());
    let mut file = state_files::make(state.as_fd(), new.as_bytes(), OFlags::WRONLY, 0o600)?;
    let (session, seq) = &cut.before;
    file.write_all(format!("{session}:{seq}\n").as_bytes())
        .map_err(|error| Error::io("write", &error))?;
    rustix::fs::renameat(state.as_fd(), &*new, state.as_fd(), EXPIRED)
        .map_err(Error::os("renameat"))
}

/// Deletes the directory of a session that keeps nothing.
fn take_away(state: &StateDir, session: &str) -> Result<()> {
    let remove = |path: String, flags: AtFlags| match unlinkat(state.as_fd(), path, flags) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(Error::os("unlinkat")(errno)),
    };
    remove(layout::of_session(session, VERSIONS), AtFlags::REMOVEDIR)?;
    for name in [LOG, POWER_CUT, JOURNAL] {
        remove(layout::of_session(session, name), AtFlags::empty())?;
    }
    remove(layout::session(session), AtFlags::REMOVEDIR)
}
