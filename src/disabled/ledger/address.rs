//! Addresses, which nothing uses.

use crate::error::Error;
use crate::nothing::does_nothing;

#[derive(Clone, Debug)]
pub(crate) struct Address;

pub(crate) type ListenAddress = Address;

impl Address {
    does_nothing! { pub(crate) fn parse(&str) -> Result<Self, Error> = Ok(Self); }
}
