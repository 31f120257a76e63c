//! The records of a ledger in pages. Pages in a row that are all done, or all available, are one piece without memory
//! for their records.
//!
//! ```text
//!       start                                          end
//!  | page | page |  done ...  | page |  available ...  | page |
//! ```

use super::page::{DONE, Entry, NEW, PAGE_RECORDS, Page};
use std::collections::VecDeque;

const RECORDS: i64 = PAGE_RECORDS as i64;

/// The last offset for which there can be a whole page.
pub const OFFSET_MAX: i64 = i64::MAX - RECORDS;

/// What is known of the records of a piece.
enum Kept {
    /// All are done.
    Done,
    /// All are available, and were delivered so often.
    Available(u16),
    /// Each is what it is; the piece is one page.
    Page(Box<Page>),
}

/// One page, or pages in a row that are alike. It ends where the next one begins.
struct Piece {
    first: i64,
    kept: Kept,
}

fn available(count: u16) -> Entry {
    Entry { count, ..NEW }
}

/// See the module.
pub struct Pages {
    start: i64,
    end: i64,
    pieces: VecDeque<Piece>,
    /// Where the last piece ends.
    until: i64,
    page_count: usize,
    finished: u64,
}

impl Pages {
    /// No records, from an offset on.
    pub fn new(start: i64) -> Self {
        Self {
            start,
            end: start,
            pieces: VecDeque::new(),
            until: start,
            page_count: 0,
            finished: 0,
        }
    }

    /// The first offset that is not done.
    pub fn start(&self) -> i64 {
        self.start
    }

    /// The first offset that was never delivered.
    pub fn end(&self) -> i64 {
        self.end
    }

    /// Records between start and end that are not done.
    pub fn unfinished(&self) -> u64 {
        (self.end - self.start) as u64 - self.finished
    }

    /// About the bytes of all of it.
    pub fn bytes(&self) -> usize {
        self.page_count * size_of::<Page>() + self.pieces.capacity() * size_of::<Piece>()
    }

    /// What a record is. Records below the start are done, those from the end on new.
    pub fn get(&self, offset: i64) -> Entry {
        if offset < self.start {
            return DONE;
        }
        if offset >= self.end {
            return NEW;
        }
        let piece = &self.pieces[self.find(offset)];
        match &piece.kept {
            Kept::Done => DONE,
            Kept::Available(count) => available(*count),
            Kept::Page(page) => page.get((offset - piece.first) as usize),
        }
    }

    /// The record at an offset between start and end, and the first offset behind it, at most `stop`, that may be another.
    pub fn alike(&self, offset: i64, stop: i64) -> (Entry, i64) {
        let index = self.find(offset);
        let piece = &self.pieces[index];
        let entry = match &piece.kept {
            Kept::Done => DONE,
            Kept::Available(count) => available(*count),
            Kept::Page(page) => return (page.get((offset - piece.first) as usize), offset + 1),
        };
        (entry, self.stop(index).min(stop).min(self.end))
    }

    /// The first offset from `from` on that can be delivered now; `end` where none was given back.
    pub fn next_deliverable(&self, from: i64) -> i64 {
        let mut offset = from.max(self.start);
        if offset >= self.end {
            return self.end;
        }
        for index in self.find(offset)..self.pieces.len() {
            let piece = &self.pieces[index];
            let stop = self.stop(index).min(self.end);
            match &piece.kept {
                Kept::Available(_) => return offset,
                Kept::Page(page) if page.deliverable > 0 => {
                    let found = (offset..stop)
                        .find(|at| page.get((at - piece.first) as usize).is_deliverable());
                    if let Some(found) = found {
                        return found;
                    }
                }
                _ => {}
            }
            offset = stop;
        }
        self.end
    }

    /// Where a piece ends.
    fn stop(&self, index: usize) -> i64 {
        self.pieces
            .get(index + 1)
            .map_or(self.until, |next| next.first)
    }

    /// The piece of an offset between start and end.
    ///
    /// Most pieces are single pages. Where all before it are, or all behind it, its place follows from the offset.
    #[inline]
    fn find(&self, offset: i64) -> usize {
        let begins_here = |index: usize| {
            self.pieces
                .get(index)
                .is_some_and(|piece| ((offset - piece.first) as u64) < PAGE_RECORDS as u64)
        };
        let ahead = (offset - self.pieces[0].first) as u64 as usize / PAGE_RECORDS;
        if begins_here(ahead) {
            return ahead;
        }
        let behind = (self.until - 1 - offset) as u64 as usize / PAGE_RECORDS;
        let from_the_back = self.pieces.len().wrapping_sub(behind).wrapping_sub(1);
        if begins_here(from_the_back) {
            return from_the_back;
        }
        self.pieces.partition_point(|piece| piece.first <= offset) - 1
    }

