//! The live blocks, by root heap and address.
//!
//! | file | what |
//! |---|---|
//! | `block.rs` | the data that is kept for a block |
//! | `heaps.rs` | one live set for each root heap |
//! | `mappings.rs` | the order of the blocks that are mappings of the system, and what is reserved |
//! | `live.rs` | a live set: address to block |
//! | `pages.rs` | the table of pages with live blocks |
//! | `chunks.rs` | the blocks of a page, in slabs |
//! | `windows.rs` | where blocks have ever been |
//! | `young.rs` | the blocks of a small live set that were allocated last, which are in no chunk yet |

mod block;
mod chunks;
mod heaps;
mod live;
mod mappings;
mod pages;
mod windows;
mod young;

pub(super) use block::Block;
pub(super) use heaps::{HEAPS, Heaps};
pub(super) use mappings::Mappings;
pub(super) use windows::Windows;
