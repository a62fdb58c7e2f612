//! The values that an event carries: one word each, or a text.

use std::marker::PhantomData;

/// The most values of an event.
pub(super) const MAX_VALUES: usize = 32;

/// What a word of an event means. Four bits.
pub(crate) mod kind {
    pub(crate) const UNSIGNED: u8 = 1;
    pub(crate) const SIGNED: u8 = 2;
    pub(crate) const DOUBLE: u8 = 3;
    pub(crate) const BOOL: u8 = 4;
    pub(crate) const POINTER: u8 = 5;
    /// The word is the number of bytes.
    pub(crate) const TEXT: u8 = 6;
    pub(crate) const FLOAT: u8 = 7;
    pub(crate) const ZIGZAG: u8 = 8;
    pub(crate) const FIXED64: u8 = 9;
    pub(crate) const FIXED32: u8 = 10;
}

/// A value of a track event: an argument, a flow, a field. Sealed: other types cannot be values.
///
/// Integers, floating-point numbers, `bool`, raw pointers, `&str`, `&String` and `&[u8]` are
/// values. In [`field`](crate::perfetto::track_event), an unsigned or signed integer is a varint, `f64` a
/// double, `f32` a float, and [`ZigZag`], [`Fixed64`] and [`Fixed32`] are the other encodings.
///
/// ```
/// use memledger::perfetto::{Fixed32, Fixed64, ZigZag, instant};
/// memledger::perfetto::categories! { GAME = "game"; }
///
/// let player = String::from("Ümit");
/// instant!(GAME, "hit", arg("player", &player), arg("damage", 7_u8), arg("at", player.as_ptr()));
/// // A message of an extension of the program's own.
/// let (id, at) = (Fixed64(0xfeed), Fixed32(7));
/// instant!(GAME, "moved", message(9900, [field(1, ZigZag(-3)), field(2, id), field(3, at)]));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value of a track event",
    label = "not a value of a track event",
    note = "the values are integers of up to 64 bits, floating-point numbers, `bool`, raw pointers, `&str`, `&String` and `&[u8]`: borrow a `String`, convert others"
)]
pub trait TrackValue: Copy + Sealed {
    #[doc(hidden)]
    const KIND: u8;
    /// `N`, or one text more.
    #[doc(hidden)]
    type After<N>;
    #[doc(hidden)]
    fn word(self) -> u64;
    #[doc(hidden)]
    fn bytes(&self) -> &[u8] {
        &[]
    }
}

/// Seals [`TrackValue`]: it has no path outside of this crate.
pub trait Sealed {}

/// A signed integer as protobuf's `sint64`.
///
/// [`TrackValue`] has an example.
#[derive(Clone, Copy, Debug)]
pub struct ZigZag(pub i64);
/// An integer as protobuf's `fixed64`.
///
/// [`TrackValue`] has an example.
#[derive(Clone, Copy, Debug)]
pub struct Fixed64(pub u64);
/// An integer as protobuf's `fixed32`.
///
/// [`TrackValue`] has an example.
#[derive(Clone, Copy, Debug)]
pub struct Fixed32(pub u32);

macro_rules! values {
    ($($type:ty: $kind:ident = |$value:ident| $word:expr;)*) => { $(
        impl Sealed for $type {}
        impl TrackValue for $type {
            const KIND: u8 = kind::$kind;
            type After<N> = N;
            #[inline(always)]
            fn word(self) -> u64 {
                let $value = self;
                $word
            }
        }
    )* };
}
values! {
    u8: UNSIGNED = |value| value.into();
    u16: UNSIGNED = |value| value.into();
    u32: UNSIGNED = |value| value.into();
    u64: UNSIGNED = |value| value;
    usize: UNSIGNED = |value| value as u64;
    i8: SIGNED = |value| i64::from(value) as u64;
    i16: SIGNED = |value| i64::from(value) as u64;
    i32: SIGNED = |value| i64::from(value) as u64;
    i64: SIGNED = |value| value as u64;
    isize: SIGNED = |value| value as u64;
    f64: DOUBLE = |value| value.to_bits();
    f32: FLOAT = |value| value.to_bits().into();
    bool: BOOL = |value| value.into();
    ZigZag: ZIGZAG = |value| value.0 as u64;
    Fixed64: FIXED64 = |value| value.0;
    Fixed32: FIXED32 = |value| value.0.into();
}

