//! Channels that settings and the program turn on and off.

use super::{ASSETS, GAME, NETWORK, Number};
use crate::harness::builder;
use memledger::events::{Channel, log};
use memledger::{ErrorKind, Ledger};

pub(super) fn by_setting() {
    let _ledger = Ledger::from_env();
    log!(GAME, Number { Number: 1 });
    log!(NETWORK, Number { Number: unreachable() });
    log!(GAME | NETWORK, Number { Number: unreachable() });
    let refused = ASSETS.set_enabled(false);
    assert!(matches!(&refused, Err(error) if error.kind() == ErrorKind::ReadOnlyChannel));
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
    // No recording has begun, and no log site has run.
    let names: Vec<_> = Channel::all().map(Channel::name).collect();
    for name in ["Memory", "Scope", "FreeScope", "Callstack", "Bookmark", "Game", "Assets"] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    for names in ["assets", "memory", "default", "game,freescope"] {
        let refused = Channel::set_enabled_by_name(names, true).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnlyChannel, "{names}: {refused}");
    }
    Channel::set_enabled_by_name("GameChannel", true).unwrap();
    let ledger = builder().start().unwrap();
    log!(GAME, Number { Number: 1 });
    ledger.flush();
    Channel::find("games").unwrap().set_enabled(false).unwrap();
    log!(GAME, Number { Number: unreachable() });
    ledger.flush();
    Channel::set_enabled_by_name("game, network", true).unwrap();
    log!(ASSETS, Number { Number: unreachable() });
    log!(GAME | NETWORK, Number { Number: 2 });
    let refused = Channel::set_enabled_by_name("network,assets", false).unwrap_err().to_string();
    assert!(refused.contains("Assets is read-only") && NETWORK.is_enabled(), "{refused}");
    assert!(Channel::set_enabled_by_name("network,a b", false).is_err() && NETWORK.is_enabled());
    (0..1024).for_each(|n| Channel::set_enabled_by_name(&format!("unknown{n}"), true).unwrap());
    Channel::set_enabled_by_name("unknown7", false).unwrap();
    let refused = Channel::set_enabled_by_name("network,unknown", false).unwrap_err().to_string();
    assert!(refused.contains("waits for 1024 others at most") && NETWORK.is_enabled(), "{refused}");
}

pub(super) fn spelling() {
    let _ledger = Ledger::from_env();
    log!(GAME | NETWORK, Number { Number: 1 });
}

fn unreachable() -> u64 {
    panic!("a disabled log site evaluates nothing")
}
