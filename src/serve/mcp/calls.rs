//! A call of a tool, from its arguments to its answer, within the time that a client waits: what takes longer becomes a job.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{JsonObject, ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use tokio::time::{Instant, sleep_until};

use super::admission::AdmissionTicket;
use super::answer::{ToolAnswer, cut};
use super::job_tools::rest_in_words;
use super::jobs::{ToolJob, ToolJobs};
use super::tool_context::ToolContext;

/// The longest time that a client waits for an answer: many give up after 60 s.
const ANSWER_LIMIT: Duration = Duration::from_secs(50);
/// The interval at which a client that asked for progress hears that a call goes on.
const PROGRESS: Duration = Duration::from_secs(1);

/// The function that does the work of a call, on a thread of its own.
pub(super) type ToolFunction = Box<dyn FnOnce(&ToolContext, JsonObject) -> ToolAnswer + Send>;

/// Does a call and waits for its end, so long as a client does. Returns nothing where the client has taken it back. The thread
/// keeps the ticket until it has ended, also after the answer.
pub(super) async fn call(
    (tool, act, becomes_job): (&str, ToolFunction, bool),
    (work, ticket): (ToolContext, Arc<AdmissionTicket>),
    arguments: JsonObject,
    context: &RequestContext<RoleServer>,
) -> Option<ToolAnswer> {
    let (session, jobs, cancel) = (
        work.session.id.clone(),
        work.jobs.clone(),
        work.cancel.clone(),
    );
    let most = usize::try_from(work.bytes).unwrap_or(usize::MAX);
    let job = ToolJob::new(tool, &session, cancel.clone(), work.streams.clone());
    let (end, ended) = tokio::sync::oneshot::channel();
    let (of_thread, all) = (job.clone(), jobs.clone());
    jobs.begin(&job);
    tokio::task::spawn_blocking(move || {
        let caught =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(&work, arguments)));
        let answer = caught.unwrap_or_else(|_| {
            ToolAnswer::failed("the call broke off: this is a bug of trumanfs")
        });
        let answer = ToolAnswer {
            text: cut(answer.text, most + most / 2),
            ..answer
        };
        let answer = keep_background_output(answer.with("session", session), &of_thread, &all);
        all.end(&of_thread, answer.clone());
        drop(work);
        drop(ticket);
        // Nobody may wait any more.
        let _ = end.send(answer);
    });
    let mut ended = ended;
    let end = Instant::now() + ANSWER_LIMIT;
    let token = context.meta.get_progress_token();
    loop {
        let next = match token {
            Some(_) => end.min(Instant::now() + PROGRESS),
            None => end,
        };
        tokio::select! {
            answer = &mut ended => {
                return Some(answer.unwrap_or_else(|_| ToolAnswer::failed("the call broke off")));
            }
            () = context.ct.cancelled() => {
                cancel.cancel();
                return None;
            }
            () = sleep_until(next) => {}
        }
        if Instant::now() >= end {
            return Some(too_long(&job, &jobs, becomes_job));
        }
        // To its end, also if the call ends meanwhile: nothing may be told of it after its answer.
        tokio::select! {
            () = tell_progress(&job, token.as_ref(), context) => {}
            () = context.ct.cancelled() => {
                cancel.cancel();
                return None;
            }
        }
    }
}

/// Keeps the call of a line that has left something running, so that what that writes can be asked for.
fn keep_background_output(answer: ToolAnswer, job: &Arc<ToolJob>, jobs: &ToolJobs) -> ToolAnswer {
    let goes_on = answer.data.get("goes_on") == Some(&true.into());
    if !goes_on || jobs.keep(job).is_err() {
        return answer;
    }
    job.news();
    let mut answer = answer.with("job", job.id.clone());
    answer.add_note(&format!(
        "[background processes go on: bash_output with job {} says what they write]",
        job.id
    ));
    answer
}

/// Tells a client how far a call is, if it wants to know.
async fn tell_progress(
    job: &Arc<ToolJob>,
    token: Option<&ProgressToken>,
    context: &RequestContext<RoleServer>,
) {
    let Some(token) = token else {
        return;
    };
    let seconds = job.begun.elapsed().as_secs_f64();
    let streams = job.streams.iter();
    let bytes: u64 = streams.map(super::live_output::LiveOutput::total).sum();
    let said = ProgressNotificationParam::new(token.clone(), seconds)
        .with_message(format!("{seconds:.0} s, {bytes} bytes of output"));
    // Who does not listen is not told.
    let _ = context.peer.notify_progress(said).await;
}

/// Makes a job of a call that has not ended yet.
fn too_long(job: &Arc<ToolJob>, jobs: &Arc<ToolJobs>, becomes_job: bool) -> ToolAnswer {
    if !becomes_job {
        job.cancel.cancel();
        return ToolAnswer::failed(format!(
            "it took longer than {} s and was ended",
            ANSWER_LIMIT.as_secs()
        ));
    }
    if let Err(why) = jobs.keep(job) {
        job.cancel.cancel();
        return ToolAnswer::failed(why);
    }
    let news = job.news();
    let rest = rest_in_words(&job.id, &news);
    let [stdout, stderr] = news.map(|new| new.text());
    let mut answer = ToolAnswer::new(format!("{stdout}{stderr}"));
    for note in &rest {
        answer.add_note(note);
    }
    answer.add_note(&format!(
        "[goes on after {} s as job {}: bash_output says what comes, bash_kill ends it]",
        ANSWER_LIMIT.as_secs(),
        job.id
    ));
    answer
        .with("job", job.id.clone())
        .with("running", true)
        .with("stdout", stdout)
        .with("stderr", stderr)
        .with("session", job.session.clone())
}
