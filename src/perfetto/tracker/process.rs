//! The tracks of this process and its threads.

use crate::perfetto::Track;
use crate::platform::{clock, os};
use memledger_format::protobuf::perfetto::fnv1a;

impl Track {
    /// The track of this process. Costs a system call. [`Track`] has an example.
    pub fn process() -> Self {
        let [a, b, c, d] = os::process_id().to_le_bytes();
        let [e, f, g, h, i, j, k, l] = clock::process_start().to_le_bytes();
        Self { uuid: fnv1a(&[e, f, g, h, i, j, k, l, a, b, c, d]) }
    }

    /// The track of the calling thread, where its events are that name no other. Costs two system calls.
    /// [`Track`] has an example.
    pub fn thread() -> Self {
        Self { uuid: Self::process().uuid ^ u64::from(os::thread_id()) }
    }
}
