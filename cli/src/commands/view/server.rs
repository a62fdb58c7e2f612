//! HTTP: who may ask, and what.
//!
//! Programs of this machine only, and of these, only those that know the token: the page has it from its
//! address. A page from elsewhere cannot ask, even if it guesses the port: its requests have another
//! `Origin`, and after a change of its name's address another `Host`.

use super::answers::{self, Parameters, TraceView};
use super::passes::Cancel;
use super::picture::Picture;
use super::reading::Status;
use crate::error::CliError;
use axum::Router;
use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use memledger_export::html::page_with;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};

/// How many passes over the trace run at once.
const PASSES: usize = 2;

/// The page runs its own script only, asks this server only, and is in no frame.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; \
                      img-src data: blob:; connect-src 'self'; worker-src blob:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

#[derive(Clone)]
struct Server {
    token: Arc<str>,
    hosts: Arc<[String]>,
    status: watch::Receiver<Status>,
    passes: Arc<Semaphore>,
}

/// Serves until the listener fails, which is never.
pub async fn serve(
    listener: TcpListener,
    address: SocketAddr,
    token: &str,
    status: watch::Receiver<Status>,
) {
    let names = ["127.0.0.1", "localhost", "[::1]"];
    let server = Server {
        token: token.into(),
        hosts: names.iter().map(|name| format!("{name}:{}", address.port())).collect(),
        status,
        passes: Arc::new(Semaphore::new(PASSES)),
    };
    let router = Router::new()
        .route("/", get(page))
        .route("/api/page", get(document))
        .route("/api/progress", get(progress))
        .route("/api/query", get(query))
        .route("/api/blocks", get(blocks))
        .route("/api/block", get(block))
        .fallback(async || problem(StatusCode::NOT_FOUND, "there is no such page"))
        .layer(from_fn_with_state(server.clone(), check))
        .with_state(server);
    let _ = axum::serve(listener, router).await;
}

/// An error, as the page shows it.
fn problem(status: StatusCode, sentence: &str) -> Response {
    (status, axum::Json(json!({ "error": sentence }))).into_response()
}

/// Lets only those ask who may, and says to browsers what the page may do.
async fn check(State(server): State<Server>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let text = |name: header::HeaderName| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let is_host = |host: &[u8]| server.hosts.iter().any(|own| own.as_bytes() == host);
    let is_origin = |origin: &[u8]| origin.strip_prefix(b"http://").is_some_and(is_host);
    let has_host = text(header::HOST).count() == 1 && text(header::HOST).all(is_host);
    let parameters = Query::<HashMap<String, String>>::try_from_uri(request.uri());
    let token = parameters.ok().and_then(|mut all| all.0.remove("token")).unwrap_or_default();
    let has_token = bool::from(token.as_bytes().ct_eq(server.token.as_bytes()));
    let mut response = if !has_host {
        problem(StatusCode::FORBIDDEN, "this server answers as 127.0.0.1 or localhost only")
    } else if !text(header::ORIGIN).all(is_origin) {
        problem(StatusCode::FORBIDDEN, "this server refuses requests from other sites")
    } else if !has_token {
        problem(
            StatusCode::FORBIDDEN,
            "the address lacks its token; use the address that memledger view has printed",
        )
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// `GET /`: the page.
async fn page(State(server): State<Server>) -> Html<String> {
    let (program, trace) = {
        let status = server.status.borrow();
        let program = status.picture.as_ref().and_then(|picture| picture.program.clone());
        (program, status.trace.file_name().map(|name| name.to_string_lossy().into_owned()))
    };
    let program = program.or(trace);
    let own = json!({ "token": &*server.token });
    let script = format!("<script>window.memledgerServer = {own}</script>");
    Html(page_with(program.as_deref(), &script))
}

/// Waits for the first picture.
async fn picture(server: &Server) -> Result<Arc<Picture>, Response> {
    let mut status = server.status.clone();
    let status = status.wait_for(|status| status.picture.is_some() || status.failed.is_some());
    let Ok(status) = status.await else {
        return Err(problem(StatusCode::SERVICE_UNAVAILABLE, "memledger view has ended"));
    };
    match (&status.failed, &status.picture) {
        (None, Some(picture)) => Ok(Arc::clone(picture)),
        (Some(sentence), _) => Err(problem(StatusCode::GONE, sentence)),
        (None, None) => Err(problem(StatusCode::SERVICE_UNAVAILABLE, "there is no picture yet")),
    }
}

/// `GET /api/page`: the document.
async fn document(State(server): State<Server>) -> Response {
    match picture(&server).await {
        Ok(picture) => {
            let json = HeaderValue::from_static("application/json");
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, json)]);
            (headers, Body::from(picture.page.clone())).into_response()
        }
        Err(response) => response,
    }
}

/// `GET /api/progress`: how much was read, that there is a picture, that there is another.
async fn progress(
    State(server): State<Server>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut shown = None;
    let events = WatchStream::new(server.status).filter_map(move |status| {
        let event = match (&status.failed, &status.picture) {
            (Some(sentence), _) => json!({ "error": &**sentence }),
            (None, None) => {
                let fraction = f64::from(status.read) / 1e9;
                json!({ "fraction": fraction, "events": status.events })
            }
            (None, Some(_)) if shown == Some(status.number) => return None,
            (None, Some(picture)) => {
                let key = if shown.is_none() { "ready" } else { "changed" };
                shown = Some(status.number);
                json!({ key: true, "is_growing": picture.is_growing, "notes": picture.notes })
            }
        };
        Some(Ok(Event::default().data(event.to_string())))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

async fn query(server: State<Server>, parameters: Query<Parameters>) -> Response {
    answer(server.0, parameters.0, answers::query).await
}

async fn blocks(server: State<Server>, parameters: Query<Parameters>) -> Response {
    answer(server.0, parameters.0, answers::blocks).await
}

async fn block(server: State<Server>, parameters: Query<Parameters>) -> Response {
    answer(server.0, parameters.0, answers::block).await
}

type Answer = fn(&TraceView, &Parameters, &Cancel) -> Result<Value, CliError>;

/// Answers on a separate thread. A pass ends if the browser waits no longer.
async fn answer(server: Server, parameters: Parameters, answer: Answer) -> Response {
    let picture = match picture(&server).await {
        Ok(picture) => picture,
        Err(response) => return response,
    };
    let viewed = {
        let status = server.status.borrow();
        TraceView { trace: status.trace.clone(), picture, lives: status.lives.clone() }
    };
    let Ok(permit) = server.passes.clone().acquire_owned().await else {
        return problem(StatusCode::SERVICE_UNAVAILABLE, "memledger view has ended");
    };
    let cancel = Cancel::default();
    let _guard = cancel.guard();
    let answered = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        answer(&viewed, &parameters, &cancel)
    });
    match answered.await {
        Ok(Ok(document)) => axum::Json(document).into_response(),
        Ok(Err(error @ CliError::Usage(_))) => problem(StatusCode::BAD_REQUEST, &error.to_string()),
        Ok(Err(error)) => problem(StatusCode::CONFLICT, &error.to_string()),
        Err(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be made"),
    }
}
