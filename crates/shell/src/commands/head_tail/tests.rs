//! Tests of `head` and `tail` against the machine's own, on files and on streams.

use std::io::Write;
use std::process::{Command, Stdio};

use super::super::tests::Bench;
use crate::call::invoke;

fn bench() -> Bench {
    let bench = Bench::new();
    let lines: String = (1..=40_000).map(|n| format!("line {n}\n")).collect();
    bench.put("long", &lines);
    bench.put("open", lines.trim_end());
    bench.put("few", "one\ntwo\nthree\n");
    bench.put("blank", "\n\n\n");
    bench.put("zero", "a\0b\nc\0");
    bench.put("none", "");
    bench.put("wide", "x".repeat(200_000));
    bench.put("dir/inside", "x\n");
    bench
}

/// Runs a line through both, with a file of the bench streamed to standard input.
fn agree(bench: &mut Bench, line: &str, input: &str) {
    let stdin = match input {
        "" => Vec::new(),
        name => std::fs::read(bench.dir.path().join(name)).unwrap(),
    };
    let words: Vec<&str> = line.split(' ').collect();
    let mut theirs = Command::new(words[0])
        .args(&words[1..])
        .current_dir(bench.dir.path())
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = theirs.stdin.take().unwrap();
    let given = stdin.clone();
    // `head` may stop before it has read everything.
    let writer = std::thread::spawn(move || drop(to.write_all(&given)));
    let theirs = theirs.wait_with_output().unwrap();
    writer.join().unwrap();
    let (out, err, status) = bench.run(line, &stdin);
    let expected = String::from_utf8_lossy(&theirs.stdout);
    // Not assert_eq: some outputs are long.
    assert!(out == expected, "{line} < {input}: {err}");
    assert_eq!(
        Some(i32::from(status)),
        theirs.status.code(),
        "{line} < {input}: {err}"
    );
}

#[test]
fn counts_of_lines_and_bytes() {
    let mut bench = bench();
    let files = ["open", "few", "blank", "zero", "none", "wide"];
    for count in ["0", "1", "2", "10", "40000", "40001", "1K"] {
        for flag in [
            "-n ", "-n -", "-n +", "-c ", "-c -", "-c +", "-zn ", "-zn -", "-zn +",
        ] {
            for command in ["head", "tail"] {
                for file in files {
                    agree(&mut bench, &format!("{command} {flag}{count} {file}"), "");
                    agree(&mut bench, &format!("{command} {flag}{count}"), file);
                }
            }
        }
    }
}

#[test]
fn headings_and_obsolete_options() {
    let mut bench = bench();
    for line in [
        "head few blank",
        "tail few none few",
        "head -q few few",
        "tail -q few few",
        "head -v few",
        "tail -v few",
        "head -vq few",
        "tail -qv few",
        "head -n 1 few - blank",
        "tail -n 1 - few",
        "head nosuch few",
        "tail nosuch few",
        "head dir few",
        "tail few dir few",
        "head -v",
        "tail -v -",
        "head -2 few",
        "head -2 few few",
        "head -2c few",
        "head -1k long",
        "head -1b long",
        "head -1m long",
        "head -2lqv few",
        "head -2x few",
        "head -2 -n 1 few",
        "head -n 1 -2 few",
        "tail -2 few",
        "tail -2c few",
        "tail -1b long",
        "tail -2l few",
        "tail -l few",
        "tail -b few",
        "tail +2 few",
        "tail +2c few",
        "tail + long",
        "tail -2 few few",
        "tail -2 -- few",
        "tail -2",
        "tail -2 -",
        "tail -0 few",
        "tail -n 0 nosuch",
        "head -n 0 nosuch",
        "head -0 few few",
        "tail -n 2 -c 3 few",
        "tail -c 3 -n 2 few",
        "tail -c few",
        "head -c",
        "tail -n x few",
        "head --lines=2 few",
        "tail --bytes 3 few",
        "head --quiet few few",
        "tail --silent few few",
        "head --verbose few",
        "head -z -n 1 zero",
        "tail --zero-terminated -n 1 zero",
        "head --zz",
        "tail -Z",
        "tail -n 99999999999999999999 few",
        "tail -c +9223372036854775808 few",
        "head -n --1 few",
        "tail -n -+1 few",
        "tail -c +1Y few",
    ] {
        agree(&mut bench, line, "blank");
    }
}

#[test]
fn head_and_tail_report_errors() {
    let mut bench = bench();
    for (line, message) in [
        (
            "head -n foobar few",
            "head: invalid number of lines: 'foobar'",
        ),
        (
            "tail -c foobar few",
            "tail: invalid number of bytes: 'foobar'",
        ),
        ("head -5x few", "head: invalid trailing option -- x"),
        ("head nosuch", "head: nosuch: No such file or directory"),
        ("tail dir", "tail: dir: Is a directory"),
    ] {
        let told = (String::new(), format!("{message}\n"), 1);
        assert_eq!(bench.run(line, ""), told, "{line}");
    }
    for line in [
        "tail -f few",
        "tail --follow few",
        "tail -F few",
        "tail -5f few",
        "tail -f",
    ] {
        let (out, err, status) = bench.run(line, "");
        assert_eq!((out.as_str(), status), ("", 1), "{line}");
        assert!(err.starts_with("tail: -f is not supported: "), "{err}");
    }
}

#[test]
fn head_leaves_the_rest_of_its_input() {
    use std::io::BufRead;

    use crate::stream::{Input, Output};

    let mut bench = bench();
    for (args, rest) in [(["-n", "2"], "three\n"), (["-c", "3"], "\ntwo\nthree\n")] {
        let mut input = Input::bytes(b"one\ntwo\nthree\n".to_vec());
        let args = args.map(|arg| arg.as_bytes().to_vec());
        let outputs = (Output::null(), Output::null());
        let head = super::super::REGISTRY.find(b"head").unwrap();
        invoke(head, &args, &mut input, outputs, &mut bench.state).unwrap();
        assert_eq!(input.fill_buf().unwrap(), rest.as_bytes());
    }
}

#[test]
fn tail_window_does_not_grow() {
    use super::CountUnit;
    use super::window::TailWindow;

    let mut window = TailWindow::new(2, CountUnit::Lines(b'\n'));
    let mut most = 0;
    for _ in 0..1000 {
        window.push(&b"0123456\n".repeat(8192));
        let mut held = 2;
        while window.pop_excess().is_some() {
            held -= 1;
        }
        most = most.max(held);
    }
    assert!(most <= 2, "{most}");
    assert_eq!(window.split().1.concat(), b"0123456\n0123456\n");
}
