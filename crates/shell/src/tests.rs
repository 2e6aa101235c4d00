//! Tests of the language: the meaning of lines, what is refused, and that no line whatsoever breaks anything.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use trumanfs::exec::mounted_home::MountedHome;

/// A shell in a directory that stands for a home, with a few files.
struct Bench {
    dir: tempfile::TempDir,
    shell: Shell,
}

impl Bench {
    fn new() -> Bench {
        let dir = tempfile::tempdir().unwrap();
        for path in [
            "a.txt",
            "b.txt",
            ".hidden",
            "src/main.rs",
            "src/deep/x.rs",
            "sp ace",
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "1\n2\n3\n").unwrap();
        }
        let limits = Limits {
            time: Some(Duration::from_secs(10)),
            ..Limits::default()
        };
        let home = Arc::new(MountedHome::open(dir.path()).unwrap());
        let shell = Shell::new(home, dir.path().as_os_str().as_encoded_bytes(), limits);
        Bench { dir, shell }
    }

    fn run(&mut self, line: &str) -> (String, String, u8) {
        let outcome = self.shell.run(line.as_bytes());
        let root = self.dir.path().to_str().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(root, "ROOT");
        (
            text(&outcome.stdout),
            text(&outcome.stderr),
            outcome.return_code,
        )
    }

    #[track_caller]
    fn writes(&mut self, line: &str, expected: &str) {
        let ran = self.run(line);
        assert_eq!(ran, (expected.to_owned(), String::new(), 0), "{line}");
    }

    #[track_caller]
    fn says(&mut self, line: &str, expected: &str, status: u8) {
        let ran = self.run(line);
        assert_eq!((ran.1, ran.2), (format!("{expected}\n"), status), "{line}");
    }
}

#[test]
fn words_are_expanded_in_order() {
    let mut bench = Bench::new();
    for (line, expected) in [
        ("echo a  'b  c' \"d  e\" f\\ g", "a b  c d  e f g\n"),
        ("echo {1..3}{a,b} x{,y}", "1a 1b 2a 2b 3a 3b x xy\n"),
        (
            "echo {a,b c {x} {1..} {01..10..4}",
            "{a,b c {x} {1..} 01 05 09\n",
        ),
        (
            "echo *.txt \"*.txt\" \\*.txt z*",
            "a.txt b.txt *.txt *.txt z*\n",
        ),
        (
            "echo **/*.rs ./*.txt src/",
            "src/deep/x.rs src/main.rs ./a.txt ./b.txt src/\n",
        ),
        ("echo ~ ~/src ~root '~'", "ROOT ROOT/src ~root ~\n"),
        ("x='a  b'; echo $x \"$x\" ${x}c", "a b a  b a bc\n"),
        ("x=*.txt; echo $x \"$x\"", "a.txt b.txt *.txt\n"),
        (
            "echo $(echo a; echo b) \"$(echo 'c  d')\" `echo e`",
            "a b c  d e\n",
        ),
        ("echo a#b # c", "a#b\n"),
        ("echo $'a\\tb\\x41\\u00e9'", "a\tbA\u{e9}\n"),
        ("false; echo $?; ! false; echo $?", "1\n0\n"),
        (
            "echo $HOME $PWD; echo $nothing; echo \"$nothing\"x",
            "ROOT ROOT\n\nx\n",
        ),
        ("echo \"\" '' | wc -c", "2\n"),
    ] {
        bench.writes(line, expected);
    }
}

#[test]
fn lists_groups_and_redirects_match_bash() {
    let mut bench = Bench::new();
    for (line, expected) in [
        (
            "true && echo a || echo b; false && echo c || echo d",
            "a\nd\n",
        ),
        ("(cd src; pwd); pwd", "ROOT/src\nROOT\n"),
        ("{ cd src; pwd; }; cd ..; pwd", "ROOT/src\nROOT\n"),
        ("x=1; (x=2; echo $x); echo $x", "2\n1\n"),
        ("x=1; x=2 true; echo $x", "1\n"),
        (
            "echo a > new; echo b >> new; cat new; cat < new",
            "a\nb\na\nb\n",
        ),
        ("echo a > x1 > x2; cat x1 x2", "a\n"),
        (
            "cat missing 2>&1 | cat",
            "cat: missing: No such file or directory\n",
        ),
        ("cat missing a.txt 2>/dev/null | wc -l", "3\n"),
        (
            "cat missing &> all; cat all",
            "cat: missing: No such file or directory\n",
        ),
        ("cat <<E\n$HOME `echo x` \\$y\nE\necho z", "ROOT x $y\nz\n"),
        ("cat <<-'E'\n\ta $b\n\tE\n", "a $b\n"),
        ("cat <<A; cat <<B\n1\nA\n2\nB\n", "1\n2\n"),
        ("cat <<< \"a b\"", "a b\n"),
        ("cat a.txt |\n head -1", "1\n"),
        ("echo a |& cat", "a\n"),
        ("cat < /dev/null > /dev/null; echo $?", "0\n"),
    ] {
        bench.writes(line, expected);
    }
}

