//! Checks that the lines that this model copies are unchanged in the tracker.

/// Files, and lines of each in this order. When one changes, check whether the model is still
/// right, then update the line here.
const MIRRORED: &[(&str, &str, &[&str])] = &[
    (
        "sync.rs",
        include_str!("../../../src/trace/write/sync.rs"),
        &[
            "global_of(slot).load(Ordering::Relaxed) == stamp",
            "&& clocks::region(address).load(Ordering::Relaxed) == stamp",
            "&*slot.global.load(Ordering::Relaxed)",
            "let global = clocks::global().load(Ordering::Relaxed);",
            "if global & STOP != 0 {",
            "if !state::is_recorded(state::RECORD) {",
            "let leased = slot.is_leased();",
            "order::join(clocks::regions(address, size), before)",
            "order::join(clocks::regions(address, size).chain([clocks::global()]), before)",
            "slot.stamp.store(stamp, Ordering::Release);",
            "if !leased && is_other(global, stamp) && global & STOP == 0 {",
        ],
    ),
    (
        "clocks.rs",
        include_str!("../../../src/trace/write/clocks.rs"),
        &["CLOCKS.global.fetch_or(STOP, Ordering::SeqCst);"],
    ),
    (
        "state.rs",
        include_str!("../../../src/trace/write/state.rs"),
        &["PAGE.state.store(PAUSED, Ordering::SeqCst);"],
    ),
    (
        "quiesce.rs",
        include_str!("../../../src/trace/write/quiesce.rs"),
        &[
            "state::set_paused();",
            "clocks::stop();",
            "quiesce(timeout, |guard| guard == Guard::OUT) == 0",
            "registry::slots().for_each(|slot| slot.revoke_lease());",
            "barrier();",
            "if is_outside(slot.guard.load(Ordering::Acquire)) {",
            "if !slot.is_leased() {",
            "slot.revoke_lease();",
            "barrier();",
        ],
    ),
    (
        "buffer_pool.rs",
        include_str!("../../../src/trace/write/buffer_pool.rs"),
        &[
            "new.epoch.store(slot.epoch(), Ordering::Relaxed);",
            "link(slot, new);",
            "slot.set_buffer(Some(new), MAX_HOOK_BYTES);",
            "slot.first.store(Some(new), Ordering::Release)",
            "old.committed.store(slot.cursor(), Ordering::Release);",
            "old.next.store(Some(new), Ordering::Release);",
        ],
    ),
    (
        "watermark.rs",
        include_str!("../../../src/trace/worker/watermark.rs"),
        &[
            "slot.epoch() > self.epoch;",
            "clocks::is_quiet() && !registry::slots().any(is_later)",
            "self.join_global();",
            "registry::slots().for_each(|slot| slot.revoke_lease());",
            "quiesce::barrier();",
            "registry::slots().map(|slot| committed_epoch(slot, self.epoch));",
            "slot.guard.load(Ordering::Acquire) != Guard::IN",
            "if outside && !slot.is_leased() {",
            "order::epoch(slot.stamp.load(Ordering::Acquire)).saturating_sub(1).min(epoch)",
        ],
    ),
    (
        "slot.rs",
        include_str!("../../../src/trace/write/slot.rs"),
        &[
            "self.cursor.store(end, Ordering::Release);",
            "let cursor = self.cursor.load(Ordering::Acquire);",
            "buffer.next.load(Ordering::Acquire);",
            "(buffer.committed.load(Ordering::Acquire), next)",
            "self.global.store((&raw const self.stamp).cast_mut(), Ordering::Relaxed);",
            "!ptr::eq(self.global.load(Ordering::Relaxed), clocks::global())",
            "self.global.store(ptr::from_ref(clocks::global()).cast_mut(), Ordering::Relaxed);",
        ],
    ),
    (
        "registry.rs",
        include_str!("../../../src/trace/write/registry.rs"),
        &["self.epoch.set(self.epoch.get().max(slot.epoch() + 1));"],
    ),
    (
        "enter.rs",
        include_str!("../../../src/trace/write/enter.rs"),
        &[
            "slot.guard.store(Guard::IN, Ordering::Relaxed);",
            "compiler_fence(Ordering::SeqCst);",
            "slot.guard.store(Guard::OUT, Ordering::Release);",
            "slot.guard.store(Guard::WAITING, Ordering::Release);",
        ],
    ),
];

#[test]
fn copied_lines_are_unchanged() {
    for (file, mut rest, lines) in MIRRORED.iter().copied() {
        for line in lines {
            let Some((_, after)) = rest.split_once(line) else {
                panic!(
                    "{file}: `{line}` is gone, or is earlier in the file: is the model still right?"
                );
            };
            rest = after;
        }
    }
}
