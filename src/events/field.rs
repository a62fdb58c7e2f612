//! The types of the fields of events, and their values at log sites.

#[cfg(tracking)]
use crate::trace::write::declared::{DeclaredField, Family, Logged};
#[cfg(tracking)]
use memledger_format::arrays::Aux;
#[cfg(tracking)]
use memledger_format::schema::FieldType;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// The type of a field of bytes that are meant as text. Its value at a log site is an [`AnsiText`],
/// made from `&str`, `&[u8]` or UTF-16.
#[derive(Debug)]
pub struct AnsiString(());

/// The type of a field of UTF-16 text. Its value at a log site is a [`WideText`], made from `&str`
/// or UTF-16.
#[derive(Debug)]
pub struct WideString(());

/// The type of a field that holds an address. Its value at a log site is a `*const T` of any `T`,
/// written as a `u64`.
#[derive(Debug)]
pub struct Pointer(());

/// The type of a field that holds the id of an event of type `E`. Its value at a log site is an
/// integer of the type that the [`DefinitionId`] of `E` has.
#[derive(Debug)]
pub struct Reference<E>(PhantomData<E>);

/// The type of the last field of an event type to which other types refer by [`Reference`]. Its
/// value at a log site is the integer `T` that identifies this event.
#[derive(Debug)]
pub struct DefinitionId<T>(PhantomData<T>);

