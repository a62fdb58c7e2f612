//! The index of a trace says to every rule what a query says.

use crate::queries::{position, run, steps};
use crate::spans::Step;
use memledger_analysis::read::read;
use memledger_analysis::{
    Analyzer, Answer, BlockLife, BlockLives, IndexLimits, IndexRow, Position, Query, QueryIndex,
    QueryIndexer, Report, Rule, SingleBlock,
};
use memledger_export::query::{AnswerRow, rows};
use memledger_export::text::{By, Options};
use proptest::prelude::*;
use std::fs::File;

fn limits(steps: usize, rows: usize, aside: usize) -> IndexLimits {
    let mut limits = IndexLimits::default();
    (limits.steps, limits.rows, limits.aside) = (steps, rows, aside);
    limits
}

/// The index, the report and the number of the event that reached the peak.
fn indexed(steps: &[Step], limits: IndexLimits) -> (QueryIndex, Report, u64) {
    let (mut feed, _) = run(steps, Analyzer::observing(QueryIndexer::new(limits)).by_bucket());
    let index = feed.analyzer.query_index(|indexer| indexer);
    (index, feed.analyzer.report(), feed.analyzer.peak_event())
}

/// The rows of an answer. A row of what has no stack is not there before the first block with a stack, and
/// a thread can get its name later.
fn all_rows(answer: &Answer, by: By) -> Vec<AnswerRow> {
    let mut rows = rows(answer, by, &Options::default());
    rows.retain(|row| row.path != ["(no stack)"]);
    rows.iter_mut().filter(|row| row.id.is_some()).for_each(|row| row.path.clear());
    rows.sort_by_key(|row| (row.path.clone(), row.id));
    rows
}

/// What a query says, which reads everything.
fn queried(steps: &[Step], rule: Rule, positions: &[Position]) -> Answer {
    let query = Query::new(rule, positions.to_vec()).blocks(1000);
    let (mut feed, _) = run(steps, query.analyzer());
    feed.analyzer.answer().expect("the positions are in order")
}

