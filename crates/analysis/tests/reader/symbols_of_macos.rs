//! Symbols of files of macOS, read on any system: `tests/samples/macos`.

use memledger_analysis::{Binaries, CodeRange, Module, SourceFrame, Symbolizer};
use std::fs;
use std::path::{Path, PathBuf};

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/macos");
const UUID: [u8; 16] = *b"\x4c\x4c\x44\xfe\x55\x55\x31\x44\xa1\x67\x89\xe8\xa7\xe9\xaa\x87";

fn module(path: &str) -> Module {
    Module::new(path.to_owned(), 0x1_0200_0000, 0x8000, UUID.to_vec())
}

/// Functions, and the last part of each file with its line.
fn names(frames: &[SourceFrame]) -> Vec<String> {
    let place = |frame: &SourceFrame| {
        let file = frame.file.as_deref()?.rsplit('/').next()?;
        Some(format!(" {file}:{}", frame.line?))
    };
    let name = |frame: &SourceFrame| frame.function.clone() + &place(frame).unwrap_or_default();
    frames.iter().map(name).collect()
}

const INLINED: [&str; 3] = [
    "core::hint::black_box hint.rs:491",
    "small_mac::inlined small-mac.rs:14",
    "small_mac::outer small-mac.rs:21",
];

#[test]
fn functions_and_lines_are_in_the_dsym_beside_the_program_and_in_folders() {
    let beside = module(&format!("{SAMPLES}/small-mac"));
    let elsewhere = module("/Applications/x/small-mac");
    for (module, folders) in [(beside, vec![]), (elsewhere, vec![PathBuf::from(SAMPLES)])] {
        let mut binaries = Binaries::new(&folders);
        assert_eq!(names(&binaries.frames(&module, 0x2b8)), INLINED);
        assert_eq!(names(&binaries.frames(&module, 0x2c4)), ["small_mac::outer small-mac.rs:20"]);
        assert_eq!(binaries.frames(&module, 1 << 20), []);
        assert_eq!(binaries.code(&module).len(), 1);
        assert_eq!(binaries.take_notes(), [""; 0]);
        assert!(binaries.fingerprint(&module).is_some());
    }
}

#[test]
fn without_the_dsym_functions_have_names_and_no_lines() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(Path::new(SAMPLES).join("small-mac"), folder.path().join("small-mac")).unwrap();
    let mut binaries = Binaries::new(&[folder.path().to_owned()]);
    let module = module("/Applications/x/small-mac");
    assert_eq!(names(&binaries.frames(&module, 0x2b8)), ["small_mac::outer"]);
    assert_eq!(names(&binaries.frames(&module, 0x2d8)), ["start"]);
    assert_eq!(binaries.code(&module), [CodeRange::new(0x2a0, 0x5c, 0x2a0)]);
}

#[test]
fn another_uuid_is_refused() {
    let mut module = module("/Applications/x/small-mac");
    module.build_id[15] ^= 1;
    let mut binaries = Binaries::new(&[PathBuf::from(SAMPLES)]);
    assert_eq!(binaries.frames(&module, 0x2b8), []);
    let notes = binaries.take_notes();
    assert!(notes.len() == 1 && notes[0].contains("is not the file that was loaded"), "{notes:?}");
}
