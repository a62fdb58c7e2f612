//! The uuids of this process's and its threads' tracks.

use crate::platform::{clock, os};
use memledger_format::protobuf::perfetto::fnv1a;

/// The uuid of the track of this process. Costs a system call.
pub fn process_track_uuid() -> u64 {
    let start = clock::process_start().to_le_bytes();
    let [a, b, c, d] = std::process::id().to_le_bytes();
    let [e, f, g, h, i, j, k, l] = start;
    fnv1a(&[e, f, g, h, i, j, k, l, a, b, c, d])
}

/// The uuid of the track of the calling thread. Costs two system calls.
pub fn thread_track_uuid() -> u64 {
    process_track_uuid() ^ u64::from(os::thread_id())
}