#[test]
fn shell_keeps_state_between_lines() {
    let mut bench = Bench::new();
    bench.writes("x=5; cd src", "");
    bench.writes("echo $x; pwd", "5\nROOT/src\n");
    bench.writes("cd -", "ROOT\n");
    bench.writes("x=6 | cd src; echo $x; pwd", "5\nROOT\n");
}

/// Lines that bash runs and this shell refuses, and what it says.
const UNSUPPORTED: &[(&str, &str)] = &[
    (
        "echo x > made; for i in 1 2; do echo; done",
        "bash: for: loops are not supported",
    ),
    (
        "echo x > made; while true; do :; done",
        "bash: while: loops are not supported",
    ),
    (
        "echo x > made; f() { echo; }",
        "bash: f(): functions are not supported",
    ),
    (
        "echo x > made; sleep 1 &",
        "bash: &: job control is not supported",
    ),
    (
        "echo x > made; if true; then :; fi",
        "bash: if: conditions are not supported",
    ),
    (
        "echo x > made; [[ a ]]",
        "bash: [[: conditions are not supported",
    ),
    (
        "echo x > made; echo $((1+1))",
        "bash: $((: arithmetic is not supported",
    ),
    (
        "echo x > made; cat <(ls)",
        "bash: <( ) and >( ): process substitution is not supported",
    ),
    (
        "echo x > made; echo ${x:-1}",
        "bash: ${x:-1}: only $NAME, ${NAME} and $? are supported; this expansion is not supported",
    ),
    (
        "echo x > made; echo $1",
        "bash: $1: special parameters but $? are not supported",
    ),
    (
        "echo x > made; echo $(for i in 1; do :; done)",
        "bash: for: loops are not supported",
    ),
    (
        "echo x > made; echo 'a",
        "bash: unexpected EOF while looking for matching `''",
    ),
    (
        "echo x > made; echo a | ",
        "bash: syntax error: unexpected end of file",
    ),
    (
        "echo x > made; ;; echo",
        "bash: syntax error near unexpected token `;;'",
    ),
    (
        "echo x > made; )",
        "bash: syntax error near unexpected token `)'",
    ),
    (
        "echo x > made; | cat",
        "bash: syntax error near unexpected token `|'",
    ),
    (
        "echo x > made; ()",
        "bash: syntax error near unexpected token `)'",
    ),
    (
        "echo x > made 3> y",
        "bash: 3: streams other than 0, 1 and 2 are not supported",
    ),
    (
        "echo x > made; cd nope || exit 1",
        "bash: exit: this builtin is not supported",
    ),
    (
        "echo x > made; cd nope || \\ex'i't 1",
        "bash: exit: this builtin is not supported",
    ),
    (
        "echo x > made; [ -e keep ] || rm -r src",
        "bash: [: this builtin is not supported",
    ),
    (
        "echo x > made; (a=$(true | \"$(read x)\"))",
        "bash: read: this builtin is not supported",
    ),
    (
        "echo x > made; cat <<E\n$(set -e)\nE",
        "bash: set: this builtin is not supported",
    ),
    (
        "echo x > made; cat < $(eval x)",
        "bash: eval: this builtin is not supported",
    ),
    (
        "echo x > made; A=1 . ./file",
        "bash: .: this builtin is not supported",
    ),
    (
        "echo x > made; rm -rf tmp.$RANDOM",
        "bash: $RANDOM: this variable is not supported",
    ),
    (
        "echo x > made; GLOBIGNORE=keep; rm *",
        "bash: GLOBIGNORE=: assigning to this variable is not supported",
    ),
    (
        "echo x > made; CDPATH=src cd deep",
        "bash: CDPATH=: assigning to this variable is not supported",
    ),
    (
        "echo x > made; LC_ALL=de_DE.UTF-8 ls",
        "bash: LC_ALL=: another locale than C is not supported",
    ),
    (
        "echo x > made; TZ=Europe/Atlantis date",
        "bash: TZ=: a zone that is not in the database, or for another command than date, is not supported",
    ),
    (
        "echo x > made; rm -r ~+/src",
        "bash: ~+: this tilde is not supported",
    ),
    (
        "echo {made}>made",
        "bash: {NAME}: streams by the name of a variable are not supported",
    ),
    (
        "echo x > made; x[1]=2",
        "bash: x[ ]=: arrays are not supported",
    ),
];

