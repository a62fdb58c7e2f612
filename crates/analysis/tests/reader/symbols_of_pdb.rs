//! Functions and lines from a PDB file, read on any system: `tests/samples/windows`.

use memledger_analysis::{Binaries, CodeRange, Module, SourceFrame, Symbolizer};
use std::fs;
use std::path::{Path, PathBuf};

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/windows");
const CORE: &str = "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/hint.rs";

/// The GUID and the age of `small-rust.exe` and of its PDB file.
fn guid() -> Vec<u8> {
    let mut id = vec![
        0x3d, 0xda, 0xc3, 0xc8, 0x18, 0xd7, 0xb5, 0xf2, 0x4c, 0x4c, 0x44, 0x20, 0x50, 0x44, 0x42,
        0x2e,
    ];
    id.extend(1_u32.to_le_bytes());
    id
}

fn module(path: &str) -> Module {
    Module::new(path.to_owned(), 0x7ff6_0000_0000, 0x6000, guid())
}

fn frame(function: &str, file: &str, line: u32) -> SourceFrame {
    SourceFrame::new(function, Some(file.to_owned()), Some(line))
}

/// A folder with these files of the samples.
fn folder(files: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        fs::copy(Path::new(SAMPLES).join(file), folder.path().join(file)).unwrap();
    }
    folder
}

/// What is found in a folder of `--symbols`, and what is said.
fn found(folder: &Path, module: &Module, offset: u64) -> (Vec<SourceFrame>, Vec<String>) {
    let mut binaries = Binaries::new(&[folder.to_owned()]);
    (binaries.frames(module, offset), binaries.take_notes())
}

/// Two functions inlined into `Pair::sum`.
fn inlined() -> [SourceFrame; 4] {
    let small = "C:/small/small-rust.rs";
    [
        frame("core::hint::black_box", CORE, 491),
        frame("small_rust::innermost", small, 14),
        frame("small_rust::inlined", small, 19),
        frame("small_rust::Pair<u32>::sum", small, 29),
    ]
}

#[test]
fn functions_inlined_functions_files_and_lines_are_found() {
    let module = module("C:\\x\\y\\small-rust.exe");
    let mut binaries = Binaries::new(&[PathBuf::from(SAMPLES)]);
    assert_eq!(binaries.frames(&module, 0x1012), inlined());
    let outer = frame("small_rust::outer", "C:/small/small-rust.rs", 38);
    assert_eq!(binaries.frames(&module, 0x107a), [outer]);
    assert_eq!(binaries.frames(&module, 1 << 20), []);
    assert_eq!(binaries.code(&module), [CodeRange::new(0x1000, 0xa0, 0x400)]);
    assert_eq!(binaries.take_notes(), [""; 0]);
    assert!(binaries.fingerprint(&module).is_some());
}

/// In a folder alone, also under another name; beside the program that a folder has, under the name in the
/// program; and beside the program where it ran.
#[test]
fn the_file_is_found_beside_the_program_and_in_folders() {
    let alone = folder(&["small-rust.pdb"]);
    let ran = module("C:\\x\\y\\small-rust.exe");
    assert_eq!(found(alone.path(), &ran, 0x1012), (inlined().to_vec(), Vec::new()));
    let renamed = module("C:\\x\\y\\renamed.dll");
    assert_eq!(found(alone.path(), &renamed, 0x1012), (inlined().to_vec(), Vec::new()));
    let both = folder(&["small-rust.exe", "small-rust.pdb"]);
    let beside = module(both.path().join("renamed.exe").to_str().unwrap());
    fs::rename(both.path().join("small-rust.exe"), &beside.path).unwrap();
    let mut binaries = Binaries::new(&[]);
    assert_eq!(binaries.frames(&beside, 0x1012), inlined());
    assert_eq!(binaries.take_notes(), [""; 0]);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let program = folder(&["small-rust.exe"]);
    let (frames, notes) = found(program.path(), &module("C:\\x\\small-rust.exe"), 0x1012);
    assert_eq!(frames, []);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].contains("small-rust.exe are in small-rust.pdb, which is not there"),
        "{notes:?}"
    );
}

