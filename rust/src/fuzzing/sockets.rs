//! Sockets that are written, read, shut down, closed and made anew in any order, beside a model of what each is owed.
//!
//! Each input is a script: an operation, the socket it is about, and how much, over and over. What a peer sends must
//! come out of the turns once, in order and under its own socket; what is sent to a peer must arrive so.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use crate::socket_poll::{Outgoing, Poll, READABLE, RECEIVE, Ready, WRITABLE, send_all};

const SOCKETS: usize = 4;
const WINDOW_BYTES: usize = 4096;

/// A connection, both of its ends, and how far its two streams of numbered bytes have come.
struct Pair {
    name: u8,
    ours: UnixStream,
    theirs: Option<UnixStream>,
    watched: u8,
    has_finished: bool,
    sent_in: usize,
    received_in: usize,
    sent_out: usize,
    received_out: usize,
}

impl Pair {
    fn new(name: u8) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        Pair {
            name,
            ours,
            theirs: Some(theirs),
            watched: 0,
            has_finished: false,
            sent_in: 0,
            received_in: 0,
            sent_out: 0,
            received_out: 0,
        }
    }

    /// The byte at a place of one of the streams: no two sockets have the same.
    fn byte(&self, position: usize, out: bool) -> u8 {
        (position as u8)
            .wrapping_mul(31)
            .wrapping_add(self.name)
            .wrapping_add(if out { 128 } else { 0 })
    }

    fn bytes(&self, from: usize, count: usize, out: bool) -> Vec<u8> {
        (from..from + count)
            .map(|position| self.byte(position, out))
            .collect()
    }

    fn fd(&self) -> RawFd {
        self.ours.as_raw_fd()
    }

    fn peer_sends(&mut self, count: usize) {
        let data = self.bytes(self.sent_in, count, false);
        if let (Some(theirs), false) = (&mut self.theirs, self.has_finished) {
            match theirs.write(&data) {
                Ok(sent) => self.sent_in += sent,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }

    fn peer_reads(&mut self, count: usize) {
        let mut data = vec![0; count];
        let Some(theirs) = &mut self.theirs else {
            return;
        };
        match theirs.read(&mut data) {
            Ok(read) => {
                let expected = self.bytes(self.received_out, read, true);
                assert_eq!(
                    data[..read],
                    expected,
                    "what a peer receives was sent to it"
                );
                self.received_out += read;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }

    fn peer_finishes(&mut self) {
        self.has_finished = true;
        if let Some(theirs) = &self.theirs {
            theirs.shutdown(Shutdown::Write).unwrap();
        }
    }

    fn peer_goes(&mut self) {
        self.has_finished = true;
        self.theirs = None;
    }

    fn has_input(&self) -> bool {
        self.sent_in > self.received_in || self.has_finished
    }
}

/// A turn finds all that is there, and nothing else.
fn turn(poll: &mut Poll, pairs: &mut [Pair], position: usize, share: usize, has_window: bool) {
    let mut window = vec![0xaa; WINDOW_BYTES];
    let space = has_window.then_some(&mut window[..]);
    let turn = poll.turn(space, position, share).unwrap();
    let mut begin = position;
    for each in &turn.received {
        let pair = pairs
            .iter_mut()
            .find(|pair| pair.fd() == each.fd)
            .expect("only sockets that are watched are received from");
        assert_eq!(pair.watched & (READABLE | RECEIVE), READABLE | RECEIVE);
        assert_eq!(each.begin, begin);
        let count = each.end - each.begin;
        assert!((1..=share).contains(&count) && each.end <= WINDOW_BYTES);
        begin = each.end;
        let expected = pair.bytes(pair.received_in, count, false);
        assert_eq!(window[each.begin..each.end], expected);
        pair.received_in += count;
        assert!(pair.received_in <= pair.sent_in);
    }
    assert!(
        window[..position.min(WINDOW_BYTES)]
            .iter()
            .all(|byte| *byte == 0xaa)
    );
    assert!(
        window[begin.min(WINDOW_BYTES)..]
            .iter()
            .all(|byte| *byte == 0xaa)
    );
    for Ready { fd, events } in &turn.ready {
        let pair = pairs.iter().find(|pair| pair.fd() == *fd);
        let watched = pair
            .expect("only sockets that are watched are ready")
            .watched;
        assert!(*events != 0 && events & !(watched & (READABLE | WRITABLE)) == 0);
    }
    for pair in pairs.iter().filter(|pair| pair.watched & READABLE != 0) {
        let is_heard = turn.lost.iter().any(|each| each.fd == pair.fd())
            || turn.received.iter().any(|each| each.fd == pair.fd())
            || turn
                .ready
                .iter()
                .any(|each| each.fd == pair.fd() && each.events & READABLE != 0);
        assert!(
            is_heard || !pair.has_input(),
            "whoever has input is received from or told"
        );
    }
}

/// Sends to those that `which` says, with one call.
fn send(pairs: &mut [Pair], which: u8, count: usize) {
    let chosen: Vec<usize> = (0..pairs.len())
        .filter(|index| which >> index & 1 == 1)
        .collect();
    let pieces: Vec<Vec<u8>> = chosen
        .iter()
        .map(|index| pairs[*index].bytes(pairs[*index].sent_out, count, true))
        .collect();
    let mut outgoing = Outgoing::with_capacity(chosen.len());
    for (index, piece) in chosen.iter().zip(&pieces) {
        // SAFETY: `pieces` outlives `outgoing`.
        unsafe { outgoing.push(pairs[*index].fd(), piece.chunks(100)) };
    }
    for (index, (sent, is_all)) in chosen.iter().zip(send_all(&outgoing)) {
        assert!(sent <= count && is_all == (sent == count));
        pairs[*index].sent_out += sent;
    }
}

/// See the top of the file.
pub fn check(data: &[u8]) {
    let mut poll = Poll::new().unwrap();
    let mut pairs: Vec<Pair> = (0..SOCKETS).map(|name| Pair::new(name as u8)).collect();
    let mut names = SOCKETS as u8;
    for step in data.chunks_exact(3).take(200) {
        let (operation, which, size) = (step[0] % 9, step[1], step[2] as usize);
        let pair = &mut pairs[which as usize % SOCKETS];
        match operation {
            0 => pair.peer_sends(size * size / 8),
            1 => pair.peer_reads(size * size / 8),
            2 => pair.peer_finishes(),
            3 => pair.peer_goes(),
            4 => {
                pair.watched = size as u8 % 8;
                poll.watch(pair.fd(), pair.watched).unwrap();
            }
            5 => {
                poll.watch(pair.fd(), 0).unwrap();
                names = names.wrapping_add(1);
                *pair = Pair::new(names);
            }
            6 => send(&mut pairs, which, size * size / 4),
            7 => turn(&mut poll, &mut pairs, size * 20, which as usize * 8, true),
            _ => turn(&mut poll, &mut pairs, size, which as usize, which % 2 == 0),
        }
    }
    for pair in &mut pairs {
        while pair.theirs.is_some() && pair.received_out < pair.sent_out {
            pair.peer_reads(1 << 16);
        }
        if pair.theirs.is_some() {
            poll.watch(pair.fd(), READABLE | RECEIVE).unwrap();
            pair.watched = READABLE | RECEIVE;
        } else {
            poll.watch(pair.fd(), 0).unwrap();
            pair.watched = 0;
        }
    }
    while pairs
        .iter()
        .any(|pair| pair.watched != 0 && pair.received_in < pair.sent_in)
    {
        turn(&mut poll, &mut pairs, 0, 1000, true);
    }
}
