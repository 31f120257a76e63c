//! The kernel of Ottla: the work that is done per record, the thread that writes the log, and sockets, many at a time.
//!
//! Nothing but exports stands here; each module does one job and registers what Python sees of it.

use pyo3::prelude::*;

mod arrow_capsule;
mod arrow_columns;
mod arrow_decode;
mod arrow_encode;
mod arrow_headers;
mod arrow_records;
mod batch;
mod batch_builder;
mod batch_header;
mod batch_info;
mod batch_payload;
mod batch_run;
mod buffer;
mod checksum;
mod codec;
mod compaction;
mod decimal;
mod delay_index;
mod delays;
mod delivery;
mod disk_turns;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod index_progress;
mod listpack_size;
mod log_io;
mod message;
mod newest_records;
mod nsq_frames;
mod partitioner;
mod produced;
mod read_ahead;
mod recent_batches;
mod record;
mod records;
mod snappy_frames;
mod socket_poll;
mod stream_adds;
mod stream_replies;
mod topic_pattern;
mod topic_rules;
mod transaction_index;
mod varint;

/// The native module, `ottla.native._kernel`.
#[pymodule]
fn _kernel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    checksum::register(module)?;
    codec::register(module)?;
    partitioner::register(module)?;
    batch_info::register(module)?;
    records::register(module)?;
    snappy_frames::register(module)?;
    topic_rules::register(module)?;
    topic_pattern::register(module)?;
    newest_records::register(module)?;
    nsq_frames::register(module)?;
    compaction::register(module)?;
    arrow_records::register(module)?;
    index_progress::register(module)?;
    recent_batches::register(module)?;
    message::register(module)?;
    transaction_index::register(module)?;
    log_io::register(module)?;
    read_ahead::register(module)?;
    delay_index::register(module)?;
    delivery::register(module)?;
    socket_poll::register(module)?;
    stream_adds::register(module)?;
    stream_replies::register(module)?;
    Ok(())
}
