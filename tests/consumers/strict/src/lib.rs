//! The places, under the lints that the strictest programs have.
#![forbid(unsafe_code)]
#![deny(missing_docs, warnings, clippy::pedantic, clippy::nursery)]

use memledger as ml;

include!("../../places.rs");
