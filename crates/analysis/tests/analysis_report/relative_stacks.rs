//! Stacks that are described by earlier ones, against the same stacks, each by itself.

use memledger_analysis::{Report, StackEnd, StackKind};
use memledger_format::callstacks::{Callstack, Inner, Outer};
use memledger_test_support::feed::{Feed, V::B, V::N};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The end that a trace without a stack's outer frames says.
const LOST: u8 = 6;
const CUT: u8 = 5;

/// How one stack is made of earlier ones.
#[derive(Clone, Debug)]
struct Step {
    /// How far back the stack with its outer frames is, 0 for none.
    back: u32,
    without: u32,
    own: u64,
    /// Whether its frames are those of the last stack with any.
    is_same: bool,
    is_cut: bool,
    /// Whether the trace has lost it.
    is_lost: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (back, rare) = (0_u32..6, || prop::bool::weighted(0.05));
    let one = (back, 0_u32..5, 0_u64..5, any::<bool>(), rare(), rare());
    let one = one.prop_map(|(back, without, own, is_same, is_cut, is_lost)| Step {
        back,
        without,
        own,
        is_same,
        is_cut,
        is_lost,
    });
    prop::collection::vec(one, 0..40)
}

/// The frames of a stack, outermost first; how many of them are its own; how it ends.
type Known = (Vec<u64>, usize, u8);

/// Both traces.
fn feeds(steps: &[Step]) -> [Feed; 2] {
    let mut feeds = [Feed::new(), Feed::new()];
    let mut known = BTreeMap::<u32, Known>::new();
    let mut last = None;
    let mut next_frame = 0x1000;
    for (id, step) in (7..).zip(steps) {
        let other = (step.back > 0).then(|| id - step.back).filter(|other| *other >= 7);
        let outer = match other {
            Some(id) => Outer::Of { id, without: step.without },
            None => Outer::End(step.back as u8 % 5),
        };
        let (mut frames, end) = match (other, outer) {
            (Some(other), _) => match known.get(&other) {
                Some((frames, _, end)) => {
                    let kept = frames.len().saturating_sub(step.without as usize);
                    (frames[..kept].to_vec(), *end)
                }
                None => (Vec::new(), LOST),
            },
            (None, Outer::End(reason)) => (Vec::new(), reason),
            (None, Outer::Of { .. }) => unreachable!(),
        };
        let fresh: Vec<u64> = (0..step.own).map(|at| next_frame + at).collect();
        let inner = match last.filter(|_| step.is_same) {
            _ if step.is_cut => Inner::NotKept,
            Some(other) => Inner::SameAs(other),
            None => Inner::Frames(&fresh),
        };
        let before = frames.len();
        match inner {
            Inner::Frames(fresh) => frames.extend(fresh),
            Inner::SameAs(id) => {
                let (others, own, _) = &known[&id];
                frames.extend(&others[others.len() - own..]);
            }
            Inner::NotKept => {}
        }
        next_frame += step.own;
        if step.is_lost {
            continue;
        }
        feeds[0].callstacks(&[Callstack { id, outer, inner }]);
        let innermost_first: Vec<_> = frames.iter().rev().copied().collect();
        feeds[1].stack(id, &innermost_first);
        for reason in [end, if step.is_cut { CUT } else { 0 }] {
            if reason > 0 {
                feeds[1].emit("Memledger.CallstackEnd", 1, &[N(id.into()), N(reason.into())]);
            }
        }
        let own = frames.len() - before;
        if own > 0 {
            last = Some(id);
        }
        known.insert(id, (frames, own, end));
        for feed in &mut feeds {
            feed.alloc_at(2, 0x10 * u64::from(id), 1 << (id % 20), id);
        }
    }
    feeds
}

/// What the stacks of a report have allocated.
fn rows(report: &Report) -> BTreeMap<(Vec<u64>, StackEnd, bool), (u64, u64)> {
    let mut rows = BTreeMap::<_, (u64, u64)>::new();
    for row in report.by_stack.iter() {
        let frames = row.frames.iter().map(|frame| report.frames[*frame as usize].offset);
        let key = (frames.collect(), row.end, row.kind == StackKind::Known);
        let sums = rows.entry(key).or_default();
        sums.0 += row.figures.allocations;
        sums.1 += row.figures.allocated_bytes;
    }
    rows
}

