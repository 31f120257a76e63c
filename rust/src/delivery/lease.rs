//! Who holds records, and until when. A lease is one acquisition, however many records it has.

/// One acquisition, or one wait of released records.
#[derive(Clone, Debug)]
pub struct Lease {
    /// Who holds the records; 0 for records that wait until `deadline_ms`.
    pub owner: u32,
    /// When it ends by itself, in milliseconds; `i64::MAX` for never.
    pub deadline_ms: i64,
    /// The first record it may have.
    pub first: i64,
    /// The last record it may have.
    pub last: i64,
    /// How many records it still has, those with a pending change included.
    pub held: u32,
    /// It has ended; what it still has is settled by pending changes.
    pub has_ended: bool,
}

impl Lease {
    /// A lease without records: it counts as holding one until its records are in, so that it does not end.
    pub fn new(owner: u32, deadline_ms: i64, first: i64) -> Self {
        Self {
            owner,
            deadline_ms,
            first,
            last: first,
            held: 1,
            has_ended: false,
        }
    }
}

struct Slot {
    generation: u32,
    lease: Option<Lease>,
}

/// All leases of a ledger. An id is never used twice, so a timer that fires late finds nothing.
#[derive(Default)]
pub struct Leases {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Those that are gone, until the caller has asked for them.
    ended: Vec<u64>,
}

impl Leases {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Keeps a lease and returns its slot.
    pub fn add(&mut self, lease: Lease) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                let place = &mut self.slots[slot as usize];
                place.generation = place.generation.wrapping_add(1);
                place.lease = Some(lease);
                slot
            }
            None => {
                self.slots.push(Slot {
                    generation: 1,
                    lease: Some(lease),
                });
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// The id by which callers know the lease of a slot.
    pub fn id(&self, slot: u32) -> u64 {
        (u64::from(self.slots[slot as usize].generation) << 32) | u64::from(slot)
    }

    /// The slot of an id; None when that lease is gone.
    pub fn slot(&self, id: u64) -> Option<u32> {
        let slot = (id & u64::from(u32::MAX)) as u32;
        let place = self.slots.get(slot as usize)?;
        (place.lease.is_some() && u64::from(place.generation) == id >> 32).then_some(slot)
    }

    /// The lease of a slot.
    pub fn get(&self, slot: u32) -> Option<&Lease> {
        self.slots.get(slot as usize)?.lease.as_ref()
    }

    /// The lease of a slot, to be changed.
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut Lease> {
        self.slots.get_mut(slot as usize)?.lease.as_mut()
    }

    /// About the bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.free.capacity() * size_of::<u32>()
            + self.ended.capacity() * size_of::<u64>()
    }

    /// The ids of the leases that are gone since this was last asked.
    pub fn take_ended(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.ended)
    }

    /// A new lease got its records, `count` of `first..end`: without any it never was.
    pub fn hold(&mut self, slot: u32, count: u32, first: i64, end: i64) {
        if count == 0 {
            self.drop_slot(slot);
            return;
        }
        if let Some(lease) = self.get_mut(slot) {
            lease.held += count;
            lease.first = first;
            lease.last = (end - 1).max(first);
        }
        self.let_go(slot);
    }

    /// A lease gets one record more.
    pub fn hold_one(&mut self, slot: u32, offset: i64) {
        if let Some(lease) = self.get_mut(slot) {
            lease.held += 1;
            lease.first = lease.first.min(offset);
            lease.last = lease.last.max(offset);
        }
    }

    /// One record less is held; a lease without records is gone.
    pub fn let_go(&mut self, slot: u32) {
        let Some(lease) = self.get_mut(slot) else {
            return;
        };
        lease.held -= 1;
        if lease.held == 0 {
            self.ended.push(self.id(slot));
            self.drop_slot(slot);
        }
    }

    fn drop_slot(&mut self, slot: u32) {
        self.slots[slot as usize].lease = None;
        self.free.push(slot);
    }

    /// The next records of a lease that has ended: from an offset on. Those before stay with their pending changes.
    pub fn go_on_at(&mut self, slot: u32, offset: i64) {
        if let Some(lease) = self.get_mut(slot) {
            lease.first = offset;
        }
    }

    /// The first slot from `from` on of an owner's lease that may hold records without a pending change.
    pub fn next_of_owner(&self, owner: u32, from: u32) -> Option<u32> {
        let places = self.slots.iter().enumerate().skip(from as usize);
        let mut found = places.filter(|(_, place)| {
            place
                .lease
                .as_ref()
                .is_some_and(|lease| lease.owner == owner && lease.first <= lease.last)
        });
        found.next().map(|(slot, _)| slot as u32)
    }
}
