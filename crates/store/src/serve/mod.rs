//! A recorder, and the store of what it has recorded.
//!
//! ```text
//! programs ──► recorder ──► recording ──► files in directory
//!                               │             ▲
//! readers ◄──► query ──► catalogue ───────────┘
//!    ▲           └──► relay ──► the bytes in the file, then new ones
//!    └─────────────────┘
//! ```

mod access;
mod catalogue;
mod connection_limit;
mod directory;
mod in_process;
mod listen;
mod query;
#[doc(hidden)]
pub mod recorder;
mod recording;
mod relay;
mod server;

pub use access::Access;
pub use catalogue::Limits;
pub use directory::{Directory, default_path};
pub use in_process::InProcess;
pub use listen::raise_file_limit;
pub use server::Clients;

use crate::{Error, ErrorKind};
use catalogue::{Catalogue, CatalogueTotals};
use connection_limit::ConnectionLimit;
use server::Server;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

/// The longest time that open connections have to finish after the signal to stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum number of threads that wait for the disk, each for 64 KiB at a time.
const DISK_THREADS: usize = 16;

/// What a recorder and its store are allowed, and where they listen.
#[derive(Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The folder with the traces.
    pub directory: Directory,
    /// Who may connect.
    pub access: Access,
    /// The address that both listen at.
    pub address: IpAddr,
    /// The ports that must be free.
    pub recorder_ports: Vec<u16>,
    /// A port that is also used if it is free.
    pub second_port: Option<u16>,
    /// The port of the store.
    pub store_port: u16,
    /// How large traces may become.
    pub limits: Limits,
    /// How many may be connected at once.
    pub clients: Clients,
    /// A program that sends nothing for this time is disconnected.
    pub silence: Option<Duration>,
    /// The number of threads that serve, at least 1. Up to 16 more wait for the disk.
    pub threads: usize,
    /// Receives a sentence about each trace, and about each connection that is refused.
    pub note: fn(&str),
}

/// The addresses that the server listens at, and the traces that it found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listening {
    /// The addresses that programs send to, one for each port; empty if the recorder is off.
    pub recorder: Vec<SocketAddr>,
    /// The address that the store listens at, for [`Store::connect`](crate::Store::connect).
    pub store: SocketAddr,
    /// The folder with the traces.
    pub directory: PathBuf,
    /// The traces that are there already.
    pub totals: CatalogueTotals,
}

/// Serves until `stopped` completes. Calls `ready` once it listens.
fn serve(
    settings: Settings,
    stopped: impl Future,
    ready: impl FnOnce(Listening),
) -> Result<(), Error> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(settings.threads.max(1))
        .max_blocking_threads(DISK_THREADS)
        .enable_all()
        .build()
        .map_err(|error| {
            Error::new(ErrorKind::NotServing, format!("no threads can be started: {error}"))
        })?;
    let lock = settings.directory.lock();
    let lock = lock.map_err(|error| {
        Error::new(ErrorKind::NotServing, format!("no file can be opened: {error}"))
    })?;
    let result = runtime.block_on(run(settings, stopped, ready));
    runtime.shutdown_timeout(Duration::from_millis(100));
    // NOTE: a thread of the runtime may still have the folder, and so has a process that another thread has
    // just forked, until its `exec`.
    let _ = lock.unlock();
    result
}

/// Binds the ports of the recorder, and that of the store.
async fn bind(settings: &Settings) -> Result<(Vec<TcpListener>, TcpListener), Error> {
    let mut recorders = Vec::new();
    for port in &settings.recorder_ports {
        recorders.push(listen::bind(settings.address, *port).await?);
    }
    if let Some(port) = settings.second_port {
        match listen::bind(settings.address, port).await {
            Ok(listener) => recorders.push(listener),
            Err(error) => (settings.note)(&format!("continuing without port {port}: {error:#}")),
        }
    }
    let store = listen::bind(settings.address, settings.store_port).await?;
    Ok((recorders, store))
}

/// Accepts programs and readers until `true` is sent.
fn accept(
    server: &Arc<Server>,
    recorders: Vec<TcpListener>,
    store: TcpListener,
) -> watch::Sender<bool> {
    let (stop, stopping) = watch::channel(false);
    let note = server.note;
    let programs = ConnectionLimit::new(server.limits.programs);
    for listener in recorders {
        let (programs, stopping) = (Arc::clone(&programs), stopping.clone());
        let server = Arc::clone(server);
        tokio::spawn(listen::accept(
            listener,
            programs,
            note,
            stopping,
            move |stream, peer, permit, stop| {
                recorder::record(stream, peer, permit, Arc::clone(&server), stop)
            },
        ));
    }
    let clients = ConnectionLimit::new(server.limits.readers);
    let server = Arc::clone(server);
    tokio::spawn(listen::accept(
        store,
        clients,
        note,
        stopping,
        move |stream, peer, permit, stop| {
            query::answer(stream, peer, permit, Arc::clone(&server), stop)
        },
    ));
    stop
}

async fn run(
    settings: Settings,
    stopped: impl Future,
    ready: impl FnOnce(Listening),
) -> Result<(), Error> {
    let (recorders, store) = bind(&settings).await?;
    let address = |listener: &TcpListener| {
        listener.local_addr().map_err(|error| Error::new(ErrorKind::NotServing, error.to_string()))
    };
    let recorder = recorders.iter().map(address).collect::<Result<Vec<_>, _>>()?;
    let store_address = address(&store)?;

    let path = settings.directory.path().to_owned();
    let catalogue = Catalogue::new(settings.directory, settings.limits).map_err(|error| {
        Error::new(
            ErrorKind::NotServing,
            format!("cannot list the traces in {}: {error}", path.display()),
        )
    })?;
    let totals = catalogue.totals();
    let note = settings.note;
    let server = Arc::new(Server {
        catalogue: Arc::new(catalogue),
        access: settings.access,
        recorder_port: recorder.first().map_or(0, SocketAddr::port),
        store_port: store_address.port(),
        limits: settings.clients,
        readers: Arc::new(Semaphore::new(settings.clients.readers)),
        silence: settings.silence,
        note,
    });
    let stop = accept(&server, recorders, store);
    ready(Listening { recorder, store: store_address, directory: path, totals });
    stopped.await;
    let _ = stop.send(true);
    // Every open connection holds a receiver, so the channel closes after the last of them.
    if timeout(SHUTDOWN_TIMEOUT, stop.closed()).await.is_err() {
        note("stopping, although some connections are still open");
    }
    Ok(())
}
