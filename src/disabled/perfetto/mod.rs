//! Track events in a build without the feature `perfetto`: nothing asks for them.

/// No destination is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TrackEvents {}
