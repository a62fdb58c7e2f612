//! What a recording costs that has nothing to record: a program that does nothing, from its start
//! to its end, with the tracker started before `main` and ended on the way out.

use criterion::{Criterion, criterion_group, criterion_main};
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

const PLAIN: &str = env!("CARGO_BIN_EXE_program_plain");
const LINKED: &str = env!("CARGO_BIN_EXE_program_memledger");

/// A variable of the environment.
type Variable = (&'static str, &'static str);

/// A name, the binary, and the variables it gets, in a folder of its own.
const MODES: [(&str, &str, &[Variable]); 5] = [
    ("plain", PLAIN, &[]),
    ("off", LINKED, &[]),
    ("compact file", LINKED, &[FILE, ("MEMLEDGER_REPORT", "off")]),
    ("report", LINKED, &[REPORT]),
    ("compact file + report", LINKED, &[FILE, REPORT]),
];
const FILE: Variable = ("MEMLEDGER_TRACE", "trace.memledger");
const REPORT: Variable = ("MEMLEDGER_REPORT", "report.json");

fn start(c: &mut Criterion) {
    let folder = std::env::temp_dir().join(format!("memledger-bench-start-{}", std::process::id()));
    fs::create_dir(&folder).expect("a folder of its own");
    fs::write(folder.join("nothing.json"), "[]").expect("an input without work");
    let mut group = c.benchmark_group("start");
    for (name, binary, variables) in MODES {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let status = Command::new(binary)
                    .args(["json", "nothing.json"])
                    .current_dir(&folder)
                    .envs(variables.iter().copied())
                    .stdout(Stdio::null())
                    .status();
                assert!(status.is_ok_and(|status| status.success()), "{name}");
            });
        });
        for (variable, file) in [FILE, REPORT] {
            let made = fs::remove_file(folder.join(file)).is_ok();
            assert_eq!(made, variables.contains(&(variable, file)), "{name}: {file}");
        }
    }
    group.finish();
    fs::remove_dir_all(&folder).expect("the folder can be removed");
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    targets = start
}
criterion_main!(benches);
