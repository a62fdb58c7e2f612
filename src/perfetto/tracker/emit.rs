//! From a `track_event!` to the buffer of its thread.
//!
//! What is known when the program is compiled is in the *site*, a static: the category, the name,
//! the names of the arguments. An event has the number of its site, a time, and the values. So the
//! thread that emits writes 18 bytes and 8 for each value, without a lock or an allocation; the
//! thread of each session turns sites and values into Perfetto's packets.
//!
//! In a `.utrace` these are ordinary events, on the channel `track`:
//!
//! ```text
//! Perfetto.Site     Category, Name, Kind, Roles, Id         important: precedes the events that refer to it
//! Perfetto.Event0.. Tsc, Site, Shape, A, B, ...             up to six values, without texts
//! Perfetto.TextEvent  the same, Text                         up to six values, one of them a text
//! Perfetto.Event    Tsc, Site, Kinds, Words, Text0..        any other
//! ```
#![expect(unsafe_code, reason = "a table of pointers to statics; types made by `event!`")]

use super::active::TRACK;
use crate::__private::declared::Declared;
use crate::__private::{LogSite, Loggable, WireEvent};
use crate::perfetto::site::Site;
use crate::perfetto::value::{MAX_VALUES, Values, kind};
use crate::platform::ticks;
use crate::trace::write::loss;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

const MAX_SITES: usize = 1 << 16;

static SITES: [AtomicPtr<Site>; MAX_SITES] = [const { AtomicPtr::new(ptr::null_mut()) }; MAX_SITES];
/// Entries that are taken.
static TAKEN: AtomicU32 = AtomicU32::new(0);

pub(crate) fn site(number: u32) -> Option<&'static Site> {
    let entry = SITES.get((number as usize).checked_sub(1)?)?;
    // SAFETY: only pointers to statics are stored there.
    unsafe { entry.load(Ordering::Acquire).as_ref() }
}

macro_rules! short_events {
    ($($name:ident = $text:literal { $($field:ident)* })*) => {
        crate::events::event! { $(
            $name = "Perfetto".$text [NoSync] { Tsc: u64, Site: u32, Shape: u32, $($field: u64),* }
        )* }
    };
}
short_events! {
    Event0 = "Event0" {}
    Event1 = "Event1" { A }
    Event2 = "Event2" { A B }
    Event3 = "Event3" { A B C }
    Event4 = "Event4" { A B C D }
    Event5 = "Event5" { A B C D E }
    Event6 = "Event6" { A B C D E F }
}
crate::events::event! {
    TextEvent = "Perfetto"."TextEvent" [NoSync] {
        Tsc: u64, Site: u32, Shape: u32, A: u64, B: u64, C: u64, D: u64, E: u64, F: u64, Text: [u8],
    }
    LongEvent = "Perfetto"."Event" [NoSync] {
        Tsc: u64, Site: u32, Kinds: [u8], Words: [u64],
        Text0: [u8], Text1: [u8], Text2: [u8], Text3: [u8],
        Text4: [u8], Text5: [u8], Text6: [u8], Text7: [u8],
    }
}

/// The most values of an event that takes the fast path, and the most texts of any event.
pub(super) const MAX_SHORT: usize = 6;
pub(super) const MAX_TEXTS: usize = 8;

/// The forms of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// With this many values, none of them a text.
    Short(usize),
    /// With up to [`MAX_SHORT`] values, one of them a text.
    Text,
    Long,
}

/// The form of the events of this type; `None` if they are not track events.
pub(super) fn form_of(declared: *const Declared) -> Option<Form> {
    let short = [
        Event0::declared(),
        Event1::declared(),
        Event2::declared(),
        Event3::declared(),
        Event4::declared(),
        Event5::declared(),
        Event6::declared(),
    ];
    if let Some(count) = short.iter().position(|known| ptr::eq(*known, declared)) {
        return Some(Form::Short(count));
    }
    let others = [(TextEvent::declared(), Form::Text), (LongEvent::declared(), Form::Long)];
    others.into_iter().find(|(known, _)| ptr::eq(*known, declared)).map(|(_, form)| form)
}

