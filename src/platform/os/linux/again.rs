//! This library in a program whose launcher has dropped it from the environment, or its settings: they are
//! put back for the program, which takes them out again before anything of it runs.
//!
//! ```text
//! what the launcher gives    LD_PRELOAD=other.so
//! what the kernel gets       LD_PRELOAD=library.so:other.so    MEMLEDGER_AGAIN=p, and all settings
//! what the program finds     LD_PRELOAD=other.so
//! ```
//! Only `/proc/PID/environ` shows them. Not for programs that cannot load the library, or that the loader
//! does not load it into, nor under a filter of system calls, which could end the program for what the
//! tracker does.

use super::exec::{Edit, LIBRARY, OwnLibrary, Program, Texts, VARIABLE, name_of, texts, variable};
use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// How the names of all settings begin.
pub(super) const PREFIX: &[u8] = b"MEMLEDGER_";
const AGAIN: &[u8] = b"MEMLEDGER_AGAIN";
/// Ends each setting.
const END: u8 = 0x1e;

/// What was put back for this process, until [`keep`] has copied it.
static TAKEN: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
/// The settings of this process, each `NAME=VALUE` and [`END`].
static SETTINGS: OnceLock<Vec<u8>> = OnceLock::new();

/// What is done to `LD_PRELOAD`: the first byte of the variable.
const KEEP: u8 = b'k';
const REMOVE: u8 = b'n';
const SHORTEN: u8 = b'p';

/// Takes out of an environment what was put back.
///
/// # Safety
/// It is that of the process, and nothing else uses it yet.
pub unsafe fn take(environment: Texts) {
    // SAFETY: the caller's promise.
    let all = unsafe { texts(environment) };
    let Some((at, value)) = variable(all, AGAIN) else { return };
    TAKEN.store(value.as_ptr().cast::<c_char>().cast_mut(), Ordering::Release);
    let preload = variable(all, VARIABLE).map(|(at, _)| at);
    let removed = [Some(at), preload.filter(|_| value.first() == Some(&REMOVE))];
    if let Some(preload) = preload
        && value.first() == Some(&SHORTEN)
    {
        // SAFETY: both are in the same text, which ends with a NUL; the program may write to its environment.
        unsafe {
            let text = CStr::from_ptr(all[preload]).to_bytes_with_nul();
            let (start, own) = (VARIABLE.len() + 1, text.iter().position(|byte| *byte == b':'));
            let rest = own.map_or(text.len() - 1, |own| own + 1);
            let to = all[preload].cast_mut().cast::<u8>().add(start);
            ptr::copy(text.as_ptr().add(rest), to, text.len() - rest);
        }
    }
    let kept = (0..all.len()).filter(|at| !removed.contains(&Some(*at)));
    let list = environment.cast_mut();
    let mut count = 0;
    for at in kept {
        // SAFETY: within the list, and never after what is read.
        unsafe { *list.add(count) = *list.add(at) };
        count += 1;
    }
    // SAFETY: the rest of the list.
    (count..all.len()).for_each(|at| unsafe { *list.add(at) = ptr::null() });
}

/// Keeps the settings of this process for the programs that it executes. Before `main`.
pub(super) fn keep() {
    let _ = SETTINGS.set(settings());
}

fn settings() -> Vec<u8> {
    // SAFETY: the environment has its end, and each text.
    let own =
        unsafe { texts(environ) }.iter().map(|text| unsafe { CStr::from_ptr(*text) }.to_bytes());
    let own: Vec<_> = own.filter(|text| text.starts_with(PREFIX) && !text.contains(&END)).collect();
    let name = |text: &&[u8]| text.split(|byte| *byte == b'=').next().map(<[u8]>::to_vec);
    let is_new = |text: &&[u8]| !text.is_empty() && !own.iter().any(|own| name(own) == name(text));
    let more = taken().split(|byte| *byte == END).filter(is_new);
    own.iter().copied().chain(more).flat_map(|text| text.iter().copied().chain([END])).collect()
}

/// The settings that were put back for this process.
fn taken() -> &'static [u8] {
    let taken = TAKEN.load(Ordering::Acquire);
    // SAFETY: a text of the environment ends with a NUL, and stays.
    let taken = if taken.is_null() { c"" } else { unsafe { CStr::from_ptr(taken) } };
    taken.to_bytes().get(1..).unwrap_or_default()
}

/// A setting that was put back for this process.
pub(super) fn setting(name: &CStr) -> Option<&'static [u8]> {
    let all = SETTINGS.get().map_or_else(taken, Vec::as_slice);
    let value = |text: &'static [u8]| text.strip_prefix(name.to_bytes())?.strip_prefix(b"=");
    all.split(|byte| *byte == END).find_map(value)
}

unsafe extern "C" {
    static environ: Texts;
}

/// What puts this library back; `None` if that is not possible. `own` is where it is, if it is there.
pub(super) fn edits<'a>(
    all: &'a [*const c_char],
    own: Option<OwnLibrary<'a>>,
    program: impl FnOnce() -> Option<Program>,
) -> Option<[Edit<'a>; 2]> {
    let program = program().filter(|program| !program.is_secure())?;
    if program.cannot_load() {
        return own.map(|own| [own.without(), Edit::default()]);
    }
    let settings = SETTINGS.get().filter(|settings| !settings.is_empty())?;
    let again = |how: &'static [u8]| Edit { at: None, parts: [AGAIN, b"=", how, settings, b""] };
    let library = name_of(&LIBRARY).to_bytes();
    if own.is_some() {
        return Some([again(&[KEEP]), Edit::default()]);
    }
    Some(match variable(all, VARIABLE) {
        None => {
            let preload = Edit { at: None, parts: [VARIABLE, b"=", library, b"", b""] };
            [preload, again(&[REMOVE])]
        }
        Some((at, value)) => {
            let preload = Edit { at: Some(at), parts: [VARIABLE, b"=", library, b":", value] };
            [preload, again(&[SHORTEN])]
        }
    })
}
