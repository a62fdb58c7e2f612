//! `memledger serve`, `traces` and `fetch` as programs and users meet them: real processes, real
//! sockets.
#![cfg(target_os = "linux")]

mod commands;
mod follow;
mod harness;
mod hostile;
mod life;
mod limits;
mod network;
mod programs;
