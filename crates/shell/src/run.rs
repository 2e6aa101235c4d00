//! Runs parsed lines: lists, pipelines with concurrent stages, groups, redirects, commands.

use std::io;

use super::admit::{self, UnknownName};
use super::call::{ShellState, invoke, report_shell_error};
use super::expand::{self, ExpandedWord, ExpansionError};
use super::programs;
use super::redirect::{self, OpenedTarget};
use super::stream::{Input, Output, pipe};
use super::substitute::{CollectedOutput, copy_rest, file_read_only};
use super::syntax::{
    AndOr, AndOrOperator, CommandList, Pipeline, Redirect, RedirectTarget, Stage, StageBody,
};

/// The status of a line whose home is gone, the same as for a program that ran alone.
pub(super) const HOME_LOST_STATUS: u8 = 125;

/// A command's streams.
pub(super) struct CommandStreams<'s> {
    pub(super) stdin: &'s mut Input,
    pub(super) out: Output,
    pub(super) err: Output,
}

/// Runs pipelines one after the other. Returns the last one's status.
///
/// # Errors
/// `TimedOut` only: the line has to end.
pub(super) fn run_list(
    list: &CommandList,
    streams: &mut CommandStreams<'_>,
    state: &mut ShellState,
) -> io::Result<u8> {
    for AndOr { first, rest } in list {
        run_pipeline(first, streams, state)?;
        for (join, next) in rest {
            if (state.status == 0) == (*join == AndOrOperator::And) {
                run_pipeline(next, streams, state)?;
            }
        }
    }
    Ok(state.status)
}

fn run_pipeline(
    line: &Pipeline,
    streams: &mut CommandStreams<'_>,
    state: &mut ShellState,
) -> io::Result<()> {
    state.deadline.check()?;
    let status = match line.stages.split_last() {
        Some((only, [])) => run_stage(only, streams, state)?,
        Some((last, before)) => run_stages(before, last, streams, state)?,
        None => 0,
    };
    if state.is_lost() {
        return Err(state.deadline.refuse(HOME_LOST_STATUS));
    }
    state.status = if line.negated {
        u8::from(status == 0)
    } else {
        status
    };
    Ok(())
}

/// Runs the stages concurrently, each with a copy of the shell's state. The last one runs on this thread; its status
/// is the pipeline's.
fn run_stages(
    before: &[Stage],
    last: &Stage,
    streams: &mut CommandStreams<'_>,
    state: &ShellState,
) -> io::Result<u8> {
    let mut working = Vec::new();
    // The first stage borrows the pipeline's standard input and returns it.
    let mut next = std::mem::replace(streams.stdin, Input::empty());
    let mut failed = Ok(());
    for (number, each) in before.iter().enumerate() {
        let (out, reader) = pipe(&state.deadline);
        let mut stdin = std::mem::replace(&mut next, reader);
        let (each, err, mut state) = (each.clone(), streams.err.clone(), state.clone());
        let started = state.threads.clone().start(move || {
            let own = &mut stdin;
            let mut streams = CommandStreams {
                stdin: own,
                out,
                err,
            };
            let mut status = Ok(0);
            let home = state.home.clone();
            home.run_part(&mut || status = run_stage(&each, &mut streams, &mut state));
            (status, (number == 0).then_some(stdin))
        });
        match started {
            Ok(started) => working.push(started),
            Err(error) => {
                failed = Err(error);
                break;
            }
        }
    }
    let status = failed.and_then(|()| {
        let mut streams = CommandStreams {
            stdin: &mut next,
            out: streams.out.clone(),
            err: streams.err.clone(),
        };
        run_stage(last, &mut streams, &mut state.clone())
    });
    // Drop the last pipe's reader, so that stages still writing to it end.
    drop(next);
    let mut ended = Ok(());
    for each in working {
        let (status, stdin) = each
            .join()
            .unwrap_or_else(|| (Err(io::ErrorKind::TimedOut.into()), None));
        if let Some(stdin) = stdin {
            *streams.stdin = stdin;
        }
        ended = ended.and(status.map(drop));
    }
    ended.and(status)
}

fn run_stage(
    stage: &Stage,
    streams: &mut CommandStreams<'_>,
    state: &mut ShellState,
) -> io::Result<u8> {
    let (assignments, words) = match &stage.body {
        StageBody::Simple { assignments, words } => (assignments, words),
        StageBody::Subshell(inner) => {
            return with_redirects(&stage.redirects, streams, state, |streams, state| {
                run_list(inner, streams, &mut state.clone())
            });
        }
        StageBody::Group(inner) => {
            return with_redirects(&stage.redirects, streams, state, |streams, state| {
                run_list(inner, streams, state)
            });
        }
    };
    // The status of a command substitution counts where there is no command.
    let mut substituted = 0;
    let err = streams.err.clone();
    let mut substitute = |state: &mut ShellState, list: &CommandList| {
        let output = run_substitution(list, &err, state)?;
        substituted = state.status;
        Ok(output)
    };
    let fields = match expand::expand_words(words, state, &mut substitute) {
        Ok(fields) => fields,
        Err(ExpansionError::Stopped(error)) => return Err(error),
        Err(ExpansionError::Message(message)) => {
            report_shell_error(&mut streams.err, &[&message]);
            return Ok(1);
        }
    };
    // Before the redirects: a command that cannot run here must not truncate a file.
    if let Some(first) = fields.first()
        && state.registry.find(&first.text).is_none()
        && !state.is_program(&first.text)
        && let UnknownName::Missing(rejection) = admit::look_up_unknown(&first.text, state)
    {
        return Err(rejection.end_line(&mut streams.err, state));
    }
    let mut before = Vec::new();
    for (name, value) in assignments {
        let value = expand::expand_text(value, state, &mut substitute)?;
        before.push((name, state.variables.insert(name.clone(), value)));
    }
    with_redirects(&stage.redirects, streams, state, |streams, state| {
        if fields.is_empty() {
            return Ok(substituted);
        }
        let status = run_command(fields, &before, streams, state);
        // An assignment before a command lasts for that command only.
        for (name, value) in before.into_iter().rev() {
            match value {
                Some(value) => state.variables.insert(name.clone(), value),
                None => state.variables.remove(name),
            };
        }
        status
    })
}

