//! Heap profiles in a build without the feature `pprof`: there are none.

use crate::error::{Error, ErrorKind};

pub(crate) fn make_profile<A>(_: impl FnOnce() -> A) -> Result<Vec<u8>, Error> {
    let why = "the program was built without memledger's feature pprof";
    Err(Error::new(ErrorKind::FeatureOff, why))
}
