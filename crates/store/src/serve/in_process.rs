//! A recorder and a store in the process of another program, such as its tests.

use super::{Access, Clients, Directory, Limits, Listening, Settings, serve};
use crate::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// A recorder and a store on threads of their own. They end when this is dropped.
#[derive(Debug)]
pub struct InProcess {
    ready: Listening,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Settings {
    /// Settings for programs of this machine: any free ports, 2 threads, traces of at most 8 GiB and 64 GiB
    /// in all, 1,000 programs and 64 readers at once.
    ///
    /// # Errors
    /// If the folder cannot be created, or does not belong to the user.
    pub fn in_folder(folder: &Path) -> Result<Self, Error> {
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
            threads: 2,
            note: |_| {},
        })
    }
}

impl InProcess {
    /// Returns when both the recorder and the store listen.
    ///
    /// # Errors
    /// [`ErrorKind::Listen`] if a port is in use, [`ErrorKind::NotServing`] if the system refuses threads or
    /// the folder.
    pub fn start(settings: Settings) -> Result<Self, Error> {
        let (stop, stopped) = oneshot::channel();
        let (listening, listens) = mpsc::channel();
        let run = move || {
            // The server also stops when the sender is dropped.
            serve(settings, stopped, |ready| {
                let _ = listening.send(ready);
            })
        };
        let thread = std::thread::Builder::new()
            .name("memledger serve".into())
            .spawn(run)
            .map_err(|error| {
                Error::new(ErrorKind::NotServing, format!("no thread can be started: {error}"))
            })?;
        match listens.recv() {
            Ok(ready) => Ok(Self { ready, stop: Some(stop), thread: Some(thread) }),
            Err(_) => {
                let why = join(thread).err();
                Err(why.unwrap_or_else(|| {
                    Error::new(ErrorKind::NotServing, "the server ended at once")
                }))
            }
        }
    }

    /// Where it listens.
    pub fn listening(&self) -> &Listening {
        &self.ready
    }

    /// Stops the server within about 2 s. Its files are then complete.
    ///
    /// # Errors
    /// The reason, if the server had ended before.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        drop(self.stop.take());
        self.thread.take().map_or(Ok(()), join)
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn join(thread: JoinHandle<Result<(), Error>>) -> Result<(), Error> {
    thread.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::NotServing, "the server panicked")))
}
