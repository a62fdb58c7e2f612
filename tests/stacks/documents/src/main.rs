//! Reads, changes and writes random JSON documents on several threads.

use serde_json::{Map, Value, json};
use stack_sampler::Sampling;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::mpsc;

#[global_allocator]
static ALLOCATOR: Sampling = Sampling::new();

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % end
    }
}

fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 4 } else { 7 }) {
        0 => Value::Null,
        1 => json!(random.below(1 << 20) as f64 / 7.0),
        2 => json!(format!("text {} \u{e9} \"{}\"", random.below(1000), random.below(9))),
        3 => json!(random.below(1000)),
        4 => (0..random.below(8)).map(|_| value(random, depth - 1)).collect(),
        _ => {
            let entry = |random: &mut Random| {
                (format!("key {}", random.below(100)), value(random, depth - 1))
            };
            Value::Object((0..random.below(8)).map(|_| entry(random)).collect::<Map<_, _>>())
        }
    }
}

/// The number of values of each key, however deep.
fn count(document: &Value, counts: &mut BTreeMap<String, usize>) {
    match document {
        Value::Array(items) => items.iter().for_each(|item| count(item, counts)),
        Value::Object(entries) => {
            for (key, value) in entries {
                *counts.entry(key.clone()).or_default() += 1;
                count(value, counts);
            }
        }
        _ => {}
    }
}

fn one_document(random: &mut Random, recent: &mut VecDeque<Value>) -> String {
    let document = value(random, 6);
    let text = if random.below(2) == 0 {
        serde_json::to_string(&document).unwrap()
    } else {
        serde_json::to_string_pretty(&document).unwrap()
    };
    let again: Value = serde_json::from_str(&text).unwrap();
    let mut counts = BTreeMap::new();
    count(&again, &mut counts);
    let mut by_count: HashMap<usize, Vec<String>> = HashMap::new();
    for (key, count) in counts {
        by_count.entry(count).or_default().push(key);
    }
    // Errors are allocated, too.
    let half = text.chars().take(random.below(text.len() + 1)).collect::<String>();
    drop(serde_json::from_str::<Value>(&half).map_err(|error| error.to_string()));
    recent.push_back(again);
    if recent.len() > 8 {
        recent.pop_front();
    }
    format!("{} {:?}", text.len(), by_count)
}

fn main() {
    let (sender, receiver) = mpsc::channel::<String>();
    let threads: Vec<_> = (1..=3_u64)
        .map(|seed| {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut random = Random(seed);
                let mut recent = VecDeque::new();
                while stack_sampler::taken() < stack_sampler::limit() {
                    sender.send(one_document(&mut random, &mut recent)).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let longest = receiver.iter().max_by_key(String::len);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{} bytes in the longest line", longest.unwrap_or_default().len());
}