impl Site {
    /// Emits an event with these values.
    #[inline(always)]
    pub fn emit<V: Values>(&'static self, values: V) {
        // Acquire, so that a worker that sees an event of the site also sees the site's entry.
        let number = self.number.load(Ordering::Acquire);
        if number == 0 || V::TEXTS > 1 || V::COUNT > MAX_SHORT {
            return self.write_long(values);
        }
        let mut words = [0; MAX_SHORT];
        let mut text = &[][..];
        values.each(0, &mut |index, kind, word, bytes| {
            words[index] = word;
            if kind == kind::TEXT {
                text = bytes;
            }
        });
        if V::TEXTS == 1 {
            return write_text(number, V::SHAPE, words, text);
        }
        let [a, b, c, d, e, f] = words;
        let (tsc, shape) = (ticks::now(), V::SHAPE);
        // PERF: `COUNT` is a constant, so one arm is left.
        macro_rules! log {
            ($event:ident $($field:ident = $value:ident)*) => {{
                static SITE: LogSite<$event<'static>> = LogSite::new(&[TRACK.id()]);
                SITE.log($event::empty().Tsc(tsc).Site(number).Shape(shape)$(.$field($value))*)
            }};
        }
        match V::COUNT {
            0 => log!(Event0),
            1 => log!(Event1 A = a),
            2 => log!(Event2 A = a B = b),
            3 => log!(Event3 A = a B = b C = c),
            4 => log!(Event4 A = a B = b C = c D = d),
            5 => log!(Event5 A = a B = b C = c D = d E = e),
            _ => log!(Event6 A = a B = b C = c D = d E = e F = f),
        }
    }

    /// Emits an event with several texts or many values, and the first event of a site.
    #[cold]
    #[inline(never)]
    fn write_long<V: Values>(&'static self, values: V) {
        let tsc = ticks::now();
        let Some(number) = self.number() else { return loss::event_without_slot() };
        let (mut kinds, mut words, mut texts) =
            ([0; MAX_VALUES], [0; MAX_VALUES], [&[][..]; MAX_TEXTS]);
        let mut text = 0;
        values.each(0, &mut |index, kind, word, bytes| {
            (kinds[index], words[index]) = (kind, word);
            if kind == kind::TEXT {
                texts[text] = bytes;
                text += 1;
            }
        });
        let [text0, text1, text2, text3, text4, text5, text6, text7] = texts;
        static SITE: LogSite<LongEvent<'static>> = LogSite::new(&[TRACK.id()]);
        SITE.log(
            LongEvent::empty()
                .Tsc(tsc)
                .Site(number)
                .Kinds(&kinds[..V::COUNT])
                .Words(&words[..V::COUNT])
                .Text0(text0)
                .Text1(text1)
                .Text2(text2)
                .Text3(text3)
                .Text4(text4)
                .Text5(text5)
                .Text6(text6)
                .Text7(text7),
        );
    }

    /// Its number, which it gets at its first event; `None` if the program has too many sites.
    fn number(&'static self) -> Option<u32> {
        let number = self.number.load(Ordering::Acquire);
        if number != 0 {
            return Some(number);
        }
        let taken = TAKEN.fetch_add(1, Ordering::Relaxed);
        let Some(entry) = SITES.get(taken as usize) else {
            TAKEN.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        // NOTE: two threads that emit the first event at once take an entry each. Both are valid.
        entry.store(ptr::from_ref(self).cast_mut(), Ordering::Release);
        self.number.store(taken + 1, Ordering::Release);
        Some(taken + 1)
    }
}

#[inline(never)]
fn write_text(site: u32, shape: u32, words: [u64; MAX_SHORT], text: &[u8]) {
    static SITE: LogSite<TextEvent<'static>> = LogSite::new(&[TRACK.id()]);
    let [a, b, c, d, e, f] = words;
    let event = TextEvent::empty().Tsc(ticks::now()).Site(site).Shape(shape).Text(text);
    SITE.log(event.A(a).B(b).C(c).D(d).E(e).F(f));
}
