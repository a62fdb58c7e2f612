//! NOTE: only where call stacks are taken, the program finds its own file.
#![cfg(takes_stacks)]

use super::*;
use memledger_format::words::{system_text, text_of};
use std::path::Path;

/// A function of this program.
#[inline(never)]
fn known() {
    std::hint::black_box(1);
}

/// This program as it is loaded, and the offset of [`known`].
fn program() -> (Module, u64) {
    let (files, _) = os::loaded_files(&os::Memory::open().unwrap(), |_, _| false).unwrap();
    let at = known as fn() as usize as u64;
    let file = files.into_iter().find(|f| (f.base..f.base + f.size).contains(&at)).unwrap();
    let offset = at - file.base;
    (Module::new(file.path, file.base, file.size, file.build_id), offset)
}

fn names(module: &Module, offsets: &[u64]) -> Vec<Option<String>> {
    let mut functions = Functions::new();
    functions.frames.extend(offsets.iter().map(|&offset| StackFrame {
        file: 0,
        offset,
        is_guess: false,
        symbol: None,
        name: 0..0,
    }));
    let _ = functions.find_in(0, module);
    functions.frames().map(|(_, name)| name.map(str::to_owned)).collect()
}

#[test]
fn an_offset_is_in_a_function() {
    let (mut module, offset) = program();
    let expected = concat!(module_path!(), "::known");
    assert_eq!(
        names(&module, &[offset, u64::MAX, 0, offset]),
        [Some(expected.to_owned()), None, None, Some(expected.to_owned())]
    );
    let mut other = module.clone();
    other.build_id = vec![1; 20];
    assert_eq!(names(&other, &[offset]), [None]);
    module.path = "/no/such/file".into();
    assert_eq!(names(&module, &[offset]), [None]);
    // A folder whose name is no UTF-8.
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join(system_text(b"d\xff".to_vec()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(std::env::current_exe().unwrap(), folder.join("copy")).unwrap();
    module.path = text_of(folder.join("copy").as_os_str().as_encoded_bytes()).into_owned();
    assert_eq!(names(&module, &[offset]), [Some(expected.to_owned())]);
}

/// The library has no symbols but those that other files can call.
#[cfg(target_env = "gnu")]
#[test]
fn an_offset_is_in_a_function_of_a_library() {
    let (files, _) = os::loaded_files(&os::Memory::open().unwrap(), |_, _| false).unwrap();
    let libc = files.into_iter().find(|file| file.path.contains("libc.so")).unwrap();
    let at = libc::getpid as *const () as u64 - libc.base;
    let found = names(&Module::new(libc.path, libc.base, libc.size, libc.build_id), &[at]);
    assert!(found[0].as_ref().unwrap().ends_with("getpid"), "{found:?}");
}

/// A file with a function of 16 bytes at 0x500 from its base: header, a segment, three sections, symbols
/// and their names.
fn file_with(function: &[u8]) -> Vec<u8> {
    let names = function.len() + 8;
    let mut good = vec![0_u8; 64 + SEGMENT + 3 * SECTION + 2 * SYMBOL + names];
    let (segment, section) = (64, 64 + SEGMENT);
    let (symbols, text) = (section + 3 * SECTION, section + 3 * SECTION + 2 * SYMBOL);
    let mut put = |at: usize, bytes: &[u8]| good[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"\x7fELF\x02\x01");
    put(32, &(segment as u64).to_le_bytes());
    put(40, &(section as u64).to_le_bytes());
    put(54, &[SEGMENT as u8, 0, 1, 0, SECTION as u8, 0, 3, 0]);
    put(segment, &[1, 0, 0, 0]);
    put(segment + 16, &0x1234_u64.to_le_bytes());
    put(section + SECTION + 4, &[2, 0, 0, 0]);
    put(section + SECTION + 24, &(symbols as u64).to_le_bytes());
    put(section + SECTION + 32, &(2 * SYMBOL as u64).to_le_bytes());
    put(section + SECTION + 40, &[2, 0, 0, 0]);
    put(section + 2 * SECTION + 24, &(text as u64).to_le_bytes());
    put(symbols + SYMBOL, &[1, 0, 0, 0, 0x12, 0, 1, 0]);
    put(symbols + SYMBOL + 8, &0x1500_u64.to_le_bytes());
    put(symbols + SYMBOL + 16, &0x10_u64.to_le_bytes());
    put(text + 1, function);
    good
}

#[test]
fn a_file_can_have_anything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let name = |path: &Path| path.to_str().unwrap().to_owned();
    let mut seed = 1_u64;
    let mut next = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed >> 33
    };
    let good = file_with(b"_ZN1a1bE");
    let mut module = Module::new(name(&path), 0, 0, Vec::new());
    std::fs::write(&path, &good).unwrap();
    let found = names(&module, &[0x4ff, 0x500, 0x50f, 0x510]);
    assert_eq!(found, [None, Some("a::b".to_owned()), Some("a::b".to_owned()), None]);
    for length in 0..good.len() {
        std::fs::write(&path, &good[..length]).unwrap();
        names(&module, &[0x500]);
    }
    for _ in 0..1_000 {
        let mut bytes = good.clone();
        for _ in 0..=next() % 4 {
            let at = next() as usize % bytes.len();
            bytes[at] = next() as u8;
        }
        std::fs::write(&path, &bytes).unwrap();
        names(&module, &[0x500, u64::MAX, 0]);
    }
    module.path = name(folder.path());
    assert_eq!(names(&module, &[0x500]), [None]);
}

#[test]
fn a_name_that_is_not_demangled_is_whole_or_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let module = Module::new(path.to_str().unwrap().to_owned(), 0, 0, Vec::new());
    let shown = |function: &str| {
        std::fs::write(&path, file_with(function.as_bytes())).unwrap();
        names(&module, &[0x500]).remove(0)
    };
    let of_cpp = |bytes: usize| format!("_ZN{}{}Ev", bytes, "n".repeat(bytes));
    for bytes in [10, SHOWN_NAME, 3000] {
        assert_eq!(shown(&of_cpp(bytes)), Some(of_cpp(bytes)));
    }
    assert_eq!(shown(&of_cpp(STORED_NAME)), None);
    let of_rust = format!("_ZN4{}17h{}E", "name".to_owned() + &"4long".repeat(60), "0".repeat(16));
    let name = shown(&of_rust).unwrap();
    assert!(name.starts_with("name::long::") && name.ends_with("..."), "{name}");
    assert_eq!(name.len(), SHOWN_NAME + 3);
}

#[test]
fn a_long_name_is_cut() {
    let mut text = Bounded(String::with_capacity(100));
    let mut name = Shortened { text: &mut text, left: 5 };
    assert!(name.write_str("ab").is_ok() && name.write_str("cd\u{e9}").is_err());
    assert_eq!(text.0, "abcd...");
}