/// Of libraries, it is said once.
#[test]
fn libraries_without_the_file_are_one_sentence() {
    let folder = folder(&["small-rust.exe"]);
    for name in ["one.dll", "TWO.DLL", "three.dll"] {
        fs::copy(folder.path().join("small-rust.exe"), folder.path().join(name)).unwrap();
    }
    let mut binaries = Binaries::new(&[folder.path().to_owned()]);
    for name in ["one.dll", "TWO.DLL", "three.dll", "small-rust.exe"] {
        assert_eq!(binaries.frames(&module(&format!("C:\\x\\{name}")), 0x1012), []);
    }
    let notes = binaries.take_notes();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("one.dll are in small-rust.pdb, which is not there (those of other"));
    assert!(notes[1].contains("small-rust.exe are in small-rust.pdb, which is not there;"));
}

#[test]
fn a_file_of_another_build_is_refused() {
    let alone = folder(&["small-rust.pdb"]);
    for at in [0, 16] {
        let mut module = module("C:\\x\\small-rust.exe");
        module.build_id[at] ^= 1;
        let (frames, notes) = found(alone.path(), &module, 0x1012);
        assert_eq!(frames, []);
        assert!(notes.len() == 1 && notes[0].contains("its GUID and age are"), "{notes:?}");
    }
}

/// A damaged file gives a sentence or other frames, and no panic: one place at a time, random ones, and ends.
#[test]
fn a_damaged_file_is_survived() {
    let folder = folder(&["small-rust.pdb"]);
    let path = folder.path().join("small-rust.pdb");
    let whole = fs::read(&path).unwrap();
    let module = module("C:\\x\\small-rust.exe");
    let step = std::env::var("MEMLEDGER_DAMAGE_STEP").map_or(211, |step| step.parse().unwrap());
    let (mut with_notes, mut with_frames) = (0, 0);
    let mut read = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let mut binaries = Binaries::new(&[folder.path().to_owned()]);
        let frames: usize =
            (0x1000..0x10b0).step_by(5).map(|at| binaries.frames(&module, at).len()).sum();
        with_notes += usize::from(!binaries.take_notes().is_empty());
        with_frames += usize::from(frames > 0);
    };
    for at in (0..whole.len()).step_by(step).filter(|at| whole[*at] != 0) {
        for bytes in [&[0][..], &[1], &[0x7f], &[0x80], &[0xff; 4]] {
            let mut damaged = whole.clone();
            let end = (at + bytes.len()).min(whole.len());
            damaged[at..end].copy_from_slice(&bytes[..end - at]);
            read(&damaged);
        }
    }
    let mut random = 1_u64;
    let mut below = |end: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % end
    };
    for _ in 0..40_000 / step {
        let mut damaged = whole.clone();
        for _ in 0..=below(8) {
            damaged[below(whole.len())] = [0, 0xff, below(256) as u8][below(3)];
        }
        read(&damaged);
    }
    for length in (0..whole.len()).step_by(step * 20) {
        read(&whole[..length]);
    }
    assert!(with_notes > 10 && with_frames > 100, "{with_notes} {with_frames}");
}

/// What is kept of a file is used only for the same one: neither a changed one, nor one with a sentence.
#[test]
fn what_is_kept_belongs_to_the_file() {
    let folder = folder(&["small-rust.pdb"]);
    let path = folder.path().join("small-rust.pdb");
    let module = module("C:\\x\\small-rust.exe");
    let fingerprint = || Binaries::new(&[folder.path().to_owned()]).fingerprint(&module);
    let first = fingerprint();
    assert!(first.is_some() && fingerprint() == first);
    let mut bytes = fs::read(&path).unwrap();
    bytes.push(0);
    fs::write(&path, bytes).unwrap();
    assert!(fingerprint().is_some() && fingerprint() != first);
    fs::remove_file(&path).unwrap();
    assert_eq!(fingerprint(), None);
}
