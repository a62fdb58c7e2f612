//! Copies of the stacks that were added last, while a watcher shares memory with this process: the watcher announces those that the
//! process could not.
//!
//! Only those since the worker's last cycle are needed, so a new stack takes the place of one that is [`PLACES`] older. If more
//! are added in one cycle, the older ones have no frames in the trace.

use super::{FIRST_STACK, NewStack, frame_of};
use crate::stacks::state::MAX_FRAMES;
use crate::trace::write::state;
use std::array;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

const PLACES: usize = 2048;

/// In the place of a number: a thread is writing there.
const BUSY: u32 = u32::MAX;

/// The stacks. Zeroed memory is valid.
#[repr(C)]
pub(crate) struct SharedStacks {
    /// The number of the stack that is in a place; 0 for none.
    numbers: [AtomicU32; PLACES],
    stacks: [Stack; PLACES],
}

#[repr(C)]
struct Stack {
    end: AtomicU32,
    count: AtomicU32,
    frames: [AtomicU64; MAX_FRAMES as usize],
}

static SHARED: AtomicPtr<SharedStacks> = AtomicPtr::new(ptr::null_mut());

fn shared() -> Option<&'static SharedStacks> {
    // SAFETY: `share` has stored the start of such memory, which is never unmapped.
    unsafe { SHARED.load(Ordering::Acquire).as_ref() }
}

/// From now on, new stacks are copied to `memory`. Those of an earlier recording are forgotten.
///
/// # Safety
/// The memory is zeroed or was here before, is shared, has the bytes and the alignment of [`SharedStacks`], and is never unmapped.
pub(crate) unsafe fn share(memory: NonNull<u8>) {
    SHARED.store(memory.as_ptr().cast(), Ordering::Release);
    for number in shared().iter().flat_map(|shared| &shared.numbers) {
        number.store(0, Ordering::Relaxed);
    }
}

/// *Hook.* Copies a stack that is written. At most one thread writes in a place: another one's stack is left out.
#[cold]
pub(super) fn add(number: u32, node: u32) {
    // NOTE: the child of a fork has other stacks.
    let Some(shared) = shared().filter(|_| state::is_watched()) else { return };
    let place = number as usize % PLACES;
    let (Some(current), Some(stack)) = (shared.numbers.get(place), shared.stacks.get(place)) else {
        return;
    };
    if current.swap(BUSY, Ordering::AcqRel) == BUSY {
        return;
    }
    let (mut at, mut count) = (node, 0);
    for to in &stack.frames {
        let Some((frame, parent)) = frame_of(at) else { break };
        to.store(frame.address(), Ordering::Relaxed);
        (at, count) = (parent, count + 1);
    }
    stack.end.store(at, Ordering::Relaxed);
    stack.count.store(count, Ordering::Relaxed);
    current.store(number, Ordering::Release);
}

/// In a watcher: visits the stacks from the number `first` on that the process has left.
pub(crate) fn visit_left(first: u32, mut visit: impl FnMut(NewStack<'_>)) {
    let Some(shared) = shared() else { return };
    let first = first.max(FIRST_STACK);
    let numbered = shared.numbers.iter().map(|number| number.load(Ordering::Acquire));
    for (number, stack) in numbered.zip(&shared.stacks) {
        if number < first || number == BUSY {
            continue;
        }
        let frames: [u64; MAX_FRAMES as usize] =
            array::from_fn(|place| stack.frames[place].load(Ordering::Relaxed));
        let count = stack.count.load(Ordering::Relaxed) as usize;
        let frames = frames.get(..count).unwrap_or_default();
        visit(NewStack { number, frames, end: stack.end.load(Ordering::Relaxed) });
    }
}
