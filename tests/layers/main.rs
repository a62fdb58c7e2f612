//! Which module may use which: the table of `ARCHITECTURE.md`, checked against the sources. The
//! list of tests in `tests/faults.md` is checked as well.
//!
//! Every path of this crate that a module names (`crate::..`, `super::..`) must begin with one its
//! layer allows.

mod circles;
mod comments;
mod figures;
mod growth;
mod map;
mod pages;
mod sources;
mod systems;

use sources::{module_of, named_paths, sources};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module, and what it may name besides itself. The first row that fits a file counts. What other crates a
/// module names is in [`CRATES`].
const LAYERS: &[(&str, &[&str])] = &[
    ("nothing", &[]),
    // A file there is what the file of the same path is without a tracker, or without a feature.
    (
        "disabled",
        &[
            "dump", "error", "ledger", "nothing", "perfetto", "platform", "problems", "scopes",
            "trace",
        ],
    ),
    ("error", &[]),
    ("platform", &["error", "nothing"]),
    ("trace::write", &["platform"]),
    ("trace::entry", &["error", "platform", "trace::write"]),
    ("trace::sink", &["error", "platform", "trace::write::ReentrancyGuard"]),
    ("trace::worker", &["error", "platform", "trace::sink", "trace::write"]),
    (
        "events",
        &[
            "error",
            "platform",
            "trace::sink::Sink",
            "trace::write",
            "trace::worker",
            // The macros, as a program names them.
            "event",
            "log",
        ],
    ),
    ("control", &["error", "platform", "trace::sink::tcp", "trace::write::ReentrancyGuard"]),
    ("scopes", &["platform", "events::channel", "trace::write", "trace::worker"]),
    (
        "stacks",
        &["error", "nothing", "platform", "events::channel", "trace::write", "trace::worker"],
    ),
    (
        "alloc",
        &["scopes", "stacks", "platform", "events::channel", "trace::write", "trace::worker"],
    ),
    ("interpose", &["alloc", "platform", "scopes", "stacks", "trace::worker", "trace::write"]),
    ("rss", &["alloc::stats", "platform", "trace::worker", "trace::write::ReentrancyGuard"]),
    ("containers", &["alloc::hook", "scopes"]),
    (
        "perfetto",
        &[
            "error",
            "events",
            "platform",
            "trace::sink",
            "trace::worker",
            "trace::write",
            // The macros, as a program names them.
            "event",
            "track_event",
        ],
    ),
    ("problems", &["error", "platform", "trace::entry", "trace::worker", "trace::write"]),
    ("dump", &["error", "platform", "problems", "scopes", "trace"]),
    (
        "ledger",
        &[
            "alloc",
            "control",
            "dump",
            "error",
            "events",
            "interpose",
            "perfetto",
            "platform",
            "problems",
            "rss",
            "scopes",
            "stacks",
            "trace",
        ],
    ),
    ("measure", &["dump", "error", "Name", "ledger", "platform", "scopes", "trace"]),
    // The table of contents.
    ("", &[""]),
];

/// A crate, and the modules of `src` that may name it.
const CRATES: &[(&str, &[&str])] = &[
    ("memledger_format", &[""]),
    ("memledger_document", &[]),
    ("memledger_analysis", &["disabled::dump", "dump", "ledger", "measure", "report"]),
    ("memledger_export", &["dump", "ledger", "measure", "report"]),
    ("memledger_store", &[]),
];

/// The same within `crates/analysis`.
const LAYERS_OF_ANALYSIS: &[(&str, &[&str])] = &[
    ("read", &[]),
    ("convert", &["read"]),
    // It writes what it has found out into a copy of the trace.
    ("add_symbols", &["", "convert", "read"]),
    // For other crates.
    ("in_process", &[""]),
    ("internal", &[""]),
    ("", &["", "read"]),
];

