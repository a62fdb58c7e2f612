//! attempt to use a non-constant value in a constant
//! can't use generic parameters from outer item
memledger::events::channel! { GAME = "Game"; }
memledger::events::event! { Frame = "Game"."Frame" { Number: u64 } }
trait Layer {
    const CHANNEL: &memledger::events::Channel;
}
fn draw<T: Layer>() {
    memledger::events::log!(T::CHANNEL, Frame { Number: 1 });
}
fn main() {
    let channel = &GAME;
    memledger::events::log!(channel, Frame { Number: 1 });
    memledger::events::log_scope!(channel, Frame { Number: 1 });
}
