//! The black box: who holds the memory, written at a limit and where the allocator has none.
#![expect(unsafe_code, reason = "calls the allocator and the system directly")]

use crate::allocator::trackers_fail_after;
use crate::files::check_told;
use crate::harness::{Case, Outcome, REPORT, builder, case, churn, end_at_once, leave};
use memledger::{Ledger, LedgerBuilder, Stacks, alloc_scope};
use memledger_analysis::{Binaries, Module, Symbolizer};
use std::alloc::{Layout, alloc};
use std::hint::black_box;

pub(crate) const CASES: &[Case] = &[
    case("a limit is told once for each time that it is reached", reached_twice, |run| {
        let outcome = run.run();
        outcome.exited(0).whole();
        let boxes = boxes(&outcome);
        assert_eq!(boxes.len(), 2, "{}", outcome.stderr);
        for text in boxes {
            assert!(text.contains("are live: the limit is 48.0 MiB"), "{text}");
            assert!(text.contains("%), 1 block: (whole program) / holds it\n"), "{text}");
            assert!(
                text.contains("  by thread\n") && text.contains("blocks: main (thread "),
                "{text}"
            );
            assert!(!text.contains("  by stack"), "{text}");
        }
    }),
    case("a limit that was passed for a moment is told with the figures of then", spike, |run| {
        let outcome = run.run();
        outcome.exited(0).whole();
        let boxes = boxes(&outcome);
        assert_eq!(boxes.len(), 1, "{}", outcome.stderr);
        assert!(boxes[0].contains("were live: the limit is 48.0 MiB. Now, "), "{}", boxes[0]);
        assert!(boxes[0].contains("64.0 MiB ("), "{}", boxes[0]);
        assert!(boxes[0].contains("%), 1 block: (whole program) / for a moment\n"), "{}", boxes[0]);
    }),
    case("the environment can ask for it", plain, |run| {
        let outcome = run.env("MEMLEDGER_BLACK_BOX", "1MiB").env("MEMLEDGER_REPORT", REPORT).run();
        outcome.exited(0);
        let boxes = boxes(&outcome);
        assert_eq!(boxes.len(), 1, "{}", outcome.stderr);
        assert!(boxes[0].contains("the limit is 1.0 MiB"), "{}", boxes[0]);
    }),
    #[cfg(unix)]
    case("a frame of a stack is a file and an offset in it", stacked, |run| {
        let run = run.env("MEMLEDGER_BLACK_BOX", "1MiB").env("MEMLEDGER_REPORT", REPORT);
        let outcome = run.env("MEMLEDGER_STACKS", "on").run();
        outcome.exited(0);
        let place = format!("{}+0x", std::env::current_exe().unwrap().display());
        let frames = largest_stack(&outcome);
        let of_program = frames.iter().filter_map(|frame| frame.strip_prefix(&place));
        let of_program: Vec<_> =
            of_program.map(|rest| rest.split(' ').collect::<Vec<_>>()).collect();
        let offsets = of_program.iter().map(|parts| u64::from_str_radix(parts[0], 16).unwrap());
        let [_, "build", "id", build_id] = of_program[0][..] else { panic!("{}", outcome.stderr) };
        let byte = |at| u8::from_str_radix(&build_id[at..at + 2], 16).unwrap();
        let build_id = (0..build_id.len()).step_by(2).map(byte).collect();
        // The function that allocates and the one that calls it, each in its own code.
        let module = Module::new(place[..place.len() - 3].into(), 0, 0, build_id);
        let mut binaries = Binaries::new(&[]);
        let names = offsets.flat_map(|at| binaries.frames(&module, at));
        let names: Vec<_> = names.map(|frame| frame.function).collect();
        for name in ["process::black_box::stacked::holds_it", "process::black_box::stacked"] {
            assert!(names.iter().any(|found| found == name), "{names:?}\n{}", outcome.stderr);
        }
    }),
    case("a limit that is none is told", plain, |run| {
        let outcome = run.tracked().env("MEMLEDGER_BLACK_BOX", "much").run();
        check_told(&outcome, &["MEMLEDGER_BLACK_BOX", "\"much\"", "such as 2GiB", "no black box"]);
        for value in ["0", "0%", "101%", "-1", "2GB"] {
            let outcome = outcome.again().tracked().env("MEMLEDGER_BLACK_BOX", value).run();
            check_told(&outcome, &["MEMLEDGER_BLACK_BOX", value]);
        }
    }),
    case("a program that ends at a null has written it", null, |run| {
        let outcome = run.run();
        outcome.exited(3);
        check_null(&outcome);
    }),
    case("a null is told though the tracker itself gets no memory", null_without_memory, |run| {
        let outcome = run.run();
        outcome.exited(3);
        check_null(&outcome);
        assert!(largest_stack(&outcome)[0].contains("+0x"), "{}", outcome.stderr);
    }),
    case("many nulls on many threads are told once", many_nulls, |run| {
        let outcome = run.env("MEMLEDGER_BLACK_BOX", "null").env("MEMLEDGER_REPORT", REPORT).run();
        outcome.exited(0);
        assert_eq!(boxes(&outcome).len(), 1, "{}", outcome.stderr);
    }),
];

