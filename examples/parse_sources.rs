//! The main job of the README: real work on real input, tracked.
//!
//! Parses every `.rs` file under the folders it is given with `syn`, on two threads, and builds an
//! index of the functions and types in them. Without arguments it takes this repository and the
//! sources of its dependencies, as Cargo has them on this machine. With `PARSERS=0` in the environment
//! the first thread does all the work, so each run makes the same allocations.
//!
//! ```text
//! cargo run --release --example parse_sources [FOLDER ...]
//! ```

use memledger::{Ledger, TrackingAllocator, alloc_scope, group, tag, tagged};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

group! {
    /// The texts as they were read.
    SOURCES = "Sources";
    /// What is kept until the end.
    INDEX = "Index";
}

const THREADS: usize = 2;
/// Some sources nest deeply, and the parser recurses.
const STACK: usize = 64 << 20;

/// Where each name is defined.
type Index = BTreeMap<String, Vec<Arc<str>>>;

#[derive(Default)]
struct Found {
    files: usize,
    bytes: usize,
    unparsable: usize,
    index: Index,
}

fn main() -> Result<(), Box<dyn Error>> {
    let _ledger = Ledger::from_env();
    let folders = match std::env::args_os().skip(1).map(PathBuf::from).collect::<Vec<_>>() {
        none if none.is_empty() => default_folders()?,
        folders => folders,
    };
    let files = alloc_scope!("find files", {
        let mut files = Vec::new();
        for folder in &folders {
            find_sources(folder, &mut files)?;
        }
        files
    });
    if files.is_empty() {
        return Err(format!("no .rs file under {folders:?}").into());
    }
    let (sender, receiver) = mpsc::channel::<PathBuf>();
    let receiver = Arc::new(Mutex::new(receiver));
    let threads = std::env::var("PARSERS").ok().and_then(|number| number.parse().ok());
    let parsers = (0..threads.unwrap_or(THREADS))
        .map(|number| {
            let receiver = Arc::clone(&receiver);
            let name = format!("parser {number}");
            thread::Builder::new().name(name).stack_size(STACK).spawn(move || parse_all(&receiver))
        })
        .collect::<Result<Vec<_>, _>>()?;
    for file in files {
        sender.send(file)?;
    }
    drop(sender);

    let mut all = Found::default();
    if parsers.is_empty() {
        all.merge(parse_all(&receiver));
    }
    for parser in parsers {
        let found = parser.join().map_err(|_| "a parser thread panicked")?;
        alloc_scope!("merge", { all.merge(found) });
    }
    println!(
        "{} files, {} KiB, {} that syn cannot parse, {} names, {} definitions",
        all.files,
        all.bytes >> 10,
        all.unparsable,
        all.index.len(),
        all.index.values().map(Vec::len).sum::<usize>(),
    );
    // What is still alive here is what the report shows as live: the index. A program that exits
    // this way skips all destructors and still gets its report.
    std::process::exit(0)
}

/// The sources of this repository, and of its dependencies that Cargo has unpacked on this machine.
fn default_folders() -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut folders = vec![root.join("src"), root.join("cli")];
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let lock = std::fs::read_to_string(root.join("Cargo.lock"))?;
    // In a lock file each package's name is on the line before its version.
    let value = |line: &str, key| Some(line.strip_prefix(key)?.trim_matches('"').to_owned());
    let lines = lock.lines().zip(lock.lines().skip(1));
    let packages = lines
        .filter_map(|(first, second)| {
            Some(format!("{}-{}", value(first, "name = ")?, value(second, "version = ")?))
        })
        .collect::<Vec<_>>();
    let registries = home.and_then(|home| std::fs::read_dir(home.join("registry/src")).ok());
    for registry in registries.into_iter().flatten() {
        let registry = registry?.path();
        folders.extend(packages.iter().map(|package| registry.join(package)));
    }
    folders.retain(|folder| folder.is_dir());
    Ok(folders)
}

fn find_sources(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find_sources(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn parse_all(files: &Mutex<mpsc::Receiver<PathBuf>>) -> Found {
    let mut found = Found::default();
    loop {
        let next = files.lock().map(|files| files.recv());
        let Ok(Ok(path)) = next else { return found };
        let text = alloc_scope!(group: SOURCES, "read", { std::fs::read_to_string(&path) });
        let Ok(text) = text else { continue };
        found.files += 1;
        found.bytes += text.len();
        let parsed = alloc_scope!("parse", { syn::parse_file(&text) });
        match parsed {
            Ok(file) => alloc_scope!("index", {
                let path = path.to_string_lossy().into();
                tagged(tag!(INDEX, "definitions"), || found.add(&path, &file.items));
            }),
            Err(_) => found.unparsable += 1,
        }
    }
}

impl Found {
    fn add(&mut self, path: &Arc<str>, items: &[syn::Item]) {
        use syn::{ImplItem, Item};
        for item in items {
            let name = match item {
                Item::Fn(item) => &item.sig.ident,
                Item::Struct(item) => &item.ident,
                Item::Enum(item) => &item.ident,
                Item::Trait(item) => &item.ident,
                Item::Type(item) => &item.ident,
                Item::Const(item) => &item.ident,
                Item::Static(item) => &item.ident,
                Item::Mod(item) => {
                    let inner = item.content.as_ref().map(|(_, items)| &items[..]);
                    self.add(path, inner.unwrap_or_default());
                    &item.ident
                }
                Item::Impl(block) => {
                    for item in &block.items {
                        if let ImplItem::Fn(method) = item {
                            self.define(&method.sig.ident, path);
                        }
                    }
                    continue;
                }
                _ => continue,
            };
            self.define(name, path);
        }
    }

    fn define(&mut self, name: &syn::Ident, path: &Arc<str>) {
        self.index.entry(name.to_string()).or_default().push(Arc::clone(path));
    }

    fn merge(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.unparsable += other.unparsable;
        for (name, mut places) in other.index {
            self.index.entry(name).or_default().append(&mut places);
        }
    }
}
