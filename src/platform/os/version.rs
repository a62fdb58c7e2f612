//! The version of this copy of the crate, where other copies in the same program find it.
//!
//! NOTE: also without a tracker, because its scopes are not those of another copy either.
#![cfg(any(tracking, target_os = "linux", target_os = "macos"))]

/// A version, padded with NULs. All versions of this crate have this form in the section.
pub(super) type Version = [u8; 32];

// SAFETY: only values of this form are in the section.
#[expect(unsafe_code, reason = "only values of this form are in the section")]
#[used]
#[cfg_attr(not(any(target_os = "macos", windows)), unsafe(link_section = "memledger_versions"))]
#[cfg_attr(windows, unsafe(link_section = ".rdata$memledger_versions_2"))]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__memledger_ver"))]
pub(super) static VERSION: Version = {
    let (mut padded, version) = ([0; 32], env!("CARGO_PKG_VERSION").as_bytes());
    let mut at = 0;
    while at < version.len() && at < padded.len() {
        padded[at] = version[at];
        at += 1;
    }
    padded
};
