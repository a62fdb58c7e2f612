//! No channel is in the table.

use super::Channel;
use crate::error::Error;
use crate::nothing::{Nothing, does_nothing};

#[derive(Debug)]
pub(super) struct Entry;

impl Entry {
    pub(super) const fn new(_: &str) -> Self {
        Self
    }
}

pub(crate) type Names = Nothing;

#[doc(hidden)]
#[macro_export]
macro_rules! __before_main {
    ($body:expr) => {};
}

impl Channel {
    /// The id of the channel in Unreal's streams, of which there is none.
    #[doc(hidden)]
    pub const fn id(&self) -> u32 {
        0
    }
}

#[inline(always)]
pub(super) fn is_enabled(channel: &'static Channel) -> bool {
    let Entry = channel.entry;
    false
}

pub(super) fn all() -> impl Iterator<Item = &'static Channel> {
    std::iter::empty()
}

does_nothing! {
    pub(super) fn set_enabled(&'static Channel, bool) -> Result<(), Error> = Ok(());
    pub(super) fn find(&str) -> Option<&'static Channel>;
    pub(super) fn switch_named(&str, bool) -> Result<(), Error> = Ok(());
    pub(crate) fn names(&str) -> Result<Names, Error> = Ok(Nothing);
}
