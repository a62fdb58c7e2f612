use super::*;
use crate::stacks::capture::refresh_modules;
use crate::stacks::tree::{COMPLETE, tests::frames};

/// The stacks of one thread, compared with those of the `backtrace` crate.
struct Compare {
    memory: NonNull<Memory>,
    taken: usize,
    rng: u64,
}

impl Compare {
    fn new() -> Self {
        refresh_modules().unwrap();
        Self { memory: Memory::map().unwrap(), taken: 0, rng: 1 }
    }

    fn random(&mut self, below: usize) -> usize {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        (self.rng >> 33) as usize % below
    }

    #[inline(never)]
    fn check(&mut self) {
        self.taken += 1;
        // SAFETY: the memory is never unmapped, and only this thread uses it.
        let memory = unsafe { self.memory.as_ref() };
        let (ours, root) = frames(memory.stack_id(&Registers::here(), 1, LIMIT));
        let mut theirs = Vec::new();
        backtrace::trace(|frame| {
            theirs.push(frame.ip().addr() as u64);
            true
        });
        while theirs.last() == Some(&0) {
            theirs.pop();
        }
        let Some(inner) = theirs.len().checked_sub(ours.len()) else {
            panic!("{ours:x?} {root}\n{theirs:x?}");
        };
        assert_eq!(ours, theirs[inner..], "of {theirs:x?}");
        assert!(inner <= 8, "{ours:x?} of {theirs:x?}");
        assert_eq!(root, COMPLETE);
    }
}

const LIMIT: u32 = MAX_FRAMES as u32;

#[inline(never)]
fn straight(compare: &mut Compare, depth: usize) {
    wander(compare, depth);
    if compare.random(3) == 0 {
        wander(compare, depth / 2);
    }
}

#[inline(never)]
fn with_array(compare: &mut Compare, depth: usize) {
    let array = std::hint::black_box([depth; 200]);
    wander(compare, depth);
    std::hint::black_box(array);
}

#[inline(never)]
fn by_pointer(compare: &mut Compare, depth: usize) {
    let call: &mut dyn FnMut(&mut Compare) = &mut |compare| wander(compare, depth);
    std::hint::black_box(call)(compare);
}

/// C code calls back.
#[inline(never)]
fn by_qsort(compare: &mut Compare, depth: usize) {
    thread_local!(static CALL: Cell<(*mut Compare, usize)> = const { Cell::new((std::ptr::null_mut(), 0)) });
    extern "C" fn order(_: *const libc::c_void, _: *const libc::c_void) -> libc::c_int {
        let (compare, depth) = CALL.get();
        // SAFETY: `by_qsort` has it, and does not use it now.
        wander(unsafe { &mut *compare }, depth);
        0
    }
    let before = CALL.replace((compare, depth));
    let mut items = [2_u8, 1];
    // SAFETY: two items of one byte.
    unsafe { libc::qsort(items.as_mut_ptr().cast(), 2, 1, Some(order)) };
    CALL.set(before);
}

/// Two functions with frames of different sizes call one that aligns its stack. In both cases, that
/// one has the same stack pointer, the words of the other case are still in memory, and only `fp`
/// says where the caller's frame is.
#[inline(never)]
fn by_alignment(compare: &mut Compare, depth: usize) {
    #[repr(align(4096))]
    struct Page([u8; 8]);
    #[inline(never)]
    fn aligned(compare: &mut Compare, depth: usize) {
        let page = std::hint::black_box(Page([0; 8]));
        wander(compare, depth);
        std::hint::black_box(&page.0);
    }
    #[inline(never)]
    fn small(compare: &mut Compare, depth: usize) {
        aligned(compare, depth);
        std::hint::black_box(());
    }
    #[inline(never)]
    fn large(compare: &mut Compare, depth: usize) {
        let array = std::hint::black_box([depth; 64]);
        aligned(compare, depth);
        // NOTE: no copy, whose call would overwrite the return address of `aligned`.
        std::hint::black_box(&array);
    }
    // NOTE: one call for both, so not unrolled.
    for round in 0..std::hint::black_box(4) {
        let call = if round % 2 == 0 { large } else { small };
        std::hint::black_box(call)(compare, depth);
    }
}

