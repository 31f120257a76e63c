//! Produce requests to one partition that arrived together, each on a connection of its own or one behind the other.
//!
//! ```text
//! buffer   | request of A, t-0 | of B, t-1 | of C, t-0 | not plain, of D | of E, t-0 |
//! runs       t-0: A C E        t-1: B, which is alone and is left out, as D is
//! data     | batch of A | batch of C | batch of E |     a copy, so what is left out again is as it came
//! ```
//!
//! A run is found, checked, given its offsets, written and answered as one. Nothing is decided here that a single request
//! would have decided otherwise: who is refused is taken out, and goes the way of single requests.

use std::ops::Range;

use super::produce::{self, SingleProduce, Written};
use super::single::Topic;
use crate::batch_header::{BatchHeader, HEADER_BYTES, array};
use crate::batch_run::{self, Assignment};
use crate::error::BatchError;
use crate::index_progress::Indexed;
use crate::produced::{self, TopicRules};
use crate::recent_batches::RecentBatches;

/// A larger batch is not copied: to write it from where it was received costs less.
pub(super) const BATCH_BYTES_MAX: usize = 4 << 10;

/// What one run holds: as much as is written without the log I/O thread.
pub(super) const RUN_BYTES_MAX: usize = 64 << 10;

/// Bytes in front of a frame, which say how long it is.
const LENGTH_BYTES: usize = 4;

/// How a topic was named, kept.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OwnTopic {
    Name(Box<str>),
    Id([u8; 16]),
}

impl OwnTopic {
    fn borrow(&self) -> Topic<'_> {
        match self {
            OwnTopic::Name(name) => Topic::Name(name),
            OwnTopic::Id(id) => Topic::Id(*id),
        }
    }
}

impl From<Topic<'_>> for OwnTopic {
    fn from(topic: Topic<'_>) -> Self {
        match topic {
            Topic::Name(name) => OwnTopic::Name(name.into()),
            Topic::Id(id) => OwnTopic::Id(id),
        }
    }
}

/// Whose bytes lie where.
pub(super) type Arrivals<T> = Vec<(T, Range<usize>)>;

/// One request of a run.
pub(super) struct Member<T> {
    /// Whose it is.
    pub(super) owner: T,
    /// Where it lies in the buffer that it was received into, with its length.
    pub(super) place: Range<usize>,
    pub(super) version: i16,
    pub(super) correlation_id: i32,
    /// Which of the run's client ids.
    client: usize,
    /// Its batch in the run's data.
    batch: Range<usize>,
    /// As the check left it.
    header: BatchHeader,
}

impl<T> Member<T> {
    fn record_count(&self) -> i64 {
        i64::from(self.header.last_offset_delta) + 1
    }
}

/// What an index needs to know of a batch: its last offset, where it lies, and the largest timestamp up to it with the
/// last offset of its batch.
pub(super) type IndexPoint = (i64, u64, i64, i64);

/// Requests to one partition with the same acks and time-out.
pub(super) struct Run<T> {
    topic: OwnTopic,
    pub(super) partition: i32,
    pub(super) acks: i16,
    pub(super) timeout_ms: i32,
    client_ids: Vec<Option<Box<str>>>,
    pub(super) members: Vec<Member<T>>,
    data: Vec<u8>,
}

/// The frame without its length that begins at `position`, if it is whole before `end` and not longer than it may be.
fn frame_at(
    buffer: &[u8],
    position: usize,
    end: usize,
    frame_bytes_max: usize,
) -> Option<Range<usize>> {
    let begin = position.checked_add(LENGTH_BYTES)?;
    if begin > end || end > buffer.len() {
        return None;
    }
    let size = usize::try_from(i32::from_be_bytes(array(buffer, position))).ok()?;
    (size <= frame_bytes_max && size <= end - begin).then(|| begin..begin + size)
}

/// The request that a frame holds, if it may be one of a run.
fn plain(frame: &[u8]) -> Option<SingleProduce<'_>> {
    let found = produce::parse(frame)?;
    (found.acks != 0 && found.records.len() <= BATCH_BYTES_MAX).then_some(found)
}

