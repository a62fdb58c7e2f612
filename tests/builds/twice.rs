#[global_allocator]
static ALLOC: memledger::TrackingAllocator = memledger::TrackingAllocator::system();
fn main() {
    let _ledger = memledger::Ledger::from_env();
    memledger::alloc_scope!("of this copy", { marks::allocate() });
}
