//! Has the loader run this library's first functions before those of all others (`ld -z initfirst`): what an allocator allocates is recorded from
//! the first block on, and no other thread runs while functions are redirected.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,initfirst");
}
