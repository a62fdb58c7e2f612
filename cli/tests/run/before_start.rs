//! What `memledger run` finds before the program starts, and what is left if it cannot write its files at
//! the end.

use crate::harness::{Run, left, memledger};
use crate::scenarios::{LEFT, SCENARIO};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

macro_rules! trials {
    ($($name:ident),+ $(,)?) => {
        pub fn all() -> Vec<Trial> {
            vec![$(Trial::test(stringify!($name), || { $name(); Ok(()) })),+]
        }
    };
}

trials![
    a_run_in_a_run_has_its_own_report,
    another_folder_is_taken_if_tmpdir_cannot_be_written,
    an_output_that_cannot_be_written_is_refused,
    a_file_for_two_outputs_is_refused,
    the_program_is_not_overwritten,
    a_report_that_cannot_be_written_is_on_stderr_and_the_trace_stays,
    what_is_no_library_of_ours_is_not_loaded,
    a_wrong_value_for_the_watcher_is_told,
    a_script_without_an_interpreter_is_run_by_the_shell,
    the_program_has_the_name_that_it_was_started_by,
];

/// This program, and the command.
fn paths() -> [String; 2] {
    let this = std::env::current_exe().expect("a path");
    [this.to_str().expect("UTF-8"), env!("CARGO_BIN_EXE_memledger")].map(str::to_owned)
}

fn a_run_in_a_run_has_its_own_report() {
    let [this, command] = paths();
    for options in [&["--preload=off"][..], &["--preload=off", "--follow-children", "--stacks"]] {
        let inner = [&*command, "run", "--", &*this];
        let ended = Run::of(options, &inner).env(SCENARIO, "succeed").run();
        ended.exited(0);
        assert!(ended.stderr.contains("Memory of run-"), "{options:?}: {}", ended.stderr);
        // In a script, with files of its own; what the outer one was asked for is not for the inner one.
        let script = "\"$0\" run --trace inner.utrace \"$@\"; exit $?";
        let options = [options, &["-o", "off", "--trace", "outer-%p.utrace"]].concat();
        let inner = ["sh", "-c", script, &*command, "-o", "inner.json", "--", &*this];
        let ended = Run::of(&options, &inner).env(SCENARIO, "fail").run();
        ended.exited(7);
        assert_eq!(ended.files(""), ["inner.json", "inner.utrace"], "{}", ended.stderr);
        let report = ended.report("inner.json");
        assert_eq!(left(&report, LEFT), 1);
        assert!(report["by_function"].as_array().is_none_or(Vec::is_empty), "{options:?}");
    }
}

fn another_folder_is_taken_if_tmpdir_cannot_be_written() {
    for folder in ["/no/such/folder", "/dev/null", "/proc"] {
        let run = Run::tracked("succeed", &["--report=r.json"]).env("TMPDIR", folder);
        let ended = run.run();
        assert_eq!(ended.exited(0).stderr, "", "{folder}");
        assert_eq!(left(&ended.report("r.json"), LEFT), 1);
    }
}

fn an_output_that_cannot_be_written_is_refused() {
    for (option, file) in
        [("--trace", "none/t.utrace"), ("-o", "none/r.json"), ("--html", "none/p.html")]
    {
        let ended = Run::of(&["--preload=off", option, file], &["sh", "-c", "> started"]).run();
        ended.exited(125);
        assert!(ended.stderr.contains("cannot be written to none/"), "{}", ended.stderr);
        assert_eq!((ended.stderr.lines().count(), ended.files("")), (1, vec![]));
    }
}

fn a_file_for_two_outputs_is_refused() {
    let refused = |options: &[&str]| {
        let run = Run::of(&[&["--preload=off"], options].concat(), &["sh", "-c", "> started"]);
        fs::create_dir(run.folder.path().join("real")).expect("a folder");
        symlink("real", run.folder.path().join("link")).expect("a link");
        let ended = run.run();
        ended.exited(2);
        assert!(ended.stderr.contains(" cannot both be written to "), "{}", ended.stderr);
        assert_eq!(ended.files(""), ["link", "real"], "nothing ran");
    };
    refused(&["--trace", "x.json", "-o", "x.json"]);
    refused(&["-o", "x.html", "--html", "./x.html"]);
    refused(&["--trace", "real/x.json", "-o", "link/../link/x.json"]);
    refused(&["--trace", "x-%p.json", "-o", "real/../x-%p.json"]);
}

