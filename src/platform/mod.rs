//! What the tracker needs of the machine it runs on.

pub(crate) mod clock;
pub(crate) mod os;
