//! The root heaps: separate address spaces, each with a name.

use crate::accounts::Accounts;
use crate::live_set::HEAPS;

/// What is known of a root heap.
#[derive(Clone, Debug, Default)]
struct RootHeap {
    name: Option<Box<str>>,
    /// Its peak tracker; `None` if it has no context, or if no other heap has one, so that its peak is
    /// that of the total.
    peak: Option<u32>,
}

/// All root heaps, by their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct RootHeaps([RootHeap; HEAPS]);

impl RootHeaps {
    /// Sets the name of a root heap. Ids of other heaps are ignored: those are inside root heaps.
    pub(super) fn set_name(&mut self, id: u32, name: &str) {
        if let Some(heap) = self.0.get_mut(id as usize) {
            heap.name = Some(name.into());
        }
    }

    /// There is a context in `heap`, which is below [`HEAPS`]. Returns whether this is the second heap
    /// with contexts: then those of the first need new lists of peak trackers.
    pub(super) fn add(&mut self, heap: u8, accounts: &mut Accounts) -> bool {
        let heap = usize::from(heap) % HEAPS;
        if heap == 0 || self.0[heap].peak.is_some() {
            return false;
        }
        let is_second = self.0[0].peak.is_none();
        if is_second {
            self.0[0].peak = Some(accounts.add_peak_of_total());
        }
        self.0[heap].peak = Some(accounts.add_peak());
        is_second
    }

    /// The peak tracker of a heap, if it differs from the total.
    pub(crate) fn peak(&self, heap: u8) -> Option<u32> {
        self.0[usize::from(heap) % HEAPS].peak
    }

    /// Whether the trace calls a heap so.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.0.iter().any(|heap| heap.name.as_deref() == Some(name))
    }

    /// The name of a heap: what the trace calls it, or what Unreal calls it.
    pub(crate) fn name(&self, heap: u8) -> String {
        match (&self.0[usize::from(heap) % HEAPS].name, heap) {
            (Some(name), _) => name.to_string(),
            (None, 0) => "System".to_owned(),
            (None, 1) => "Video".to_owned(),
            (None, _) => format!("heap {heap}"),
        }
    }
}
