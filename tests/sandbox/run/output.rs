//! The output of a program: caps, ends, tokens, and what is suppressed.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use super::{LIMIT, Place, err, good, parsed};
use crate::common::{binary, describe, need_mount, run_limited};

#[test]
fn a_mebibyte_of_each_stream_leaves() {
    need_mount!();
    let place = Place::mounted();
    let script =
        "head -c 3000000 /dev/zero | tr '\\0' x; head -c 1048576 /dev/zero | tr '\\0' y >&2";
    let outcome = place.json(&[], &["sh", "-c", script]);
    let stdout = outcome["stdout"].as_str().unwrap();
    assert_eq!(stdout.matches('x').count(), 1 << 20);
    assert!(
        stdout.ends_with("... (1951424 more bytes, 3000000 total)\n"),
        "{}",
        &stdout[1 << 20..]
    );
    assert_eq!(outcome["stderr"].as_str().unwrap().len(), 1 << 20);
    assert_eq!(outcome["truncated_stdout"], true);
    assert_eq!(outcome["truncated_stderr"], false);
    assert_eq!(outcome["status"], "success");
}

/// The largest resident memory of a process, in KiB, as the kernel counts it.
fn peak(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// A program that prints without end, in lines or without any, is read as fast as it prints, and the launcher's memory does not grow.
#[test]
fn an_endless_print_takes_no_memory() {
    need_mount!();
    let place = Place::mounted();
    for (options, script) in [
        (&[][..], "head -c 10G /dev/zero"),
        (&["--tail"], "head -c 10G /dev/zero"),
        (&["--tail"], "yes"),
        (
            &["--json", "--tail"],
            "yes \"$(head -c 100000 /dev/zero | tr '\\0' x)\"",
        ),
    ] {
        let options = [options, &["--timeout", "2"]].concat();
        let mut command = place.command(&options, &["sh", "-c", script]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut out, mut most) = (child.stdout.take().unwrap(), 0);
        let mut bytes = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| out.read_to_end(&mut bytes).unwrap());
            while child.try_wait().unwrap().is_none() {
                most = most.max(peak(child.id()));
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        });
        let code = child.wait().unwrap().code();
        assert!(code == Some(124) || code == Some(0), "{script}: {code:?}");
        assert!(bytes.len() < 8 << 20, "{script}: {} bytes", bytes.len());
        assert!(most > 0 && most < 64 << 10, "{script}: {most} KiB");
    }
}

#[test]
fn the_caller_can_only_lower_the_cap() {
    need_mount!();
    let place = Place::mounted();
    let script = "for n in 1 2 3 4 5 6 7 8 9; do echo line $n; done";
    let run = |options: &[&str]| good(&place.run(options, &["sh", "-c", script]));
    assert_eq!(
        run(&["--max-bytes", "10"]),
        "line 1\nlin\n... (53 more bytes, 63 total)\n"
    );
    assert_eq!(
        run(&["--max-bytes", "28", "--tail"]),
        "line 1\nline 2\n\n... (35 more bytes, 63 total)\nline 8\nline 9\n"
    );
    assert_eq!(
        run(&["--max-lines", "2"]),
        "line 1\nline 2\n... (7 more lines, 9 total)\n"
    );
    assert_eq!(
        run(&["--max-lines", "2", "--tail"]),
        "line 1\n... (7 more lines, 9 total)\nline 9\n"
    );
    fs::write(
        place.policy(),
        "sh: {flags: {-c: text}, arguments: text, max_output_bytes: 8}\n",
    )
    .unwrap();
    // 0 is no way to have no limit.
    let eight = fs::read(place.policy()).unwrap();
    let none = "sh: {flags: {-c: text}, arguments: text, max_output_bytes: 0}\n";
    fs::write(place.policy(), none).unwrap();
    let said = run(&[]);
    assert!(said.starts_with("l\n... (62 more bytes"), "{said}");
    fs::write(place.policy(), eight).unwrap();
    assert_eq!(
        run(&["--max-bytes", "40"]),
        "line 1\nl\n... (55 more bytes, 63 total)\n"
    );
}

#[test]
fn tokens_keep_head_and_tail() {
    need_mount!();
    let place = Place::mounted();
    let script = "seq -f 'line %06.0f' 1000; seq -f 'error %06.0f' 100 >&2";
    let output = place.run(&["--max-tokens", "1200"], &["sh", "-c", script]);
    let said = good(&output);
    assert!(
        said.starts_with("line 000001\n") && said.ends_with("line 001000\n"),
        "{said}"
    );
    assert!(said.contains(" lines left out]\n"), "{said}");
    assert!(said.len() + output.stderr.len() <= 4800);
    assert_eq!(err(&output).lines().count(), 51);
    let outcome = place.json(&["--max-tokens", "1200"], &["sh", "-c", script]);
    assert_eq!(outcome["truncated_stdout"], true);
    assert_eq!(outcome["stdout"], said);
    let whole = place.json(&["--max-tokens", "12000"], &["sh", "-c", script]);
    assert_eq!(whole["truncated_stdout"], false);
    assert_eq!(whole["stdout"].as_str().unwrap().lines().count(), 1000);
}

