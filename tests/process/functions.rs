//! Functions in the report on exit: the process reads its own symbols after the recording has ended.

use crate::harness::{Case, REPORT, case, churn};
#[cfg(unix)]
use crate::limits::limit_addresses;
use memledger_analysis::Frames;
use std::hint::black_box;
#[cfg(unix)]
use std::process::Command;

pub(crate) const CASES: &[Case] = &[
    case("the report on exit has functions, files and lines", allocates, |run| {
        let run = run.tracked().env("MEMLEDGER_STACKS", "on");
        let outcome = run.run();
        // The report of the trace has the same functions, because it is made from the same files.
        let report = outcome.quiet().whole();
        let row =
            report.by_function(Frames::Folded).into_iter().find(|row| row.name.contains(FUNCTION));
        assert_eq!(row.unwrap().figures.live_bytes, SIZE as u64);
        let lines = report.by_line(Frames::Folded);
        let line = lines.iter().find(|row| row.figures.live_bytes == SIZE as u64).unwrap();
        assert!(line.name.ends_with(&format!("{}:{LINE}", file!())), "{}", line.name);

        // What the symbols take is not the program's.
        let without = outcome.again().tracked().run();
        let without = without.quiet().whole();
        assert_eq!(without.frames.len(), 0);
        let [with, without] = [report, without].map(|report| {
            let totals = report.totals;
            (totals.allocations, totals.allocated_bytes, totals.live_bytes, totals.peak_bytes)
        });
        assert_eq!(with, without);
    }),
    case("the report on stderr begins with functions", allocates, |run| {
        let run = run.env("MEMLEDGER_REPORT", "stderr").env("MEMLEDGER_STACKS", "on");
        let outcome = run.run();
        outcome.exited(0);
        let (_, table) = outcome.stderr.split_once("\nBy function").expect(&outcome.stderr);
        let first = table.lines().nth(1).unwrap();
        assert!(first.contains(FUNCTION), "{}", outcome.stderr);
        assert!(outcome.stderr.lines().count() < 25, "{}", outcome.stderr);
    }),
    #[cfg(unix)]
    case("a stripped program has modules and offsets in its report", allocates, |run| {
        let run =
            run.copied_by("objcopy", &["--strip-all"]).tracked().env("MEMLEDGER_STACKS", "on");
        let program = run.command.get_program().display().to_string();
        let outcome = run.run();
        // It exports some functions: those that the tracker has of C.
        let says = format!(
            "memledger: {program} has the names of exported functions only, because it was stripped; "
        );
        assert!(outcome.stderr.starts_with(&says), "{}", outcome.stderr);
        let report = outcome.exited(0).whole();
        let largest = &report.largest_live[0];
        let stack = report.by_stack.get(largest.stack.unwrap()).unwrap();
        let innermost = &report.frames[stack.frames[0] as usize];
        assert!(report.modules[innermost.module.unwrap()].path.ends_with("/program"));
        assert_eq!((largest.bytes, innermost.functions.len()), (SIZE as u64, 0));
        assert!(report.by_function(Frames::Folded)[0].name.starts_with("program+0x"));
    }),
    #[cfg(unix)]
    case(
        "separate debug information that is compressed is read in the process",
        allocates,
        |run| {
            let run = run.copied_by("cp", &[]).tracked().env("MEMLEDGER_STACKS", "on");
            let objcopy = |arguments: &[&str]| {
                let made =
                    Command::new("objcopy").current_dir(run.folder.path()).args(arguments).status();
                assert!(
                    made.is_ok_and(|status| status.success()),
                    "objcopy is needed for this test"
                );
            };
            let compressed = "--compress-debug-sections=zlib";
            objcopy(&["--only-keep-debug", compressed, "program", "program.debug"]);
            objcopy(&["--strip-all", "--add-gnu-debuglink=program.debug", "program"]);
            let outcome = run.run();
            let report = outcome.quiet().whole();
            let lines = report.by_line(Frames::Folded);
            let line = lines.iter().find(|row| row.figures.live_bytes == SIZE as u64).unwrap();
            assert!(line.name.ends_with(&format!("{}:{LINE}", file!())), "{}", line.name);
        },
    ),
    #[cfg(unix)]
    case("a program whose file is gone has modules and offsets in its report", removes, |run| {
        let run = run.copied_by("cp", &[]).tracked().env("MEMLEDGER_STACKS", "on");
        let program = run.command.get_program().display().to_string();
        let outcome = run.run();
        let says = format!("memledger: there is no file with the symbols of {program}; ");
        assert!(outcome.stderr.starts_with(&says), "{}", outcome.stderr);
        outcome.exited(0).whole();
    }),
    #[cfg(unix)]
    case("a program without a build id that was replaced has offsets", replaces, |run| {
        let run = run.copied_by("objcopy", &["--remove-section=.note.gnu.build-id"]);
        let run = run.tracked().env("MEMLEDGER_STACKS", "on");
        let program = run.command.get_program().display().to_string();
        let outcome = run.run();
        let says = format!(
            "memledger: {program} is not the file that was loaded: it was changed or replaced since, "
        );
        assert!(outcome.stderr.starts_with(&says), "{}", outcome.stderr);
        let report = outcome.exited(0).whole();
        assert!(report.by_function(Frames::Folded)[0].name.starts_with("program+0x"));
    }),
    #[cfg(unix)]
    case("a pipe in the place of debug information is passed over", allocates, |run| {
        let run = run.copied_by("cp", &[]).tracked().env("MEMLEDGER_STACKS", "on");
        let mut package = run.command.get_program().to_owned();
        package.push(".dwp");
        assert!(Command::new("mkfifo").arg(package).status().unwrap().success());
        run.run().exited(0).whole();
    }),
    #[cfg(unix)]
    case("without memory for symbols there are modules and offsets", no_memory, |run| {
        let run = run.tracked().env("MEMLEDGER_STACKS", "on");
        // The report itself fits into the memory that is there.
        let outcome = run.env("MALLOC_ARENA_MAX", "1").run();
        outcome.exited(0);
        let program = std::env::current_exe().unwrap();
        let says = format!(
            "memledger: some functions of call stacks have no names: to read those of {} takes about ",
            program.display()
        );
        assert!(outcome.stderr.starts_with(&says), "{}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        assert!(outcome.report(REPORT).contains("\"functions\": []"));
    }),
];

/// A size that nothing else has.
const SIZE: usize = 1_000_003;

const FUNCTION: &str = "leaves_one_block";
const LINE: u32 = line!() + 4;

#[inline(never)]
fn leaves_one_block() {
    let block = Vec::<u8>::with_capacity(black_box(SIZE));
    std::mem::forget(black_box(block));
}

fn allocates() {
    leaves_one_block();
    churn(1000);
}

#[cfg(unix)]
fn removes() {
    allocates();
    std::fs::remove_file(std::env::current_exe().unwrap()).unwrap();
}

#[cfg(unix)]
fn replaces() {
    allocates();
    // Its symbols are now those of a file of the same size.
    let program = std::env::current_exe().unwrap();
    let other = program.with_extension("other");
    std::fs::copy(&program, &other).unwrap();
    std::fs::rename(other, program).unwrap();
}

#[cfg(unix)]
fn no_memory() {
    allocates();
    limit_addresses(16 << 20);
}
