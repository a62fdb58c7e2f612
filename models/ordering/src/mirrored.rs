//! What this model has written down again must still stand in the tracker like that.

/// The file, and lines of it in this order. Where one changes, look whether the model is right
/// still, then change it here.
const MIRRORED: &[(&str, &str, &[&str])] = &[
    (
        "places.rs",
        include_str!("../../../src/trace/write/places.rs"),
        &[
            "&*slot.world.load(Ordering::Relaxed)",
            "world.load(Ordering::Relaxed) == stamp",
            "&& region(address).load(Ordering::Relaxed) == stamp",
            "let world = PLACES.world.load(Ordering::Relaxed);",
            "if world & STOP != 0 && !state::goes_on() {",
            "let leased = is_leased(slot);",
            "order::meet(regions(address, size), before)",
            "order::meet(regions(address, size).chain([&*PLACES.world]), before)",
            "slot.stamp.store(stamp, Ordering::Release);",
            "if !leased && is_other(world, stamp) && world & STOP == 0 {",
            "slot.world.store((&raw const slot.stamp).cast_mut(), Ordering::Relaxed);",
            "!ptr::eq(slot.world.load(Ordering::Relaxed), &raw const *PLACES.world)",
            "slot.world.store((&raw const *PLACES.world).cast_mut(), Ordering::Relaxed);",
            "PLACES.world.fetch_or(STOP, Ordering::SeqCst);",
        ],
    ),
    (
        "state.rs",
        include_str!("../../../src/trace/write/state.rs"),
        &[
            "STATE.store(PAUSED, Ordering::SeqCst);",
            "places::stop();",
            "quiesce(patience)",
            "registry::slots().for_each(places::revoke_lease);",
            "barrier();",
            "if slot.guard.load(Ordering::Acquire) == Guard::OUT {",
            "if !places::is_leased(slot) {",
            "places::revoke_lease(slot);",
            "barrier();",
        ],
    ),
    (
        "buffer.rs",
        include_str!("../../../src/trace/write/buffer.rs"),
        &[
            "header.epoch.store(slot.epoch(), Ordering::Relaxed);",
            "link(slot, new);",
            "slot.set_block(Some(new), size, ROOM);",
            "slot.first.store(new.as_ptr(), Ordering::Release)",
            "old.committed.store(slot.cursor(), Ordering::Release);",
            "old.next.store(new.as_ptr(), Ordering::Release);",
        ],
    ),
    (
        "world.rs",
        include_str!("../../../src/trace/worker/world.rs"),
        &[
            "slot.epoch() > self.epoch;",
            "places::is_quiet() && !registry::slots().any(is_behind)",
            "self.pulse();",
            "registry::slots().for_each(places::revoke_lease);",
            "state::barrier();",
            "registry::slots().map(|slot| bound(slot, self.epoch)).min()",
            "slot.guard.load(Ordering::Acquire) != Guard::IN",
            "if outside && !places::is_leased(slot) {",
            "order::epoch(slot.stamp.load(Ordering::Acquire)).saturating_sub(1).min(epoch)",
        ],
    ),
    (
        "registry.rs",
        include_str!("../../../src/trace/write/registry.rs"),
        &[
            "self.epoch.set(self.epoch.get().max(slot.epoch() + 1));",
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
