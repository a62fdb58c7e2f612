//! Channels that settings and the program turn on and off.

use super::{ASSETS, GAME, NETWORK, Number};
use crate::harness::builder;
use memledger::{Channel, Error, Ledger, log};

pub(super) fn by_setting() {
    let _ledger = Ledger::from_env();
    log!(GAME, Number { Number: 1 });
    log!(NETWORK, Number { Number: unreachable() });
    log!(GAME | NETWORK, Number { Number: unreachable() });
    let refused = ASSETS.set_enabled(false);
    assert!(matches!(refused, Err(Error::ReadOnlyChannel("Assets"))));
    assert!(ASSETS.is_enabled() && ASSETS.is_read_only() && ASSETS.name() == "Assets");
    _ledger.flush();
    NETWORK.set_enabled(true).unwrap();
    log!(GAME | NETWORK, Number { Number: 4 });
    log!(NETWORK, Number { Number: 5 });
    _ledger.flush();
    NETWORK.set_enabled(false).unwrap();
    log!(GAME | NETWORK, Number { Number: unreachable() });
}

pub(super) fn by_name() {
    assert!(Channel::find("Game").is_none(), "the program has not come by it");
    Channel::switch("GameChannel", true).unwrap();
    let ledger = builder().start().unwrap();
    log!(GAME, Number { Number: 1 });
    ledger.flush();
    Channel::find("games").unwrap().set_enabled(false).unwrap();
    log!(GAME, Number { Number: unreachable() });
    ledger.flush();
    Channel::switch("game, network,assets", true).unwrap();
    log!(ASSETS, Number { Number: unreachable() });
    log!(GAME | NETWORK, Number { Number: 2 });
    let refused = Channel::switch("network,assets", false).unwrap_err().to_string();
    assert!(refused.contains("Assets is read-only") && NETWORK.is_enabled(), "{refused}");
    assert!(Channel::switch("network,a b", false).is_err() && NETWORK.is_enabled());
    let names: Vec<_> = Channel::all().map(Channel::name).collect();
    assert!(["Memory", "Scope", "Game", "Network"].iter().all(|name| names.contains(name)));
    // "game", "network" and "assets" are among the 1024 by now.
    (3..1024).for_each(|n| Channel::switch(&format!("unknown{n}"), true).unwrap());
    Channel::switch("unknown7", false).unwrap();
    let refused = Channel::switch("network,unknown", false).unwrap_err().to_string();
    assert!(refused.contains("waits for 1024 others at most") && NETWORK.is_enabled(), "{refused}");
}

pub(super) fn spelling() {
    let _ledger = Ledger::from_env();
    log!(GAME | NETWORK, Number { Number: 1 });
}

fn unreachable() -> u64 {
    panic!("a disabled log site evaluates nothing")
}
