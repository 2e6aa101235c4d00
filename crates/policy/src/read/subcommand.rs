//! Sub-commands, scripts, and what they have in common with entries.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use super::super::grammar::WordReading;
use super::super::network::{HostPattern, PortList, wrong_ports};
use super::super::schema::{
    ArgumentRules, DeniedArgs, FlagList, NetworkRule, PublishedPort, RunSettings, SubCommand,
};
use super::super::validator::Validator;
use super::super::yaml::{YamlField, YamlNode, YamlValue};
use super::fields::{FieldReader, unknown_key};
use super::{flags, keys};

/// Reads sub-commands by name.
pub(super) fn subcommands(
    reader: &mut FieldReader<'_>,
    node: &YamlNode,
    validator: Validator,
) -> BTreeMap<String, SubCommand> {
    let mut found = BTreeMap::new();
    for field in reader.fields(node) {
        let read = reader.under(&field.key, |r| subcommand(r, field, validator));
        found.insert(field.key.clone(), read);
    }
    found
}

/// Reads one sub-command.
pub(super) fn subcommand(
    reader: &mut FieldReader<'_>,
    field: &YamlField,
    validator: Validator,
) -> SubCommand {
    read(
        reader,
        &field.node,
        validator,
        keys::of_subcommand(validator),
        "a sub-command",
    )
}

fn read(
    reader: &mut FieldReader<'_>,
    node: &YamlNode,
    validator: Validator,
    known: [&[&str]; 2],
    whose: &str,
) -> SubCommand {
    let mut found = SubCommand::default();
    let mut has_flags = false;
    for field in reader.fields(node) {
        let key = field.key.as_str();
        reader.under(key, |r| {
            if !known.concat().contains(&key) {
                r.problem(field.line, unknown_key(known, whose));
                return;
            }
            if matches!(key, "flags" | "allowed_flags") && std::mem::replace(&mut has_flags, true) {
                r.problem(
                    field.line,
                    "`flags` and `allowed_flags` are two names of one list; keep one",
                );
            }
            let _ = run_key(r, &mut found.run, field)
                || arguments_key(r, &mut found.arguments, field)
                || key_of(r, &mut found, field, validator);
        });
    }
    found
}

fn key_of(
    r: &mut FieldReader<'_>,
    found: &mut SubCommand,
    field: &YamlField,
    validator: Validator,
) -> bool {
    let node = &field.node;
    let slashes = validator == Validator::Dotnet;
    match field.key.as_str() {
        "description" => drop(r.text(node)),
        "timeout" => found.run.timeout = r.seconds(node),
        "flags" | "allowed_flags" => found.flags = flags::flags(r, node, slashes),
        "deny_flags" => found.deny_flags = flags::denied(r, node, slashes),
        "require_flags" => found.require_flags = flags::required(r, node, slashes),
        "enabled" => found.disabled = r.truth(node) == Some(false),
        "allow_test_paths" => found.allow_test_paths = r.truth(node),
        "allow_project_paths" => found.allow_project_paths = r.truth(node),
        "require_no_packages" => found.require_no_packages = r.truth(node) == Some(true),
        "get_only" => found.get_only = r.truth(node) == Some(true),
        "deny_args" => {
            found.deny_args = match &node.value {
                YamlValue::List(_) => Some(DeniedArgs::These(r.texts(node))),
                _ => r.truth(node).map(|all| {
                    if all {
                        DeniedArgs::All
                    } else {
                        DeniedArgs::Nothing
                    }
                }),
            }
        }
        "allowed_scripts" => {
            let scripts = found.scripts.get_or_insert_default();
            for name in r.names(node) {
                scripts.entry(name).or_default();
            }
        }
        "scripts" => {
            for script in r.fields(node) {
                let read = r.under(&script.key, |r| {
                    read(r, &script.node, validator, keys::SCRIPT, "a script")
                });
                found
                    .scripts
                    .get_or_insert_default()
                    .insert(script.key.clone(), read);
            }
        }
        _ => return false,
    }
    true
}

/// Reads a key that an entry and a sub-command alike may have.
pub(super) fn run_key(r: &mut FieldReader<'_>, run: &mut RunSettings, field: &YamlField) -> bool {
    let node = &field.node;
    match field.key.as_str() {
        "suppress_success_output" => run.suppress_success_output = r.truth(node),
        "read_only" => run.read_only = r.truth(node),
        "network" => run.network = Some(network(r, node)),
        "bind_ro" => {
            for item in r.items(node) {
                let Some(path) = r.text(item) else { continue };
                let is_plain = path.starts_with('/') && !path.split('/').any(|part| part == "..");
                match is_plain {
                    true => run.bind_ro.push(PathBuf::from(path)),
                    false => r.problem(
                        item.line,
                        format!("`{path}` is no absolute path without `..`"),
                    ),
                }
            }
        }
        _ => return false,
    }
    true
}

