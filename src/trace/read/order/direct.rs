//! The short way: events whose turn it is go from their packet to the visitor, without a copy.
//!
//! It ends at the first byte that needs more than that (another serial than the next, an event that
//! is cut off, has arrays, or is of an unknown type, anything illegal), and all from there on takes
//! the long way through [`Thread`](super::Thread). Up to there both do the same, in the same order.
//!
//! NOTE: one thing can be seen. The long way reports damage when it parses a packet, before it
//! delivers the events in front of the damage; this one has delivered them by then. And an event
//! that has had its turn keeps its serial, even if that of the event behind it is not above.

use super::{Event, Order, Protocol, Tally, Types, Visitor};
use crate::trace::event::schema::FIRST_UID;
use crate::trace::read::schemas::Builtin;

impl Order {
    /// Delivers what stands at the start of a packet and waits for nothing; returns its size.
    pub(super) fn pass_on(
        &mut self,
        index: usize,
        payload: &[u8],
        protocol: &Protocol,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) -> usize {
        let Some(thread) = self.threads.get_mut(index).filter(|thread| thread.is_idle()) else {
            return 0;
        };
        if self.next == 0 || self.next <= thread.last || !self.serials.expects(self.next) {
            return 0;
        }
        let first = self.next;
        let mut next = first;
        let mut events = 0;
        let mut rest = payload;
        while let Some(&head) = rest.first() {
            let (uid, uid_size) = match rest.first_chunk::<2>() {
                Some(&uid) if head & 1 != 0 => (u16::from_le_bytes(uid) >> 1, 2),
                None if head & 1 != 0 => break,
                _ => (u16::from(head >> 1), 1),
            };
            if uid < FIRST_UID {
                let builtin = protocol.builtin.get(usize::from(uid)).filter(|_| uid_size == 1);
                let Some(Builtin::Enter { size } | Builtin::Leave { size }) = builtin else {
                    break;
                };
                let Some(after) = rest.get(*size..) else { break };
                if matches!(builtin, Some(Builtin::Enter { .. })) {
                    thread.entering = thread.entering.saturating_add(1);
                } else if thread.entering > 0 {
                    thread.entering -= 1;
                } else if thread.depth > 0 {
                    thread.depth -= 1;
                    visitor.leave_scope(thread.stream);
                } else {
                    break;
                }
                rest = after;
                continue;
            }
            let Some(layout) = types.layout(uid).filter(|l| !l.has_aux && !l.has_role) else {
                break;
            };
            let Some(known) = types.get(layout.type_index) else { break };
            let mut body = rest.get(uid_size..).unwrap_or_default();
            let mut serial = None;
            if layout.synced {
                let Some((&[a, b, c], after)) = body.split_first_chunk() else { break };
                if u32::from_le_bytes([a, b, c, 0]) != next as u32 & 0x00ff_ffff {
                    break;
                }
                serial = Some(next.saturating_sub(self.bias));
                body = after;
            }
            let Some((fixed, after)) = body.split_at_checked(usize::from(layout.fixed_size)) else {
                break;
            };
            next += u64::from(layout.synced);
            let enters_scope = thread.entering > 0;
            if enters_scope {
                thread.entering = 0;
                thread.depth = thread.depth.saturating_add(1);
            }
            tally.event(layout.type_index);
            events += 1;
            visitor.event(&Event {
                event_type: &known.event_type,
                type_index: layout.type_index as usize,
                stream: thread.stream,
                serial,
                enters_scope,
                fixed,
                aux: &[],
            });
            rest = after;
        }
        thread.events += events;
        if next > first {
            thread.before_last = if next - first > 1 { next - 2 } else { thread.last };
            thread.last = next - 1;
            self.serials.row(next - 1);
            self.next = next;
            let bias = self.bias;
            tally.first_serial.get_or_insert(first.saturating_sub(bias));
            tally.last_serial = tally.last_serial.max(Some((next - 1).saturating_sub(bias)));
        }
        payload.len() - rest.len()
    }
}
