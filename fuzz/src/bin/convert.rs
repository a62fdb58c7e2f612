#![no_main]
memledger_fuzz::target!(convert);
