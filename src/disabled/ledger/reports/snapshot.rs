//! No snapshot is made.

use crate::ledger::Snapshot;
use crate::nothing::does_nothing;

does_nothing! { pub(in crate::ledger) fn snapshot() -> Option<Snapshot>; }
