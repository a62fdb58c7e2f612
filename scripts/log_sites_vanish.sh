#!/bin/sh
# Without the feature `enable`, event types, channels and log sites are nothing: a program with them
# is the same program as without, byte for byte in code, data and symbols. Their arguments are not
# evaluated, and nothing is warned of, whatever lints the program has.
#
#     scripts/log_sites_vanish.sh
set -eu
cd "$(dirname "$0")/.."

root=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/src"
cat >"$folder/Cargo.toml" <<TOML
[package]
name = "program"
version = "0.0.0"
edition = "2024"
[workspace]
[features]
log = []
enable = ["memledger/enable"]
[dependencies]
memledger = { path = "$root", default-features = false }
[profile.release]
codegen-units = 1
[profile.dev]
debug = false
TOML
# The same code at the same lines, with and without log sites.
cat >"$folder/src/main.rs" <<'RUST'
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
    memledger::events::log!(GAME | NETWORK, Spawned {
        Id: name.parse()?,
        Position: &only_logged,
        Name: &format!("{name} {}", evaluated()),
        Tag: name,
        Where: &raw const number,
        Kind: 1,
    });
    memledger::events::log_scope!(GAME, Moved { Id: evaluated() });
    memledger::events::log_scope!(timed: GAME, Moved { Id: evaluated() }, { Ok(number + 1) }).inspect(|_| {
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
RUST

build() {
    cargo build --quiet --manifest-path "$folder/Cargo.toml" --target-dir "$folder/target" "$@"
}
# Sizes of code and data, and all symbols but for the hashes in their names.
describe() {
    size "$1" | awk 'NR == 2 { print $1, $2, $3 }'
    nm "$1" | awk '{ print $2, $3 }' | sed -E 's/17h[0-9a-f]{16}E//' | sort
}
for profile in dev release; do
    [ "$profile" = dev ] && output=debug || output=$profile
    build --profile "$profile"
    describe "$folder/target/$output/program" >"$folder/without"
    build --profile "$profile" --features log
    "$folder/target/$output/program"
    describe "$folder/target/$output/program" >"$folder/with"
    if [ "$profile" = release ]; then
        diff "$folder/without" "$folder/with" || { echo "log sites leave something behind"; exit 1; }
        echo "release: the same $(head -n 1 "$folder/with") bytes of code, data and zeros, the same symbols"
    else
        echo "dev: no argument is evaluated, no warning"
    fi
done
# The same program logs where it is enabled: with all lints, and without `unsafe` in it.
build --features log,enable
echo "enabled: no warning"
