//! A server with a leak, to be watched while it runs: one of its caches grows with each request, and two do
//! not.
//!
//! ```sh
//! MEMLEDGER_CONTROL=1985 MEMLEDGER_REPORT=off cargo run --release --example leaking_server &
//! memledger top 1985              # press m, wait some seconds, and see which row has grown
//! ```
//! It answers requests for a minute, or for as many seconds as its argument says.

use memledger::containers::TaggedVec;
use memledger::{Ledger, TrackingAllocator, alloc_scope, group, tag};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

group! {
    /// What requests need while they are answered.
    pub REQUESTS = "Requests";
    /// What is kept from one request to the next.
    pub CACHES = "Caches";
    /// Pictures of visitors.
    pub PICTURES = "Pictures" in crate::CACHES;
}

/// Answers are kept for the next request of the same user.
struct Worker {
    pictures: VecDeque<TaggedVec<u8>>,
    /// The leak: sessions that have ended stay here.
    sessions: Vec<TaggedVec<u8>>,
    state: u64,
}

impl Worker {
    /// A number from 0 to `end`, the same ones in each run.
    fn random(&mut self, end: u64) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.state >> 33) % end) as usize
    }

    fn answer(&mut self) {
        alloc_scope!("request");
        let bytes = alloc_scope!("parse", {
            let header = vec![b'x'; 200 + self.random(2_000)];
            let fields: Vec<String> = (0..20).map(|field| format!("field {field}")).collect();
            header.len() + fields.len()
        });
        alloc_scope!("render", {
            let mut page = TaggedVec::new(tag!(REQUESTS, "page"));
            page.resize(bytes * 16, 0_u8);
            std::hint::black_box(&page);
        });
        if self.random(4) == 0 {
            alloc_scope!("load picture");
            let mut picture = TaggedVec::new(tag!(PICTURES, "picture"));
            picture.resize(8_000 + self.random(40_000), 0);
            self.pictures.push_back(picture);
            if self.pictures.len() > 100 {
                self.pictures.pop_front();
            }
        }
        alloc_scope!("remember session");
        let mut session = TaggedVec::new(tag!(CACHES, "session"));
        session.resize(100 + self.random(900), 0);
        self.sessions.push(session);
    }
}

fn main() {
    let _ledger = Ledger::from_env();
    let seconds = std::env::args().nth(1).and_then(|seconds| seconds.parse().ok()).unwrap_or(60);
    let end = Instant::now() + Duration::from_secs(seconds);
    let workers = (1..=3_u64).map(|number| {
        let answer_until_end = move || {
            let (pictures, sessions) = (VecDeque::new(), Vec::new());
            let mut worker = Worker { pictures, sessions, state: number };
            while Instant::now() < end {
                worker.answer();
                std::thread::sleep(Duration::from_millis(number));
            }
        };
        let name = format!("worker {number}");
        std::thread::Builder::new().name(name).spawn(answer_until_end)
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.expect("the system has threads").join().expect("a worker does not panic");
    }
}
