//! `mount` and `umount`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};

use super::argument_values::ByteSize;
use super::escaping::print_error;
use super::exit::ExitReason;
use super::output::count;
use crate::client::{self, HiddenFromGit};
use crate::daemon::{self, AccessTimes, HomeMountFlags, KeepOptions, MountOptions};
use crate::error::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SymlinksArg {
    /// They do not exist and cannot be made
    Hidden,
    /// Those that cannot lead out of the store exist
    Inside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TrashArg {
    /// `.trash` is reachable by name only
    Unlisted,
    /// `.trash` shows in listings
    Listed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KeepArg {
    /// What is removed or replaced, and the former contents of what is overwritten
    Versions,
    /// Only what is removed or replaced
    Trash,
}

/// Arguments of `trumanfs mount`.
#[derive(Args, Debug)]
pub(super) struct MountArgs {
    /// The directory that backs the home
    #[arg(value_hint = ValueHint::DirPath)]
    store: PathBuf,
    /// The directory to mount it at
    #[arg(value_hint = ValueHint::DirPath)]
    home: PathBuf,
    /// Options as mount(8) passes them: any of the flags below with `_` for `-`, and ro, rw, noexec, exec
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<String>,
    /// Stay in the foreground, with messages on stderr
    #[arg(long, short = 'f')]
    foreground: bool,
    /// Mount for one user: only they get in, and act with their own rights (root only)
    #[arg(long, value_name = "USER", conflicts_with = "allow_other")]
    owner: Option<String>,
    /// Let every user in, as the permissions of each file say
    #[arg(long)]
    allow_other: bool,
    /// Nothing can be changed; with a pattern (gitignore syntax), what it names cannot
    #[arg(long, value_name = "PATTERN", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    read_only: Vec<String>,
    /// What the pattern names does not exist (gitignore syntax, relative to the store)
    #[arg(long, value_name = "PATTERN")]
    hide: Vec<String>,
    /// What can be made again, as target/ or node_modules/: nothing is kept of what programs in the home make there and
    /// remove or overwrite (gitignore syntax, relative to the store)
    #[arg(long, value_name = "PATTERN")]
    volatile: Vec<String>,
    /// What becomes of symlinks
    #[arg(long, value_enum, default_value = "hidden")]
    symlinks: SymlinksArg,
    /// Whether .trash shows in listings
    #[arg(long, value_enum, default_value = "unlisted")]
    trash: TrashArg,
    /// How long, in seconds, the kernel may believe what it was told, instead of watching the store for changes
    #[arg(long, value_name = "SECONDS")]
    cache_ttl: Option<f64>,
    /// Offer extended attributes (user.*)
    #[arg(long)]
    xattr: bool,
    /// Sync each record and each former content before what it is for, against power cuts
    #[arg(long)]
    durable: bool,
    /// What is kept of what a program destroys
    #[arg(long, value_enum, default_value = "versions")]
    keep: KeepArg,
    /// The most that former contents may take together, as in 500M or 20G; at the limit, writes that would destroy more
    /// fail
    #[arg(long, value_name = "SIZE")]
    keep_max: Option<ByteSize>,
    /// At the limit, delete the oldest former contents instead
    #[arg(long, requires = "keep_max")]
    keep_evict: bool,
    /// Files up to this size are copied when they are opened for writing; of bigger ones only what is overwritten is
    #[arg(long, value_name = "SIZE", default_value = "4M")]
    copy_up_to: ByteSize,
    /// Leave it to the kernel where requests are answered, even while one program sends many
    #[arg(long)]
    no_follow: bool,
    /// Serve all data through the daemon, even where the kernel could go to the files by itself
    #[arg(long)]
    no_passthrough: bool,
}

/// Arguments of `trumanfs umount`.
#[derive(Args, Debug)]
pub(super) struct UmountArgs {
    /// The home
    #[arg(value_hint = ValueHint::DirPath)]
    home: PathBuf,
    /// Take it out of sight at once, although it is in use
    #[arg(long, short = 'l')]
    lazy: bool,
}

/// Mounts.
pub(super) fn mount(mut args: MountArgs) -> Result<ExitReason> {
    let mut flags = HomeMountFlags::default();
    for option in std::mem::take(&mut args.options)
        .iter()
        .flat_map(|list| list.split(','))
    {
        apply(option, &mut args, &mut flags)?;
    }
    flags.allow_other = args.allow_other;
    flags.read_only |= args.read_only.iter().any(String::is_empty);
    args.read_only.retain(|pattern| !pattern.is_empty());
    let cache_ttl = args.cache_ttl.map(seconds).transpose()?;
    let wanted = MountOptions {
        store: absolute(&args.store),
        store_id: None,
        state: None,
        home: absolute(&args.home),
        mount: flags,
        owner: args.owner,
        hide: args.hide,
        volatile: args.volatile,
        session_patterns: Default::default(),
        read_only: args.read_only,
        symlinks_inside: args.symlinks == SymlinksArg::Inside,
        list_trash: args.trash == TrashArg::Listed,
        cache_ttl,
        xattr: args.xattr,
        durable: args.durable,
        keep: KeepOptions {
            versions: args.keep == KeepArg::Versions,
            copied_up_to: args.copy_up_to.0,
            max: args.keep_max.map(|size| size.0),
            evict: args.keep_evict,
        },
        follow: !args.no_follow,
        passthrough: !args.no_passthrough,
        while_held: false,
        only_in_sandboxes: false,
    };
    let report = |settled: &[String]| {
        settled
            .iter()
            .for_each(|line| print_error(format_args!("trumanfs: {line}")))
    };
    if args.foreground {
        // The log, which goes to stderr, says what was settled.
        daemon::run_in_foreground(&wanted, |_| say_hidden_from_git(&wanted))?;
    } else {
        report(&daemon::start(&wanted)?);
        say_hidden_from_git(&wanted);
    }
    Ok(ExitReason::Ok)
}

/// Says how many files of a repository would be deleted by `git add -A` in the home.
fn say_hidden_from_git(wanted: &MountOptions) {
    let hidden = client::hidden_from_git(&wanted.store, &wanted.hide, wanted.symlinks_inside);
    let words = hidden_files(hidden);
    if !words.is_empty() {
        print_error(format_args!(
            "trumanfs: git tracks {words} that this home hides, and takes for deleted in it"
        ));
    }
}

/// Writes `2 links and 1 file that --hide names`; nothing if there are none.
pub(super) fn hidden_files(hidden: HiddenFromGit) -> String {
    let links = (hidden.links > 0).then(|| count(hidden.links as u64, "link"));
    let by_pattern = hidden.by_pattern as u64;
    let others = (by_pattern > 0).then(|| format!("{} of --hide", count(by_pattern, "file")));
    let parts: Vec<String> = links.into_iter().chain(others).collect();
    parts.join(" and ")
}

/// The daemon's working directory is `/`, so paths are made absolute here; links are resolved there.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn seconds(seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        Error::usage(
            format!("--cache-ttl {seconds}: not a number of seconds"),
            "Give 0 or more.",
        )
    })
}

