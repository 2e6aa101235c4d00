//! Generates lines of bash from a seed: quoting, expansion, redirects, globs, lists, supported commands and some
//! unsupported ones.
//!
//! Real bash runs them as well, perhaps as root: no word begins with a slash, climbs with `..`, or puts a slash after
//! an expansion that may be empty, and nothing removes the tree's own root. Standard error is discarded, since its
//! wording differs by decision.

/// A generator of lines.
pub(crate) struct Lines(u64);

const NAMES: &[&str] = &[
    "README.md",
    "src",
    "src/main.rs",
    "docs",
    "docs/guide.md",
    "docs/short.txt",
    "data/fruit.txt",
    "data/numbers.txt",
    "empty",
    "nope",
    "new",
    "with\\ space",
    "'with space/a file.txt'",
    "-dash.txt",
    "./-dash.txt",
    "data/zero",
    ".settings",
    "a",
    "b",
    "src/new",
    "nope/x",
    "run.sh/x",
    "src/./util",
    "./docs",
    "data/deep",
];
const GLOBS: &[&str] = &[
    "*.md",
    "*",
    "src/*",
    "data/*.txt",
    "d*",
    "[a-r]*",
    "*.none",
    "'*'",
    "\\*",
    "src/*/*.py",
    "?EADME.md",
    "[!d]*.md",
    ".s*",
    "data/st\\*r.txt",
    "data/[fn]*",
    "*/*.md",
    "{a,b}",
    "{1..3}",
    "x{a,b{c,d}}y",
    "{a",
    "a}",
    "{}",
    "[",
    "[]",
    "[a",
    "**",
    "d\"\"*",
    "\"d\"*",
    "{README,nope}.md",
    "[[:upper:]]*",
    "data/*[!t]",
];
const TEXTS: &[&str] = &[
    "a",
    "b",
    "'a b'",
    "\"a  b\"",
    "a\\ b",
    "''",
    "\"\"",
    "$x",
    "\"$x\"",
    "$y",
    "${x}a",
    "\"${y}\"",
    "'$x'",
    "\\$x",
    "$?",
    "\"$?\"",
    "a=b",
    "=",
    "#",
    "a#b",
    "x\\\ny",
    "'x\ny'",
    "$'a\\tb'",
    "$'it\\'s'",
    "-n",
    "--",
    "!",
    "\"~\"",
    "%",
    "]",
    "a\\\\b",
    "'a\\b'",
    "\"a\\b\"",
    "\"\\$x\"",
    "$",
    "\"$\"",
    "a$",
    "${z}",
    "\\\"",
    "-",
    "a:b",
    "\u{e9}",
];
const PATTERNS: &[&str] = &[
    "a", "TODO", "'^a'", "apple", ".", "''", "x", "'[0-9]'", "\"$x\"", "1",
];

