//! Functions whose frames have different forms, in random order.

use crate::{Random, allocate};
use std::cell::Cell;
use std::hint::black_box;

#[inline(never)]
fn straight(random: &mut Random, depth: usize, in_c: bool) {
    wander(random, depth, in_c);
    if random.below(3) == 0 {
        wander(random, depth / 2, in_c);
    }
}

#[inline(never)]
fn with_array(random: &mut Random, depth: usize, in_c: bool) {
    let array = black_box([depth; 200]);
    wander(random, depth, in_c);
    black_box(array);
}

/// A frame that aligns its stack.
#[inline(never)]
fn aligned(random: &mut Random, depth: usize, in_c: bool) {
    #[repr(align(256))]
    struct Aligned([u8; 300]);
    let array = black_box(Aligned([1; 300]));
    wander(random, depth, in_c);
    black_box(array.0);
}

#[inline(never)]
fn by_pointer(random: &mut Random, depth: usize, in_c: bool) {
    let call: &mut dyn FnMut(&mut Random) = &mut |random| wander(random, depth, in_c);
    black_box(call)(random);
}

#[inline(never)]
fn caught(random: &mut Random, depth: usize, in_c: bool) {
    let body = std::panic::AssertUnwindSafe(|| wander(random, depth, in_c));
    std::panic::catch_unwind(body).unwrap();
}

#[inline(never)]
fn by_sort(random: &mut Random, depth: usize, in_c: bool) {
    let mut items = [3, 1, 2, 5];
    let mut is_first = true;
    items.sort_by(|a, b| {
        if std::mem::take(&mut is_first) {
            wander(random, depth, in_c);
        }
        a.cmp(b)
    });
    black_box(items);
}

/// C code calls back.
#[inline(never)]
fn by_qsort(random: &mut Random, depth: usize, in_c: bool) {
    thread_local!(static CALL: Cell<(*mut Random, usize, bool)> =
        const { Cell::new((std::ptr::null_mut(), 0, false)) });
    extern "C" fn order(a: *const libc::c_void, b: *const libc::c_void) -> libc::c_int {
        let (random, depth, in_c) = CALL.replace((std::ptr::null_mut(), 0, false));
        // SAFETY: `by_qsort` has it, and does not use it now.
        if let Some(random) = unsafe { random.as_mut() } {
            wander(random, depth, in_c);
        }
        // SAFETY: items of `by_qsort`.
        unsafe { i32::from(*a.cast::<u8>()) - i32::from(*b.cast::<u8>()) }
    }
    let mut items = [7_u8, 2, 9, 4, 1, 1, 3];
    let before = CALL.replace((random, depth, in_c));
    // SAFETY: items of one byte.
    unsafe { libc::qsort(items.as_mut_ptr().cast(), items.len(), 1, Some(order)) };
    CALL.set(before);
}

/// Calls others, at most `depth` deep, and allocates in the end; through C if `in_c`.
pub(crate) fn wander(random: &mut Random, depth: usize, in_c: bool) {
    if depth == 0 || random.below(12) == 0 {
        return allocate(random);
    }
    let depth = depth - 1;
    match random.below(if in_c { 9 } else { 6 }) {
        0 => straight(random, depth, in_c),
        1 => with_array(random, depth, in_c),
        2 => by_pointer(random, depth, in_c),
        3 => aligned(random, depth, in_c),
        4 => caught(random, depth, in_c),
        5 => by_sort(random, depth, in_c),
        _ => by_qsort(random, depth, in_c),
    }
}