/// The value of an [`AnsiString`] field.
///
/// As in Unreal, text is ASCII: only the lowest seven bits of each UTF-16 unit are written. Bytes
/// are written unchanged, so `text.as_bytes()` writes UTF-8, which our reader decodes.
#[derive(Clone, Copy, Debug)]
pub enum AnsiText<'a> {
    /// Written unchanged.
    Bytes(&'a [u8]),
    /// Cut to seven bits for each UTF-16 unit.
    Text(&'a str),
    /// Cut to seven bits each.
    Wide(&'a [u16]),
}

/// The value of a [`WideString`] field.
#[derive(Clone, Copy, Debug)]
pub enum WideText<'a> {
    /// Written as UTF-16.
    Text(&'a str),
    /// Written unchanged. A reader replaces units that it cannot decode.
    Wide(&'a [u16]),
}

/// Implements the conversions of both text types from `&str` and `&[u16]`.
macro_rules! texts {
    ($($text:ident)*) => { $(
        impl<'a> From<&'a str> for $text<'a> {
            #[inline]
            fn from(text: &'a str) -> Self {
                Self::Text(text)
            }
        }
        texts! { @of $text: String, Box<str>, Rc<str>, Arc<str>, Cow<'_, str> }

        impl<'a> From<&'a [u16]> for $text<'a> {
            #[inline]
            fn from(units: &'a [u16]) -> Self {
                Self::Wide(units)
            }
        }
    )* };
    (@of $text:ident: $($holder:ty),*) => { $(
        impl<'a> From<&'a $holder> for $text<'a> {
            #[inline]
            fn from(text: &'a $holder) -> Self {
                Self::Text(text)
            }
        }
    )* };
}
texts! { AnsiText WideText }

impl<'a> From<&'a [u8]> for AnsiText<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<&'a std::ffi::CStr> for AnsiText<'a> {
    fn from(text: &'a std::ffi::CStr) -> Self {
        Self::Bytes(text.to_bytes())
    }
}

/// Values whose bytes in memory are the bytes in the stream.
///
/// # Safety
/// Every byte is initialised: there is no padding.
#[expect(unsafe_code, reason = "says that a type has no padding")]
#[doc(hidden)]
pub unsafe trait Plain: Copy + 'static {}

/// Two values without padding between them.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed)]
#[doc(hidden)]
pub struct Cons<A: Plain, B: Plain>(pub A, pub B);

#[expect(unsafe_code, reason = "says that types have no padding")]
mod plain {
    use super::{Cons, Plain};

    // SAFETY: it has no bytes.
    unsafe impl Plain for () {}
    // SAFETY: it is packed, and neither part has padding.
    unsafe impl<A: Plain, B: Plain> Plain for Cons<A, B> {}

    macro_rules! plain {
        ($($number:ty)*) => { $(
            // SAFETY: a number has no padding, and a bool is one byte, 0 or 1.
            unsafe impl Plain for $number {}
        )* };
    }
    plain! { u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 bool }

    /// The bytes of values.
    #[cfg(tracking)]
    pub(crate) fn bytes_of<T: Plain>(values: &[T]) -> &[u8] {
        // SAFETY: all of them are initialised, and a byte has no alignment.
        unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
    }
}
#[cfg(tracking)]
pub(crate) use plain::bytes_of;

mod sealed {
    /// Restricts [`Kind`](super::Kind) to this file: for other types, nothing ensures that bytes
    /// and sizes agree.
    pub trait Sealed {}
}
use sealed::Sealed;

/// The type of a field. Only types of this file implement this trait:
/// ```compile_fail,E0277
/// struct Strange;
/// impl memledger::events::Kind for Strange {
///     type Value<'a> = u64;
///     type Fixed = u64;
/// #   #[cfg(tracking)]
/// #   const TYPE: memledger::__format::schema::FieldType =
/// #       memledger::__format::schema::FieldType::U8;
///     fn empty<'a>() -> u64 { 0 }
/// #   #[cfg(tracking)]
/// #   fn fixed(value: u64) -> u64 { value }
/// }
/// ```
#[doc(hidden)]
pub trait Kind: Sealed {
    /// The value at a log site.
    type Value<'a>: Copy;
    /// The part of the value that is written to the fixed part of the event.
    type Fixed: Plain;
    #[cfg(tracking)]
    const TYPE: FieldType;

    fn empty<'a>() -> Self::Value<'a>;

    #[cfg(tracking)]
    fn fixed(value: Self::Value<'_>) -> Self::Fixed;

    #[cfg(tracking)]
    #[inline(always)]
    fn aux(value: Self::Value<'_>) -> Aux<'_> {
        let _ = value;
        Aux::None
    }
}

/// The field `name` of kind `K`.
#[cfg(tracking)]
#[doc(hidden)]
pub const fn field<K: Kind + ?Sized>(name: &'static str, family: Family) -> DeclaredField {
    DeclaredField { name, field_type: K::TYPE, family }
}

/// An event type that others can refer to.
#[doc(hidden)]
pub trait Definition {
    /// The integer that identifies its events.
    type Id: Kind + Plain;
    #[cfg(tracking)]
    fn definition() -> &'static Logged;
}

macro_rules! numbers {
    ($($number:ident $name:ident $array:ident)*) => { $(
        impl Sealed for $number {}
        impl Kind for $number {
            type Value<'a> = $number;
            type Fixed = $number;
            #[cfg(tracking)]
            const TYPE: FieldType = FieldType::$name;
            #[inline(always)]
            fn empty<'a>() -> Self::Value<'a> {
                <$number>::default()
            }
            #[cfg(tracking)]
            #[inline(always)]
            fn fixed(value: $number) -> $number {
                value
            }
        }

        impl Sealed for [$number] {}
        impl Kind for [$number] {
            type Value<'a> = &'a [$number];
            type Fixed = ();
            #[cfg(tracking)]
            const TYPE: FieldType = FieldType::$array;
            #[inline(always)]
            fn empty<'a>() -> Self::Value<'a> {
                &[]
            }
            #[cfg(tracking)]
            #[inline(always)]
            fn fixed(_: &[$number]) {}
            #[cfg(tracking)]
            #[inline(always)]
            fn aux(value: Self::Value<'_>) -> Aux<'_> {
                Aux::Elements(bytes_of(value), size_of::<$number>())
            }
        }
    )* };
}
numbers! {
    u8 U8 U8Array  u16 U16 U16Array  u32 U32 U32Array  u64 U64 U64Array
    i8 I8 I8Array  i16 I16 I16Array  i32 I32 I32Array  i64 I64 I64Array
    f32 F32 F32Array  f64 F64 F64Array  bool U8 U8Array
}

impl Sealed for Pointer {}
impl Kind for Pointer {
    type Value<'a> = u64;
    type Fixed = u64;
    #[cfg(tracking)]
    const TYPE: FieldType = FieldType::U64;
    #[inline(always)]
    fn empty<'a>() -> Self::Value<'a> {
        0
    }
    #[cfg(tracking)]
    #[inline(always)]
    fn fixed(value: u64) -> u64 {
        value
    }
}

impl Sealed for [Pointer] {}
impl Kind for [Pointer] {
    type Value<'a> = &'a [u64];
    type Fixed = ();
    #[cfg(tracking)]
    const TYPE: FieldType = FieldType::U64Array;
    #[inline(always)]
    fn empty<'a>() -> Self::Value<'a> {
        &[]
    }
    #[cfg(tracking)]
    #[inline(always)]
    fn fixed(_: &[u64]) {}
    #[cfg(tracking)]
    #[inline(always)]
    fn aux(value: Self::Value<'_>) -> Aux<'_> {
        Aux::Elements(bytes_of(value), 8)
    }
}

impl Sealed for AnsiString {}
impl Kind for AnsiString {
    type Value<'a> = AnsiText<'a>;
    type Fixed = ();
    #[cfg(tracking)]
    const TYPE: FieldType = FieldType::AnsiString;
    #[inline(always)]
    fn empty<'a>() -> Self::Value<'a> {
        AnsiText::Bytes(&[])
    }
    #[cfg(tracking)]
    #[inline(always)]
    fn fixed(_: AnsiText<'_>) {}
    #[cfg(tracking)]
    #[inline(always)]
    fn aux(value: Self::Value<'_>) -> Aux<'_> {
        match value {
            AnsiText::Bytes(bytes) => Aux::Elements(bytes, 1),
            AnsiText::Text(text) => Aux::NarrowedText(text),
            AnsiText::Wide(units) => Aux::Narrowed(units),
        }
    }
}

impl Sealed for WideString {}
impl Kind for WideString {
    type Value<'a> = WideText<'a>;
    type Fixed = ();
    #[cfg(tracking)]
    const TYPE: FieldType = FieldType::WideString;
    #[inline(always)]
    fn empty<'a>() -> Self::Value<'a> {
        WideText::Text("")
    }
    #[cfg(tracking)]
    #[inline(always)]
    fn fixed(_: WideText<'_>) {}
    #[cfg(tracking)]
    #[inline(always)]
    fn aux(value: Self::Value<'_>) -> Aux<'_> {
        match value {
            WideText::Text(text) => Aux::Widened(text),
            WideText::Wide(units) => Aux::Elements(bytes_of(units), 2),
        }
    }
}

impl<E: Definition> Sealed for Reference<E> {}
impl<E: Definition> Kind for Reference<E> {
    type Value<'a> = <E::Id as Kind>::Value<'a>;
    type Fixed = <E::Id as Kind>::Fixed;
    #[cfg(tracking)]
    const TYPE: FieldType = <E::Id as Kind>::TYPE;
    #[inline(always)]
    fn empty<'a>() -> Self::Value<'a> {
        E::Id::empty()
    }
    #[cfg(tracking)]
    #[inline(always)]
    fn fixed(value: Self::Value<'_>) -> Self::Fixed {
        E::Id::fixed(value)
    }
}

/// Integers that can identify events.
#[doc(hidden)]
pub trait Id: Kind + Plain {}
impl Id for u8 {}
impl Id for u16 {}
impl Id for u32 {}
impl Id for u64 {}

impl<T: Id> Sealed for DefinitionId<T> {}
impl<T: Id> Kind for DefinitionId<T> {
    type Value<'a> = T::Value<'a>;
    type Fixed = T::Fixed;
    #[cfg(tracking)]
    const TYPE: FieldType = T::TYPE;
    #[inline(always)]
    fn empty<'a>() -> Self::Value<'a> {
        T::empty()
    }
    #[cfg(tracking)]
    #[inline(always)]
    fn fixed(value: Self::Value<'_>) -> Self::Fixed {
        T::fixed(value)
    }
}
