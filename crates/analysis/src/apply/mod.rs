//! What each memory event does to the live set, the accounts and the streams.
//!
//! | file | what |
//! |---|---|
//! | `model.rs` | the objects that they change |
//! | `model/batch.rs` | prefetches for a batch of operations and applies it, consecutive ones of a thread together |
//! | `model/blocks.rs` | one allocation, reallocation or free |
//! | `model/mappings.rs` | what the program maps from the system, and gives back in parts |
//! | `model/corrections.rs` | large sizes, failed reallocations, renamed blocks and heaps |

mod model;

pub(super) use model::{ApplyEnv, MappedRange, Model};
