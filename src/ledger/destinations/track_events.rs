//! Track events as a destination, as the program sets it.

use super::destination::{Destination, Target};
use crate::perfetto::{TrackEventConfig, TrackEvents};
use std::path::PathBuf;

impl Destination {
    /// A file with track events, as Perfetto's packets, of the categories that `config` enables. In the name,
    /// `%p` becomes the process id, `%t` the unix time in seconds, `%e` the name of the executable.
    ///
    /// ```
    /// # use memledger::perfetto::{TrackEventConfig, instant};
    /// # use memledger::{Destination, Ledger};
    /// memledger::perfetto::categories! { NETWORK = "network"; }
    ///
    /// let ledger = Ledger::builder().start()?;
    /// # let path = std::env::temp_dir().join(format!("memledger-events-{}.pftrace", std::process::id()));
    /// // The last 4 MiB, which are written at the end.
    /// let last = ledger.trace_to(Destination::track_events(&path, TrackEventConfig::all()).ring(4 << 20))?;
    /// instant!(NETWORK, "connected");
    /// # let now = path.with_extension("now");
    /// last.dump(&now)?; // and now
    /// last.stop();
    /// # let _ = (std::fs::remove_file(path), std::fs::remove_file(now));
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn track_events(path: impl Into<PathBuf>, config: TrackEventConfig) -> TrackEvents {
        TrackEvents { config, file: Some(path.into()), ..TrackEvents::default() }
    }

    /// A [ring](TrackEvents::ring) of track events without a file: it is written only where it is
    /// [dumped](super::DestinationHandle::dump).
    ///
    /// ```
    /// use memledger::perfetto::TrackEventConfig;
    /// use memledger::{Destination, Ledger};
    ///
    /// let ledger = Ledger::builder().start()?;
    /// let last = ledger.trace_to(Destination::track_event_ring(1 << 20, TrackEventConfig::all()))?;
    /// // ... where something went wrong: `last.dump("wrong.pftrace")` ...
    /// last.stop();
    /// # Ok::<(), memledger::Error>(())
    /// ```
    pub fn track_event_ring(bytes: usize, config: TrackEventConfig) -> TrackEvents {
        TrackEvents { config, ..TrackEvents::default() }.ring(bytes)
    }
}

impl From<TrackEvents> for Destination {
    fn from(events: TrackEvents) -> Self {
        Self { target: Target::TrackEvents(events) }
    }
}
