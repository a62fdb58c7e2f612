//! ForFuturesUseTheirMethodAllocScopeForThreadsUseScopeContext
fn spawn(_task: impl Future + Send + 'static) {}
async fn receive() {}
fn main() {
    let context = memledger::ScopeContext::current();
    spawn(async move {
        let _entered = context.enter();
        receive().await;
    });
}
