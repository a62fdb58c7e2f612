//! future cannot be sent between threads safely
memledger::events::channel! { GAME = "Game"; }
memledger::events::event! { Frame = "Game"."Frame" { Number: u64 } }
fn spawn(_task: impl Future + Send + 'static) {}
async fn receive() {}
fn main() {
    spawn(async {
        memledger::events::log_scope!(GAME, Frame { Number: 1 });
        receive().await;
    });
}
