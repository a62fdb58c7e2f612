//! Tasks that keep their scopes on whichever thread they are polled: a small server of `tokio`,
//! and what each kind of work in it holds.
//!
//!     cargo run -p memledger-runtime-examples --example async_scopes

use memledger::{AllocScope, Ledger, Tag, TrackingAllocator, alloc_scope, group, tag};
use std::collections::HashMap;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

group! {
    CACHE = "Cache";
}

const RESPONSES: Tag = tag!(CACHE, "responses");

/// One connection: reads requests, answers them, keeps the answers.
async fn serve(connection: usize) -> HashMap<String, Vec<u8>> {
    let mut answers = HashMap::new();
    for number in 0..20 {
        // Scopes of futures nest as the calls do: .. / connection / receive.
        let request = receive(connection, number).alloc_scope("receive").await;
        // A guard in a block without `.await` needs nothing special.
        let words = alloc_scope!("parse", { request.split(' ').count() });
        let answer = answer(words * 1000).alloc_tagged(RESPONSES).await;
        answers.insert(request, answer);
    }
    answers
}

async fn receive(connection: usize, number: usize) -> String {
    tokio::task::yield_now().await;
    format!("GET /connection/{connection}/page/{number} HTTP/1.1")
}

async fn answer(size: usize) -> Vec<u8> {
    let mut answer = Vec::new();
    while answer.len() < size {
        answer.extend([0; 500]);
        tokio::task::yield_now().await;
    }
    answer
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _ledger = Ledger::from_env(); // a report on stderr when it is dropped
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let connections: Vec<_> = alloc_scope!("server", {
        (0..50).map(|number| runtime.spawn(serve(number).alloc_scope("connection"))).collect()
    });
    let mut answers = 0;
    for connection in connections {
        let kept = runtime.block_on(connection)?;
        answers += kept.len();
        // For the report to show.
        std::mem::forget(kept);
    }
    println!("{answers} answers");
    Ok(())
}