fn check(index: &QueryIndex, report: &Report, rule: Rule, at: &[Position], query: &Answer) {
    let answer = index.answer(report, rule, at).expect("the positions are in order");
    assert_eq!(answer.total, query.total, "{} {at:?} {index:#?}", rule.name());
    for by in [By::Scope, By::Group, By::Name, By::Thread, By::Stack, By::Function] {
        assert_eq!(all_rows(&answer, by), all_rows(query, by), "{} {at:?} {by:?}", rule.name());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn every_rule_finds_at_steps_what_a_query_finds(
        steps in steps(),
        places in proptest::collection::vec(any::<u16>(), 4),
        most in prop_oneof![Just((4096, 1 << 20, 1 << 16)), Just((20, 30, 3)), Just((4096, 1 << 20, 0))],
    ) {
        let (index, report, _) = indexed(&steps, limits(most.0, most.1, most.2));
        let mut places: Vec<_> =
            places.iter().map(|&place| usize::from(place) % index.steps.len()).collect();
        places.sort_unstable();
        let events = places.iter().map(|&place| index.steps[place].before.event);
        let at: Vec<_> = events.map(Position::Event).collect();
        for &rule in Rule::ALL {
            check(&index, &report, rule, &at[..rule.times()], &queried(&steps, rule, &at));
        }
    }

    #[test]
    fn a_position_that_is_not_moved_is_exact(
        steps in steps(),
        places in proptest::collection::vec((0_u8..6, any::<u64>()), 4),
        is_small in any::<bool>(),
    ) {
        let most = if is_small { limits(20, 30, 3) } else { IndexLimits::default() };
        let (index, report, peak) = indexed(&steps, most);
        let (_, model) = run(&steps, Analyzer::new());
        let mut places: Vec<_> = places.iter().map(|&(kind, at)| match kind {
            5 => Position::Event(peak),
            kind => position(&model, kind, at),
        }).collect();
        places.sort_by_key(|place| (model.events_before(place), match place {
            Position::Time(time) => (2, *time),
            Position::Bookmark(_) => (0, 0),
            // Those beyond the end are all at the end.
            Position::Event(event) => (1, *event),
            _ => (3, 0),
        }));
        for &rule in Rule::ALL {
            let query = queried(&steps, rule, &places);
            let sum = |has_declined| {
                let all = query.blocks.iter();
                let all = all.filter(|found| found.single.has_declined == has_declined);
                (all.clone().count() as u64, all.map(|found| found.block.bytes).sum::<u64>())
            };
            let total = query.total;
            prop_assert_eq!(sum(false), (total.blocks, total.bytes), "{}", rule.name());
            let declined = (total.declined_blocks, total.declined_bytes);
            prop_assert_eq!(sum(true), declined, "{}", rule.name());
            let found = index.find(rule, &places).expect("the positions are in order");
            for (place, found) in places.iter().zip(&found.positions) {
                let is_exact = match place {
                    // Each time and each bookmark begins a step, and the end is one.
                    Position::Event(event) => *event == peak,
                    Position::Bookmark(_) | Position::End => true,
                    _ => !is_small,
                };
                prop_assert!(!is_exact || !found.is_moved, "{place:?} {found:?} {index:#?}");
            }
            if found.positions.iter().all(|position| !position.is_moved) {
                check(&index, &report, rule, &places[..rule.times()], &query);
            }
        }
    }
}

fn lives(steps: &[Step]) -> Vec<BlockLife> {
    let mut all = Vec::new();
    let lives = BlockLives::new(|life: &BlockLife| all.push(*life));
    let (mut feed, _) = run(steps, Analyzer::observing(lives));
    feed.analyzer.end_lives();
    drop(feed);
    all
}

/// A block that was found, as far as it is told.
fn key(single: &SingleBlock) -> impl Ord + std::fmt::Debug + use<> {
    let life = single.life;
    let of = (life.address, life.bytes, life.bucket, life.allocated_at_ns);
    (life.begun, single.freed(), of, single.has_declined)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn the_lives_have_the_single_blocks_and_the_index_says_where(
        steps in steps(),
        places in proptest::collection::vec(any::<u16>(), 4),
        is_small in any::<bool>(),
    ) {
        let lives = lives(&steps);
        let (index, ..) = indexed(&steps, if is_small { limits(20, 30, 3) } else { IndexLimits::default() });
        let mut places: Vec<_> =
            places.iter().map(|&place| usize::from(place) % index.steps.len()).collect();
        places.sort_unstable();
        let events: Vec<_> = places.iter().map(|&place| index.steps[place].before.event).collect();
        let end = index.steps[index.steps.len() - 1].before.event;
        for &rule in Rule::ALL {
            let mut events = events[..rule.times()].to_vec();
            if rule == Rule::AllocatedAfter {
                events.push(end);
            }
            let positions: Vec<_> = events.iter().map(|&event| Position::Event(event)).collect();
            let query = queried(&steps, rule, &positions);
            let mut expected: Vec<_> = query.blocks.iter().map(|found| key(&found.single)).collect();
            expected.sort_unstable();
            let mut found = Vec::new();
            for life in &lives {
                let Some(single) = life.found_by(rule, &events) else { continue };
                found.push(key(&single));
                let ended = life.ended.map_or(IndexRow::NEVER, |(event, ..)| index.step_of(event));
                let begun = index.step_of(life.begun);
                let mut rows = index.rows_of(rule, &positions).expect("in order");
                prop_assert!(
                    rows.any(|row| (row.begun, row.ended, row.bucket) == (begun, ended, life.bucket)
                        && row.most >= life.bytes),
                    "{} {life:?} {index:#?}", rule.name()
                );
            }
            found.sort_unstable();
            prop_assert_eq!(found, expected, "{} {:?}", rule.name(), events);
        }
    }
}

#[test]
fn the_index_of_a_sample_says_what_queries_say() {
    let sample = |name: &str| {
        File::open(format!("{}/../../tests/samples/{name}", env!("CARGO_MANIFEST_DIR")))
            .expect("a sample")
    };
    for name in ["mem-2t-40k.utrace", "memledger-small.utrace"] {
        for most in [IndexLimits::default(), limits(20, 400, 100)] {
            let mut analyzer = Analyzer::observing(QueryIndexer::new(most)).by_bucket();
            read(sample(name), &mut analyzer).expect("it is read");
            let index = analyzer.query_index(|indexer| indexer);
            let (report, peak) = (analyzer.report(), analyzer.peak_event());
            assert!(index.steps.len() <= most.steps + 1, "{} steps", index.steps.len());
            let some = index.steps.len() / 3;
            let event = |at: usize| Position::Event(index.steps[at].before.event);
            let cases = [
                [event(some), event(2 * some), Position::End, Position::End],
                [event(0), event(some), event(some), event(2 * some)],
                [Position::Event(peak), Position::Event(peak), Position::End, Position::End],
            ];
            for at in &cases {
                for &rule in Rule::ALL {
                    let mut reader = Query::new(rule, at.to_vec()).analyzer();
                    read(sample(name), &mut reader).expect("it is read");
                    let query = reader.answer().expect("in order");
                    check(&index, &report, rule, &at[..rule.times()], &query);
                }
            }
        }
    }
}
