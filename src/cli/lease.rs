//! `lease`: permissions for single tasks, as the kernel that issues and revokes them.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::exit::ExitReason;
use super::output::{Printer, count, warn};
use crate::error::{Error, Result};
use crate::exec::task::absolute_path::AbsolutePath;
use crate::exec::task::batch_lease::BatchLease;
use crate::exec::task::envelope::{Envelope, PayloadType};
use crate::exec::task::key::PrivateKey;
use crate::exec::task::lease::Lease;
use crate::exec::task::manifest::{Capability, MAX_MANIFEST_BYTES, Manifest};
use crate::exec::task::quota::TaskQuota;
use crate::exec::task::result::{TaskOutcome, TaskResult};
use crate::exec::task::revocations;
use crate::exec::task::strict::{FormatError, sha256};
use crate::exec::task::trust::TrustedKeys;
use crate::exec::task::{clock, host_files};

/// Subcommands of `trumanfs lease`.
#[derive(Subcommand, Debug)]
pub(super) enum LeaseCommand {
    /// Signs a lease for one task, for a list of tasks, or for the undo of one; prints its envelope
    Issue(LeaseIssueArgs),
    /// Adds leases to a signed list of those that count no more, or begins one
    Revoke(LeaseRevokeArgs),
}

/// Arguments of `trumanfs lease issue`.
#[derive(Args, Debug)]
pub(super) struct LeaseIssueArgs {
    /// The private key of the kernel
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// What is to be done; several manifests get one lease, by which each is carried out once
    #[arg(long, value_name = "M.json", required_unless_present = "result", num_args = 1..)]
    manifest: Vec<PathBuf>,
    /// The result that is to be taken back
    #[arg(long, value_name = "R.json", conflicts_with = "manifest")]
    result: Option<PathBuf>,
    /// The id of the task [default: the manifest's; an undo needs a new one]
    #[arg(long, value_name = "ID", required_unless_present = "manifest")]
    task_id: Option<String>,
    /// The id of the lease, by which it can be revoked [default: 128 random bits]
    #[arg(long, value_name = "ID")]
    lease_id: Option<String>,
    /// Who issues it
    #[arg(long, value_name = "NAME")]
    iss: String,
    /// The executor that it is for: the `audience` of its configuration
    #[arg(long, value_name = "NAME")]
    aud: String,
    /// What may be done [default: what the manifest or the result has]
    #[arg(long, value_name = "ID")]
    capability: Vec<String>,
    /// Where: a directory below which all paths lie
    #[arg(long, value_name = "DIR", required = true)]
    base: Vec<String>,
    /// How long it is valid, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    ttl: u64,
    /// From when on it is valid, in Unix seconds [default: now]
    #[arg(long, value_name = "TIME")]
    not_before: Option<u64>,
    /// How often it may be used [default: 1]
    #[arg(long, value_name = "N")]
    max_uses: Option<u64>,
    /// What the task may use, as in wall_ms=5000,io_bytes=1048576; the others of cpu_ms, memory_bytes and file_bytes
    /// have defaults
    #[arg(long, value_name = "NAME=N", value_delimiter = ',')]
    quota: Vec<String>,
}

