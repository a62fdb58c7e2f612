//! `memledger serve`: a recorder, and the store of what it has recorded.
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
pub mod recorder;
mod recording;
mod relay;
mod server;
mod trailer;

pub use access::Access;
pub use catalogue::Limits;
pub use directory::{Directory, default_path};
pub use in_process::InProcess;
pub use listen::stop_signal;
pub use server::Clients;
pub use trailer::{Ending, ending};

use crate::error::CliError;
use crate::terminal::note;
use catalogue::{Catalogue, Totals};
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

/// The settings from the command line.
#[derive(Debug)]
pub struct Settings {
    pub directory: Directory,
    pub access: Access,
    pub address: IpAddr,
    /// The ports that must be free.
    pub recorder_ports: Vec<u16>,
    /// A port that is also used if it is free.
    pub second_port: Option<u16>,
    pub store_port: u16,
    pub limits: Limits,
    pub clients: Clients,
    /// A program that sends nothing for this time is disconnected.
    pub silence: Option<Duration>,
}

/// The addresses that the server listens at, and the traces that it found.
#[derive(Clone, Debug)]
pub struct Listening {
    pub recorder: Vec<SocketAddr>,
    pub store: SocketAddr,
    pub directory: PathBuf,
    pub totals: Totals,
}

/// Serves until Ctrl-C or SIGTERM. Calls `ready` once it listens.
pub fn serve(
    settings: Settings,
    ready: impl FnOnce(&Listening) -> Result<(), CliError>,
) -> Result<(), CliError> {
    serve_until(listen::stop_signal, settings, ready)
}

/// Serves until the future that `stop` returns completes. Calls `ready` once it listens.
fn serve_until<F: Future<Output = ()>>(
    stop: impl FnOnce() -> Result<F, CliError>,
    settings: Settings,
    ready: impl FnOnce(&Listening) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let failed = |what: &str, error: std::io::Error| CliError::Failed(format!("{what}: {error}"));
    listen::raise_file_limit(settings.clients);
    let runtime = Builder::new_multi_thread()
        .worker_threads(std::thread::available_parallelism().map_or(1, |cores| cores.get().min(4)))
        .max_blocking_threads(DISK_THREADS)
        .enable_all()
        .build()
        .map_err(|error| failed("no threads can be started", error))?;
    let lock = settings.directory.lock().map_err(|error| failed("no file can be opened", error))?;
    let result = runtime.block_on(run(stop, settings, ready));
    runtime.shutdown_timeout(Duration::from_millis(100));
    // NOTE: a thread of the runtime may still have the folder, and so has a process that another thread has
    // just forked, until its `exec`.
    let _ = lock.unlock();
    result
}

/// Binds the ports of the recorder, and that of the store.
async fn bind(settings: &Settings) -> Result<(Vec<TcpListener>, TcpListener), CliError> {
    let mut recorders = Vec::new();
    for port in &settings.recorder_ports {
        recorders.push(listen::bind(settings.address, *port, "--recorder-port").await?);
    }
    if let Some(port) = settings.second_port {
        match listen::bind(settings.address, port, "--recorder-port").await {
            Ok(listener) => recorders.push(listener),
            Err(error) => note(&format!("continuing without port {port}: {error}")),
        }
    }
    let store = listen::bind(settings.address, settings.store_port, "--store-port").await?;
    Ok((recorders, store))
}

async fn run<F: Future<Output = ()>>(
    stop: impl FnOnce() -> Result<F, CliError>,
    settings: Settings,
    ready: impl FnOnce(&Listening) -> Result<(), CliError>,
) -> Result<(), CliError> {
    // Signals are received before there is any output, so that a Ctrl-C after its first line stops
    // the server in order.
    let stopped = stop()?;
    let (recorders, store) = bind(&settings).await?;
    let address = |listener: &TcpListener| {
        listener.local_addr().map_err(|error| CliError::Failed(error.to_string()))
    };
    let recorder = recorders.iter().map(address).collect::<Result<Vec<_>, _>>()?;
    let store_address = address(&store)?;

    let path = settings.directory.path().to_owned();
    let catalogue = Catalogue::new(settings.directory, settings.limits).map_err(|error| {
        CliError::Failed(format!("cannot list the traces in {}: {error}", path.display()))
    })?;
    let totals = catalogue.totals();
    let server = Arc::new(Server {
        catalogue: Arc::new(catalogue),
        access: settings.access,
        recorder_port: recorder.first().map_or(0, SocketAddr::port),
        store_port: store_address.port(),
        limits: settings.clients,
        readers: Arc::new(Semaphore::new(settings.clients.readers)),
        silence: settings.silence,
    });
    let (stop, stopping) = watch::channel(false);
    let programs = ConnectionLimit::new(settings.clients.programs);
    for listener in recorders {
        let programs = Arc::clone(&programs);
        let server = Arc::clone(&server);
        tokio::spawn(listen::accept(
            listener,
            programs,
            stopping.clone(),
            move |stream, peer, permit, stop| {
                recorder::record(stream, peer, permit, Arc::clone(&server), stop)
            },
        ));
    }
    let clients = ConnectionLimit::new(settings.clients.readers);
    let shared = Arc::clone(&server);
    tokio::spawn(listen::accept(store, clients, stopping, move |stream, peer, permit, stop| {
        query::answer(stream, peer, permit, Arc::clone(&shared), stop)
    }));

    ready(&Listening { recorder, store: store_address, directory: path, totals })?;
    stopped.await;
    let _ = stop.send(true);
    // Every open connection holds a receiver, so the channel closes after the last of them.
    if timeout(SHUTDOWN_TIMEOUT, stop.closed()).await.is_err() {
        note("stopping, although some connections are still open");
    }
    Ok(())
}