/// Everything that `alloc`, `realloc` and `dealloc` can reach.
const REACHABLE_FROM_THE_HOOK: &[&str] = &[
    "src/alloc/below.rs",
    "src/interpose/c_malloc.rs",
    "src/interpose/c_mmap.rs",
    "src/interpose/c_threads.rs",
    "src/alloc/hook.rs",
    "src/alloc/own_blocks.rs",
    "src/alloc/record.rs",
    "src/alloc/stats.rs",
    "src/alloc/tracker.rs",
    "src/alloc/tracking_allocator.rs",
    "src/scopes/entries/mod.rs",
    "src/scopes/misuse.rs",
    "src/scopes/switch.rs",
    "src/scopes/current/mod.rs",
    "src/scopes/current/cache.rs",
    "src/scopes/current/overflow.rs",
    "src/platform/bucket.rs",
    "src/platform/chunk_table.rs",
    "src/stacks/state.rs",
    "src/stacks/tree/mod.rs",
    "src/platform/clock.rs",
    "src/platform/free_stack.rs",
    "crates/format/src/stream_events.rs",
    "src/trace/write/backpressure.rs",
    "src/trace/write/buffer.rs",
    "src/trace/write/buffer_pool.rs",
    "src/trace/write/clocks.rs",
    "src/trace/write/enter.rs",
    "src/trace/write/hold.rs",
    "src/trace/write/loss.rs",
    "src/trace/write/mod.rs",
    "src/trace/write/order.rs",
    "src/trace/write/reentrancy.rs",
    "src/trace/write/registry.rs",
    "src/trace/write/reserve.rs",
    "src/trace/write/slot.rs",
    "src/trace/write/state.rs",
    "src/trace/write/sync.rs",
    "src/trace/write/watch.rs",
];

/// What allocates, locks, panics or formats.
const NOT_IN_THE_HOOK: &[&str] = &[
    "Mutex",
    "RwLock",
    "Once",
    "parking_lot",
    "dashmap",
    "backtrace",
    "println!",
    "eprintln!",
    "format!",
    "panic!",
    "assert!(",
    "assert_eq!",
    ".unwrap()",
    ".expect(",
    "thread::current",
    "Vec",
    "String",
    "Box<",
    "Box::new",
    "vec!",
    "Arc",
];

/// The crates that a program is built with.
fn libraries() -> Vec<(String, String)> {
    growth::PUBLISHED.iter().flat_map(|folder| sources(folder)).collect()
}

fn is_within(path: &str, module: &str) -> bool {
    module.is_empty()
        || path == module
        || path.strip_prefix(module).is_some_and(|rest| rest.starts_with("::"))
}

/// What of `named` a file of the module `own` may not name. `""` is what has no row of its own.
fn forbidden(layers: &[(&str, &[&str])], own: &str, named: &[String]) -> Vec<String> {
    let row = |path: &str| layers.iter().find(|(layer, _)| is_within(path, layer)).unwrap();
    let (layer, allowed) = row(own);
    let fits = |path: &String| {
        let room = row(path).0;
        room == *layer
            || allowed.iter().any(|one| match *one {
                "" => room.is_empty(),
                one => is_within(path, one),
            })
    };
    named.iter().filter(|path| !fits(path)).cloned().collect()
}

