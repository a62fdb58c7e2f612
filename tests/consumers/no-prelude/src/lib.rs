//! The places, without any name in scope.
#![no_implicit_prelude]

use ::memledger as ml;

::std::include!("../../places.rs");
