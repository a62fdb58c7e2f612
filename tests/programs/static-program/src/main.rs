//! Threads with little stack, a control server, a late trace: `scripts/check_musl.sh` builds it for musl.
use memledger::{Ledger, TrackingAllocator, alloc_scope};
use std::io::{Read, Write};

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

fn main() {
    let ledger = Ledger::from_env();
    let work = || {
        alloc_scope!("work");
        for size in 1..10_000_usize {
            drop(std::hint::black_box(vec![1_u8; size % 1000 + 1]));
        }
        std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(1_000_003)));
        assert!(ledger.snapshot().unwrap().figures().live_bytes > 1_000_003);
    };
    std::thread::scope(|threads| {
        for _ in 0..4 {
            std::thread::Builder::new().stack_size(16 << 10).spawn_scoped(threads, work).unwrap();
        }
    });
    let mut client = std::net::TcpStream::connect(ledger.control_address().unwrap()).unwrap();
    client.write_all(b"Status\n").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("pid "), "{answer}");
    let _ = ledger.trace_to_file("late.memledger").unwrap();
}
