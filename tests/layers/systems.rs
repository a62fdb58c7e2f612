//! Nothing above the platform names a system.

use super::sources::sources;

/// What names a system, or supposes what only one has.
const NAMES: &[&str] = &[
    "libc::",
    "windows_sys",
    "/proc",
    "std::os::",
    "target_os",
    "cfg(unix)",
    "cfg(windows)",
    "Elf64_",
];

/// The first words of files that may, and the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("src/platform/os", "it is the platform"),
    ("src/interpose/c_", "the functions of C"),
    ("src/ledger/lifecycle/c_filter.rs", "the functions of C"),
    ("src/stacks/capture/fuzzing.rs", "functions of C as code to walk through"),
    ("src/platform/whole_pages.rs", "an alignment is a number, not a constant"),
];

fn is_test(file: &str) -> bool {
    file.ends_with("/tests.rs") || file.contains("/tests/")
}

/// Whether a line has the size of a page as a number.
fn has_page(line: &str) -> bool {
    let is_size = line.contains("4096") || line.contains("4 << 10");
    is_size && ["PAGE", "page", "align("].iter().any(|word| line.contains(word))
}

#[test]
fn nothing_above_the_platform_names_a_system() {
    let mut used = vec![false; EXCEPTIONS.len()];
    let mut wrong = Vec::new();
    for (file, code) in sources("src") {
        let named = |line: &&str| NAMES.iter().any(|name| line.contains(name)) || has_page(line);
        let Some(line) = code.lines().find(named) else { continue };
        match EXCEPTIONS.iter().position(|(start, _)| file.starts_with(start)) {
            Some(exception) => used[exception] = true,
            None if is_test(&file) => {}
            None => wrong.push(format!("{file}: {}", line.trim())),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(used.iter().all(|used| *used), "an exception is not needed: {used:?}");
}
