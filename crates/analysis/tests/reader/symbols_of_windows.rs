//! Symbols of files of Windows, read on any system: `tests/samples/windows`.

use memledger_analysis::{Binaries, CodeRange, Module, SourceFrame, Symbolizer};
use std::path::PathBuf;

const BASE: u64 = 0x7ff6_0000_0000;
/// The size of the image of `small.exe`, which its header says.
const SIZE: u32 = 0xd000;

/// Time, size and checksum of the header.
fn header_id() -> Vec<u8> {
    [0, SIZE, 0x1_091c].iter().flat_map(|number: &u32| number.to_le_bytes()).collect()
}

/// The GUID and the age of `small-guid.exe`.
fn guid() -> Vec<u8> {
    let mut id = vec![
        0xd1, 0xa5, 0x21, 0xad, 0x24, 0x8a, 0xfb, 0x08, 0xcb, 0x3b, 0x84, 0xfc, 0xf3, 0x2e, 0x2f,
        0x49,
    ];
    id.extend(1_u32.to_le_bytes());
    id
}

fn module(name: &str, build_id: Vec<u8>) -> Module {
    Module::new(format!("C:\\x\\y\\{name}"), BASE, SIZE.into(), build_id)
}

fn binaries() -> Binaries {
    Binaries::new(&[PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/samples/windows"
    ))])
}

fn frame(function: &str, line: u32) -> SourceFrame {
    SourceFrame::new(function, Some("./small.c".to_owned()), Some(line))
}

/// The frames at an offset, with only the last part of each file.
fn frames(binaries: &mut Binaries, module: &Module, offset: u64) -> Vec<SourceFrame> {
    let mut frames = binaries.frames(module, offset);
    for frame in &mut frames {
        let name = frame.file.as_deref().and_then(|file| file.rsplit('/').next());
        frame.file = name.map(|name| format!("./{name}"));
    }
    frames
}

#[test]
fn functions_files_and_lines_are_found_by_the_name_of_the_file() {
    for module in [module("small.exe", header_id()), module("small-guid.exe", guid())] {
        let mut binaries = binaries();
        assert_eq!(
            frames(&mut binaries, &module, 0x1000),
            [frame("inlined", 5), frame("outer", 9)]
        );
        // The last byte of a call.
        assert_eq!(frames(&mut binaries, &module, 0x1018), [frame("start", 13)]);
        assert_eq!(binaries.frames(&module, 1 << 20), []);
        assert_eq!(binaries.take_notes(), [""; 0]);
        assert!(binaries.fingerprint(&module).is_some());
    }
}

#[test]
fn code_is_where_the_sections_with_code_are() {
    let code = binaries().code(&module("small.exe", header_id()));
    assert_eq!(code, [CodeRange::new(0x1000, 0x40, 0x400)]);
}

#[test]
fn another_build_is_refused() {
    let mut changed = header_id();
    changed[8] ^= 1;
    let mut younger = guid();
    younger[16] += 1;
    let refused = [("small.exe", changed), ("small-guid.exe", younger), ("small.exe", Vec::new())];
    for (name, build_id) in refused {
        let (mut binaries, module) = (binaries(), module(name, build_id));
        assert_eq!(binaries.frames(&module, 0x1000), []);
        assert_eq!(binaries.code(&module), []);
        let notes = binaries.take_notes();
        assert!(
            notes.len() == 1 && notes[0].contains("is not the file that was loaded"),
            "{notes:?}"
        );
    }
}

/// A file that was renamed is found by its id.
#[test]
fn another_name_with_the_same_id_is_found() {
    let module = module("renamed.exe", guid());
    assert_eq!(frames(&mut binaries(), &module, 0x1018), [frame("start", 13)]);
}
