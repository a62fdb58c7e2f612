//! Which clients may connect: those on this machine, and those on other machines with a token.

use crate::{Error, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use subtle::ConstantTimeEq;

/// The rule for both ports.
#[derive(Debug)]
pub struct Access {
    token: Option<String>,
}

impl Access {
    /// The rule for a server that listens on `address`. If other machines can connect, they need a
    /// token.
    ///
    /// # Errors
    /// [`ErrorKind::TokenRequired`] without one.
    pub fn new(address: IpAddr, token: Option<String>) -> Result<Self, Error> {
        match token {
            None if !address.is_loopback() => Err(Error::new(
                ErrorKind::TokenRequired,
                format!(
                    "a server that listens on {address} accepts other machines, which need a token"
                ),
            )),
            token => Ok(Self::with(token)),
        }
    }

    /// Requires this token; without one, only clients of this machine are accepted.
    pub fn with(token: Option<String>) -> Self {
        Self { token }
    }

    /// Whether this peer must send the token.
    pub fn needs_token(peer: SocketAddr) -> bool {
        !peer.ip().to_canonical().is_loopback()
    }

    /// Whether this peer may connect with this token. Runs in constant time, whichever bytes of the
    /// token are correct.
    pub fn allows(&self, peer: SocketAddr, shown: Option<&str>) -> bool {
        if !Self::needs_token(peer) {
            return true;
        }
        match (&self.token, shown) {
            (Some(token), Some(shown)) => token.as_bytes().ct_eq(shown.as_bytes()).into(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "correct-horse-battery";

    #[test]
    fn this_machine_needs_none_and_others_the_right_one() {
        let any: IpAddr = "0.0.0.0".parse().unwrap();
        let with = Access::new(any, Some(TOKEN.to_owned())).unwrap();
        let without = Access::new("127.0.0.1".parse().unwrap(), None).unwrap();
        for local in ["127.0.0.1:9", "127.8.8.8:9", "[::1]:9", "[::ffff:127.0.0.1]:9"] {
            let local = local.parse().unwrap();
            assert!(with.allows(local, None) && without.allows(local, Some("wrong")));
        }
        for other in ["192.0.2.1:9", "[2001:db8::1]:9", "[::ffff:192.0.2.1]:9"] {
            let other = other.parse().unwrap();
            assert!(with.allows(other, Some(TOKEN)));
            assert!(!with.allows(other, None) && !with.allows(other, Some("")));
            assert!(!with.allows(other, Some(&TOKEN[1..])));
            assert!(!without.allows(other, Some(TOKEN)) && !without.allows(other, None));
        }
    }

    #[test]
    fn other_machines_are_let_in_with_a_token_only() {
        for address in ["0.0.0.0", "192.0.2.1", "::"] {
            let error = Access::new(address.parse().unwrap(), None).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::TokenRequired));
            assert!(error.to_string().contains(address), "{error}");
        }
        assert!(Access::new("::1".parse().unwrap(), None).is_ok());
    }
}
