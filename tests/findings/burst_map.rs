// A map that had a burst of sessions: they are gone. Nothing is wrong with that; they are the peak.
use std::collections::HashMap;
use std::thread;
use std::time::Duration;

struct Sessions(HashMap<u64, Box<[u8; 300]>>);

impl Sessions {
    #[inline(never)]
    fn open(&mut self, session: u64) {
        self.0.insert(session, payload(session));
    }

    #[inline(never)]
    fn close(&mut self, session: u64) {
        self.0.remove(&session);
    }
}

#[inline(never)]
fn payload(session: u64) -> Box<[u8; 300]> {
    Box::new([session as u8; 300]) // found here
}

fn main() {
    let mut sessions = Sessions(HashMap::new());
    (0..120_000).for_each(|session| sessions.open(session));
    thread::sleep(Duration::from_millis(200));
    (0..120_000).for_each(|session| sessions.close(session));
    for session in 0..2_000 {
        sessions.open(session);
        thread::sleep(Duration::from_micros(300));
        sessions.close(session);
    }
    println!("{}", sessions.0.len());
}
