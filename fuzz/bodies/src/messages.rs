//! The CBOR that a store and its clients exchange.

use memledger_store::{Message, check_token, token_line};

/// Decodes `data`, and checks that the message is the same after it is written and decoded again.
pub fn run(data: &[u8]) {
    match Message::decode(data) {
        Ok(message) => {
            let bytes = message.encode();
            let size = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
            assert_eq!(size, bytes.len() - 4);
            let again = Message::decode(&bytes[4..]).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(again, message);
            assert_eq!(again.encode(), bytes);
            for key in ["$request", "$path", "$token", "$status", "id", "index"] {
                let _ = (message.field(key), message.integer(key), message.text(key));
            }
        }
        Err(error) => {
            let error = error.to_string();
            assert!(!error.is_empty() && !error.contains(char::is_control), "{error:?}");
        }
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let line = token_line(text).ok();
        assert_eq!(line.is_some(), check_token(text).is_ok());
        assert!(line.is_none_or(|line| line.matches('\n').count() == 1));
    }
}

/// Requests and answers.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = vec!["a".to_owned(), "bc".to_owned()];
    let messages = [
        Message::request("v1/status"),
        Message::request("v1/trace/info").with("index", 0_u32).with("$token", "correct-horse"),
        Message::response(200).with("id", -5_i64).with("uri", texts),
        Message::response(404).with("reason", "there is no such trace"),
    ];
    let mut seeds: Vec<_> = messages.iter().map(|message| message.encode().split_off(4)).collect();
    // A map with a known size and unknown contents: bytes, a float, a tag, a map.
    seeds.push(b"\xa4\x61a\x42xy\x61b\xfb\x40\x09\x21\xfb\x54\x44\x2d\x18\x61c\xc1\x01\x61d\xa1\x01\x02".to_vec());
    seeds.push(b"correct-horse-battery".to_vec());
    seeds
}
