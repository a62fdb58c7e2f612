//! A trace in a folder of its own, a server of it, and what a browser asks.

use memledger_test_support::command::{ran, told};
use memledger_test_support::memledger;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

pub fn memledger(args: &[&str], home: &Path) -> Command {
    let mut command = memledger!(args);
    command.env_remove("MEMLEDGER_CACHE").env("XDG_CACHE_HOME", home.join("cache"));
    command
}

/// A folder with a copy of a trace that was written long ago.
pub struct Copied {
    pub folder: tempfile::TempDir,
    pub trace: PathBuf,
}

impl Copied {
    pub fn of(trace: &str) -> Self {
        let bytes = fs::read(trace).expect("a trace");
        let folder = tempfile::tempdir().expect("a folder");
        let trace = folder.path().join("run.utrace");
        let copied = Self { folder, trace };
        copied.write(&bytes);
        copied.is_old();
        copied
    }

    pub fn write(&self, bytes: &[u8]) {
        fs::write(&self.trace, bytes).expect("it is written");
    }

    pub fn append(&self, bytes: &[u8]) {
        let mut file = File::options().append(true).open(&self.trace).expect("the trace");
        file.write_all(bytes).expect("it is written");
    }

    pub fn is_old(&self) {
        let file = File::options().append(true).open(&self.trace).expect("the trace");
        file.set_modified(SystemTime::now() - Duration::from_secs(3600)).expect("a time");
    }

    pub fn index(&self) -> PathBuf {
        self.folder.path().join("run.utrace.index")
    }

    pub fn query(&self, rule: &str, moments: &[&str]) -> (i32, String, String) {
        let names = ["--a", "--b", "--c", "--d"];
        let trace = self.trace.to_str().expect("UTF-8");
        let mut args = vec!["query", trace, "--rule", rule, "--format", "json"];
        args.extend(names.iter().zip(moments).flat_map(|(name, moment)| [*name, *moment]));
        told(ran(memledger(&args, self.folder.path())))
    }

    pub fn total(&self, rule: &str, moments: &[&str]) -> Value {
        let (_, out, err) = self.query(rule, moments);
        let answer: Value = serde_json::from_str(&out).expect(&err);
        answer["total"].clone()
    }
}

/// A server; it ends with this value.
pub struct View {
    pub child: Child,
    pub port: u16,
    pub token: String,
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The status and the body of an answer.
pub struct Answered {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answered {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect(&self.body)
    }

    pub fn error(&self) -> String {
        self.json()["error"].as_str().expect("a sentence").to_owned()
    }
}

impl View {
    pub fn start(copied: &Copied) -> Self {
        Self::with(copied, &[])
    }

    pub fn with(copied: &Copied, args: &[&str]) -> Self {
        let trace = copied.trace.to_str().expect("UTF-8");
        let mut command = memledger(&[&["view", trace], args].concat(), copied.folder.path());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the command runs");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        out.read_line(&mut line).expect("the address");
        let (host, token) = line.trim().split_once("/?token=").expect("an address");
        let port = host.rsplit(':').next().expect("a port").parse().expect("a number");
        Self { child, port, token: token.to_owned() }
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn send(&self, path: &str, headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        let timeout = Some(Duration::from_secs(60));
        stream.set_read_timeout(timeout).expect("a timeout");
        let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).expect("it is sent");
        stream
    }

    pub fn ask_with(&self, path: &str, headers: &str) -> Answered {
        let mut text = String::new();
        self.send(path, headers).read_to_string(&mut text).expect("an answer");
        let (head, body) = text.split_once("\r\n\r\n").expect("an empty line");
        let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
        Answered { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// Asks as the page does.
    pub fn ask(&self, path: &str) -> Answered {
        let and = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{and}token={}", self.token);
        self.ask_with(&path, &format!("Host: {}\r\n", self.host()))
    }

    pub fn query(&self, rule: &str, moments: &[&str]) -> Answered {
        let mut path = format!("/api/query?rule={rule}");
        for (name, moment) in ["a", "b", "c", "d"].iter().zip(moments) {
            path += &format!("&{name}={}", moment.replace('%', "%25").replace(' ', "%20"));
        }
        self.ask(&path)
    }

    /// The totals of an answer, which are the sums of its columns.
    pub fn total(&self, rule: &str, moments: &[&str]) -> Value {
        let answer = self.query(rule, moments);
        assert_eq!(answer.status, 200, "{rule} {moments:?}: {}", answer.body);
        let answer = answer.json();
        assert_eq!(answer["moved"], Value::Array(Vec::new()), "{rule} {moments:?}");
        let totals = answer["totals"].clone();
        for (name, total) in totals.as_object().expect("an object") {
            let column = answer["buckets"][name].as_array().expect("a column");
            let sum: u64 = column.iter().map(|n| n.as_u64().expect("a number")).sum();
            assert_eq!(Some(sum), total.as_u64(), "{rule} {moments:?} {name}");
        }
        totals
    }

    /// Waits for an event of the progress.
    pub fn wait_for(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        let path = format!("/api/progress?token={}", self.token);
        let stream = self.send(&path, &format!("Host: {}\r\n", self.host()));
        for line in BufReader::new(stream).lines() {
            let line = line.expect("an event");
            if let Some(data) = line.strip_prefix("data:") {
                let event = serde_json::from_str(data).expect(data);
                if is_it(&event) {
                    return event;
                }
            }
        }
        panic!("the events have ended");
    }

    pub fn interrupt(mut self) -> i32 {
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it runs");
        self.child.wait().expect("it ends").code().expect("no signal ended it")
    }
}
