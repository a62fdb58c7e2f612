//! Files of Perfetto, read for what they are made of: packets, sequences, names, events and losses.
//!
//! | file | what |
//! |---|---|
//! | `wire.rs` | the fields of a message, without a schema |
//! | `schema.rs` | the names of fields |
//! | `framing.rs` | where packets begin and end, also after damage |
//! | `message.rs` | a message as a tree |
//! | `decoder.rs` | what packets mean: times, names, callstacks, tracks |
//! | `events.rs` | `memledger events` of such a file |
//! | `info.rs` | `memledger info` of such a file |

mod decoder;
pub mod events;
mod framing;
pub mod info;
mod message;
mod schema;
#[cfg(test)]
mod tests;
mod wire;

use crate::error::CliError;
use framing::{HEAD, is_perfetto};
use std::io::{self, Cursor, Read};

/// A file: its beginning, which has been read, and the rest.
pub type Source = io::Chain<Cursor<Vec<u8>>, Box<dyn Read>>;

/// Reads the beginning of a file, and says whether it is one of Perfetto's.
pub fn recognise(mut source: Box<dyn Read>) -> Result<(Source, bool), CliError> {
    let mut head = Vec::new();
    (&mut source)
        .take(HEAD as u64)
        .read_to_end(&mut head)
        .map_err(|error| CliError::Failed(format!("cannot read the file: {error}")))?;
    let found = is_perfetto(&head);
    Ok((Cursor::new(head).chain(source), found))
}

/// What is read of a file, for fuzzers: an object of JSON for each packet and each place of damage, and how many bytes were
/// read and skipped.
#[doc(hidden)]
pub fn items(source: impl Read) -> (Vec<serde_json::Value>, u64, u64) {
    let (mut items, mut skipped) = (Vec::new(), 0);
    let mut decoder = decoder::Decoder::default();
    let (read, _) = decoder.read(source, &mut |decoder, item| {
        items.push(match item {
            decoder::Item::Packet(packet) => serde_json::json!({
                "packet": events::json(&packet, decoder),
                "line": events::text(&packet, decoder, true),
            }),
            decoder::Item::Damage { offset, bytes, what } => {
                skipped += bytes;
                serde_json::json!({ "damage": what, "offset": offset, "bytes": bytes })
            }
        });
        true
    });
    (items, read, skipped)
}

/// What a damaged file lacks, in one sentence; `None` if nothing.
fn missing(
    name: &str,
    places: u64,
    bytes: u64,
    packets: u64,
    error: Option<&io::Error>,
) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(error) = error {
        parts.push(format!("reading it failed ({error})"));
    }
    if places > 0 {
        let places = memledger::dump::text::counted(places, "place", "places");
        parts.push(format!("{bytes} bytes in {places} are no packet, or not all of one"));
    }
    if packets > 0 {
        let packets = memledger::dump::text::counted(packets, "packet", "packets");
        parts.push(format!("{packets} can be read only in part"));
    }
    let parts = parts.join(", and ");
    (!parts.is_empty()).then(|| format!("{name} is damaged: {parts}; the result is of the rest"))
}
