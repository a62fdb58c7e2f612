//! Makes broken copies of `order.rs` and `bucket.rs`, to show that the model finds such faults.
//!
//! They are made from the real source, so that each has exactly one fault, even after the source
//! changes.

use std::path::Path;
use std::{env, fs};

const ORDER: &str = "../../src/trace/write/order.rs";
const BUCKET: &str = "../../src/platform/bucket.rs";

/// The source, the name of the copy, what is replaced, and by what.
const FAULTS: [(&str, &str, &str, &str); 4] = [
    (
        ORDER,
        "plain_store",
        "clock.compare_exchange_weak(found, new, Ordering::Relaxed, Ordering::Relaxed)",
        "{ clock.store(new, Ordering::Relaxed); Ok::<u64, u64>(found) }",
    ),
    (ORDER, "no_step", "let step = u64::from(owner(found) != owner(stamp));", "let step = 0;"),
    (
        BUCKET,
        "plain_link",
        "(head, added, Ordering::AcqRel, Ordering::Acquire)",
        "(head, added, Ordering::Relaxed, Ordering::Acquire)",
    ),
    (BUCKET, "not_compared", "find(newer, head)", "find(newer, newer)"),
];

fn main() {
    let folder = env::var("OUT_DIR").expect("cargo sets it");
    for (path, name, old, new) in FAULTS {
        println!("cargo::rerun-if-changed={path}");
        let source = fs::read_to_string(path).expect("the model lies within memledger's sources");
        // The copies are included within a module, where module documentation is an error.
        let code = source.lines().filter(|line| !line.starts_with("//!"));
        let code = code.collect::<Vec<_>>().join("\n");
        let count = code.matches(old).count();
        assert_eq!(count, 1, "{name}: `{old}` is not in {path} any more: plant the fault anew");
        fs::write(Path::new(&folder).join(format!("{name}.rs")), code.replace(old, new))
            .expect("cargo makes the folder");
    }
}
