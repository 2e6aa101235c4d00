//! The secrets of an agent: what `--secret` and `--only` mean, where their values are read, and that none of them is
//! given to the agent by another way.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use zeroize::Zeroizing;

use super::args::AgentArgs;
use super::roots::AgentHomes;
use crate::error::{Error, Result};
use crate::exec::program::network::{RequestPattern, SecretHeader, SecretRoute, SecretValue};
use crate::exec::program::policy::network::Host;
use crate::exec::program::sandbox::Toolchains;
use crate::exec::program::{AgentProfile, SecretProvider, with_placeholder};

/// The most bytes that are read of a file or a command's output.
const MAX_READ_BYTES: u64 = 64 << 10;

/// The port of TLS.
const HTTPS: u16 = 443;

/// The value of `--secret`.
#[derive(Debug, Clone)]
pub(super) struct SecretChoice {
    name: String,
    /// `None` for a name that is no service's.
    provider: Option<SecretProvider>,
    host: Host,
    port: u16,
    header: SecretHeader,
    source: SecretSource,
}

/// The value of `--secret`, understood or not: whoever gives the secret itself by mistake is not to find it in the error
/// of the command line's parser, which has the whole value.
#[derive(Debug, Clone)]
pub(super) struct SecretArgument(std::result::Result<SecretChoice, String>);

/// Reads the value of `--secret`, and keeps what is wrong with it.
pub(super) fn secret_argument(
    text: &str,
) -> std::result::Result<SecretArgument, std::convert::Infallible> {
    Ok(SecretArgument(secret(text)))
}

/// The place of a secret's value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SecretSource {
    Variable(String),
    File(PathBuf),
    Command(String),
}

/// The value of `--only`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OnlyChoice {
    /// The secret that it limits, where it is named.
    secret: Option<String>,
    pattern: RequestPattern,
}