const HELD: usize = 64 << 20;
/// More than any machine has.
const TOO_MUCH: usize = 1 << 60;

/// The black boxes on stderr, in which nothing else is.
fn boxes(outcome: &Outcome) -> Vec<&str> {
    let mut boxes = outcome.stderr.split("memledger: black box of process ");
    assert_eq!(boxes.next(), Some(""), "{}", outcome.stderr);
    boxes.collect()
}

fn check_null(outcome: &Outcome) {
    let text = outcome.stderr.split("memledger: black box of process ").nth(1).unwrap_or("");
    for part in [
        "the allocator has no memory for 1.0 EiB (1152921504606846976 bytes) on thread ",
        "  by scope\n",
        "%), 1 block: (whole program) / holds it\n",
        "  by thread\n",
    ] {
        assert!(text.contains(part), "{part}: {}", outcome.stderr);
    }
}

/// The frames of the stack that holds most.
fn largest_stack(outcome: &Outcome) -> Vec<&str> {
    let mut lines = outcome.stderr.lines().skip_while(|line| *line != "  by stack").skip(2);
    let frames: Vec<_> = lines.by_ref().map_while(|line| line.strip_prefix("        ")).collect();
    assert!(frames.len() > 1, "{}", outcome.stderr);
    frames
}

fn stacked() {
    #[inline(never)]
    fn holds_it() -> Vec<u8> {
        black_box(Vec::with_capacity(black_box(2 << 20)))
    }
    std::mem::forget(black_box(holds_it()));
    churn(1000);
}

fn limited() -> Ledger {
    builder().black_box_at(memledger::Limit::Bytes(48 << 20)).start().unwrap()
}

#[inline(never)]
fn held() -> Vec<u8> {
    alloc_scope!("holds it", { black_box(Vec::with_capacity(black_box(HELD))) })
}

fn reached_twice() {
    let ledger = limited();
    for _ in 0..2 {
        let held = held();
        ledger.flush();
        // A little less and a little more.
        for _ in 0..10 {
            let more = black_box(Vec::<u8>::with_capacity(black_box(1 << 20)));
            ledger.flush();
            drop(more);
            ledger.flush();
        }
        drop(held);
        ledger.flush();
    }
}

fn spike() {
    let ledger = builder()
        .black_box_at(memledger::Limit::Bytes(48 << 20))
        .worker(memledger::Worker::Manual)
        .start()
        .unwrap();
    alloc_scope!("for a moment", {
        drop(black_box(Vec::<u8>::with_capacity(black_box(HELD))));
    });
    ledger.flush();
}

fn plain() {
    leave(2 << 20);
    churn(1000);
}

fn too_much() {
    let layout = black_box(Layout::from_size_align(TOO_MUCH, 8).unwrap());
    // SAFETY: the size is not 0.
    assert!(black_box(unsafe { alloc(layout) }).is_null());
}

fn null() {
    let _ledger = limited_to_null(builder());
    too_much();
    end_at_once(3);
}

fn limited_to_null(builder: LedgerBuilder) -> Ledger {
    let ledger = builder.black_box_at(memledger::Limit::Bytes(u64::MAX)).start().unwrap();
    std::mem::forget(held());
    ledger.flush();
    ledger
}

fn null_without_memory() {
    let _ledger = limited_to_null(builder().stacks(Stacks::On));
    trackers_fail_after(0, u64::MAX, too_much);
    end_at_once(3);
}

fn many_nulls() {
    // So that the live bytes do not fall by an eighth when a thread ends.
    leave(HELD);
    let threads: Vec<_> =
        (0..8).map(|_| std::thread::spawn(|| (0..1000).for_each(|_| too_much()))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
