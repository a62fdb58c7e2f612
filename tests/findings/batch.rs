// A batch that collects all entries, and then makes a clean copy of each while all are still there.
use std::thread;
use std::time::Duration;

#[inline(never)]
fn read_entries() -> Vec<String> {
    (0..200_000).map(|number| format!("  Entry {number:07} of the Input, as it was Read  ")).collect()
}

#[inline(never)]
fn clean(entries: &[String]) -> Vec<String> {
    entries.iter().map(|entry| entry.to_lowercase()).collect() // found here
}

#[inline(never)]
fn count(entries: &[String]) -> usize {
    entries.iter().filter(|entry| entry.trim().ends_with("read")).count()
}

fn main() {
    let entries = read_entries();
    thread::sleep(Duration::from_millis(300));
    let cleaned = clean(&entries);
    println!("{} of {}", count(&cleaned), entries.len());
}
