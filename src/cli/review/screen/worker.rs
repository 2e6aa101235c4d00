//! The worker behind the screen, a thread of its own: it reads the review, follows the store, and makes the changes
//! that were decided, one request after the other.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::difference::{self, HunkFilter};
use super::listing::{make_listing, place_of};
use super::reviewed_store::ReviewedStore;
use super::row_tags::tags_of;
use super::worker_messages::{
    ActionOutcome, DescribedPath, ReviewAction, ReviewListing, SeenChange, ShownDifference,
    WorkerEvent, WorkerRequest,
};
use crate::client::{Client, Review};
use crate::error::{Error, Result};
use crate::name::WorldPath;
use crate::operator::point::{Operation, Point};
use crate::operator::review::ReviewScope;

/// The interval between searches for newer records.
const FOLLOW_PAUSE: Duration = Duration::from_secs(1);
/// Reading the list anew takes one part in so many of the time at most, and so does the difference.
const MAX_READ_SHARE: u32 = 15;

/// The subject of a review.
#[derive(Debug)]
pub(in crate::cli::review) struct ReviewSubject {
    pub(in crate::cli::review) client: Client,
    /// TARGET, as a shell takes it.
    pub(in crate::cli::review) target: String,
    pub(in crate::cli::review) scope: ReviewScope,
    /// True if what was accepted is listed as well.
    pub(in crate::cli::review) all: bool,
}

/// The work, as the screen knows it. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct ReviewWorker {
    requests: Sender<WorkerRequest>,
    news: Receiver<WorkerEvent>,
    /// Readable while there may be news.
    woken: OwnedFd,
}

impl ReviewWorker {
    /// Begins to read.
    ///
    /// # Errors
    /// No pipe or thread can be made.
    pub(super) fn start(subject: ReviewSubject) -> Result<ReviewWorker> {
        use rustix::pipe::{PipeFlags, pipe_with};
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (woken, waking) = pipe_with(flags).map_err(Error::os("pipe2"))?;
        let (requests, ordered) = channel();
        let (tell, news) = channel();
        let events = EventSender { tell, waking };
        let thread = std::thread::Builder::new().name("review".to_owned());
        thread
            .spawn(move || WorkerThread::new(&subject, &events).serve_requests(&ordered))
            .map_err(|error| Error::io("clone", &error))?;
        Ok(ReviewWorker {
            requests,
            news,
            woken,
        })
    }

    /// Gives an order.
    pub(super) fn send(&self, request: WorkerRequest) {
        // Where the thread has ended, the next look at the news says so.
        let _ = self.requests.send(request);
    }

    /// Waits until the change that is under way is done.
    pub(super) fn finish(&self) {
        while let Ok(news) = self.news.recv() {
            if matches!(news, WorkerEvent::Done(..)) {
                return;
            }
        }
    }

    /// Returns what is readable when there are news.
    pub(super) fn wake_fd(&self) -> &OwnedFd {
        &self.woken
    }

    /// Returns all news.
    ///
    /// # Errors
    /// The thread has ended.
    pub(super) fn take_events(&self) -> Result<Vec<WorkerEvent>> {
        use std::sync::mpsc::TryRecvError;
        while matches!(rustix::io::read(&self.woken, &mut [0; 64]), Ok(1..)) {}
        let mut all = Vec::new();
        loop {
            match self.news.try_recv() {
                Ok(news) => all.push(news),
                Err(TryRecvError::Empty) => return Ok(all),
                Err(TryRecvError::Disconnected) => {
                    return Err(Error::refused(
                        "reading the review has ended",
                        "This is a defect of trumanfs; the store is unharmed.",
                    ));
                }
            }
        }
    }
}

/// The sender of the worker's events.
struct EventSender {
    tell: Sender<WorkerEvent>,
    waking: OwnedFd,
}

impl EventSender {
    fn send(&self, news: WorkerEvent) {
        let _ = self.tell.send(news);
        // Where the pipe is full, the screen is awake.
        let _ = rustix::io::write(&self.waking, b"!");
    }
}

impl Drop for EventSender {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.waking, b"!");
    }
}

struct WorkerThread<'s> {
    subject: &'s ReviewSubject,
    events: &'s EventSender,
    review: Option<Review<'s>>,
    /// The number of the list that was told last.
    number: u64,
    /// The newest record when the list was read.
    newest: Option<Operation>,
    /// The point that is shown, and as it was typed; absent for the present.
    at: Option<(String, Point)>,
    /// The earliest time at which the list may be read anew.
    not_before: Instant,
    /// The difference that was told last, and the earliest time at which it may be read anew.
    shown: Option<(ShownDifference, Instant)>,
}