    /// Replaces the record at an offset between start and end. One that is done as all of its page stays so.
    pub fn put(&mut self, offset: i64, entry: Entry) {
        let mut index = self.find(offset);
        if let Kept::Available(count) = self.pieces[index].kept {
            if entry == available(count) {
                return;
            }
            index = self.part(index, offset, count);
        }
        let Piece { first, kept } = &mut self.pieces[index];
        let Kept::Page(page) = kept else {
            return;
        };
        let place = (offset - *first) as usize;
        let was_done = page.get(place).is_done();
        page.set(place, entry);
        self.finished = self.finished + u64::from(entry.is_done()) - u64::from(was_done);
        if page.done as usize == PAGE_RECORDS {
            *kept = Kept::Done;
            self.page_count -= 1;
            self.join(index);
        }
    }

    /// Makes the page of an offset a piece of its own, out of one of available records. Gives its place.
    fn part(&mut self, index: usize, offset: i64, count: u16) -> usize {
        let (first, stop) = (self.pieces[index].first, self.stop(index));
        let page = offset - (offset - first) % RECORDS;
        let place = index + usize::from(first < page);
        let single = Piece {
            first: page,
            kept: Kept::Page(Page::alike(count)),
        };
        if first < page {
            self.pieces.insert(place, single);
        } else {
            self.pieces[place] = single;
        }
        if page + RECORDS < stop {
            let rest = Piece {
                first: page + RECORDS,
                kept: Kept::Available(count),
            };
            self.pieces.insert(place + 1, rest);
        }
        self.page_count += 1;
        place
    }

    /// A piece became done: it is one with the pieces beside it that are done.
    fn join(&mut self, index: usize) {
        let is_done =
            |piece: Option<&Piece>| piece.is_some_and(|piece| matches!(piece.kept, Kept::Done));
        if is_done(self.pieces.get(index + 1)) {
            self.pieces.remove(index + 1);
        }
        if index > 0 && is_done(self.pieces.get(index - 1)) {
            self.pieces.remove(index);
        }
    }

    /// One more record, never delivered.
    pub fn grow_by_one(&mut self) {
        if self.end == self.until {
            self.push(1, Kept::Page(Page::alike(0)));
            self.page_count += 1;
        }
        self.end += 1;
    }

    fn push(&mut self, pages: i64, kept: Kept) {
        let first = self.until;
        self.until += pages * RECORDS;
        let last = self.pieces.back().map(|piece| &piece.kept);
        if !matches!((last, &kept), (Some(Kept::Done), Kept::Done)) {
            self.pieces.push_back(Piece { first, kept });
        }
    }

    /// Records from the end up to an offset do not exist.
    pub fn skip_to(&mut self, first: i64) {
        if self.start == self.end {
            self.restart_at(first);
            return;
        }
        self.append(first - 1, DONE);
        self.advance();
    }

    /// Takes over a run of a stored state; what lies before it is available.
    pub fn load(&mut self, first: i64, last: i64, entry: Entry) {
        self.append(first - 1, NEW);
        self.append(last, entry);
    }

    /// Records from the end up to an offset, all done or available: whole pages of them at once.
    fn append(&mut self, last: i64, entry: Entry) {
        debug_assert!(entry.is_done() || entry == available(entry.count));
        while self.end <= last {
            let pages = (last - self.end + 1) / RECORDS;
            if self.end == self.until && pages > 0 {
                let is_done = entry.is_done();
                self.push(
                    pages,
                    if is_done {
                        Kept::Done
                    } else {
                        Kept::Available(entry.count)
                    },
                );
                self.end = self.until;
                self.finished += u64::from(is_done) * (pages * RECORDS) as u64;
            } else {
                let offset = self.end;
                self.grow_by_one();
                self.put(offset, entry);
            }
        }
    }

    /// No records, from an offset on.
    pub fn restart_at(&mut self, offset: i64) {
        *self = Self::new(offset);
    }

    /// Moves the start over what is done, and forgets the pages below it.
    pub fn advance(&mut self) {
        while self.start < self.end {
            let index = self.find(self.start);
            let piece = &self.pieces[index];
            let stop = self.stop(index).min(self.end);
            let next = match &piece.kept {
                Kept::Done => stop,
                Kept::Available(_) => self.start,
                Kept::Page(page) => (self.start..stop)
                    .find(|at| !page.get((at - piece.first) as usize).is_done())
                    .unwrap_or(stop),
            };
            self.finished -= (next - self.start) as u64;
            self.start = next;
            if next < stop {
                break;
            }
        }
        self.drop_pieces();
    }

    /// The start is at an offset, at most the end, whatever lies below.
    pub fn forget_below(&mut self, to: i64) {
        while self.start < to {
            let index = self.find(self.start);
            let piece = &self.pieces[index];
            let stop = self.stop(index).min(to);
            let done = match &piece.kept {
                Kept::Done => stop - self.start,
                Kept::Available(_) => 0,
                Kept::Page(page) => (self.start..stop)
                    .filter(|at| page.get((at - piece.first) as usize).is_done())
                    .count() as i64,
            };
            self.finished -= done as u64;
            self.start = stop;
        }
        self.drop_pieces();
    }

    fn drop_pieces(&mut self) {
        if self.start == self.end {
            self.restart_at(self.end);
            return;
        }
        while self.stop(0) <= self.start {
            if let Some(Piece {
                kept: Kept::Page(_),
                ..
            }) = self.pieces.pop_front()
            {
                self.page_count -= 1;
            }
        }
    }
}
