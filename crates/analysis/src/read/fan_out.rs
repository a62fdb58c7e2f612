//! Fan-out: several visitors in one pass. References, boxes, tuples and `Vec`s of visitors are
//! visitors.
//!
//! NOTE: a visitor takes events from a [`Row`] only if it is alone, because the other visitors
//! would not get them.

use super::event::{Damage, Event, Hole, Row, Stamp, Visitor};
use memledger_format::schema::EventType;

/// Forwards each call to each of the expressions.
macro_rules! forward {
    (|$this:ident| $($visitor:expr),+) => {
        fn is_done(&self) -> bool {
            let $this = self;
            $($visitor.is_done())&&+
        }

        fn event_type(&mut self, index: usize, event_type: &EventType) {
            let $this = self;
            $($visitor.event_type(index, event_type);)+
        }

        #[inline(always)]
        fn event(&mut self, event: &Event<'_>) {
            let $this = self;
            $($visitor.event(event);)+
        }

        fn stamp(&mut self, stream: u16, stamp: Stamp) {
            let $this = self;
            $($visitor.stamp(stream, stamp);)+
        }

        fn leave_scope(&mut self, stream: u16) {
            let $this = self;
            $($visitor.leave_scope(stream);)+
        }

        fn settle(&mut self) {
            let $this = self;
            $($visitor.settle();)+
        }

        fn end(&mut self, whole: bool) {
            let $this = self;
            $($visitor.end(whole);)+
        }

        fn hole(&mut self, hole: Hole) {
            let $this = self;
            $($visitor.hole(hole);)+
        }

        fn damage(&mut self, damage: &Damage) {
            let $this = self;
            $($visitor.damage(damage);)+
        }
    };
}

impl<V: Visitor + ?Sized> Visitor for &mut V {
    forward!(|this| (**this));

    #[inline(always)]
    fn row(&mut self, row: &mut Row<'_>) {
        (**self).row(row);
    }
}

impl<V: Visitor + ?Sized> Visitor for Box<V> {
    forward!(|this| (**this));

    fn row(&mut self, row: &mut Row<'_>) {
        (**self).row(row);
    }
}

/// Each event goes to the first, then to the second.
impl<A: Visitor, B: Visitor> Visitor for (A, B) {
    forward!(|this| this.0, this.1);
}

/// Each event goes to the first, then to the others in order.
impl<A: Visitor, B: Visitor, C: Visitor> Visitor for (A, B, C) {
    forward!(|this| this.0, this.1, this.2);
}

/// Each event goes to all, in order: for analyzers chosen at run time, as `Vec<Box<dyn Visitor>>`.
impl<V: Visitor> Visitor for Vec<V> {
    fn event_type(&mut self, index: usize, event_type: &EventType) {
        self.iter_mut().for_each(|visitor| visitor.event_type(index, event_type));
    }

    fn event(&mut self, event: &Event<'_>) {
        self.iter_mut().for_each(|visitor| visitor.event(event));
    }

    fn stamp(&mut self, stream: u16, stamp: Stamp) {
        self.iter_mut().for_each(|visitor| visitor.stamp(stream, stamp));
    }

    fn leave_scope(&mut self, stream: u16) {
        self.iter_mut().for_each(|visitor| visitor.leave_scope(stream));
    }

    fn settle(&mut self) {
        self.iter_mut().for_each(Visitor::settle);
    }

    fn end(&mut self, whole: bool) {
        self.iter_mut().for_each(|visitor| visitor.end(whole));
    }

    fn is_done(&self) -> bool {
        !self.is_empty() && self.iter().all(Visitor::is_done)
    }

    fn hole(&mut self, hole: Hole) {
        self.iter_mut().for_each(|visitor| visitor.hole(hole));
    }

    fn damage(&mut self, damage: &Damage) {
        self.iter_mut().for_each(|visitor| visitor.damage(damage));
    }
}
