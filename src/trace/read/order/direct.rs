//! The short way: events whose turn it is go from their packet to the visitor, without a copy.
//!
//! It ends at the first byte that needs more than that (another serial than the next, an event that
//! is cut off, has arrays, or is of an unknown type, anything illegal), and all from there on takes
//! the long way through [`Thread`](super::Thread). Up to there both do the same, in the same order.
//!
//! NOTE: one thing can be seen. The long way reports damage when it parses a packet, before it
//! delivers the events in front of the damage; this one has delivered them by then. And an event
//! that has had its turn keeps its serial, even if that of the event behind it is not above.

use super::super::event::Row;
use super::{Event, Order, Protocol, Tally, Types, Visitor};
use crate::trace::format::schema::{FIRST_UID, SERIAL_MASK};
use crate::trace::read::protocol::Builtin;

/// Bytes of a uid and a serial.
const HEADER: usize = 5;

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
        loop {
            if thread.entering == 0 {
                let by_type = &mut tally.by_type[..];
                let mut row = Row { stream: thread.stream, bytes: rest, next, by_type };
                visitor.row(&mut row);
                events += row.next - next;
                next = row.next;
                rest = &rest[rest.len() - row.bytes.len()..];
            }
            let Some(&first) = rest.first() else { break };
            // PERF: nearly all events have a serial: one load for the uid and that.
            let head = rest.first_chunk().map_or(0, |&head| u64::from_le_bytes(head));
            let synced = types.layout(head as u16 >> 1).filter(|l| l.synced && l.is_plain());
            let (layout, header) = if let Some(layout) = synced.filter(|_| head & 1 != 0) {
                if (head >> 16 ^ next) & SERIAL_MASK != 0 {
                    break;
                }
                (layout, HEADER)
            } else {
                let (uid, uid_size) = match rest.first_chunk() {
                    Some(&uid) if first & 1 != 0 => (u16::from_le_bytes(uid) >> 1, 2),
                    None if first & 1 != 0 => break,
                    _ => (u16::from(first >> 1), 1),
                };
                if uid < FIRST_UID {
                    let builtin = protocol.builtin.get(usize::from(uid)).filter(|_| uid_size == 1);
                    // One with a time goes the long way.
                    let Some(Builtin::Enter { size: size @ 1 } | Builtin::Leave { size: size @ 1 }) =
                        builtin
                    else {
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
                let Some(layout) = types.layout(uid).filter(|l| !l.synced && l.is_plain()) else {
                    break;
                };
                (layout, uid_size)
            };
            let Some((event, after)) =
                rest.split_at_checked(header + usize::from(layout.fixed_size))
            else {
                break;
            };
            let Some(known) = types.get(layout.type_index) else { break };
            let serial = layout.synced.then(|| next.saturating_sub(self.bias));
            next += u64::from(layout.synced);
            let enters_scope = thread.entering > 0;
            if enters_scope {
                thread.entering = 0;
                thread.depth = thread.depth.saturating_add(1);
            }
            if let Some(count) = tally.by_type.get_mut(layout.type_index as usize) {
                *count += 1;
            }
            events += 1;
            visitor.event(&Event {
                event_type: &known.event_type,
                type_index: layout.type_index as usize,
                stream: thread.stream,
                serial,
                enters_scope,
                fixed: &event[header..],
                aux: &[],
            });
            rest = after;
        }
        thread.events += events;
        tally.events += events;
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
