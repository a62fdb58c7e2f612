//! The bytes a stream starts with.

use crate::platform::os;
use memledger_format::handshake::{Handshake, Transport};
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The port of the control server; 0 if there is none.
static CONTROL_PORT: AtomicU32 = AtomicU32::new(0);

/// Sets the port of the control server. The handshake of every stream that starts from now on names
/// it.
pub(crate) fn set_control_port(port: Option<u16>) {
    CONTROL_PORT.store(port.unwrap_or(0).into(), Ordering::Release);
}

/// The handshake for a new stream of this process.
pub(super) fn handshake(transport: Transport) -> Vec<u8> {
    static PROCESS: OnceLock<[u8; 16]> = OnceLock::new();
    let mut process = *PROCESS.get_or_init(guid);
    // The child of a fork is another process.
    for (byte, id) in process.iter_mut().zip(os::process_id().to_le_bytes()) {
        *byte ^= id;
    }
    let mut handshake = Handshake::new(transport);
    let port = u16::try_from(CONTROL_PORT.load(Ordering::Acquire)).ok();
    handshake.control_port = port.filter(|&port| port != 0);
    (handshake.session_guid, handshake.trace_guid) = (Some(process), Some(guid()));
    handshake.encode()
}

/// 16 unique bytes in the form of a random GUID.
fn guid() -> [u8; 16] {
    let mut guid = [0; 16];
    guid[..8].copy_from_slice(&RandomState::new().hash_one(1).to_le_bytes());
    guid[8..].copy_from_slice(&RandomState::new().hash_one(2).to_le_bytes());
    guid[6] = guid[6] & 0x0f | 0x40;
    guid[8] = guid[8] & 0x3f | 0x80;
    guid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_a_process_have_its_guid_and_one_of_their_own() {
        let [first, second] = [(); 2].map(|()| {
            let bytes = handshake(Transport::Unreal);
            Handshake::decode(&mut &bytes[..]).unwrap().0
        });
        assert!(first.session_guid.is_some());
        assert_eq!(first.session_guid, second.session_guid);
        assert_ne!(first.trace_guid, second.trace_guid);
        assert_ne!(first.trace_guid, first.session_guid);
    }
}