impl Lines {
    /// Makes a generator; equal seeds make equal lines.
    pub(crate) fn new(seed: u64) -> Lines {
        Lines(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    fn one(&mut self, of: &[&str]) -> String {
        of[self.below(of.len())].to_owned()
    }

    /// Returns the next line.
    pub(crate) fn line(&mut self) -> String {
        let start = self.one(&[
            "",
            "",
            "",
            "x=1; ",
            "x='a b'; ",
            "x='*.md'; ",
            "x=; ",
            "y=src x=a\\ b; ",
            "cd src; ",
        ]);
        format!("{start}{}", self.list(2))
    }

    fn list(&mut self, depth: usize) -> String {
        let mut line = self.pipeline(depth);
        for _ in 0..self.below(4) {
            let join = self.one(&[
                "; ",
                "; ",
                " && ",
                " || ",
                "\n",
                " ;",
                " &&\n",
                "; # a comment\n",
            ]);
            line = format!("{line}{join}{}", self.pipeline(depth));
        }
        line
    }

    fn pipeline(&mut self, depth: usize) -> String {
        let mut line = self.stage(depth);
        if self.below(8) == 0 {
            line = format!("! {line}");
        }
        while self.below(4) == 0 {
            let pipe = self.one(&[" | ", " | ", "|"]);
            let last = self.one(&[
                "cat",
                "wc -l",
                "head -n 2",
                "tail -n 1",
                "grep a",
                "cat -n",
                "wc -c",
            ]);
            line = format!("{line}{pipe}{last}");
        }
        line
    }

    fn stage(&mut self, depth: usize) -> String {
        let inner = depth.saturating_sub(1);
        let stage = match self.below(12) {
            0 if depth > 0 => format!("({})", self.list(inner)),
            1 if depth > 0 => format!("{{ {}; }}", self.list(inner)),
            2 => self.assignment(inner),
            3 if depth > 0 => format!(
                "cat <<{0}\n{1} $x `echo b` \\$y\nE\n",
                self.one(&["E", "'E'", "\\E"]),
                self.text(inner)
            ),
            4 if self.below(3) == 0 => self.one(&[
                "nosuch a",
                "nosuch > README.md",
                "exit 3",
                "set -e",
                "[ -e nope ]",
                "test -d src",
                "read x < README.md",
                "printf a",
                ": a",
                "unset x",
                "export x",
                "\\exit",
                "if true; then echo a; fi",
                "for x in a b; do echo $x; done",
                "f() { echo a; }",
                "$x",
                "eval echo a",
                "src/main.rs",
                "return 1",
                "echo $((1+1))",
                "echo ${x:-a}",
                "x+=a",
                "shift",
            ]),
            _ => self.command(inner),
        };
        match self.below(5) {
            0 => format!("{stage} {}", self.redirect(inner)),
            _ => stage,
        }
    }

    fn assignment(&mut self, depth: usize) -> String {
        let name = self.one(&["x", "y", "z"]);
        let value = match self.below(4) {
            0 => self.one(GLOBS),
            _ => self.text(depth),
        };
        match self.below(3) {
            0 => format!("{name}={value} {}", self.command(depth)),
            _ => format!("{name}={value}"),
        }
    }

    fn command(&mut self, depth: usize) -> String {
        match self.below(22) {
            0..=4 => {
                let mut line = "echo".to_owned();
                for _ in 0..self.below(4) {
                    line = format!("{line} {}", self.argument(depth));
                }
                line
            }
            5 => format!("cat {}", self.file()),
            6 => format!("cat {} {}", self.file(), self.file()),
            7 => format!("ls {}", self.file()),
            8 => format!("head -n {} {}", self.below(4), self.file()),
            9 => format!("tail -n {} {}", self.below(4), self.file()),
            10 => format!("wc -l {}", self.file()),
            11 => format!("grep {} {}", self.one(PATTERNS), self.file()),
            12 => format!(
                "grep -c {} {} {}",
                self.one(PATTERNS),
                self.file(),
                self.file()
            ),
            13 => format!("rm {} {}", self.one(&["", "-r", "-f", "-rf"]), self.file()),
            14 => format!("mv {} {}", self.file(), self.file()),
            15 => {
                let (how, from, to) = (self.one(&["", "-r"]), self.file(), self.file());
                // How much of a directory GNU's copies into itself before it says that it cannot depends on the order of inodes.
                let top = |path: &str| {
                    path.trim_start_matches("./")
                        .split('/')
                        .next()
                        .map(str::to_owned)
                };
                match top(&from) == top(&to) || from.contains(['*', '?', '[', '{', '.']) {
                    true => format!("cp {from} {to}"),
                    false => format!("cp {how} {from} {to}"),
                }
            }
            16 => format!("mkdir {} {}", self.one(&["", "-p"]), self.one(NAMES)),
            17 => format!("touch {}", self.file()),
            18 => format!(
                "cd {}",
                self.one(&[
                    "src",
                    "docs",
                    "nope",
                    "data/deep",
                    "$y",
                    "\"$x\"",
                    "README.md"
                ])
            ),
            // One name each: the order of several is the directory's.
            19 => format!(
                "find {} -name {}",
                self.one(&["src", "docs", "nope"]),
                self.one(&["'*e.py'", "'*.md'", "*.md"])
            ),
            20 => self.one(&["true", "false"]),
            _ => format!("echo {}", self.file()),
        }
    }

    fn file(&mut self) -> String {
        match self.below(4) {
            0 => self.one(GLOBS),
            _ => self.one(NAMES),
        }
    }

    fn argument(&mut self, depth: usize) -> String {
        match self.below(4) {
            0 => self.file(),
            1 => format!("{}{}", self.text(depth), self.one(TEXTS)),
            _ => self.text(depth),
        }
    }

    fn text(&mut self, depth: usize) -> String {
        match self.below(10) {
            0 if depth > 0 => format!("$({})", self.list(depth - 1)),
            1 if depth > 0 => format!("\"$({})\"", self.list(depth - 1)),
            2 if depth > 0 => "`echo a  b`".to_owned(),
            3 if depth > 0 => "$(< docs/short.txt)".to_owned(),
            _ => self.one(TEXTS),
        }
    }

    fn redirect(&mut self, depth: usize) -> String {
        let file = match self.below(6) {
            0 => self.one(&["$x", "\"$x\"", "*.md", "{a,b}", "./new", "nope*"]),
            1 => "/dev/null".to_owned(),
            _ => self.one(NAMES),
        };
        match self.below(12) {
            0..=3 => format!("> {file}"),
            4 => format!(">> {file}"),
            5 => format!("< {file}"),
            6 => "2> /dev/null".to_owned(),
            7 => ">&1".to_owned(),
            8 => "&> /dev/null".to_owned(),
            9 => format!("<<< {}", self.text(depth)),
            10 => format!("2> /dev/null > {file}"),
            _ => format!(">| {file} < {}", self.one(NAMES)),
        }
    }
}
