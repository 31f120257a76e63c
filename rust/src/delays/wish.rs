//! What a record of a delay topic asks for.

use crate::record::Record;

const DELIVER_AT: &[u8] = b"ottla-deliver-at";
const DELAY: &[u8] = b"ottla-delay";
const CANCEL: &[u8] = b"ottla-cancel";
const SCHEDULED: &[u8] = b"ottla-scheduled";
const DELAY_MAX_MS: i64 = 3_653 * 86_400_000;

/// When a record is due that cannot be delivered: at once, to the letters.
pub const AT_ONCE: i64 = i64::MIN;

/// What a record asks for. `place` is the offset that it counts as where records are cancelled: what the broker writes
/// in the place of another one has the place of that one.
#[derive(Debug, PartialEq, Eq)]
pub enum Wish {
    /// To be moved at a time.
    At { due: i64, place: i64 },
    /// That what waits with its key, and has a place before this one, is not moved.
    Cancel { place: i64 },
}

/// The delay of records that say none: each from an offset on, in order.
pub struct DefaultDelays(Vec<(i64, i64)>);

impl DefaultDelays {
    /// Pairs of the first offset and the delay in ms, in the order of offsets.
    pub fn new(delays: Vec<(i64, i64)>) -> Self {
        DefaultDelays(delays)
    }

    fn at(&self, offset: i64) -> i64 {
        let index = self.0.partition_point(|(from, _)| *from <= offset);
        self.0[..index].last().map_or(0, |(_, delay)| *delay)
    }
}

/// A number of milliseconds, or an offset, in decimal digits, which are nothing but digits.
fn number(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 18 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// What a record asks for.
pub fn wish(record: &Record<'_>, default_delays: &DefaultDelays) -> Wish {
    let (mut at, mut delay, mut place, mut cancels) = (None, None, record.offset, false);
    for (key, value) in record.headers.iter() {
        match key {
            CANCEL => cancels = true,
            DELIVER_AT => at = Some(value),
            DELAY => delay = Some(value),
            SCHEDULED => {
                let earlier = value
                    .and_then(number)
                    .filter(|place| *place < record.offset);
                place = earlier.unwrap_or(record.offset);
            }
            _ => {}
        }
    }
    if cancels && record.key.is_some() {
        return Wish::Cancel { place };
    }
    if cancels {
        let due = AT_ONCE;
        return Wish::At { due, place };
    }
    let wanted = match (at, delay) {
        (Some(at), _) => at.and_then(number),
        (None, Some(delay)) => delay
            .and_then(number)
            .and_then(|delay| record.timestamp.checked_add(delay)),
        (None, None) => record
            .timestamp
            .checked_add(default_delays.at(record.offset)),
    };
    let due = wanted
        .filter(|due| *due <= record.timestamp.saturating_add(DELAY_MAX_MS))
        .unwrap_or(AT_ONCE);
    Wish::At { due, place }
}