fn the_program_is_not_overwritten() {
    let run = Run::of(&["--preload=off", "--trace", "./script.sh"], &["./script.sh"]);
    let script = run.folder.path().join("script.sh");
    fs::write(&script, "#!/bin/sh\n").expect("a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its owner");
    let ended = run.run();
    ended.exited(2);
    assert!(ended.stderr.contains("would overwrite the program"), "{}", ended.stderr);
    assert_eq!(fs::read_to_string(ended.path("script.sh")).expect("a file"), "#!/bin/sh\n");
}

fn a_report_that_cannot_be_written_is_on_stderr_and_the_trace_stays() {
    let [this, _] = paths();
    // There is a folder of that name when the program has ended.
    let script = "mkdir out.html; exec \"$0\"";
    for option in ["--report", "--html"] {
        let options = ["--preload=off", option, "out.html"];
        let run = Run::of(&options, &["sh", "-c", script, &this]).env(SCENARIO, "succeed");
        let ended = run.run();
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        assert!(ended.stderr.starts_with("Memory of run-"), "{}", ended.stderr);
        let last = ended.stderr.lines().last().expect("a sentence");
        assert!(last.starts_with("memledger: cannot write out.html: "), "{last}");
        let (_, trace) = last.split_once("; the trace is kept: ").expect("its name");
        assert_eq!(ended.files("tmp").len(), 1, "the trace alone");
        let mut report = memledger();
        report.args(["report", trace, "--format=json"]);
        let output = report.output().expect("it runs");
        let report = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(left(&report, LEFT), 1);
    }
}

fn what_is_no_library_of_ours_is_not_loaded() {
    for library in ["/etc/passwd", "/bin/sh"] {
        let ended = Run::of(&["--preload", library], &["sh", "-c", "> started"]).run();
        ended.exited(125);
        assert!(ended.stderr.contains(" is not libmemledger_preload.so"), "{}", ended.stderr);
        assert_eq!(ended.files(""), [""; 0], "nothing ran");
    }
}

fn a_wrong_value_for_the_watcher_is_told() {
    let run = Run::tracked("succeed", &["--report=off"]).env("MEMLEDGER_WATCH", "foo");
    let ended = run.run();
    ended.exited(0);
    assert!(ended.stderr.contains("MEMLEDGER_WATCH"), "{}", ended.stderr);
    assert!(ended.stderr.contains("is \"foo\", but only 0 and 1 are allowed"), "{}", ended.stderr);
}

fn a_script_without_an_interpreter_is_run_by_the_shell() {
    for program in ["./script", "script"] {
        let path = std::env::var("PATH").expect("a path");
        let run = Run::of(&["--preload=off"], &[program, "a b"]).env("PATH", &format!(".:{path}"));
        let script = run.folder.path().join("script");
        fs::write(&script, "echo \"<$1>\"; exit 9").expect("a file");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its owner");
        let ended = run.run();
        ended.exited(9);
        assert_eq!(ended.stdout, "<a b>\n");
    }
    let run = Run::of(&["--preload=off"], &["./binary"]);
    let binary = run.folder.path().join("binary");
    fs::write(&binary, "exit 9\0").expect("a file");
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).expect("its owner");
    run.run().exited(126);
}

fn the_program_has_the_name_that_it_was_started_by() {
    let [this, _] = paths();
    let run = Run::of(&["--report=r.json", "--stacks"], &["./alias"]).env(SCENARIO, "succeed");
    symlink(&this, run.folder.path().join("alias")).expect("a link");
    let ended = run.run();
    ended.exited(0);
    let report = ended.report("r.json");
    assert_eq!(report["trace"]["program"], "alias");
    if cfg!(target_arch = "x86_64") {
        let functions = report["by_function"].to_string();
        assert!(functions.contains("scenarios::leave"), "symbols are of the file: {functions}");
    }
}