/// Reads `NAME[:HOST[:PORT][:HEADER]][=SOURCE]`.
fn secret(text: &str) -> std::result::Result<SecretChoice, String> {
    let (what, source) = match text.split_once('=') {
        Some((what, source)) => (what, Some(secret_source(source)?)),
        None => (text, None),
    };
    let (name, rest) = match what.split_once(':') {
        Some((name, rest)) => (name, Some(rest)),
        None => (what, None),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(plain) {
        return Err("write its name in letters, digits and hyphens, as in anthropic".to_owned());
    }
    let provider = SecretProvider::named(name).map_err(|error| error.full_message())?;
    let known: Vec<_> = SecretProvider::names().collect();
    let Some(host) = rest.or(provider.as_ref().map(|known| &*known.host)) else {
        // Not printed: it may be the secret itself.
        let known = known.join(", ");
        return Err(format!(
            "the name is none of {known}: give its host, as NAME:HOST[:HEADER]=SOURCE"
        ));
    };
    let (host, port, header) = destination(host)?;
    let header = match (header, &provider) {
        (Some(header), _) => SecretHeader::parse(header)?,
        (None, Some(known)) => SecretHeader::parse(&known.header)?,
        (None, None) => SecretHeader::default(),
    };
    let usual = provider.as_ref().map(|known| known.variable.clone());
    let source = source.or(usual.map(SecretSource::Variable));
    Ok(SecretChoice {
        source: source
            .ok_or_else(|| format!("{name}: give its source, as in {name}:HOST=env:VARIABLE"))?,
        name: name.to_owned(),
        provider,
        host,
        port,
        header,
    })
}

/// Reads `HOST[:PORT][:HEADER]`.
fn destination(text: &str) -> std::result::Result<(Host, u16, Option<&str>), String> {
    let end = match text.strip_prefix('[') {
        // The brackets belong to the host.
        Some(inner) => inner.find(']').map_or(text.len(), |at| at + 2),
        None => text.find(':').unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    let parsed =
        Host::parse(host.as_bytes()).map_err(|why| format!("`{host}` is no host: {why}"))?;
    let mut parts = rest.split(':').skip(1);
    let first = parts.next();
    let is_port = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (port, header) = match first.filter(is_port) {
        Some(digits) => {
            let port = digits.parse().ok().filter(|port| *port > 0);
            (
                port.ok_or_else(|| format!("{digits} is no port"))?,
                parts.next(),
            )
        }
        None => (HTTPS, first),
    };
    if let Some(more) = parts.next() {
        return Err(format!("`{more}`: nothing stands behind the header"));
    }
    Ok((parsed, port, header))
}

fn secret_source(text: &str) -> std::result::Result<SecretSource, String> {
    match text.split_once(':') {
        Some((_, "")) => Err(format!("`{text}` names nothing")),
        Some(("env", name)) => Ok(SecretSource::Variable(name.to_owned())),
        Some(("file", path)) => Ok(SecretSource::File(path.into())),
        Some(("cmd", line)) => Ok(SecretSource::Command(line.to_owned())),
        // Not printed: it may be the secret itself.
        _ => Err("write the source as env:VARIABLE, file:PATH or cmd:COMMAND; a value is never an argument, which others can see".to_owned()),
    }
}

/// Reads `[NAME ]METHOD /PATH`.
pub(super) fn only(text: &str) -> std::result::Result<OnlyChoice, String> {
    let (secret, request) = match text.split_once(' ') {
        Some((name, rest)) if rest.contains(' ') => (Some(name.to_owned()), rest),
        _ => (None, text),
    };
    let pattern = RequestPattern::parse(request)?;
    Ok(OnlyChoice { secret, pattern })
}

impl OnlyChoice {
    /// Returns whether it does not say which secret it limits.
    pub(super) fn is_of_any(&self) -> bool {
        self.secret.is_none()
    }

    /// Returns whether it names this secret.
    pub(super) fn names(&self, secret: &SecretArgument) -> bool {
        let choice = secret.0.as_ref().ok();
        choice.is_some_and(|choice| self.secret.as_ref() == Some(&choice.name))
    }
}

impl SecretArgument {
    /// Returns what is wrong with it.
    pub(super) fn problem(&self) -> Option<&str> {
        self.0.as_ref().err().map(String::as_str)
    }

    /// Returns whether a host of a profile is that of this secret.
    pub(super) fn is_for(&self, host: &str) -> bool {
        let host = Host::parse(host.as_bytes());
        let is_own =
            |choice: &SecretChoice| choice.port == HTTPS && host.as_ref() == Ok(&choice.host);
        self.0.as_ref().is_ok_and(is_own)
    }

    /// Returns whether its value is that of a variable.
    pub(super) fn is_variable(&self, name: &str) -> bool {
        let source = SecretSource::Variable(name.to_owned());
        self.0.as_ref().is_ok_and(|choice| choice.source == source)
    }
}

/// Returns the service whose key is usually in a variable.
pub(super) fn service_of_variable(name: &str) -> Option<&'static str> {
    SecretProvider::names().find(|service| {
        let known = SecretProvider::named(service).ok().flatten();
        known.is_some_and(|known| known.variable == name)
    })
}

/// Returns the secrets that were asked for. Reads no value.
///
/// # Errors
/// [`Error::Usage`] for one that is not clear; where two have one name, or `--only` does not say which one is meant.
pub(super) fn secret_choices(args: &AgentArgs) -> Result<Vec<&SecretChoice>> {
    let mut choices: Vec<&SecretChoice> = Vec::new();
    for argument in &args.secret {
        let wrong =
            |why: &String| Error::usage(format!("--secret: {why}"), "See `trumanfs agent --help`.");
        let choice = argument.0.as_ref().map_err(wrong)?;
        if choices.iter().any(|before| before.name == choice.name) {
            let name = &choice.name;
            return Err(Error::usage(
                format!("--secret {name} is there twice"),
                "Give the one that is meant, or another name.",
            ));
        }
        choices.push(choice);
    }
    for only in &args.only {
        check_only(only, &choices)?;
    }
    Ok(choices)
}

impl SecretChoice {
    /// Returns the secret in words: its name and its host, where its value is read, and the requests that it is added to,
    /// nothing for all. A command may have a secret in its words, so it is not among these.
    ///
    /// # Errors
    /// As [`SecretChoice::patterns`].
    pub(super) fn describe(&self, args: &AgentArgs) -> Result<(String, String, Vec<String>)> {
        let source = match &self.source {
            SecretSource::Command(_) => "a command".to_owned(),
            source => source.to_string(),
        };
        let patterns = self.patterns(&args.only)?;
        let patterns = patterns.iter().map(ToString::to_string).collect();
        Ok((
            format!("{} for {}:{}", self.name, self.host, self.port),
            source,
            patterns,
        ))
    }

    /// Returns the requests to which the secret is added; nothing for all.
    ///
    /// # Errors
    /// [`Error::Damaged`] for a service's file that is not understood, which a test sees to.
    fn patterns(&self, only: &[OnlyChoice]) -> Result<Vec<RequestPattern>> {
        let is_meant = |only: &&OnlyChoice| {
            only.secret
                .as_ref()
                .is_none_or(|secret| *secret == self.name)
        };
        let patterns: Vec<RequestPattern> = only
            .iter()
            .filter(is_meant)
            .map(|only| only.pattern.clone())
            .collect();
        if !patterns.is_empty() {
            return Ok(patterns);
        }
        let usual = self.provider.iter().flat_map(|known| &known.only);
        let parsed: std::result::Result<_, String> =
            usual.map(|text| RequestPattern::parse(text)).collect();
        parsed.map_err(Error::Damaged)
    }
}

impl std::fmt::Display for SecretSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SecretSource::Variable(variable) => write!(f, "env:{variable}"),
            SecretSource::File(path) => write!(f, "file:{}", path.display()),
            SecretSource::Command(line) => write!(f, "cmd:{line}"),
        }
    }
}

