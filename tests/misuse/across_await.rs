//! ForFuturesUseTheirMethodAllocScopeForThreadsUseScopeContext
fn spawn(_task: impl Future + Send + 'static) {}
async fn receive() {}
fn main() {
    spawn(async {
        memledger::alloc_scope!("load");
        receive().await;
    });
}
