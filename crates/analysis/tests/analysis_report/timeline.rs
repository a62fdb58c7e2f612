//! The timeline against a naive one, which keeps the figures after every event.

use memledger_analysis::{Analyzer, Position, Report, TimePoint};
use memledger_test_support::feed::{Feed, V::N};
use std::collections::BTreeMap;

/// The figures after an event.
#[derive(Clone, Debug, Default)]
struct State {
    point: TimePoint,
    /// By thread: live bytes, and all that it has allocated.
    threads: BTreeMap<u32, (u64, u64)>,
}

/// What a program does at random, and the figures after each event.
struct Program {
    feed: Feed,
    random: u64,
    threads: u16,
    /// Address, size, and the thread that allocated it.
    live: Vec<(u64, u64, u32)>,
    /// By stream: the block that is reallocated.
    pending: Vec<Option<(u64, u64, u32)>>,
    now: u64,
    state: State,
    /// By number of events.
    states: Vec<State>,
}

impl Program {
    fn new(analyzer: Analyzer, threads: u16, seed: u64) -> Self {
        let mut program = Self {
            feed: Feed::ours(analyzer),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            threads,
            live: Vec::new(),
            pending: vec![None; usize::from(threads)],
            now: 0,
            state: State::default(),
            states: Vec::new(),
        };
        program.note();
        program
    }

    fn next(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % below
    }

    /// The figures hold after all events so far.
    fn note(&mut self) {
        while self.states.len() as u64 <= self.feed.events {
            let of = &mut self.state.point;
            (of.events, of.at_ns) = (self.states.len() as u64, self.now);
            self.states.push(self.state.clone());
        }
    }

    fn change(&mut self, thread: u32, live: i64, allocated: u64) {
        let point = &mut self.state.point;
        point.live_bytes = point.live_bytes.wrapping_add_signed(live);
        point.allocated_bytes += allocated;
        let of = self.state.threads.entry(thread).or_default();
        *of = (of.0.wrapping_add_signed(live), of.1 + allocated);
    }

    /// One event on one of the threads, which come one after another.
    fn step(&mut self, markers: u64, at: u64) {
        if at.is_multiple_of(50) && at / 50 < u64::from(self.threads) {
            let thread = at / 50 + 1;
            self.feed.thread(thread as u16 + 1, thread as u32, "t");
            self.note();
        }
        if markers > 0 && self.next(markers) == 0 {
            self.now += self.next(1_000_000);
            self.feed.marker(self.now);
            return self.note();
        }
        let begun = (1 + at / 50).min(self.threads.into());
        let stream = self.next(begun) as u16;
        let thread = u32::from(stream) + 1;
        let wire = stream + 2;
        let size = 1 + self.next(100_000);
        if let Some((_, _, owner)) = self.pending[usize::from(stream)].take() {
            let address = 0x1000 * (1 + self.feed.events);
            self.feed.realloc_alloc(wire, address, size);
            self.live.push((address, size, owner));
            self.change(owner, size as i64, size);
            let point = &mut self.state.point;
            (point.frees, point.reallocations) = (point.frees - 1, point.reallocations + 1);
            point.live_blocks += 1;
            return self.note();
        }
        let what = self.next(10);
        if what < 4 || self.live.is_empty() {
            let address = 0x1000 * (1 + self.feed.events);
            self.feed.alloc(wire, address, size);
            self.live.push((address, size, thread));
            self.change(thread, size as i64, size);
            self.state.point.allocations += 1;
            self.state.point.live_blocks += 1;
        } else if what < 9 {
            let which = self.next(self.live.len() as u64) as usize;
            let block = self.live.swap_remove(which);
            if what < 8 {
                self.feed.free(wire, block.0);
            } else {
                self.feed.realloc_free(wire, block.0);
                self.pending[usize::from(stream)] = Some(block);
            }
            self.change(block.2, -(block.1 as i64), 0);
            self.state.point.frees += 1;
            self.state.point.live_blocks -= 1;
        } else {
            self.feed.emit("Other.Scope", wire, &[N(1)]);
        }
        self.note();
    }

    fn run(&mut self, steps: u64, markers: u64) -> Report {
        (0..steps).for_each(|at| self.step(markers, at));
        self.feed.report()
    }