/// The runs of requests that lie in a buffer, each of an owner of its own, and which of them belong to none: because they
/// are not one whole plain request, or there is no other to their partition.
pub(super) fn gather<T>(
    buffer: &[u8],
    received: impl Iterator<Item = (T, Range<usize>)>,
    frame_bytes_max: usize,
) -> (Vec<Run<T>>, Arrivals<T>) {
    let mut runs: Vec<Run<T>> = Vec::new();
    let mut rest = Vec::new();
    for (owner, place) in received {
        let request = frame_at(buffer, place.start, place.end, frame_bytes_max)
            .filter(|frame| frame.end == place.end)
            .and_then(|frame| {
                let frame = &buffer[frame];
                plain(frame).map(|found| (found, frame))
            });
        let Some((found, frame)) = request else {
            rest.push((owner, place));
            continue;
        };
        match runs.iter_mut().rev().find(|run| run.takes(&found)) {
            Some(run) => run.push(owner, place, &found, frame),
            None => runs.push(Run::new(owner, place, &found, frame)),
        }
    }
    let mut kept = Vec::with_capacity(runs.len());
    for run in runs {
        if run.members.len() > 1 {
            kept.push(run);
        } else {
            rest.extend(run.members.into_iter().map(|each| (each.owner, each.place)));
        }
    }
    (kept, rest)
}

/// The run that all of what one connection sent is: one request or more to one partition, at most `count_max`.
pub(super) fn whole<T: Default>(
    buffer: &[u8],
    place: Range<usize>,
    frame_bytes_max: usize,
    count_max: usize,
) -> Option<Run<T>> {
    let end = place.end;
    at_front(buffer, place, frame_bytes_max, count_max)
        .filter(|run| run.members.last().is_some_and(|last| last.place.end == end))
}

/// The run at the front of what one connection sent: two requests to one partition, or more, at most `count_max`.
pub(super) fn leading<T: Default>(
    buffer: &[u8],
    place: Range<usize>,
    frame_bytes_max: usize,
    count_max: usize,
) -> Option<Run<T>> {
    at_front(buffer, place, frame_bytes_max, count_max).filter(|run| run.members.len() > 1)
}

fn at_front<T: Default>(
    buffer: &[u8],
    place: Range<usize>,
    frame_bytes_max: usize,
    count_max: usize,
) -> Option<Run<T>> {
    let mut position = place.start;
    let mut run: Option<Run<T>> = None;
    while run.as_ref().map_or(0, |run| run.members.len()) < count_max {
        let Some(frame) = frame_at(buffer, position, place.end, frame_bytes_max) else {
            break;
        };
        let place = position..frame.end;
        let frame = &buffer[frame];
        let Some(found) = plain(frame) else {
            break;
        };
        position = place.end;
        match &mut run {
            None => run = Some(Run::new(T::default(), place, &found, frame)),
            Some(run) if run.takes(&found) => run.push(T::default(), place, &found, frame),
            Some(_) => break,
        }
    }
    run
}

impl<T> Run<T> {
    fn new(owner: T, place: Range<usize>, found: &SingleProduce<'_>, frame: &[u8]) -> Self {
        let mut run = Run {
            topic: found.topic.into(),
            partition: found.partition,
            acks: found.acks,
            timeout_ms: found.timeout_ms,
            client_ids: Vec::new(),
            members: Vec::new(),
            data: Vec::new(),
        };
        run.push(owner, place, found, frame);
        run
    }

    fn takes(&self, found: &SingleProduce<'_>) -> bool {
        self.partition == found.partition
            && self.acks == found.acks
            && self.timeout_ms == found.timeout_ms
            && self.data.len() + found.records.len() <= RUN_BYTES_MAX
            && self.topic.borrow() == found.topic
    }

    fn push(&mut self, owner: T, place: Range<usize>, found: &SingleProduce<'_>, frame: &[u8]) {
        let client_id = found.header.client_id;
        if self.client_ids.last().map(|last| last.as_deref()) != Some(client_id) {
            self.client_ids.push(client_id.map(Into::into));
        }
        let records = &frame[found.records.clone()];
        let begin = self.data.len();
        self.data.extend_from_slice(records);
        self.members.push(Member {
            owner,
            place,
            version: found.header.version,
            correlation_id: found.header.correlation_id,
            client: self.client_ids.len() - 1,
            batch: begin..self.data.len(),
            header: BatchHeader::parse(&array::<HEADER_BYTES>(records, 0)),
        });
    }

