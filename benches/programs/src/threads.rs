//! A pipeline: readers split files into words, which the indexer counts and frees. Nearly every
//! block is freed on another thread than the one that allocated it.

use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

/// As many as the machine of `benches/overhead.md` has cores, and always: figures are to compare.
const READERS: usize = 2;
/// Words go over the channel in parts of this many.
const PART: usize = 1_000;
/// Parts that may wait, so that readers and indexer run at the same time.
const WAITING: usize = 64;

pub(super) fn run(list: &Path) -> Result<u64, Box<dyn Error>> {
    let files = super::listed(list)?;
    let next = AtomicUsize::new(0);
    let (sender, receiver) = sync_channel::<Vec<String>>(WAITING);
    let mut index = HashMap::<String, u64>::new();
    std::thread::scope(|scope| {
        let readers = (0..READERS)
            .map(|_| {
                let sender = sender.clone();
                scope.spawn(|| read(&files, &next, sender))
            })
            .collect::<Vec<_>>();
        drop(sender);
        for words in receiver {
            for word in words {
                match index.get_mut(&word) {
                    Some(count) => *count += 1,
                    None => drop(index.insert(word, 1)),
                }
            }
        }
        for reader in readers {
            reader.join().map_err(|_| "a reader panicked")??;
        }
        // The same whatever the order the words came in.
        Ok(index.iter().map(|(word, count)| word.len() as u64 * count).sum())
    })
}

fn read(
    files: &[PathBuf],
    next: &AtomicUsize,
    sender: SyncSender<Vec<String>>,
) -> std::io::Result<()> {
    let mut part = Vec::with_capacity(PART);
    while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
        let text = std::fs::read_to_string(file)?;
        let words = text.split(|char: char| !char.is_alphanumeric() && char != '_');
        for word in words.filter(|word| !word.is_empty()) {
            part.push(word.to_owned());
            if part.len() == PART {
                let full = std::mem::replace(&mut part, Vec::with_capacity(PART));
                // The indexer takes everything; if it panicked, so does the program.
                sender.send(full).map_err(std::io::Error::other)?;
            }
        }
    }
    sender.send(part).map_err(std::io::Error::other)
}
