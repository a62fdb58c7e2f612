//! What the trackers of the program and of its children report while they run: they send it here, because the
//! program's errors are its own.

use crate::terminal::note;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The most bytes of a sentence; the rest is cut off.
const MAX_BYTES: usize = 16 << 10;
/// The most sentences that are kept; further ones are counted.
const MAX_SENTENCES: usize = 1_000;

/// The sentences, and the socket that they come from.
pub struct Problems {
    name: String,
    socket: UnixDatagram,
    kept: Vec<String>,
    more: usize,
}

impl Problems {
    pub fn new() -> io::Result<Self> {
        // NOTE: no number that another user could foresee and take.
        let number = RandomState::new().hash_one(std::process::id());
        let name = format!("memledger-run-{}-{number:016x}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        socket.set_nonblocking(true)?;
        Ok(Self { name, socket, kept: Vec::new(), more: 0 })
    }

    /// The abstract name of the socket.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn socket(&self) -> &UnixDatagram {
        &self.socket
    }

    /// Takes what has arrived.
    pub fn take(&mut self) {
        let mut bytes = vec![0; MAX_BYTES];
        while let Ok(count) = self.socket.recv(&mut bytes) {
            if self.kept.len() == MAX_SENTENCES {
                self.more += 1;
                continue;
            }
            self.kept.push(String::from_utf8_lossy(&bytes[..count]).into_owned());
        }
    }

    /// Writes them all to stderr.
    pub fn show(mut self) {
        self.take();
        for sentence in &self.kept {
            note(sentence);
        }
        if self.more > 0 {
            note(&format!(
                "{} more problems that the program's tracker reported are not shown",
                self.more
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_a_thousand_are_kept_and_the_others_counted() {
        let mut problems = Problems::new().expect("a socket");
        let address = SocketAddr::from_abstract_name(problems.name()).expect("a name");
        let sender = UnixDatagram::unbound().expect("a socket");
        for number in 0..MAX_SENTENCES + 2 {
            sender.send_to_addr(format!("sentence {number}").as_bytes(), &address).expect("sent");
            problems.take();
        }
        assert_eq!((problems.kept.len(), problems.more), (MAX_SENTENCES, 2));
        assert_eq!(problems.kept[MAX_SENTENCES - 1], "sentence 999");
    }
}
