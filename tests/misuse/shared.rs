//! ForFuturesUseTheirMethodAllocScopeForThreadsUseScopeContext
fn main() {
    let scope = memledger::ScopeGuard::enter("load");
    std::thread::scope(|threads| {
        threads.spawn(|| drop(&scope));
    });
}
