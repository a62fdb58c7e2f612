//! The places, of a dependency that has another name.

include!("../../places.rs");
