//! The sources as text, and the paths in them.

use std::fs;
use std::path::Path;

/// The files of Rust below `folder`, by their path in the project.
pub fn every(folder: &str) -> Vec<(String, String)> {
    every_of(folder, &["rs"])
}

/// The files below `folder` whose names have one of these endings, by their path in the project.
pub fn every_of(folder: &str, endings: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| endings.iter().any(|ending| it == *ending))
            {
                let name = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
                let text = fs::read_to_string(&path).unwrap();
                found.push((name.to_str().unwrap().replace('\\', "/"), text));
            }
        }
    }
    found
}

/// The same as code only.
pub fn sources(folder: &str) -> Vec<(String, String)> {
    every(folder).into_iter().map(|(file, text)| (file, code_only(&text))).collect()
}

/// The text without comments and without the tests at its end.
pub fn code_only(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests").or_else(|| text.find("#[cfg(all(test"));
    let code = &text[..end.unwrap_or(text.len())];
    code.lines().map(|line| line.split("//").next().unwrap_or("").to_owned() + "\n").collect()
}

/// The module a file is, as `trace::worker::drain`; of a `mod.rs` the folder's.
pub fn module_of(file: &str) -> Vec<String> {
    let path = file.trim_start_matches("src/").trim_end_matches(".rs");
    let mut parts = path.split('/').map(str::to_owned).collect::<Vec<_>>();
    if parts.last().is_some_and(|last| last == "mod" || last == "lib") {
        parts.pop();
    }
    parts
}

/// The paths of this crate that `code`, a file of `module`, names, from the root of the crate.
pub fn named_paths(code: &str, module: &[String]) -> Vec<String> {
    let mut paths = Vec::new();
    for (start, keyword) in code.match_indices("crate::").chain(code.match_indices("super::")) {
        let before = code[..start].chars().next_back().unwrap_or(' ');
        if before == '$' || before == ':' || before.is_alphanumeric() {
            continue;
        }
        let mut rest = &code[start..];
        let mut base = Vec::new();
        if keyword == "crate::" {
            rest = &rest["crate::".len()..];
        } else {
            base = module.to_vec();
            while let Some(after) = rest.strip_prefix("super::") {
                base.pop();
                rest = after;
            }
        }
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
        let (path, tail) = rest.split_at(end.unwrap_or(rest.len()));
        let joined = |path: &str| {
            let path = path.trim_matches(':');
            let parts = base
                .iter()
                .map(String::as_str)
                .chain(path.split("::").filter(|part| !part.is_empty()));
            parts.collect::<Vec<_>>().join("::")
        };
        if (path.is_empty() || path.ends_with("::")) && tail.starts_with('{') {
            let group = &tail[1..tail.find(';').unwrap_or(tail.len())];
            let mut depth = 0;
            let names = group.split(|c| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                c == ',' && depth == 0
            });
            for name in names {
                let name = name.trim_matches(|c: char| c.is_whitespace() || c == '}' || c == ',');
                let name = name.split(|c: char| c == '{' || c.is_whitespace()).next().unwrap_or("");
                match name {
                    "" => {}
                    "self" => paths.push(joined(path)),
                    name => paths.push(joined(&format!("{path}{name}"))),
                }
            }
        } else {
            paths.push(joined(path));
        }
    }
    paths
}
