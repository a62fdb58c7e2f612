//! Track events as a destination, as the program sets it.

use super::destination::{Destination, Target};
use super::running;
use crate::error::Error;
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

    /// Track events that Perfetto's `TraceConfig` describes, as text: which parts of it apply is in
    /// `docs/events.md`; the others are named in a message of the ledger. The file of a configuration with a
    /// ring buffer is written when the session ends.
    ///
    /// ```
    /// use memledger::Destination;
    /// let config = "duration_ms: 10000 data_sources { config { name: 'track_event' } }";
    /// let events = Destination::from_trace_config("run.pftrace", config)?;
    /// # #[cfg(tracking)] {
    /// let refused = Destination::from_trace_config("run.pftrace", "buffers {").unwrap_err();
    /// assert_eq!(refused.to_string(), "line 1 of the configuration: a } is missing at the end");
    /// # }
    /// # drop(events);
    /// # Ok::<(), memledger::Error>(())
    /// ```
    /// # Errors
    /// `ErrorKind::InvalidSession`, with the line.
    pub fn from_trace_config(path: impl Into<PathBuf>, text: &str) -> Result<TrackEvents, Error> {
        running::from_trace_config(path.into(), text)
    }
}

impl From<TrackEvents> for Destination {
    fn from(events: TrackEvents) -> Self {
        Self { target: Target::TrackEvents(events) }
    }
}
