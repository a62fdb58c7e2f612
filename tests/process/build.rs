//! Compiles the C that tests call, and the libraries that they load.

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=longjmp.c");
    cc::Build::new().file("longjmp.c").compile("longjmp");
    println!("cargo::rerun-if-changed=frame_pointers.c");
    let is_x86_64 = std::env::var("CARGO_CFG_TARGET_ARCH")? == "x86_64";
    let callers = [
        ("with_frame_pointer", "-fno-omit-frame-pointer"),
        ("without_frame_pointer", "-fomit-frame-pointer"),
    ];
    for (name, frame_pointer) in callers.into_iter().filter(|_| is_x86_64) {
        let mut code = cc::Build::new();
        code.flag("-fno-asynchronous-unwind-tables").flag("-fno-unwind-tables");
        code.file("frame_pointers.c").define("CALLER", name);
        code.force_frame_pointer(false).flag(frame_pointer).opt_level(1).compile(name);
    }
    library("first", "plugin.c", &["-DWORK=first_work"])?;
    library("second", "plugin.c", &["-DWORK=second_work"])?;
    match std::env::var("CARGO_CFG_TARGET_OS")?.as_str() {
        "linux" => library("prefixed_jemalloc", "prefixed_jemalloc.c", &[]),
        _ => Ok(()),
    }
}

/// Compiles a library of C.
fn library(name: &str, source: &str, flags: &[&str]) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={source}");
    let folder = PathBuf::from(std::env::var("OUT_DIR")?);
    let mut compiler = cc::Build::new().get_compiler().to_command();
    compiler.args(["-shared", "-g", "-O1", source]).args(flags);
    // With Microsoft's names and formats, clang only: cl.exe knows none of these flags.
    match std::env::var("CARGO_CFG_TARGET_ENV")?.as_str() {
        "msvc" => compiler.args(["-fuse-ld=lld", "-nostdlib", "-Wl,-noentry"]),
        _ => compiler.args(["-fPIC", "-Wl,--build-id"]),
    };
    let file = match std::env::var("CARGO_CFG_TARGET_OS")?.as_str() {
        "windows" => format!("{name}.dll"),
        "macos" => format!("lib{name}.dylib"),
        _ => format!("lib{name}.so"),
    };
    let status = compiler.arg("-o").arg(folder.join(file)).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{source} cannot be compiled: {status}").into()),
    }
}
