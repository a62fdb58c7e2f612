//! Replays the seeds of the fuzzers and all past findings, in the ordinary tests.

use memledger_fuzz_bodies::{TARGETS, Target};
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

/// Runs one input, and names it if it fails. The panic itself is in the output of the test.
fn failed(target: &Target, input: &[u8], name: &str) -> Option<String> {
    let run = target.run;
    catch_unwind(|| run(input)).err().map(|_| format!("{} {name}: {input:02x?}", target.name))
}

#[test]
fn the_seeds_pass() {
    let mut wrong = Vec::new();
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} begins with nothing", target.name);
        for (index, seed) in seeds.iter().enumerate() {
            let name = format!("seed {index}");
            // Also run parts of the input: cut off, and with one byte changed.
            let others = (0..seed.len().min(40)).flat_map(|at| {
                let mut other = seed.clone();
                other[at] ^= 1 << (at % 8);
                [other, seed[..seed.len() - at].to_vec()]
            });
            let mut all = std::iter::once(seed.clone()).chain(others);
            wrong.extend(all.find_map(|input| failed(target, &input, &name)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_was_found_stays_mended() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../regressions"));
    let (mut replayed, mut wrong) = (0, Vec::new());
    for entry in fs::read_dir(folder).expect("the folder of findings") {
        let folder = entry.expect("an entry").path();
        let name = folder.file_name().unwrap_or_default();
        let target = TARGETS.iter().find(|target| *target.name == *name);
        let target = target.unwrap_or_else(|| panic!("there is no fuzzer {}", name.display()));
        for entry in fs::read_dir(&folder).expect("a folder for each fuzzer") {
            let path = entry.expect("an entry").path();
            let input = fs::read(&path).expect("the input");
            wrong.extend(failed(target, &input, &path.display().to_string()));
            replayed += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(replayed > 0, "nothing was replayed");
}
