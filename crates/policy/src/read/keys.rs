//! The keys of an entry and a sub-command, by validator: a key without an effect is an error.

use super::super::validator::Validator;

/// The keys of every program.
const PROGRAM: &[&str] = &[
    "description",
    "validator",
    "grammar",
    "default_timeout",
    "safe_env",
    "env_overrides",
    "allow_env",
    "suppress_success_output",
    "max_output_bytes",
    "network",
    "bind_ro",
    "read_only",
    "ptrace",
    "deny_global_flags",
    "require_flags",
    "match",
    "not_match",
];

/// The keys of the entry `*`.
const EVERY: &[&str] = &[
    "description",
    "default_timeout",
    "safe_env",
    "env_overrides",
    "allow_env",
    "suppress_success_output",
    "max_output_bytes",
    "network",
    "bind_ro",
];

/// The keys of every sub-command.
const SUBCOMMAND: &[&str] = &[
    "description",
    "flags",
    "allowed_flags",
    "deny_flags",
    "require_flags",
    "timeout",
    "enabled",
    "suppress_success_output",
    "network",
    "bind_ro",
    "read_only",
];

/// Returns the keys that an entry may have, in two parts.
pub(super) fn of_entry(validator: Validator) -> [&'static [&'static str]; 2] {
    let own: &[&str] = match validator {
        Validator::Every => return [EVERY, &[]],
        Validator::Generic(_) => &[
            "flags",
            "subcommands",
            "deny_subcommands",
            "root_flags",
            "allow_script_paths",
            "arguments",
            "first_argument",
            "deny_tokens",
        ],
        Validator::Python => &["flags", "modes", "allow_script_paths", "detect_venv"],
        Validator::Git => &["subcommands", "deny_subcommands"],
        Validator::Pytest => &[
            "flags",
            "allow_test_paths",
            "max_selector_args",
            "max_argv_len",
            "detect_venv",
            "disable_plugin_autoload",
        ],
        Validator::Npm => &[
            "root_flags",
            "subcommands",
            "deny_subcommands",
            "run",
            "ci",
            "install",
            "config",
        ],
        Validator::Pnpm => &[
            "root_flags",
            "global_flags_before_subcommand",
            "subcommands",
            "deny_subcommands",
            "run",
            "install",
            "config",
        ],
        Validator::Lerna => &[
            "flags",
            "root_flags",
            "subcommands",
            "deny_subcommands",
            "run",
        ],
        Validator::Npx => &["flags", "packages", "allowed_packages", "command_aliases"],
        Validator::Node => &[
            "flags",
            "modes",
            "allow_script_paths",
            "allowed_entrypoints",
            "allow_test_mode",
        ],
        Validator::Dotnet => &["flags", "subcommands", "deny_subcommands", "test"],
        Validator::PowerShell => &["flags", "modes", "safe_cmdlets", "dangerous_patterns"],
    };
    [PROGRAM, own]
}

/// Returns the keys that `modes` may have.
pub(super) fn of_modes(validator: Validator) -> &'static [&'static str] {
    match validator {
        Validator::Python | Validator::PowerShell => &["repl"],
        _ => &["repl", "test", "script"],
    }
}

/// Returns the keys that a sub-command may have, in two parts.
pub(super) fn of_subcommand(validator: Validator) -> [&'static [&'static str]; 2] {
    let own: &[&str] = match validator {
        Validator::Npm | Validator::Pnpm | Validator::Lerna => &[
            "allowed_scripts",
            "scripts",
            "deny_args",
            "allow_test_paths",
            "require_no_packages",
            "get_only",
            "first_argument",
        ],
        Validator::Dotnet => &[
            "allow_test_paths",
            "allow_project_paths",
            "arguments",
            "first_argument",
        ],
        _ => &["arguments", "first_argument"],
    };
    [SUBCOMMAND, own]
}

/// The keys of a script below `scripts`.
pub(super) const SCRIPT: [&[&str]; 2] = [
    &[
        "description",
        "flags",
        "allowed_flags",
        "deny_flags",
        "timeout",
        "suppress_success_output",
    ],
    &["deny_args", "allow_test_paths"],
];
