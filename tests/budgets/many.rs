//! Sixty-four budget tests at once, each a hundred times.

use crate::block;
use memledger::{BudgetError, alloc_scope, budget, measure, spawn};
use std::thread::scope;

/// Some work in scopes, on this thread and another, whose figures are known: the number of the test
/// decides over all sizes.
fn work(number: usize) {
    let first = alloc_scope!("first", { block(1000 + number) });
    let mut grown = alloc_scope!("second", { block(10) });
    grown.reserve_exact(2000 + number);
    drop(first);
    alloc_scope!("third", { drop(block(500)) });
}

fn hundred_times(number: usize) {
    let (peak, allocated) = (3000 + 2 * number as u64, 3510 + 2 * number as u64);
    for _ in 0..100 {
        let limits = budget("work").allocations(3).reallocations(1).live_bytes(0);
        limits.peak_bytes(peak).allocated_bytes(allocated).run(|| work(number));
        // One less of anything is too little.
        for limits in [
            budget("work").allocations(2),
            budget("work").reallocations(0),
            budget("work").peak_bytes(peak - 1),
            budget("work").allocated_bytes(allocated - 1),
        ] {
            if number.is_multiple_of(8) {
                let error = limits.try_run(|| work(number)).1.unwrap_err();
                assert!(matches!(error, BudgetError::Over { .. }), "{error}");
            }
        }
    }
}

macro_rules! tests {
    ($($name:ident = $number:literal,)*) => {
        $(
            #[test]
            fn $name() {
                hundred_times($number);
            }
        )*
    };
}

tests! {
    budget_00 = 0, budget_01 = 1, budget_02 = 2, budget_03 = 3, budget_04 = 4, budget_05 = 5,
    budget_06 = 6, budget_07 = 7, budget_08 = 8, budget_09 = 9, budget_10 = 10, budget_11 = 11,
    budget_12 = 12, budget_13 = 13, budget_14 = 14, budget_15 = 15, budget_16 = 16, budget_17 = 17,
    budget_18 = 18, budget_19 = 19, budget_20 = 20, budget_21 = 21, budget_22 = 22, budget_23 = 23,
    budget_24 = 24, budget_25 = 25, budget_26 = 26, budget_27 = 27, budget_28 = 28, budget_29 = 29,
    budget_30 = 30, budget_31 = 31, budget_32 = 32, budget_33 = 33, budget_34 = 34, budget_35 = 35,
    budget_36 = 36, budget_37 = 37, budget_38 = 38, budget_39 = 39, budget_40 = 40, budget_41 = 41,
    budget_42 = 42, budget_43 = 43, budget_44 = 44, budget_45 = 45, budget_46 = 46, budget_47 = 47,
    budget_48 = 48, budget_49 = 49, budget_50 = 50, budget_51 = 51, budget_52 = 52, budget_53 = 53,
    budget_54 = 54, budget_55 = 55, budget_56 = 56, budget_57 = 57, budget_58 = 58, budget_59 = 59,
    budget_60 = 60, budget_61 = 61, budget_62 = 62, budget_63 = 63,
}

#[test]
fn a_leak_in_a_child_thread_fails_the_budget_it_was_made_in_and_no_other() {
    let leaks = |number: usize| {
        budget("with a child").live_bytes(2000).try_run(|| {
            work(number);
            let bytes = if number == 37 { 10_000 } else { 1 };
            spawn(move || std::mem::forget(block(bytes))).join().unwrap();
        })
    };
    scope(|threads| {
        let tests: Vec<_> = (0..64).map(|number| threads.spawn(move || leaks(number))).collect();
        for (number, test) in tests.into_iter().enumerate() {
            assert_eq!(test.join().unwrap().1.is_err(), number == 37, "{number}");
        }
    });
}

#[test]
fn a_measurement_among_many_is_as_exact_as_one_alone() {
    scope(|threads| {
        for number in 0..16 {
            threads.spawn(move || {
                for _ in 0..50 {
                    let measured = measure(|| work(number)).1.unwrap();
                    assert_eq!(measured.peak_bytes, 3000 + 2 * number as u64);
                    assert_eq!(measured.allocated_bytes, 3510 + 2 * number as u64);
                    assert_eq!((measured.allocations, measured.frees), (3, 3));
                }
            });
        }
    });
}