#[test]
fn colours_go_where_that_is_asked_for() {
    need_mount!();
    let place = Place::mounted();
    let script = "printf '\\033[31mred\\033[0m\\n'; printf '\\033]0;title\\007err\\n' >&2";
    let output = place.run(&["--strip-ansi"], &["sh", "-c", script]);
    assert_eq!(
        (good(&output).as_str(), err(&output).as_str()),
        ("red\n", "err\n")
    );
    assert_eq!(place.sh(script), "\x1b[31mred\x1b[0m\n");
}

#[test]
fn a_success_may_be_silent_and_a_failure_never() {
    need_mount!();
    let place = Place::mounted();
    fs::write(
        place.policy(),
        "sh: {flags: {-c: text}, arguments: text, suppress_success_output: true}\n",
    )
    .unwrap();
    let output = place.run(&[], &["sh", "-c", "echo out; echo err >&2"]);
    assert!(
        output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(),
        "{}",
        describe(&output)
    );
    let output = place.run(&[], &["sh", "-c", "echo out; echo err >&2; exit 1"]);
    assert_eq!(
        (output.stdout, output.stderr),
        (b"out\n".to_vec(), b"err\n".to_vec())
    );
    let outcome = place.json(&[], &["sh", "-c", "echo out"]);
    assert_eq!(outcome["suppress_success_output"], true);
    assert_eq!(outcome["stdout"], "");
}

#[test]
fn output_arrives_as_it_is_written() {
    need_mount!();
    let place = Place::mounted();
    let mut command = place.command(
        &[],
        &[
            "sh",
            "-c",
            "echo first; while ! [ -e go ]; do sleep 0.02; done; echo last",
        ],
    );
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut first = [0; 6];
    out.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"first\n");
    fs::write(place.home.path("go"), "").unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "last\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_reader_that_goes_away_ends_nothing_and_hangs_nothing() {
    need_mount!();
    let place = Place::mounted();
    let mut command = place.command(&[], &["sh", "-c", "yes | head -n 1000000; echo done >done"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    child.wait().unwrap();
    assert_eq!(
        fs::read_to_string(place.home.path("done")).unwrap(),
        "done\n"
    );
}

/// Output that is not UTF-8 leaves as it is, and is replaced in JSON.
#[test]
fn bytes_are_bytes() {
    need_mount!();
    let place = Place::mounted();
    let words = ["sh", "-c", "printf 'a\\377b\\000c'"];
    assert_eq!(place.run(&[], &words).stdout, b"a\xffb\0c");
    let output = run_limited(place.command(&["--json"], &words), LIMIT);
    assert_eq!(parsed(&output)["stdout"], "a\u{fffd}b\0c");
}

/// Output that is lost is no success, whichever way it takes: as it comes, held until the end, from a line of the shell.
#[test]
fn what_cannot_be_written_is_no_success() {
    need_mount!();
    let place = Place::mounted();
    let full = |command: Command| {
        let mut redirected = Command::new("sh");
        redirected.args(["-c", "exec \"$@\" >/dev/full", "sh"]);
        redirected
            .arg(command.get_program())
            .args(command.get_args());
        let output = run_limited(redirected, LIMIT);
        assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
        let told = err(&output);
        let expected = "standard output: No space left on device";
        assert_eq!(told.matches(expected).count(), 1, "{told}");
    };
    full(place.command(&[], &["sh", "-c", "echo x"]));
    full(place.command(&["--max-tokens", "100"], &["sh", "-c", "echo x"]));
    let mut line = Command::new(binary());
    line.args(["exec", "--root"]).arg(place.home.home());
    line.arg("--policy").arg(place.policy());
    full({
        line.args(["--", "sh -c 'echo x'"]);
        line
    });
    // Whoever stops reading has what it wants.
    let line = format!(
        "{} run --root {} --policy {} -- sh -c 'echo x; echo y' | head -1; echo ${{PIPESTATUS[0]}}",
        binary(),
        place.home.home().display(),
        place.policy().display()
    );
    let mut command = Command::new("bash");
    command.args(["-c", &line]);
    let output = run_limited(command, LIMIT);
    assert!(good(&output).starts_with("x\n"), "{}", describe(&output));
    assert_eq!(err(&output), "");
}
