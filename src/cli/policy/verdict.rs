//! A verdict in words and as JSON.

use serde_json::{Map, Value, json};

use crate::cli::output::{Printer, bytes, quote};
use crate::exec::program::policy::{AllowedCommand, CommandRefusal};
use crate::name::escape;

/// A verdict, and the command that it is about.
pub(super) struct ExplainedVerdict {
    /// The words, where the line has any.
    pub(super) argv: Vec<Vec<u8>>,
    /// The working directory that was asked for.
    pub(super) cwd: Vec<u8>,
    pub(super) verdict: Result<AllowedCommand, CommandRefusal>,
}

fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lossy_texts(words: &[Vec<u8>]) -> Vec<String> {
    words.iter().map(|word| lossy_text(word)).collect()
}

impl ExplainedVerdict {
    /// Returns the verdict as an object, with the same fields whether it allows or denies.
    pub(super) fn as_json(&self) -> Map<String, Value> {
        let value = match &self.verdict {
            Ok(allowed) => {
                let env: Map<String, Value> = allowed
                    .env
                    .iter()
                    .map(|(name, value)| (lossy_text(name), lossy_text(value).into()))
                    .collect();
                let bound: Vec<String> = allowed
                    .bind_ro
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect();
                let seconds = allowed.timeout.as_secs_f64();
                let seconds = if allowed.timeout.subsec_nanos() == 0 {
                    json!(allowed.timeout.as_secs())
                } else {
                    json!(seconds)
                };
                json!({
                    "verdict": "allow", "class": null, "rule": allowed.rule, "reason": "", "argv": lossy_texts(&allowed.argv),
                    "env": env, "cwd": lossy_text(&allowed.cwd), "timeout_s": seconds,
                    "suppress_success_output": allowed.suppress_success_output, "max_output_bytes": allowed.max_output_bytes,
                    "network": allowed.network, "bind_ro": bound, "read_only": allowed.read_only, "ptrace": allowed.ptrace,
                })
            }
            Err(refused) => json!({
                "verdict": "deny", "class": refused.class, "rule": refused.rule, "reason": refused.reason,
                "argv": lossy_texts(&self.argv), "env": null, "cwd": lossy_text(&self.cwd), "timeout_s": null,
                "suppress_success_output": null, "max_output_bytes": null, "network": null, "bind_ro": null,
                "read_only": null, "ptrace": null,
            }),
        };
        match value {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }

    /// Prints the verdict for people.
    pub(super) fn print(&self, printer: &mut Printer) {
        let allowed = match &self.verdict {
            Ok(allowed) => allowed,
            Err(refused) => {
                printer.line(format_args!(
                    "deny: {} ({})",
                    refused.rule,
                    refused.class.name()
                ));
                printer.line(format_args!("  {}", refused.reason));
                return;
            }
        };
        let words: Vec<String> = allowed.argv.iter().map(|word| quote(word)).collect();
        let hosts = allowed.network.allow.join(" ");
        printer.line(format_args!("allow: {}", allowed.rule));
        printer.line(format_args!("  runs     {}", words.join(" ")));
        printer.line(format_args!("  in       {}", escape(&allowed.cwd)));
        printer.line(format_args!(
            "  time     {} s at most",
            allowed.timeout.as_secs_f64()
        ));
        printer.line(format_args!(
            "  output   {} of each stream at most",
            bytes(allowed.max_output_bytes)
        ));
        printer.line(format_args!(
            "  network  {}",
            if hosts.is_empty() { "none" } else { &hosts }
        ));
        for path in &allowed.bind_ro {
            printer.line(format_args!("  sees     {} (read-only)", path.display()));
        }
        if allowed.read_only {
            printer.line(format_args!("  home     read-only"));
        }
        for (name, value) in &allowed.env {
            printer.line(format_args!("  {}={}", escape(name), escape(value)));
        }
    }
}
