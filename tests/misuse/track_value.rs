//! `TrackValue` is a "sealed trait"
use memledger::perfetto::TrackValue;
#[derive(Clone, Copy)]
struct Mine;
impl TrackValue for Mine {
    const KIND: u8 = 0;
    type After<N> = N;
    fn word(self) -> u64 {
        7
    }
}
fn main() {}
