//! The parts of what waits in a delay topic: in memory, and in files.

pub mod bucket;
pub mod cancels;
pub mod crossings;
pub mod entry;
pub mod gathered;
pub mod merge;
pub mod run;
pub mod wish;
