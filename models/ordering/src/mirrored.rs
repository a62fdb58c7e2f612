//! What this model has written down again must still stand in the tracker like that.

/// The file, and lines of it in this order. Where one changes, look whether the model is right
/// still, then change it here.
const MIRRORED: &[(&str, &str, &[&str])] = &[
    (
        "places.rs",
        include_str!("../../../src/trace/write/places.rs"),
        &[
            "PLACES.world.load(Ordering::Relaxed) ^ stamp;",
            "world & slot.looks.load(Ordering::Relaxed) == 0",
            "&& region(address).load(Ordering::Relaxed) == stamp",
            "let leased = slot.looks.load(Ordering::Relaxed) != EVERYTHING;",
            "order::meet(regions(address, size), before)",
            "order::meet(regions(address, size).chain([&PLACES.world]), before)",
            "slot.stamp.store(stamp, Ordering::Release);",
            "slot.looks.store(LEASED, Ordering::Relaxed);",
        ],
    ),
    (
        "world.rs",
        include_str!("../../../src/trace/worker/world.rs"),
        &[
            "self.pulse();",
            "end_leases();",
            "state::barrier();",
            "registry::slots().map(|slot| bound(slot, self.epoch)).min()",
            "slot.guard.load(Ordering::Acquire) != Guard::IN",
            "slot.looks.load(Ordering::Acquire) == places::EVERYTHING",
            "order::epoch(slot.stamp.load(Ordering::Acquire)).saturating_sub(1).min(epoch)",
        ],
    ),
    (
        "registry.rs",
        include_str!("../../../src/trace/write/registry.rs"),
        &[
            "self.cursor.store(end, Ordering::Release);",
            "let cursor = self.cursor.load(Ordering::Acquire);",
            "NonNull::new(block.next.load(Ordering::Acquire));",
            "(block.committed.load(Ordering::Acquire), next)",
        ],
    ),
    (
        "write/mod.rs",
        include_str!("../../../src/trace/write/mod.rs"),
        &[
            "slot.guard.store(Guard::IN, Ordering::Relaxed);",
            "compiler_fence(Ordering::SeqCst);",
            "slot.guard.store(Guard::OUT, Ordering::Release);",
            "slot.guard.store(Guard::WAITING, Ordering::Release);",
        ],
    ),
];

#[test]
fn what_is_written_down_again_stands_there_still() {
    for (file, mut rest, lines) in MIRRORED.iter().copied() {
        for line in lines {
            let Some((_, after)) = rest.split_once(line) else {
                panic!("{file}: `{line}` is gone, or comes earlier: is the model right still?");
            };
            rest = after;
        }
    }
}
