//! The signal to stop.

use crate::error::CliError;
use std::future::Future;

/// Completes at the first Ctrl-C or SIGTERM after this call; on Windows also at Ctrl-Break, and when the
/// console closes. As long as the future is there, none of these ends this process.
pub fn stop_signal() -> Result<impl Future<Output = ()>, CliError> {
    let failed = |error| CliError::Failed(format!("cannot wait for signals: {error}"));
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        Ok(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        })
    }
    #[cfg(windows)]
    {
        use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close};
        let mut interrupt = ctrl_c().map_err(failed)?;
        let mut breaks = ctrl_break().map_err(failed)?;
        let mut closes = ctrl_close().map_err(failed)?;
        Ok(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = breaks.recv() => {}
                _ = closes.recv() => {}
            }
        })
    }
}
