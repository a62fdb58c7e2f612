//! The table of paths, and what a change is.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use memledger_checks::check::When;
use memledger_checks::paths::{Change, broken_by, rows};
use memledger_checks::table::CHECKS;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn git(root: &Path, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
    let mut command = Command::new("git");
    let done = command.arg("-C").arg(root).args(identity).args(arguments).output().unwrap();
    assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// The files of the project; none where it is not a clone.
fn files() -> Vec<String> {
    if !root().join(".git").exists() {
        return Vec::new();
    }
    let listed = git(&root(), &["ls-files", "--cached", "--others", "--exclude-standard"]);
    listed.lines().map(str::to_owned).collect()
}

fn names(change: &Change) -> Vec<&'static str> {
    change.checks().into_iter().map(|(check, _)| check.name).collect()
}

/// A change of one path.
fn of(path: &str) -> Change {
    Change { base: Some("base".to_owned()), paths: vec![path.to_owned()] }
}

#[test]
fn each_row_selects_its_checks() {
    let always: BTreeSet<_> =
        CHECKS.iter().filter(|it| it.when == When::Always).map(|it| it.name).collect();
    let mut looked = 0;
    for (start, expected) in rows() {
        // A fault in any file that is in the row. Rows of longer beginnings add to it.
        let planted = format!("{start}planted");
        let selected: BTreeSet<_> = names(&of(&planted)).into_iter().collect();
        assert!(always.is_subset(&selected), "{planted}: {selected:?}");
        for name in expected {
            looked += 1;
            assert!(selected.contains(name), "{planted} does not select {name}");
        }
    }
    assert!(looked > 80);
    let base = Some("base".to_owned());
    assert_eq!(names(&Change { base, paths: Vec::new() }).len(), always.len());
}

#[test]
fn each_check_that_depends_on_paths_has_a_row_and_each_row_has_files() {
    let named: BTreeSet<_> = rows().flat_map(|(_, names)| names).collect();
    let by_path: BTreeSet<_> =
        CHECKS.iter().filter(|it| it.when == When::ByPath).map(|it| it.name).collect();
    assert_eq!(named, by_path);
    let (files, starts) = (files(), rows().map(|(start, _)| start).collect::<Vec<_>>());
    let unused: Vec<_> =
        starts.iter().filter(|start| !files.iter().any(|file| file.starts_with(**start))).collect();
    assert!(
        files.is_empty() || unused.is_empty(),
        "paths.txt has beginnings that no file has: {unused:?}"
    );
    assert_eq!(starts.iter().collect::<BTreeSet<_>>().len(), starts.len(), "a row is there twice");
}

#[test]
fn each_file_is_in_a_row() {
    let unknown: Vec<_> = files().into_iter().filter(|file| broken_by(file).is_none()).collect();
    assert!(unknown.is_empty(), "paths.txt has no row for {unknown:?}");
}

#[test]
fn a_script_selects_the_check_that_runs_it() {
    for check in CHECKS.iter().filter(|check| check.when == When::ByPath) {
        let words = check.commands.iter().flat_map(|command| command.split([' ', ';']));
        for script in words.filter(|word| word.starts_with("scripts/")) {
            assert!(
                broken_by(script).unwrap().contains(&check.name),
                "{script} does not select {}",
                check.name
            );
        }
    }
}

#[test]
fn an_unknown_path_and_a_clone_without_history_select_all() {
    let all: Vec<_> = CHECKS
        .iter()
        .filter(|it| matches!(it.when, When::Always | When::ByPath))
        .map(|it| it.name)
        .collect();
    assert_eq!(names(&of("new-folder/file")), all);
    assert_eq!(names(&Change { base: None, paths: Vec::new() }), all);
}

#[test]
fn a_change_is_what_differs_from_main_and_on_main_all_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let commit = |file: &str| {
        std::fs::write(root.join(file), file).unwrap();
        git(root, &["add", file]);
        git(root, &["commit", "-q", "-m", file]);
        git(root, &["rev-parse", "HEAD"])
    };
    git(root, &["init", "-q", "-b", "main"]);
    let first = commit("first");
    let second = commit("second");
    let on_main = Change::since(root, None).unwrap();
    assert_eq!(on_main.base, None);
    let by_path = CHECKS.iter().filter(|check| matches!(check.when, When::Always | When::ByPath));
    assert_eq!(on_main.checks().len(), by_path.count());
    git(root, &["checkout", "-q", "-b", "branch"]);
    commit("third");
    commit("fourth");
    std::fs::write(root.join("not committed"), "").unwrap();
    std::fs::write(root.join("first"), "changed").unwrap();
    let branch = Change::since(root, None).unwrap();
    assert_eq!(branch.base, Some(second));
    assert_eq!(branch.paths, ["first", "fourth", "third", "not committed"]);
    let given = Change::since(root, Some(&first)).unwrap();
    assert_eq!(given.paths, ["first", "fourth", "second", "third", "not committed"]);
    let error = Change::since(root, Some("nothing")).unwrap_err();
    assert_eq!(error, "CI_BASE is nothing, which is no commit here; fetch it");
}

#[test]
fn the_table_of_checks_is_in_order() {
    let names: BTreeSet<_> = CHECKS.iter().map(|check| check.name).collect();
    assert_eq!(names.len(), CHECKS.len(), "a name is there twice");
    for check in CHECKS {
        assert!(
            !check.commands.is_empty() && check.what.starts_with(char::is_alphabetic),
            "{}",
            check.name
        );
        for script in check
            .commands
            .iter()
            .flat_map(|it| it.split([' ', ';']))
            .filter(|it| it.starts_with("scripts/"))
        {
            assert!(root().join(script).exists(), "{}: there is no {script}", check.name);
        }
    }
}
