//! Sends a document, a heap profile or the figures of a report, to a client, on a thread of its own: it takes
//! a while to make and a client can be slow, and neither may delay the other clients.

use crate::platform::os::{self, Instant, OwnDescriptor};
use crate::trace::write::ReentrancyGuard;
use memledger_format::words::escape;
use std::ffi::c_void;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time within which a client must have received a whole document.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of bytes of one write, before which the descriptor is checked.
const WRITE_BYTES: usize = 64 << 10;

/// A document that a client can get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocumentKind {
    /// A heap profile in pprof's format.
    Profile,
    /// The figures of a report.
    Figures {
        /// Those of call stacks, too.
        stacks: bool,
    },
}

impl DocumentKind {
    /// The name in the line with the number of bytes that follow the answer.
    pub(super) fn bytes(self) -> &'static str {
        match self {
            Self::Profile => "profile_bytes",
            Self::Figures { .. } => "figures_bytes",
        }
    }
}

/// Makes a document, or gives the reason why there is none.
pub(crate) type MakeDocument = fn() -> Result<Vec<u8>, String>;

/// Whether a document is being made or sent. One at a time limits the memory that clients can cause.
static IS_BUSY: AtomicBool = AtomicBool::new(false);

/// The right to make a document.
pub(super) struct Turn(());

impl Turn {
    pub(super) fn take() -> Result<Self, String> {
        match IS_BUSY.swap(true, Ordering::AcqRel) {
            true => Err("another client is being sent a profile or figures".into()),
            false => Ok(Self(())),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        IS_BUSY.store(false, Ordering::Release);
    }
}

/// A client that gets a document, then the end of its connection.
struct Work {
    client: OwnDescriptor<TcpStream>,
    kind: DocumentKind,
    make: MakeDocument,
    _turn: Turn,
}

/// Passes the work to the new thread.
static STARTING: Mutex<Option<Work>> = Mutex::new(None);

fn starting() -> MutexGuard<'static, Option<Work>> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes and sends a document on a new thread.
pub(super) fn send(
    client: OwnDescriptor<TcpStream>,
    kind: DocumentKind,
    make: MakeDocument,
    turn: Turn,
) {
    *starting() = Some(Work { client, kind, make, _turn: turn });
    if let Err(error) = os::spawn(run, 0)
        && let Some(mut work) = starting().take()
    {
        work.refuse(&format!("no thread can be started for the answer: {error}"));
    }
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    let _untracked = ReentrancyGuard::enter();
    os::name_thread(c"memledger doc");
    let work = starting().take();
    if let Some(mut work) = work {
        // A bug here must not end the program.
        let made = catch_unwind(AssertUnwindSafe(work.make));
        match made.unwrap_or_else(|_| Err("making the answer panicked".into())) {
            Ok(document) => {
                let first = format!("{} {}\nok\n", work.kind.bytes(), document.len());
                work.answer(first.as_bytes());
                work.answer(&document);
            }
            Err(reason) => work.refuse(&reason),
        }
    }
    std::ptr::null_mut()
}

impl Work {
    fn refuse(&mut self, reason: &str) {
        self.answer(format!("refused: {}\n", escape(reason)).as_bytes());
    }

    /// Sends as much as the client takes within [`SEND_TIMEOUT`].
    fn answer(&mut self, mut bytes: &[u8]) {
        let deadline = Instant::now() + SEND_TIMEOUT;
        while !bytes.is_empty() {
            let Some(mut socket) = self.client.get() else { return };
            let left = deadline.saturating_duration_since(Instant::now());
            let is_set = !left.is_zero()
                && socket.set_nonblocking(false).is_ok()
                && socket.set_write_timeout(Some(left)).is_ok();
            if !is_set {
                return;
            }
            match socket.write(bytes.get(..WRITE_BYTES).unwrap_or(bytes)) {
                Ok(count @ 1..) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return,
            }
        }
    }
}
