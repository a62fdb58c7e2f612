//! The table of settings, `docs/settings.md`, and the documentation of
//! [`Ledger::from_env`](crate::Ledger::from_env) say the same.
//! `MEMLEDGER_BLESS=1 cargo test -p memledger --lib settings` copies the rows of the page to the
//! documentation.

use super::{CACHE, PARENT, PREFIX, SETTINGS, STARTING, Setting};
use crate::ledger::config::Config;
use crate::problems;
use std::path::{Path, PathBuf};

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

fn text(file: &str) -> String {
    std::fs::read_to_string(path(file)).unwrap()
}

/// The words of a text between backquotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The rows of a page's table with a setting each.
fn rows(page: &str) -> Vec<&str> {
    let is_row = |line: &&str| line.starts_with("| `MEMLEDGER_") && line.contains("`, `-trace");
    page.lines().filter(is_row).collect()
}

/// The settings in the order of their names.
fn sorted() -> Vec<&'static Setting> {
    let mut settings: Vec<_> = SETTINGS.iter().collect();
    settings.sort_by_key(|setting| setting.variable);
    settings
}

#[test]
fn the_page_has_each_setting_with_its_flag_its_method_and_its_default() {
    let page = text("docs/settings.md");
    let (builder, report_to) = (text("src/ledger/builder.rs"), text("src/dump/report_to.rs"));
    let (rows, settings) = (rows(&page), sorted());
    assert_eq!(rows.len(), settings.len());
    for (row, setting) in rows.into_iter().zip(settings) {
        let [names, default] = [1, 2].map(|cell| row.split('|').nth(cell).unwrap());
        let [variable, flag, method] = quoted(names)[..] else { panic!("{row}") };
        assert_eq!((variable.as_bytes(), flag), (setting.variable.to_bytes(), setting.flag));
        let (code, name) = match method.strip_prefix("ReportTo::") {
            Some(name) => (&report_to, name),
            None => (&builder, method),
        };
        assert!(code.contains(&format!("fn {name}(")), "{variable}: no method {method}");
        // What is said of a wrong value names the default.
        let wrong = (setting.apply)("\u{1}".as_ref(), &mut Config::default());
        let said = wrong.err().unwrap_or_default();
        let said =
            said.split_once("the default ").and_then(|(_, rest)| rest.strip_suffix(" is used"));
        assert!(said.is_none_or(|said| quoted(default).contains(&said)), "{variable}: {said:?}");
    }
}

#[test]
fn the_page_says_which_settings_start_a_recording_and_has_the_other_variables() {
    let page = text("docs/settings.md");
    let paragraph = page.split("\n\n").find(|part| part.contains("starts before `main`")).unwrap();
    let named = quoted(paragraph).into_iter().filter(|word| word.starts_with(PREFIX));
    let mut named: Vec<_> = named.filter(|word| !word.contains('=')).collect();
    let mut starting = STARTING.map(|variable| variable.to_str().unwrap());
    named.sort_unstable();
    starting.sort_unstable();
    assert_eq!(named, starting);
    for variable in [PARENT, problems::SOCKET, CACHE] {
        let variable = variable.to_str().unwrap();
        assert!(page.contains(&format!("\n| `{variable}` | ")), "{variable}");
    }
}

/// A row of the page as documentation: with links to methods, and without those to chapters.
fn documented(row: &str) -> String {
    let [names, default, meaning] = [1, 2, 3].map(|cell| row.split('|').nth(cell).unwrap());
    let method = quoted(names)[2];
    let path = match method.starts_with("ReportTo::") {
        true => ["crate", method].join("::"),
        false => format!("LedgerBuilder::{method}"),
    };
    let names = names.replace(&format!("`{method}`"), &format!("[`{method}`]({path})"));
    let meaning = meaning.split(" ([").next().unwrap().trim_end();
    format!("    /// |{names}|{default}|{meaning} |\n")
}

#[test]
fn the_documentation_has_the_rows_of_the_page() {
    const FILE: &str = "src/ledger/handle.rs";
    let expected: String = rows(&text("docs/settings.md")).into_iter().map(documented).collect();
    let file = text(FILE);
    let listed = file.split_inclusive('\n').filter(|line| line.contains("/// | `MEMLEDGER_"));
    let listed: String = listed.collect();
    if listed != expected && std::env::var_os("MEMLEDGER_BLESS").is_some() {
        std::fs::write(path(FILE), file.replace(&listed, &expected)).unwrap();
        return;
    }
    assert_eq!(listed, expected, "MEMLEDGER_BLESS=1 writes it to {FILE}");
}
