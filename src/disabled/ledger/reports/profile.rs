//! Heap profiles in a build without the feature `pprof`, or without `report`: there are none.

#[cfg(feature = "pprof")]
pub(in crate::ledger) fn profile() -> Result<Vec<u8>, crate::error::Error> {
    Err(crate::ledger::refusal())
}

/// For a client of the control server.
pub(in crate::ledger) fn for_client() -> Result<Vec<u8>, String> {
    let feature = if cfg!(report) { "pprof" } else { "report" };
    Err(format!("the program was built without memledger's feature {feature}"))
}
