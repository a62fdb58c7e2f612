//! One large document, all of it alive at once.

use serde_json::Value;
use std::error::Error;
use std::hint::black_box;
use std::path::Path;

pub(super) fn run(input: &Path) -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read(input)?;
    let document = serde_json::from_slice::<Value>(&text)?;
    let result = look_at(&document);
    drop(document);
    // PERF: glibc joins what is in its fast bins, 0.3 s of work here, when the last block below the top of
    // the heap is freed: whether it does so in this program depends on the first few blocks of the process. A
    // block of this size makes it do so in any.
    black_box(Vec::<u8>::with_capacity(LARGE));
    Ok(result)
}

/// More than glibc's small bins have (`malloc.c`: `MIN_LARGE_SIZE`).
const LARGE: usize = 4096;

/// Values of any kind, and the lengths of texts.
fn look_at(value: &Value) -> u64 {
    1 + match value {
        Value::Array(values) => values.iter().map(look_at).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| name.len() as u64 + look_at(value)).sum()
        }
        Value::String(text) => text.len() as u64,
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
