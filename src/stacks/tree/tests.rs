use super::walk::{Walk, end};
use super::*;
use memledger_format::callstacks::{Inner, Outer};
use std::collections::HashMap;

/// The stack of these frames, outermost first, below a root.
pub(in crate::stacks) fn add(root: u32, frames: impl IntoIterator<Item = PackedFrame>) -> u32 {
    let frames: Vec<_> = frames.into_iter().map(|frame| AtomicU64::new(frame.bits())).collect();
    find_or_add(TreePosition::root(root), &frames, 0).number
}

/// The frames of a stack with their marks, innermost first, and its root.
#[cfg_attr(not(elf), allow(dead_code, reason = "tests of capture/remembered.rs use it"))]
pub(in crate::stacks) fn frames(number: u32) -> (Vec<u64>, u32) {
    let place = place_of(number);
    (frames_of(place).map(PackedFrame::marked_address).collect(), root_of(place))
}

#[test]
fn threads_that_add_the_same_stacks_get_the_same_numbers() {
    let frame = PackedFrame::new;
    let of_thread = || {
        let frames = |i: u64| {
            [
                frame(0x10_0000 + i % 7 * 4, 1),
                frame(0x20_0000 + i % 50 * 4, 1),
                frame(0x30_0000 + i * 4, 2),
            ]
        };
        (0..5_000).map(|i| add(COMPLETE, frames(i))).collect::<Vec<_>>()
    };
    let numbers = std::thread::scope(|scope| {
        [(); 4].map(|()| scope.spawn(of_thread)).map(|thread| thread.join().unwrap())
    });
    assert!(numbers.iter().all(|of_thread| *of_thread == numbers[0]));
    let (mut found, mut inner) = (HashMap::new(), HashMap::<u32, Vec<u64>>::new());
    Walk::default().visit_new(end(), |stack| {
        let (mut frames, reason) = match stack.outer {
            Outer::End(reason) => (Vec::new(), reason),
            Outer::Of { id, without } => {
                let (frames, reason): &(Vec<u64>, u8) = &found[&id];
                (frames[..frames.len() - without as usize].to_vec(), *reason)
            }
        };
        let own = match stack.inner {
            Inner::Frames(own) => own.to_vec(),
            Inner::SameAs(id) => inner[&id].clone(),
            Inner::NotKept => Vec::new(),
        };
        frames.extend(&own);
        inner.insert(stack.id, own);
        found.insert(stack.id, (frames, reason));
    });
    for (i, number) in (0..).zip(&numbers[0]) {
        let frames = vec![0x10_0000 + i % 7 * 4, 0x20_0000 + i % 50 * 4, 0x30_0000 + i * 4];
        assert_eq!(found[number], (frames, 0));
    }
}

#[test]
fn a_module_at_the_address_of_another_has_other_stacks() {
    let stack = |module| add(TOO_DEEP, [PackedFrame::new(0x7fff_1234_5678, module)]);
    assert_ne!(stack(1), stack(2));
    assert_eq!(stack(1), stack(1));
}

/// Against a map of stacks: stacks that part anywhere within edges, and that begin anywhere in known ones,
/// with the frames in a sequence and not.
#[test]
fn each_stack_has_one_number_and_its_frames() {
    let mut random = 1_u64;
    let mut below = |most: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % most
    };
    let mut numbers = HashMap::<Vec<u64>, u32>::new();
    let mut stacks = HashMap::<u32, Vec<u64>>::new();
    for _ in 0..20_000 {
        // Some long pieces that are all equal, and some frames that differ.
        let mut frames = Vec::new();
        for _ in 0..below(4) {
            let piece = below(3);
            frames.extend((0..below(20)).map(|at| 0x40_0000 + piece * 400 + at * 4));
            frames.push(0x41_0000 + below(3) * 4);
        }
        let word = |frame: &u64| AtomicU64::new(PackedFrame::new(*frame, 0).bits());
        let words: Vec<_> = frames.iter().map(word).collect();
        let whole = find_or_add(TreePosition::root(UNREADABLE), &words, 0);
        assert_eq!(whole.frames, frames.len());
        assert_eq!(*numbers.entry(frames.clone()).or_insert(whole.number), whole.number);
        assert_eq!(*stacks.entry(whole.number).or_insert(frames.clone()), frames);
        assert!(
            frames_of(place_of(whole.number))
                .map(PackedFrame::marked_address)
                .eq(frames.iter().rev().copied())
        );
        // The same stack from a place further out.
        let further = below(frames.len() as u64 + 1) as usize;
        let from = outwards(whole.place, further);
        let inner = &words[words.len() - further..];
        let sequence = if inner.is_empty() { 0 } else { intern(inner).unwrap() };
        let again = find_or_add(from, inner, if below(2) == 0 { 0 } else { sequence });
        assert_eq!((again.number, again.place), (whole.number, whole.place));
    }
    assert!(numbers.len() > 2_000, "{}", numbers.len());
}

#[test]
fn a_walk_visits_each_stack_once() {
    let mut walk = Walk::default();
    let mut seen = HashMap::<u32, u32>::new();
    for i in 0..100 {
        let number = add(NO_TABLE, [PackedFrame::new(0x50_0000 + i * 4, 0)]);
        walk.visit_new(end(), |stack| *seen.entry(stack.id).or_default() += 1);
        assert!(seen.contains_key(&number));
    }
    assert!(seen.values().all(|times| *times == 1));
    let mut again = HashMap::<u32, u32>::new();
    let mut second = Walk::default();
    for end in [end() / 2, end(), end() + 9] {
        second.visit_those_of(&walk, end, |stack| *again.entry(stack.id).or_default() += 1);
    }
    assert_eq!(again, seen);
}
