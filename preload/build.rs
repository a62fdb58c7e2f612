//! How the library is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let link = |argument: &str| println!("cargo::rustc-link-arg-cdylib={argument}");
    if is("CARGO_CFG_TARGET_ARCH", "x86_64") && is("CARGO_CFG_TARGET_OS", "linux") {
        // The loader runs this library's first functions before those of all others, where it redirects
        // functions of allocators: what these allocate is recorded from the first block on, and no other
        // thread runs meanwhile.
        link("-Wl,-z,initfirst");
    }
}
