//! Events of a program's own: a small simulation that logs what its creatures do.
//!
//! ```text
//! MEMLEDGER_CHANNELS=memory,scope,game MEMLEDGER_TRACE=game.utrace cargo run --example own_events
//! memledger events game.utrace --filter 'Game.*'
//! memledger report game.utrace --at 'bookmark:round 2'
//! ```
//! Without the first variable its channel is off, and all of the log sites cost one load each.

use memledger::events::{channel, event, log, log_scope};
use memledger::{Ledger, TrackingAllocator, bookmark};
use std::thread;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

channel! {
    /// What creatures do.
    GAME = "Game";
    /// Where exactly they are: much more.
    POSITIONS = "GamePositions";
}

event! {
    /// What a kind of creature is called: important, so that a reader that comes late knows it.
    Kind = "Game"."Kind" [Important, NoSync] {
        Name: AnsiString,
        Id: DefinitionId<u8>,
    }
    /// A creature appeared: in one order with what other threads log.
    Spawned = "Game"."Spawned" { Id: u32, Kind: Reference<Kind>, Name: WideString }
    /// Where a creature has been: ordered within its thread only.
    Path = "Game"."Path" [NoSync] { Id: u32, Steps: [f32] }
    /// One round of the game: what is logged and allocated in it lies in its scope.
    Round = "Game"."Round" [NoSync] { Number: u32 }
}

const KINDS: [&str; 3] = ["goblin", "troll", "dragon"];

fn round(player: u32, number: u32) -> Vec<f32> {
    log_scope!(timed: GAME, Round { Number: number });
    let id = player * 1000 + number;
    let kind = (id % KINDS.len() as u32) as u8;
    log!(
        GAME,
        Spawned { Id: id, Kind: kind, Name: &format!("{} №{id}", KINDS[usize::from(kind)]) }
    );
    let steps = (0..100).map(|step| (step * number) as f32 / 10.0).collect::<Vec<_>>();
    // Only if both channels are enabled.
    log!(GAME | POSITIONS, Path { Id: id, Steps: &steps });
    steps
}

fn main() {
    let _ledger = Ledger::from_env();
    for (id, name) in (0..).zip(KINDS) {
        log!(GAME, Kind { Name: name, Id: id });
    }
    for number in 1..=3 {
        let players = [1, 2].map(|player| thread::spawn(move || round(player, number)));
        let steps = players.map(|player| player.join().expect("players do not panic"));
        bookmark!("round {number}");
        drop(steps);
    }
    if !GAME.is_enabled() {
        eprintln!("The channel is off: see the first lines of this example.");
    }
}
