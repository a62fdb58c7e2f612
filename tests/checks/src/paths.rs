//! Which checks a change of a path can break.

use crate::check::{Check, When};
use crate::table::CHECKS;
use std::path::Path;
use std::process::Command;

/// The table: a beginning of paths a line, and its checks. The file says how it is read.
const TABLE: &str = include_str!("paths.txt");

/// The rows of the table: a beginning of paths, and the checks that a change there can break.
pub fn rows() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let mut words = line.split_whitespace();
        let start = words.next().unwrap_or_default();
        (start, words.filter(|name| *name != "-").collect())
    })
}

/// The names of the checks that a change of `path` can break, beyond those that always run; `None` if no row
/// has it.
#[must_use]
pub fn broken_by(path: &str) -> Option<Vec<&'static str>> {
    let mut rows = rows().filter(|(start, _)| path.starts_with(start)).peekable();
    rows.peek()?;
    Some(rows.flat_map(|(_, names)| names).collect())
}

/// What a change consists of.
#[derive(Debug)]
pub struct Change {
    /// The commit that it is compared with; without one, all checks by path are chosen.
    pub base: Option<String>,
    /// The paths that differ.
    pub paths: Vec<String>,
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let done = Command::new("git").arg("-C").arg(root).args(arguments).output();
    let done = done.map_err(|error| format!("git does not start ({error}); install it"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).trim_end().to_owned());
    }
    Err(format!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&done.stderr).trim()))
}

impl Change {
    /// What differs from `base`, else from where this branch has left main. What is not committed is part of
    /// it. On main itself nobody knows what has been checked, so there is no base.
    ///
    /// # Errors
    ///
    /// A sentence, if git does not know `base`.
    pub fn since(root: &Path, base: Option<&str>) -> Result<Self, String> {
        let commit = |name: &str| {
            git(root, &["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")])
        };
        let base = if let Some(base) = base {
            commit(base)
                .map_err(|_| format!("CI_BASE is {base}, which is no commit here; fetch it"))?
                .into()
        } else {
            let mains =
                ["main", "origin/main"].map(|main| git(root, &["merge-base", "HEAD", main]));
            let left = mains.into_iter().find_map(Result::ok);
            left.filter(|base| commit("HEAD").as_ref() != Ok(base))
        };
        let Some(base) = base else { return Ok(Self { base: None, paths: Vec::new() }) };
        let changed = git(root, &["diff", "--name-only", "--no-renames", &base])?;
        let new = git(root, &["ls-files", "--others", "--exclude-standard"])?;
        let paths = changed.lines().chain(new.lines()).map(str::to_owned).collect();
        Ok(Self { base: Some(base), paths })
    }

    /// The checks of the tier *change*, each with the first path that asks for it.
    #[must_use]
    pub fn checks(&self) -> Vec<(&'static Check, Option<&str>)> {
        let asks = |name: &str| {
            self.paths.iter().find(|path| broken_by(path).is_none_or(|names| names.contains(&name)))
        };
        let chosen = CHECKS.iter().filter_map(|check| match check.when {
            When::Always => Some((check, None)),
            When::ByPath if self.base.is_none() => Some((check, None)),
            When::ByPath => asks(check.name).map(|path| (check, Some(path.as_str()))),
            When::Full | When::ByName => None,
        });
        chosen.collect()
    }
}
