pub fn allocate() {
    memledger::alloc_scope!("of the other copy", {
        std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(1_000_003)));
    });
}
