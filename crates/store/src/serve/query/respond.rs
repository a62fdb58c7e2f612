//! The answer to one request.

use super::super::catalogue::{SendingProgram, Trace};
use super::super::connection_limit::Permit;
use super::super::relay;
use super::super::server::Server;
use super::encoding::{guid, id, ipv4, ticks};
use crate::Message;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

/// The version of the protocol, in Unreal's numbering.
const VERSION: (u32, u32) = (1, 0);

const OK: u32 = 200;
pub const BAD_REQUEST: u32 = 400;
const FORBIDDEN: u32 = 403;
const NOT_FOUND: u32 = 404;
const FAILED: u32 = 500;
pub const BUSY: u32 = 503;

/// The answer to a request, and whether the connection stays open.
pub async fn respond(
    body: &[u8],
    stream: &TcpStream,
    peer: SocketAddr,
    permit: &Permit,
    server: &Arc<Server>,
    stop: &watch::Receiver<bool>,
) -> (Message, bool) {
    let request = match Message::decode(body) {
        Ok(request) => request,
        Err(error) => return (refusal(BAD_REQUEST, &error.to_string()), true),
    };
    if !server.access.allows(peer, request.text("$token")) {
        let reason = match request.text("$token") {
            None => "from another machine every request needs a token",
            Some(_) => "the token is wrong",
        };
        return (refusal(FORBIDDEN, reason), false);
    }
    if !permit.set_busy() {
        let most = server.limits.readers;
        let reason = format!("all {most} connections are in use; try again");
        return (refusal(BUSY, &reason), false);
    }
    let Some(path) = request.text("$path").map(str::to_owned) else {
        return (refusal(BAD_REQUEST, "the request has no '$path'"), true);
    };
    if request.text("$request") != Some("GET") {
        return (refusal(BAD_REQUEST, "'$request' can be 'GET' only"), true);
    }
    let response = if path == "v1/trace/read" {
        read(&request, stream, peer, server, stop).await
    } else {
        let server = Arc::clone(server);
        let response = spawn_blocking(move || look_up(&path, &request, &server)).await;
        response.unwrap_or_else(|error| refusal(FAILED, &error.to_string()))
    };
    (response, true)
}

/// An answer with this status and a reason.
pub fn refusal(status: u32, reason: &str) -> Message {
    Message::response(status).with("reason", reason)
}

fn not_found(what: &str) -> Message {
    refusal(NOT_FOUND, &format!("there is no such {what}"))
}

/// The answer to a request that only reads the catalogue.
fn look_up(path: &str, request: &Message, server: &Server) -> Message {
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
                _ => return refusal(BAD_REQUEST, "the request needs an 'index' or an 'id'"),
            };
            trace.map_or_else(|| not_found("trace"), |trace| trace_info(&trace, server))
        }
        "v1/session/count" => response.with("count", catalogue.totals().sessions as i64),
        "v1/session/info" => match session(request, server) {
            Err(refusal) => refusal,
            Ok(None) => not_found("session"),
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

fn session(request: &Message, server: &Server) -> Result<Option<(Trace, SendingProgram)>, Message> {
    let catalogue = &server.catalogue;
    let live = |wanted: &dyn Fn(&Trace, &SendingProgram) -> bool| {
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
            return Err(refusal(BAD_REQUEST, "a 'trace_guid' has 32 hexadecimal digits"));
        };
        live(&|_, live| live.guid == Some(guid))
    } else {
        let reason = "the request needs an 'index', an 'id', a 'trace_id' or a 'trace_guid'";
        return Err(refusal(BAD_REQUEST, reason));
    };
    Ok(trace.and_then(|trace| Some((trace.clone(), trace.live?))))
}

/// Opens the trace, and a port that sends the trace's bytes.
async fn read(
    request: &Message,
    stream: &TcpStream,
    peer: SocketAddr,
    server: &Arc<Server>,
    stop: &watch::Receiver<bool>,
) -> Message {
    let Some(id) = id(request, "id") else {
        return refusal(BAD_REQUEST, "the request needs an 'id'");
    };
    let catalogue = Arc::clone(&server.catalogue);
    let reading = match spawn_blocking(move || catalogue.read(id)).await {
        Ok(Some(Ok(reading))) => reading,
        Ok(None) => return not_found("trace"),
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
