//! Builds the first process of sandboxes (`crates/init`) for the launcher to carry: a static program, because loading libraries
//! costs each launch more than all that the process does.
//!
//! Cargo cannot make a program of one package part of another one yet, so this calls Cargo once more, with a directory
//! of its own. With musl's C library where Rust has that target, for its programs begin in half the time; else with the
//! system's own. Where no static program can be linked (there is no `libc.a` either), the launcher starts itself
//! instead, which works as well and takes longer.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> io::Result<()> {
    for changed in [
        "build.rs",
        "../init",
        "../../Cargo.toml",
        "../../Cargo.lock",
    ] {
        println!("cargo::rerun-if-changed={changed}");
    }
    let out = PathBuf::from(given("OUT_DIR")?);
    let target = given("TARGET")?;
    let musl = musl(&target.to_string_lossy())?;
    let targets = musl.map(OsString::from).into_iter().chain([target]);
    let mut built = Err(io::Error::other("no target"));
    for target in targets {
        built = build(&target, &out.join("init"));
        if built.is_ok() {
            break;
        }
    }
    let image = match built {
        Ok(program) => fs::read(program)?,
        Err(why) => {
            println!(
                "cargo::warning=the first process of sandboxes was not linked statically, so each launch takes longer: {why}"
            );
            Vec::new()
        }
    };
    fs::write(out.join("trumanfs-init"), image)
}

/// Returns the target that has musl in place of the C library of this one, if Rust's own libraries for it are there.
fn musl(target: &str) -> io::Result<Option<String>> {
    let Some(system) = target.strip_suffix("-gnu") else {
        return Ok(None);
    };
    let musl = format!("{system}-musl");
    let mut rustc = Command::new(given("RUSTC")?);
    let output = rustc
        .args(["--print", "target-libdir", "--target", &musl])
        .output()?;
    let libraries = String::from_utf8_lossy(&output.stdout);
    let is_there = output.status.success() && Path::new(libraries.trim_end()).is_dir();
    Ok(is_there.then_some(musl))
}

/// Builds the program for a target; returns where it is.
fn build(target: &OsStr, target_dir: &Path) -> io::Result<PathBuf> {
    let mut cargo = Command::new(given("CARGO")?);
    cargo
        .args(["build", "--quiet", "--profile", "init", "--package"])
        .args(["trumanfs-init", "--bin", "trumanfs-init", "--target"])
        .arg(target)
        .arg("--target-dir")
        .arg(target_dir)
        .current_dir(given("CARGO_MANIFEST_DIR")?)
        .env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static")
        .env_remove("RUSTFLAGS")
        // What looks at the code in place of compiling it, as clippy does.
        .env_remove("RUSTC_WORKSPACE_WRAPPER");
    let built = cargo.output()?;
    if !built.status.success() {
        let output = String::from_utf8_lossy(&built.stderr);
        let last: Vec<&str> = output.lines().filter(|line| !line.is_empty()).collect();
        let last = last.last().copied().unwrap_or("Cargo said nothing");
        return Err(io::Error::other(format!("{}: {last}", built.status)));
    }
    Ok(target_dir.join(target).join("init").join("trumanfs-init"))
}

/// Returns what Cargo gives a build script in its environment.
fn given(name: &str) -> io::Result<OsString> {
    env::var_os(name).ok_or_else(|| io::Error::other(format!("{name} is not set")))
}
