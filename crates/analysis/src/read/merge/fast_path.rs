//! The fast path: events with the next serial go from their packet to the visitor, without a copy.
//!
//! It ends at the first item that needs more work: an event that does not have the next serial, is
//! cut off, has arrays or is of an unknown type; or an illegal byte. The rest of the packet takes
//! the slow path through [`ThreadStream`](super::ThreadStream). Both paths deliver the same events
//! in the same order.
//!
//! NOTE: two differences are visible. The slow path reports damage in a packet before it delivers
//! the events that precede the damage; the fast path has delivered those events already. And an
//! event that was delivered keeps its serial, even if the serial of the next event is not higher.

use super::super::event::{Event, Row, Visitor};
use super::super::schemas::{Protocol, TypeInfo, Types};
use super::super::tally::Tally;
use super::Merge;
use memledger_format::layout::{StreamItem, first_item};
use memledger_format::schema::SERIAL_MASK;

impl Merge {
    /// Delivers the first events of a packet that need not wait; returns their size in bytes.
    ///
    /// PERF: one long function, because it is the reader's innermost loop: its state stays in
    /// registers.
    pub(super) fn deliver_directly(
        &mut self,
        index: usize,
        payload: &[u8],
        protocol: &Protocol,
        types: &Types,
        tally: &mut Tally,
        visitor: &mut impl Visitor,
    ) -> usize {
        let Some(stream) = self.streams.get_mut(index).filter(|stream| stream.is_idle()) else {
            return 0;
        };
        if self.next == 0 || self.next <= stream.serials.last || !self.serials.expects(self.next) {
            return 0;
        }
        let first = self.next;
        let mut next = first;
        let mut events = 0;
        let mut rest = payload;
        loop {
            if stream.scopes.entering == 0 {
                let by_type = &mut tally.by_type[..];
                let mut row = Row { stream: stream.id, bytes: rest, next, by_type };
                visitor.row(&mut row);
                events += row.next - next;
                next = row.next;
                rest = &rest[rest.len() - row.bytes.len()..];
            }
            if rest.is_empty() {
                break;
            }
            // PERF: nearly all events have a serial, so one load gets both the uid and the serial.
            let head = rest.first_chunk().map_or(0, |&head| u64::from_le_bytes(head));
            let info = types.info(head as u16 >> 1);
            let synced = info.filter(|info| info.layout.synced && info.is_plain());
            let (info, size) = if let Some(info) = synced.filter(|_| head & 1 != 0) {
                if (head >> 16 ^ next) & SERIAL_MASK != 0 {
                    break;
                }
                (info, info.layout.size())
            } else {
                let mut info = TypeInfo::default();
                let find = |uid| {
                    info = types.info(uid)?;
                    Some(info.layout)
                };
                match first_item(rest, protocol.version, find) {
                    Some((StreamItem::Event(_, layout), size))
                        if !layout.synced && info.is_plain() =>
                    {
                        (info, size)
                    }
                    // An item with a time takes the slow path.
                    Some((item @ (StreamItem::Enter | StreamItem::Leave), 1)) => {
                        if item == StreamItem::Enter {
                            stream.scopes.entering = stream.scopes.entering.saturating_add(1);
                        } else if stream.scopes.entering > 0 {
                            stream.scopes.entering -= 1;
                        } else if stream.scopes.depth > 0 {
                            stream.scopes.depth -= 1;
                            visitor.leave_scope(stream.id);
                        } else {
                            break;
                        }
                        rest = &rest[1..];
                        continue;
                    }
                    _ => break,
                }
            };
            let Some((event, after)) = rest.split_at_checked(size) else { break };
            let Some(known) = types.get(info.type_index) else { break };
            let synced = info.layout.synced;
            let serial = synced.then(|| next.saturating_sub(self.bias));
            next += u64::from(synced);
            let enters_scope = stream.scopes.entering > 0;
            if enters_scope {
                stream.scopes.entering = 0;
                stream.scopes.depth = stream.scopes.depth.saturating_add(1);
            }
            if let Some(count) = tally.by_type.get_mut(info.type_index as usize) {
                *count += 1;
            }
            events += 1;
            visitor.event(&Event {
                event_type: &known.event_type,
                type_index: info.type_index as usize,
                stream: stream.id,
                serial,
                enters_scope,
                fixed: &event[size - usize::from(info.layout.fixed_size)..],
                aux: &[],
            });
            rest = after;
        }
        stream.counts.events += events;
        tally.events += events;
        if next > first {
            stream.serials.before = if next - first > 1 { next - 2 } else { stream.serials.last };
            stream.serials.last = next - 1;
            self.serials.row(next - 1);
            self.next = next;
            let bias = self.bias;
            tally.first_serial.get_or_insert(first.saturating_sub(bias));
            tally.last_serial = tally.last_serial.max(Some((next - 1).saturating_sub(bias)));
        }
        payload.len() - rest.len()
    }
}
