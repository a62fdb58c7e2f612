//! Compiles the C that tests call, and the libraries that they load.

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=longjmp.c");
    cc::Build::new().file("longjmp.c").compile("longjmp");
    println!("cargo::rerun-if-changed=plugin.c");
    let folder = PathBuf::from(std::env::var("OUT_DIR")?);
    for name in ["first", "second"] {
        let mut compiler = cc::Build::new().get_compiler().to_command();
        compiler.args(["-shared", "-fPIC", "-g", "-O1", "-Wl,--build-id", "plugin.c"]);
        compiler.arg(format!("-DWORK={name}_work"));
        let library = folder.join(format!("lib{name}.so"));
        let status = compiler.arg("-o").arg(library).status()?;
        if !status.success() {
            return Err(format!("plugin.c cannot be compiled: {status}").into());
        }
    }
    Ok(())
}
