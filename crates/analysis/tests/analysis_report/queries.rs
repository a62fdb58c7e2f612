//! Queries over random sequences of operations, against a model that keeps every span of every block,
//! and all live blocks after every event.

use crate::model::{CONTEXTS, STACKS, announce};
use crate::ops::{Op, ops};
use crate::spans::{Block, Model, Owner, Step};
use memledger_analysis::{
    Analyzer, Answer, BlockObserver, Found, Position, Query, QueryObserver, Report, Rule,
    Unanswered,
};
use memledger_export::query::rows;
use memledger_export::text::{By, Options};
use memledger_test_support::feed::{
    Feed,
    V::{N, S},
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Gives the steps to an analyzer, and to a model.
pub fn run<O: BlockObserver>(steps: &[Step], analyzer: Analyzer<O>) -> (Feed<O>, Model) {
    let mut feed = Feed::ours(analyzer);
    let mut model = Model::default();
    announce(&mut feed);
    if steps.first().is_some_and(|step| matches!(step, Step::FreeScopes)) {
        for (id, name) in [(1, "Scope"), (2, "FreeScope")] {
            feed.emit("Trace.ChannelAnnounce", 1, &[N(id), N(1), N(1), S(name)]);
        }
        model.free_scopes = true;
    }
    feed.module("program", 0x1000, 0x100);
    for (id, frames) in (0..).zip(STACKS).skip(1) {
        feed.stack(id, frames);
    }
    for stream in 2..5 {
        feed.thread(stream, 1, "one");
        model.streams.insert(stream, (1, Vec::new(), Vec::new()));
    }
    model.note(feed.events);
    for step in steps {
        let live: Vec<u64> = model.live.keys().copied().collect();
        let pick = |which: usize| live.get(which % live.len().max(1)).copied().unwrap_or(16 * 99);
        let event = feed.events + 1;
        match step {
            Step::Op(op) => apply(op, &mut feed, &mut model, &pick),
            Step::Mark(which) => {
                let address = pick(*which);
                feed.emit("Memory.HeapMarkAlloc", 2, &[N(address), N(0), N(0)]);
                if model.live.contains_key(&address) {
                    model.act(event, 2, false);
                }
                if let Some(block) = model.end(event, address, false) {
                    model.marked.entry(address).or_insert(block);
                }
            }
            Step::Unmark(address) => {
                feed.emit("Memory.HeapUnmarkAlloc", 2, &[N(*address), N(0)]);
                if !model.live.contains_key(address)
                    && let Some(block) = model.marked.remove(address)
                {
                    model.begin(*address, Block { begun: event, id: 0, ..block }, false);
                }
            }
            Step::FreeScopes => {}
            Step::Bookmark(number) => {
                let name = format!("mark {number}");
                feed.bookmark(model.now + 1, (*number).into(), &name);
                // The spec is an event of its own, before it.
                model.note(event);
                model.now += 1;
                if !model.over {
                    model.times.push((feed.events, model.now));
                    model.bookmarks.push((name, feed.events));
                }
            }
        }
        model.note(feed.events);
        model.over |= matches!(step, Step::Op(Op::Report));
    }
    feed.analyzer.flush();
    (feed, model)
}

fn apply<O: BlockObserver>(
    op: &Op,
    feed: &mut Feed<O>,
    model: &mut Model,
    pick: &dyn Fn(usize) -> u64,
) {
    let event = feed.events + 1;
    match *op {
        Op::Alloc { stream, address, size, stack } => {
            feed.alloc_at(stream, address, size, stack);
            model.act(event, stream, true);
            model.alloc(event, stream, address, size, stack);
        }
        Op::Huge { stream, address } => {
            let saturated = (1 << 35) - 1;
            feed.alloc(stream, address, saturated);
            model.act(event, stream, true);
            model.alloc(event, stream, address, saturated, 0);
            model.note(event);
            feed.emit("Memledger.LargeSize", stream, &[N(address), N(1 << 36)]);
            model.live.get_mut(&address).expect("it").owner.size = 1 << 36;
            if let Some(last) = model.begun.last_mut().filter(|_| !model.over) {
                last.corrected = (event + 1, 1 << 36);
            }
        }
        Op::Free { stream, address } => {
            feed.free(stream, address);
            model.act_of_free(event, stream, address, false);
            model.free(event, address, false);
        }
        Op::FreeLive { stream, which } => {
            feed.free(stream, pick(which));
            model.act_of_free(event, stream, pick(which), false);
            model.free(event, pick(which), false);
        }
        Op::ReallocFree { stream, which } => {
            feed.realloc_free(stream, pick(which));
            model.act_of_free(event, stream, pick(which), true);
            let old = model.free(event, pick(which), true);
            if let Some(old) = old.clone() {
                model.halves.insert(event, old);
            }
            let pending = old.map(|block| (event, block));
            let open = &mut model.streams.get_mut(&stream).expect("it").2;
            // More than 16 are not kept.
            if open.len() == 16 {
                open.remove(0);
            }
            open.push(pending);
        }
        Op::ReallocAlloc { stream, address, size, stack, fails } => {
            let pending = model.streams.get_mut(&stream).expect("it").2.pop();
            feed.realloc_alloc_at(stream, address, size, stack);
            let Some((first_half, before)) = pending.clone().flatten() else {
                model.act(event, stream, true);
                model.alloc(event, stream, address, size, stack);
                model.note(event);
                if fails && pending.is_some() {
                    feed.emit("Memledger.ReallocFailed", stream, &[N(address)]);
                }
                return;
            };
            let stack = if stack == 0 { before.owner.stack } else { stack };
            let owner = Owner { size, stack, ..before.owner };
            model.act(event, stream, false);
            model.halves.remove(&first_half);
            let Block { first, id, .. } = before;
            model.begin(address, Block { begun: event, first, id, owner }, true);
            model.note(event);
            if fails {
                feed.emit("Memledger.ReallocFailed", stream, &[N(address)]);
                // The reallocation has neither ended a block nor begun one.
                model.live.get_mut(&address).expect("it").begun = before.begun;
                if !model.over {
                    let begun = model.begun.iter_mut().filter(|begun| begun.event == event);
                    begun.for_each(|begun| begun.undone = event + 1);
                    let ended = model.ended.iter_mut().filter(|end| end.event == first_half);
                    ended.for_each(|end| end.undone = event + 1);
                }
            }
        }
        Op::Enter { stream, context } => {
            feed.enter(stream, CONTEXTS[context].0);
            model.streams.get_mut(&stream).expect("it").1.push(context);
        }
        Op::Leave { stream } => {
            feed.leave(stream);
            model.streams.get_mut(&stream).expect("it").1.pop();
        }
        Op::Retag { stream, which } => {
            feed.emit("Memory.UpdateAlloc", stream, &[N(pick(which)), N(0)]);
            let tag = model.streams[&stream].1.last().copied().unwrap_or(0);
            if let Some(block) = model.live.get_mut(&pick(which)) {
                block.owner.tag = tag;
            }
        }
        Op::Marker { after } => {
            model.now += after;
            feed.marker(model.now);
            if !model.over {
                model.times.push((event, model.now));
            }
        }
        Op::Thread { stream, id } => {
            feed.thread(stream, id, "t");
            if model.streams[&stream].0 != id {
                model.streams.insert(stream, (id, Vec::new(), Vec::new()));
            }
        }
        Op::Report => feed.our_report(model.now),
    }
}

/// The text of a row.
pub type Key = (&'static str, Vec<String>);

fn keys(owner: &Owner) -> Vec<Key> {
    let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let (_, scope, _, _) = CONTEXTS[owner.context];
    let (_, _, group, name) = CONTEXTS[owner.tag];
    let frames = STACKS[owner.stack as usize].iter();
    let frames: Vec<_> = frames.map(|frame| format!("program+{:#x}", frame - 0x1001)).collect();
    let frames = if frames.is_empty() { vec!["(no stack)".to_owned()] } else { frames };
    let class = owner.size.max(16).next_power_of_two().min(1 << 31);
    let mut keys = vec![
        ("scope", texts(scope)),
        ("group", texts(group)),
        ("name", [texts(group), texts(&[name])].concat()),
        ("thread", vec![owner.thread.to_string()]),
        ("size", vec![class.to_string()]),
        ("function", vec![frames[0].clone()]),
        ("stack", frames),
    ];
    keys.extend((1..=scope.len()).map(|n| ("scope and below", texts(&scope[..n]))));
    keys.extend((1..=group.len()).map(|n| ("group and below", texts(&group[..n]))));
    keys
}

/// By row: blocks, bytes, and those that have declined.
pub type Rows = BTreeMap<Key, [u64; 4]>;

pub fn add(rows: &mut Rows, owner: &Owner, declined: usize) {
    let all = ("all", Vec::new());
    for key in keys(owner).into_iter().chain([all]) {
        let row = rows.entry(key).or_default();
        row[2 * declined] += 1;
        row[2 * declined + 1] += owner.size;
    }
}

/// Blocks that were found: how long each lived, whether it has declined, and its size.
type Lifetimes = Vec<(u64, usize, u64)>;

/// What a rule finds, by looking at every span there was.
fn expected(
    model: &Model,
    rule: Rule,
    at: &[(u64, u64)],
    ages: Option<(u64, u64)>,
) -> (Rows, Lifetimes) {
    let is_of_age = |first: u64, at: u64| {
        ages.is_none_or(|(least, below)| (least..below).contains(&(at - first)))
    };
    let (mut rows, mut lifetimes) = (Rows::new(), Lifetimes::new());
    let mut live = |place: usize, begun: &dyn Fn(u64) -> bool| {
        let (event, time) = at[place];
        let blocks = model.after[event as usize].1.iter();
        for block in blocks.filter(|block| begun(block.begun) && is_of_age(block.first, time)) {
            add(&mut rows, &block.owner, 0);
            lifetimes.push((time - block.first, 0, block.owner.size));
        }
    };
    let (a, end) = (at[0].0, model.after.len() as u64 - 1);
    let place = |place: usize| at.get(place).map_or(end, |at| at.0);
    let (b, c, d) = (place(1), place(2), place(3));
    // What is learnt of an event after the last position does not count.
    let last = place(if rule == Rule::AllocatedAfter { 1 } else { rule.times() - 1 });
    let old = |begun: u64| begun <= a;
    let new = |begun: u64| a < begun && begun <= b;
    match rule {
        Rule::AliveAtA => live(0, &|_| true),
        Rule::LongLived => live(1, &old),
        Rule::Grown | Rule::GrownAndDeclined => live(1, &new),
        Rule::Leaked => live(2, &new),
        _ => {}
    }
    let mut freed = |after: u64, until: u64, declined, begun: &dyn Fn(u64) -> bool| {
        for end in &model.ended {
            let goes_on = ages.is_some() && end.by_realloc;
            if after < end.event
                && end.event <= until
                && last < end.undone
                && begun(end.block.begun)
                && !goes_on
                && is_of_age(end.block.first, end.at)
            {
                add(&mut rows, &end.block.owner, declined);
                lifetimes.push((end.at - end.block.first, declined, end.block.owner.size));
            }
        }
    };
    match rule {
        Rule::FreedBefore => freed(0, a, 0, &|_| true),
        Rule::FreedBetween => freed(a, b, 0, &|_| true),
        Rule::ShortLived => freed(a, b, 0, &new),
        Rule::Declined => freed(a, b, 0, &old),
        Rule::GrownAndDeclined => freed(a, b, 1, &old),
        Rule::LimitedLifetime => freed(b, c, 0, &new),
        Rule::DeclinedLongLived => freed(b, c, 0, &old),
        Rule::SpecificLifetime => freed(c, d, 0, &new),
        _ => {}
    }
    if matches!(rule, Rule::AllocatedAfter | Rule::AllocatedBetween) {
        let is_between = |event: u64| a < event && event <= last;
        for begun in model.begun.iter().filter(|begun| is_between(begun.event)) {
            let mut owner = begun.owner.clone();
            if begun.corrected.0 <= last {
                owner.size = begun.corrected.1;
            }
            if last < begun.undone {
                add(&mut rows, &owner, 0);
            }
        }
    }
    (rows, lifetimes)
}

/// The rows by lifetime have what the model has of such lifetimes, and all that was found.
fn check_lifetimes(answer: &Answer, expected: Option<&Lifetimes>) {
    let mut all = Found::default();
    for row in &answer.by_lifetime {
        let mut sums = [0; 4];
        for (_, declined, size) in expected
            .into_iter()
            .flatten()
            .filter(|found| (row.from_ns..row.below_ns).contains(&found.0))
        {
            sums[2 * declined] += 1;
            sums[2 * declined + 1] += size;
        }
        if expected.is_some() {
            assert_eq!(figures(&row.found), sums, "{} to {}", row.from_ns, row.below_ns);
        }
        all.add_found(row.found);
    }
    assert_eq!(all, answer.total);
    assert!(answer.by_lifetime.is_sorted_by(|a, b| a.below_ns <= b.from_ns));
}

fn figures(found: &Found) -> [u64; 4] {
    [found.blocks, found.bytes, found.declined_blocks, found.declined_bytes]
}

/// The rows of an answer under the keys of the model.
pub fn answered(analyzer: &mut Analyzer<QueryObserver>, blocks: usize) -> Result<Rows, Unanswered> {
    let answer = analyzer.answer()?;
    let mut all = Rows::new();
    let mut put = |key: Key, found: &Found| {
        if *found != Found::default() {
            assert_eq!(all.insert(key, figures(found)), None, "a row comes once");
        }
    };
    put(("all", Vec::new()), &answer.total);
    let has_stacks = !rows(&answer, By::Stack, &Options::default()).is_empty();
    for (name, below, by) in [
        ("scope", Some("scope and below"), By::Scope),
        ("group", Some("group and below"), By::Group),
        ("name", None, By::Name),
        ("thread", None, By::Thread),
        ("size", None, By::Size),
        ("stack", None, By::Stack),
        ("function", None, By::Function),
    ] {
        for row in rows(&answer, by, &Options::default()) {
            let path = match (row.id, row.bounds) {
                (Some(id), _) => vec![id.to_string()],
                (_, Some((_, max))) => vec![max.unwrap_or(1 << 31).to_string()],
                _ => row.path.clone(),
            };
            put((name, path.clone()), &row.found);
            if let Some(below) = below {
                put((below, path), &row.inclusive);
            }
        }
    }
    if !has_stacks {
        // The model has a row for what has no stack.
        let total = answer.total;
        put(("stack", vec!["(no stack)".to_owned()]), &total);
        put(("function", vec!["(no stack)".to_owned()]), &total);
    }
    assert_eq!(answer.blocks.len() as u64, (total_of(&answer.total)).min(blocks as u64));
    let sizes: Vec<_> = answer.blocks.iter().map(|found| found.block.bytes).collect();
    assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
    Ok(all)
}

fn total_of(found: &Found) -> u64 {
    found.blocks + found.declined_blocks
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let extra = prop_oneof![
        2 => (0_usize..64).prop_map(Step::Mark),
        2 => (1_u64..24).prop_map(|n| Step::Unmark(n * 16)),
        1 => (0_u8..3).prop_map(Step::Bookmark),
    ];
    let extras = proptest::collection::vec((0_usize..120, extra), 0..12);
    (prop_oneof![ops(0), ops(STACKS.len() as u32 - 1)], extras).prop_map(|(ops, extras)| {
        let mut steps: Vec<_> = ops.into_iter().map(Step::Op).collect();
        for (at, extra) in extras {
            steps.insert(at % (steps.len() + 1), extra);
        }
        steps
    })
}

/// A position of the trace, from two random numbers.
pub fn position(model: &Model, kind: u8, at: u64) -> Position {
    let events = model.after.len() as u64;
    match kind {
        0 => Position::Time(at % (model.now + 20)),
        1 if !model.bookmarks.is_empty() => {
            let (name, _) = &model.bookmarks[at as usize % model.bookmarks.len()];
            Position::Bookmark(name.clone())
        }
        2 => Position::End,
        _ => Position::Event(at % (events + 2)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn every_rule_finds_what_a_model_finds_that_keeps_every_span(
        steps in steps(),
        places in proptest::collection::vec((0_u8..6, any::<u64>()), 4),
        ages in prop::option::weighted(0.3, (0_u64..40, 1_u64..80)),
    ) {
        let (_, model) = run(&steps, Analyzer::new());
        let ages = ages.map(|(least, more)| (least, least + more));
        let mut places: Vec<_> = places.iter().map(|&(kind, at)| {
            let position = position(&model, kind, at);
            (model.events_before(&position), position)
        }).collect();
        // Of positions after the same event, those that have a time may be later than its time, and
        // the end is later than any.
        places.sort_by_key(|(event, position)| (*event, match position {
            Position::Bookmark(_) => (0, 0),
            Position::Event(_) => (1, 0),
            Position::Time(time) => (2, *time),
            _ => (3, 0),
        }));
        for &rule in Rule::ALL {
            let positions: Vec<_> = places.iter().map(|place| place.1.clone()).collect();
            let at: Vec<_> = places[..rule.times()].iter().map(|(event, position)| {
                let is_reached = *event + 1 < model.after.len() as u64;
                (*event, match position {
                    Position::Time(time) if is_reached => *time,
                    _ => model.after[*event as usize].0,
                })
            }).collect();
            let ages = ages.filter(|_| rule.has_ages());
            let mut query = Query::new(rule, positions.clone()).by_size().blocks(3);
            if let Some((least, below)) = ages {
                query = query.ages(least, below);
            }
            let (mut feed, _) = run(&steps, query.analyzer());
            let got = answered(&mut feed.analyzer, 3);
            let expected = expected(&model, rule, &at, ages);
            let (expected, lifetimes) = expected;
            prop_assert_eq!(got, Ok(expected), "{} {:?} {:?}", rule.name(), positions, ages);
            if ages.is_none() {
                let query = Query::new(rule, positions.clone()).by_lifetime();
                let (mut feed, _) = run(&steps, query.analyzer());
                // The model does not have when blocks end that a rule finds by their allocation.
                let known = Some(&lifetimes).filter(|_| rule.has_ages());
                check_lifetimes(&feed.analyzer.answer().expect("in order"), known);
            }
        }
    }

    #[test]
    fn what_is_live_at_a_position_is_the_report_of_it(
        steps in steps(),
        kind in 0_u8..6,
        at in any::<u64>(),
    ) {
        let (_, model) = run(&steps, Analyzer::new());
        let position = position(&model, kind, at);
        let (mut feed, _) = run(&steps, Analyzer::new().until(position.clone()));
        let report: Report = feed.report();
        let (mut feed, _) = run(&steps, Query::new(Rule::AliveAtA, vec![position]).analyzer());
        let answer = feed.analyzer.answer().expect("in order");
        let totals = report.totals;
        prop_assert_eq!((answer.total.blocks, answer.total.bytes), (totals.live_blocks, totals.live_bytes));
        let mut by_scope = BTreeMap::new();
        for row in rows(&answer, By::Scope, &Options::default()) {
            by_scope.insert(row.path, (row.inclusive.blocks, row.inclusive.bytes));
        }
        let live = report.by_scope.iter().filter(|row| row.inclusive.live_blocks > 0);
        let live: BTreeMap<_, _> = live
            .map(|row| (row.path.clone(), (row.inclusive.live_blocks, row.inclusive.live_bytes)))
            .collect();
        prop_assert_eq!(by_scope, live);
    }

    #[test]
    fn the_reports_of_one_pass_are_those_of_a_pass_for_each(
        steps in steps(),
        places in proptest::collection::vec((0_u8..6, any::<u64>()), 1..5),
    ) {
        let (_, model) = run(&steps, Analyzer::new());
        let places: Vec<_> =
            places.iter().map(|&(kind, at)| position(&model, kind, at)).collect();
        let (mut feed, _) = run(&steps, Analyzer::new().reports_at(&places));
        feed.analyzer.flush();
        let reached = feed.analyzer.reached().expect("the bookmarks are set");
        let reports = feed.analyzer.reports();
        prop_assert_eq!(reports.len(), places.len());
        for ((place, reached), report) in places.into_iter().zip(reached).zip(reports) {
            prop_assert_eq!(reached.event, model.events_before(&place), "{:?}", place);
            let (mut feed, _) = run(&steps, Analyzer::new().until(place.clone()));
            let alone = feed.report();
            // What is lost after it is lost, too.
            let figures = |report: &Report| {
                let mut json = Vec::new();
                memledger_export::json::write(report, &mut json).expect("to memory");
                let mut json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
                json["losses"].take();
                json["trace"]["complete"].take();
                json["trace"]["coverage"].take();
                json
            };
            prop_assert_eq!(figures(&report), figures(&alone), "{:?}", place);
        }
    }
}

#[test]
fn positions_that_are_not_in_order_are_said_to_be() {
    let steps = [
        Step::Op(Op::Marker { after: 10 }),
        Step::Bookmark(1),
        Step::Op(Op::Marker { after: 1 }),
        Step::Op(Op::Marker { after: 10 }),
        Step::Bookmark(2),
    ];
    let one = || Position::Bookmark("mark 1".to_owned());
    let two = || Position::Bookmark("mark 2".to_owned());
    let disordered = |position| Some(Unanswered::Disordered { position });
    let cases = [
        (vec![one(), two()], None),
        (vec![one(), one()], None),
        (vec![two(), one()], disordered(1)),
        (vec![Position::Time(5), one(), Position::Time(12)], None),
        (vec![Position::Time(15), one()], disordered(1)),
        (vec![two(), Position::Time(5)], disordered(1)),
        (vec![one(), two(), Position::Event(3)], disordered(2)),
        (vec![Position::End, Position::Time(5)], disordered(1)),
        (vec![Position::End, Position::Time(500)], None),
        (vec![Position::Time(500), Position::Time(400)], disordered(1)),
        (vec![Position::Time(500), two()], disordered(1)),
        (
            vec![Position::Bookmark("mark 3".to_owned())],
            Some(Unanswered::NoBookmark {
                name: "mark 3".to_owned(),
                set: vec!["mark 1".to_owned(), "mark 2".to_owned()],
            }),
        ),
    ];
    for (positions, expected) in cases {
        let query = Query::new(Rule::Leaked, positions.clone());
        let (mut feed, _) = run(&steps, query.analyzer());
        assert_eq!(feed.analyzer.answer().err(), expected, "{positions:?}");
    }
}