/// The secrets of an agent, read.
pub(super) struct AgentSecrets(Vec<Arc<SecretRoute>>);

impl AgentSecrets {
    /// Reads the values. From then on, this process leaves no core file, and no other one of this user reads its memory.
    ///
    /// # Errors
    /// As [`secret_choices`]; [`Error::Usage`] where a value cannot be read, or is none.
    pub(super) fn read(args: &AgentArgs, profile: &AgentProfile) -> Result<AgentSecrets> {
        let choices = secret_choices(args)?;
        if choices.is_empty() {
            return Ok(AgentSecrets(Vec::new()));
        }
        let forbid = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        forbid.map_err(Error::os("prctl(PR_SET_DUMPABLE)"))?;
        let secrets = choices.into_iter();
        let read = secrets.map(|choice| route(choice, &args.only, profile).map(Arc::new));
        read.collect::<Result<_>>().map(AgentSecrets)
    }

    /// Checks that the agent does not get a secret by its variables, its arguments, or a file that it sees.
    ///
    /// # Errors
    /// [`Error::Usage`] where it would.
    pub(super) fn check_outside(
        &self,
        args: &AgentArgs,
        env: &[(OsString, OsString)],
        homes: &AgentHomes,
        toolchains: &Toolchains,
    ) -> Result<()> {
        for secret in &self.0 {
            let name = &secret.name;
            let shown = env
                .iter()
                .find(|(_, value)| secret.value.is_in(value.as_bytes()));
            if let Some((variable, _)) = shown {
                return Err(Error::usage(
                    format!(
                        "--secret {name}: the agent's variable {} has the value",
                        variable.display()
                    ),
                    "Leave out the --env: the secret is added outside the sandbox.",
                ));
            }
            if args
                .words
                .iter()
                .any(|word| secret.value.is_in(word.as_bytes()))
            {
                return Err(Error::usage(
                    format!("--secret {name}: the agent's arguments have the value"),
                    "Leave it out there: the secret is added outside the sandbox.",
                ));
            }
        }
        check_files(args, homes, toolchains)
    }

    /// Returns them for the sandbox.
    pub(super) fn into_routes(self) -> Vec<Arc<SecretRoute>> {
        self.0
    }
}

