#![forbid(unsafe_code)]
memledger::events::channel! { QUIET = "Quiet"; }