/// Applies one option of a `-o` list.
fn apply(option: &str, args: &mut MountArgs, flags: &mut HomeMountFlags) -> Result<()> {
    let (key, value) = option
        .split_once('=')
        .map_or((option, None), |(key, value)| (key, Some(value)));
    let need = || {
        value.map(str::to_owned).ok_or_else(|| {
            Error::usage(format!("-o {key}: needs a value"), "Write it as key=value.")
        })
    };
    let bad = |what: &str| {
        Error::usage(
            format!("-o {option}: {what}"),
            "`trumanfs mount --help` lists the options.",
        )
    };
    match (key, value) {
        ("ro" | "read_only", None) => flags.read_only = true,
        ("noexec", None) => flags.no_exec = true,
        // The last word counts, as with mount(8).
        ("rw", None) => flags.read_only = false,
        ("exec", None) => flags.no_exec = false,
        ("noatime", None) => flags.access.times = Some(AccessTimes::Never),
        ("atime", None) => flags.access.some = true,
        ("relatime", None) => flags.access.times = Some(AccessTimes::Seldom),
        ("strictatime", None) => flags.access.times = Some(AccessTimes::Always),
        ("nodiratime", None) => flags.access.not_of_directories = true,
        ("sync" | "dirsync" | "lazytime", None) => {
            return Err(Error::usage(
                format!("-o {option}: a home does not have this option"),
                "It holds in the home where the store's file system is mounted with it; `durable` syncs records and former contents.",
            ));
        }
        ("allow_other", None) => args.allow_other = true,
        ("xattr", None) => args.xattr = true,
        ("durable", None) => args.durable = true,
        ("no_follow", None) => args.no_follow = true,
        ("no_passthrough", None) => args.no_passthrough = true,
        ("read_only", Some(pattern)) => args.read_only.push(pattern.to_owned()),
        ("keep", _) => args.keep = KeepArg::from_str(&need()?, true).map_err(|e| bad(&e))?,
        ("keep_max", _) => args.keep_max = Some(need()?.parse().map_err(|e: String| bad(&e))?),
        ("keep_evict", None) => args.keep_evict = true,
        ("copy_up_to", _) => args.copy_up_to = need()?.parse().map_err(|e: String| bad(&e))?,
        ("hide", _) => args.hide.push(need()?),
        ("volatile", _) => args.volatile.push(need()?),
        ("owner", _) => args.owner = Some(need()?),
        ("symlinks", _) => {
            args.symlinks = SymlinksArg::from_str(&need()?, true).map_err(|e| bad(&e))?
        }
        ("trash", _) => args.trash = TrashArg::from_str(&need()?, true).map_err(|e| bad(&e))?,
        ("cache_ttl", _) => {
            args.cache_ttl = Some(
                need()?
                    .parse()
                    .map_err(|_| bad("not a number of seconds"))?,
            )
        }
        ("suid" | "dev", None) => return Err(bad("a home is always nosuid and nodev")),
        // What mount(8) says of itself or is the default anyway.
        ("" | "defaults" | "nosuid" | "nodev" | "async", None)
        | ("auto" | "noauto" | "user" | "users" | "nouser" | "nofail" | "_netdev", _) => {}
        (key, _) if key.starts_with("x-") || key == "comment" => {}
        _ => return Err(bad("unknown option")),
    }
    Ok(())
}

/// Unmounts, and waits until the daemon has ended.
pub(super) fn umount(args: &UmountArgs) -> Result<ExitReason> {
    if let Some(pid) = client::umount(&args.home, args.lazy)? {
        log::warn!(
            "the home is gone from here, but its daemon (process {pid}) has not ended: it does when it has finished what an operator asked for, and every mount namespace (a container?) that has a copy of the home has unmounted it or ended"
        );
    }
    Ok(ExitReason::Ok)
}
