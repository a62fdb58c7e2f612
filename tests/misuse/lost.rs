//! LedgerBuilder` that must be used
//! ReportTo` that must be used
//! Destination` that must be used
//! Context` that must be used
#![deny(unused_must_use)]
fn main() {
    memledger::Ledger::builder().report_on_exit(memledger::ReportTo::stderr());
    memledger::ReportTo::stderr().verbose(true);
    memledger::Destination::file("run.utrace");
    memledger::ScopeContext::current();
}
