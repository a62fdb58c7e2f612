//! The high-level emission of the C library, with the structures that its macros make.
#![expect(unsafe_code, reason = "calls a C library")]

use crate::session::{bytes, start, varint};
use memledger::perfetto::Track;
use memledger_format::protobuf::perfetto::{
    counter_track_uuid, named_track_uuid, state_track_uuid,
};
use perfetto_sdk_sys as sys;
use std::any::Any;
use std::ffi::{CStr, c_void};
use std::ptr;

/// The uuid of the process's track.
pub fn process_uuid() -> u64 {
    start();
    // SAFETY: it is written once, by `start`.
    unsafe { sys::perfetto_te_process_track_uuid }
}

/// The uuid of this thread's track.
pub fn thread_uuid() -> u64 {
    // The last part of the uuid is the id.
    process_uuid() ^ Track::thread().uuid() ^ Track::process().uuid()
}

/// What an event is.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Begin = 1,
    End = 2,
    Instant = 3,
    Counter = 4,
    State = 5,
}

/// `PERFETTO_TE_PROTO_FIELD_*`.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    Text(u32, &'a CStr),
    Bytes(u32, &'a [u8]),
    Nested(u32, &'a [Field<'a>]),
    Varint(u32, u64),
    ZigZag(u32, i64),
    Fixed64(u32, u64),
    Fixed32(u32, u32),
    Double(u32, f64),
    Float(u32, f32),
    /// The field, the list of `InternedData`, the text.
    Interned(u32, u32, &'a CStr),
}

