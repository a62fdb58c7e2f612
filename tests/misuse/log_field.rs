//! no method named `Nmber`
//! expected `u64`, found `&str`
memledger::events::channel! { GAME = "Game"; }
memledger::events::event! { Frame = "Game"."Frame" { Number: u64 } }
fn main() {
    memledger::events::log!(GAME, Frame { Nmber: 1 });
    memledger::events::log_scope!(GAME, Frame { Number: "1" });
}
