//! Comparisons of generated patterns with the machine's `find -regex` and `grep -P`: the same result, or a refusal.
//! `TRUMANFS_PATTERNS` says how many.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::process::{Command, Stdio};

use crate::commands::tests::Bench;
use crate::commands::{find, grep};

fn wanted() -> usize {
    let wanted = std::env::var("TRUMANFS_PATTERNS");
    wanted.map_or(500, |number| number.parse().unwrap())
}

/// A generator of patterns.
struct PatternSeed(u64);

impl PatternSeed {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

const DIALECTS: &[&str] = &[
    "findutils-default",
    "ed",
    "emacs",
    "gnu-awk",
    "grep",
    "posix-awk",
    "awk",
    "posix-basic",
    "posix-egrep",
    "egrep",
    "posix-extended",
    "posix-minimal-basic",
    "sed",
];

const PATH_PIECES: &[&str] = &[
    "a",
    "b",
    "a",
    "b",
    "A",
    "1",
    ".",
    ".*",
    "*",
    "+",
    "?",
    "\\+",
    "\\?",
    "(",
    ")",
    "\\(",
    "\\)",
    "\\(a",
    "(b",
    "|",
    "\\|",
    "{",
    "}",
    "\\{",
    "\\}",
    "{2}",
    "{1,2}",
    "{,1}",
    "{1,",
    "\\{2\\}",
    "\\{1,2\\}",
    "{}",
    "^",
    "$",
    "[ab]",
    "[^a]",
    "[",
    "]",
    "[a-b]",
    "[b-a]",
    "[Z-a]",
    "[_-z]",
    "[[:alpha:]]",
    "[[:upper:]]",
    "[]a]",
    "[a\\]",
    "[\\]]",
    "[a-",
    "[[.a.]-b]",
    "[[=a=]]",
    "\\w",
    "\\W",
    "\\s",
    "\\S",
    "\\b",
    "\\B",
    "\\<",
    "\\>",
    "\\`",
    "\\'",
    "\\",
    "\\1",
    "\\.",
    "\\d",
    "\n",
    "_",
    "-",
    ",",
    "/",
    " ",
];

/// Paths that are looked for: each a file, given as a starting point.
const PATHS: &[&str] = &[
    "a", "b", "aa", "ab", "aab", "abab", "A", "aB", "1", "a1", "a2", "a*", "a+b", "a?", "*", "+",
    "*a", "+b", "a(b", "a)", ")", "a|b", "|", "{", "{2}", "a{2}", "a{1,", "}", "a^b", "^", "$",
    "a$", "[", "]", "a]", "[a", "a.b", "a\\", "\\", "a\nb", "\n", "a b", "_", "a_b", "a-b", "d",
    "w", "`", "'", "<", "a,b", "Z", "z", "1,", "\\1",
];

/// Compares both for a pattern. Returns whether it was refused.
#[track_caller]
fn same_paths(bench: &mut Bench, dialect: &str, test: &str, pattern: &str) -> bool {
    let mut words = vec!["find"];
    words.extend(PATHS);
    words.extend(["-maxdepth", "0", "-regextype", dialect, test, pattern]);
    let ours: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let literal: Vec<_> = ours.iter().skip(1).cloned().map(Some).collect();
    if find::find_unsupported(&literal).is_some() {
        return true;
    }
    let (out, err, status) = bench.call(&ours, "");
    let real = real(bench, &words, b"");
    assert_eq!((out, status), real, "{dialect} {test} {pattern:?}: {err}");
    false
}

/// Runs a program of the machine in the bench's directory.
fn real(bench: &Bench, words: &[&str], stdin: &[u8]) -> (String, u8) {
    use std::io::Write as _;
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(bench.dir.path());
    command.env("LC_ALL", "C").stderr(Stdio::null());
    let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = streams.spawn().unwrap();
    // Less than a pipe holds. It may have ended already, because of its pattern.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text, u8::try_from(output.status.code().unwrap()).unwrap())
}

fn pattern_of(pieces: &[&str], seed: &mut PatternSeed) -> String {
    (0..=seed.below(5))
        .map(|_| pieces[seed.below(pieces.len())])
        .collect()
}

#[test]
fn find_regex_matches_as_in_gnu() {
    let version = Command::new("find").arg("--version").output();
    if !version.is_ok_and(|version| version.stdout.starts_with(b"find (GNU findutils) 4.")) {
        crate::need::skip!("tools", "needs GNU find 4");
    }
    let mut bench = Bench::new();
    for path in PATHS {
        bench.put(path, "");
    }
    let mut seed = PatternSeed(0x5eed_0001);
    let mut refused = 0;
    for number in 0..wanted() {
        let pattern = pattern_of(PATH_PIECES, &mut seed);
        let dialect = DIALECTS[number % DIALECTS.len()];
        let test = ["-regex", "-iregex"][seed.below(2)];
        refused += usize::from(same_paths(&mut bench, dialect, test, &pattern));
    }
    assert!(refused * 8 < wanted(), "{refused} are refused");
    // Patterns that generated ones found, or that readers of two manuals confuse.
    for (dialect, pattern) in [
        ("emacs", "a{2}"),
        ("emacs", "a\\{2\\}"),
        ("emacs", ".*[[:alpha:]]"),
        ("emacs", "a.b"),
        ("findutils-default", "a.b"),
        ("findutils-default", "\\(a\\|b\\)+"),
        ("findutils-default", "(a|b)+"),
        ("posix-basic", "a**"),
        ("posix-extended", "*a"),
        ("posix-extended", "^*a"),
        ("egrep", "*a"),
        ("egrep", "a{}"),
        ("grep", "\\`^*{"),
        ("grep", "a\nb"),
        ("posix-awk", "[\\]]"),
    ] {
        assert!(!same_paths(&mut bench, dialect, "-regex", pattern));
    }
    for (dialect, pattern) in [
        ("findutils-default", "\\(a\\)\\1"),
        ("posix-extended", "(a)\\1"),
        ("egrep", "(*)"),
    ] {
        assert!(same_paths(&mut bench, dialect, "-regex", pattern));
    }
    assert!(same_paths(&mut bench, "sed", "-iregex", "\\d"));
}

const PERL_PIECES: &[&str] = &[
    "a",
    "b",
    "a",
    "b",
    "c",
    "A",
    "_",
    "1",
    "-",
    ".",
    ".*",
    ".*?",
    "*",
    "+",
    "?",
    "*?",
    "+?",
    "??",
    "{2}",
    "{1,2}",
    "{1,}?",
    "{0}",
    "{1",
    "}",
    "^",
    "$",
    "|",
    "(",
    ")",
    "(?:",
    "(?i)",
    "(?i:",
    "(?-i)",
    "(?x) ",
    "(?s)",
    "(?m)",
    "(?U)",
    "(?<n>",
    "(?P<m>",
    "(?|",
    "(?#c)",
    "(a|ab)",
    "(?:b|)",
    "(a|b)*",
    "(?:a|ab)(?:c|bcd)?",
    "[ab]",
    "[^a]",
    "[a-c]",
    "[-a]",
    "[]a]",
    "[^]a]",
    "[\\d_]",
    "[\\w-]",
    "[a\\]b]",
    "[[:alpha:]]",
    "[[:^alpha:]]",
    "[[:upper:]_]",
    "[^[:digit:]]",
    "[[:word:]]",
    "[a-c-e]",
    "[\\s\\S]",
    "[\\x61-\\x63]",
    "[b-a]",
    "[\\d-a]",
    "[a",
    "\\d",
    "\\D",
    "\\w",
    "\\W",
    "\\s",
    "\\S",
    "\\h",
    "\\H",
    "\\v",
    "\\V",
    "\\N",
    "\\b",
    "\\B",
    "\\A",
    "\\Z",
    "\\z",
    "\\t",
    "\\r",
    "\\n",
    "\\e",
    "\\x61",
    "\\x{62}",
    "\\061",
    "\\0",
    "\\cA",
    "\\Qa.b\\E",
    "\\Q*\\E",
    "\\E",
    "\\.",
    "\\*",
    "\\\\",
    "\\/",
    "\\<",
    "\\y",
    "\\K",
    "\\G",
    "\\1",
    "(?=a)",
    "(?<!a)",
    "(?>a)",
    "a++",
    "(?R)",
    "\"[^\"]*\"",
    "foo\\w*",
    "(foo|foobar)",
    "[0-9]+",
    "\\s+",
    " ",
    "#",
];

/// A text whose lines most of those pieces match in.
const PERL_TEXT: &[u8] = b"\na\nb\naa\nab\nabab\nabc\nabcd\nA\naB\nAb a\n_\na_b\n1\n12\n1,2,3,\na-b\na.b\n*\na*b\n \nb a\n\
    \ta\na\r\n\x01\n\x1b\nfoo\nfoobar\nfoo bar\nFoo\nbarfoo\n(a)\na)\n[a]\n]\n{2}\na{2}\na{1\n}\n^a\na$\na|b\n\\\na\\b\n\
    <\n\"x\" \"y\"\nx#y\n\xc3\xa9\nb\xa0a\n\x85\n0\n  a  b  \nc-e\ncab\naaab\nbbb\n";

/// Compares both for options and a pattern. Returns whether it was refused.
#[track_caller]
fn same_lines(bench: &mut Bench, options: &str, pattern: &str) -> bool {
    let words = ["grep", options, "-e", pattern];
    let ours: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let literal: Vec<_> = ours.iter().skip(1).cloned().map(Some).collect();
    if grep::find_unsupported(&literal).is_some() {
        return true;
    }
    let (out, err, status) = bench.call(&ours, PERL_TEXT);
    let mut expected = real(bench, &words, PERL_TEXT);
    if expected != (out.clone(), status) && expected.1 < 2 && !options.contains(['w', 'x']) {
        // PCRE's compiler to machine code searches some expressions from a wrong place: `b(?:b|)>*bb` in `bbb`.
        let verbs = "(*NO_JIT)(*NO_START_OPT)";
        expected = real(
            bench,
            &["grep", options, "-e", &format!("{verbs}{pattern}")],
            PERL_TEXT,
        );
    }
    assert_eq!((out, status), expected, "{options} {pattern:?}: {err}");
    false
}

#[test]
fn perl_expressions_match_as_in_gnu() {
    let version = Command::new("grep")
        .args(["-P", "\\d", "/dev/null"])
        .output();
    if !version.is_ok_and(|output| output.status.code() == Some(1)) {
        crate::need::skip!("tools", "needs GNU grep with PCRE");
    }
    let mut bench = Bench::new();
    let mut seed = PatternSeed(0x5eed_0002);
    let mut refused = 0;
    for _ in 0..wanted() {
        let pattern = pattern_of(PERL_PIECES, &mut seed);
        let options = [
            "-nP", "-noP", "-noP", "-niP", "-nwP", "-nxP", "-nowP", "-noiP",
        ];
        let options = options[seed.below(options.len())];
        refused += usize::from(same_lines(&mut bench, options, &pattern));
    }
    assert!(refused * 2 < wanted(), "{refused} are refused");
    for pattern in [
        "foo|foobar",
        "a|ab",
        "a.*?b",
        "(?i)FOO(?-i)bar",
        "^\\s*(?:[a-c]|\\d+),?$",
        "b(?:b|)>*bb",
        "\\bfoo\\b",
        "{",
        "a{,x}",
    ] {
        assert!(!same_lines(&mut bench, "-noP", pattern), "{pattern}");
    }
}

#[test]
fn unsupported_perl_expressions_are_refused_by_name() {
    for (options, pattern, what) in [
        ("-P", "(?<=x)a", "lookbehind, (?<=…) or (?<!…),"),
        ("-P", "a(?!b)", "lookahead, (?=…) or (?!…),"),
        ("-oP", "name: \\K\\w+", "\\K"),
        ("-P", "(a)\\1", "a back-reference, \\1,"),
        ("-P", "(?<n>a)\\k<n>", "a back-reference, \\g or \\k,"),
        ("-P", "a++", "a possessive quantifier"),
        ("-P", "(?>a|ab)c", "an atomic group, (?>…),"),
        ("-P", "\\((?R)?\\)", "recursion, such as (?R) or (?1),"),
        ("-P", "(a)?(?(1)b|c)", "a conditional, (?(…)…),"),
        ("-P", "a(?C1)b", "a callout, (?C),"),
        ("-P", "a(*SKIP)b", "a verb, such as (*SKIP),"),
        ("-P", "\\p{Lu}", "a Unicode property, \\p or \\P,"),
        ("-P", "\\Ga", "\\G"),
        ("-P", "a\\Rb", "\\R"),
        (
            "-P",
            "a{,3}",
            "a quantifier without its first number, or with spaces,",
        ),
        (
            "-oP",
            "(a*)*",
            "with -o a repetition of something that may be empty",
        ),
    ] {
        let words = [options, pattern].map(|word| Some(word.as_bytes().to_vec()));
        let rejection = grep::find_unsupported(&words);
        let message = rejection.map(|rejection| String::from_utf8(rejection.message).unwrap());
        let expected = format!(
            "bash: grep -P: {what} is not supported; use grep -E without it, or python3 -c"
        );
        assert_eq!(message, Some(expected), "{pattern}");
    }
    // Where only lines are selected, the order of trying does not matter.
    let words = ["-P", "(a*)*"].map(|word| Some(word.as_bytes().to_vec()));
    assert!(grep::find_unsupported(&words).is_none());
}