/// Arguments of `trumanfs lease revoke`.
#[derive(Args, Debug)]
pub(super) struct LeaseRevokeArgs {
    /// The private key of the kernel, which signs the list
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The list; it is made where it is absent, else replaced in one step
    #[arg(long, value_name = "FILE")]
    revocations: PathBuf,
    /// Who keeps the list [default: as it says, or the key's id]
    #[arg(long, value_name = "NAME")]
    iss: Option<String>,
    /// Who may have signed the list so far, besides this key: its kernel keys that count now
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    /// The leases
    #[arg(value_name = "LEASE_ID", required = true)]
    leases: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Does what was typed.
pub(super) fn lease(command: &LeaseCommand) -> Result<ExitReason> {
    match command {
        LeaseCommand::Issue(args) => issue(args),
        LeaseCommand::Revoke(args) => revoke(args),
    }
}

/// The subject of a lease.
struct LeaseSubject {
    sha256: String,
    task_id: String,
    capability: String,
}

fn issue(args: &LeaseIssueArgs) -> Result<ExitReason> {
    let subject = match (args.manifest.as_slice(), &args.result) {
        ([file], _) => of_manifest(file, args.task_id.as_deref())?,
        ([_, _, ..], _) => return issue_batch(args),
        ([], Some(file)) => of_result(file, args.task_id.clone().unwrap_or_default())?,
        // clap asks for one of the two.
        ([], None) => {
            return Err(Error::usage(
                "a lease is for something",
                "Give --manifest or --result.",
            ));
        }
    };
    let capabilities = capabilities(args, vec![subject.capability]);
    let now = clock::now();
    let begin = args.not_before.unwrap_or(now);
    let lease = Lease {
        v: 1,
        lease_id: lease_id(args)?,
        iss: args.iss.clone(),
        aud: args.aud.clone(),
        task_id: subject.task_id,
        manifest_sha256: subject.sha256,
        capabilities,
        bases: bases(&args.base)?,
        iat: now,
        nbf: begin,
        exp: begin.saturating_add(args.ttl),
        max_uses: args.max_uses.unwrap_or(1),
        quota: quota(&args.quota)?,
    };
    print_signed(args, |key| lease.issue(key))
}

/// Signs one lease for several manifests.
fn issue_batch(args: &LeaseIssueArgs) -> Result<ExitReason> {
    if args.task_id.is_some() || args.max_uses.is_some() {
        return Err(Error::usage(
            "a lease for several manifests has no --task-id, and is used once for each",
            "Leave --task-id and --max-uses out, or issue a lease for each manifest.",
        ));
    }
    let mut subjects = Vec::new();
    for file in &args.manifest {
        let subject = of_manifest(file, None)?;
        let has_id = |other: &LeaseSubject| other.task_id == subject.task_id;
        if subjects.iter().any(has_id) {
            return Err(Error::usage(
                format!(
                    "{}: another manifest has the task_id {:?}",
                    file.display(),
                    subject.task_id
                ),
                "Give each task an id of its own: only one of them could be carried out.",
            ));
        }
        subjects.push(subject);
    }
    let mut needed: Vec<String> = subjects.iter().map(|of| of.capability.clone()).collect();
    needed.sort_unstable();
    needed.dedup();
    let now = clock::now();
    let begin = args.not_before.unwrap_or(now);
    let lease = BatchLease {
        v: 1,
        lease_id: lease_id(args)?,
        iss: args.iss.clone(),
        aud: args.aud.clone(),
        manifests: subjects.into_iter().map(|subject| subject.sha256).collect(),
        capabilities: capabilities(args, needed),
        bases: bases(&args.base)?,
        iat: now,
        nbf: begin,
        exp: begin.saturating_add(args.ttl),
        quota: quota(&args.quota)?,
    };
    print_signed(args, |key| lease.issue(key))
}

/// Prints what a lease becomes that is signed with the key of the arguments.
fn print_signed(
    args: &LeaseIssueArgs,
    issue: impl FnOnce(&PrivateKey) -> std::result::Result<Envelope, FormatError>,
) -> Result<ExitReason> {
    let envelope = issue(&PrivateKey::load(&args.key)?);
    let envelope = envelope.map_err(|why| as_usage("the lease", &why))?;
    Printer::new().line(format_args!("{}", envelope.to_text()));
    Ok(ExitReason::Ok)
}

fn lease_id(args: &LeaseIssueArgs) -> Result<String> {
    match &args.lease_id {
        Some(id) => Ok(id.clone()),
        None => Lease::new_id(),
    }
}

/// Returns the capabilities that were typed, else those that are needed, and warns of unknown ones.
fn capabilities(args: &LeaseIssueArgs, needed: Vec<String>) -> Vec<String> {
    let capabilities = match args.capability.as_slice() {
        [] => needed,
        typed => typed.to_vec(),
    };
    let is_unknown = |id: &&String| Capability::parse(id).is_none();
    for unknown in capabilities.iter().filter(is_unknown) {
        warn(
            false,
            &format!("{unknown}: no executor of trumanfs has this capability"),
        );
    }
    capabilities
}

fn as_usage(what: &str, why: &FormatError) -> Error {
    Error::usage(
        format!("{what}: {why}"),
        "docs/TASKS.md has every member of a lease.",
    )
}

fn of_manifest(file: &Path, task_id: Option<&str>) -> Result<LeaseSubject> {
    let text = host_files::read(file, MAX_MANIFEST_BYTES)?;
    let manifest = Manifest::parse(&text).map_err(|why| {
        Error::refused(
            format!("{}: {why}", file.display()),
            "An executor would refuse this manifest, whatever its lease.",
        )
    })?;
    if task_id.is_some_and(|id| id != manifest.task_id) {
        return Err(Error::usage(
            format!("{}: its task_id is {:?}", file.display(), manifest.task_id),
            "Leave --task-id out: it is the manifest's.",
        ));
    }
    Ok(LeaseSubject {
        sha256: sha256(&text),
        task_id: manifest.task_id,
        capability: manifest.capability_id,
    })
}

fn of_result(file: &Path, task_id: String) -> Result<LeaseSubject> {
    let text = host_files::read(file, PayloadType::Result.limit())?;
    let wrong = |why: &dyn std::fmt::Display| {
        Error::refused(
            format!("{}: {why}", file.display()),
            "Only what a task has done can be taken back; `trumanfs result verify` tells about a result.",
        )
    };
    let envelope = Envelope::parse(&text).map_err(|why| wrong(&why))?;
    if envelope.payload_type != PayloadType::Result {
        return Err(wrong(&"this is no result"));
    }
    let result = TaskResult::parse(&envelope.payload).map_err(|why| wrong(&why))?;
    if !matches!(result.ending, TaskOutcome::Success(_)) {
        return Err(wrong(&"the task failed and has changed nothing"));
    }
    if task_id == result.task_id {
        return Err(Error::usage(
            format!("{task_id}: this is the task that is to be taken back"),
            "An undo is a task of its own: give another --task-id.",
        ));
    }
    Ok(LeaseSubject {
        sha256: sha256(&text),
        task_id,
        capability: result.capability_id,
    })
}

fn bases(typed: &[String]) -> Result<Vec<AbsolutePath>> {
    let parse = |base: &String| AbsolutePath::parse(base).map_err(|why| as_usage("--base", &why));
    typed.iter().map(parse).collect()
}

fn quota(typed: &[String]) -> Result<TaskQuota> {
    let mut quota = TaskQuota::default();
    for limit in typed {
        let wrong = || FormatError::new(format!("{limit:?} is not NAME=N"));
        let set = limit
            .split_once('=')
            .ok_or_else(wrong)
            .and_then(|(name, value)| {
                let value = value.parse().map_err(|_| wrong())?;
                quota.set(name, value)
            });
        set.map_err(|why| as_usage("--quota", &why))?;
    }
    Ok(quota)
}

fn revoke(args: &LeaseRevokeArgs) -> Result<ExitReason> {
    let key = PrivateKey::load(&args.key)?;
    let trust = args.trust.as_deref().map(TrustedKeys::load).transpose()?;
    let revoked = revocations::revoke(
        &args.revocations,
        &key,
        trust.as_ref(),
        args.iss.as_deref(),
        &args.leases,
    )?;
    let (file, all) = (args.revocations.display(), revoked.lease_ids.len());
    let mut printer = Printer::new();
    if args.json {
        printer.json(&serde_json::json!({
            "file": file.to_string(), "iss": revoked.iss, "iat": revoked.iat, "lease_ids": revoked.lease_ids,
        }))?;
        return Ok(ExitReason::Ok);
    }
    let all = count(u64::try_from(all).unwrap_or(u64::MAX), "revoked lease");
    printer.line(format_args!("{file}: {all}"));
    Ok(ExitReason::Ok)
}
