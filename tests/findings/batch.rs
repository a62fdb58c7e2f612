// A batch that collects all entries, and makes a clean copy of each while all are there. Then it works with
// the copies only.
use std::thread;
use std::time::Duration;

#[inline(never)]
fn read_entries() -> Vec<String> {
    (0..200_000).map(|number| format!("  Entry {number:07} of the Input, as it was Read  ")).collect() // found here
}

#[inline(never)]
fn clean(entries: &[String]) -> Vec<String> {
    entries.iter().map(|entry| entry.to_lowercase()).collect()
}

#[inline(never)]
fn count(entries: &[String]) -> usize {
    entries.iter().filter(|entry| entry.trim().ends_with("read")).count()
}

fn main() {
    let entries = read_entries();
    thread::sleep(Duration::from_millis(300));
    let cleaned = clean(&entries);
    let all = entries.len();
    drop(entries);
    for _ in 0..20 {
        thread::sleep(Duration::from_millis(50));
        println!("{} of {all}", count(&cleaned));
    }
}
