//! Compiles the C that a test calls.

fn main() {
    println!("cargo::rerun-if-changed=longjmp.c");
    cc::Build::new().file("longjmp.c").compile("longjmp");
}
