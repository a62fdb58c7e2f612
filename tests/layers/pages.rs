//! The pages: links lead somewhere, each chapter is in the book, and the first page stays short.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// Where the repository is on the web: chapters name files outside of the book by it.
const REPOSITORY: &str = "https://github.com/memledger/memledger/blob/main/";
const MAX_CHAPTERS: usize = 15;
const MAX_README_LINES: usize = 150;
const MAX_WIDTH: usize = 120;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages with links: those of the root, of the book, and beside code.
fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["", "docs", "benches", "models/ordering", "page", "tests", "cli"] {
        let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        found.extend(entries.filter(|path| path.extension().is_some_and(|it| it == "md")));
    }
    found.sort();
    found
}

/// The lines of a page without its blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// The anchors of a page, as GitHub and mdBook make them of headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut count = HashMap::<String, usize>::new();
    let headings = prose(text).filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    let anchors = headings.map(|heading| {
        let heading = heading.trim().to_lowercase();
        let kept = heading.chars().filter_map(|it| match it {
            ' ' => Some('-'),
            '-' | '_' => Some(it),
            _ => it.is_alphanumeric().then_some(it),
        });
        let anchor: String = kept.collect();
        let number = count.entry(anchor.clone()).or_default();
        *number += 1;
        if *number == 1 { anchor } else { format!("{anchor}-{}", *number - 1) }
    });
    anchors.collect()
}

/// The targets of the links of a page.
fn links(text: &str) -> Vec<String> {
    let without_code = |line: &str| line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let lines: Vec<_> = prose(text).map(without_code).collect();
    let text = lines.join("\n");
    let inline = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    let named = lines.iter().filter_map(|line| Some(line.strip_prefix('[')?.split_once("]: ")?.1));
    inline.chain(named).map(str::to_owned).collect()
}

/// What is wrong with a link of a page; `None` if it leads somewhere.
fn wrong(page: &Path, target: &str) -> Option<String> {
    let (target, from) = match target.strip_prefix(REPOSITORY) {
        Some(path) => (path, root()),
        None if target.starts_with("http") || target.starts_with("mailto:") => return None,
        None => (target, page.parent().unwrap()),
    };
    let (file, anchor) = target.split_once('#').map_or((target, None), |(a, b)| (a, Some(b)));
    let path = if file.is_empty() { page.to_owned() } else { from.join(file) };
    let Ok(path) = path.canonicalize() else { return Some("there is no such file".to_owned()) };
    let book = root().join("docs");
    if from.starts_with(&book) && !path.starts_with(&book) {
        return Some(format!("it leads out of the book; write {REPOSITORY}.."));
    }
    let anchor = anchor.filter(|_| path.extension().is_some_and(|it| it == "md"))?;
    let text = fs::read_to_string(&path).unwrap();
    (!anchors(&text).contains(anchor)).then(|| "there is no such heading".to_owned())
}

#[test]
fn links_lead_somewhere() {
    let mut all = Vec::new();
    let mut count = 0;
    for page in pages() {
        for target in links(&fs::read_to_string(&page).unwrap()) {
            count += 1;
            let name = page.strip_prefix(root()).unwrap().display();
            all.extend(wrong(&page, &target).map(|why| format!("{name}: {target}: {why}")));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    assert!(count > 100, "{count} links were found");
}

#[test]
fn the_book_has_each_chapter_once() {
    let folder = root().join("docs");
    let summary = fs::read_to_string(folder.join("SUMMARY.md")).unwrap();
    let chapters = links(&summary);
    assert!(chapters.len() <= MAX_CHAPTERS, "{} chapters", chapters.len());
    let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| name.into_string().unwrap());
    let mut files: Vec<_> =
        names.filter(|name| name.ends_with(".md") && name != "SUMMARY.md").collect();
    files.sort();
    let mut sorted = chapters.clone();
    sorted.sort();
    assert_eq!(sorted, files);
    let readme = links(&fs::read_to_string(root().join("README.md")).unwrap());
    let missing: Vec<_> =
        chapters.iter().filter(|name| !readme.contains(&format!("docs/{name}"))).collect();
    assert!(missing.is_empty(), "README.md names no {missing:?}");
}

#[test]
fn the_first_page_is_short() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(text.lines().count() <= MAX_README_LINES);
    let wide: Vec<_> = text.lines().filter(|line| line.chars().count() > MAX_WIDTH).collect();
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}

#[test]
fn anchors_are_those_of_github() {
    let text = "# `memledger run`\n## What C's `malloc` has\n```\n# no heading\n```\n## A_b, c\n## A_b, c\n";
    let expected = ["a_b-c", "a_b-c-1", "memledger-run", "what-cs-malloc-has"];
    assert_eq!(anchors(text).into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(links("[a](b.md#c) `[no](link)` [d](e)\n[f]: g"), ["b.md#c", "e", "g"]);
}
