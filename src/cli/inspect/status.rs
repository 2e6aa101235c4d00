//! `status`: what is mounted, and how it is going.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::Args;

use super::super::exit::ExitReason;
use super::super::output::{Printer, bytes, print_line, quote, warn};
use super::super::shown_time::time;
use super::metrics::{self, MetricsSource};
use crate::client::{Client, ForkOrigin, KnownMount, MountStatus, mounts};
use crate::error::Result;
use crate::exec::totals::AuditTotals;
use crate::name::{escape, unescape};

/// Arguments of `trumanfs status`.
#[derive(Args, Debug)]
pub(in crate::cli) struct StatusArgs {
    /// A home or a store; all homes of this machine where absent
    target: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print counters and durations for Prometheus, also of a store that is not mounted
    #[arg(long, conflicts_with = "json")]
    metrics: bool,
}

/// Says how mounts are going.
pub(in crate::cli) fn status(args: &StatusArgs) -> Result<ExitReason> {
    let Some(target) = &args.target else {
        return if args.metrics {
            metrics_of_all()
        } else {
            status_of_all(args.json)
        };
    };
    let client = Client::open(target)?;
    if args.metrics {
        let source = metrics_source(client.path(), client.status()?)?;
        print_metrics(&[source]);
        return Ok(ExitReason::Ok);
    }
    let status = client.status()?;
    let fork = client.forked_from()?;
    let dead = client.dead_home().filter(|_| status.is_none());
    if let Some(home) = &dead {
        say_dead(home, args.json);
    }
    match (&status, args.json) {
        (Some(status), false) => print_status(status),
        (None, false) if dead.is_some() => {}
        (None, false) => print_line(format_args!("{} is not mounted", target.display())),
        (status, true) => {
            let store = escape(client.path().as_os_str().as_bytes());
            Printer::new().json(&StoreStatus {
                fork: fork.as_ref(),
                ..StoreStatus::of(status.as_ref(), store)
            })?;
        }
    }
    if let Some(fork) = fork.filter(|_| !args.json) {
        print_origin(&fork);
    }
    Ok(match status {
        Some(_) => ExitReason::Ok,
        None => ExitReason::Nothing,
    })
}

/// A store's state, in JSON.
#[derive(serde::Serialize)]
struct StoreStatus<'a> {
    mounted: bool,
    #[serde(flatten)]
    status: Option<&'a MountStatus>,
    /// Of a store that is not mounted.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    /// Of a fork, where one store was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    fork: Option<&'a ForkOrigin>,
}

impl StoreStatus<'_> {
    fn of(status: Option<&MountStatus>, store: String) -> StoreStatus<'_> {
        StoreStatus {
            mounted: status.is_some(),
            store: status.is_none().then_some(store),
            status,
            fork: None,
        }
    }
}

fn print_origin(fork: &ForkOrigin) {
    let point = fork.point.as_deref().unwrap_or("its beginning");
    print_line(format_args!(
        "  fork        of {} as it was at {point}, {}",
        fork.origin,
        time(&fork.time)
    ));
}

/// Gathers what there is to count of a store.
fn metrics_source(store: &Path, status: Option<MountStatus>) -> Result<MetricsSource> {
    // As the daemon names it, so that a store is the same one whether it is mounted or not.
    let real = std::fs::canonicalize(store);
    let real = real.as_deref().unwrap_or(store);
    Ok(MetricsSource {
        store: escape(real.as_os_str().as_bytes()),
        status,
        totals: AuditTotals::read(store)?,
    })
}

fn print_metrics(sources: &[MetricsSource]) {
    let mut printer = Printer::new();
    printer.bytes(metrics::text(sources).as_bytes());
    printer.flush();
}

fn metrics_of_all() -> Result<ExitReason> {
    let mut sources = Vec::new();
    for status in served_mounts(false) {
        let store = unescape(&status.store).unwrap_or_default();
        let store = Path::new(OsStr::from_bytes(&store));
        match metrics_source(store, Some(status)) {
            Ok(source) => sources.push(source),
            Err(error) => warn(false, &format!("{}: {error}", path(store))),
        }
    }
    print_metrics(&sources);
    Ok(ExitReason::Ok)
}

/// Returns the homes of this machine that are served, and says of the others what is known.
fn served_mounts(as_json: bool) -> Vec<MountStatus> {
    let mut found = Vec::new();
    for mount in mounts() {
        match mount {
            KnownMount::Served(status) => found.push(*status),
            KnownMount::Dead(home) => say_dead(&home, as_json),
            KnownMount::Foreign(home) => warn(
                as_json,
                &format!("{}: mounted by another user", path(&home)),
            ),
            KnownMount::Unknown(home, error) => warn(as_json, &format!("{}: {error}", path(&home))),
        }
    }
    found
}

fn status_of_all(as_json: bool) -> Result<ExitReason> {
    let found = served_mounts(as_json);
    if as_json {
        let served = |status| StoreStatus::of(Some(status), String::new());
        let mounts: Vec<_> = found.iter().map(served).collect();
        Printer::new().json(&serde_json::json!({ "mounts": mounts }))?;
    } else {
        found.iter().for_each(print_status);
    }
    Ok(if found.is_empty() {
        ExitReason::Nothing
    } else {
        ExitReason::Ok
    })
}

/// Another user may have chosen the name: it is one line.
fn path(home: &Path) -> String {
    quote(home.as_os_str().as_bytes())
}

fn say_dead(home: &Path, as_json: bool) {
    let home = path(home);
    warn(
        as_json,
        &format!(
            "{home}: its daemon has died; `trumanfs umount {home}` cleans up, nothing is lost"
        ),
    );
}

fn print_status(status: &MountStatus) {
    if status.only_in_sandboxes {
        print_line(format_args!("a home at no path: only sandboxes enter it"));
    } else {
        print_line(format_args!("{}", status.home));
    }
    print_line(format_args!("  store       {}", status.store));
    print_line(format_args!(
        "  session     {} since {}, process {}",
        status.session, status.since, status.pid
    ));
    print_line(format_args!(
        "  changes     {} recorded; the trash takes {}, former contents {}",
        status.records,
        bytes(status.trash_bytes),
        bytes(status.kept_bytes)
    ));
    if status.refused > 0 {
        print_line(format_args!(
            "  refused     {} writes, because former contents have reached their limit (--keep-max); \
             `trumanfs trash purge --versions` makes room",
            status.refused
        ));
    }
    for notice in &status.notices {
        print_line(format_args!("  notice      {notice}"));
    }
    let words = |value: &serde_json::Value| match value {
        serde_json::Value::Object(map) => map
            .iter()
            .filter(|(_, v)| **v != serde_json::Value::Bool(false))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
        _ => Vec::new(),
    };
    let names = |value| {
        words(value)
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    print_line(format_args!("  mechanisms  {}", names(&status.mechanisms)));
    print_line(format_args!(
        "  known       {} files and directories, {} open, {} directories watched",
        status.known, status.open, status.watched
    ));
    let counts: Vec<_> = words(&status.counters)
        .into_iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    print_line(format_args!("  requests    {}", counts.join(", ")));
}
