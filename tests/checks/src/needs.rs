//! What checks need on the machine, and how it comes there.

use crate::check::Check;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

/// Something that a check needs.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// A command in `PATH`, or a file, and the packages of Debian that have it.
    Debian(&'static str, &'static str),
    /// A component of the Rust toolchain, by its subcommand of cargo.
    Component(&'static str),
    /// The standard library for another target.
    Target(&'static str),
    /// A nightly toolchain, which is not installed by itself.
    Nightly,
    /// A command that `cargo +nightly install` builds, which takes a minute: only a full run does.
    Installed(&'static str),
    /// The user root.
    Root,
}

use Need::{Component, Debian, Installed, Nightly, Target};

impl Need {
    /// Whether it is there.
    #[must_use]
    pub fn is_met(&self) -> bool {
        match *self {
            Debian(file, _) if file.starts_with('/') => Path::new(file).exists(),
            Debian(command, _) | Installed(command) => in_path(command),
            Component(name) => succeeds("cargo", &[name, "--version"]),
            Target(name) => {
                let found = Command::new("rustc").args(["--print", "sysroot"]).output();
                let sysroot = found.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned());
                sysroot.is_ok_and(|root| Path::new(&root).join("lib/rustlib").join(name).is_dir())
            }
            Nightly => succeeds("rustc", &["+nightly", "--version"]),
            Self::Root => rustix::process::geteuid().is_root(),
        }
    }

    /// Its name for people.
    #[must_use]
    pub fn name(&self) -> String {
        match *self {
            Debian(file, packages) => format!("{file} (apt-get install {packages})"),
            Component(name) => format!("cargo {name}"),
            Target(name) => format!("the target {name} (rustup target add {name})"),
            Nightly => "a nightly toolchain (rustup toolchain install nightly)".to_owned(),
            Installed(name) => format!("{name} (cargo +nightly install {name})"),
            Self::Root => "the user root".to_owned(),
        }
    }
}

fn in_path(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(command).is_file())
}

fn succeeds(command: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(command);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Installs what the checks need and the machine lacks: all packages at once, because what runs beside must
/// not wait for, or fail at, the lock of another installation. [`missing`] finds what cannot be installed.
pub fn install(checks: &[&Check], with_cargo: bool) {
    let (mut packages, mut targets, mut components) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut commands = BTreeSet::new();
    for need in checks.iter().flat_map(|check| check.needs).filter(|need| !need.is_met()) {
        let (names, set) = match *need {
            Debian(_, names) => (names, &mut packages),
            Target(name) => (name, &mut targets),
            Component("fmt") => ("rustfmt", &mut components),
            Component(name) => (name, &mut components),
            Installed(name) if with_cargo => (name, &mut commands),
            Nightly | Installed(_) | Need::Root => continue,
        };
        set.extend(names.split(' '));
    }
    let run = |command: &str, fixed: &[&str], names: &BTreeSet<&'static str>| {
        if !names.is_empty() {
            println!("== installing {}", names.iter().copied().collect::<Vec<_>>().join(" "));
            // NOTE: a failure is seen in what is still missing.
            let _ = Command::new(command).args(fixed).args(names).stdin(Stdio::null()).status();
        }
    };
    if !packages.is_empty() {
        let _ = Command::new("apt-get").args(["update", "-qq"]).status();
    }
    run("apt-get", &["install", "-y", "-qq", "--no-install-recommends"], &packages);
    run("rustup", &["component", "add"], &components);
    run("rustup", &["target", "add"], &targets);
    run("cargo", &["+nightly", "install", "--quiet"], &commands);
}

/// What a check needs and the machine does not have.
#[must_use]
pub fn missing(check: &Check) -> Vec<String> {
    check.needs.iter().filter(|need| !need.is_met()).map(Need::name).collect()
}
