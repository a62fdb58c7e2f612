//! The types of the fields of events, and their values at log sites.

use memledger_format::schema::FieldType;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// The type of a field of bytes that are meant as text. Its value at a log site is an [`AnsiText`],
/// made from `&str`, `&[u8]` or UTF-16.
///
/// [`AnsiText`] has an example.
#[derive(Debug)]
pub struct AnsiString(());

/// The type of a field of UTF-16 text. Its value at a log site is a [`WideText`], made from `&str`
/// or UTF-16.
///
/// [`WideText`] has an example.
#[derive(Debug)]
pub struct WideString(());

/// The type of a field that holds an address. Its value at a log site is a `*const T` of any `T`,
/// written as a `u64`.
///
/// ```
/// memledger::events::channel! { GAME = "Game"; }
/// memledger::events::event! { Placed = "Game"."Placed" { Level: Pointer } }
///
/// let level = vec![0_u8; 100];
/// memledger::events::log!(GAME, Placed { Level: level.as_ptr() });
/// ```
#[derive(Debug)]
pub struct Pointer(());

/// The type of a field that holds the id of an event of type `E`. Its value at a log site is an
/// integer of the type that the [`DefinitionId`] of `E` has.
///
/// [`event!`](crate::events::event) has an example.
#[derive(Debug)]
pub struct Reference<E>(PhantomData<E>);

/// The type of the last field of an event type to which other types refer by [`Reference`]. Its
/// value at a log site is the integer `T` that identifies this event.
///
/// [`event!`](crate::events::event) has an example.
#[derive(Debug)]
pub struct DefinitionId<T>(PhantomData<T>);

/// The value of an [`AnsiString`] field.
///
/// As in Unreal, text is ASCII: only the lowest seven bits of each UTF-16 unit are written. Bytes
/// are written unchanged, so `text.as_bytes()` writes UTF-8, which our reader decodes.
///
/// ```
/// memledger::events::channel! { GAME = "Game"; }
/// memledger::events::event! { Loaded = "Game"."Loaded" { File: AnsiString } }
///
/// let file = String::from("Fluß.png");
/// memledger::events::log!(GAME, Loaded { File: "rock.png" });
/// memledger::events::log!(GAME, Loaded { File: file.as_bytes() }); // all of it, as UTF-8
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum AnsiText<'a> {
    /// Written unchanged.
    Bytes(&'a [u8]),
    /// Cut to seven bits for each UTF-16 unit.
    Text(&'a str),
    /// Cut to seven bits each.
    Wide(&'a [u16]),
}

/// The value of a [`WideString`] field.
///
/// ```
/// memledger::events::channel! { GAME = "Game"; }
/// memledger::events::event! { Joined = "Game"."Joined" { Player: WideString } }
///
/// let units: Vec<u16> = "Ümit".encode_utf16().collect();
/// memledger::events::log!(GAME, Joined { Player: "Ümit" });
/// memledger::events::log!(GAME, Joined { Player: &*units }); // the same, of a text that is UTF-16
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
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
///     const TYPE: memledger::__private::format::schema::FieldType =
///         memledger::__private::format::schema::FieldType::U64;
///     fn empty<'a>() -> u64 { 0 }
/// }
/// ```
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the type of a field of an event",
    label = "not the type of a field",
    note = "for text write `WideString` or `AnsiString`, for `usize` `u64`, for an address `Pointer`, for a `Vec<T>` `[T]`",
    note = "the others are numbers of 8 to 64 bits, `bool`, slices of these, `DefinitionId<u32>` and `Reference<Event>`"
)]
pub trait Kind: Sealed {
    /// The value at a log site.
    type Value<'a>: Copy;
    const TYPE: FieldType;
    const IS_DEFINITION_ID: bool = false;

    fn empty<'a>() -> Self::Value<'a>;
}

/// An event type that others can refer to.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "no event can refer to `{Self}`",
    note = "give it a last field of the type `DefinitionId<u32>`"
)]
pub trait Definition {
    /// The integer that identifies its events.
    type Id: Kind;
}

/// Implements the trait for numbers, and for arrays of them, by the type of their values.
macro_rules! numbers {
    ($($kind:ident: $value:ident $name:ident $array:ident)*) => { $(
        impl Sealed for $kind {}
        #[diagnostic::do_not_recommend]
        impl Kind for $kind {
            type Value<'a> = $value;
            const TYPE: FieldType = FieldType::$name;
            #[inline(always)]
            fn empty<'a>() -> Self::Value<'a> {
                <$value>::default()
            }
        }

        impl Sealed for [$kind] {}
        #[diagnostic::do_not_recommend]
        impl Kind for [$kind] {
            type Value<'a> = &'a [$value];
            const TYPE: FieldType = FieldType::$array;
            #[inline(always)]
            fn empty<'a>() -> Self::Value<'a> {
                &[]
            }
        }
    )* };
}
numbers! {
    u8: u8 U8 U8Array  u16: u16 U16 U16Array  u32: u32 U32 U32Array  u64: u64 U64 U64Array
    i8: i8 I8 I8Array  i16: i16 I16 I16Array  i32: i32 I32 I32Array  i64: i64 I64 I64Array
    f32: f32 F32 F32Array  f64: f64 F64 F64Array  bool: bool U8 U8Array  Pointer: u64 U64 U64Array
}

impl Sealed for AnsiString {}
impl Kind for AnsiString {
    type Value<'a> = AnsiText<'a>;
    const TYPE: FieldType = FieldType::AnsiString;
    #[inline(always)]
    fn empty<'a>() -> Self::Value<'a> {
        AnsiText::Bytes(&[])
    }
}

impl Sealed for WideString {}
impl Kind for WideString {
    type Value<'a> = WideText<'a>;
    const TYPE: FieldType = FieldType::WideString;
    #[inline(always)]
    fn empty<'a>() -> Self::Value<'a> {
        WideText::Text("")
    }
}

impl<E: Definition> Sealed for Reference<E> {}
impl<E: Definition> Kind for Reference<E> {
    type Value<'a> = <E::Id as Kind>::Value<'a>;
    const TYPE: FieldType = <E::Id as Kind>::TYPE;
    #[inline(always)]
    fn empty<'a>() -> Self::Value<'a> {
        E::Id::empty()
    }
}

/// Integers that can identify events.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot identify events",
    note = "write `u8`, `u16`, `u32` or `u64`"
)]
pub trait Id: Kind {}
impl Id for u8 {}
impl Id for u16 {}
impl Id for u32 {}
impl Id for u64 {}

impl<T: Id> Sealed for DefinitionId<T> {}
impl<T: Id> Kind for DefinitionId<T> {
    type Value<'a> = T::Value<'a>;
    const TYPE: FieldType = T::TYPE;
    const IS_DEFINITION_ID: bool = true;
    #[inline(always)]
    fn empty<'a>() -> Self::Value<'a> {
        T::empty()
    }
}
