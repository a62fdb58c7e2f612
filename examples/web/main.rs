//! A web server whose heap can be profiled while it runs, where Go's servers have it.
//!
//!     cargo run --release -p memledger-web-example
//!     curl http://127.0.0.1:8080/page/7
//!     go tool pprof -top http://127.0.0.1:8080/debug/pprof/heap
//!
//! Parca scrapes it with `memory: {enabled: true, path: /debug/pprof/heap}` in its `pprof_config`,
//! Pyroscope (Grafana Alloy) with `profile.memory {enabled = true, path = "/debug/pprof/heap"}`.
//!
//! NOTE: a profile has names of the program's functions and scopes. This route belongs on a port that
//! only the machine itself, or those who scrape it, can reach.

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use memledger::{AllocScope, Ledger, Stacks, Tag, TrackingAllocator, group, tag};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

group! {
    CACHE = "Cache";
}

const PAGES: Tag = tag!(CACHE, "pages");

/// What the server keeps.
struct Server {
    ledger: Ledger,
    pages: Mutex<HashMap<u32, Vec<u8>>>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = server()?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:8080").await?;
        println!("http://{}/debug/pprof/heap", listener.local_addr()?);
        axum::serve(listener, routes(server)).await
    })?;
    Ok(())
}

fn server() -> Result<Arc<Server>, memledger::Error> {
    // The accounts in the process are all that a profile needs: no file, no report at the end.
    let ledger = Ledger::builder().analyze_in_process(true).stacks(Stacks::On).start()?;
    Ok(Arc::new(Server { ledger, pages: Mutex::default() }))
}

fn routes(server: Arc<Server>) -> Router {
    Router::new()
        .route("/page/{number}", get(page))
        .route("/debug/pprof/heap", get(heap))
        // Where Parca and Pyroscope look unless they are given a path. It is the same profile.
        .route("/debug/pprof/allocs", get(heap))
        .with_state(server)
}

/// A page, which the server keeps.
async fn page(State(server): State<Arc<Server>>, Path(number): Path<u32>) -> String {
    let page = async { vec![b' '; 10_000] }.alloc_tagged(PAGES).await;
    let mut pages = server.pages.lock().unwrap_or_else(PoisonError::into_inner);
    pages.insert(number, page);
    format!("there are {} pages\n", pages.len())
}

/// The profile, as Go's servers answer: with the parameters that scrapers send.
async fn heap(State(server): State<Arc<Server>>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let parameter = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map_or(0, |(_, value)| value.parse().unwrap_or(0_u64))
    };
    if parameter("seconds") > 0 {
        let sentence = "a profile is of a moment, not of some seconds: take two, and give pprof \
                        the first as -diff_base\n";
        return (StatusCode::BAD_REQUEST, sentence).into_response();
    }
    // `gc=1` has Go collect garbage first. There is none here: what is not freed is live.
    let is_text = parameter("debug") > 0;
    // It takes up to some seconds, so it runs where a thread may block.
    let made = tokio::task::spawn_blocking(move || match is_text {
        true => text(&server.ledger),
        false => server.ledger.pprof().map_err(|error| error.to_string()),
    });
    let content_type =
        if is_text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
    match made.await.unwrap_or_else(|error| Err(error.to_string())) {
        // As Go does: the file is a gzip file, so there is no `Content-Encoding`.
        Ok(bytes) => ([(header::CONTENT_TYPE, content_type)], bytes).into_response(),
        Err(sentence) => (StatusCode::SERVICE_UNAVAILABLE, sentence + "\n").into_response(),
    }
}

/// What `debug=1` asks for: text for people.
fn text(ledger: &Ledger) -> Result<Vec<u8>, String> {
    #[cfg(feature = "enable")]
    if let Some(snapshot) = ledger.snapshot() {
        let mut text = Vec::new();
        memledger_export::text::write(snapshot.report(), &Default::default(), &mut text)
            .map_err(|error| error.to_string())?;
        return Ok(text);
    }
    ledger.pprof().map_err(|error| error.to_string())
}

#[cfg(all(test, feature = "enable"))]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    /// The head and the body of an answer.
    fn request(address: std::net::SocketAddr, target: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(address).expect("a connection");
        write!(stream, "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head") + 4;
        let body = answer.split_off(end);
        (String::from_utf8(answer).expect("text").to_lowercase(), body)
    }

    #[test]
    fn scrapers_get_a_profile() {
        let server = server().expect("a ledger");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        runtime.spawn(async { axum::serve(listener, routes(server)).await });
        assert!(request(address, "/page/7").1.starts_with(b"there are 1 pages"));
        // As Parca, Pyroscope, and `go tool pprof` ask for it.
        for target in ["/debug/pprof/heap", "/debug/pprof/allocs?debug=0", "/debug/pprof/heap?gc=1"]
        {
            let (head, body) = request(address, target);
            assert!(head.starts_with("http/1.1 200 "), "{head}");
            assert!(head.contains("content-type: application/octet-stream\r\n"), "{head}");
            assert!(!head.contains("content-encoding"), "{head}");
            assert_eq!(body[..3], [0x1f, 0x8b, 8], "gzip");
        }
        let (head, body) = request(address, "/debug/pprof/heap?debug=1");
        assert!(head.contains("content-type: text/plain"), "{head}");
        assert!(String::from_utf8(body).expect("text").contains("peak"));
        let (head, body) = request(address, "/debug/pprof/heap?seconds=5");
        assert!(head.starts_with("http/1.1 400 "), "{head}");
        assert!(body.starts_with(b"a profile is of a moment"));
    }
}
