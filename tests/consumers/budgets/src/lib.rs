//! A library that does not know memledger; only its tests do.

/// The words of a text, in capitals.
pub fn capitals(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_uppercase).collect()
}

/// The lengths of the parts of a text, found on a thread for each.
pub fn lengths(parts: &[&str]) -> Vec<usize> {
    std::thread::scope(|threads| {
        let all: Vec<_> = parts.iter().map(|part| threads.spawn(|| capitals(part).len())).collect();
        all.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    })
}
