//! The store's side of the query protocol: one connection, its requests in turn.
//!
//! Whatever comes gets an answer with a status and a reason. A connection is closed where the next
//! request could not be found any more: after a size that cannot be, and a peer that stalls.

use super::catalogue::{Live, Trace};
use super::relay;
use super::seats::{FIRST, Taken};
use super::server::Server;
use memledger::remote::store::{MAX_REQUEST, Message};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout, timeout_at};

/// Between two requests.
const IDLE: Duration = Duration::from_secs(300);
/// For the rest of a request that has begun, and for an answer to be taken.
const STALL: Duration = Duration::from_secs(10);
/// After the last answer: closing at once could take it away from a peer that is still sending.
const LINGER: Duration = Duration::from_secs(1);
/// What is thrown away then, at most.
const LINGER_BYTES: usize = 4 << 20;

/// The version of the protocol, as Unreal counts.
const VERSION: (u32, u32) = (1, 0);
/// Time stamps count 100 ns from the year 1 on; this many before 1970.
const UNIX_EPOCH_TICKS: i64 = 621_355_968_000_000_000;

const OK: u32 = 200;
const BAD: u32 = 400;
const FORBIDDEN: u32 = 403;
const NOT_FOUND: u32 = 404;
const FAILED: u32 = 500;
const CROWDED: u32 = 503;