#[test]
fn each_layer_names_only_the_ones_below() {
    let mut wrong = Vec::new();
    let mut named = 0;
    for (folder, layers) in [("src", LAYERS), ("crates/analysis/src", LAYERS_OF_ANALYSIS)] {
        for (file, code) in sources(folder) {
            let module = module_of(file.trim_start_matches(folder).trim_start_matches('/'));
            let own = module.join("::");
            // `lib.rs` and these are tables of contents.
            if ["", "perfetto", "platform", "private", "trace"].contains(&&*own) {
                continue;
            }
            let mut paths = named_paths(&code, &module);
            // Public macros are defined in the root.
            paths.retain(|path| !path.starts_with("__"));
            named += paths.len();
            let paths = forbidden(layers, &own, &paths);
            wrong.extend(paths.iter().map(|path| format!("{file} names {path}")));
            for (name, by) in CRATES.iter().filter(|_| folder == "src") {
                if code.contains(name) && !by.iter().any(|by| is_within(&own, by)) {
                    wrong.push(format!("{file} names {name}"));
                }
            }
        }
    }
    assert!(named > 100, "only {named} paths were found, so this test does not look");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Names that several modules have by design: containers mirror those of the standard library, a row and a
/// program have figures, each crate has an error and its kinds, each format of reports is a `Format`, macros
/// name the same type with a tracker and without, and traits are sealed where they are.
const MIRRORED: &[&str] =
    &["Error", "ErrorKind", "Figures", "Format", "LogSite", "Sealed", "VacantEntry"];

/// What is public for other crates of memledger only.
const HIDDEN: &[&str] =
    &["crates/format/src/encode.rs", "crates/format/src/protobuf", "crates/export/src/pretty.rs"];

#[test]
fn no_two_public_types_have_one_name() {
    let mut files = libraries();
    files.retain(|(file, _)| !HIDDEN.iter().any(|hidden| file.starts_with(hidden)));
    let mut names = BTreeMap::<&str, Vec<&str>>::new();
    for (file, code) in &files {
        for line in code.lines() {
            let Some(item) = line.strip_prefix("pub ") else { continue };
            let item = item.strip_prefix("unsafe ").unwrap_or(item);
            let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
            let Some(name) = kinds.iter().find_map(|kind| item.strip_prefix(kind)) else {
                continue;
            };
            let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(name.len());
            names.entry(&name[..end]).or_default().push(file);
        }
    }
    assert!(names.len() > 100, "only {} types were found, so this test does not look", names.len());
    names.retain(|name, files| files.len() > 1 && !MIRRORED.contains(name));
    assert!(names.is_empty(), "{names:#?}");
}

/// Traits of our own that have impls for types of other crates. They leave inference in other code
/// alone: only code that names the trait has such an obligation.
const OURS: &[&str] = &[
    "AllocScope",
    "Definition",
    "EventConstants",
    "FewTexts",
    "HasNumber",
    "Id",
    "Json",
    "Kind",
    "Loggable",
    "Plain",
    "Sealed",
    "TrackValue",
    "Values",
    "Visitor",
    "WireKind",
];

/// Names that macros use for a type of ours.
const OUR_METAVARIABLES: &[&str] = &["$container", "$name", "$tagged", "$text"];

/// An impl of a foreign trait for a foreign type can make inference ambiguous in a program that
/// never names memledger (`set == iterator.collect()`). So there is none, whatever its parameters.
#[test]
fn no_impl_of_a_foreign_trait_is_for_a_foreign_type() {
    let files = libraries();
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let word = |text: &str| text.split(|c| !is_word(c)).next().unwrap_or("").to_owned();
    let mut types = BTreeSet::new();
    let mut traits = BTreeSet::new();
    for (_, code) in &files {
        for kind in ["struct ", "enum ", "union ", "trait "] {
            let names = code.split(kind).skip(1).map(word);
            let list = if kind == "trait " { &mut traits } else { &mut types };
            list.extend(names);
        }
    }
    assert!(OURS.iter().all(|name| traits.contains(*name)), "a trait of the list is gone");
    let (mut found, mut wrong) = (0, Vec::new());
    for (file, code) in &files {
        for (start, _) in code.match_indices("impl") {
            let line = code[..start].rsplit('\n').next().unwrap_or("").trim();
            let head = &code[start + 4..];
            let head = &head[..head.find(['{', ';']).unwrap_or(0)];
            let Some((implemented, of)) = head.split_once(" for ") else { continue };
            if !["", "unsafe"].contains(&line) || !head.starts_with([' ', '<']) {
                continue;
            }
            found += 1;
            // After its generic parameters, and without its own.
            let mut depth = 0;
            let path = implemented.trim_start().trim_start_matches(|c| {
                depth += i32::from(c == '<') - i32::from(c == '>');
                depth > 0 || c == '>'
            });
            let path = path.split('<').next().unwrap_or("").trim();
            let name = path.rsplit("::").next().unwrap_or("");
            let mut words = of
                .split([' ', ',', '&', '<'])
                .filter(|word| !word.is_empty() && !word.starts_with('\'') && *word != "mut");
            let own = words.next().unwrap_or("").rsplit("::").next().unwrap_or("");
            let is_own = types.contains(own) || OUR_METAVARIABLES.contains(&own);
            if !is_own && !OURS.contains(&name) {
                wrong.push(format!("{file}: {name} for {}", of.trim()));
            }
        }
    }
    assert!(found > 300, "only {found} impls were found, so this test does not look");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Each file of `src/disabled` replaces the file of the same path in `src`. `examples/tests/api.rs` calls
/// each public function and macro of the files that both builds have, and `.ci/run` runs it in both, and
/// compiles it without `report`, where only `analysis` and `Snapshot::report` have no place.
#[test]
fn the_api_is_the_same_without_a_tracker() {
    let files = sources("src");
    let test = sources("examples/tests").remove(0).1;
    let mut shared = Vec::new();
    for (file, code) in &files {
        if file.starts_with("src/disabled") {
            let twin = file.replace("/disabled", "");
            assert!(files.iter().any(|(other, _)| *other == twin), "{file} stands for no file");
            let paths = code.split("#[path = \"").skip(1).filter_map(|rest| rest.split('"').next());
            shared.extend(paths.map(|path| format!("src/{}", path.trim_start_matches("../"))));
        } else if ["ledger", "measure"].iter().any(|of| file.starts_with(&format!("src/{of}/"))) {
            shared.push(file.clone());
        }
    }
    // They need features, with which their doc tests run in both ways.
    shared.retain(|file| {
        !["fuzzing.rs", "spans.rs", "track_events.rs"].iter().any(|of| file.ends_with(of))
    });
    let mut missing = Vec::new();
    for file in shared {
        let (_, code) = files.iter().find(|(other, _)| *other == file).expect("a file");
        missing.extend(
            public_names(code)
                .filter(|name| {
                    *name != "pprof"
                        && !test.contains(&format!("{name}("))
                        && !test.contains(&format!("{name}!"))
                })
                .map(str::to_owned),
        );
    }
    assert!(missing.is_empty(), "not in examples/tests/api.rs: {missing:?}");
}

/// The functions and macros of a file that its documentation has.
fn public_names(code: &str) -> impl Iterator<Item = &str> {
    let mut attributes = String::new();
    code.lines().filter_map(move |line| {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with("#[") {
            attributes += line;
            return None;
        }
        let before = std::mem::take(&mut attributes);
        let line =
            line.strip_prefix("pub const fn ").or(line.strip_prefix("pub fn ")).or_else(|| {
                line.strip_prefix("macro_rules! ").filter(|_| before.contains("macro_export"))
            })?;
        let end = line.find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
        (!before.contains("doc(hidden)")).then_some(&line[..end])
    })
}

#[test]
fn nothing_the_hook_reaches_allocates_locks_panics_or_formats() {
    let files = libraries();
    let mut wrong = Vec::new();
    for name in REACHABLE_FROM_THE_HOOK {
        let (_, code) = files.iter().find(|(file, _)| file == name).expect("the file exists");
        for word in NOT_IN_THE_HOOK {
            let used = code.match_indices(word).any(|(at, _)| {
                // Part of another word (`FnOnce`, `debug_assert!`), or a check of the compiler's.
                let before = &code[..at];
                let inside = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
                !inside
                    && !["const _: () = ", "const { "].iter().any(|check| before.ends_with(check))
            });
            if used {
                wrong.push(format!("{name} contains {word}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn only_the_recording_side_has_unsafe_code() {
    for name in ["format", "analysis", "export", "store"] {
        let path = format!("{}/crates/{name}/src/lib.rs", env!("CARGO_MANIFEST_DIR"));
        let code = fs::read_to_string(path).unwrap();
        assert!(code.contains("#![forbid(unsafe_code)]"), "{name}");
    }
    // It looks at the process before Rust's runtime does, and reads nothing.
    let other = "cli/src/inherited.rs";
    for (file, code) in sources("cli/src").iter().filter(|(file, _)| file != other) {
        let forms = ["{", "fn ", "impl ", "trait ", "extern "];
        let used = forms.iter().find(|form| code.contains(&format!("unsafe {form}")));
        assert_eq!(used, None, "{file} contains unsafe code");
    }
}

/// Cargo does not look for tests here (`autotests = false`), so a file without its entry never
/// runs.
#[test]
fn each_file_of_tests_is_a_test_of_a_manifest() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifests = ["Cargo.toml", "tests/process/Cargo.toml"]
        .map(|manifest| fs::read_to_string(root.join(manifest)).unwrap());
    let mut looked = 0;
    for entry in fs::read_dir(root.join("tests")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs")
            || path.join("main.rs").exists()
        {
            looked += 1;
            let name = path.file_stem().unwrap().to_str().unwrap();
            let test = format!("[[test]]\nname = \"{name}\"\n");
            assert!(manifests.iter().any(|text| text.contains(&test)), "{name} is in no manifest");
        }
    }
    assert!(looked > 5);
}

/// All tests below `folder`, by the names that `cargo test` lists.
fn tests_in(root: &Path, folder: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            tests_in(root, &path, found);
        } else if path.ends_with(".rs") {
            let text = fs::read_to_string(root.join(&path)).unwrap();
            names_in(&path, &text, found);
        }
    }
}

fn names_in(path: &str, text: &str, found: &mut Vec<String>) {
    // A file directly in `tests` is a program of its own, and so is a folder.
    let is_program =
        path.starts_with("tests/") || path.contains("/tests/") && !path.contains("/src/");
    let place = if is_program { "tests/" } else { "src/" };
    let mut module = module_of(path.rsplit_once(place).unwrap().1);
    if is_program {
        module.remove(0);
        module.retain(|part| part != "main");
    }
    let named = |name: &str| [&module[..], &[name.to_owned()]].concat().join("::");
    for (at, _) in text.match_indices("#[test]") {
        let name = text[at..].split_once("fn ").unwrap().1;
        let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap();
        let inline = text[..at].contains("mod tests {");
        let name = if inline { format!("tests::{}", &name[..end]) } else { name[..end].to_owned() };
        found.push(named(&name));
    }
    // `trials![one, two]` of `cli/tests/run`.
    if let Some((_, list)) = text.split_once("\ntrials![") {
        let list = list.split_once(']').unwrap().0;
        found.extend(list.split(',').map(|name| name.trim().to_owned()));
    }
    // Scenarios of `tests/process`.
    for (at, call) in text.match_indices("case(") {
        if let Some(name) = text[at + call.len()..].trim_start().strip_prefix('"') {
            found.push(named(&name[..name.find('"').unwrap()].replace(' ', "_")));
        }
    }
}

#[test]
fn the_list_of_faults_is_whole_and_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests = Vec::new();
    ["src", "crates", "tests", "cli/src", "cli/tests", "redirect/src"]
        .iter()
        .for_each(|f| tests_in(root, f, &mut tests));
    let page = fs::read_to_string(root.join("tests/faults.md")).unwrap();
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| ")).collect();
    let mut numbers = Vec::new();
    for row in rows.iter().filter(|row| !row.starts_with("| # ")) {
        let cells: Vec<_> = row.split(" | ").collect();
        numbers.push(cells[0].trim_start_matches("| ").parse::<u32>().unwrap());
        let names: Vec<_> = cells[3].split('`').skip(1).step_by(2).collect();
        assert!(cells.len() == 4 && !names.is_empty(), "{row}");
        for name in names {
            let exists = match name.strip_prefix("scripts/") {
                Some(_) => root.join(name).exists(),
                None => tests.iter().any(|test| test == name),
            };
            assert!(exists, "tests/faults.md names {name}, which is no test");
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers, (1..=174).collect::<Vec<_>>());
}
