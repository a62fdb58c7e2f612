//! The cache of the program's important events. Each stream begins with all events in it, including
//! those that were logged before the first recording.
//!
//! Important events are logged rarely, and never from inside the allocator, so the cache can have a
//! lock.

use crate::trace::worker::{self, Importants};
use crate::trace::write::declared::{Logged, NO_WIRE};
use crate::trace::write::{ReentrancyGuard, is_untracked, loss, state};
use memledger_format::arrays::{Aux, PIECE_HEAD, Source, piece_head};
use memledger_format::encode::AUX_TERMINAL;
use memledger_format::lz4;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The maximum number of bytes that all important events take, compressed.
const LIMIT: usize = 16 << 20;

/// The events that are compressed together have at least this many bytes.
const BLOCK: usize = 64 << 10;

pub(crate) struct Cache {
    /// Compressed events, with their number of bytes before.
    blocks: Vec<(usize, Vec<u8>)>,
    /// Bytes of all blocks: compressed, and before.
    packed: usize,
    unpacked: usize,
    /// The bytes of the events after those.
    events: Vec<u8>,
    /// The number of refused events, and the reason for the first one.
    refused: u64,
    why: Option<String>,
}

static CACHE: Mutex<Cache> = Mutex::new(Cache {
    blocks: Vec::new(),
    packed: 0,
    unpacked: 0,
    events: Vec::new(),
    refused: 0,
    why: None,
});

impl Cache {
    /// Compresses the events that are not, if there are enough.
    fn pack(&mut self) {
        if self.events.len() < BLOCK {
            return;
        }
        let mut block = Vec::new();
        if !lz4::Compressor::new().append(&self.events, &mut block) {
            block.clone_from(&self.events);
        }
        block.shrink_to_fit();
        self.packed += block.len();
        self.unpacked += self.events.len();
        self.blocks.push((self.events.len(), block));
        self.events.clear();
    }

    /// Passes the bytes of all events after the first `sent`.
    fn after(&self, sent: usize, mut pass: impl FnMut(&[u8])) {
        let mut start = 0;
        for (bytes, block) in &self.blocks {
            let known = sent.saturating_sub(start).min(*bytes);
            start += bytes;
            if known == *bytes {
                continue;
            }
            let mut events = vec![0; *bytes];
            if *bytes == block.len() {
                events.copy_from_slice(block);
            } else {
                let decoded = lz4::decode(block, &mut events);
                debug_assert_eq!(decoded, Ok(()));
            }
            pass(events.get(known..).unwrap_or_default());
        }
        pass(self.events.get(sent.saturating_sub(start)..).unwrap_or_default());
    }
}

fn cache() -> MutexGuard<'static, Cache> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the lock before a fork; `None` if it does not become free within `patience`.
pub(crate) fn lock_within(patience: Duration) -> Option<MutexGuard<'static, Cache>> {
    worker::lock_within(&CACHE, patience)
}

/// Adds an event. In the child of a fork, the event is lost, because the parent may have held the
/// lock.
pub(super) fn add(logged: &'static Logged, fixed: &[u8], aux: &[Aux<'_>]) {
    if is_untracked() {
        // NOTE: the caller is a signal handler, and the tracker's code that it has interrupted on
        // this thread may hold the lock.
        return loss::event_without_slot();
    }
    if state::is_forked() {
        return;
    }
    let _untracked = ReentrancyGuard::enter();
    let mut cache = cache();
    let room = LIMIT.saturating_sub(cache.packed + cache.events.len());
    // NOTE: not counted as a lost event. Figures of memory do not depend on it, and a problem says so.
    if let Err(why) = append(&mut cache.events, room, logged, fixed, aux) {
        cache.refused += 1;
        cache.why.get_or_insert(why);
    }
    cache.pack();
}

