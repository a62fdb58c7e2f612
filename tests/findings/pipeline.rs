// A pipeline whose last stage is slow: what is decoded waits for it in a channel without a bound.
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

#[inline(never)]
fn decode(number: u32) -> Vec<u8> {
    let mut frame = vec![0_u8; 8_000]; // found here
    frame[0] = number as u8;
    frame
}

#[inline(never)]
fn write(frame: Vec<u8>) -> u64 {
    thread::sleep(Duration::from_micros(1_500));
    frame.iter().map(|&byte| u64::from(byte)).sum()
}

fn main() {
    let (send, frames) = mpsc::channel();
    let decoder = thread::Builder::new().name("decode".to_owned());
    let decoder = decoder.spawn(move || {
        for number in 0..1_500 {
            send.send(decode(number)).unwrap();
            thread::sleep(Duration::from_micros(300));
        }
    });
    let writer = thread::Builder::new().name("write".to_owned());
    let writer = writer.spawn(move || frames.into_iter().map(write).sum::<u64>());
    decoder.unwrap().join().unwrap();
    println!("{}", writer.unwrap().join().unwrap());
}
