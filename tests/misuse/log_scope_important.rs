//! an important event cannot begin a scope
memledger::events::channel! { GAME = "Game"; }
memledger::events::event! { Kind = "Game"."Kind" [Important, NoSync] { Id: u32 } }
fn main() {
    memledger::events::log_scope!(GAME, Kind { Id: 1 });
}