fn append(
    out: &mut Vec<u8>,
    room: usize,
    logged: &'static Logged,
    fixed: &[u8],
    aux: &[Aux<'_>],
) -> Result<(), String> {
    let declared = logged.declared();
    let data = aux.iter().map(|aux| match aux.size() {
        0 => 0,
        size => PIECE_HEAD + size,
    });
    let size = fixed.len() + data.sum::<usize>() + usize::from(declared.layout().has_arrays);
    let refuse = |why| format!("{} with {size} bytes of values, {why}", declared.name());
    let size = u16::try_from(size).map_err(|_| refuse("more than the 65535 that it may have"))?;
    let room = room.saturating_sub(4);
    if usize::from(size) > room {
        return Err(refuse("for which the 16 MiB kept for such events have no room"));
    }
    let wire = match logged.wire() {
        NO_WIRE => logged.register(),
        wire => wire,
    };
    if wire == NO_WIRE {
        return Err(refuse("whose type is one more than the 4096 that a program can have"));
    }
    out.extend((wire >> 1).to_le_bytes());
    out.extend(size.to_le_bytes());
    out.extend(fixed);
    for (index, &aux) in aux.iter().enumerate().filter(|(_, aux)| aux.size() > 0) {
        out.extend(piece_head(index, aux.size(), 0));
        let start = out.len();
        out.resize(start + aux.size(), 0);
        Source::new(aux).fill(&mut out[start..]);
    }
    if declared.layout().has_arrays {
        out.push(AUX_TERMINAL);
    }
    Ok(())
}

/// Forwards the cached bytes after the first `sent`; returns the number of cached bytes.
pub(super) fn announce(sent: usize, importants: &mut Importants) -> usize {
    let cache = cache();
    cache.after(sent, |events| importants.add_encoded(events));
    cache.unpacked + cache.events.len()
}

/// One sentence with the number of events that were refused since the last call, if any were.
pub(crate) fn take_refused() -> Option<String> {
    let mut cache = cache();
    let why = cache.why.take()?;
    let count = std::mem::take(&mut cache.refused);
    Some(format!(
        "{count} important events of the program are not in the trace, the first is {why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::write::declared::{Declared, DeclaredField, Family};
    use memledger_format::schema::{FieldType, IMPORTANT, NO_SYNC};

    static EVENT: Logged = Logged::new(|| &EVENT_TYPE, &[1]);
    static EVENT_TYPE: Declared = Declared::new(
        "Test",
        "Important",
        IMPORTANT | NO_SYNC,
        &[
            DeclaredField { name: "Id", field_type: FieldType::U16, family: Family::Regular },
            DeclaredField {
                name: "Name",
                field_type: FieldType::WideString,
                family: Family::Regular,
            },
        ],
    );

    #[test]
    fn exact_bytes() {
        let mut out = Vec::new();
        append(&mut out, LIMIT, &EVENT, &[7, 0], &[Aux::None, Aux::Widened("é")]).unwrap();
        let uid = (EVENT.wire() >> 1).to_le_bytes();
        let expected = [&uid[..], &[9, 0, 7, 0], &[0x01, 0x41, 0, 0], &[0xe9, 0], &[3]].concat();
        assert_eq!(out, expected);
    }

    #[test]
    fn what_is_too_large_is_refused_with_its_size() {
        let text = "x".repeat(40_000);
        let mut out = Vec::new();
        let why = append(&mut out, LIMIT, &EVENT, &[0; 2], &[Aux::None, Aux::Widened(&text)]);
        assert!(why.unwrap_err().contains("Test.Important with 80007 bytes"));
        let why = append(&mut out, 10, &EVENT, &[0; 2], &[Aux::None, Aux::Widened("abcd")]);
        assert!(why.unwrap_err().contains("16 MiB"));
        assert!(out.is_empty());
        append(&mut out, 13, &EVENT, &[0; 2], &[Aux::None, Aux::Widened("x")]).unwrap();
        assert_eq!(out.len(), 13);
    }
}