/// Reads how words are read that are no flags.
pub(super) fn arguments_key(
    r: &mut FieldReader<'_>,
    arguments: &mut ArgumentRules,
    field: &YamlField,
) -> bool {
    match field.key.as_str() {
        "first_argument" => arguments.first = Some(r.names(&field.node)),
        "arguments" => {
            let single = std::slice::from_ref(&field.node);
            let items = match &field.node.value {
                YamlValue::List(items) => items.as_slice(),
                _ => single,
            };
            let mut kinds = Vec::new();
            for item in items {
                match &item.value {
                    YamlValue::Scalar(word, _) if word == "path" => kinds.push(WordReading::Path),
                    YamlValue::Scalar(word, _) if word == "text" => kinds.push(WordReading::Text),
                    YamlValue::Scalar(word, _) if word == "none" => kinds.push(WordReading::Refused),
                    _ => r.problem(item.line, "`path`, `text` or `none` is expected, or a list of these for the first argument, the second and so on"),
                }
            }
            arguments.kinds = Some(kinds);
        }
        _ => return false,
    }
    true
}

fn network(reader: &mut FieldReader<'_>, node: &YamlNode) -> NetworkRule {
    let mut rule = NetworkRule::default();
    let (mut host_ports, mut publish) = (Vec::new(), Vec::new());
    if matches!(&node.value, YamlValue::Scalar(word, _) if word == "none") {
        return rule;
    }
    for field in reader.fields(node) {
        reader.under(&field.key, |r| match field.key.as_str() {
            "allow" => rule.allow = hosts(r, &field.node, true),
            "deny" => rule.deny = hosts(r, &field.node, false),
            "host_ports" => host_ports = ports(r, &field.node),
            "publish" => publish = published(r, &field.node),
            _ => r.problem(
                field.line,
                unknown_key(
                    [&["allow", "deny", "host_ports", "publish"], &[]],
                    "`network`",
                ),
            ),
        });
    }
    rule.host_ports = host_ports.iter().map(|(port, _)| *port).collect();
    rule.publish = publish.iter().map(|(port, _)| *port).collect();
    for wrong in wrong_ports(&rule) {
        let line = match wrong.list {
            PortList::HostPorts => host_ports.get(wrong.at).map(|(_, line)| line),
            PortList::Publish => publish.get(wrong.at).map(|(_, line)| line),
        };
        if let Some(line) = line {
            reader.under(wrong.list.key(), |r| r.problem(*line, wrong.why));
        }
    }
    rule
}

/// Hosts, by the rules by which connections are decided. A pattern that allows everything is none: a list says whom it
/// means.
fn hosts(reader: &mut FieldReader<'_>, node: &YamlNode, allows: bool) -> Vec<String> {
    let mut hosts = Vec::new();
    for item in reader.items(node) {
        let Some(host) = reader.text(item) else {
            continue;
        };
        match HostPattern::parse(&host) {
            Ok(pattern) => {
                if let Some(address) = pattern.private_address().filter(|_| allows) {
                    reader.warn(item.line, private(address));
                }
                hosts.push(host);
            }
            Err(why) => reader.problem(item.line, format!("`{host}` is no host: {why}; write host, host:port, *.host (below it) or **.host (and itself)")),
        }
    }
    hosts
}

/// Warns of an address that leads to services which the internet does not reach.
fn private(address: IpAddr) -> String {
    let ours = match address.is_loopback() || address.is_unspecified() {
        true => "; ports of this machine are better listed in host_ports",
        false => "",
    };
    format!(
        "`{address}` is no public address. Because it is listed as an address, the program reaches it: a service of this machine or of its network{ours}"
    )
}

/// Ports, each with its line.
fn ports(reader: &mut FieldReader<'_>, node: &YamlNode) -> Vec<(u16, usize)> {
    let mut ports = Vec::new();
    for item in reader.items(node) {
        ports.extend(port(reader, item).map(|port| (port, item.line)));
    }
    ports
}

/// Ports that are published, each with its line.
fn published(reader: &mut FieldReader<'_>, node: &YamlNode) -> Vec<(PublishedPort, usize)> {
    let mut ports = Vec::new();
    for item in reader.items(node) {
        match &item.value {
            YamlValue::Scalar(text, _) if text.contains(':') => match text.parse() {
                Ok(port) => ports.push((port, item.line)),
                Err(why) => reader.problem(item.line, why),
            },
            _ => ports.extend(port(reader, item).map(|port| (port.into(), item.line))),
        }
    }
    ports
}

fn port(reader: &mut FieldReader<'_>, item: &YamlNode) -> Option<u16> {
    let number = reader.number(item)?;
    let port = u16::try_from(number).ok().filter(|port| *port > 0);
    if port.is_none() {
        reader.problem(item.line, format!("{number} is no port; 1 to 65535 are"));
    }
    port
}

/// Returns the flags that one sub-command allows, of a list in an entry.
pub(super) fn package(reader: &mut FieldReader<'_>, field: &YamlField) -> Option<FlagList> {
    let mut found = None;
    for key in reader.fields(&field.node) {
        reader.under(&key.key, |r| match key.key.as_str() {
            "flags" | "allowed_flags" => found = Some(flags::flags(r, &key.node, false)),
            "description" => drop(r.text(&key.node)),
            _ => r.problem(
                key.line,
                unknown_key(
                    [&["flags", "allowed_flags", "description"], &[]],
                    "a package",
                ),
            ),
        });
    }
    found
}
