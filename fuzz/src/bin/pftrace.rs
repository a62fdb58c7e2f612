#![no_main]
memledger_fuzz::target!(pftrace);