    pub(super) fn topic(&self) -> Topic<'_> {
        self.topic.borrow()
    }

    pub(super) fn client_id(&self, member: &Member<T>) -> Option<&str> {
        self.client_ids[member.client].as_deref()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.data
    }

    pub(super) fn headers(&self) -> impl Iterator<Item = BatchHeader> {
        self.members.iter().map(|each| each.header)
    }

    pub(super) fn record_count(&self) -> i64 {
        self.members.iter().map(Member::record_count).sum()
    }

    /// Checks each batch as that of a single request; takes out and returns those that are refused, or must be opened.
    pub(super) fn check(&mut self, rules: &TopicRules, now_ms: i64) -> Vec<Member<T>> {
        let mut refused = Vec::new();
        let mut kept = Vec::with_capacity(self.members.len());
        for mut each in self.members.drain(..) {
            match produced::check(&mut self.data[each.batch.clone()], rules, now_ms) {
                Ok(checked) if !checked.must_be_opened => {
                    each.header = checked.header;
                    kept.push(each);
                }
                _ => refused.push(each),
            }
        }
        self.members = kept;
        if !refused.is_empty() {
            self.close_gaps();
        }
        refused
    }

    /// As `check`, of requests one behind the other: those behind one that is refused are taken out as well.
    pub(super) fn check_leading(&mut self, rules: &TopicRules, now_ms: i64) {
        let mut good = 0;
        for each in &mut self.members {
            match produced::check(&mut self.data[each.batch.clone()], rules, now_ms) {
                Ok(checked) if !checked.must_be_opened => each.header = checked.header,
                _ => break,
            }
            good += 1;
        }
        if good < self.members.len() {
            self.members.truncate(good);
            self.close_gaps();
        }
    }

    fn close_gaps(&mut self) {
        let mut end = 0;
        for each in &mut self.members {
            let size = each.batch.len();
            self.data.copy_within(each.batch.clone(), end);
            each.batch = end..end + size;
            end += size;
        }
        self.data.truncate(end);
    }

    /// Writes offsets, epoch and time into the batches, and gives them away: a run may wait long for its answers.
    pub(super) fn assign(&mut self, assignment: Assignment) -> Result<Vec<u8>, BatchError> {
        let mut data = std::mem::take(&mut self.data);
        batch_run::assign(&mut data, assignment)?;
        Ok(data)
    }

    /// Tells indexes and readers of the batches, the first of which was written at `first_offset` and lies where the
    /// recent ones end: those that indexes get an entry for. `stamp` is the time of all records, none for their own.
    pub(super) fn enter(
        &self,
        first_offset: i64,
        stamp: Option<i64>,
        interval_bytes: u64,
        indexed: &mut Indexed,
        recent: &mut RecentBatches,
    ) -> Vec<IndexPoint> {
        let mut points = Vec::new();
        let mut offset = first_offset;
        for each in &self.members {
            let last_offset = offset.saturating_add(i64::from(each.header.last_offset_delta));
            let timestamp = stamp.unwrap_or(each.header.max_timestamp);
            let size = each.batch.len() as u64;
            if indexed.add(size, last_offset, timestamp, interval_bytes) {
                points.push((
                    last_offset,
                    recent.end(),
                    indexed.max_timestamp,
                    indexed.max_timestamp_offset,
                ));
            }
            recent.push(offset, size);
            offset = last_offset.saturating_add(1);
        }
        points
    }

    /// The frames, with their lengths, that answer the requests when the first was written as `first` says.
    pub(super) fn answers(&self, first: Written) -> impl Iterator<Item = Vec<u8>> {
        let mut written = first;
        self.members.iter().map(move |each| {
            let frame = produce::answer(
                each.version,
                each.correlation_id,
                self.topic(),
                self.partition,
                written,
            );
            written.base_offset = written.base_offset.saturating_add(each.record_count());
            frame
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch_builder::{BatchBuilder, BatchFields};
    use crate::batch_header::{LEADER_EPOCH_AT, put};

    const RULES: TopicRules = TopicRules {
        max_batch_bytes: 200,
        timestamps: None,
        keys_required: false,
        stream_records_refused: false,
        codec: None,
        level: None,
        opens_compressed: false,
        max_decompressed_bytes: 1 << 20,
    };

    fn batch(value: &[u8]) -> Vec<u8> {
        let mut builder = BatchBuilder::new(0);
        builder.append(7, None, Some(value), &[]).unwrap();
        let fields = BatchFields::of_records(crate::codec::Codec::None, None);
        builder.finish(fields).unwrap()
    }

    /// A request of version 9 to a partition of `t`, with its length.
    fn request(partition: i32, records: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; LENGTH_BYTES];
        frame.extend_from_slice(&[0, 0, 0, 9, 0, 0, 0, 7, 0, 1, b'c', 0, 0]);
        frame.extend_from_slice(&[0xff, 0xff, 0, 0, 0, 5, 2, 2, b't', 2]);
        frame.extend_from_slice(&partition.to_be_bytes());
        super::super::wire::put_unsigned_varint(&mut frame, records.len() as u32 + 1);
        frame.extend_from_slice(records);
        frame.extend_from_slice(&[0, 0, 0]);
        let size = (frame.len() - LENGTH_BYTES) as i32;
        put(&mut frame, 0, size.to_be_bytes());
        frame
    }

    fn laid_out(requests: &[Vec<u8>]) -> (Vec<u8>, Arrivals<usize>) {
        let mut places = Vec::new();
        let mut buffer = Vec::new();
        for (owner, request) in requests.iter().enumerate() {
            places.push((owner, buffer.len()..buffer.len() + request.len()));
            buffer.extend_from_slice(request);
        }
        (buffer, places)
    }

    fn owners(run: &Run<usize>) -> Vec<usize> {
        run.members.iter().map(|each| each.owner).collect()
    }

    #[test]
    fn requests_are_put_together_by_partition_and_who_is_alone_is_left() {
        let requests = [0, 1, 0, 2, 1, 0].map(|partition| request(partition, &batch(b"v")));
        let (buffer, places) = laid_out(&requests);
        let (runs, rest) = gather(&buffer, places.into_iter(), 1 << 20);
        let found: Vec<_> = runs
            .iter()
            .map(|run| (run.partition, owners(run)))
            .collect();
        assert_eq!(found, [(0, vec![0, 2, 5]), (1, vec![1, 4])]);
        assert_eq!(
            rest.iter().map(|(owner, _)| *owner).collect::<Vec<_>>(),
            [3]
        );
    }

    #[test]
    fn who_is_refused_leaves_no_gap() {
        let mut broken = batch(b"b");
        *broken.last_mut().unwrap() ^= 1;
        let large = batch(&[b'x'; 300]);
        let batches = [batch(b"a"), broken, batch(b"c"), large, batch(b"e")];
        let (buffer, places) = laid_out(&batches.each_ref().map(|each| request(0, each)));
        let (mut runs, _) = gather(&buffer, places.into_iter(), 1 << 20);
        let refused = runs[0].check(&RULES, 0);
        let refused: Vec<_> = refused.iter().map(|each| each.owner).collect();
        assert_eq!((owners(&runs[0]), refused), (vec![0, 2, 4], vec![1, 3]));
        assert_eq!(
            runs[0].bytes(),
            [&batches[0][..], &batches[2], &batches[4]].concat()
        );
        let assignment = Assignment {
            base_offset: 40,
            leader_epoch: 3,
            log_append_time_ms: None,
        };
        let data = runs[0].assign(assignment).unwrap();
        let size = batches[0].len();
        for (index, batch) in data.chunks(size).enumerate() {
            assert_eq!(i64::from_be_bytes(array(batch, 0)), 40 + index as i64);
            assert_eq!(i32::from_be_bytes(array(batch, LEADER_EPOCH_AT)), 3);
        }
        let mut indexed = Indexed {
            bytes_since_entry: size as u64,
            max_timestamp: 6,
            max_timestamp_offset: 39,
        };
        let mut recent = RecentBatches::from(5);
        let points = runs[0].enter(40, None, size as u64, &mut indexed, &mut recent);
        let second = 5 + size as u64;
        assert_eq!(points, [(41, second, 7, 40)]);
        assert_eq!(indexed.bytes_since_entry, 2 * size as u64);
        assert_eq!(recent.end(), 5 + 3 * size as u64);
        assert!(runs[0].bytes().is_empty());
    }

    #[test]
    fn of_one_connection_the_run_ends_before_who_is_refused() {
        let mut broken = batch(b"b");
        *broken.last_mut().unwrap() ^= 1;
        let requests =
            [batch(b"a"), batch(b"a"), broken, batch(b"c")].map(|each| request(0, &each));
        let (buffer, places) = laid_out(&requests);
        let mut run: Run<()> = leading(&buffer, 0..buffer.len(), 1 << 20, 100).unwrap();
        assert_eq!(run.members.len(), 4);
        run.check_leading(&RULES, 0);
        assert_eq!(run.members.len(), 2);
        assert_eq!(run.members[1].place, places[1].1);
        assert!(leading::<()>(&buffer, 0..requests[0].len() + 3, 1 << 20, 100).is_none());
        let count_of = |end, count_max| {
            whole::<()>(&buffer, 0..end, 1 << 20, count_max).map(|run| run.members.len())
        };
        assert_eq!(count_of(buffer.len(), 4), Some(4));
        assert_eq!(count_of(requests[0].len(), 4), Some(1));
        assert_eq!(count_of(buffer.len(), 3), None);
        assert_eq!(count_of(buffer.len() - 1, 4), None);
        assert_eq!(count_of(0, 4), None);
        assert_eq!(
            leading::<()>(&buffer, 0..buffer.len(), 1 << 20, 3)
                .unwrap()
                .members
                .len(),
            3
        );
    }
}
