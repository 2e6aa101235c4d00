//! The reading verbs: what happened, what differs, what was there before. None of them needs the store's lock or the
//! daemon; where there is one, it first gathers what was removed and seals the journal that is read.

use super::target::Client;
use crate::error::Result;
use crate::name::WorldPath;
use crate::operator::diff::Diff;
use crate::operator::filter::RecordFilter;
use crate::operator::log::ForwardRecords;
use crate::operator::past::PastContent;
use crate::operator::point::Operation;
use crate::operator::run::RunSummary;
use crate::operator::run_kept::RunKept;
use crate::operator::session::Session;
use crate::operator::show::RecordDetails;
use crate::operator::store_usage::StoreUsage;
use crate::operator::versions::PathVersions;
use crate::operator::{diff, report, run, run_kept, session, show, store_usage, versions};
use crate::world::RunId;

/// A session or a run as a page of HTML.
#[derive(Debug)]
pub struct ReportPage {
    /// `session` or `run`.
    pub kind: &'static str,
    /// The id of the session or run.
    pub id: String,
    /// The page.
    pub page: String,
}

impl ReportPage {
    /// Names what the page is about.
    pub fn subject(&self) -> String {
        format!("{} {}", self.kind, self.id)
    }
}

impl Client {
    /// Opens the log at the first record that a filter can want.
    ///
    /// # Errors
    /// As [`RecordFilter::open`].
    pub fn log(&self, filter: &RecordFilter) -> Result<ForwardRecords<'_>> {
        self.seal();
        filter.open(&self.store)
    }

    /// Finds out all that is known of one operation.
    ///
    /// # Errors
    /// As [`show::show`].
    pub fn show(&self, operation: &Operation) -> Result<RecordDetails> {
        self.seal();
        show::show(&self.store, operation)
    }

    /// Lists the sessions, oldest first.
    ///
    /// # Errors
    /// As [`session::list`].
    pub fn sessions(&self) -> Result<Vec<Session>> {
        session::list(&self.store)
    }

    /// Finds out what is known of one session.
    ///
    /// # Errors
    /// As [`session::show`].
    pub fn session_by_id(&self, id: String) -> Result<Session> {
        session::show(&self.store, id)
    }

    /// Finds out what differs between two points, at a path or below it.
    ///
    /// # Errors
    /// As [`Diff::between`].
    pub fn diff(&self, range: &str, path: &WorldPath) -> Result<Diff<'_>> {
        self.seal();
        let (from, to) = self.range(range)?;
        diff::Diff::between(&self.store, &from, &to, path)
    }

    /// Finds out what a run changed, at a path or below it; `run` is as it was typed.
    ///
    /// # Errors
    /// As [`Client::run`] and [`Diff::of_run`].
    pub fn diff_of_run(&self, run: &str, path: &WorldPath) -> Result<Diff<'_>> {
        self.seal();
        diff::Diff::of_run(&self.store, &self.run(run)?, path)
    }

    /// Finds out what is kept because of a run; `run` is as it was typed.
    ///
    /// # Errors
    /// As [`Client::run`] and [`run_kept::run_kept`].
    pub fn kept_by_run(&self, run: &str) -> Result<RunKept> {
        self.seal();
        run_kept::run_kept(&self.store, self.run(run)?.id)
    }

    /// Finds out what a turn changed, at a path or below it; `run` and `turn` are as they were typed.
    ///
    /// # Errors
    /// As [`Client::turn`] and [`Diff::of_run`].
    pub fn diff_of_turn(
        &self,
        run: Option<&str>,
        turn: &str,
        path: &WorldPath,
    ) -> Result<Diff<'_>> {
        self.seal();
        let turn = self.turn(run, turn)?.to_run(&self.store)?;
        diff::Diff::of_run(&self.store, &turn, path)
    }

    /// Finds runs by their ids; those without records are left out.
    ///
    /// # Errors
    /// As [`run::find_all`].
    pub fn runs(&self, ids: &[RunId]) -> Result<Vec<RunSummary>> {
        self.seal();
        run::find_all(&self.store, ids)
    }

    /// Finds out what each of several runs changed, the newest first, as long as `act` asks for the next one.
    ///
    /// # Errors
    /// As [`Diff::of_runs`].
    pub fn diffs_of_runs<'a>(
        &'a self,
        runs: &[RunSummary],
        act: impl FnMut(&RunSummary, Diff<'a>) -> Result<bool>,
    ) -> Result<()> {
        self.seal();
        diff::Diff::of_runs(&self.store, runs, act)
    }

    /// Finds the former contents of a path, the newest first.
    ///
    /// # Errors
    /// As [`versions::versions`].
    pub fn versions(&self, path: &WorldPath) -> Result<PathVersions> {
        self.seal();
        versions::versions(&self.store, path)
    }

    /// Finds out what takes space in the store. Directories are told apart by their first `depth` components.
    ///
    /// # Errors
    /// As [`store_usage::store_usage`].
    pub fn store_usage(&self, depth: usize) -> Result<StoreUsage> {
        self.seal();
        store_usage::store_usage(&self.store, depth)
    }

    /// Opens the content that a path had at a point.
    ///
    /// # Errors
    /// As [`versions::content_at`].
    pub fn content_at(&self, path: &WorldPath, at: &str) -> Result<PastContent> {
        self.seal();
        versions::content_at(&self.store, path, &self.point(at)?)
    }

    /// Writes a session, a run of it, or a turn of that, down as a page of HTML. All are as they were typed; the newest mount
    /// where all are absent.
    ///
    /// # Errors
    /// As [`report::page`].
    pub fn report(
        &self,
        session: Option<&str>,
        (run, turn): (Option<&str>, Option<&str>),
        step: &mut dyn FnMut(&'static str),
    ) -> Result<ReportPage> {
        use std::os::unix::ffi::OsStrExt;
        self.seal();
        let turn = turn.map(|turn| self.turn(run, turn)).transpose()?;
        let run = match (&turn, run) {
            (Some(turn), _) => Some(turn.to_run(&self.store)?),
            (None, run) => run.map(|run| self.run(run)).transpose()?,
        };
        let id = match (&run, session) {
            (Some(run), _) => run.first.session.clone(),
            (None, Some(session)) => self.session(session)?,
            (None, None) => report::newest(&self.store)?,
        };
        // The commands in the page work wherever they are typed.
        let whole = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        let page = report::page(
            &self.store,
            &id,
            (run.as_ref(), turn.as_ref()),
            whole.as_os_str().as_bytes(),
            step,
        )?;
        let (kind, id) = match (run, turn) {
            (Some(run), Some(turn)) => ("turn", format!("{}-{}", run.id, turn.mark.turn)),
            (Some(run), None) => ("run", run.id.to_string()),
            (None, _) => ("session", id.to_string()),
        };
        Ok(ReportPage { kind, id, page })
    }
}