impl<'s> WorkerThread<'s> {
    fn new(subject: &'s ReviewSubject, events: &'s EventSender) -> WorkerThread<'s> {
        WorkerThread {
            subject,
            events,
            review: None,
            number: 0,
            newest: None,
            at: None,
            not_before: Instant::now(),
            shown: None,
        }
    }

    fn serve_requests(&mut self, requests: &Receiver<WorkerRequest>) {
        self.list();
        let mut tick = Instant::now() + FOLLOW_PAUSE;
        let mut queue = VecDeque::new();
        loop {
            let left = tick.saturating_duration_since(Instant::now());
            let request = match queue.pop_front() {
                Some(request) => Ok(request),
                None => requests.recv_timeout(left),
            };
            match request {
                Ok(request) => {
                    queue.extend(requests.try_iter());
                    // Of differences that were asked for one after the other, the last one is wanted.
                    let is_show =
                        |request: &WorkerRequest| matches!(request, WorkerRequest::Show(_));
                    if !(is_show(&request) && queue.iter().any(is_show)) {
                        self.handle_request(request);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.follow();
                    tick = Instant::now() + FOLLOW_PAUSE;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn handle_request(&mut self, request: WorkerRequest) {
        match request {
            WorkerRequest::Read(at) => self.go_to(at.as_deref()),
            WorkerRequest::Show(path) => self.show(&path, true),
            WorkerRequest::Describe(number, places) => self.describe(number, &places),
            WorkerRequest::Split(path, digest) => self.split(&path, digest),
            WorkerRequest::ReadToEdit(path) => {
                let text = self.review.as_ref().ok_or(Error::NotFound);
                let text = text.and_then(|review| review.text_to_edit(&path));
                self.events.send(match text {
                    Ok(text) => WorkerEvent::Editable(Box::new(text)),
                    Err(error) => WorkerEvent::Failed(error.full_message()),
                });
            }
            WorkerRequest::Do(action, number) => {
                let outcome = self.act_if_current(&action, number);
                // What is decided next is decided on the list as it is then.
                let listing = self.read_or_report();
                self.events.send(WorkerEvent::Done(outcome, listing));
            }
        }
    }

    /// Splits a hunk, and tells the difference with its parts.
    fn split(&mut self, path: &WorldPath, digest: String) {
        let Some(review) = &mut self.review else {
            return;
        };
        let lines = review.lines_of(path).ok();
        let hunks = lines.as_ref().map_or(&[][..], |lines| lines.hunks());
        let hunk = hunks.iter().find(|hunk| hunk.digest == digest);
        if hunk.is_some_and(|hunk| hunk.hunk.parts().len() < 2) {
            return self.events.send(WorkerEvent::Whole);
        }
        review.split_hunk(path, digest);
        self.show(path, true);
    }

    /// Reads the tags of rows, and tells them. Of another list, nothing is told: it is asked anew.
    fn describe(&self, number: u64, places: &[usize]) {
        let Some(review) = self.review.as_ref().filter(|_| number == self.number) else {
            return;
        };
        let describe = |place: &usize| {
            let (status, path) = review.path(*place)?;
            let time = review.last(*place).map_or(0, |(_, time)| time);
            Some(DescribedPath {
                of: SeenChange { path, status, time },
                // What cannot be read has a difference that says so.
                tags: tags_of(review, *place).unwrap_or_default(),
            })
        };
        let described = places.iter().filter_map(describe);
        self.events
            .send(WorkerEvent::Described(described.collect()));
    }

    fn act_if_current(&self, action: &ReviewAction, number: u64) -> ActionOutcome {
        // What was done here is named by its record, and an edit by what was read: it does not matter what is listed.
        let is_named = matches!(action, ReviewAction::Undo(_) | ReviewAction::Edit(_));
        if number != self.number && !is_named {
            return ActionOutcome {
                message: "the list has changed meanwhile; nothing was done: look again".to_owned(),
                ..ActionOutcome::default()
            };
        }
        self.act(action).unwrap_or_else(|error| ActionOutcome {
            message: "it was not done".to_owned(),
            more: vec![error.full_message()],
            ..ActionOutcome::default()
        })
    }

    fn act(&self, action: &ReviewAction) -> Result<ActionOutcome> {
        let review = self.review.as_ref().ok_or(Error::NotFound)?;
        let place = ReviewedStore {
            client: &self.subject.client,
            target: &self.subject.target,
            review,
        };
        match action {
            ReviewAction::Accept(what) => place.accept(what),
            ReviewAction::Reject(what) => place.reject(what),
            ReviewAction::Restore(path) => place.restore(path, self.until()),
            ReviewAction::Edit(draft) => Ok(place.edit(draft)),
            ReviewAction::Undo(what) => place.undo(what),
        }
    }

    fn go_to(&mut self, at: Option<&str>) {
        let point = at.map(|text| self.subject.client.point(text)).transpose();
        match point {
            Ok(point) => {
                let typed = at.unwrap_or_default().to_owned();
                self.at = point
                    .filter(|point| *point != Point::Now)
                    .map(|point| (typed, point));
                self.list();
            }
            Err(error) => self.events.send(WorkerEvent::Failed(error.full_message())),
        }
    }

    /// Reads the list, and tells it.
    fn list(&mut self) {
        if let Some(listing) = self.read_or_report() {
            self.events.send(WorkerEvent::Listed(listing));
        }
    }

    /// Reads the list. Where that fails, it is said why.
    fn read_or_report(&mut self) -> Option<ReviewListing> {
        let read = self.read();
        read.map_err(|error| self.events.send(WorkerEvent::Failed(error.full_message())))
            .ok()
    }

    fn read(&mut self) -> Result<ReviewListing> {
        let began = Instant::now();
        let subject = self.subject;
        // Before the list: what comes in between is read the next time.
        self.newest = subject.client.newest()?;
        let until = self.until();
        let review = subject
            .client
            .review_until(subject.scope.clone(), until, subject.all)?;
        let mut review = review;
        if let Some(before) = &self.review {
            review.split_as(before);
        }
        self.number += 1;
        let at = self
            .at
            .as_ref()
            .map(|(typed, point)| match point.to_string() {
                named if named == *typed => named,
                named => format!("{typed} ({named})"),
            });
        let listing = make_listing(&review, self.number, at);
        self.review = Some(review);
        self.not_before = next_reading(began);
        Ok(listing)
    }

    fn until(&self) -> &Point {
        self.at.as_ref().map_or(&Point::Now, |(_, point)| point)
    }

    /// Follows the store: the list, and the difference that is shown.
    fn follow(&mut self) {
        if self.at.is_some() || self.review.is_none() {
            return;
        }
        let is_new = match self.subject.client.newest() {
            Ok(newest) => newest != self.newest,
            // It is read again in a second; what is shown stays.
            Err(error) => return log::debug!("{error}"),
        };
        if is_new && Instant::now() >= self.not_before {
            return self.list();
        }
        // A file that is open for writing changes without further records.
        if let Some((shown, not_before)) = &self.shown
            && Instant::now() >= *not_before
        {
            self.show(&shown.path.clone(), false);
        }
    }

    /// Reads the difference of a path, and tells it if it is new or was asked for.
    fn show(&mut self, path: &WorldPath, is_asked: bool) {
        let began = Instant::now();
        match self.difference(path) {
            Ok(Some(shown)) => {
                if is_asked || self.shown.as_ref().is_none_or(|(last, _)| *last != shown) {
                    self.events
                        .send(WorkerEvent::Shown(Box::new(shown.clone())));
                }
                self.shown = Some((shown, next_reading(began)));
            }
            // It has just left the list.
            Ok(None) => {}
            Err(error) => self
                .events
                .send(WorkerEvent::Shown(Box::new(unreadable_difference(
                    path, &error,
                )))),
        }
    }

    fn difference(&self, path: &WorldPath) -> Result<Option<ShownDifference>> {
        let Some(review) = &self.review else {
            return Ok(None);
        };
        let Some(number) = place_of(review, path) else {
            return Ok(None);
        };
        let hunks = match (&self.at, self.subject.all) {
            (Some(_), _) => HunkFilter::OfPast,
            (None, true) => HunkFilter::All,
            (None, false) => HunkFilter::Open,
        };
        difference::read(review, number, hunks)
    }
}

/// Returns the earliest time to read again what has just been read.
fn next_reading(began: Instant) -> Instant {
    Instant::now() + began.elapsed() * (MAX_READ_SHARE - 1)
}

/// Says why a difference cannot be shown.
fn unreadable_difference(path: &WorldPath, error: &Error) -> ShownDifference {
    ShownDifference {
        path: path.clone(),
        head: error
            .full_message()
            .lines()
            .map(|line| difference::expand_tabs_safely(line.as_bytes()))
            .collect(),
        lines: Vec::new(),
        hunks: Vec::new(),
    }
}
