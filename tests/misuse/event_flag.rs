//! `Imprtant` is no flag of an event type: the flags are `NoSync` and `Important`
memledger::events::event! { Kind = "Game"."Kind" [Imprtant, NoSync] { Id: u32 } }
fn main() {}
