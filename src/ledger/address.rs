//! The addresses of the settings.

pub(crate) use crate::control::server::ListenAddress;
pub(crate) use crate::trace::sink::tcp::Address;
