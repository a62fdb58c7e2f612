//! The real `order.rs`, on loom's atomics, and copies of it with a fault each (see `build.rs`).

pub use loom::sync::atomic::AtomicU64;
pub(crate) use order::{WORKER, epoch, owner, word};

/// What `order.rs` imports from its parent module.
mod atomic {
    pub use loom::sync::atomic::{AtomicU64, Ordering};
}

#[allow(dead_code, reason = "not all of it is modelled")]
#[path = "../../../src/trace/write/order.rs"]
pub mod order;

/// The functions of the rules that the model calls.
pub trait Rules: 'static {
    fn join(clocks: &[&AtomicU64], stamp: u64) -> u64;
}

macro_rules! faulty {
    ($module:ident, $name:ident, $file:literal) => {
        mod $module {
            pub mod atomic {
                pub use loom::sync::atomic::{AtomicU64, Ordering};
            }
            #[allow(dead_code, unused, clippy::all, reason = "broken on purpose")]
            pub mod order {
                include!(concat!(env!("OUT_DIR"), "/", $file));
            }
        }
        pub struct $name;
        impl Rules for $name {
            fn join(clocks: &[&AtomicU64], stamp: u64) -> u64 {
                $module::order::join(clocks.iter().copied(), stamp)
            }
        }
    };
}

faulty!(plain_store, PlainStore, "plain_store.rs");
faulty!(no_step, NoStep, "no_step.rs");

/// The rules as they are.
pub struct Real;

impl Rules for Real {
    fn join(clocks: &[&AtomicU64], stamp: u64) -> u64 {
        order::join(clocks.iter().copied(), stamp)
    }
}
