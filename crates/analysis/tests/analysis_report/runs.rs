//! Queries about each run of a scope, against a model that looks at all events of each stream, and at all
//! live blocks after every event.

use crate::model::{CONTEXTS, announce};
use crate::queries::{Rows, add, answered, position, run, steps};
use crate::spans::{Block, Model, Step};
use memledger_analysis::{Analyzer, Position, Query, Rule, ScopeRuns, Unanswered};
use memledger_test_support::feed::Feed;
use proptest::prelude::*;
use std::collections::BTreeMap;

const SCOPES: &[&str] = &["a", "b", "a > b", "GlobalScope > a", "GlobalScope"];

/// The path of a context up to the outermost scope that is asked for.
fn prefix(context: usize, scope: &str) -> Option<&'static [&'static str]> {
    let (path, wanted) = (CONTEXTS[context].1, scope.split(" > ").collect::<Vec<_>>());
    (1..=path.len()).map(|n| &path[..n]).find(|path| path.ends_with(&wanted))
}

/// What is expected of the runs: their number, those that are open, those with blocks, what is still live.
type Counts = (u64, u64, u64, (u64, u64));

/// What each run left behind, or allocated and freed.
fn expected(model: &Model, rule: Rule, scope: &str, a: u64, b: u64) -> (Rows, Counts) {
    let mut rows = Rows::new();
    let (mut runs, mut open, mut with_blocks, mut still) = (0, 0, 0, (0, 0));
    let at = |event: u64| {
        let index = event as usize;
        model.after[index].1.iter().chain(&model.between[index])
    };
    let mut of_streams = BTreeMap::<u16, Vec<_>>::new();
    for act in model.acts.iter().filter(|act| act.event <= b) {
        of_streams.entry(act.stream).or_default().push(*act);
    }
    for acts in of_streams.values() {
        let of = |act: &crate::spans::Act| (act.thread, prefix(act.context, scope));
        let mut groups = acts.chunk_by(|one, other| of(one) == of(other)).peekable();
        while let Some(group) = groups.next() {
            let over = groups.peek().map(|next| next[0].event);
            if of(&group[0]).1.is_none() || over.is_some_and(|over| over <= a) {
                continue;
            }
            // What was live before the event with which the run is over, or when counting stops.
            let last = over.map_or(b, |over| over - 1);
            let ids: Vec<u64> = group
                .iter()
                .filter(|act| act.allocates && act.event > a)
                .map(|act| act.event)
                .collect();
            let is_its = |block: &&Block| ids.contains(&block.id);
            runs += 1;
            open += u64::from(over.is_none());
            with_blocks += u64::from(at(last).any(|block| is_its(&block)));
            for block in at(b).filter(is_its) {
                still = (still.0 + 1, still.1 + block.owner.size);
            }
            if rule == Rule::Grown {
                at(last).filter(is_its).for_each(|block| add(&mut rows, &block.owner, 0));
            } else {
                let ended = model.ended.iter().filter(|end| !end.by_realloc && end.event <= last);
                let ended = ended.filter(|end| is_its(&&end.block));
                ended.for_each(|end| add(&mut rows, &end.block.owner, 0));
            }
        }
    }
    (rows, (runs, open, with_blocks, still))
}

fn counts(runs: &ScopeRuns) -> Counts {
    (runs.runs, runs.open, runs.with_blocks, (runs.still_live_blocks, runs.still_live_bytes))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn each_run_of_a_scope_has_what_a_model_finds_that_looks_at_every_event(
        steps in steps(),
        free_scopes in any::<bool>(),
        scope in 0..SCOPES.len(),
        at in (2_u8..6, any::<u64>()),
        until in (2_u8..6, any::<u64>()),
    ) {
        let steps = if free_scopes { [vec![Step::FreeScopes], steps].concat() } else { steps };
        let scope = SCOPES[scope];
        let (_, model) = run(&steps, Analyzer::new());
        let mut places: Vec<_> = [at, until].into_iter().map(|(kind, at)| {
            let position = position(&model, kind, at);
            (model.events_before(&position), position)
        }).collect();
        places.sort_by_key(|(event, position)| {
            (*event, matches!(position, Position::End))
        });
        let (a, b) = (places[0].0, places[1].0);
        let positions: Vec<_> = places.into_iter().map(|place| place.1).collect();
        for rule in [Rule::Grown, Rule::ShortLived] {
            let query = Query::new(rule, positions.clone()).by_size().blocks(3).in_each(scope);
            let (mut feed, _) = run(&steps, query.analyzer());
            let (rows, expected) = expected(&model, rule, scope, a, b);
            match feed.analyzer.answer() {
                // No event is in a scope of this name.
                Err(Unanswered::NoScope { name, .. }) => {
                    prop_assert_eq!((name.as_str(), rows), (scope, Rows::new()));
                    continue;
                }
                other => {
                    let runs = other.expect("an answer").runs.expect("runs");
                    prop_assert_eq!(counts(&runs), expected, "{} {:?}", scope, &positions);
                    if expected.0 <= 10 {
                        let largest = runs.largest.iter().map(|run| [run.blocks, run.bytes]);
                        let largest = largest.fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
                        let all = rows.get(&("all", Vec::new())).map_or([0, 0], |row| [row[0], row[1]]);
                        prop_assert_eq!(largest, all, "{:?}", rule);
                    }
                }
            }
            // A second answer is the same.
            prop_assert_eq!(answered(&mut feed.analyzer, 3), Ok(rows), "{:?} {:?}", rule, &positions);
        }
    }
}

#[test]
fn a_scope_that_no_allocation_is_in_is_said_to_be_none() {
    let mut feed =
        Feed::ours(Query::new(Rule::Grown, vec![Position::Event(0)]).in_each("c").analyzer());
    announce(&mut feed);
    feed.enter(2, 101);
    feed.alloc(2, 16, 1);
    feed.analyzer.flush();
    let scopes = vec!["GlobalScope".to_owned(), "a".to_owned()];
    let none = Unanswered::NoScope { name: "c".to_owned(), scopes };
    assert_eq!(feed.analyzer.answer().err(), Some(none));
}

#[test]
fn a_buffer_that_ends_does_not_end_a_run() {
    let mut feed =
        Feed::ours(Query::new(Rule::Grown, vec![Position::Event(0)]).in_each("a").analyzer());
    announce(&mut feed);
    for address in [16, 32] {
        // A buffer begins and ends outside any scope.
        feed.enter(2, 101);
        feed.alloc(2, address, 1);
        feed.leave(2);
    }
    feed.free(2, 16);
    feed.alloc(2, 48, 1);
    feed.free(2, 32);
    feed.analyzer.flush();
    let answer = feed.analyzer.answer().expect("it has the scope");
    let runs = answer.runs.expect("runs");
    assert_eq!((answer.total.blocks, counts(&runs)), (1, (1, 0, 1, (0, 0))));
}