impl<T: ?Sized> Sealed for *const T {}
impl<T: ?Sized> TrackValue for *const T {
    const KIND: u8 = kind::POINTER;
    type After<N> = N;
    #[inline(always)]
    fn word(self) -> u64 {
        self.addr() as u64
    }
}

impl<T: ?Sized> Sealed for *mut T {}
impl<T: ?Sized> TrackValue for *mut T {
    const KIND: u8 = kind::POINTER;
    type After<N> = N;
    #[inline(always)]
    fn word(self) -> u64 {
        self.addr() as u64
    }
}

macro_rules! texts {
    ($($type:ty)*) => { $(
        impl Sealed for $type {}
        impl TrackValue for $type {
            const KIND: u8 = kind::TEXT;
            type After<N> = Text<N>;
            #[inline(always)]
            fn word(self) -> u64 {
                self.len() as u64
            }
            #[inline(always)]
            fn bytes(&self) -> &[u8] {
                self.as_ref()
            }
        }
    )* };
}
texts! { &str &String &[u8] }

/// The values of one event: `(first, (second, ()))`.
#[doc(hidden)]
pub trait Values: Copy {
    /// How many there are, and how many of them are texts.
    const COUNT: usize;
    const TEXTS: usize;
    /// `()`, in as many `Text` as there are texts.
    type Texts;
    /// The kinds, four bits each, the first one lowest. Only of events with up to eight values.
    const SHAPE: u32;

    /// Calls `each` with the number, the kind, the word and the text of each value.
    fn each<'a>(&'a self, index: usize, each: &mut impl FnMut(usize, u8, u64, &'a [u8]));
}

impl Values for () {
    const COUNT: usize = 0;
    const TEXTS: usize = 0;
    type Texts = ();
    const SHAPE: u32 = 0;

    #[inline(always)]
    fn each<'a>(&'a self, _: usize, _: &mut impl FnMut(usize, u8, u64, &'a [u8])) {}
}

impl<V: TrackValue, R: Values> Values for (V, R) {
    const COUNT: usize = 1 + R::COUNT;
    const TEXTS: usize = (V::KIND == kind::TEXT) as usize + R::TEXTS;
    type Texts = V::After<R::Texts>;
    const SHAPE: u32 = V::KIND as u32 | R::SHAPE << 4;

    #[inline(always)]
    fn each<'a>(&'a self, index: usize, each: &mut impl FnMut(usize, u8, u64, &'a [u8])) {
        each(index, V::KIND, self.0.word(), self.0.bytes());
        self.1.each(index + 1, each);
    }
}

/// `value`, whose type must be that of a value.
#[doc(hidden)]
#[inline(always)]
pub const fn value<V: TrackValue>(value: V) -> V {
    value
}

/// One text more than `N`.
#[doc(hidden)]
#[derive(Debug)]
pub struct Text<N>(PhantomData<N>);

/// A number of texts that an event can have: at most 8. A bound, so that `cargo check` sees a greater one.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a track event has 8 texts at most",
    label = "more than 8 of its values are texts"
)]
pub trait FewTexts {}

macro_rules! few_texts {
    ($n:ty $(, $less:tt $($rest:tt)*)?) => {
        #[diagnostic::do_not_recommend]
        impl FewTexts for $n {}
        $(few_texts! { Text<$n> $($rest)* })?
    };
}
few_texts! { (), 8, 7, 6, 5, 4, 3, 2, 1 }

/// `values`, which are more than eight.
#[doc(hidden)]
#[inline(always)]
pub const fn many_values<V: Values<Texts: FewTexts>>(values: V) -> V {
    values
}
