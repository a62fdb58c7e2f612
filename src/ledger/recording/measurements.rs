//! What a measurement needs of the recording.

use crate::dump::InProcessAnalyzer;
use crate::error::{NOT_LINKED, Unmeasured, UnmeasuredKind, unmeasured};
use crate::ledger::recording::{Recording, late_join};
use crate::platform::os;
use crate::scopes;
use crate::trace::worker::{self, Session};
use crate::trace::write::quiesce::HOOK_TIMEOUT;
use crate::trace::write::{ReentrancyGuard, state};

impl Recording {
    /// Refuses a measurement if this recording cannot measure, with the reason.
    pub(crate) fn refuse_measurement(&self) -> Result<(), Unmeasured> {
        if self.unlinked {
            Err(unmeasured(UnmeasuredKind::NotGlobalAllocator, NOT_LINKED))
        } else if state::load() & state::RECORD == 0 {
            Err(unmeasured(
                UnmeasuredKind::ChannelOff,
                "the ledger that is running does not record the channel \"memory\", or has failed (Ledger::problems says why)",
            ))
        } else if scopes::CHANNEL.is_off() {
            Err(unmeasured(
                UnmeasuredKind::ChannelOff,
                "the ledger that is running does not record the channel \"scope\"",
            ))
        } else {
            Ok(())
        }
    }

    /// The analyzer that measurements use. If the recording has none, a late one begins here; `None` if it
    /// cannot.
    pub(crate) fn analyzer_for_measurements(
        &mut self,
        session: &mut Session,
    ) -> Option<&InProcessAnalyzer> {
        if self.analyzer.is_none() && self.late_analyzer.is_none() {
            let analyzer = InProcessAnalyzer::late();
            if !worker::cycle(session, HOOK_TIMEOUT) {
                return None;
            }
            // Writes to other sinks, too.
            os::run_in_own_table(|| {
                let _untracked = ReentrancyGuard::enter();
                session.join_inline(Box::new(analyzer.clone()), |point, sink| {
                    late_join::begin(None, point, sink)
                });
            })?;
            self.late_analyzer = Some(analyzer);
        }
        self.analyzer.as_ref().or(self.late_analyzer.as_ref())
    }
}
