use super::*;
use crate::error::{Error, ErrorKind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// What a sink was called with; a `Packet` waits for a permit first.
#[derive(Debug, PartialEq, Eq)]
enum Call {
    Packet(u16, Vec<u8>),
    Sync,
    Finish,
}

struct Slow {
    calls: Sender<Call>,
    permits: Option<Receiver<()>>,
    fail: bool,
}

impl Sink for Slow {
    fn packet(&mut self, stream: u16, payload: &[u8]) {
        if let Some(permits) = &self.permits {
            let _ = permits.recv();
        }
        let _ = self.calls.send(Call::Packet(stream, payload.to_vec()));
    }

    fn sync(&mut self) -> Result<(), Error> {
        let _ = self.calls.send(Call::Sync);
        if self.fail { Err(Error::new(ErrorKind::Internal, "it broke")) } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), Error> {
        let _ = self.calls.send(Call::Finish);
        Ok(())
    }

    fn written(&self) -> u64 {
        77
    }
}

static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn tell(error: Error) {
    TOLD.lock().unwrap().push(error.to_string());
}

fn told(name: &str) -> Vec<String> {
    TOLD.lock().unwrap().iter().filter(|line| line.starts_with(name)).cloned().collect()
}

fn start(
    name: &str,
    permits: Option<Receiver<()>>,
    fail: bool,
) -> Option<(Queued, Arc<Queue>, Receiver<Call>)> {
    let (calls, seen) = channel();
    let open: OpenSink = Box::new(move |_| Ok(Box::new(Slow { calls, permits, fail })));
    let sink = Queued::start(name.into(), open, tell).unwrap();
    let queue = by_number(sink.number()).unwrap();
    Some((sink, queue, seen))
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[test]
fn everything_arrives_in_order_and_work_in_its_place() {
    let Some((mut sink, queue, seen)) = start("ordered", None, false) else { return };
    sink.packet(5, b"one");
    sink.packet(6, b"");
    sink.sync().unwrap();
    sink.defer(Box::new(|sink| {
        sink.packet(7, b"worked");
        Ok(())
    }));
    sink.sync().unwrap();
    sink.packet(5, b"two");
    sink.finish().unwrap();
    queue.wait_for_end(soon());
    let calls: Vec<_> = seen.iter().collect();
    let packet = |stream, bytes: &[u8]| Call::Packet(stream, bytes.to_vec());
    let expected = [
        packet(5, b"one"),
        packet(6, b""),
        Call::Sync,
        packet(7, b"worked"),
        packet(5, b"two"),
        Call::Sync,
        Call::Finish,
    ];
    assert_eq!(calls, expected);
    let now = queue.status();
    assert_eq!((now.stage, now.why, now.written, now.waiting), (Stage::Ended, None, 77, 0));
    assert_eq!(told("ordered"), [""; 0]);
}

#[test]
fn one_that_is_too_slow_is_ended_once_and_never_gets_more() {
    let (permit, permits) = channel();
    let Some((mut sink, queue, seen)) = start("slow", Some(permits), false) else { return };
    let piece = vec![0; 32 << 10];
    // One more than there is room for, and one that the thread may have taken.
    for _ in 0..2 + LIMIT / piece.len() {
        sink.packet(5, &piece);
        sink.sync().unwrap();
    }
    assert!(sink.has_ended());
    let told = told("slow");
    assert_eq!(told.len(), 1);
    assert!(
        told[0].starts_with("slow gets no more of the trace: it is too slow: 64 MiB"),
        "{told:?}"
    );
    let now = queue.status();
    assert_eq!((now.stage, now.waiting), (Stage::Ended, 0));
    sink.packet(5, &piece);
    sink.finish().unwrap();
    drop(permit);
    // The thread ends, so its side is closed: it had been in its first packet.
    assert!(seen.iter().count() <= 2);
}

#[test]
fn one_that_breaks_is_told_and_its_rest_dropped() {
    let Some((mut sink, queue, seen)) = start("broken", None, true) else { return };
    sink.packet(5, b"one");
    sink.sync().unwrap();
    queue.wait_for_end(soon());
    assert_eq!(seen.iter().count(), 2);
    assert_eq!(told("broken"), ["broken gets no more of the trace: it broke"]);
    assert!(sink.has_ended());
    sink.packet(5, b"two");
    sink.sync().unwrap();
    sink.finish().unwrap();
}

#[test]
fn what_cannot_be_sent_by_the_deadline_is_given_up() {
    let (permit, permits) = channel();
    let Some((mut sink, queue, _seen)) = start("late", Some(permits), false) else { return };
    sink.packet(5, b"one");
    sink.finish().unwrap();
    queue.wait_for_end(Instant::now());
    assert!(queue.given_up.load(Ordering::Acquire));
    assert_eq!(told("late").len(), 1);
    drop(permit);
}

#[test]
fn one_that_cannot_be_opened_says_so() {
    let open: OpenSink = Box::new(|_| Err(Error::new(ErrorKind::Internal, "it is not there")));
    let sink = Queued::start("nowhere".into(), open, tell).unwrap();
    let queue = by_number(sink.number()).unwrap();
    queue.wait_for_end(soon());
    assert_eq!(queue.status().why.as_deref(), Some("it is not there"));
    assert_eq!(told("nowhere").len(), 1);
}
