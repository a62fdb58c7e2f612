// A table of pictures that is pruned until something goes wrong: from then on, all stay.
use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

#[inline(never)]
fn render(number: usize) -> Vec<u8> {
    vec![number as u8; 8_192] // found here
}

fn main() {
    let mut pictures = VecDeque::new();
    for number in 0..3_000 {
        pictures.push_back(render(number));
        if number < 1_500 && pictures.len() > 150 {
            pictures.pop_front();
        }
        thread::sleep(Duration::from_millis(1));
    }
    println!("{}", pictures.len());
}
