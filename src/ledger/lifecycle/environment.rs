//! Starts a recording before `main`, as the environment says.

use super::{exit, start};
use crate::alloc::{self, linked};
use crate::events::bookmark;
use crate::ledger::settings::{self, Settings};
use crate::platform::os;
use crate::problems;
use crate::scopes;
use crate::stacks;
use crate::trace::write::{await_runtime, state, untracked};

/// Lists the tracker's own channels before their first use. Their states stay new, since the start of a
/// recording sets them: a scope channel that is off would hide the scopes that are open then.
fn list_own_channels() {
    alloc::CHANNEL.list();
    scopes::CHANNEL.list();
    scopes::FREE_CHANNEL.list();
    stacks::CHANNEL.list();
    bookmark::BOOKMARK.list();
    #[cfg(feature = "perfetto")]
    crate::perfetto::TRACK.list();
}

#[cfg(not(wasm))]
impl os::before_main::StartBeforeMain for os::before_main::Process {
    fn start_before_main() {
        start_before_main();
    }
}

/// Called before `main`, if the allocator is linked: starts what the environment asks for.
pub(super) fn start_before_main() {
    list_own_channels();
    // The program's own tracker records what the environment asks for.
    #[cfg(preload)]
    if os::program_has_tracker() {
        return;
    }
    // Without thread-local memory that is there from the start, nothing can be recorded.
    #[cfg(preload)]
    if !os::has_static_thread_memory() {
        return;
    }
    untracked(|| {
        // NOTE: within the guard, because the loader allocates there, with the program's `malloc`.
        os::prepare_before_main();
        let _active = state::hook_active();
        exit::watch_forks();
        problems::prepare();
        let settings = Settings::from_environment();
        // NOTE: most programs are not tracked, so this allocates nothing for them.
        if os::has_env(settings::PREFIX.as_bytes())
            && linked::is_global_allocator()
            && !linked::ignores_environment()
        {
            settings::report_unknown();
        }
        if settings.start_by_themselves()
            && linked::is_global_allocator()
            && !linked::ignores_environment()
        {
            #[cfg(redirects)]
            crate::interpose::redirected::begin();
            start::before_main(settings);
            await_runtime();
        }
    });
}
