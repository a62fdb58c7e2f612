//! Functions are kept in a folder for the next command.

use super::unreal_trace::Trace;
use super::{Program, compile, symbolizer};
use flate2::Crc;
use memledger_analysis::Symbolizer;
use memledger_test_support::command::{output, ran, told};
use memledger_test_support::memledger;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const DEBUG: &[&str] = &["-g", "-Csymbol-mangling-version=v0"];

/// A program, a trace with an address of it, and a folder for the cache.
struct Kept {
    program: Program,
    trace: PathBuf,
    cache: PathBuf,
}

impl Kept {
    /// The address is the first with a function that is inlined, if there is one.
    fn of(flags: &[&str]) -> Self {
        let program = compile(flags);
        let (start, size) = program.function("outer");
        let mut binaries = symbolizer(&[]);
        let inlined = |at: &u64| binaries.frames(&program.module, *at).len() > 1;
        let offset = (start..start + size).find(inlined).expect("an inlined function");
        let [trace, cache] = ["run.utrace", "cache"].map(|name| program.folder.path().join(name));
        let frames = [program.module.base + offset + 1];
        fs::write(&trace, Trace::with_stack(&program.module, &frames, "")).expect("written");
        Self { program, trace, cache }
    }

    fn command(&self) -> Command {
        let mut command = memledger!(["report", "--format", "json"]);
        command.arg(&self.trace).env("MEMLEDGER_CACHE", &self.cache);
        command
    }

    /// The report, in which nothing was missing.
    #[track_caller]
    fn report(&self) -> String {
        let (status, out, err) = told(ran(self.command()));
        assert_eq!((status, &*err), (0, ""));
        out
    }

    /// The file of the program.
    fn file(&self) -> PathBuf {
        let id = &self.program.module.build_id;
        let name = id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        self.cache.join("symbols").join(name + ".functions")
    }

    /// Has the file say that the function `outer` is `OUTER`: a report with this name is from the file.
    fn mark(&self) {
        let mut bytes = fs::read(self.file()).expect("it is kept");
        let name = b"tiny::outer";
        let at = bytes.windows(name.len()).position(|part| part == name).expect("the function");
        bytes[at + 6..at + name.len()].make_ascii_uppercase();
        let mut crc = Crc::new();
        crc.update(&bytes[20..]);
        bytes[16..20].copy_from_slice(&crc.sum().to_le_bytes());
        fs::write(self.file(), bytes).expect("written");
    }
}

#[test]
fn the_next_command_reads_what_is_kept() {
    let kept = Kept::of(DEBUG);
    let first = kept.report();
    assert!(first.contains("tiny::outer"), "{first}");
    assert_eq!(kept.report(), first);
    kept.mark();
    assert_eq!(kept.report(), first.replace("tiny::outer", "tiny::OUTER"));
    let off = told(ran({
        let mut command = kept.command();
        command.env("MEMLEDGER_CACHE", "off");
        command
    }));
    assert_eq!(off, (0, first, String::new()));
}

#[test]
fn what_is_damaged_is_found_again_and_written_again() {
    let kept = Kept::of(DEBUG);
    let first = kept.report();
    let whole = fs::read(kept.file()).expect("it is kept");
    for cut in (0..8).map(|part| whole.len() * part / 8) {
        let mut damaged = whole.clone();
        damaged[cut] ^= 0x20;
        for bytes in [&damaged, &whole[..cut]] {
            fs::write(kept.file(), bytes).expect("written");
            assert_eq!(kept.report(), first, "{cut}");
            assert_eq!(fs::read(kept.file()).expect("it"), whole, "{cut}");
        }
    }
}

#[test]
fn a_file_that_was_replaced_is_read_again() {
    let kept = Kept::of(DEBUG);
    let first = kept.report();
    kept.mark();
    let path = &kept.program.path;
    let bytes = fs::read(path).expect("the program");
    let modified = fs::metadata(path).expect("it").modified().expect("a time");
    fs::remove_file(path).expect("removed");
    fs::write(path, bytes).expect("written");
    let file = fs::File::options().write(true).open(path).expect("it");
    file.set_modified(modified).expect("the same time");
    assert_eq!(kept.report(), first);
}

#[test]
fn a_package_that_comes_later_is_used_and_parts_are_not_kept() {
    let kept = Kept::of(&[DEBUG, &["-Csplit-debuginfo=packed"]].concat());
    let package = kept.program.folder.path().join("tiny.dwp");
    let elsewhere = package.with_extension("elsewhere");
    fs::rename(&package, &elsewhere).expect("moved");
    let without = kept.report();
    assert!(!kept.file().exists(), "its parts can come later");
    fs::rename(&elsewhere, &package).expect("moved back");
    let with = kept.report();
    assert_ne!(with, without);
    kept.mark();
    assert_ne!(kept.report(), with, "it is kept");
    fs::rename(&package, &elsewhere).expect("moved");
    assert_eq!(kept.report(), without);
}

#[test]
fn it_is_kept_in_the_users_cache_folder_unless_a_variable_says_otherwise() {
    let kept = Kept::of(DEBUG);
    let home = kept.program.folder.path().join("home");
    let run = |set: &[(&str, &Path)]| {
        let mut command = kept.command();
        command.env_remove("MEMLEDGER_CACHE").env("XDG_CACHE_HOME", &home);
        command.envs(set.iter().copied());
        told(ran(command))
    };
    let off = run(&[("MEMLEDGER_CACHE", Path::new("off"))]);
    assert!(!home.exists());
    assert_eq!(run(&[]), off);
    let files = |folder: &Path| fs::read_dir(folder).expect("a folder").count();
    assert_eq!(files(&home.join("memledger/symbols")), 1);

    // A folder that cannot be made is a sentence only if the user has named it.
    let nowhere = kept.program.path.join("cache");
    assert_eq!(run(&[("XDG_CACHE_HOME", &nowhere)]), off);
    let (status, out, err) = run(&[("MEMLEDGER_CACHE", &nowhere)]);
    assert_eq!((status, &out), (0, &off.1));
    let start = format!(
        "memledger: MEMLEDGER_CACHE is {}, where no functions can be stored: ",
        nowhere.join("symbols").display()
    );
    assert!(err.starts_with(&start) && err.lines().count() == 1, "{err}");
}

#[test]
fn commands_at_the_same_time_do_not_disturb_each_other() {
    let kept = Kept::of(DEBUG);
    let start = |_| {
        let mut command = kept.command();
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
    };
    let children: Vec<_> = (0..6).map(start).collect();
    let first = kept.report();
    for child in children {
        assert_eq!(told(output(child)), (0, first.clone(), String::new()));
    }
    let names = fs::read_dir(kept.cache.join("symbols"))
        .expect("it")
        .map(|entry| entry.expect("it").path());
    assert_eq!(names.collect::<Vec<_>>(), [kept.file()]);
    kept.mark();
    assert_ne!(kept.report(), first, "it is kept");
}