fn wander(compare: &mut Compare, depth: usize) {
    if depth == 0 || compare.random(8) == 0 {
        return compare.check();
    }
    match compare.random(5) {
        0 => straight(compare, depth - 1),
        1 => with_array(compare, depth - 1),
        2 => by_pointer(compare, depth - 1),
        3 => by_alignment(compare, depth / 2),
        _ => by_qsort(compare, depth - 1),
    }
}

#[test]
fn stacks_are_those_of_the_backtrace_crate() {
    let mut compare = Compare::new();
    while compare.taken < 3_000 {
        let depth = compare.random(40);
        wander(&mut compare, depth);
    }
}

/// Whatever registers and stack the hook meets, a walk ends, and reads only memory that it may read.
#[test]
fn any_registers_end_a_walk() {
    let mut compare = Compare::new();
    let mut addresses = Vec::new();
    backtrace::trace(|frame| {
        addresses.push(frame.ip().addr());
        true
    });
    let here = (&raw const addresses).addr();
    // SAFETY: as in `Compare::check`.
    let memory = unsafe { compare.memory.as_ref() };
    for _ in 0..20_000 {
        let code = addresses[compare.random(addresses.len())];
        let return_address = match compare.random(4) {
            0 => code,
            1 => code.wrapping_add(compare.random(1 << 16)),
            2 => compare.random(1 << 31) << 16,
            _ => here,
        };
        let mut near = || match compare.random(8) {
            0 => compare.random(1 << 31) << compare.random(33),
            1 => here + compare.random(1 << 20),
            _ => here + 8 * compare.random(1 << 9),
        };
        let return_word = Word { address: 0, value: return_address };
        let registers = Registers::new(return_word, near(), near());
        assert_ne!(memory.stack_id(&registers, 1, LIMIT), 0, "{registers:x?}");
    }
}

/// A recursion that is deeper than the limit keeps the innermost frames.
#[test]
fn the_innermost_frames_of_a_deep_recursion_are_kept() {
    #[inline(never)]
    fn descend(memory: &Memory, depth: usize, limit: usize) -> Vec<u32> {
        let mut nodes = match depth {
            0 => Vec::new(),
            _ => descend(memory, depth - 1, limit),
        };
        nodes.push(memory.stack_id(&Registers::here(), 1, limit as u32));
        nodes
    }
    let compare = Compare::new();
    // SAFETY: as in `Compare::check`.
    let memory = unsafe { compare.memory.as_ref() };
    for limit in [1, 2, 20, MAX_FRAMES] {
        // Chains that would lead to shorter stacks below the limit.
        descend(memory, 20, limit);
        let nodes = descend(memory, 600, limit);
        for (i, node) in nodes.iter().enumerate().step_by(7) {
            let (taken, end) = frames(*node);
            assert!(taken.len() <= limit);
            // The first stack is taken in the innermost call.
            if 600 - i > limit {
                assert_eq!((taken.len(), end), (limit, TOO_DEEP), "{i}");
            }
        }
        if limit == MAX_FRAMES {
            assert_eq!(frames(nodes[600]).1, COMPLETE);
        }
    }
}

/// The stack in a signal handler continues with the code that the signal has interrupted.
#[test]
fn a_stack_goes_through_a_signal_handler() {
    thread_local!(static TAKEN: Cell<u32> = const { Cell::new(0) });
    extern "C" fn handler(_: libc::c_int) {
        let memory = Memory::map().unwrap();
        // SAFETY: the memory is never unmapped, and only this thread uses it.
        let node = unsafe { memory.as_ref() }.stack_id(&Registers::here(), 1, LIMIT);
        TAKEN.set(node);
    }
    #[inline(never)]
    fn interrupted() -> usize {
        // SAFETY: the handler only takes a stack and stores a number.
        unsafe { libc::raise(libc::SIGUSR1) };
        std::hint::black_box(1)
    }
    let compare = Compare::new();
    // SAFETY: a valid handler; no other test uses this signal.
    unsafe { libc::signal(libc::SIGUSR1, handler as *const () as libc::sighandler_t) };
    // SAFETY: as in `Compare::check`.
    let here = unsafe { compare.memory.as_ref() }.stack_id(&Registers::here(), 1, LIMIT);
    interrupted();
    let (outer, root) = frames(here);
    let (whole, end) = frames(TAKEN.get());
    assert_eq!((root, end), (COMPLETE, COMPLETE));
    // The handler's return, `raise`, `interrupted`, and this function.
    assert!(whole.len() > outer.len() + 3 && whole.ends_with(&outer), "{whole:x?} {outer:x?}");
}
