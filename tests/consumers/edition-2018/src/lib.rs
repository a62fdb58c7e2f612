//! The places in edition 2018.

use memledger as ml;

include!("../../places.rs");