#[test]
fn unsupported_syntax_is_refused_before_anything_runs() {
    let mut bench = Bench::new();
    for (line, expected) in UNSUPPORTED {
        bench.says(line, expected, 2);
        assert!(!bench.dir.path().join("made").exists(), "{line} ran");
    }
}

/// Lines with a command that bash has and this shell has not, what is said of it, and the status.
const MISSING: &[(&str, &str, u8)] = &[
    ("sort", "bash: sort: command not found", 127),
    ("sort > a.txt", "bash: sort: command not found", 127),
    (
        "echo x > made; sort a.txt > b.txt",
        "bash: sort: command not found; nothing of the line has run",
        127,
    ),
    (
        "echo x > made; bash -c x || rm -r src",
        "bash: bash: command not found; nothing of the line has run",
        127,
    ),
    (
        "echo x > made | chmod 600 made",
        "bash: chmod: command not found; nothing of the line has run",
        127,
    ),
    (
        "echo x > made; find . -name x -exec sed -i s/a/b/ {} + ; rm -r src",
        "bash: sed: command not found; nothing of the line has run",
        127,
    ),
    (
        "echo x > made; src/main.rs || rm -r src",
        "bash: src/main.rs: programs do not run in this shell; nothing of the line has run",
        126,
    ),
    (
        "x=sort; $x > a.txt; echo x > made",
        "bash: sort: command not found",
        127,
    ),
    (
        "x=exit; $x || echo x > made",
        "bash: exit: this builtin is not supported",
        2,
    ),
    (
        "x=exit; (echo; $x 3; rm -r src) || echo x > made",
        "bash: exit: this builtin is not supported",
        2,
    ),
    (
        "x=exit; echo $($x) > made; echo x > made",
        "bash: exit: this builtin is not supported",
        2,
    ),
    (
        "x=exit; echo | $x | cat; echo x > made",
        "bash: exit: this builtin is not supported",
        2,
    ),
    (
        "{set,-e}; echo x > made",
        "bash: set: this builtin is not supported",
        2,
    ),
    (
        "s*c/main.rs; echo x > made",
        "bash: src/main.rs: programs do not run in this shell",
        126,
    ),
    (
        "x=sed; find . -name a.txt -exec $x {} \\; -delete; echo x > made",
        "bash: sed: command not found",
        127,
    ),
    (
        "find src -exec {} \\; ; echo x > made",
        "bash: {}: command not found",
        127,
    ),
];