proptest! {
    #[test]
    fn relative_stacks_are_the_same_stacks(steps in steps()) {
        let [relative, whole] = feeds(&steps).map(|mut feed| feed.report());
        prop_assert_eq!(rows(&relative), rows(&whole));
        let cut = |report: &Report| (report.losses.stacks_cut, report.losses.stacks_cut_bytes);
        prop_assert_eq!(cut(&relative), cut(&whole));
    }
}

/// Stacks that would have twice the frames of the one before.
#[test]
fn a_stack_has_no_more_frames_than_the_tracker_takes() {
    let mut feed = Feed::new();
    let stack = |id, outer, inner| Callstack { id, outer, inner };
    feed.callstacks(&[stack(7, Outer::End(0), Inner::Frames(&[0x1010]))]);
    for id in 8..60 {
        let outer = Outer::Of { id: id - 1, without: 0 };
        feed.callstacks(&[stack(id, outer, Inner::SameAs(id - 1))]);
        feed.alloc_at(2, 0x10 * u64::from(id), 1, id);
    }
    let frames = vec![0x1010; 300];
    feed.callstacks(&[stack(60, Outer::End(0), Inner::Frames(&frames))]);
    let outer = Outer::Of { id: 60, without: u32::MAX };
    feed.callstacks(&[stack(61, outer, Inner::Frames(&[0x1020]))]);
    feed.alloc_at(2, 0x8000, 1, 60);
    feed.alloc_at(2, 0x9000, 1, 61);
    let report = feed.report();
    let lengths: Vec<_> = report.by_stack.iter().map(|row| row.frames.len()).collect();
    assert_eq!(lengths.iter().max(), Some(&255), "{lengths:?}");
    assert!(lengths.contains(&1), "{lengths:?}");
}

/// Code of a JIT compiler has another number for the tracker after a library was loaded.
#[test]
fn a_stack_in_no_file_is_one_row_when_a_library_is_loaded() {
    let mut feed = Feed::new();
    let of_jit =
        |id| Callstack { id, outer: Outer::End(0), inner: Inner::Frames(&[0x7000, 0x7010]) };
    feed.callstacks(&[of_jit(7)]);
    feed.alloc_at(2, 0x10, 5, 7);
    feed.module("/lib/late.so", 0x1000, 0x100);
    feed.callstacks(&[of_jit(8)]);
    feed.alloc_at(2, 0x20, 6, 8);
    let report = feed.report();
    assert_eq!(report.by_stack.len(), 1);
}

#[test]
fn a_stack_whose_outer_frames_are_lost_says_so() {
    let mut feed = Feed::new();
    let stack = |id, outer, inner| Callstack { id, outer, inner };
    let (of, frames) = (|id| Outer::Of { id, without: 0 }, [0x1010, 0x1020]);
    feed.callstacks(&[stack(9, of(8), Inner::Frames(&frames))]);
    // The same stack again, for another number: the two are one row.
    feed.callstacks(&[stack(10, of(8), Inner::SameAs(9))]);
    // Nothing is known of this one.
    feed.callstacks(&[stack(11, Outer::End(0), Inner::SameAs(8))]);
    for id in 9..12 {
        feed.alloc_at(2, 0x10 * u64::from(id), 1 << id, id);
    }
    let report = feed.report();
    let ends: Vec<_> = report.by_stack.iter().map(|row| (row.kind, row.end)).collect();
    let known = (StackKind::Known, StackEnd::Lost);
    assert_eq!(ends, [(StackKind::Unknown, StackEnd::Complete), known]);
    let mut feed = Feed::new();
    feed.emit("Memledger.Callstacks", 1, &[N(7), B(&[0, 0, 4, 2])]);
    let problem = "a Memledger.Callstacks cannot be read whole; the rest of its stacks is missing";
    assert_eq!(feed.analyzer.problems(), [problem]);
}
