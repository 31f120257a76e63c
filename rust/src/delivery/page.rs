//! The delivery state of 512 records in a row, seven bytes each.

/// Records of a page.
pub const PAGE_RECORDS: usize = 512;

/// What may be done with a record. The numbers are those of Kafka's share group state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// To be delivered, now or from a time on.
    Available = 0,
    /// Delivered to somebody who has not settled it yet.
    Acquired = 1,
    /// Done.
    Acknowledged = 2,
    /// Given up: rejected, delivered too often, or not there.
    Archived = 4,
}

impl State {
    /// The state of a number; None for one that is not kept here.
    pub fn of(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Available),
            1 => Some(Self::Acquired),
            2 => Some(Self::Acknowledged),
            4 => Some(Self::Archived),
            _ => None,
        }
    }

    /// Whether the record is never delivered again.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Acknowledged | Self::Archived)
    }
}

/// The record of a place in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What may be done with it.
    pub state: State,
    /// A change of it is not written yet: it is neither deliverable nor done.
    pub is_pending: bool,
    /// How often it was delivered.
    pub count: u16,
    /// The lease that holds it, or that it waits for; `NO_LEASE` for none.
    pub slot: u32,
}

/// The slot of a record that nobody holds.
pub const NO_LEASE: u32 = u32::MAX;

/// The slot of a record that waits until another of its key is done.
pub const BLOCKED: u32 = u32::MAX - 1;

/// A record that was never delivered.
pub const NEW: Entry = Entry {
    state: State::Available,
    is_pending: false,
    count: 0,
    slot: NO_LEASE,
};

/// A record that is not there, or over for good.
pub const DONE: Entry = Entry {
    state: State::Archived,
    ..NEW
};

impl Entry {
    /// Whether it can be acquired now.
    pub fn is_deliverable(&self) -> bool {
        self.state == State::Available && !self.is_pending && self.slot == NO_LEASE
    }

    /// Whether the start of the ledger may move over it.
    pub fn is_done(&self) -> bool {
        self.state.is_final() && !self.is_pending
    }
}

const PENDING: u8 = 0x80;

/// The records of one page, with how many of them can be delivered and how many are done.
pub struct Page {
    states: [u8; PAGE_RECORDS],
    counts: [u16; PAGE_RECORDS],
    slots: [u32; PAGE_RECORDS],
    /// Records that can be acquired now.
    pub deliverable: u32,
    /// Records over which the start may move.
    pub done: u32,
}

impl Page {
    /// A page of available records that were delivered so often.
    pub fn alike(count: u16) -> Box<Self> {
        Box::new(Self {
            states: [State::Available as u8; PAGE_RECORDS],
            counts: [count; PAGE_RECORDS],
            slots: [NO_LEASE; PAGE_RECORDS],
            deliverable: PAGE_RECORDS as u32,
            done: 0,
        })
    }

    /// The record at a place.
    pub fn get(&self, place: usize) -> Entry {
        let state = self.states[place];
        Entry {
            // Only `set` writes states, and it writes those that exist.
            state: State::of(state & !PENDING).unwrap_or(State::Archived),
            is_pending: state & PENDING != 0,
            count: self.counts[place],
            slot: self.slots[place],
        }
    }

    /// Replaces the record at a place.
    pub fn set(&mut self, place: usize, entry: Entry) {
        let before = self.get(place);
        self.deliverable = self.deliverable + u32::from(entry.is_deliverable())
            - u32::from(before.is_deliverable());
        self.done = self.done + u32::from(entry.is_done()) - u32::from(before.is_done());
        self.states[place] = entry.state as u8 | if entry.is_pending { PENDING } else { 0 };
        self.counts[place] = entry.count;
        self.slots[place] = entry.slot;
    }
}
