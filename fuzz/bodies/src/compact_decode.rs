//! Any bytes as a compact packet. The checksum is corrected, because otherwise nearly all inputs
//! would be refused.

use crate::compact_encode::{encoder, example, sign};
use memledger_format::compact::{COMPACT_HEADER, CompactDecoder};
use std::cell::RefCell;

thread_local! {
    // One decoder for all inputs, as a reader has one for all packets: no input may affect the
    // next.
    static DECODER: RefCell<CompactDecoder> = RefCell::new(CompactDecoder::new());
}

/// Decodes `data` unchanged, then with a corrected checksum. A payload that results must be the
/// same after it is encoded and decoded again.
pub fn run(data: &[u8]) {
    DECODER.with_borrow_mut(|decoder| {
        if let Ok(payload) = decoder.decode(data) {
            assert!(CompactDecoder::is_whole(data) && payload.len() <= 0xffff);
        }
        let mut packet = data.to_vec();
        packet.truncate(0xffff);
        if packet.len() < COMPACT_HEADER {
            return;
        }
        sign(&mut packet);
        assert!(CompactDecoder::is_whole(&packet));
        let Ok(payload) = decoder.decode(&packet).map(<[u8]>::to_vec) else { return };
        assert_eq!(payload.len(), usize::from(u16::from_le_bytes([packet[4], packet[5]])));
        assert!(decoder.decode(&packet).as_deref() == Ok(&payload[..]), "the same again");
        let (protocol, mut coded) = (5 + packet[3] % 3, Vec::new());
        if encoder(protocol).append(2, &payload, &mut coded) {
            assert!(decoder.decode(&coded).as_deref() == Ok(&payload[..]), "coded anew");
        }
    });
}

/// Packets as the encoder makes them.
pub fn seeds() -> Vec<Vec<u8>> {
    let code = |protocol: u8| {
        let mut packet = Vec::new();
        assert!(encoder(protocol).append(2, &example(), &mut packet));
        packet
    };
    (5..=7).map(code).collect()
}
