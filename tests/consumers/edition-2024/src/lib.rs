//! The places in edition 2024.

use memledger as ml;

include!("../../places.rs");
