#![no_main]
memledger_fuzz::target!(unwind_tables);
