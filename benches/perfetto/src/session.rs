//! Sessions of the C library: its service runs in the process.
#![expect(unsafe_code, reason = "calls a C library")]

use perfetto_sdk_sys as sys;
use std::ffi::c_void;
use std::sync::Once;

/// Starts the library, once.
pub fn start() {
    static ONCE: Once = Once::new();
    // SAFETY: the arguments are destroyed after their last use.
    ONCE.call_once(|| unsafe {
        let arguments = sys::PerfettoProducerBackendInitArgsCreate();
        // The most that it takes: bursts of a bench must fit.
        sys::PerfettoProducerBackendInitArgsSetShmemSizeHintKb(arguments, 32 << 10);
        sys::PerfettoProducerInProcessInit(arguments);
        sys::PerfettoProducerBackendInitArgsDestroy(arguments);
        sys::PerfettoTeInit();
    });
}

/// A `TraceConfig` with one data source of track events.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionConfig<'a> {
    /// Names and patterns of categories and tags.
    pub enabled: &'a [&'a str],
    pub disabled: &'a [&'a str],
    pub enabled_tags: &'a [&'a str],
    pub disabled_tags: &'a [&'a str],
    /// `disable_incremental_timestamps`.
    pub absolute_timestamps: bool,
    /// `timestamp_unit_multiplier`; 0 is not written.
    pub unit_ns: u64,
    /// The size of the buffer.
    pub buffer_kib: u64,
}

impl SessionConfig<'_> {
    /// The message. The numbers are those of `TraceConfig` and what is in it.
    fn encode(&self) -> Vec<u8> {
        let mut events = Vec::new();
        let lists = [
            (2, self.enabled),
            (1, self.disabled),
            (3, self.disabled_tags),
            (4, self.enabled_tags),
        ];
        for (field, texts) in lists {
            texts.iter().for_each(|text| bytes(&mut events, field, text.as_bytes()));
        }
        if self.absolute_timestamps {
            varint(&mut events, 5, 1);
        }
        if self.unit_ns != 0 {
            varint(&mut events, 6, self.unit_ns);
        }
        let mut source = Vec::new();
        bytes(&mut source, 1, b"track_event");
        bytes(&mut source, 113, &events);
        let mut buffer = Vec::new();
        varint(&mut buffer, 1, self.buffer_kib.max(1024));
        varint(&mut buffer, 4, 2); // DISCARD
        let mut entry = Vec::new();
        bytes(&mut entry, 1, &source);
        let mut config = Vec::new();
        bytes(&mut config, 1, &buffer);
        bytes(&mut config, 2, &entry);
        config
    }
}

/// A session that runs until it is stopped.
#[derive(Debug)]
pub struct Session(*mut sys::PerfettoTracingSessionImpl);

impl Session {
    /// Starts a session.
    pub fn start(config: &SessionConfig<'_>) -> Self {
        start();
        let config = config.encode();
        // SAFETY: the library copies the configuration, and does not write to it.
        unsafe {
            let session = sys::PerfettoTracingSessionInProcessCreate();
            let begin = config.as_ptr().cast_mut().cast::<c_void>();
            sys::PerfettoTracingSessionSetup(session, begin, config.len());
            sys::PerfettoTracingSessionStartBlocking(session);
            Self(session)
        }
    }

    /// Waits until everything that was emitted is in its buffer.
    pub fn flush(&self) {
        // SAFETY: the session exists.
        unsafe { sys::PerfettoTracingSessionFlushBlocking(self.0, 10_000) };
    }

    /// Stops it; returns its packets.
    pub fn stop(self) -> Vec<u8> {
        unsafe extern "C" fn take(
            _: *mut sys::PerfettoTracingSessionImpl,
            data: *const c_void,
            size: usize,
            _has_more: bool,
            out: *mut c_void,
        ) {
            if size > 0 {
                // SAFETY: `stop` passes a pointer to its vector and waits; the data is valid during
                // this call.
                unsafe {
                    let data = std::slice::from_raw_parts(data.cast::<u8>(), size);
                    (*out.cast::<Vec<u8>>()).extend_from_slice(data);
                }
            }
        }
        let mut out = Vec::new();
        // SAFETY: the call returns after the last call of `take`; the session is not used any more.
        unsafe {
            sys::PerfettoTracingSessionFlushBlocking(self.0, 10_000);
            sys::PerfettoTracingSessionStopBlocking(self.0);
            let out = (&raw mut out).cast();
            sys::PerfettoTracingSessionReadTraceBlocking(self.0, Some(take), out);
            sys::PerfettoTracingSessionDestroy(self.0);
        }
        out
    }
}

pub(crate) fn varint(out: &mut Vec<u8>, field: u32, value: u64) {
    number(out, u64::from(field) << 3);
    number(out, value);
}

pub(crate) fn bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    number(out, u64::from(field) << 3 | 2);
    number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
