//! The tools for jobs: what they have written, and their end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::answer::ToolAnswer;
use super::arguments::{JobKillArgs, JobOutputArgs};
use super::jobs::ToolJob;
use super::tool_context::ToolContext;

fn job(work: &ToolContext, id: &str) -> Result<Arc<ToolJob>, ToolAnswer> {
    work.jobs.find(id).ok_or_else(|| {
        ToolAnswer::failed(format!(
            "no job is called {id:?}: it was never there, or has been forgotten"
        ))
    })
}

pub(super) fn output(work: &ToolContext, arguments: &JobOutputArgs) -> ToolAnswer {
    let job = match job(work, &arguments.job) {
        Ok(job) => job,
        Err(answer) => return answer,
    };
    let wait = Duration::try_from_secs_f64(arguments.wait).unwrap_or_default();
    let until = Instant::now() + wait.min(Duration::from_secs(45));
    // In steps, so that a cancelled call ends.
    let ended = loop {
        let left = until.saturating_duration_since(Instant::now());
        let ended = job.ended_within(left.min(Duration::from_millis(100)));
        if ended.is_some() || left.is_zero() || work.cancel.ended().is_some() {
            break ended;
        }
    };
    let [stdout, stderr] = job.news();
    let mut text = stdout.clone();
    text.push_str(&stderr);
    let seconds = job.begun.elapsed().as_secs();
    let status = match &ended {
        None => format!("[goes on, for {seconds} s so far]\n"),
        Some(answer) => {
            let status = answer.data.get("status").and_then(|status| status.as_str());
            let code = answer
                .data
                .get("return_code")
                .and_then(serde_json::Value::as_u64);
            match (status, code) {
                (Some(status), Some(code)) if answer.data.contains_key("goes_on") => format!(
                    "[the line has ended: {status}, exit code {code}; this is of its background processes]\n"
                ),
                (Some(status), Some(code)) => format!("[ended: {status}, exit code {code}]\n"),
                _ => format!("[ended]\n{}", answer.text),
            }
        }
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&status);
    let running = ended.is_none();
    ToolAnswer::new(text)
        .with("job", job.id.clone())
        .with("tool", job.tool.clone())
        .with("session_of_job", job.session.clone())
        .with("running", running)
        .with("stdout", stdout)
        .with("stderr", stderr)
        .with(
            "result",
            ended.map(|answer| serde_json::Value::Object(answer.data)),
        )
}

pub(super) fn kill(work: &ToolContext, arguments: &JobKillArgs) -> ToolAnswer {
    let job = match job(work, &arguments.job) {
        Ok(job) => job,
        Err(answer) => return answer,
    };
    job.cancel.cancel();
    let text = match job.ended_within(Duration::from_secs(5)) {
        Some(_) => "it has ended",
        None => "it was told to end, and has not yet",
    };
    ToolAnswer::new(text).with("job", job.id.clone())
}
