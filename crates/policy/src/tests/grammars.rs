//! Additions of a policy to the grammars of tools.

use super::*;

fn problems(text: &str) -> Vec<String> {
    let examined = Policy::examine(text.as_bytes(), "p.yaml");
    examined.problems.iter().map(ToString::to_string).collect()
}

fn check(text: &str, lines: &[(&str, bool)]) {
    let policy = Policy::parse(text.as_bytes(), "p.yaml").unwrap();
    for (line, allowed) in lines {
        let verdict = decide_line(&policy, line);
        assert_eq!(verdict.is_ok(), *allowed, "{line}: {verdict:?}");
    }
}

#[test]
fn a_policy_gives_a_tool_its_grammar() {
    let text = "
terraform:
  grammar:
    clusters: false
    dashed_values: true
    text: -var -target
    path: [-chdir, -var-file]
    attached: -lock
    aliases: { apply: deploy ap }
    deny_tokens: -destroy
    subcommands: { plan import: { text: -note } }
  root_flags: [-chdir]
  subcommands:
    plan: { flags: [-var, -var-file, -lock, -note] }
    apply: { flags: [-var, -note, -destroy] }
tf: { validator: terraform, flags: [-var, -var-file, -v, -a] }
shell: { grammar: { arguments: texts, flags_end: true }, flags: [-x] }
";
    check(
        text,
        &[
            ("terraform -chdir src plan -var a=/etc/x", true),
            ("terraform -chdir /etc plan", false),
            ("terraform plan -var -x", true),
            ("terraform plan -var-file ../../x", false),
            ("terraform plan -lock=false", true),
            ("terraform plan -lock /etc/x", false),
            ("terraform plan -note /etc/x", true),
            ("terraform apply -note /etc/x", false),
            ("terraform ap -var /etc", true),
            ("terraform apply -destroy", false),
            ("tf -var /etc/x", true),
            ("tf -var-file /etc/x", false),
            ("tf -va", false),
            ("shell -x -y /etc/x", false),
            ("shell -x y -z /etc/x", true),
        ],
    );
}

#[test]
fn a_policy_adds_flags_to_a_known_tool() {
    let text = "
git:
  grammar:
    path: --where
    deny_tokens: --evil
    subcommands: { commit: { text: --note } }
  subcommands:
    commit: { flags: [--note, --where, -m, --evil, -F] }
    status: { flags: [--note, --evil] }
npm: { grammar: { text: --banner }, subcommands: { ci: { flags: [--banner, -s] } } }
find: { grammar: { text: -newerat -exec }, flags: [-newerat, -name, -exec] }
";
    check(
        text,
        &[
            ("git commit --note /etc/x", true),
            ("git commit --note --evil", false),
            ("git commit --note --where", false),
            ("git commit --where ext::sh", false),
            ("git commit --where /etc", false),
            ("git commit -m --where", true),
            ("git commit -F /etc/x", false),
            ("git status --note /etc/x", false),
            ("git status --evil", false),
            ("npm ci --banner /etc/x", true),
            ("npm ci -sx", false),
            ("find . -newerat /etc", true),
            ("find . -exec id", false),
        ],
    );
}

#[test]
fn additions_stand_beside_a_shipped_policy() {
    let text = "
'*': { extends: default }
git:
  grammar: { subcommands: { commit: { text: --note } } }
  subcommands: { commit: { flags: [--note, -m] } }
";
    check(
        text,
        &[
            ("git commit --note /etc/x -m x", true),
            ("git commit -F x", false),
            ("git status -s", true),
            ("git log --output=/etc/x", false),
            ("find . -exec id", false),
        ],
    );
}

/// Nothing that a shipped grammar says can be changed, so no addition allows what it refuses.
#[test]
fn a_policy_changes_nothing_of_a_known_tool() {
    let known = "is known here already";
    for (keys, said) in [
        ("git: { grammar: { text: -F } }", known),
        (
            "git: { grammar: { subcommands: { commit: { text: -F } } } }",
            known,
        ),
        (
            "git: { grammar: { subcommands: { a commit: { none: -m } } } }",
            known,
        ),
        ("sort: { grammar: { text: -o } }", known),
        ("sort: { grammar: { none: --key } }", known),
        ("npm: { grammar: { text: --no-save } }", known),
        ("npm: { grammar: { text: --no-new } }", known),
        ("dotnet: { grammar: { text: -o } }", known),
        ("x: { validator: sort, grammar: { text: -T } }", known),
        (
            "a: { grammar: { path: -x } }\nb: { validator: a, grammar: { text: -x } }",
            known,
        ),
        (
            "git: { grammar: { words: paths } }",
            "git.grammar.words: unknown key",
        ),
        ("git: { grammar: { root_flags: true } }", "unknown key"),
        (
            "git: { grammar: { aliases: { status: st } } }",
            "unknown key",
        ),
        ("git: { grammar: { script_flags: -x } }", "unknown key"),
        (
            "git: { grammar: { subcommands: { log: { script_flags: -x } } } }",
            "unknown key",
        ),
        ("tar: { grammar: { bare_flags: false } }", "unknown key"),
        ("cargo: { grammar: { dashed_values: true } }", "unknown key"),
        ("npx: { grammar: { greedy: false } }", "unknown key"),
        ("x: { grammar: { like: git } }", "unknown key"),
        ("x: { grammar: { environment: { A: b } } }", "unknown key"),
        ("pwsh: { grammar: { text: -x } }", "no grammar judges"),
        ("'*': { grammar: { text: -x } }", "unknown key"),
        ("npx: { grammar: { attached: --foo } }", "unknown key"),
        (
            "node: { grammar: { subcommands: { a: { attached: --foo } } } }",
            "unknown key",
        ),
        (
            "x: { grammar: [a] }",
            "x.grammar: a list stands here; a map",
        ),
        (
            "x: { grammar: { text: a } }",
            "x.grammar.text: `a` is no flag",
        ),
        (
            "x: { grammar: { text: -a, path: -a } }",
            "stands here twice",
        ),
    ] {
        let problems = problems(keys);
        assert!(
            problems.iter().any(|problem| problem.contains(said)),
            "{keys}: {problems:?}"
        );
    }
}
