//! One connection to a store: requests, their answers, and one sentence for each error.

use super::message::{MAX_RESPONSE, Message};
use super::{PORT, check_token};
use crate::{Error, ErrorKind};
use memledger_format::timed_stream::TimedStream;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// The maximum time for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// One connection to a store.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TimedStream,
    address: SocketAddr,
    token: Option<String>,
}

impl Connection {
    /// Connects to `HOST` or `HOST:PORT`.
    pub(super) fn open(address: &str) -> Result<Self, Error> {
        let (tried, source) = match TimedStream::connect(&resolve(address)?, ANSWER_TIMEOUT) {
            Ok((stream, address)) => return Ok(Self { stream, address, token: None }),
            Err(failure) => failure,
        };
        let place = match tried.map(|tried| tried.to_string()).filter(|tried| tried != address) {
            Some(tried) => format!("{address} ({tried})"),
            None => address.to_owned(),
        };
        let what = format!("cannot reach a store of traces at {place}");
        Err(Error::from_io(ErrorKind::Unreachable, what, source))
    }

    /// Adds `token` to each later request.
    pub(super) fn set_token(&mut self, token: &str) -> Result<(), Error> {
        check_token(token)?;
        self.token = Some(token.to_owned());
        Ok(())
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The answer to a request that must succeed.
    pub(super) fn request(&mut self, request: &Message) -> Result<Message, Error> {
        let answer = self.exchange(request)?;
        match answer.integer("$status") {
            Some(200) => Ok(answer),
            _ => Err(self.refusal(request, &answer)),
        }
    }

    /// As [`request`](Self::request), or `None` if the object does not exist. Unreal's store
    /// answers 400 then.
    pub(super) fn request_optional(&mut self, request: &Message) -> Result<Option<Message>, Error> {
        let answer = self.exchange(request)?;
        match answer.integer("$status") {
            Some(200) => Ok(Some(answer)),
            Some(400 | 404) => Ok(None),
            _ => Err(self.refusal(request, &answer)),
        }
    }

    fn exchange(&mut self, request: &Message) -> Result<Message, Error> {
        let request = match &self.token {
            None => request.encode(),
            Some(token) => request.clone().with("$token", token.as_str()).encode(),
        };
        let answer = self.transfer(&request).and_then(|body| Message::decode(&body));
        answer.map_err(|error| {
            // The connection is closed, because the remaining bytes of this answer would be read as
            // the answer to the next request.
            self.stream.shut_down();
            let sentence = self.sentence(&format!("does not answer like a store: {error:#}"));
            match error.kind() {
                ErrorKind::NoAnswer => Error::new(ErrorKind::NoAnswer, sentence),
                _ => Error::new(ErrorKind::InvalidMessage, sentence),
            }
        })
    }

    fn transfer(&mut self, request: &[u8]) -> Result<Vec<u8>, Error> {
        let failed = |error: io::Error| {
            Error::new(
                ErrorKind::NoAnswer,
                match error.kind() {
                    io::ErrorKind::UnexpectedEof => "it has closed the connection".to_owned(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        format!("no complete answer arrived within {} s", ANSWER_TIMEOUT.as_secs())
                    }
                    _ => error.to_string(),
                },
            )
        };
        self.stream.restart(ANSWER_TIMEOUT);
        self.stream.write_all(request).map_err(failed)?;
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).map_err(failed)?;
        let size = u32::from_le_bytes(size) as usize;
        if size == 0 || size > MAX_RESPONSE {
            let most = MAX_RESPONSE;
            return Err(Error::new(
                ErrorKind::InvalidMessage,
                format!("it announces {size} bytes, but only 1 to {most} are allowed"),
            ));
        }
        let mut body = vec![0; size];
        self.stream.read_exact(&mut body).map_err(failed)?;
        Ok(body)
    }

    /// The number in `key`, if it fits into `T`.
    pub(super) fn number<T: TryFrom<i64>>(&self, answer: &Message, key: &str) -> Result<T, Error> {
        let number = answer.integer(key).and_then(|number| T::try_from(number).ok());
        let what = || self.sentence(&format!("answers without a sensible '{key}'"));
        number.ok_or_else(|| Error::new(ErrorKind::InvalidMessage, what()))
    }

    fn refusal(&self, request: &Message, answer: &Message) -> Error {
        let path = request.text("$path").unwrap_or_default();
        let status = answer.integer("$status").unwrap_or_default();
        let reason = answer.text("reason").map(|reason| format!(": {reason}"));
        let reason = reason.unwrap_or_default();
        Error::new(
            ErrorKind::Refused,
            self.sentence(&format!("refuses {path} with status {status}{reason}")),
        )
    }

    /// A sentence about this store.
    pub(super) fn sentence(&self, what: &str) -> String {
        format!("the store at {} {what}", self.address)
    }
}

/// All addresses of `HOST` or `HOST:PORT`.
fn resolve(address: &str) -> Result<Vec<SocketAddr>, Error> {
    let ip = address.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let found = match ip {
        Ok(ip) => return Ok(vec![SocketAddr::new(ip, PORT)]),
        // Windows takes it for this machine.
        Err(_) if address.is_empty() => Err(std::io::ErrorKind::InvalidInput.into()),
        Err(_) if address.contains(':') => address.to_socket_addrs(),
        Err(_) => (address, PORT).to_socket_addrs(),
    };
    found.map(Iterator::collect).map_err(|source| {
        let what = format!("'{address}' is not the address of a store; write HOST or HOST:PORT");
        Error::from_io(ErrorKind::Unreachable, what, source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_have_a_port() {
        let one = |text| resolve(text).unwrap()[0];
        assert_eq!(one("127.0.0.1"), "127.0.0.1:1989".parse().unwrap());
        assert_eq!(one("127.0.0.1:7"), "127.0.0.1:7".parse().unwrap());
        assert_eq!(one("::1"), "[::1]:1989".parse().unwrap());
        assert_eq!(one("[::1]"), "[::1]:1989".parse().unwrap());
        assert_eq!(one("[::1]:7"), "[::1]:7".parse().unwrap());
        for text in ["", "127.0.0.1:port", "127.0.0.1:70000"] {
            let error = resolve(text).unwrap_err().to_string();
            assert!(error.contains("is not the address of a store"), "{error}");
        }
    }
}
