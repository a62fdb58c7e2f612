#![forbid(unsafe_code)]
#![deny(warnings, unused, unreachable_pub, missing_debug_implementations, rust_2018_idioms)]
//! A program that logs.

#[cfg(feature = "log")]
mod events {
    memledger::events::channel! { pub(crate) GAME = "Game"; pub(crate) NETWORK = "Network" [ReadOnly]; }
    memledger::events::event! {
        /// A creature appeared.
        pub(crate) Spawned = "Game"."Spawned" {
            /// Its number.
            Id: u32, Position: [f32], Name: WideString, Tag: AnsiString, Where: Pointer,
            Kind: Reference<Kind>,
        }
        pub(crate) Kind = "Game"."Kind" [Important, NoSync] { Name: AnsiString, Id: DefinitionId<u8> }
        pub(crate) Moved = "Game"."Moved" [NoSync] { Id: u32 }
    }
}

#[cfg(feature = "log")]
#[inline(never)]
fn work(number: u32, name: &str) -> Result<u32, std::num::ParseIntError> {
    use events::{GAME, Kind, Moved, NETWORK, Spawned};
    let only_logged = [number as f32; 2];
    memledger::events::log!(GAME, Kind { Name: "goblin", Id: 1 });
    memledger::events::log!(
        GAME | NETWORK,
        Spawned {
            Id: name.parse()?,
            Position: &only_logged,
            Name: &format!("{name} {}", evaluated()),
            Tag: name,
            Where: &raw const number,
            Kind: 1,
        }
    );
    memledger::events::log_scope!(GAME, Moved { Id: evaluated() });
    memledger::events::log_scope!(timed: GAME, Moved { Id: evaluated() }, { Ok(number + 1) })
        .inspect(|_| {
            memledger::bookmark!("at {number} and {}", evaluated());
        })
}

#[cfg(feature = "log")]
fn evaluated() -> u32 {
    panic!("an argument was evaluated");
}

// The crate has one static, which says that the program contains it.
#[cfg(not(feature = "log"))]
use memledger as _;

#[cfg(not(feature = "log"))]
#[inline(never)]
fn work(number: u32, _: &str) -> Result<u32, std::num::ParseIntError> {
    Ok(number + 1)
}

fn main() {
    let number = std::env::args().len() as u32;
    let name = std::env::args().next().unwrap_or_default();
    if work(number, &name) != Ok(number + 1) {
        std::process::exit(1);
    }
}