/// Checks that the agent does not see the file of a secret.
///
/// # Errors
/// [`Error::Usage`] where it would.
pub(super) fn check_files(
    args: &AgentArgs,
    homes: &AgentHomes,
    toolchains: &Toolchains,
) -> Result<()> {
    let choices = args
        .secret
        .iter()
        .filter_map(|argument| argument.0.as_ref().ok());
    let files = choices.filter_map(|choice| match &choice.source {
        SecretSource::File(path) => Some((&choice.name, path)),
        _ => None,
    });
    let shown = homes.stores.iter().chain(&homes.paths);
    let shown = shown.chain(&args.bind_ro).chain(&toolchains.shown);
    let mut shown: Vec<&Path> = shown.map(PathBuf::as_path).collect();
    shown.push(Path::new("/usr"));
    for (name, file) in files {
        if let Some(root) = shown.iter().find(|root| lies_in(file, root)) {
            let (file, root) = (file.display(), root.display());
            return Err(Error::usage(
                format!("--secret {name}=file:{file}: the agent sees it, for it lies in {root}"),
                "Move it out of what the agent sees.",
            ));
        }
    }
    Ok(())
}

/// Checks that a limit is one of a secret.
fn check_only(only: &OnlyChoice, secrets: &[&SecretChoice]) -> Result<()> {
    let pattern = &only.pattern;
    match &only.secret {
        Some(name) if !secrets.iter().any(|choice| choice.name == *name) => Err(Error::usage(
            format!("--only '{name} {pattern}': there is no --secret {name}"),
            "Name a secret that is given.",
        )),
        None if secrets.len() != 1 => Err(Error::usage(
            format!("--only '{pattern}': which secret is limited is not clear"),
            "Give one --secret, or its name: --only 'NAME METHOD /PATH'.",
        )),
        _ => Ok(()),
    }
}

/// Makes what the network is given of a secret.
fn route(
    choice: &SecretChoice,
    only: &[OnlyChoice],
    profile: &AgentProfile,
) -> Result<SecretRoute> {
    let name = &choice.name;
    let wrong = |why: String| {
        let what = &choice.source;
        Error::usage(
            format!("--secret {name}={what}: {why}"),
            "Nothing was started. See `trumanfs agent --help`.",
        )
    };
    let value = choice.source.read().map_err(wrong)?;
    let known = choice.provider.as_ref();
    let mut variables = match known {
        Some(known) => known.env.clone(),
        None => SecretProvider::variables_of_other(name),
    };
    variables.extend(profile.secret_env.get(name).cloned().unwrap_or_default());
    Ok(SecretRoute {
        name: name.clone(),
        host: choice.host.clone(),
        port: choice.port,
        header: choice.header.clone(),
        value: SecretValue::new(value).map_err(wrong)?,
        only: choice.patterns(only)?,
        dropped: known.map(|known| known.dropped.clone()).unwrap_or_default(),
        env: with_placeholder(&variables),
    })
}

impl SecretSource {
    /// Reads the value, without the line break at its end.
    ///
    /// # Errors
    /// The reason why there is none.
    fn read(&self) -> std::result::Result<Zeroizing<Vec<u8>>, String> {
        let mut value = match self {
            SecretSource::Variable(name) => {
                let value = std::env::var_os(name).ok_or("the variable is not set")?;
                Zeroizing::new(value.into_encoded_bytes())
            }
            SecretSource::File(path) => {
                let file = File::open(path).map_err(|error| error.to_string())?;
                let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
                if !is_file {
                    return Err("it is no regular file".to_owned());
                }
                read_limited(file)?
            }
            SecretSource::Command(line) => output_of(line)?,
        };
        while matches!(value.last(), Some(b'\n' | b'\r')) {
            value.pop();
        }
        Ok(value)
    }
}

/// Returns what a command prints. It can ask at the terminal, and says itself what is wrong.
fn output_of(line: &str) -> std::result::Result<Zeroizing<Vec<u8>>, String> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", line])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let read = child
        .stdout
        .take()
        .ok_or_else(|| "it has no output".to_owned());
    let value = read.and_then(read_limited);
    let ended = child.wait().map_err(|error| error.to_string())?;
    let value = value?;
    if !ended.success() {
        return Err(format!("the command failed: {ended}"));
    }
    Ok(value)
}