    /// Checks each point, and the series of threads, up to event `last`.
    fn check(&self, report: &Report, last: u64) {
        let points = &report.timeline.points;
        assert!(points.len() <= 2_050, "{} points", points.len());
        let mut before = 0;
        for (at, point) in points.iter().enumerate() {
            let events = point.events as usize;
            let state = &self.states[events];
            let live = self.states[before..=events].iter().map(|state| state.point.live_bytes);
            let peak_bytes = live.max().unwrap();
            let mut expected = state.point;
            expected.peak_bytes = peak_bytes;
            assert_eq!(*point, expected, "point {at}");
            before = events;
            let mut sums = (0_u64, 0_u64);
            for series in &report.timeline.threads {
                let figures = (series.live_bytes[at], series.allocated_bytes[at]);
                sums = (sums.0 + figures.0, sums.1 + figures.1);
                if let Some(row) = series.thread {
                    let of = state.threads.get(&report.by_thread[row].id).copied();
                    assert_eq!(figures, of.unwrap_or_default(), "point {at}");
                }
            }
            assert_eq!(sums, (point.live_bytes, point.allocated_bytes), "point {at}");
        }
        assert_eq!(points.last().unwrap().events, last);
        let peak = points.iter().map(|point| point.peak_bytes).max();
        assert_eq!(peak, Some(report.totals.peak_bytes));
    }
}

#[test]
fn every_point_is_as_a_naive_timeline_has_it() {
    for (seed, (steps, markers)) in
        [(0, 0), (1, 0), (30, 5), (3_000, 0), (3_000, 1), (30_000, 0), (30_000, 3), (60_000, 400)]
            .into_iter()
            .enumerate()
    {
        for threads in [1, 5] {
            let mut program = Program::new(Analyzer::new(), threads, seed as u64 + 1);
            let report = program.run(steps, markers);
            program.check(&report, program.feed.events);
            let least = (steps / 2).min(700);
            let points = &report.timeline.points;
            assert!(points.len() as u64 >= least, "{} points of {steps}", points.len());
        }
    }
}

#[test]
fn idle_times_and_bursts_both_have_points() {
    let mut program = Program::new(Analyzer::new(), 1, 9);
    // A burst without a time in it, then times without much between them, then another burst.
    (0..20_000).for_each(|at| program.step(0, at));
    for at in 0..20_000 {
        program.now += 10_000_000;
        program.feed.marker(program.now);
        program.note();
        if at % 10 == 0 {
            program.step(0, 20_000 + at);
        }
    }
    (0..20_000).for_each(|at| program.step(0, 50_000 + at));
    let report = program.feed.report();
    program.check(&report, program.feed.events);
    let points = &report.timeline.points;
    let by_part =
        |from: u64, to: u64| points.iter().filter(|p| (from..to).contains(&p.events)).count();
    let (first, last) = (by_part(0, 20_000), by_part(42_100, 100_000));
    let idle = by_part(20_000, 42_000);
    assert!(first > 200 && last > 200 && idle > 200, "{first}, {idle}, {last}");
}

#[test]
fn threads_beyond_the_busiest_are_together() {
    let mut program = Program::new(Analyzer::new(), 200, 5);
    let report = program.run(40_000, 100);
    program.check(&report, program.feed.events);
    let threads = &report.timeline.threads;
    assert_eq!(threads.len(), 16, "15, and the others");
    assert!(threads[..15].iter().all(|series| series.thread.is_some()));
    assert_eq!(threads[15].thread, None);
    let all = |at: usize| *threads[at].allocated_bytes.last().unwrap();
    assert!((1..15).all(|at| all(at - 1) >= all(at)), "the busiest first");
}

#[test]
fn the_timeline_ends_where_the_report_does() {
    for last in [1, 2, 777, 5_000, 19_999] {
        let mut program = Program::new(Analyzer::new().until(Position::Event(last)), 3, last);
        let report = program.run(20_000, 50);
        program.check(&report, last);
        let end = report.timeline.points.last().unwrap();
        assert_eq!(end.live_bytes, report.totals.live_bytes);
        assert_eq!(end.at_ns, report.trace.duration_ns);
        // One pass for several points makes the same.
        let points = [Position::Event(last), Position::Event(20_001)];
        let mut program = Program::new(Analyzer::new().reports_at(&points), 3, last);
        program.run(20_000, 50);
        assert_eq!(program.feed.analyzer.reports()[0].timeline, report.timeline);
    }
    let mut program = Program::new(Analyzer::new().reports_at(&[]), 3, 4);
    assert!(program.run(500, 50).trace.events > 0 && program.feed.analyzer.reports().is_empty());
    let until = Position::Time(3_000_000);
    let mut program = Program::new(Analyzer::new().until(until), 3, 4);
    let report = program.run(20_000, 50);
    let end = report.timeline.points.last().unwrap();
    assert_eq!((end.at_ns, end.live_bytes), (3_000_000, report.totals.live_bytes));
}
