//! `doctor`.

use clap::Args;
use serde::Serialize;

use super::exit::Exit;
use super::installed::{Installed, look};
use super::output::{Printer, Style};
use crate::error::Result;
use crate::exec::program::sandbox::{Backend, Capability, Launcher, probe};

/// What `trumanfs doctor` takes.
#[derive(Args, Debug)]
pub(super) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    /// Whether programs can be run in a sandbox.
    sandbox: bool,
    /// What makes the sandbox, where nobody asks for another backend.
    backend: Option<&'static str>,
    capabilities: Vec<Capability>,
    /// What is installed beside the program.
    installed: Vec<Installed>,
}

/// Says what this machine can do for sandboxes, by trying it, and what is installed. Ends with 1 where there can be no sandbox.
pub(super) fn doctor(args: &DoctorArgs) -> Result<Exit> {
    let found = probe(&Launcher::of_this_program());
    let sandbox = found.backend.is_some();
    let report = Report {
        sandbox,
        backend: found.backend.map(Backend::name),
        capabilities: found.capabilities,
        installed: look(),
    };
    let mut out = Printer::new();
    match args.json {
        true => out.json(&report)?,
        false => print(&report, &mut out),
    }
    Ok(if sandbox { Exit::Ok } else { Exit::Nothing })
}

fn print(report: &Report, out: &mut Printer) {
    for one in &report.capabilities {
        let (sign, style) = match one.works {
            Some(true) => ("ok", Style::Added),
            Some(false) if one.needed => ("FAILED", Style::Removed),
            Some(false) => ("without", Style::Changed),
            None => ("-", Style::Faint),
        };
        let sign = out.style(style, &format!("{sign:8}"));
        out.line(format_args!("{sign}{:16}{}", one.name, one.found));
        if let Some(remedy) = &one.remedy {
            out.line(format_args!("{:24}{remedy}", ""));
        }
    }
    for one in &report.installed {
        let (sign, style) = match one.remedy {
            None => ("ok", Style::Added),
            Some(_) => ("without", Style::Changed),
        };
        let sign = out.style(style, &format!("{sign:8}"));
        let found = one.found.as_deref().unwrap_or("not found");
        out.line(format_args!("{sign}{:16}{found}", one.name));
        if let Some(remedy) = &one.remedy {
            out.line(format_args!("{:24}{remedy}", ""));
        }
    }
    let end = match report.backend {
        Some(name) if name == Backend::Namespaces.name() => "Programs can be run in a sandbox.",
        Some(_) => "Programs can be run in a sandbox that bwrap makes.",
        None => "No program can be run: there is no sandbox, and nothing runs without one.",
    };
    out.line(format_args!("{end}"));
}
