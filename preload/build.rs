//! Has the loader run this library's first functions before those of all others (`ld -z initfirst`), where it
//! redirects functions of allocators: what these allocate is recorded from the first block on, and no other
//! thread runs meanwhile.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|name| name == "x86_64") {
        println!("cargo::rustc-link-arg-cdylib=-Wl,-z,initfirst");
    }
}
