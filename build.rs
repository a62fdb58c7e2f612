//! Records whether the library was built with optimisation. No `cfg` says so: a profile may have
//! debug assertions and optimise, or neither. And whether it is built with the thread sanitizer,
//! for which only an unstable `cfg` exists.

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
}
