//! Texts and arrays of every kind and length in events of the program.

use super::{GAME, Text, start};
use memledger::events::log;
use std::sync::Arc;

pub(super) fn spellings() {
    let _ledger = start();
    let text = "Ü€𝄞";
    let units: Vec<u16> = text.encode_utf16().collect();
    log!(GAME, Text { Number: 0, Ansi: text, Wide: text });
    log!(GAME, Text { Number: 1, Ansi: &Arc::<str>::from(text), Wide: &String::from(text) });
    log!(GAME, Text { Number: 2, Ansi: &units[..], Wide: &units[..] });
    // Bytes are not cut, and half of a pair is passed on.
    let broken = [0x61, 0xd834, 0x62];
    log!(GAME, Text { Number: 3, Ansi: text.as_bytes(), Wide: &broken[..] });
}

pub(super) const LENGTHS: [usize; 9] = [0, 1, 100, 1000, 2000, 4000, 10_000, 33_000, 100_000];

pub(super) fn ansi_text(size: usize) -> String {
    (0..size).map(|at| char::from(b'a' + (at % 26) as u8)).collect()
}

pub(super) fn wide_text(size: usize) -> String {
    (0..size).map(|at| ['a', 'é', '€', '𝄞'][at % 4]).collect()
}

pub(super) fn texts() {
    let _ledger = start();
    let threads = (0..4_u32).map(|thread| {
        std::thread::spawn(move || {
            for step in 0..3 * LENGTHS.len() {
                let size = LENGTHS[step % LENGTHS.len()];
                let (ansi, wide) = (ansi_text(size), wide_text(size));
                let bytes = (0..size as u64).collect::<Vec<_>>();
                log!(
                    GAME,
                    Text {
                        Number: thread << 16 | step as u32,
                        Ansi: &ansi,
                        Wide: &wide,
                        Bytes: &bytes,
                    }
                );
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}
