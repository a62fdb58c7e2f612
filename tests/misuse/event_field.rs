//! `String` is not the type of a field of an event
//! `usize` is not the type of a field of an event
//! `str` is not the type of a field of an event
//! `Other` is not the type of a field of an event
//! for text write `WideString` or `AnsiString`, for `usize` `u64`
//! no event can refer to `Frame<'static>`
//! give it a last field of the type `DefinitionId<u32>`
memledger::events::event! { Spawned = "Game"."Spawned" { Name: String, Count: usize, Names: [str] } }
struct Other;
memledger::events::event! { Moved = "Game"."Moved" { To: Other } }
memledger::events::event! { Frame = "Game"."Frame" { Number: u64 } }
memledger::events::event! { Drawn = "Game"."Drawn" { In: Reference<Frame> } }
fn main() {}
