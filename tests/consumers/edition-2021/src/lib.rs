//! The places in edition 2021.

use memledger as ml;

include!("../../places.rs");
