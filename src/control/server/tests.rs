use super::listener::ListenAddress;
use super::*;
use crate::control::Client as Caller;
use crate::error::Error;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::sync::mpsc::{Receiver, Sender, channel};

/// More than the buffers of a connection hold.
const PROFILE_BYTES: usize = 20 << 20;

/// Reports its calls to the test.
struct Told(Sender<String>);

impl Told {
    fn reply(&mut self, what: String) -> Reply {
        let _ = self.0.send(what.clone());
        if what.contains("nobody") { Err("no such\nchannel".into()) } else { Ok(vec![what]) }
    }
}

impl Actions for Told {
    fn status(&mut self) -> Vec<String> {
        let _ = self.0.send("status".into());
        vec!["pid 42".into(), format!("long {}", "x".repeat(2000))]
    }

    fn toggle_channels(&mut self, names: &[String], enable: bool) -> Reply {
        self.reply(format!("channels {} {enable}", names.join("+")))
    }

    fn send_to(&mut self, address: &Address) -> Reply {
        self.reply(format!("send {address}"))
    }

    fn write_to(&mut self, mut file: File, path: &Path) -> Reply {
        file.write_all(b"trace").unwrap();
        self.reply(format!("write {}", name(path)))
    }

    fn start_session(&mut self, _: File, path: &Path, config: Option<&str>) -> Reply {
        self.reply(format!("session {}{}", name(path), behind(config)))
    }

    fn stop_session(&mut self, name: &str) -> Reply {
        self.reply(format!("session {name} ends"))
    }

    fn flush_session(&mut self, name: &str) -> Reply {
        self.reply(format!("session {name} is flushed"))
    }

    fn dump_session(&mut self, session: &str, path: &Path) -> Reply {
        self.reply(format!("session {session} to {}", name(path)))
    }

    fn stop(&mut self) -> Reply {
        self.reply("stop".into())
    }

    fn stop_all(&mut self) -> Reply {
        self.reply("stop all".into())
    }

    fn start(&mut self) -> Reply {
        self.reply("start".into())
    }

    fn document(&self, kind: DocumentKind) -> MakeDocument {
        match kind {
            DocumentKind::Profile => || Ok((0..PROFILE_BYTES).map(|at| (at % 251) as u8).collect()),
            DocumentKind::Figures { stacks: false } => || Ok(b"rows".into()),
            DocumentKind::Figures { stacks: true } => || Err("no\nstacks".into()),
        }
    }

    fn problem(&mut self, error: Error) {
        let _ = self.0.send(format!("problem: {error}"));
    }
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn behind(channels: Option<&str>) -> String {
    channels.map(|channels| format!(" of {channels}")).unwrap_or_default()
}

struct Fixture {
    server: Option<Server>,
    address: SocketAddr,
    told: Receiver<String>,
    folder: tempfile::TempDir,
}

fn fixture(change: impl FnOnce(&mut Rules)) -> Fixture {
    timing_out(COMMAND_TIMEOUT, change)
}

fn timing_out(timeout: Duration, change: impl FnOnce(&mut Rules)) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("traces")).unwrap();
    let mut rules = Rules { folder: Some(folder.path().join("traces")), ..Rules::default() };
    change(&mut rules);
    let listener = Listener::bind(ListenAddress::parse("0").unwrap()).unwrap();
    let address = listener.address();
    let (tell, told) = channel();
    let actions = Box::new(Told(tell));
    let server = Some(Server::start_within(timeout, listener, rules, actions).unwrap());
    Fixture { server, address, told, folder }
}

impl Fixture {
    fn caller(&self) -> Caller {
        Caller::connect(&self.address.to_string()).unwrap()
    }

