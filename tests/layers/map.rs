//! What pages say of the code: the map of modules, the table of layers, the table of scripts.

use super::sources::every;
use super::{LAYERS, is_within};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PAGE: &str = "tests/layers/code-map.md";

const HEAD: &str = "\
# Code map

Each crate, and each module that is a folder, with the first sentence of its documentation. The module's comment says
more: most have a picture and a table of their files. `map.rs` writes this page:

```sh
MEMLEDGER_BLESS=1 cargo test -p memledger --test layers code_map
```
";

/// The widest line of the page, in columns.
const WIDTH: usize = 120;

/// The packages of the workspace that have a library, and the one of `preload/`.
fn packages(root: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let (_, members) = manifest.split_once("\nmembers = [").unwrap();
    let members = members.split_once(']').unwrap().0.split('"').skip(1).step_by(2);
    let mut packages: Vec<_> = members.chain(["preload"]).map(|name| format!("{name}/")).collect();
    packages.retain(|name| root.join(name).join("src/lib.rs").exists());
    packages.sort();
    packages.insert(0, String::new());
    packages
}

/// The folder of the module that is in `file`, if it is a folder with more than tests.
fn folder_of<'a>(file: &'a str, files: &[(String, String)]) -> Option<&'a str> {
    if let Some(folder) = file.strip_suffix("/mod.rs") {
        return Some(folder);
    }
    let folder = file.strip_suffix(".rs")?;
    let mut below =
        files.iter().filter_map(|(other, _)| other.strip_prefix(folder)?.strip_prefix('/'));
    below.any(|name| !name.starts_with("tests")).then_some(folder)
}

/// The first sentence of the `//!` comment that a file begins with, without links.
fn first_sentence(file: &str, text: &str) -> String {
    let comment = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let paragraph = comment.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let end = paragraph.find(". ").map_or(paragraph.len(), |end| end + 1);
    let sentence = &paragraph[..end];
    assert!(
        sentence.ends_with('.') && !sentence.contains("]("),
        "the comment of {file} must begin with a sentence without a link's target: {sentence:?}"
    );
    sentence.replace("[`", "`").replace("`]", "`")
}

/// The text in lines of at most [`WIDTH`] columns, all but the first after `indent`.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().unwrap();
        if line.is_empty() {
            *line += word;
        } else if line.chars().count() + 1 + word.chars().count() <= WIDTH {
            *line += &format!(" {word}");
        } else {
            lines.push(format!("{indent}{word}"));
        }
    }
    lines.join("\n") + "\n"
}

fn map() -> String {
    let mut page = HEAD.to_owned();
    for package in packages(Path::new(env!("CARGO_MANIFEST_DIR"))) {
        let mut files = every(&format!("{package}src"));
        files.sort();
        let library = format!("{package}src/lib.rs");
        let (_, text) = files.iter().find(|(file, _)| *file == library).unwrap();
        page += &format!("\n## `{package}src/`\n\n");
        page += &wrapped(&first_sentence(&library, text), "");
        let modules = files.iter().filter_map(|(file, text)| {
            let folder = folder_of(file, &files)?;
            Some((folder, first_sentence(file, text)))
        });
        let mut modules: Vec<_> = modules.collect();
        modules.sort();
        if !modules.is_empty() {
            page += "\n";
        }
        for (folder, sentence) in modules {
            let folder = folder.strip_prefix(&format!("{package}src/")).unwrap();
            page += &wrapped(&format!("- `{folder}/`: {sentence}"), "  ");
        }
    }
    page
}

#[test]
fn the_code_map_is_what_the_modules_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let map = map();
    if std::env::var_os("MEMLEDGER_BLESS").is_some() {
        fs::write(&path, &map).expect("the page can be written");
    }
    assert!(map.lines().count() > 80, "this test does not look");
    let page = fs::read_to_string(path).unwrap_or_default();
    assert!(map == page, "{PAGE} is old: the command in its first lines writes it anew");
}

#[test]
fn the_table_of_layers_is_that_of_the_page() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md"));
    let page = page.unwrap();
    let layers: Vec<_> = LAYERS.iter().filter(|(layer, _)| !layer.is_empty()).collect();
    // Not what the root has: macros and types of the API.
    let is_module = |name: &str| {
        layers.iter().any(|(layer, _)| is_within(name, layer) || is_within(layer, name))
    };
    let mut at = 0;
    for (layer, allowed) in &layers {
        let names = allowed.iter().filter(|name| is_module(name));
        let names = names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let row = format!("\n| `{layer}` | {names} |\n").replace("|  |", "| |");
        let found = page[at..].find(&row);
        at +=
            found.unwrap_or_else(|| panic!("ARCHITECTURE.md lacks this row, or its order: {row}"));
    }
}

#[test]
fn each_script_is_of_a_check_or_in_contributing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    // `name.sh`, or `name.sh [--with arguments]`.
    let words = page.split('`').skip(1).step_by(2).filter_map(|code| code.split(' ').next());
    let checks = fs::read_to_string(root.join("tests/checks/src/table.rs")).unwrap();
    let run = checks.split(['"', ' ']).filter_map(|word| word.strip_prefix("scripts/"));
    let named: BTreeSet<_> = words.chain(run).filter(|name| name.ends_with(".sh")).collect();
    let names = fs::read_dir(root.join("scripts")).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    let scripts: BTreeSet<_> =
        names.iter().map(String::as_str).filter(|name| name.ends_with(".sh")).collect();
    let differing: Vec<_> = named.symmetric_difference(&scripts).collect();
    assert!(
        differing.is_empty(),
        "in scripts/, or in a check or CONTRIBUTING.md, only: {differing:?}"
    );
}
