//! An index of the functions, types and words in Rust sources: a real program on one thread, whose
//! allocations are the same in each run. `scripts/check_diff_builds.sh` builds it without and with
//! optimisation, and compares the two.
//!
//! It is built as an example, because that package has `syn`.

use memledger::{Ledger, TrackingAllocator, alloc_scope, group, tag, tagged};
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

group! {
    /// The texts as they were read.
    SOURCES = "Sources";
    /// What is kept until the end.
    INDEX = "Index";
}

/// Something that items are counted in.
trait Table {
    fn add(&mut self, name: String, file: &Path);
    fn len(&self) -> usize;
}

/// Where each name is defined.
#[derive(Default)]
struct Definitions(BTreeMap<String, Vec<PathBuf>>);

/// How often each name is used.
#[derive(Default)]
struct Words(HashMap<String, usize>);

impl Table for Definitions {
    fn add(&mut self, name: String, file: &Path) {
        self.0.entry(name).or_default().push(file.to_owned());
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

impl Table for Words {
    fn add(&mut self, name: String, _: &Path) {
        *self.0.entry(name).or_default() += 1;
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let _ledger = Ledger::from_env();
    let folder = std::env::args_os().nth(1).map(PathBuf::from).ok_or("give a folder")?;
    let files = alloc_scope!("find files", { find_sources(&folder)? });
    let (mut definitions, mut words) = (Definitions::default(), Words::default());
    for file in &files {
        alloc_scope!("file");
        let text = alloc_scope!("read", {
            tagged(tag!(SOURCES, "text"), || std::fs::read_to_string(file))?
        });
        let Ok(parsed) = alloc_scope!("parse", { syn::parse_file(&text) }) else { continue };
        tagged(tag!(INDEX, "definitions"), || add_items(&parsed.items, file, &mut definitions));
        tagged(tag!(INDEX, "words"), || add_words(&text, file, &mut words));
    }
    let summary = alloc_scope!("summary", { summary(&definitions, &words) });
    println!(
        "{} files, {} names, {} words\n{summary}",
        files.len(),
        definitions.len(),
        words.len()
    );
    Ok(())
}

/// The sources under a folder, in the order of their names.
fn find_sources(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(find_sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn add_items<T: Table>(items: &[syn::Item], file: &Path, table: &mut T) {
    for item in items {
        match item {
            syn::Item::Fn(function) => table.add(function.sig.ident.to_string(), file),
            syn::Item::Struct(of) => table.add(of.ident.to_string(), file),
            syn::Item::Enum(of) => table.add(format!("enum {}", of.ident), file),
            syn::Item::Mod(module) => {
                let inner = module.content.as_ref().map_or(&[][..], |(_, items)| items);
                add_items(inner, file, table);
            }
            _ => {}
        }
    }
}

fn add_words<T: Table>(text: &str, file: &Path, table: &mut T) {
    let words = text.split(|char: char| !char.is_alphanumeric());
    words.filter(|word| word.len() > 3).for_each(|word| table.add(word.to_lowercase(), file));
}

/// The names with the most definitions, and the most frequent words.
fn summary(definitions: &Definitions, words: &Words) -> String {
    let mut names: Vec<_> =
        definitions.0.iter().map(|(name, at)| (at.len(), name.clone())).collect();
    names.sort_by_key(|(count, name)| (std::cmp::Reverse(*count), name.clone()));
    let mut text = String::new();
    for (count, name) in names.iter().take(10) {
        let _ = writeln!(text, "{name}: {count}, {:?} times", words.0.get(&name.to_lowercase()));
    }
    text
}