/// Answers requests until the peer goes, or stalls, or the server stops.
pub async fn answer(
    mut stream: TcpStream,
    peer: SocketAddr,
    seat: Taken,
    server: Arc<Server>,
    mut stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let begun = Instant::now();
    loop {
        let limit = if seat.is_silent() { begun + FIRST } else { Instant::now() + IDLE };
        let body = tokio::select! {
            // A request that has come gets an answer, though another connection has the seat.
            biased;
            request = timeout_at(limit, request(&mut stream)) => match request {
                Ok(Some(body)) => body,
                _ => return,
            },
            () = seat.has_to_leave() => return,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let (response, goes_on) = match body {
            Ok(body) => respond(&body, &stream, peer, &seat, &server, &stop).await,
            Err(response) => (response, false),
        };
        let sent = timeout(STALL, stream.write_all(&response.encode())).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
        if !goes_on || !seat.pauses() {
            return linger(stream).await;
        }
    }
}

/// The next request, or why it is not valid; `None` if the connection ended.
async fn request(stream: &mut TcpStream) -> Option<Result<Vec<u8>, Message>> {
    let mut size = [0; 4];
    stream.read_exact(&mut size).await.ok()?;
    body(stream, size).await.transpose()
}

/// What follows the size; `None` if it does not come.
async fn body(stream: &mut TcpStream, size: [u8; 4]) -> Result<Option<Vec<u8>>, Message> {
    let length = u32::from_le_bytes(size) as usize;
    if matches!(&size, b"GET " | b"POST" | b"PUT " | b"HEAD" | b"OPTI" | b"PRI ") {
        return Err(refusal(BAD, "this is HTTP, and the store speaks CBOR"));
    }
    if length == 0 || length > MAX_REQUEST {
        return Err(refusal(
            BAD,
            &format!("a request has 1 to {MAX_REQUEST} bytes, and this one announces {length}"),
        ));
    }
    let mut body = vec![0; length];
    let read = timeout(STALL, stream.read_exact(&mut body)).await;
    Ok(matches!(read, Ok(Ok(_))).then_some(body))
}

/// The answer to a request, and whether more may come.
async fn respond(
    body: &[u8],
    stream: &TcpStream,
    peer: SocketAddr,
    seat: &Taken,
    server: &Arc<Server>,
    stop: &watch::Receiver<bool>,
) -> (Message, bool) {
    let request = match Message::decode(body) {
        Ok(request) => request,
        Err(error) => return (refusal(BAD, &error.to_string()), true),
    };
    if !server.access.allows(peer, request.text("$token")) {
        let reason = match request.text("$token") {
            None => "from another machine every request needs a token",
            Some(_) => "the token is not ours",
        };
        return (refusal(FORBIDDEN, reason), false);
    }
    if !seat.speaks() {
        let most = server.limits.readers;
        let reason = format!("all {most} connections are taken by others; ask again");
        return (refusal(CROWDED, &reason), false);
    }
    let Some(path) = request.text("$path").map(str::to_owned) else {
        return (refusal(BAD, "the request has no '$path'"), true);
    };
    if request.text("$request") != Some("GET") {
        return (refusal(BAD, "'$request' can be 'GET' only"), true);
    }
    let response = if path == "v1/trace/read" {
        read(&request, stream, peer, server, stop).await
    } else {
        let server = Arc::clone(server);
        let told = spawn_blocking(move || tell(&path, &request, &server)).await;
        told.unwrap_or_else(|error| refusal(FAILED, &error.to_string()))
    };
    (response, true)
}

fn refusal(status: u32, reason: &str) -> Message {
    Message::response(status).with("reason", reason)
}

fn nothing(what: &str) -> Message {
    refusal(NOT_FOUND, &format!("there is no such {what}"))
}

/// The answer to a request that only asks.
fn tell(path: &str, request: &Message, server: &Server) -> Message {
    let response = Message::response(OK);
    let catalogue = &server.catalogue;
    match path {
        "v1/status" => response
            .with("recorder_port", u32::from(server.recorder_port))
            .with("store_port", u32::from(server.store_port))
            .with("sponsored", 0_u32)
            .with("change_serial", catalogue.totals().change_serial)
            .with("settings_serial", 0_u32)
            .with("store_dir", &*catalogue.path().to_string_lossy())
            .with("watch_dirs", Vec::new()),
        "v1/version" => response
            .with("major", VERSION.0)
            .with("minor", VERSION.1)
            .with("configuration", "Release")
            .with("server", concat!("memledger ", env!("CARGO_PKG_VERSION"))),
        "v1/trace/count" => response.with("count", catalogue.totals().traces as i64),
        "v1/trace/info" => {
            let trace = match (request.integer("index"), id(request, "id")) {
                (Some(index), _) if index >= 0 => catalogue.by_index(index as usize),
                (_, Some(id)) => catalogue.find(|trace| trace.id == id),
                _ => return refusal(BAD, "the request needs an 'index' or an 'id'"),
            };
            trace.map_or_else(|| nothing("trace"), |trace| trace_info(&trace, server))
        }
        "v1/session/count" => response.with("count", catalogue.totals().sessions as i64),
        "v1/session/info" => match session(request, server) {
            Err(refusal) => refusal,
            Ok(None) => nothing("session"),
            Ok(Some((trace, live))) => response
                .with("id", live.session)
                .with("trace_id", trace.id)
                .with("ip_address", ipv4(live.peer))
                .with("control_port", u32::from(live.control_port.unwrap_or(0))),
        },
        "v1/settings/write" => {
            refusal(FORBIDDEN, "settings are given on the command line of memledger serve")
        }
        _ => refusal(NOT_FOUND, "there is no such path in this store"),
    }
}

/// Ids are 32 bits without a sign, but Unreal's client sends them with one.
fn id(request: &Message, key: &str) -> Option<u32> {
    let id = request.integer(key)?;
    let id = u32::try_from(id).ok().or_else(|| Some(i32::try_from(id).ok()?.cast_unsigned()));
    id.filter(|id| *id != 0)
}

fn trace_info(trace: &Trace, server: &Server) -> Message {
    let uri = server.catalogue.path().join(&trace.file);
    let info = Message::response(OK)
        .with("id", trace.id)
        .with("size", trace.size() as i64)
        .with("timestamp", ticks(trace.modified))
        .with("name", trace.name())
        .with("uri", &*uri.to_string_lossy())
        .with("live", u32::from(trace.live.is_some()));
    let info = match server.catalogue.has_end(trace) {
        Some(end) => info.with("complete", u32::from(end && trace.ended.is_none())),
        None => info,
    };
    match &trace.ended {
        Some(reason) => info.with("ended", reason.as_str()),
        None => info,
    }
}

fn session(request: &Message, server: &Server) -> Result<Option<(Trace, Live)>, Message> {
    let catalogue = &server.catalogue;
    let live = |wanted: &dyn Fn(&Trace, &Live) -> bool| {
        catalogue.find(|trace| trace.live.as_ref().is_some_and(|live| wanted(trace, live)))
    };
    let trace = if let Some(index) = request.integer("index").filter(|index| *index >= 0) {
        catalogue.live_by_index(index as usize)
    } else if let Some(id) = id(request, "id") {
        live(&|_, live| live.session == id)
    } else if let Some(id) = id(request, "trace_id") {
        live(&|trace, _| trace.id == id)
    } else if let Some(text) = request.text("trace_guid") {
        let Some(guid) = guid(text) else {
            return Err(refusal(BAD, "a 'trace_guid' has 32 hexadecimal digits"));
        };
        live(&|_, live| live.guid == Some(guid))
    } else {
        let reason = "the request needs an 'index', an 'id', a 'trace_id' or a 'trace_guid'";
        return Err(refusal(BAD, reason));
    };
    Ok(trace.and_then(|trace| Some((trace.clone(), trace.live?))))
}

/// Opens the trace and a port on which its bytes come.
async fn read(
    request: &Message,
    stream: &TcpStream,
    peer: SocketAddr,
    server: &Arc<Server>,
    stop: &watch::Receiver<bool>,
) -> Message {
    let Some(id) = id(request, "id") else {
        return refusal(BAD, "the request needs an 'id'");
    };
    let catalogue = Arc::clone(&server.catalogue);
    let reading = match spawn_blocking(move || catalogue.read(id)).await {
        Ok(Some(Ok(reading))) => reading,
        Ok(None) => return nothing("trace"),
        Ok(Some(Err(error))) => {
            return refusal(FAILED, &format!("the trace cannot be opened: {error}"));
        }
        Err(error) => return refusal(FAILED, &error.to_string()),
    };
    let address = match stream.local_addr() {
        Ok(address) => address.ip(),
        Err(error) => return refusal(FAILED, &error.to_string()),
    };
    match relay::offer(reading, address, peer.ip(), server, stop.clone()).await {
        Ok(port) => Message::response(OK).with("port", u32::from(port)),
        Err(reason) => refusal(FAILED, &reason),
    }
}

/// Lets the peer take the answer before the connection is gone.
async fn linger(mut stream: TcpStream) {
    let _ = stream.shutdown().await;
    let mut thrown = 0;
    let mut buffer = [0; 4096];
    let read = async {
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            thrown += count;
            if thrown > LINGER_BYTES {
                break;
            }
        }
    };
    let _ = timeout(LINGER, read).await;
}

