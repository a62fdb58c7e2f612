//! ForFuturesUseTheirMethodAllocScopeForThreadsUseScopeContext
fn main() {
    let scope = memledger::ScopeGuard::enter("load");
    std::thread::spawn(move || drop(scope));
}