/// For such a command nothing of the line runs; where the name came from an expansion, nothing more of it.
#[test]
fn missing_command_ends_the_line() {
    let mut bench = Bench::new();
    let main = bench.dir.path().join("src/main.rs");
    std::fs::set_permissions(&main, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (line, expected, status) in MISSING {
        bench.says(line, expected, *status);
        for path in ["a.txt", "b.txt", "src/main.rs"] {
            let left = std::fs::read_to_string(bench.dir.path().join(path)).unwrap();
            assert_eq!(left, "1\n2\n3\n", "{line} changed {path}");
        }
        assert!(!bench.dir.path().join("made").exists(), "{line} ran");
    }
    // The next line runs.
    bench.writes("x=ech; ${x}o on", "on\n");
}

/// An unknown command is bash's error, which goes where the line says, and the line goes on.
#[test]
fn unknown_command_is_passed_over() {
    let mut bench = Bench::new();
    for (line, out, err) in [
        ("xyz || echo on", "on\n", "bash: xyz: command not found\n"),
        ("xyz 2>&1 | cat", "bash: xyz: command not found\n", ""),
        ("xyz 2>/dev/null; echo $?", "127\n", ""),
        (
            "./xyz; echo $?",
            "127\n",
            "bash: ./xyz: No such file or directory\n",
        ),
        (
            "./a.txt; echo $?",
            "126\n",
            "bash: ./a.txt: cannot execute\n",
        ),
        ("src/; echo $?", "126\n", "bash: src/: Is a directory\n"),
        (
            "/etc/passwd; echo $?",
            "127\n",
            "bash: /etc/passwd: No such file or directory\n",
        ),
        (
            "~/xyz; echo $?",
            "127\n",
            "bash: ~/xyz: No such file or directory\n",
        ),
    ] {
        assert_eq!(
            bench.run(line),
            (out.to_owned(), err.to_owned(), 0),
            "{line}"
        );
    }
}

/// A pattern that is not regular is refused like a missing command: before the line runs, or when its turn comes.
#[test]
fn unsupported_pattern_ends_the_line() {
    let mut bench = Bench::new();
    let ahead = "bash: grep -P: lookahead, (?=…) or (?!…), is not supported; use grep -E without it, or python3 -c\n";
    let back = "bash: grep: a back-reference (\\1 to \\9) is not supported; write the pattern without it, or use python3 -c\n";
    let path = "bash: find -regex: a back-reference (\\1 to \\9) is not supported; write the pattern without it, or use python3 -c\n";
    for (line, out, err) in [
        ("echo on; grep -P '1(?=2)' a.txt || rm a.txt", "", ahead),
        ("echo on | grep -oP -e 1 -e '1(?=2)' *.txt", "", ahead),
        ("echo on; grep '\\(.\\)\\1' a.txt", "", back),
        ("echo on; grep -E '(.)\\1' *", "", back),
        ("echo on; $(grep -E '(.)\\1' *)", "", back),
        ("echo on; find . -iregex '\\(.\\)\\1' -delete", "", path),
        ("find . -exec grep -P '1(?=2)' {} \\; -delete", "", ahead),
        (
            "echo on; x='1(?=2)'; grep -P \"$x\" a.txt; rm a.txt",
            "on\n",
            ahead,
        ),
        ("echo on; find * -regex '\\(.\\)\\1' -delete", "on\n", path),
    ] {
        let (told, said, status) = bench.run(line);
        assert_eq!((&told[..], &said[..], status), (out, err, 2), "{line}");
        assert!(bench.dir.path().join("a.txt").exists(), "{line}");
    }
    let format = "bash: find -printf: %l is not supported\n";
    for (line, out) in [
        ("echo on; find . -printf '%p %l\\n' -delete", ""),
        ("echo on; x=%l; find . -printf \"$x\" -delete", "on\n"),
    ] {
        let told = bench.run(line);
        assert_eq!(told, (out.to_owned(), format.to_owned(), 2), "{line}");
    }
    // Where the same text has another meaning, it is not refused.
    for line in [
        "grep -F '\\(.\\)\\1' a.txt",
        "grep 1 '(?=2)' 2>/dev/null",
        "grep -E '(?=2)' a.txt 2>/dev/null",
        "find . -regextype awk -regex '(.)\\1'",
        "find . -name -regex -o -name '\\(.\\)\\1'",
        "find . -maxdepth 0 -exec echo -regex '\\(.\\)\\1' \\;",
    ] {
        assert!(!bench.run(line).1.contains("supported"), "{line}");
    }
    // A malformed one is the command's error.
    assert_eq!(bench.run("grep -P '(' a.txt || echo on").0, "on\n");
    assert_eq!(bench.run("find . -regex '\\(' || echo on").0, "on\n");
}

/// No program of the coreutils that this machine has is passed over as unknown.
#[test]
fn every_program_of_the_coreutils_is_known() {
    let listed = std::process::Command::new("dpkg")
        .args(["-L", "coreutils"])
        .output();
    let listed = listed.map(|output| String::from_utf8(output.stdout).unwrap());
    let listed = listed.unwrap_or_default();
    if listed.is_empty() {
        crate::need::skip!("tools", "dpkg, which lists the coreutils, is not here");
    }
    let mut bench = Bench::new();
    for path in listed.lines() {
        let Some(name) = path.rsplit_once("bin/").map(|(_, name)| name) else {
            continue;
        };
        // Debian's own: md5sum.textutils.
        if name.is_empty() || name.contains('.') || Shell::commands().any(|command| command == name)
        {
            continue;
        }
        let (out, err, status) = bench.run(&format!("echo ran; {name}"));
        assert!(out.is_empty() && status != 0, "{name}: {out}{err}");
    }
}

/// Every builtin that bash lists is either a command here or refused as a builtin.
#[test]
fn every_bash_builtin_is_known() {
    let listed = std::process::Command::new("bash")
        .args(["-c", "compgen -b"])
        .output()
        .unwrap();
    let mut bench = Bench::new();
    for name in String::from_utf8(listed.stdout).unwrap().lines() {
        let here = Shell::commands().any(|command| command == name);
        let (_, err, status) = bench.run(&format!("true || {name}"));
        match here {
            true => assert_eq!((&err[..], status), ("", 0), "{name}"),
            false => {
                let told = format!("bash: {name}: this builtin is not supported\n");
                assert_eq!((err, status), (told, 2), "{name}");
            }
        }
    }
}

#[test]
fn substitution_reads_a_file() {
    let mut bench = Bench::new();
    bench.writes("x=$(<a.txt); echo \"$x\" $(< sp\\ ace)", "1\n2\n3 1 2 3\n");
    bench.says(
        "x=$(<missing)",
        "bash: missing: No such file or directory",
        1,
    );
    bench.says("x=$(<src)", "bash: Is a directory", 1);
}

#[test]
fn messages_and_texts_are_exact() {
    let mut bench = Bench::new();
    for (line, expected, status) in [
        ("xyz", "bash: xyz: command not found", 127),
        (
            "cat /etc/passwd",
            "cat: /etc/passwd: No such file or directory",
            1,
        ),
        (
            "cd ~/../../etc",
            "cd: ~/../../etc: No such file or directory",
            1,
        ),
        (
            "echo x > /etc/x",
            "bash: /etc/x: No such file or directory",
            1,
        ),
        ("echo x > src", "bash: src: Is a directory", 1),
        ("echo x > a.txt/y", "bash: a.txt/y: Not a directory", 1),
        (
            "cat < missing",
            "bash: missing: No such file or directory",
            1,
        ),
        (
            "cat < ~/missing",
            "bash: ~/missing: No such file or directory",
            1,
        ),
        (
            "cat ~/missing",
            "cat: ~/missing: No such file or directory",
            1,
        ),
        ("echo x > *.txt", "bash: *.txt: ambiguous redirect", 1),
        ("/bin/ls", "bash: /bin/ls: No such file or directory", 127),
        ("src/main.rs", "bash: src/main.rs: cannot execute", 126),
        (
            "echo | cat | cat | cat | cat | cat | cat | cat | cat | cat | cat",
            "pipe depth exceeded (max 10)",
            2,
        ),
    ] {
        bench.says(line, expected, status);
    }
    bench.writes(
        "echo a | cat | cat | cat | cat | cat | cat | cat | cat | cat",
        "a\n",
    );
}

#[test]
fn output_limit_spares_pipes_and_files() {
    let mut bench = Bench::new();
    let lines: String = (1..=250).map(|n| format!("{n}\n")).collect();
    std::fs::write(bench.dir.path().join("many"), &lines).unwrap();
    let outcome = bench.shell.run(b"cat many");
    assert!(outcome.truncated_stdout);
    assert!(
        outcome
            .stdout
            .ends_with(b"\n200\n... (50 more lines, 250 total)\n")
    );
    bench.writes(
        "cat many | wc -l; cat many > copy; wc -l < copy",
        "250\n250\n",
    );
    std::fs::create_dir(bench.dir.path().join("big")).unwrap();
    for n in 0..250 {
        std::fs::write(bench.dir.path().join(format!("big/{n:03}")), "").unwrap();
    }
    let outcome = bench.shell.run(b"cd big; ls");
    assert!(
        outcome
            .stdout
            .ends_with(b"\n199\n... (50 more lines, 250 total)\n")
    );
    let outcome = bench.shell.run(b"ls");
    assert!(
        outcome
            .stdout
            .ends_with(b"\n199\n... (50 more entries, 250 total)\n")
    );
}

#[test]
fn line_ends_with_its_time() {
    let mut bench = Bench::new();
    bench.shell.limits.time = Some(Duration::from_millis(200));
    let start = std::time::Instant::now();
    // Nobody ever writes to this pipe.
    let (silent, _kept_open) = rustix::pipe::pipe().unwrap();
    let line = b"cat | cat | cat";
    let ran = bench
        .shell
        .run_with(line, Some(silent), std::io::sink(), std::io::sink());
    assert_eq!(ran.return_code, 124);
    assert!(start.elapsed() < Duration::from_secs(5));
    bench.shell.limits.time = Some(Duration::from_secs(10));
    bench.writes("echo on", "on\n");
}

/// Searching this file of a single line would take minutes.
#[test]
fn grep_of_one_huge_line_ends_with_the_time() {
    let mut bench = Bench::new();
    std::fs::write(bench.dir.path().join("big"), "ab".repeat(500_000)).unwrap();
    bench.shell.limits.time = Some(Duration::from_millis(300));
    let start = std::time::Instant::now();
    let outcome = bench.shell.run(b"grep -cE '(a|b){1,5000}c' big");
    assert_eq!(outcome.return_code, 124, "{outcome:?}");
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
}

/// Each of these lines used to abort the whole program for lack of memory.
#[test]
fn line_over_its_memory_limit_ends_alone() {
    let mut bench = Bench::new();
    bench.shell.limits.memory = 8 << 20;
    bench.shell.limits.time = Some(Duration::from_secs(60));
    let big = std::fs::File::create(bench.dir.path().join("big")).unwrap();
    big.set_len(10 << 30).unwrap();
    std::fs::write(bench.dir.path().join("some"), "x".repeat(1 << 20)).unwrap();
    let doubled = format!("X=$(cat some); {} echo on", "X=$X$X; ".repeat(40));
    let many = format!("X=$(cat some); echo {} > out", "$X$X".repeat(20));
    let here = format!("X=$(cat some); wc -c <<E\n{}\nE\n", "$X".repeat(20));
    for line in [
        // NUL bytes are removed only after everything has been collected.
        "X=$(cat big); echo on",
        "X=$(< big); echo on",
        "echo $(cat big | cat)",
        "cat big | tail -n 1; echo on",
        "cat big | head -n -1; echo on",
        "cat big | tail -c 9000000000; echo on",
        "grep -ac '' big; echo on",
        "cat big | grep -a x; echo on",
        &doubled,
        &many,
        &here,
    ] {
        let (out, err, status) = bench.run(line);
        let told = "bash: the line needs more than 8 MiB of memory\n";
        assert_eq!((&out[..], &err[..], status), ("", told, 1), "{line:.60}");
        // The shell survives, and the line's memory is free again.
        bench.writes("X=; Y=$(cat some); echo $(cat a.txt)", "1 2 3\n");
    }
    // Data that only flows through is not held.
    bench.writes(
        "cat some some some some some some some some some some | cat | wc -c",
        "10485760\n",
    );
}

/// A name that goes on in the next line is one name; where that would make another redirect, the line is refused.
#[test]
fn continued_line_inside_a_name_or_a_redirect() {
    let mut bench = Bench::new();
    bench.writes(
        "xy=1; x=2; echo $x\\\ny \"$x\\\ny\" $x\\\n- z$x\\\n",
        "1 1 2- z2\n",
    );
    bench.writes("cat <<E\n$x\\\ny\nE", "1\n");
    for (line, what) in [
        (
            "echo a 2\\\n> new",
            "between the number of a stream and its redirect",
        ),
        ("echo $\\\nx", "behind a $"),
        ("echo \"$\\\nx\"", "behind a $"),
    ] {
        let told = format!("bash: a line that goes on {what} is not supported");
        bench.says(line, &told, 2);
    }
    for line in ["echo a 2\\\n3", "echo a 2 \\\n> new; cat new"] {
        bench.run(line);
    }
}

#[test]
fn endless_brace_expansion_is_refused() {
    let mut bench = Bench::new();
    let nested = format!("echo {}{}", "{a,".repeat(20_000), "}".repeat(20_000));
    let long = format!("echo {{1..100000}}{}", "x".repeat(10_000));
    let start = std::time::Instant::now();
    for line in [nested, "echo ".to_owned() + &"{".repeat(200_000), long] {
        let (_, err, status) = bench.run(&line);
        let told = "bash: braces: too many words\n";
        assert_eq!((&err[..], status), (told, 1), "{line:.60}");
    }
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn standard_error_has_a_limit_too() {
    let mut bench = Bench::new();
    let (_, err, status) = bench.run("ls nope{1..20000}");
    assert_eq!(status, 2);
    assert!(
        err.ends_with("\n... (19800 more lines, 20000 total)\n"),
        "{}",
        err.len()
    );
    assert!(err.len() < 20_000, "{}", err.len());
}

#[test]
fn incomplete_input_is_recognised() {
    for line in [
        "echo 'a",
        "echo \"a",
        "ls |",
        "ls &&",
        "(ls",
        "{ ls",
        "{ ls; (cd x; ",
        "cat <<E\na",
        "cat <<E",
        "cat <<-E | (wc -l\na\nE\n",
        "echo $(ls",
        "echo a \\",
        "echo a \\\n",
        "echo a\\\n",
    ] {
        assert_eq!(
            Shell::input_state(line.as_bytes()),
            InputState::Open,
            "{line}"
        );
    }
    for line in [
        "echo a",
        "",
        "cat <<E\na\nE",
        "echo a # \\\n",
        "echo '\\\n'",
    ] {
        assert_eq!(
            Shell::input_state(line.as_bytes()),
            InputState::Complete,
            "{line}"
        );
    }
    for line in ["echo )", "ls | | ls", "if; then", "fi", "echo `(`", "f(x)"] {
        let state = Shell::input_state(line.as_bytes());
        assert_eq!(state, InputState::Refused { open: false }, "{line}");
    }
}

/// Unsupported syntax ends where bash ends it: after every line but the last, more is needed.
#[test]
fn refused_syntax_is_read_to_its_own_end() {
    for text in [
        "if false; then\nrm -r docs\nfi",
        "if a\nthen b\nelif c; then d\nelse\ne\nfi > x",
        "for x in a b\ndo\nrm $x\ndone",
        "for x in a \\\n b; do rm $x\ndone | cat",
        "for x\ndo\nrm $x\ndone",
        "for ((i = 0;\ni < 2; i++)); do\nrm x\ndone",
        "for x in a; {\nrm $x\n}",
        "select x in a b; do\nrm $x\ndone",
        "while read x; do\nif true; then\nrm $x\nfi\ndone < list",
        "until false\ndo\nrm x\ndone",
        "case $x in\na | b) rm x;;\n(c)\nrm y\n;;\n*) rm z\nesac",
        "case a in esac; if x\nthen y; fi",
        "case a in\n'x y') (rm x\n) ;&\n\"b\"*) rm y ;;&\n[')'])\nrm z;; esac",
        "f() {\nrm x\n}",
        "f ()\n{\nrm x\n} 2>&1",
        "f() (\nrm x\n)",
        "f() if a\nthen rm x\nfi",
        "function f {\nrm x\n}",
        "function f()\n{\nrm x\n}",
        "[[ a &&\n-e x ]]",
        "[[ $x =~ ^(a|b)$ ||\n! ( a < b ) ]] && rm x",
        "((\nx + 1\n))",
        "(( x << 2 )) && {\nrm x\n}",
        "coproc {\nrm x\n}",
        "time {\nrm x\n}",
        "time -p (\nrm x)",
        "x=(a\nrm -r docs\n)",
        "x+=(a 'b)'\n)",
        "echo $((1 +\n2))",
        "echo $(( (1 + 2) *\n3 ))",
        "echo $((echo a) |\ncat)",
        "echo ${x:-'}'\nrm x\n}",
        "echo \"${x:-$(rm x\n)}\nrm y\n\"",
        "echo ${x:-${y:-\nrm x}}",
        "cat <(ls\nrm x\n)",
        "echo $1 <<E\nrm -r docs\nE",
        "cat <<E 3>&1\nrm -r docs\nE",
        "for x in a; do cat <<E; done\nrm x\nE",
        "cat <<E; for x in a; do\nrm x\nE\nrm y\ndone",
        "echo $(for x in a\ndo rm x\ndone)",
        "echo `for x in a\ndo rm x\ndone`",
        "sleep 1 & (\nrm x\n)",
        "echo $[1 +\n2]",
        "if true; then echo 'fi\nrm x\n'\nfi",
        "if true; then echo fi # fi\nrm x\nfi",
        "! [[ a &&\nb ]]",
    ] {
        // Bash itself accepts this as one complete input.
        let bash = std::process::Command::new("bash")
            .args(["-n", "-c", text])
            .output()
            .unwrap();
        assert!(
            bash.status.success() && bash.stderr.is_empty(),
            "{text}: {bash:?}"
        );
        let mut typed = String::new();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for (number, line) in lines.iter().enumerate() {
            typed.push_str(line);
            let state = Shell::input_state(typed.as_bytes());
            if number + 1 == lines.len() {
                assert_eq!(state, InputState::Refused { open: false }, "{typed}");
            } else {
                let open = matches!(state, InputState::Open | InputState::Refused { open: true });
                assert!(open, "{typed} is {state:?}");
            }
        }
    }
}

#[test]
fn paths_are_completed() {
    let bench = Bench::new();
    let complete = |typed: &str| -> Vec<String> {
        let found = bench.shell.completions(typed.as_bytes()).into_iter();
        found.map(|path| String::from_utf8(path).unwrap()).collect()
    };
    assert_eq!(complete("s"), ["sp ace", "src/"]);
    assert_eq!(complete("~/src/d"), ["~/src/deep/"]);
    assert_eq!(complete("."), [".hidden"]);
    assert_eq!(complete("/etc/pass"), Vec::<String>::new());
}

/// Meaningful pieces, so that random lines are more than noise.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: &[&str] = &[
        "echo", "cat", "ls", "cd", "grep", "find", "wc", "head", "tail", "rm", "mv", "cp", "mkdir",
        "touch", "date", " ", " ", " ", "\n", ";", "|", "||", "&&", "&", "(", ")", "{", "}", "!",
        "<", ">", ">>", "<<", "<<-", "<<<", "2>&1", "&>", "'", "\"", "\\", "`", "$", "$(", "${",
        "}", "$x", "$?", "x=", "~", "~/", "*", "**", "?", "[", "]", "{a,b}", "{1..5}", "..", ".",
        "/", "/etc", "a.txt", "src", "-l", "-r", "-n", "--", "E", "#", "if", "for", "\t", "\u{e9}",
    ];
    prop_oneof![
        8 => prop::sample::select(PIECES).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ]
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(piece(), 0..30).prop_map(|pieces| pieces.concat())
}

