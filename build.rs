//! Records whether the library was built with optimisation. No `cfg` says so: a profile may have
//! debug assertions and optimise, or neither. Whether it is built with the thread sanitizer, for
//! which only an unstable `cfg` exists. And whether the feature `c-malloc` works on the target:
//! for `malloc`, for `mmap`, for what changes a process's user, for other allocators, and for their redirection.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(unoptimized)");
    if std::env::var("OPT_LEVEL").is_ok_and(|level| level == "0") {
        println!("cargo::rustc-cfg=unoptimized");
    }
    println!("cargo::rustc-check-cfg=cfg(thread_sanitizer)");
    if std::env::var("CARGO_CFG_SANITIZE")
        .is_ok_and(|names| names.split(',').any(|n| n == "thread"))
    {
        println!("cargo::rustc-cfg=thread_sanitizer");
    }
    println!(
        "cargo::rustc-check-cfg=cfg(c_malloc, c_mmap, c_identity, other_allocators, redirects)"
    );
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if std::env::var_os("CARGO_FEATURE_C_MALLOC").is_some()
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("CARGO_CFG_TARGET_POINTER_WIDTH", "64")
        && std::env::var_os("CARGO_CFG_MEMLEDGER_PORTABLE").is_none()
    {
        println!("cargo::rustc-cfg=c_malloc");
        if is("CARGO_CFG_TARGET_ARCH", "x86_64") {
            println!("cargo::rustc-cfg=c_mmap");
        }
        // In a static program there is no next library.
        let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
        if std::env::var_os("CARGO_FEATURE_ENABLE").is_some()
            && !features.split(',').any(|feature| feature == "crt-static")
        {
            println!("cargo::rustc-cfg=c_identity");
            if is("CARGO_CFG_TARGET_ARCH", "x86_64") {
                println!("cargo::rustc-cfg=other_allocators");
                if std::env::var_os("CARGO_FEATURE___PRELOAD").is_some() {
                    println!("cargo::rustc-cfg=redirects");
                }
            }
        }
    }
}
