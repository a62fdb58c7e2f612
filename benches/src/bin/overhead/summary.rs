//! Medians over the rounds. A ratio is the median of the rounds' own ratios: in a round, plain and
//! tracked ran within seconds of each other.

use crate::input::Input;
use crate::modes::Mode;
use crate::run::Run;
use memledger_benches::targets::Figures;
use programs::Program;
use serde::Serialize;

/// A program in all modes.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) program: Program,
    pub(crate) input: String,
    pub(crate) modes: Vec<Row>,
}

/// A program in one mode.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) mode: &'static str,
    /// How often it was run.
    pub(crate) runs: usize,
    /// Why there are no figures.
    pub(crate) problem: Option<String>,
    pub(crate) wall_seconds: f64,
    pub(crate) wall_ratio: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) cpu_ratio: f64,
    pub(crate) peak_rss_bytes: f64,
    pub(crate) peak_rss_ratio: f64,
    pub(crate) events: Option<u64>,
    pub(crate) bytes_per_event: Option<f64>,
    /// CPU time an event: what the program's own threads took more than in `plain`.
    pub(crate) hook_ns_per_event: Option<f64>,
    /// ... and what the tracker's thread took.
    pub(crate) worker_ns_per_event: Option<f64>,
    /// What call stacks cost: the name of the mode without them, and the ratio of the wall times.
    pub(crate) without_stacks: Option<&'static str>,
    pub(crate) without_stacks_ratio: Option<f64>,
}

/// `runs` has a list for each round, in the order of the modes.
pub(crate) fn of(
    program: Program,
    input: &Input,
    modes: &[Mode],
    runs: &[Vec<Option<Run>>],
) -> Summary {
    let rows = modes.iter().enumerate().map(|(number, mode)| {
        let rounds = runs
            .iter()
            .filter_map(|round| Some((round.first()?.as_ref()?, round[number].as_ref()?)))
            .collect::<Vec<_>>();
        let problem = rounds.iter().find_map(|(_, run)| run.problem.clone());
        if problem.is_some() {
            return Row { mode: mode.name, runs: rounds.len(), problem, ..Row::default() };
        }
        let each = |value: &dyn Fn(&Run) -> f64| {
            let own = median(rounds.iter().map(|(_, run)| value(run)));
            (own, median(rounds.iter().map(|(plain, run)| value(run) / value(plain))))
        };
        let (wall_seconds, wall_ratio) = each(&|run| run.wall.as_secs_f64());
        let (cpu_seconds, cpu_ratio) = each(&|run| run.cpu.as_secs_f64());
        let (peak_rss_bytes, peak_rss_ratio) = each(&|run| run.peak_rss as f64);
        let last = rounds.last().map(|(_, run)| *run);
        let events = last.and_then(|run| run.events);
        let bytes = last.and_then(|run| run.file_bytes);
        // CPU time an event of what `of` makes of a round.
        let ns = |of: &dyn Fn(&Run, &Run, f64) -> f64| {
            let rounds = rounds.iter().filter_map(|(plain, run)| {
                Some(of(plain, run, run.worker?.as_secs_f64()) * 1e9 / run.events? as f64)
            });
            Some(median(rounds)).filter(|ns| !ns.is_nan())
        };
        let without = modes.iter().position(|other| mode.is_without_stacks(other));
        let without_stacks_ratio = without.map(|without| {
            median(runs.iter().filter_map(|round| {
                let own = round[number].as_ref()?.wall.as_secs_f64();
                Some(own / round[without].as_ref()?.wall.as_secs_f64())
            }))
        });
        Row {
            mode: mode.name,
            runs: rounds.len(),
            problem,
            wall_seconds,
            wall_ratio,
            cpu_seconds,
            cpu_ratio,
            peak_rss_bytes,
            peak_rss_ratio,
            events,
            hook_ns_per_event: ns(&|plain, run, worker| {
                run.cpu.as_secs_f64() - worker - plain.cpu.as_secs_f64()
            }),
            worker_ns_per_event: ns(&|_, _, worker| worker),
            without_stacks: without.map(|without| modes[without].name),
            without_stacks_ratio: without_stacks_ratio.filter(|ratio| !ratio.is_nan()),
            bytes_per_event: bytes.zip(events).map(|(bytes, events)| bytes as f64 / events as f64),
        }
    });
    Summary { program, input: input.what.clone(), modes: rows.collect() }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values = values.collect::<Vec<_>>();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        even if even.is_multiple_of(2) => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

/// Keeps the figures that have a target, for the table of `cargo bench`.
pub(crate) fn note_targets(summaries: &[Summary]) {
    let mut figures = Figures::default();
    for summary in summaries.iter().filter(|summary| summary.program != Program::Threads) {
        let program = summary.program.name();
        let targets = summary.modes.iter().filter(|row| {
            matches!(row.mode, "compact file" | "compact file + report") && row.problem.is_none()
        });
        for row in targets {
            let name = |what: &str| format!("overhead/{program}/{}/{what}", row.mode);
            figures.note(&name("wall"), row.wall_ratio);
            figures.note(&name("cpu"), row.cpu_ratio);
            if let ("json", "compact file", Some(bytes)) = (program, row.mode, row.bytes_per_event)
            {
                figures.note(&name("bytes"), bytes);
            }
        }
    }
    figures.finish(&[], false);
}