/// As Unreal counts time.
fn ticks(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos() / 100)
        .map_or(i64::MAX, |ticks| ticks.saturating_add(UNIX_EPOCH_TICKS))
}

/// The address as a number, 127.0.0.1 as 0x7f000001; 0 for one that has no such number.
fn ipv4(address: IpAddr) -> u32 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) if address.is_loopback() => std::net::Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => 0,
    }
}

/// A GUID as it stands in a stream: Unreal prints its four numbers, and they lie there with their
/// lowest byte first.
fn guid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|c| !matches!(c, '-' | '{' | '}')).collect();
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(&digits, 16).ok().map(|number| {
        let mut bytes = number.to_be_bytes();
        bytes.chunks_exact_mut(4).for_each(<[u8]>::reverse);
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::super::access::Access;
    use super::super::catalogue::{Catalogue, Limits};
    use super::super::directory::Directory;
    use super::super::seats::Seats;
    use super::super::server::Clients;
    use super::*;
    use tokio::net::TcpListener;
    use tokio::sync::Semaphore;

    #[test]
    fn a_request_that_has_come_gets_an_answer_though_its_seat_is_given_away() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        let limits = Limits { trace: u64::MAX, store: u64::MAX };
        let server = Arc::new(Server {
            catalogue: Arc::new(Catalogue::new(directory, limits).unwrap()),
            access: Access::with(None),
            recorder_port: 0,
            store_port: 0,
            limits: Clients { programs: 1, readers: 1 },
            readers: Arc::new(Semaphore::new(1)),
            silence: None,
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut client = TcpStream::connect(address).await.unwrap();
            let (stream, peer) = listener.accept().await.unwrap();
            client.write_all(&Message::request("v1/version").encode()).await.unwrap();
            stream.readable().await.unwrap();
            let seats = Seats::new(1);
            let seat = seats.enter().unwrap();
            let _another = seats.enter().unwrap();
            let (_stop, stopping) = watch::channel(false);
            let answered = tokio::spawn(super::answer(stream, peer, seat, server, stopping));
            let mut size = [0; 4];
            client.read_exact(&mut size).await.unwrap();
            let mut answer = vec![0; u32::from_le_bytes(size) as usize];
            client.read_exact(&mut answer).await.unwrap();
            drop(client);
            answered.await.unwrap();
            Message::decode(&answer).unwrap()
        });
        assert_eq!(answer.integer("$status"), Some(i64::from(CROWDED)));
        assert!(answer.text("reason").unwrap().contains("all 1 connections are taken"));
    }

    #[test]
    fn ids_come_with_a_sign_and_without() {
        for (sent, id) in [
            (5, Some(5)),
            (-1, Some(u32::MAX)),
            (i64::from(u32::MAX), Some(u32::MAX)),
            (i64::from(i32::MIN), Some(1 << 31)),
            (0, None),
            (1 << 32, None),
            (i64::MIN, None),
        ] {
            assert_eq!(super::id(&Message::default().with("id", sent), "id"), id, "{sent}");
        }
        assert_eq!(super::id(&Message::default().with("id", "../../etc/passwd"), "id"), None);
    }

    #[test]
    fn guids_are_four_numbers() {
        let bytes = [4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9, 16, 15, 14, 13];
        assert_eq!(guid("0102030405060708090A0B0C0D0E0F10"), Some(bytes));
        assert_eq!(guid("{01020304-0506-0708-090a-0b0c0d0e0f10}"), Some(bytes));
        for text in ["", "0102", "0102030405060708090A0B0C0D0E0F1x", "ä".repeat(16).as_str()] {
            assert_eq!(guid(text), None);
        }
    }

    #[test]
    fn times_and_addresses_are_unreals() {
        assert_eq!(ticks(SystemTime::UNIX_EPOCH), UNIX_EPOCH_TICKS);
        let second = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        assert_eq!(ticks(second) - UNIX_EPOCH_TICKS, 10_000_000);
        assert_eq!(ipv4("127.0.0.1".parse().unwrap()), 0x7f00_0001);
        assert_eq!(ipv4("::ffff:10.1.2.3".parse().unwrap()), 0x0a01_0203);
        assert_eq!(ipv4("::1".parse().unwrap()), 0x7f00_0001);
        assert_eq!(ipv4("2001:db8::1".parse().unwrap()), 0);
    }
}