    fn raw(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends `bytes`, and reads the answers until the connection ends.
    fn answers(&self, bytes: &[u8]) -> String {
        let mut stream = self.raw();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        rest(stream)
    }

    /// Waits until the server has ended; returns all calls of the actions.
    fn all_told(mut self) -> Vec<String> {
        self.server.take();
        self.told.iter().collect()
    }
}

/// Reads all bytes up to the end, which is a reset if the server has not read all bytes of the
/// client.
fn rest(mut stream: TcpStream) -> String {
    let (mut text, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        text.extend_from_slice(&bytes[..count]);
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn commands_do_what_they_say() {
    let fixture = fixture(|rules| rules.hosts.push("build.example".into()));
    let mut caller = fixture.caller();
    let mut send = |command| caller.send(&command);
    assert_eq!(send(Command::Status).unwrap()[0], "pid 42");
    assert_eq!(send(Command::channels(["cpu", "gpu"], true)).unwrap(), ["channels cpu+gpu true"]);
    assert_eq!(send(Command::send_to("localhost")).unwrap(), ["send 127.0.0.1"]);
    assert_eq!(send(Command::send_to("build.example:7")).unwrap(), ["send build.example:7"]);
    assert_eq!(send(Command::write_to("a.utrace")).unwrap(), ["write a.utrace"]);
    let start = |config: Option<&str>, name: &str| Command::StartSession {
        name: name.into(),
        config: config.map(str::to_owned),
    };
    assert_eq!(send(start(None, "a.pftrace")).unwrap(), ["session a.pftrace"]);
    let config = "ring=64KiB duration=5s";
    let started = send(start(Some(config), "b.pftrace")).unwrap();
    assert_eq!(started, [format!("session b.pftrace of {config}")]);
    let dump = Command::DumpSession { name: "b.pftrace".into(), file: "c.pftrace".into() };
    assert_eq!(send(dump).unwrap(), ["session b.pftrace to c.pftrace"]);
    assert_eq!(send(Command::StopSession("a".into())).unwrap(), ["session a ends"]);
    // A refusal by the actions does not end the connection; a line break in it is escaped.
    let refused = send(Command::channels(["nobody"], true)).unwrap_err().to_string();
    assert!(refused.ends_with("refuses: no such\\nchannel"), "{refused}");
    assert_eq!(send(Command::Stop).unwrap(), ["stop"]);
    assert_eq!(send(Command::StopAll).unwrap(), ["stop all"]);
    assert_eq!(send(Command::Start).unwrap(), ["start"]);
    let written = std::fs::read(fixture.folder.path().join("traces/a.utrace")).unwrap();
    assert_eq!(written, b"trace");
}

#[test]
fn a_profile_is_sent_whole_and_delays_no_other_client() {
    let fixture = fixture(|_| ());
    // A client that does not read its profile.
    let mut slow = fixture.raw();
    slow.write_all(b"Profile\n").unwrap();
    let mut line = String::new();
    let mut slow = BufReader::with_capacity(64, slow);
    slow.read_line(&mut line).unwrap();
    assert_eq!(line, format!("profile_bytes {PROFILE_BYTES}\n"));
    let mut other = fixture.caller();
    assert_eq!(other.send(&Command::Stop).unwrap(), ["stop"]);
    let refused = fixture.caller().profile().unwrap_err().to_string();
    assert!(
        refused.ends_with("refuses: another client is being sent a profile or figures"),
        "{refused}"
    );
    drop(slow);
    let profile = loop {
        match other.profile() {
            Ok(profile) => break profile,
            Err(error) => assert!(error.to_string().contains("another client"), "{error}"),
        }
    };
    assert!(profile.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8));
    assert_eq!(profile.len(), PROFILE_BYTES);
    let ended = other.send(&Command::Stop).unwrap_err().to_string();
    assert!(ended.contains("does not answer"), "{ended}");
}

#[test]
fn figures_are_sent_to_admitted_clients_and_end_the_connection() {
    let fixture = fixture(|rules| rules.token = Some("s3cr3t".into()));
    let refused = fixture.caller().figures().unwrap_err().to_string();
    assert!(refused.ends_with("refuses: the program requires a token first"), "{refused}");
    let admitted = || {
        let mut caller = fixture.caller();
        caller.send(&Command::Token("s3cr3t".into())).unwrap();
        caller
    };
    // NOTE: another test may be sent its profile, and one document is made at a time.
    let figures = |stacks| loop {
        let mut caller = admitted();
        match if stacks { caller.figures_with_stacks() } else { caller.figures() } {
            Err(error) if error.to_string().contains("another client") => {}
            answer => break (caller, answer),
        }
    };
    let (mut caller, rows) = figures(false);
    assert_eq!(rows.unwrap(), b"rows");
    let ended = caller.send(&Command::Stop).unwrap_err().to_string();
    assert!(ended.contains("does not answer"), "{ended}");
    let refused = figures(true).1.unwrap_err().to_string();
    assert!(refused.ends_with("refuses: no\\nstacks"), "{refused}");
}

#[test]
fn unreals_client_sends_and_goes() {
    let fixture = fixture(|_| ());
    // Sends without waiting for answers, as Unreal's tools do.
    fixture.raw().write_all(b"SendTo 127.0.0.1\rToggleChannels cpu,frame 1\r\n").unwrap();
    assert_eq!(fixture.told.recv().unwrap(), "send 127.0.0.1");
    assert_eq!(fixture.told.recv().unwrap(), "channels cpu+frame true");
}

#[test]
fn hostile_requests_are_refused_with_a_reason_and_do_nothing() {
    let fixture = fixture(|_| ());
    let traces = fixture.folder.path().join("traces");
    let victim = fixture.folder.path().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    std::fs::write(traces.join("old.utrace"), "old").unwrap();
    std::fs::create_dir(traces.join("folder")).unwrap();
    #[cfg(unix)]
    make_links(&traces);
    let outside = format!("WriteTo {}", victim.display());
    let long = format!("WriteTo {}", "n".repeat(300));
    let line = "a".repeat(5000);
    let before = names(&traces);
    for (request, reason) in [
        ("WriteTo ../victim", "must be a file name without a folder"),
        ("WriteTo ../new", "must be a file name without a folder"),
        ("WriteTo ..", "must be a file name without a folder"),
        ("WriteTo .", "must be a file name without a folder"),
        ("WriteTo .bashrc", "must be a file name without a folder"),
        ("WriteTo folder/new", "must be a file name without a folder"),
        ("WriteTo up/new", "must be a file name without a folder"),
        ("WriteTo C:\\new", "must be a file name without a folder"),
        (&outside, "must be a file name without a folder"),
        ("WriteTo folder", "cannot be created"),
        ("StartSession ../new", "must be a file name without a folder"),
        ("StartSession old.utrace duration=5s", "cannot be created"),
        ("DumpSession a ../new", "must be a file name without a folder"),
        ("DumpSession a old.utrace", "cannot be created"),
        ("WriteTo old.utrace", "cannot be created"),
        #[cfg(unix)]
        ("WriteTo link.utrace", "cannot be created"),
        #[cfg(unix)]
        ("WriteTo dangling.utrace", "cannot be created"),
        #[cfg(unix)]
        ("WriteTo fifo.utrace", "cannot be created"),
        (&long, "300 bytes is too long"),
        ("WriteTo a\nb c", "there is no command \"b\""),
        ("SendTo 10.0.0.1", "does not allow"),
        ("SendTo evil.example:80", "does not allow"),
        ("SendTo 0.0.0.0", "does not allow"),
        ("SendTo localhost.evil.example", "does not allow"),
        ("SendTo http://127.0.0.1/", "not allowed"),
        ("SendTo 127.0.0.1:80/x", "not allowed"),
        ("GET /WriteTo HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nStop\n", "not a web server"),
        ("POST / HTTP/1.1\r\n\r\nStop\nWriteTo new\n", "not a web server"),
        ("OPTIONS * HTTP/1.1", "not a web server"),
        ("\u{16}\u{3}\u{1}\u{2}\nStop", "control character"),
        ("\u{1b}[2J Stop", "control character"),
        ("AllowHost evil.example\nSendTo evil.example", "there is no command"),
        ("stop", "there is no command"),
        (&line, "more than 4096 bytes"),
        ("a b c d e f g h i j k l m n o p q r s", "19 words"),
    ] {
        let request = request.replace("WriteTo a\nb c", "b c");
        let answers = fixture.answers(format!("{request}\n").as_bytes());
        let shown = request.chars().take(60).collect::<String>();
        assert!(answers.starts_with("refused: "), "{shown:?}: {answers:?}");
        assert!(answers.contains(reason), "{shown:?}: {answers:?}");
        assert_eq!(answers.lines().count(), 1, "{shown:?}: {answers:?}");
    }
    // Sends bytes that are not text, and a line that is cut off by the end of the connection.
    assert!(fixture.answers(b"Status\xff\n").contains("not UTF-8"));
    assert_eq!(fixture.answers(b"Stop"), "");
    assert_eq!(fixture.answers(b""), "");
    assert_eq!(names(&traces), before, "nothing new");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(std::fs::read_to_string(traces.join("old.utrace")).unwrap(), "old");
    assert_eq!(fixture.all_told(), [""; 0], "nothing was done");
}

/// Makes links, and a file that is none. On Windows only administrators and developers can make a link.
#[cfg(unix)]
fn make_links(traces: &Path) {
    let folder = traces.parent().unwrap();
    std::os::unix::fs::symlink(folder.join("victim"), traces.join("link.utrace")).unwrap();
    std::os::unix::fs::symlink("../nothing", traces.join("dangling.utrace")).unwrap();
    std::os::unix::fs::symlink(folder, traces.join("up")).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(traces.join("fifo.utrace")).status();
    assert!(fifo.unwrap().success());
}

fn names(folder: &Path) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn a_line_of_a_gigabyte_is_not_taken_in() {
    let fixture = fixture(|_| ());
    let stream = fixture.raw();
    let reader = stream.try_clone().unwrap();
    let reader = std::thread::spawn(move || rest(reader));
    let mut sent = 0_u64;
    let chunk = vec![b'a'; 1 << 20];
    while sent < 1 << 30
        && let Ok(count @ 1..) = (&stream).write(&chunk)
    {
        sent += count as u64;
    }
    assert!(sent < 64 << 20, "{sent} bytes went into the buffers of the system");
    assert_eq!(reader.join().unwrap(), "refused: the line has more than 4096 bytes\n");
    assert_eq!(fixture.caller().send(&Command::Stop).unwrap(), ["stop"]);
}

#[test]
fn a_client_that_drips_bytes_is_cut_off() {
    let fixture = timing_out(Duration::from_millis(300), |_| ());
    let stream = fixture.raw();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut answer = String::new();
    loop {
        // Sends a byte of a line without end each time that nothing has arrived.
        match reader.read_line(&mut answer) {
            Ok(_) => break,
            // Windows and Unix have different names for it.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let _ = (&stream).write(b"S");
            }
            Err(error) => panic!("{error}, after {answer:?}"),
        }
    }
    assert_eq!(answer, "refused: no command came for 300ms\n");
    assert_eq!(fixture.all_told(), [""; 0]);
}

#[test]
fn four_clients_are_served_and_a_hundred_are_told_so() {
    let fixture = fixture(|_| ());
    let mut first: Vec<_> = (0..MAX_CLIENTS).map(|_| fixture.caller()).collect();
    first.iter_mut().for_each(|caller| assert!(caller.send(&Command::Status).is_ok()));
    let others: Vec<_> = (0..100).map(|_| fixture.raw()).collect();
    for stream in others {
        assert_eq!(rest(stream), "refused: 4 clients are connected, the maximum\n");
    }
    // The connected clients are still served; when one disconnects, another can connect.
    first.iter_mut().for_each(|caller| assert!(caller.send(&Command::Status).is_ok()));
    first.pop();
    while let Err(error) = fixture.caller().send(&Command::Status) {
        assert!(error.to_string().contains("4 clients"), "{error}");
    }
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody() {
    let fixture = fixture(|_| ());
    let deaf = fixture.raw();
    deaf.set_nonblocking(true).unwrap();
    let mut other = fixture.caller();
    // Sends until the socket has no room for another answer, and the server disconnects the client.
    let mut served = 0;
    loop {
        match (&deaf).write(&b"Status\n".repeat(500)) {
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => break,
            _ => {}
        }
        assert_eq!(other.send(&Command::Status).unwrap()[0], "pid 42");
        served += 1;
        if served == 20 {
            break;
        }
    }
    assert_eq!(other.send(&Command::Stop).unwrap(), ["stop"]);
}

#[test]
fn a_token_comes_first_where_there_is_one() {
    let fixture = fixture(|rules| rules.token = Some("s3cr3t".into()));
    for (request, reason) in [
        (&b"Stop\n"[..], "requires a token first"),
        (b"Token wrong\nStop\n", "the token is wrong"),
        (b"Token s3cr3\nStop\n", "the token is wrong"),
        (b"Token s3cr3tt\nStop\n", "the token is wrong"),
        (b"Token\nStop\n", "Token is followed by one word"),
    ] {
        let answers = fixture.answers(request);
        assert!(answers.starts_with("refused: ") && answers.contains(reason), "{answers:?}");
        assert_eq!(answers.lines().count(), 1);
    }
    let mut caller = fixture.caller();
    caller.send(&Command::Token("s3cr3t".into())).unwrap();
    assert_eq!(caller.send(&Command::Stop).unwrap(), ["stop"]);
    drop(caller);
    assert_eq!(fixture.all_told(), ["stop"]);
}

#[test]
fn without_a_folder_nothing_is_written() {
    let fixture = fixture(|rules| rules.folder = None);
    let refused = fixture.caller().send(&Command::write_to("a.utrace")).unwrap_err();
    assert!(refused.to_string().contains("has no folder for traces"), "{refused}");
}

#[test]
fn a_server_that_is_not_wanted_closes_its_port() {
    let mut fixture = fixture(|_| ());
    assert!(fixture.caller().send(&Command::Status).is_ok());
    fixture.server.take();
    // The actions are dropped when the thread ends.
    while fixture.told.recv().is_ok() {}
    assert!(Caller::connect(&fixture.address.to_string()).is_err());
}
