//! Channels: named sets of events that are recorded together or not at all.

use super::events::CHANNEL_ANNOUNCE;
use super::worker::Importants;

/// A channel, as the stream announces it.
#[derive(Clone, Copy)]
pub(crate) struct Channel {
    pub(crate) name: &'static str,
    pub(crate) enabled: bool,
}

impl Channel {
    /// Adds its announcement.
    pub(crate) fn announce(self, importants: &mut Importants) {
        let (id, read_only) = (id(self.name).into(), 0_u32.into());
        let enabled = u32::from(self.enabled).into();
        importants.add(&CHANNEL_ANNOUNCE, &[id, enabled, read_only, self.name.into()]);
    }
}

/// The id by which Unreal's readers know a channel: FNV-1a over the name in lower case, without
/// its plural.
fn id(name: &str) -> u32 {
    let name = name.strip_suffix(['s', 'S']).unwrap_or(name);
    name.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte | 0x20)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn ids_are_unreals() {
        // From a trace of Unreal's own runtime (tests/samples).
        assert_eq!(super::id("MemAlloc"), 1_182_219_647);
        assert_eq!(super::id("Cpu"), 4_182_440_329);
        assert_eq!(super::id("Modules"), super::id("module"));
    }
}
