#![no_main]
memledger_fuzz::target!(compact_encode);
