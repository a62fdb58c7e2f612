#![no_main]
memledger_fuzz::target!(packed_decode);
