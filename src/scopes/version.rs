//! The version of this copy of the crate, where other copies in the same program find it.

/// A version, padded with NULs. All versions of this crate have this form in the section.
pub(super) type Version = [u8; 32];

/// NOTE: with or without a tracker, because the scopes of both are not those of another copy.
#[expect(unsafe_code, reason = "only values of this form are in the section")]
#[used]
#[unsafe(link_section = "memledger_versions")]
pub(super) static VERSION: Version = {
    let (mut padded, version) = ([0; 32], env!("CARGO_PKG_VERSION").as_bytes());
    let mut at = 0;
    while at < version.len() && at < padded.len() {
        padded[at] = version[at];
        at += 1;
    }
    padded
};
