// A server that keeps an answer for each session for ever, and gives all back when it stops.
use std::collections::HashMap;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

type Sessions = Arc<Mutex<HashMap<u64, Vec<String>>>>;

#[inline(never)]
fn recommendations_for(session: u64) -> Vec<String> {
    let mut all = Vec::with_capacity(8);
    for number in 0..8 {
        all.push(format!("item {number} of session {session}, with a text of some length")); // found here
    }
    all
}

#[inline(never)]
fn parse(request: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(request).into_owned();
    text.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn serve(requests: &Mutex<mpsc::Receiver<Vec<u8>>>, sessions: &Sessions) {
    while let Ok(request) = { requests.lock().unwrap().recv() } {
        let session = parse(&request);
        let answer = recommendations_for(session);
        sessions.lock().unwrap().insert(session, answer);
    }
}

fn main() {
    let sessions = Sessions::default();
    let (send, requests) = mpsc::sync_channel(16);
    let requests = Arc::new(Mutex::new(requests));
    let workers: Vec<_> = (0..2)
        .map(|number| {
            let (requests, sessions) = (requests.clone(), sessions.clone());
            let name = format!("worker-{number}");
            thread::Builder::new().name(name).spawn(move || serve(&requests, &sessions)).unwrap()
        })
        .collect();
    let begun = Instant::now();
    for number in 0..10_000 {
        send.send(format!("GET /session {number}").into_bytes()).unwrap();
        if number % 50 == 0 {
            thread::sleep(Duration::from_millis(10));
        }
    }
    drop(send);
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    eprintln!("{} sessions in {:?}", sessions.lock().unwrap().len(), begun.elapsed());
}