/// Runs a command; `before` are the variables that the line sets for it.
fn run_command(
    fields: Vec<ExpandedWord>,
    before: &[(&Vec<u8>, Option<Vec<u8>>)],
    streams: &mut CommandStreams<'_>,
    state: &mut ShellState,
) -> io::Result<u8> {
    let mut words: Vec<Vec<u8>> = Vec::with_capacity(fields.len());
    state.tildes.clear();
    for field in fields {
        if let Some(typed) = field.tilde {
            state.tildes.push((field.text.clone(), typed));
        }
        words.push(field.text);
    }
    let Some((name, args)) = words.split_first() else {
        return Ok(0);
    };
    match state.registry.find(name) {
        Some(command) => {
            let outputs = (streams.out.clone(), streams.err.clone());
            invoke(command, args, streams.stdin, outputs, state)
        }
        None if state.is_program(name) => {
            let value = |name: &Vec<u8>| state.variables.get(name).cloned();
            let env = before
                .iter()
                .filter_map(|(name, _)| Some(((*name).clone(), value(name)?)));
            let env: Vec<_> = env.collect();
            let CommandStreams { stdin, out, err } = streams;
            programs::run((&words, &env), stdin, (out, err), state)
        }
        None => match admit::look_up_unknown(name, state) {
            UnknownName::Missing(rejection) => Err(rejection.end_line(&mut streams.err, state)),
            UnknownName::Absent(words, status) => {
                report_shell_error(&mut streams.err, &[&words]);
                Ok(status)
            }
        },
    }
}

/// Runs a list in a copy of the shell and adopts its status. Returns its output.
fn run_substitution(
    inner: &CommandList,
    err: &Output,
    state: &mut ShellState,
) -> io::Result<Vec<u8>> {
    let collected = CollectedOutput::counted(&state.deadline);
    let mut out = Output::writer(collected.clone());
    let mut copied = state.clone();
    state.status = match file_read_only(inner) {
        None => {
            let mut streams = CommandStreams {
                stdin: &mut Input::empty(),
                out,
                err: err.clone(),
            };
            run_list(inner, &mut streams, &mut copied)?
        }
        Some(file) => match open(file, err, &mut copied)? {
            Ok(OpenedTarget::In(mut input)) => {
                copy_rest(&mut input, &mut out, &mut err.clone(), &copied)?
            }
            Ok(OpenedTarget::Out(_)) => 0,
            Err(message) => {
                report_shell_error(&mut err.clone(), &[&message]);
                1
            }
        },
    };
    Ok(collected.take())
}

/// Opens the target of a redirect, or returns the message of the failure.
fn open(
    to: &RedirectTarget,
    err: &Output,
    state: &mut ShellState,
) -> io::Result<Result<OpenedTarget, Vec<u8>>> {
    let mut substitute =
        |state: &mut ShellState, list: &CommandList| run_substitution(list, err, state);
    redirect::open(to, err, state, &mut substitute)
}

/// Runs `act` with its streams redirected, from left to right; not at all where a redirect fails.
fn with_redirects(
    redirects: &[Redirect],
    streams: &mut CommandStreams<'_>,
    state: &mut ShellState,
    act: impl FnOnce(&mut CommandStreams<'_>, &mut ShellState) -> io::Result<u8>,
) -> io::Result<u8> {
    if redirects.is_empty() {
        return act(streams, state);
    }
    let (mut own, mut out, mut err) = (None, streams.out.clone(), streams.err.clone());
    for each in redirects {
        if let RedirectTarget::Same(stream) = each.target {
            let same = if stream == 1 { &out } else { &err }.clone();
            match each.stream {
                1 => out = same,
                2 => err = same,
                _ => {}
            }
            continue;
        }
        let end = match open(&each.target, &err, state)? {
            Ok(end) => end,
            Err(message) => {
                report_shell_error(&mut err, &[&message]);
                return Ok(1);
            }
        };
        match (end, each.stream) {
            (OpenedTarget::In(input), _) => own = Some(input),
            (OpenedTarget::Out(output), 2) => err = output,
            (OpenedTarget::Out(output), _) => out = output,
        }
    }
    let stdin = own.as_mut().unwrap_or(streams.stdin);
    act(&mut CommandStreams { stdin, out, err }, state)
}
