//! A recorder and a store in the process of another program, such as its tests.

use super::{Access, Clients, Directory, Limits, Listening, Settings, serve_until};
use crate::error::CliError;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// A recorder and a store on a thread of their own, with the functions of `memledger serve`. They
/// end when this is dropped.
#[derive(Debug)]
pub struct InProcess {
    ready: Listening,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), CliError>>>,
}

impl Settings {
    /// Settings for programs of this machine: any free ports, and the limits of `memledger serve`.
    ///
    /// # Errors
    /// If the folder cannot be created, or does not belong to the user.
    pub fn in_folder(folder: &Path) -> Result<Self, CliError> {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Ok(Self {
            directory: Directory::open(folder)?,
            access: Access::new(address, None)?,
            address,
            recorder_ports: vec![0],
            second_port: None,
            store_port: 0,
            limits: Limits { trace: 8 << 30, store: 64 << 30 },
            clients: Clients { programs: 1000, readers: 64 },
            silence: None,
        })
    }
}

impl InProcess {
    /// Returns when both the recorder and the store listen.
    ///
    /// # Errors
    /// Those of `memledger serve`.
    pub fn start(settings: Settings) -> Result<Self, CliError> {
        let (stop, stopped) = oneshot::channel();
        let (listening, listens) = mpsc::channel();
        let ended = move || {
            Ok(async {
                // The server also stops when the sender is dropped.
                let _ = stopped.await;
            })
        };
        let run = move || {
            serve_until(ended, settings, |ready| {
                let _ = listening.send(ready.clone());
                Ok(())
            })
        };
        let thread = std::thread::Builder::new()
            .name("memledger serve".into())
            .spawn(run)
            .map_err(|error| CliError::Failed(format!("no thread can be started: {error}")))?;
        match listens.recv() {
            Ok(ready) => Ok(Self { ready, stop: Some(stop), thread: Some(thread) }),
            Err(_) => {
                let why = join(thread).err();
                Err(why.unwrap_or_else(|| CliError::Failed("the server ended at once".into())))
            }
        }
    }

    /// The addresses that programs send to, one for each port; empty if the recorder is off.
    pub fn recorder(&self) -> &[SocketAddr] {
        &self.ready.recorder
    }

    /// The address that the store listens at, for `remote::store::Store::connect`.
    pub fn store(&self) -> SocketAddr {
        self.ready.store
    }

    /// Stops the server within about 2 s. Its files are then complete.
    ///
    /// # Errors
    /// The reason, if the server had ended before.
    pub fn stop(mut self) -> Result<(), CliError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), CliError> {
        drop(self.stop.take());
        self.thread.take().map_or(Ok(()), join)
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn join(thread: JoinHandle<Result<(), CliError>>) -> Result<(), CliError> {
    thread.join().unwrap_or_else(|_| Err(CliError::Failed("the server panicked".into())))
}
