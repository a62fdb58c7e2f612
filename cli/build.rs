//! Builds the library that `memledger run` loads into programs, for the command to have it in itself.
//!
//! ```text
//! preload/            the library's package; its manifest is manifest.toml: cargo packs no nested package
//! OUT_DIR/preload/    the same as a package, with the path or the version of memledger
//! OUT_DIR/libmemledger_preload.so
//! ```
//! Only where the library can be used (Linux with glibc) and in builds with the profile `release`, such as
//! that of `cargo install`: it takes as long as the command itself. If it fails, the command is built without
//! it, and says so when it needs it.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::Hasher;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const LIBRARY: &str = "libmemledger_preload.so";
/// What the library is made of, in the repository, from this package.
const SOURCES: [&str; 6] =
    ["preload", "../Cargo.toml", "../build.rs", "../src", "../crates", "../redirect"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(has_library)");
    if !is_wanted() {
        return;
    }
    let sources = SOURCES.iter().filter(|source| Path::new(source).exists());
    sources.for_each(|source| println!("cargo::rerun-if-changed={source}"));
    match build() {
        Ok(hash) => {
            println!("cargo::rustc-cfg=has_library");
            println!("cargo::rustc-env=MEMLEDGER_LIBRARY_HASH={hash:016x}");
        }
        Err(error) => println!(
            "cargo::warning=memledger run will record only programs with memledger's allocator, because \
             its library for other programs cannot be built: {error}"
        ),
    }
}

fn is_wanted() -> bool {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let is_set = |name: &str| std::env::var_os(name).is_some();
    is_set("CARGO_FEATURE_PRELOAD")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("PROFILE", "release")
        && std::env::var_os("TARGET") == std::env::var_os("HOST")
        && !is_set("DOCS_RS")
}

/// Returns a hash of the library.
fn build() -> io::Result<u64> {
    let variable = |name| std::env::var_os(name).ok_or_else(|| io::Error::other(name));
    let out = PathBuf::from(variable("OUT_DIR")?);
    let package = out.join("preload");
    fs::create_dir_all(package.join("src"))?;
    let manifest = fs::read_to_string("preload/manifest.toml")?;
    fs::write(package.join("Cargo.toml"), manifest.replace(r#"path = "..""#, &memledger()?))?;
    for (from, to) in [
        ("lock.toml", "Cargo.lock"),
        ("build.rs", "build.rs"),
        ("lib.rs", "src/lib.rs"),
        ("linux.rs", "src/linux.rs"),
    ] {
        fs::write(package.join(to), fs::read(Path::new("preload").join(from))?)?;
    }
    let target = out.join("target");
    let mut cargo = Command::new(variable("CARGO")?);
    cargo.args(["build", "--release", "--quiet", "--config", "profile.release.strip='symbols'"]);
    cargo.arg("--target-dir").arg(&target).current_dir(&package);
    // NOTE: they are for the command, such as the flags of a sanitizer and the driver of clippy.
    for name in
        ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET"]
    {
        cargo.env_remove(name);
    }
    let status = cargo.status()?;
    if !status.success() {
        return Err(io::Error::other(format!("cargo ended with {status}")));
    }
    let library = fs::read(target.join("release").join(LIBRARY))?;
    fs::write(out.join(LIBRARY), &library)?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&library);
    Ok(hasher.finish())
}

/// Where memledger is: beside this package in the repository, else in the registry.
fn memledger() -> io::Result<String> {
    let root = fs::canonicalize("..")?;
    if root.join("redirect/Cargo.toml").exists() {
        return Ok(format!("path = {root:?}"));
    }
    Ok(format!("version = \"={}\"", env!("CARGO_PKG_VERSION")))
}
