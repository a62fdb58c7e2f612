//! A server as a child process, and traces to send to it.

use memledger_format::framing::Framing;
use memledger_format::handshake::Handshake;
use memledger_store::Store;
use memledger_test_support::command::ran;
pub use memledger_test_support::command::{DEADLINE, output, told_bytes};
use memledger_test_support::memledger;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Instant;

pub const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/mem-2t-40k.utrace");

pub fn memledger(args: &[&str]) -> Command {
    memledger!(args)
}

/// Status, standard output, standard error.
pub fn run(args: &[&str]) -> (i32, Vec<u8>, String) {
    told_bytes(ran(memledger(args)))
}

/// `memledger serve` on free ports. Killed when dropped.
pub struct Server {
    child: Child,
    pub recorder: String,
    pub store: String,
    pub traces: u64,
    notes: Receiver<String>,
    told: Vec<String>,
}

impl Server {
    pub fn start(folder: &Path, args: &[&str]) -> Self {
        Self::start_by(memledger(&[]), folder, args)
    }

    /// The same with a command to which the arguments are appended.
    pub fn start_by(mut command: Command, folder: &Path, args: &[&str]) -> Self {
        let mut child = command
            .args(["serve", "--recorder-port", "0", "--store-port", "0"])
            .args(["--format", "json", "--folder"])
            .arg(folder)
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, notes) = mpsc::channel();
        thread::spawn(move || stderr.lines().try_for_each(|line| sender.send(line.unwrap())));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            panic!("it did not start: {:?}", notes.iter().collect::<Vec<_>>());
        }
        let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(ready["schema"], "memledger.serve/1");
        assert_eq!(ready["directory"].as_str(), folder.canonicalize().unwrap().to_str());
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let recorder = text(&ready["recorder"][0]);
        let (store, traces) = (text(&ready["store"]), ready["traces"].as_u64().unwrap());
        Self { child, recorder, store, traces, notes, told: Vec::new() }
    }

    pub fn client(&self) -> Store {
        Store::connect(&self.store).unwrap()
    }

    /// A connection to the recorder.
    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.recorder).unwrap()
    }

    /// Waits until `count` notes have all these parts; returns them.
    pub fn notes(&mut self, count: usize, parts: &[&str]) -> Vec<String> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let fits = |note: &&String| parts.iter().all(|part| note.contains(part));
            let found: Vec<_> = self.told.iter().filter(fits).cloned().collect();
            if found.len() >= count {
                return found;
            }
            match self.notes.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(note) => self.told.push(note),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("{} of {count} notes with {parts:?} in {:#?}", found.len(), self.told)
                }
            }
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end: the status, and all it has said.
    pub fn end(mut self) -> (Option<i32>, Vec<String>) {
        let deadline = Instant::now() + DEADLINE;
        // Its notes end when it does.
        while let Ok(note) =
            self.notes.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            self.told.push(note);
        }
        assert!(Instant::now() < deadline, "it did not end");
        (self.child.wait().unwrap().code(), std::mem::take(&mut self.told))
    }

    /// The most memory it has had, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A trace of its own, with at least this many bytes (but no more than the sample has), which ends
/// with a whole packet.
pub fn stream(number: u8, size: usize) -> Vec<u8> {
    let sample = std::fs::read(SAMPLE).unwrap();
    let (mut start, head) = Handshake::decode(&mut &sample[..]).unwrap();
    (start.control_port, start.trace_guid) = (Some(40_000 + u16::from(number)), Some([number; 16]));
    let mut stream = start.encode();
    let body = &sample[head as usize..];
    let mut framing = Framing::new();
    framing.push(&stream).unwrap();
    for piece in body.chunks(64) {
        framing.push(piece).unwrap();
        if framing.whole() as usize >= size {
            break;
        }
    }
    stream.extend(body);
    stream.truncate(framing.whole() as usize);
    stream
}

/// A long trace: a start and this number of packets of 60 000 bytes, each of another byte. No
/// reader makes sense of the events.
pub fn packets(count: usize) -> Vec<u8> {
    let mut stream = b"2CRT\x00\x00\x04\x07".to_vec();
    for number in 0..count {
        stream.extend([0x60, 0xea, 2, 0]);
        stream.resize(stream.len() + 59_996, number as u8);
    }
    stream
}

/// Sends it and closes.
pub fn send(mut connection: TcpStream, bytes: &[u8]) {
    connection.write_all(bytes).unwrap();
}

/// All that comes from a live trace until this number of bytes has arrived.
pub fn exactly(source: &mut impl Read, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    source.read_exact(&mut bytes).unwrap();
    bytes
}

/// The traces in the folder, by name.
pub fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .filter(|(name, _)| !name.starts_with('.'))
        .map(|(name, path)| (name, std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}
