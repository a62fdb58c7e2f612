#![no_main]
memledger_fuzz::target!(stack_memory);
