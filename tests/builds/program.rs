use allocator as _;
fn main() {
    std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(1_000_003)));
    let panic = std::env::args().len() > 1;
    std::thread::spawn(move || assert!(!panic, "as asked")).join().unwrap();
}
