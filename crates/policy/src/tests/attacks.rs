//! Command lines that once passed, or would have by a wrong grammar.

use super::*;

/// Returns the rule that decides about a line.
fn rule(policy: &Policy, line: &str) -> String {
    match decide_line(policy, line) {
        Ok(allowed) => format!("allowed by {}", allowed.rule),
        Err(refused) => refused.rule,
    }
}

/// npx-cli.js passes over the word behind a flag that is not on its list of switches, and reads the flags of the package
/// behind that as its own: `-p evil` then names a package.
#[test]
fn npx_reads_no_flag_behind_a_package() {
    let flags = "{ --no: false, --foo: false, --no-color: attached, --no-install: false, -q: false, -y: false, --color: false, --stream: attached, -p: text, -n: false }";
    let list = "[--no, --foo, --no-color, --no-install, -q, -y, --color, --stream, -p, -n]";
    for flags in [flags, list] {
        check_npx(flags);
    }
}

fn check_npx(flags: &str) {
    let text = format!(
        "npx:\n  flags: {flags}\n  packages:\n    typescript: {{ flags: [-p] }}\n    eslint: {{}}\n"
    );
    let policy = Policy::parse(text.as_bytes(), "p.yaml").unwrap();
    for line in [
        "npx --no typescript -p evil",
        "npx --no=evil typescript",
        "npx --foo typescript -p evil",
        "npx -n --no-install typescript",
        "npx --no-color typescript -p evil",
        "npx --stream typescript -p evil",
        "npx -qy typescript -p evil",
        "npx -qtypescript typescript -p evil",
        "npx -ptypescript typescript -p evil",
    ] {
        assert_eq!(rule(&policy, line), "npx.flags", "{line}");
    }
    for line in [
        "npx --no-install typescript -p x",
        "npx -q -y typescript -p x",
        "npx --color typescript -p x",
        "npx -p typescript -- typescript -p x",
    ] {
        assert_eq!(
            rule(&policy, line),
            "allowed by npx.packages.typescript",
            "{line}"
        );
    }
}

/// nopt reads `-sg` as `-s -g`, so `g` is no value of `-s`.
#[test]
fn letters_behind_a_switch_of_npm_are_flags() {
    let text = "npm:\n  root_flags: [-s]\n  subcommands: { ci: { flags: [-s, -d, -w] } }\n";
    let policy = Policy::parse(text.as_bytes(), "p.yaml").unwrap();
    for (line, expected) in [
        ("npm ci -sg", "npm.subcommands.ci.flags"),
        ("npm ci -sdg", "npm.subcommands.ci.flags"),
        ("npm -sg ci", "npm.root_flags"),
        ("npm ci -wx", "npm.subcommands.ci.flags"),
        ("npm ci -sd", "allowed by npm.subcommands.ci"),
        ("npm ci -w x", "allowed by npm.subcommands.ci"),
    ] {
        assert_eq!(rule(&policy, line), expected, "{line}");
    }
}

/// npm reads `--filter` as a switch, and pnpm `-w`, so the word behind it is the sub-command.
#[test]
fn npm_takes_no_value_for_flags_of_others() {
    let text = "
npm: { root_flags: [--filter, --loglevel], subcommands: { ci: {} } }
pnpm: { root_flags: [--filter, -w, --key], subcommands: { install: {}, list: {} } }
";
    let policy = Policy::parse(text.as_bytes(), "p.yaml").unwrap();
    for (line, expected) in [
        ("npm --filter publish ci", "npm.subcommands"),
        ("npm --loglevel warn ci", "allowed by npm.subcommands.ci"),
        (
            "pnpm --filter app ci",
            "allowed by pnpm.subcommands.install",
        ),
        ("pnpm -w list", "allowed by pnpm.subcommands.list"),
        ("pnpm -w publish ci", "pnpm.subcommands"),
        ("pnpm --key list install", "pnpm.root_flags"),
    ] {
        assert_eq!(rule(&policy, line), expected, "{line}");
    }
}

/// nopt takes the next word for the value of every option that is no switch, even if it begins with a dash.
#[test]
fn a_flag_of_npm_does_not_swallow_what_is_required() {
    let text = "npm: { subcommands: { ci: { flags: [--cidr, --name, --json], require_flags: [--ignore-scripts] } } }\nnpx: { flags: [--cidr, --no-install], packages: [tsc] }\n";
    let policy = Policy::parse(text.as_bytes(), "p.yaml").unwrap();
    for (line, expected) in [
        ("npm ci --cidr --ignore-scripts", "npm.subcommands.ci.flags"),
        ("npm ci --name --ignore-scripts", "npm.subcommands.ci.flags"),
        (
            "npm ci --json --ignore-scripts",
            "allowed by npm.subcommands.ci",
        ),
        ("npm ci --name x", "allowed by npm.subcommands.ci"),
        ("npx --cidr --no-install tsc", "npx.flags"),
        (
            "npx --cidr x --no-install tsc",
            "allowed by npx.packages.tsc",
        ),
    ] {
        assert_eq!(rule(&policy, line), expected, "{line}");
    }
}
