//! field `Number` is already declared
memledger::events::channel! { GAME = "Game"; }
memledger::events::event! { Frame = "Game"."Frame" { Number: u64 } }
fn main() {
    memledger::events::log!(GAME, Frame { Number: 1, Number: 2 });
}