/// Returns the files beside the home: nothing there may be added, changed or removed.
fn beside(dir: &std::path::Path) -> BTreeSet<(std::path::PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parser_survives_any_line(line in prop_oneof![line(), prop::collection::vec(any::<u8>(), 0..200)]) {
        let _ = parse::parse(&line);
        let _ = parse::input_state(&line);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_line_leaves_the_home(line in line()) {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("marker"), "the marker").unwrap();
        let root = outside.path().join("home");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("a.txt"), "1\n2\n").unwrap();
        std::fs::create_dir(root.join("src")).unwrap();
        std::os::unix::fs::symlink(outside.path(), root.join("out")).unwrap();
        let before = beside(outside.path());
        let limits = Limits { time: Some(Duration::from_secs(5)), ..Limits::default() };
        let home = Arc::new(MountedHome::open(&root).unwrap());
        let mut shell = Shell::new(home, root.as_os_str().as_encoded_bytes(), limits);
        let outcome = shell.run(&line);
        prop_assert_ne!(outcome.return_code, 124);
        let said = [&outcome.stdout[..], &outcome.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        prop_assert!(!said.contains("the marker"), "{said}");
        for word in ["ermission", "denied", "not permitted"] {
            prop_assert!(!said.contains(word), "{said}");
        }
        prop_assert_eq!(before, beside(outside.path()));
    }
}

#[test]
fn refused_line_sets_the_status() {
    let mut bench = Bench::new();
    for (line, status) in [
        ("if", "2\n"),
        ("sort; echo", "127\n"),
        ("X=sort; $X; echo", "127\n"),
    ] {
        bench.run(line);
        bench.writes("echo $?", status);
    }
    bench.shell.limits.time = Some(Duration::from_millis(50));
    let (silent, _kept_open) = rustix::pipe::pipe().unwrap();
    bench.shell.run_with_stdin(b"cat", Some(silent));
    bench.shell.limits.time = Some(Duration::from_secs(10));
    bench.writes("echo $?", "124\n");
}

#[test]
fn deep_nesting_is_refused() {
    let mut bench = Bench::new();
    for open in ["(", "{ ", "$(", "echo $(", "`"] {
        let line = open.repeat(100_000);
        assert_eq!(bench.run(&line).2, REFUSED_STATUS, "{open}");
    }
    // The time grows with the length, not with its square.
    let braces = format!("grep -cP '{}' a.txt", "{1".repeat(100_000));
    assert_eq!(bench.run(&braces).0, "0\n");
    let told = bench.run(&"find -exec ".repeat(50_000)).1;
    assert_eq!(told, "find: missing argument to `-exec'\n");
}
