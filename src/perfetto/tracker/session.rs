//! What the sink of a session shares with the handles of its destination: each can end it, and it ends once.

use super::active::{Active, Notifications};
use super::output::Ring;
use crate::error::{Error, ErrorKind};
use crate::perfetto::config::TrackEventConfig;
use crate::trace::sink::Shared;
use crate::trace::write::untracked;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Session {
    active: Mutex<Option<Active>>,
    /// `None` if its packets go to a file.
    pub(super) ring: Option<Arc<Ring>>,
    pub(super) events: AtomicU64,
    pub(super) lost: AtomicU64,
}

impl Session {
    /// A session that enables nothing yet.
    pub(crate) fn new(ring: Option<Arc<Ring>>) -> Arc<Self> {
        Arc::new(Self { ring, ..Self::default() })
    }

    /// Enables the categories of `config`. The callbacks are due when no lock is held.
    pub(crate) fn enable(&self, config: &TrackEventConfig) -> Result<Notifications, Error> {
        let (active, notifications) = Active::start(config.clone())?;
        *self.active.lock().unwrap_or_else(PoisonError::into_inner) = Some(active);
        Ok(notifications)
    }
}

impl Shared for Session {
    fn events(&self) -> (u64, u64) {
        (self.events.load(Ordering::Relaxed), self.lost.load(Ordering::Relaxed))
    }

    fn dump(&self, path: &Path) -> Result<u64, Error> {
        let Some(ring) = &self.ring else {
            return Err(Error::new(
                ErrorKind::InvalidSession,
                "only a session with a ring buffer can be dumped; this one writes to a file",
            ));
        };
        ring.dump(path)
    }

    fn disable(&self) {
        let active = self.active.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stopped = active.map(|active| untracked(|| active.stop()));
        stopped.unwrap_or_default().run();
    }

    fn end(&self) -> Result<(), Error> {
        self.ring.as_ref().map_or(Ok(()), |ring| ring.finish())
    }

    fn forget(&self) {
        if let Some(ring) = &self.ring {
            ring.clear();
        }
    }
}
