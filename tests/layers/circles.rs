//! Circles: files, or rooms, that name each other, by however many steps. Who reads one of them needs them
//! all. A room is a module of a crate's root, with all files below it.

use super::sources::{module_of, named_paths, sources};
use std::collections::{BTreeMap, BTreeSet};

/// The circles of at least two files.
pub struct Circles(pub Vec<Vec<String>>);

impl Circles {
    /// Of the files of the crate whose sources are in `folder`.
    pub fn of(folder: &str) -> Self {
        Graph::of(folder).circles()
    }

    /// Of its rooms.
    pub fn of_rooms(folder: &str) -> Self {
        let Graph { names, uses } = Graph::of(folder);
        let room = |name: &String| {
            let name = &name[folder.len() + 1..];
            name.split('/').next().unwrap_or(name).trim_end_matches(".rs").to_owned()
        };
        let of_file: Vec<_> = names.iter().map(room).collect();
        // The root is the table of contents of all, and `private` that of what macros expand to.
        let is_room = |room: &&String| !["lib", "main", "private"].contains(&room.as_str());
        let mut rooms: Vec<_> = of_file.iter().filter(is_room).cloned().collect();
        rooms.sort();
        rooms.dedup();
        let number = |file: usize| rooms.iter().position(|room| *room == of_file[file]);
        let mut between = vec![BTreeSet::new(); rooms.len()];
        for (file, used) in uses.iter().enumerate() {
            let Some(from) = number(file) else { continue };
            between[from].extend(used.iter().filter_map(|&to| number(to)).filter(|&to| to != from));
        }
        Graph { names: rooms, uses: between }.circles()
    }
}

/// What names what.
struct Graph {
    names: Vec<String>,
    uses: Vec<BTreeSet<usize>>,
}

impl Graph {
    /// Of the files of a crate. Tables of contents (`mod x;`, `pub use`) are looked through: a name counts
    /// for the file that defines it.
    fn of(folder: &str) -> Self {
        let mut files = sources(folder);
        files.retain(|(name, _)| !name.ends_with("/tests.rs") && !name.contains("/tests/"));
        files.sort();
        let root = format!("{folder}/");
        let modules: Vec<_> =
            files.iter().map(|(name, _)| module_of(name.trim_start_matches(&root))).collect();
        let numbered = modules.iter().enumerate();
        let mut by_module: BTreeMap<_, _> =
            numbered.map(|(file, module)| (module.join("::"), file)).collect();
        for ((name, code), module) in files.iter().zip(&modules) {
            for (other, file) in modules_by_path(code) {
                let path =
                    format!("{}/{file}", name.rsplit_once('/').map_or("", |(folder, _)| folder));
                let file = files.iter().position(|(name, _)| *name == path);
                let module = join(module, other);
                if let Some(file) = file.filter(|_| !by_module.contains_key(&module)) {
                    by_module.insert(module, file);
                }
            }
        }
        let mut exported = BTreeMap::new();
        let mut named = Vec::new();
        for ((_, code), module) in files.iter().zip(&modules) {
            let (tables, rest) = split(code);
            for path in paths(&tables, module, &by_module) {
                let last = path.rsplit("::").next().unwrap_or("").to_owned();
                exported.insert(join(module, &last), path);
            }
            // Who may see an item is no use of that module.
            let rest = rest.replace("pub(in crate", "pub(in ");
            named.push(paths(&rest, module, &by_module));
        }
        let uses = |paths: &Vec<String>| {
            paths.iter().filter_map(|path| file_of(path, &by_module, &exported)).collect()
        };
        let uses: Vec<BTreeSet<usize>> = named.iter().map(uses).collect();
        Self { names: files.into_iter().map(|(name, _)| name).collect(), uses }
    }

    fn circles(&self) -> Circles {
        let Self { names, uses } = self;
        let reached: Vec<_> = (0..names.len()).map(|one| reached_from(one, uses)).collect();
        let circle = |one: usize| {
            let circle = reached[one].iter().filter(|&&other| reached[other].contains(&one));
            circle.copied().collect::<Vec<_>>()
        };
        let circles: BTreeSet<_> =
            (0..names.len()).map(circle).filter(|circle| circle.len() > 1).collect();
        let names = |circle: Vec<usize>| circle.into_iter().map(|one| names[one].clone());
        Circles(circles.into_iter().map(|circle| names(circle).collect()).collect())
    }
}

/// The modules of `code` that are in files of other names (`#[path = ".."]`), and these files.
fn modules_by_path(code: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut paths = Vec::new();
    for line in code.lines() {
        if let Some((_, path)) = line.split_once("path = \"") {
            paths.extend(path.split('"').next());
        } else if let Some(name) =
            line.split_once("mod ").map(|(_, name)| name.trim_end_matches(';'))
        {
            found.extend(paths.drain(..).map(|path| (name, path)));
        } else if !line.starts_with('#') {
            paths.clear();
        }
    }
    found
}

fn reached_from(one: usize, uses: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut next = vec![one];
    while let Some(one) = next.pop() {
        next.extend(uses[one].iter().filter(|&&other| reached.insert(other)));
    }
    reached
}

fn join(module: &[String], name: &str) -> String {
    module.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join("::")
}

/// The statements that make a table of contents, and the rest.
fn split(code: &str) -> (String, String) {
    let (mut tables, mut rest) = (String::new(), String::new());
    let mut in_table = false;
    for line in code.lines() {
        in_table |=
            line.starts_with("pub use ") || line.starts_with("pub(") && line.contains(") use ");
        let part = if in_table { &mut tables } else { &mut rest };
        part.push_str(line);
        part.push('\n');
        in_table &= !line.ends_with(';');
    }
    (tables, rest)
}

/// What `code` names from the root of the crate: by `crate::` and `super::`, and below its own modules.
fn paths(code: &str, module: &[String], by_module: &BTreeMap<String, usize>) -> Vec<String> {
    let mut absolute = String::new();
    let mut rest = code;
    while let Some(at) = rest.find("::") {
        let start = rest[..at]
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
            .map_or(0, |before| before + 1);
        let (first, before) = (&rest[start..at], &rest[..start]);
        absolute.push_str(before);
        let is_whole = !before.ends_with(':') && !absolute.ends_with("::");
        if is_whole && first == "self" {
            absolute.push_str(&join(&["crate".to_owned()], &module.join("::")));
        } else if is_whole && by_module.contains_key(&join(module, first)) {
            absolute.push_str(&format!("crate::{}", join(module, first)));
        } else {
            absolute.push_str(first);
        }
        absolute.push_str("::");
        rest = &rest[at + 2..];
    }
    absolute.push_str(rest);
    named_paths(&absolute.replace("crate::::", "crate::"), module)
}

/// The file that defines what `path` names.
fn file_of(
    path: &str,
    by_module: &BTreeMap<String, usize>,
    exported: &BTreeMap<String, String>,
) -> Option<usize> {
    let mut path = path.to_owned();
    // A name may be handed on more than once.
    for _ in 0..8 {
        let parts: Vec<&str> = path.split("::").collect();
        let handed_on = (1..=parts.len()).find_map(|length| {
            let other = exported.get(&parts[..length].join("::"))?;
            Some([&[other.as_str()], &parts[length..]].concat().join("::"))
        });
        match handed_on {
            Some(other) if other != path => path = other,
            _ => {
                return (0..parts.len())
                    .rev()
                    .find_map(|length| by_module.get(&parts[..=length].join("::")).copied());
            }
        }
    }
    None
}
