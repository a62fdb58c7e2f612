//! What the macros of the C library expand to, for a bench: structures on the stack, and one call.
#![expect(unsafe_code, reason = "calls a C library")]

use crate::emit::{Category, Kind, Registered};
use perfetto_sdk_sys as sys;
use std::ffi::CStr;
use std::ptr;

const fn header(type_: u32) -> sys::PerfettoTeHlExtra {
    sys::PerfettoTeHlExtra { type_ }
}

/// `PERFETTO_TE(category, kind(name), extras)`.
#[inline(always)]
fn emit<const N: usize>(
    category: &Category,
    kind: Kind,
    name: Option<&CStr>,
    extras: [*mut sys::PerfettoTeHlExtra; N],
) {
    let name = name.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: the callers pass structures of their own, and a null at the end.
    unsafe {
        sys::PerfettoTeHlEmitImpl(category.implementation, kind as i32, name, extras.as_ptr());
    }
}

/// The beginning of a slice.
#[inline(always)]
pub fn begin(category: &Category, name: &CStr) {
    if category.is_enabled() {
        emit(category, Kind::Begin, Some(name), [ptr::null_mut()]);
    }
}

/// The end of a slice.
#[inline(always)]
pub fn end(category: &Category) {
    if category.is_enabled() {
        emit(category, Kind::End, None, [ptr::null_mut()]);
    }
}

#[inline(always)]
fn argument(name: &CStr, value: u64) -> sys::PerfettoTeHlExtraDebugArgUint64 {
    sys::PerfettoTeHlExtraDebugArgUint64 { header: header(8), name: name.as_ptr(), value }
}

/// The beginning of a slice with an argument.
#[inline(always)]
pub fn begin_1(category: &Category, name: &CStr, key: &CStr, value: u64) {
    if category.is_enabled() {
        let mut argument = argument(key, value);
        let extras = [(&raw mut argument).cast(), ptr::null_mut()];
        emit(category, Kind::Begin, Some(name), extras);
    }
}

/// The beginning of a slice with four arguments.
#[inline(always)]
pub fn begin_4(category: &Category, name: &CStr, arguments: [(&CStr, u64); 4]) {
    if category.is_enabled() {
        let [mut a, mut b, mut c, mut d] = arguments.map(|(key, value)| argument(key, value));
        let extras = [
            (&raw mut a).cast(),
            (&raw mut b).cast(),
            (&raw mut c).cast(),
            (&raw mut d).cast(),
            ptr::null_mut(),
        ];
        emit(category, Kind::Begin, Some(name), extras);
    }
}

/// An instant with a text.
#[inline(always)]
pub fn instant_text(category: &Category, name: &CStr, key: &CStr, value: &CStr) {
    if category.is_enabled() {
        let mut argument = sys::PerfettoTeHlExtraDebugArgString {
            header: header(11),
            name: key.as_ptr(),
            value: value.as_ptr(),
        };
        let extras = [(&raw mut argument).cast(), ptr::null_mut()];
        emit(category, Kind::Instant, Some(name), extras);
    }
}

/// A value of a registered counter.
#[inline(always)]
pub fn count(category: &Category, track: &Registered, value: i64) {
    if category.is_enabled() {
        let mut track =
            sys::PerfettoTeHlExtraRegisteredTrack { header: header(1), track: &raw const track.0 };
        let mut value = sys::PerfettoTeHlExtraCounterInt64 { header: header(5), value };
        let extras = [(&raw mut track).cast(), (&raw mut value).cast(), ptr::null_mut()];
        emit(category, Kind::Counter, None, extras);
    }
}

/// An instant on a named track.
#[inline(always)]
pub fn named_instant(category: &Category, name: &CStr, track: &CStr, id: u64, parent_uuid: u64) {
    if category.is_enabled() {
        let mut track = sys::PerfettoTeHlExtraNamedTrack {
            header: header(2),
            name: track.as_ptr(),
            id,
            parent_uuid,
            is_name_static: false,
        };
        let extras = [(&raw mut track).cast(), ptr::null_mut()];
        emit(category, Kind::Instant, Some(name), extras);
    }
}