fn read_limited(file: impl Read) -> std::result::Result<Zeroizing<Vec<u8>>, String> {
    // As long as it gets: a vector that grows leaves its bytes behind.
    let len = usize::try_from(MAX_READ_BYTES).unwrap_or_default();
    let mut value = Zeroizing::new(Vec::with_capacity(len + 1));
    let read = file.take(MAX_READ_BYTES + 1).read_to_end(&mut value);
    read.map_err(|error| error.to_string())?;
    if value.len() > len {
        return Err(format!("it has more than {MAX_READ_BYTES} bytes"));
    }
    Ok(value)
}

/// Returns whether a file lies in a directory, or is this file: as its path says it, whose links an agent may have made,
/// or as it is.
fn lies_in(file: &Path, root: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let Some(root) = identity(root) else {
        return false;
    };
    let written = std::path::absolute(file).map(|path| without_dots(&path));
    let paths = [written.ok(), fs::canonicalize(file).ok()];
    let mut paths = paths.iter().flatten().flat_map(|path| path.ancestors());
    paths.any(|path| identity(path) == Some(root))
}

fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Returns the host, port, field and source of a choice in words.
    fn read(text: &str) -> std::result::Result<(String, u16, String, SecretSource), String> {
        let choice = secret(text)?;
        let (name, scheme) = (choice.header.name, choice.header.scheme);
        let field = match scheme {
            Some(scheme) => format!("{name} {scheme}"),
            None => name,
        };
        Ok((choice.host.to_string(), choice.port, field, choice.source))
    }

    #[test]
    fn secret_names_a_service_or_a_host() {
        let (google, bearer) = ("generativelanguage.googleapis.com", "Authorization Bearer");
        for (text, host, port, field, source) in [
            (
                "anthropic",
                "api.anthropic.com",
                443,
                "x-api-key",
                "env:ANTHROPIC_API_KEY",
            ),
            ("openai=env:X", "api.openai.com", 443, bearer, "env:X"),
            ("gemini=file:/k", google, 443, "x-goog-api-key", "file:/k"),
            (
                "anthropic:127.0.0.1:8443=env:X",
                "127.0.0.1",
                8443,
                "x-api-key",
                "env:X",
            ),
            (
                "own:a.example=cmd:pass a=b:c",
                "a.example",
                443,
                bearer,
                "cmd:pass a=b:c",
            ),
            (
                "own:A.example:X-Key=env:X",
                "a.example",
                443,
                "X-Key",
                "env:X",
            ),
            ("own:[::1]:8443:A b=env:X", "[::1]", 8443, "A b", "env:X"),
            ("own:[::1]=env:X", "[::1]", 443, bearer, "env:X"),
        ] {
            let read = read(text);
            let source = secret_source(source).unwrap();
            let wanted = (host.to_owned(), port, field.to_owned(), source);
            assert_eq!(read, Ok(wanted), "{text}");
        }
    }

    #[test]
    fn secret_that_is_not_clear_is_refused_and_not_printed() {
        let texts = "|own|own=env:X|own:a.example|1x:a.example=env:X|a b:c=env:X|own:=env:X|own:a b=env:X|\
            own:a.example:0=env:X|own:a.example:99999=env:X|own:a.example:443:X-Key:more=env:X|\
            own:a.example:Host=env:X|own:a.example:X\n-Key=env:X|anthropic=|anthropic=env:|own:[::1=env:X";
        for text in texts.split('|') {
            assert!(read(text).is_err(), "{text}");
        }
        let why = read("anthropic=sk-the-key-itself").unwrap_err();
        assert!(!why.contains("key-itself"), "{why}");
    }

    #[test]
    fn only_may_name_its_secret() {
        let limit = only("POST /v1/x").unwrap();
        assert_eq!(
            (limit.secret, limit.pattern.to_string()),
            (None, "POST /v1/x".to_owned())
        );
        let limit = only("own * /v1/**").unwrap();
        assert_eq!(
            (limit.secret.as_deref(), limit.pattern.to_string()),
            (Some("own"), "* /v1/**".to_owned())
        );
        for text in ["", "POST", "POST x", "own POST /a b"] {
            assert!(only(text).is_err(), "{text}");
        }
    }
}
