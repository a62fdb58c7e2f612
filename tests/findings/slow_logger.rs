// Lines of a log wait for a writer that is slower than those who log.
use std::fmt::Write;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

const DETAILS: &str = "a request was answered, and here is what it asked for, which is much: ";

#[inline(never)]
fn log(to: &Sender<String>, number: u32) {
    let mut line = String::with_capacity(900); // found here
    line.push_str(DETAILS);
    write!(line, "{number}").unwrap();
    to.send(line).unwrap();
}

#[inline(never)]
fn flush(lines: Vec<String>) -> usize {
    thread::sleep(Duration::from_millis(10));
    lines.iter().map(String::len).sum()
}

fn main() {
    let (to, lines) = mpsc::channel::<String>();
    let logger = thread::Builder::new().name("logger".to_owned());
    let logger = logger.spawn(move || {
        let mut all = 0;
        while let Ok(first) = lines.recv() {
            all += flush([first].into_iter().chain(lines.try_iter().take(9)).collect());
        }
        all
    });
    for number in 0..3_000 {
        log(&to, number);
        if number % 10 == 0 {
            thread::sleep(Duration::from_millis(3));
        }
    }
    drop(to);
    println!("{}", logger.unwrap().join().unwrap());
}