/// `PERFETTO_TE_NESTED_TRACK_*`.
#[derive(Clone, Copy, Debug)]
pub enum Nested<'a> {
    Named(&'a CStr, u64),
    /// Name, id, rank among its siblings, order of its children.
    Ordered(&'a CStr, u64, i32, u32),
    /// Name, id, how it is merged with its siblings, and a key: a text or a number.
    Merged(&'a CStr, u64, u32, Option<&'a CStr>, u64),
    Proto(u64, &'a [Field<'a>]),
    Registered(&'a Registered),
    Thread,
    Process,
}

/// The extras of `PERFETTO_TE`.
#[derive(Clone, Copy, Debug)]
pub enum Extra<'a> {
    Track(&'a Registered),
    NamedTrack(&'a CStr, u64, u64),
    ProtoTrack(u64, &'a [Field<'a>]),
    Nested(&'a [Nested<'a>]),
    Timestamp(u32, u64),
    Dynamic(&'a CStr),
    Int(i64),
    Double(f64),
    ArgBool(&'a CStr, bool),
    ArgUint(&'a CStr, u64),
    ArgInt(&'a CStr, i64),
    ArgDouble(&'a CStr, f64),
    ArgText(&'a CStr, &'a CStr),
    ArgPointer(&'a CStr, usize),
    Flow(u64),
    TerminatingFlow(u64),
    Correlation(u64),
    CorrelationText(&'a CStr),
    Fields(&'a [Field<'a>]),
    NoIntern,
    Flush,
}

/// A registered track. It is never freed.
#[derive(Debug)]
pub struct Registered(pub(crate) sys::PerfettoTeRegisteredTrackImpl);

// SAFETY: the library only reads the descriptor, which is never freed.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

impl Registered {
    /// As `PerfettoTeNamedTrackRegister`, with a name that is not static.
    pub fn named(name: &str, id: u64, parent: u64) -> Self {
        Self::new(named_track_uuid(name, id, parent), name, parent, None)
    }

    /// As `PerfettoTeCounterTrackRegister`.
    pub fn counter(name: &str, parent: u64) -> Self {
        Self::new(counter_track_uuid(name, parent), name, parent, Some(8))
    }

    /// As `PerfettoTeStateTrackRegister`.
    pub fn state(name: &str, parent: u64) -> Self {
        Self::new(state_track_uuid(name, parent), name, parent, Some(18))
    }

    /// Its uuid.
    pub fn uuid(&self) -> u64 {
        self.0.uuid
    }

    fn new(uuid: u64, name: &str, parent: u64, kind: Option<u32>) -> Self {
        let mut descriptor = Vec::new();
        varint(&mut descriptor, 1, uuid);
        if parent != 0 {
            varint(&mut descriptor, 5, parent);
        }
        bytes(&mut descriptor, 2, name.as_bytes());
        if let Some(kind) = kind {
            bytes(&mut descriptor, kind, &[]);
        }
        let descriptor = descriptor.leak();
        Self(sys::PerfettoTeRegisteredTrackImpl {
            descriptor_size: descriptor.len(),
            descriptor: descriptor.as_mut_ptr().cast(),
            uuid,
        })
    }
}

/// A category. It is never freed.
#[derive(Clone, Copy, Debug)]
pub struct Category {
    pub(crate) implementation: *mut sys::PerfettoTeCategoryImpl,
    pub(crate) enabled: *const bool,
}

// SAFETY: the library allows the use of a category on all threads.
unsafe impl Send for Category {}
// SAFETY: as above.
unsafe impl Sync for Category {}

impl Category {
    /// Registers a category.
    pub fn register(name: &'static CStr, tags: &[&'static CStr]) -> Self {
        start();
        let tags = tags.iter().map(|tag| tag.as_ptr()).collect::<Vec<_>>().leak();
        let descriptor = Box::leak(Box::new(sys::PerfettoTeCategoryDescriptor {
            name: name.as_ptr(),
            desc: c"".as_ptr(),
            tags: tags.as_mut_ptr(),
            num_tags: tags.len(),
        }));
        // SAFETY: the descriptor is never freed.
        unsafe {
            let implementation = sys::PerfettoTeCategoryImplCreate(descriptor);
            let enabled = sys::PerfettoTeCategoryImplGetEnabled(implementation);
            Self { implementation, enabled }
        }
    }

    /// `PERFETTO_TE_DYNAMIC_CATEGORY`.
    pub fn dynamic() -> Self {
        start();
        // SAFETY: both are written once, by `start`.
        unsafe {
            Self {
                implementation: sys::perfetto_te_any_categories,
                enabled: sys::perfetto_te_any_categories_enabled,
            }
        }
    }

    /// Whether any session has it enabled: the load of the macro.
    #[inline(always)]
    pub fn is_enabled(&self) -> bool {
        // SAFETY: it points to an atomic of the library.
        unsafe {
            (*self.enabled.cast::<std::sync::atomic::AtomicBool>())
                .load(std::sync::atomic::Ordering::Relaxed)
        }
    }

    /// `PERFETTO_TE`.
    pub fn emit(&self, kind: Kind, name: Option<&CStr>, extras: &[Extra<'_>]) {
        if !self.is_enabled() {
            return;
        }
        let mut arena = Arena::default();
        let mut pointers = Vec::new();
        extras.iter().for_each(|extra| pointers.push(arena.extra(extra)));
        pointers.push(ptr::null_mut());
        let name = name.map_or(ptr::null(), CStr::as_ptr);
        // SAFETY: everything that is pointed to is in the arena or the caller's, and outlives the
        // call; the lists end with null.
        unsafe {
            sys::PerfettoTeHlEmitImpl(self.implementation, kind as i32, name, pointers.as_ptr());
        }
    }
}

/// Makes the categories known to the service.
pub fn publish_categories() {
    // SAFETY: the library was started by the first category.
    unsafe { sys::PerfettoTePublishCategories() };
}

/// Keeps the structures of an event.
#[derive(Default)]
struct Arena(Vec<Box<dyn Any>>);

impl Arena {
    fn keep<T: 'static, H>(&mut self, value: T) -> *mut H {
        let mut boxed = Box::new(value);
        let pointer = (&raw mut *boxed).cast();
        self.0.push(boxed);
        pointer
    }

    fn list<T: 'static>(&mut self, mut pointers: Vec<*mut T>) -> *const *mut T {
        pointers.push(ptr::null_mut());
        let list = pointers.as_ptr();
        self.0.push(Box::new(pointers));
        list
    }

    fn fields(&mut self, fields: &[Field<'_>]) -> *const *mut sys::PerfettoTeHlProtoField {
        let pointers = fields.iter().map(|field| self.field(field)).collect();
        self.list(pointers)
    }

    fn field(&mut self, field: &Field<'_>) -> *mut sys::PerfettoTeHlProtoField {
        let header = |type_, id| sys::PerfettoTeHlProtoField { type_, id };
        match *field {
            Field::Text(id, text) => self.keep(sys::PerfettoTeHlProtoFieldCstr {
                header: header(0, id),
                str_: text.as_ptr(),
            }),
            Field::Bytes(id, bytes) => self.keep(sys::PerfettoTeHlProtoFieldBytes {
                header: header(1, id),
                buf: bytes.as_ptr().cast::<c_void>(),
                len: bytes.len(),
            }),
            Field::Nested(id, fields) => {
                let fields = self.fields(fields);
                self.keep(sys::PerfettoTeHlProtoFieldNested { header: header(2, id), fields })
            }
            Field::Varint(id, value) => {
                self.keep(sys::PerfettoTeHlProtoFieldVarInt { header: header(3, id), value })
            }
            Field::ZigZag(id, value) => {
                let value = ((value as u64) << 1) ^ (value >> 63) as u64;
                self.keep(sys::PerfettoTeHlProtoFieldVarInt { header: header(3, id), value })
            }
            Field::Fixed64(id, value) => {
                self.keep(sys::PerfettoTeHlProtoFieldFixed64 { header: header(4, id), value })
            }
            Field::Fixed32(id, value) => {
                self.keep(sys::PerfettoTeHlProtoFieldFixed32 { header: header(5, id), value })
            }
            Field::Double(id, value) => {
                self.keep(sys::PerfettoTeHlProtoFieldDouble { header: header(6, id), value })
            }
            Field::Float(id, value) => {
                self.keep(sys::PerfettoTeHlProtoFieldFloat { header: header(7, id), value })
            }
            Field::Interned(id, list, text) => self.keep(sys::PerfettoTeHlProtoFieldCstrInterned {
                header: header(8, id),
                str_: text.as_ptr(),
                interned_type_id: list,
            }),
        }
    }

    fn nested(&mut self, track: &Nested<'_>) -> *mut sys::PerfettoTeHlNestedTrack {
        let header = |type_| sys::PerfettoTeHlNestedTrack { type_ };
        let named = |name: &CStr, id| sys::PerfettoTeHlNestedTrackNamed {
            header: header(1),
            name: name.as_ptr(),
            id,
            is_name_static: false,
            sibling_order_rank: 0,
            child_ordering: 0,
            sibling_merge_behavior: 0,
            sibling_merge_key_str: ptr::null(),
            sibling_merge_key_int: 0,
        };
        match *track {
            Nested::Named(name, id) => self.keep(named(name, id)),
            Nested::Ordered(name, id, sibling_order_rank, child_ordering) => {
                self.keep(sys::PerfettoTeHlNestedTrackNamed {
                    sibling_order_rank,
                    child_ordering,
                    ..named(name, id)
                })
            }
            Nested::Merged(name, id, sibling_merge_behavior, text, sibling_merge_key_int) => self
                .keep(sys::PerfettoTeHlNestedTrackNamed {
                    sibling_merge_behavior,
                    sibling_merge_key_str: text.map_or(ptr::null(), CStr::as_ptr),
                    sibling_merge_key_int,
                    ..named(name, id)
                }),
            Nested::Proto(id, fields) => {
                let fields = self.fields(fields);
                self.keep(sys::PerfettoTeHlNestedTrackProto { header: header(2), id, fields })
            }
            Nested::Registered(track) => self.keep(sys::PerfettoTeHlNestedTrackRegistered {
                header: header(3),
                track: &raw const track.0,
            }),
            Nested::Thread => self.keep(header(4)),
            Nested::Process => self.keep(header(5)),
        }
    }

    /// The structure of an extra.
    fn extra(&mut self, extra: &Extra<'_>) -> *mut sys::PerfettoTeHlExtra {
        let header = |type_| sys::PerfettoTeHlExtra { type_ };
        match *extra {
            Extra::Track(track) => self.keep(sys::PerfettoTeHlExtraRegisteredTrack {
                header: header(1),
                track: &raw const track.0,
            }),
            Extra::NamedTrack(name, id, parent_uuid) => {
                self.keep(sys::PerfettoTeHlExtraNamedTrack {
                    header: header(2),
                    name: name.as_ptr(),
                    id,
                    parent_uuid,
                    is_name_static: false,
                })
            }
            Extra::Timestamp(clock_id, value) => self.keep(sys::PerfettoTeHlExtraTimestamp {
                header: header(3),
                timestamp: sys::PerfettoTeTimestamp { clock_id, value },
            }),
            Extra::Dynamic(name) => {
                let descriptor = sys::PerfettoTeCategoryDescriptor {
                    name: name.as_ptr(),
                    desc: ptr::null(),
                    tags: ptr::null_mut(),
                    num_tags: 0,
                };
                let desc = self.keep::<_, sys::PerfettoTeCategoryDescriptor>(descriptor);
                self.keep(sys::PerfettoTeHlExtraDynamicCategory { header: header(4), desc })
            }
            Extra::Int(value) => {
                self.keep(sys::PerfettoTeHlExtraCounterInt64 { header: header(5), value })
            }
            Extra::Double(value) => {
                self.keep(sys::PerfettoTeHlExtraCounterDouble { header: header(6), value })
            }
            Extra::ArgBool(name, value) => self.keep(sys::PerfettoTeHlExtraDebugArgBool {
                header: header(7),
                name: name.as_ptr(),
                value,
            }),
            Extra::ArgUint(name, value) => self.keep(sys::PerfettoTeHlExtraDebugArgUint64 {
                header: header(8),
                name: name.as_ptr(),
                value,
            }),
            Extra::ArgInt(name, value) => self.keep(sys::PerfettoTeHlExtraDebugArgInt64 {
                header: header(9),
                name: name.as_ptr(),
                value,
            }),
            Extra::ArgDouble(name, value) => self.keep(sys::PerfettoTeHlExtraDebugArgDouble {
                header: header(10),
                name: name.as_ptr(),
                value,
            }),
            Extra::ArgText(name, value) => self.keep(sys::PerfettoTeHlExtraDebugArgString {
                header: header(11),
                name: name.as_ptr(),
                value: value.as_ptr(),
            }),
            Extra::ArgPointer(name, value) => self.keep(sys::PerfettoTeHlExtraDebugArgPointer {
                header: header(12),
                name: name.as_ptr(),
                value,
            }),
            Extra::Flow(id) => self.keep(sys::PerfettoTeHlExtraFlow { header: header(13), id }),
            Extra::TerminatingFlow(id) => {
                self.keep(sys::PerfettoTeHlExtraFlow { header: header(14), id })
            }
            Extra::Flush => self.keep(header(15)),
            Extra::NoIntern => self.keep(header(16)),
            Extra::Fields(fields) => {
                let fields = self.fields(fields);
                self.keep(sys::PerfettoTeHlExtraProtoFields { header: header(17), fields })
            }
            Extra::ProtoTrack(uuid, fields) => {
                let fields = self.fields(fields);
                self.keep(sys::PerfettoTeHlExtraProtoTrack { header: header(18), uuid, fields })
            }
            Extra::Nested(tracks) => {
                let pointers = tracks.iter().map(|track| self.nested(track)).collect();
                let tracks = self.list(pointers);
                self.keep(sys::PerfettoTeHlExtraNestedTracks { header: header(19), tracks })
            }
            Extra::Correlation(id) => {
                self.keep(sys::PerfettoTeHlExtraCorrelationId { header: header(20), id })
            }
            Extra::CorrelationText(text) => self.keep(sys::PerfettoTeHlExtraCorrelationIdStr {
                header: header(21),
                str_: text.as_ptr(),
            }),
        }
    }
}
