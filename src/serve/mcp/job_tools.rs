//! The tools for jobs: what they have written, and their end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::answer::ToolAnswer;
use super::arguments::{JobKillArgs, JobOutputArgs};
use super::jobs::ToolJob;
use super::kept_outputs::MAX_STREAM;
use super::live_output::ShownOutput;
use super::resources::{OutputStream, end_of_part};
use super::tool_context::ToolContext;

fn job(work: &ToolContext, id: &str) -> Result<Arc<ToolJob>, ToolAnswer> {
    work.jobs.find(id).ok_or_else(|| {
        ToolAnswer::failed(format!(
            "no job is called {id:?}: it was never there, or has been forgotten"
        ))
    })
}

/// A part of what a job or a run has written.
struct OutputPart {
    bytes: Option<Vec<u8>>,
    /// The number of bytes that have come so far.
    total: u64,
    is_running: bool,
}

fn part(
    work: &ToolContext,
    arguments: &JobOutputArgs,
    offset: u64,
) -> Result<OutputPart, ToolAnswer> {
    let most = usize::try_from(work.bytes).unwrap_or(usize::MAX);
    if let Some(job) = work.jobs.find(&arguments.job) {
        let stream = arguments.stream.of(job.streams.each_ref());
        let is_running = job.ended_within(Duration::ZERO).is_none();
        return Ok(OutputPart {
            bytes: stream.range(offset, most),
            total: stream.total(),
            is_running,
        });
    }
    let Some(run) = work.outputs.find_run(&arguments.job) else {
        return Err(ToolAnswer::failed(format!(
            "no output is kept of {:?}: its answer had all of it, or newer outputs have taken its place; send the output \
             to a file and read that",
            arguments.job
        )));
    };
    let stream = arguments.stream.of(run.streams);
    Ok(OutputPart {
        bytes: work.outputs.read(stream.number, offset, most),
        total: stream.total,
        is_running: false,
    })
}

/// Says what stands at a place of the output of a job or a run.
fn output_at(work: &ToolContext, arguments: &JobOutputArgs, offset: u64) -> ToolAnswer {
    let part = match part(work, arguments, offset) {
        Ok(part) => part,
        Err(answer) => return answer,
    };
    let Some(mut bytes) = part.bytes else {
        return ToolAnswer::failed(format!(
            "what stands at {offset} of {:?} is not kept any more: newer outputs have taken its place",
            arguments.job
        ));
    };
    bytes.truncate(end_of_part(&bytes));
    let next = offset.saturating_add(bytes.len() as u64);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut answer = ToolAnswer::new(text.clone());
    answer.add_line(&match (bytes.is_empty(), part.total) {
        (false, total) if next < total => {
            format!("[bytes {offset} to {next} of {total}: go on with \"offset\": {next}]")
        }
        (true, total) if offset < total => format!(
            "[of {total} bytes only the first {} MiB are kept]",
            MAX_STREAM >> 20
        ),
        (_, total) if part.is_running => {
            format!("[bytes {offset} to {next} of {total} so far: the job goes on]")
        }
        (_, total) => format!("[bytes {offset} to {next} of {total}: the end]"),
    });
    answer
        .with("job", arguments.job.clone())
        .with("running", part.is_running)
        .with("stdout", "")
        .with("stderr", "")
        .with(arguments.stream.name(), text)
        .with("next_offset", next)
        .with("total", part.total)
}

/// Says where the rest is of what a job has written, if an answer has not all of that.
pub(super) fn rest_in_words(job: &str, news: &[ShownOutput; 2]) -> Vec<String> {
    let of = |(stream, new): (OutputStream, &ShownOutput)| {
        let offset = new.cut_at?;
        let stream = stream.name();
        Some(format!(
            "[{stream} was cut: read on with bash_output {{\"job\": \"{job}\", \"offset\": {offset}, \"stream\": \"{stream}\"}}]"
        ))
    };
    let both = OutputStream::ALL.into_iter().zip(news);
    both.filter_map(of).collect()
}

pub(super) fn output(work: &ToolContext, arguments: &JobOutputArgs) -> ToolAnswer {
    let is_run = || work.jobs.find(&arguments.job).is_none();
    let offset = arguments.offset.or_else(|| {
        let kept = is_run().then(|| work.outputs.find_run(&arguments.job));
        kept.flatten().map(|_| 0)
    });
    if let Some(offset) = offset {
        return output_at(work, arguments, offset);
    }
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
    let news = job.news();
    let rest = rest_in_words(&job.id, &news);
    let [stdout, stderr] = news.map(|new| new.text());
    let mut answer = ToolAnswer::new(format!("{stdout}{stderr}"));
    for note in &rest {
        answer.add_note(note);
    }
    let seconds = job.begun.elapsed().as_secs();
    answer.add_line(&match &ended {
        None => format!("[goes on, for {seconds} s so far]"),
        Some(answer) => {
            let status = answer.data.get("status").and_then(|status| status.as_str());
            let code = answer
                .data
                .get("return_code")
                .and_then(serde_json::Value::as_u64);
            match (status, code) {
                (Some(status), Some(code)) if answer.data.contains_key("goes_on") => format!(
                    "[the line has ended: {status}, exit code {code}; this is of its background processes]"
                ),
                (Some(status), Some(code)) => format!("[ended: {status}, exit code {code}]"),
                _ => format!("[ended]\n{}", answer.text.trim_end()),
            }
        }
    });
    let running = ended.is_none();
    answer
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
