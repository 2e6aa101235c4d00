//! `doctor`.

use clap::Args;
use serde::Serialize;

use super::exit::ExitReason;
use super::installed_parts::{InstalledPart, find_installed_parts};
use super::output::{Printer, TextStyle, count};
use crate::client::{self, HeldFor, trial};
use crate::error::Result;
use crate::exec::program::sandbox::{Backend, Launcher, MachineCapability, probe};

/// Arguments of `trumanfs doctor`.
#[derive(Args, Debug)]
pub(super) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct DoctorReport {
    /// Whether homes can be mounted.
    mount: bool,
    /// Whether programs can be run in a sandbox.
    sandbox: bool,
    /// What makes the sandbox, where nobody asks for another backend.
    backend: Option<&'static str>,
    /// The shell that runs lines of `serve mcp` without a policy.
    shell: &'static str,
    /// The trials for homes.
    mounting: Vec<MachineCapability>,
    /// The trials for sandboxes.
    capabilities: Vec<MachineCapability>,
    /// The links that git tracks in the repository around the working directory, and a mounted home hides.
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden_links: Option<usize>,
    /// The parts that are installed beside the program.
    installed: Vec<InstalledPart>,
}

/// Tries what this machine can do for homes and for sandboxes, and looks for what is installed. Ends with 1 where no
/// home can be mounted or no sandbox made.
pub(super) fn doctor(args: &DoctorArgs) -> Result<ExitReason> {
    let mounting = try_mounting();
    let found = probe(&Launcher::of_this_program());
    let report = DoctorReport {
        mount: mounting
            .iter()
            .all(|one| !one.needed || one.works == Some(true)),
        sandbox: found.backend.is_some(),
        backend: found.backend.map(Backend::name),
        shell: match found.backend {
            Some(_) => "bash",
            None => "bundled",
        },
        mounting,
        capabilities: found.capabilities,
        hidden_links: hidden_links(),
        installed: find_installed_parts(),
    };
    let mut out = Printer::new();
    if args.json {
        out.json(&report)?;
    } else {
        print(&report, &mut out);
    }
    Ok(if report.mount && report.sandbox {
        ExitReason::Ok
    } else {
        ExitReason::Nothing
    })
}

/// Counts the links that git tracks here, and that a mounted home hides.
fn hidden_links() -> Option<usize> {
    let here = std::env::current_dir().ok()?;
    let (_, hidden) = client::hidden_around(&here)?;
    Some(hidden.links)
}

/// Tries what a home needs, one after the other: the kernel, the device, and a home itself.
fn try_mounting() -> Vec<MachineCapability> {
    let kernel = trial::try_kernel().map(|release| {
        format!("Linux {release}; homes need 5.6, sandboxes 5.12, data at the disk's speed 6.9")
    });
    let mut all = vec![capability("kernel", kernel)];
    let device = trial::try_device().map(|()| "/dev/fuse can be opened".to_owned());
    all.push(capability("device", device));
    if all.iter().any(|one| one.works == Some(false)) {
        all.push(MachineCapability {
            works: None,
            ..capability(
                "mount",
                Ok("not tried, because something before it failed".to_owned()),
            )
        });
        return all;
    }
    let mount = trial::try_mount(HeldFor::Host).map(|home| {
        let data = if home.passthrough {
            "data moves at the disk's speed (passthrough)"
        } else {
            "data goes through the daemon (passthrough takes root and Linux 6.9)"
        };
        format!("a home was mounted, used and unmounted; {data}")
    });
    let is_refused = mount.is_err();
    all.push(capability("mount", mount));
    if is_refused {
        let own = trial::try_mount(HeldFor::Sandboxes).map(|_| {
            "`agent` and `run` have one all the same, in a user namespace of its own".to_owned()
        });
        all.push(MachineCapability {
            needed: false,
            ..capability("home of sandboxes", own)
        });
    }
    all
}

/// Describes what came of an attempt.
fn capability(name: &'static str, tried: Result<String>) -> MachineCapability {
    let works = Some(tried.is_ok());
    let (found, remedy) = match tried {
        Ok(found) => (found, None),
        Err(error) => {
            let (what, remedy) = error.into_words();
            (what, Some(remedy))
        }
    };
    MachineCapability {
        name,
        works,
        needed: true,
        found,
        remedy,
    }
}

fn print(report: &DoctorReport, out: &mut Printer) {
    for one in report.mounting.iter().chain(&report.capabilities) {
        let (sign, style) = match one.works {
            Some(true) => ("ok", TextStyle::Added),
            Some(false) if one.needed => ("FAILED", TextStyle::Removed),
            Some(false) => ("without", TextStyle::Changed),
            None => ("-", TextStyle::Faint),
        };
        print_entry(
            out,
            (sign, style),
            one.name,
            &one.found,
            one.remedy.as_deref(),
        );
    }
    let lines = match report.shell {
        "bash" => {
            "`serve mcp` runs lines in bash, in a sandbox, unless it gets --policy or --shell"
        }
        _ => "`serve mcp` runs lines in the bundled shell, for there is no sandbox",
    };
    print_entry(out, ("ok", TextStyle::Added), "lines", lines, None);
    for one in &report.installed {
        let sign = if one.remedy.is_none() {
            ("ok", TextStyle::Added)
        } else {
            ("without", TextStyle::Changed)
        };
        let found = one.found.as_deref().unwrap_or("not found");
        print_entry(out, sign, one.name, found, one.remedy.as_deref());
    }
    if let Some(links) = report.hidden_links.filter(|links| *links > 0) {
        let links = count(links as u64, "link");
        let found = format!("{links} of the repository here: a mounted home hides them");
        let remedy = "git in a home takes them for deleted. `trumanfs agent` shows all, `mount --symlinks inside` some.";
        print_entry(
            out,
            ("without", TextStyle::Changed),
            "links",
            &found,
            Some(remedy),
        );
    }
    let homes = if report.mount {
        "Homes can be mounted."
    } else {
        "No home can be mounted."
    };
    let bwrap = report.capabilities.iter();
    let mut bwrap = bwrap.filter(|one| one.name == Backend::Bwrap.name());
    let programs = match report.backend {
        Some(name) if name == Backend::Namespaces.name() => "Programs can be run in a sandbox.",
        Some(_) => "Programs can be run in a sandbox that bwrap makes.",
        None if bwrap.any(|one| one.works == Some(true)) => {
            "In homes that are root's no program can be run: bwrap makes sandboxes only in homes of others (--owner USER)."
        }
        None => "No program can be run: there is no sandbox, and nothing runs without one.",
    };
    out.line(format_args!("{homes} {programs}"));
}

fn print_entry(
    out: &mut Printer,
    (sign, style): (&str, TextStyle),
    name: &str,
    found: &str,
    remedy: Option<&str>,
) {
    let sign = out.style(style, &format!("{sign:8}"));
    out.line(format_args!("{sign}{name:16}{found}"));
    if let Some(remedy) = remedy {
        out.line(format_args!("{:24}{remedy}", ""));
    }
}
