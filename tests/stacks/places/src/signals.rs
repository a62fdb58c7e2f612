//! A timer interrupts random code; its handler takes a sample.

use crate::{ALLOCATOR, Random, allocate, calls, has_share};
use stack_sampler::Place;

extern "C" fn handler(_: libc::c_int) {
    // One call of `work` can be interrupted more often than that.
    if has_share() {
        return;
    }
    stack_sampler::within(Place::Signal, || nested_in_handler(7));
}

#[inline(never)]
fn nested_in_handler(depth: usize) -> usize {
    if depth == 0 {
        ALLOCATOR.sample();
        return 0;
    }
    std::hint::black_box(nested_in_handler(depth - 1)) + 1
}

fn set_timer(microseconds: i64) {
    let every = libc::timeval { tv_sec: 0, tv_usec: microseconds };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: valid arguments.
    let result =
        unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
    assert_eq!(result, 0);
}

pub(crate) fn start() {
    // SAFETY: the handler has the required form; all arguments are locals.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()), 0);
    }
    stack_sampler::note_trampoline(libc::SIGALRM);
    set_timer(100);
}

pub(crate) fn stop() {
    set_timer(0);
}

/// Is interrupted: only the samples of the handler are in this place.
pub(crate) fn work(random: &mut Random) {
    stack_sampler::paused(|| {
        for _ in 0..5 {
            let depth = random.below(20);
            calls::wander(random, depth, true);
            // Assembly of the C library, with and without calls.
            let text = vec![b'a'; 3000];
            std::hint::black_box(text.clone() == text);
            allocate(random);
        }
    });
}
