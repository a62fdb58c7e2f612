//! Many small trees, one alive at a time.

use std::error::Error;
use std::path::Path;

/// Some sources nest deeply, and the parser recurses.
const STACK: usize = 64 << 20;

pub(super) fn run(list: &Path) -> Result<u64, Box<dyn Error>> {
    let files = super::listed(list)?;
    let parse = move || -> std::io::Result<u64> {
        let mut items = 0;
        for file in &files {
            // What `syn` cannot parse (tests of compilers) it has at least looked at.
            let parsed = syn::parse_file(&std::fs::read_to_string(file)?);
            items += parsed.map_or(0, |parsed| parsed.items.len() as u64);
        }
        Ok(items)
    };
    let parser = std::thread::Builder::new().name("parser".to_owned()).stack_size(STACK);
    Ok(parser.spawn(parse)?.join().map_err(|_| "the parser panicked")??)
}
